"""Merge execution: the rows of a source meet those of a table, and files are written.

Which rows meet, and which clause decides of each pair, is found out once, from the columns that
decide, and kept by the executors: rows are then found again by their places in files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial, reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from delta_ops.errors import InvalidRequestError
from delta_ops.lazy import lazy
from delta_ops.log import Snapshot
from delta_ops.planning.merge_columns import MergeColumns, localize, sides_of, split_condition
from delta_ops.planning.scan import plan_scan
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.expression import Expression
from delta_ops.protocol.expression.implication import implied_predicate
from delta_ops.protocol.expression.nodes import Column as ColumnNode
from delta_ops.protocol.expression.nodes import Node, columns_of, conjuncts_of, join_conjuncts
from delta_ops.protocol.expression.resolution import locate
from delta_ops.protocol.expression.statement_time import bind_time
from delta_ops.protocol.features import Engine
from delta_ops.protocol.predicate import TRUE, Or
from delta_ops.protocol.row_rules import Generated
from delta_ops.protocol.row_tracking import row_columns, tracked_definition
from delta_ops.protocol.schema import LONG, StructField, StructType, collation, find_field
from delta_ops.protocol.schema_evolution import validate_given_once
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.spark import jobs
from delta_ops.spark.assignments import are_stable
from delta_ops.spark.call_sites import omitting_call_sites
from delta_ops.spark.changed_rows import (
    CHANGED,
    assign,
    figure_of,
    follow,
    misfit_checks,
    pin,
    tell_rows,
    write_changed,
)
from delta_ops.spark.conditions import SparkCondition, parse_condition, validate_condition
from delta_ops.spark.data_files import WrittenFiles, discard
from delta_ops.spark.empty_rows import empty_rows
from delta_ops.spark.expressions import named_column
from delta_ops.spark.failures import translating_failures
from delta_ops.spark.file_index import ROW
from delta_ops.spark.merge_clauses import (
    CLAUSE,
    PlannedClause,
    Sides,
    choose_clause,
    flags_of_misfits,
    is_among,
    plan_clause,
    values_by_clause,
    where_assigned,
)
from delta_ops.spark.merge_source import (
    SOURCE_ROW,
    Covered,
    Key,
    count_rows,
    cover,
    number_source,
    validate_source,
)
from delta_ops.spark.missing_columns import CompletedRows, gather_tasks, missing_values
from delta_ops.spark.places import reach
from delta_ops.spark.progress import OnTasks, tasks_reporter
from delta_ops.spark.read import NUMBER, read_files, read_numbered
from delta_ops.spark.row_checks import RowCheck
from delta_ops.spark.schema import data_schema_from_spark
from delta_ops.spark.session import is_connect, session_time_zone
from delta_ops.spark.table_columns import fit, null_of
from delta_ops.spark.touched_files import name_touched
from delta_ops.transaction.changeable import validate_assigned
from delta_ops.transaction.merge import Clause, Condition, MergeRequest, merge_metrics, new_columns
from delta_ops.transaction.row_changes import Changed, Discard, TouchedFile, num_live_rows
from delta_ops.transaction.write import merge_columns

_SOURCE, _PLACE, _FILE = "delta_ops source", "delta_ops place", "delta_ops file"
"""Columns of pairs: the row of the source, and the place of the other one."""
_COPIED = "copied"
ROW_BITS = 40
"""The bits of a place, as one number, that are of the row; the others are of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What a merge is over the columns of both sides."""

    spark: SparkSession
    snapshot: Snapshot
    definition: TableDefinition
    """The table as the commit will leave it."""
    condition: SparkCondition
    sides: Sides
    clauses: Mapping[int, PlannedClause]
    """For rows of the table, by number."""
    inserts: Mapping[int, PlannedClause]
    source: DataFrame
    """Pinned."""
    on_tasks: OnTasks

    @property
    def updates(self) -> dict[int, PlannedClause]:
        """The clauses that give new values to rows of the table."""
        return {number: each for number, each in self.clauses.items() if each.assigned}

    def expression_of(self, condition: SparkCondition) -> Expression | None:
        """What our expressions understand of a condition; None: nothing."""
        schemas = (self.definition.schema, self.sides.source_schema)
        return condition.expression_in(session_time_zone(self.spark), schemas)

    @property
    def has_stable_values(self) -> bool:
        """Whether new values of rows are known to come to the same each time they are made."""
        return all(
            are_stable(each.assigned, self.sides.rows_of(each.occasion))
            for each in self.clauses.values()
            if each.assigned is not None
        )

    @property
    def asks_others(self) -> bool:
        """Whether something may become of rows that meet none of the source."""
        return any(each.occasion == "not matched by source" for each in self.clauses.values())

    @property
    def allows_repeats(self) -> bool:
        """Whether it does not matter which of several rows of the source a row meets."""
        matched = [each for each in self.clauses.values() if each.occasion == "matched"]
        match matched:
            case [PlannedClause(action="delete", predicate=None)]:
                return True
        return not matched


class SparkMerge:
    """How this engine merges rows; see `MergeEngine`."""

    name: Engine = "spark"

    def parse(self, condition: Condition) -> SparkCondition:
        """See `MergeEngine`."""
        return parse_condition(condition)

    @property
    def discard(self) -> Discard:
        """See `MergeEngine`."""
        return discard

    @omitting_call_sites()
    def execute(
        self,
        request: MergeRequest,
        clauses: Sequence[Clause],
        snapshot: Snapshot,
        changed: Changed,
    ) -> Mapping[str, int]:
        """See `MergeEngine`."""
        reach(request.source.sparkSession, changed.transaction.log.storage)
        plan = _plan(request, clauses, snapshot, changed)
        with translating_failures(snapshot.uri, snapshot.uri):
            rules, schema = request.source_rules, plan.sides.source_schema
            validate_source(plan.source, rules, schema, snapshot.uri, plan.on_tasks)
            covered = _find_read(request, plan, changed.transaction.clock())
            changed.transaction.read(covered.predicate)
            zone = session_time_zone(plan.spark)
            files = plan_scan(snapshot, covered.predicate, partition_time_zone=zone)
            pairs = _pair(plan, files).persist()
            try:
                return _execute(plan, files, pairs, changed, covered)
            finally:
                pairs.unpersist()


def _plan(
    request: MergeRequest, clauses: Sequence[Clause], snapshot: Snapshot, changed: Changed
) -> _Plan:
    transaction, table = changed.transaction, snapshot.uri
    source: DataFrame = request.source
    spark = source.sparkSession
    source_schema = data_schema_from_spark(source.schema)
    validate_given_once(source_schema, table)
    if request.merge_schema:
        merge_columns(
            transaction, new_columns(clauses, source_schema, snapshot.schema, request.target_alias)
        )
    definition = transaction.definition
    pinned = number_source(source)
    empty = empty_rows(spark, definition.schema)
    sides = Sides(
        target=empty.alias(request.target_alias),
        source=pinned.alias(request.source_alias),
        target_alias=request.target_alias,
        source_alias=request.source_alias,
        source_schema=source_schema,
    )
    validate_condition(request.predicate, sides.rows_of("matched"), table)
    planned = [plan_clause(each, sides, definition, table) for each in clauses]
    of_rows = [
        each
        for occasion in ("matched", "not matched by source")
        for each in planned
        if each.occasion == occasion
    ]
    inserts = [each for each in planned if each.occasion == "not matched"]
    updated = {name for each in of_rows for name in each.names}
    validate_assigned(updated, definition.schema, table)
    return _Plan(
        spark=spark,
        snapshot=snapshot,
        definition=definition,
        condition=request.predicate,
        sides=sides,
        clauses=dict(enumerate(of_rows)),
        inserts=dict(enumerate(inserts)),
        source=pinned,
        on_tasks=tasks_reporter(transaction.on_event, table, "merge"),
    )


def _find_read(request: MergeRequest, plan: _Plan, now_ms: int) -> Covered:
    """The rows of the table on which the outcome depends, as far as we understand it."""
    columns = MergeColumns(
        target=plan.snapshot.schema,
        source=plan.sides.source_schema,
        target_alias=request.target_alias,
        source_alias=request.source_alias,
    )
    covered = _cover_matches(plan, columns, now_ms)
    parts = [covered.predicate]
    find = columns.finder(("target",))
    for each in plan.clauses.values():
        if each.occasion != "not matched by source":
            continue
        expression = plan.expression_of(each.predicate) if each.predicate else None
        if expression is None:
            return covered._replace(predicate=TRUE)
        root = localize(bind_time(expression.root, now_ms), find)
        parts.append(implied_predicate(root, plan.snapshot.schema))
    if len(parts) == 1:
        return covered
    return covered._replace(predicate=TRUE if TRUE in parts else Or(tuple(parts)))


def _cover_matches(plan: _Plan, columns: MergeColumns, now_ms: int) -> Covered:
    expression = plan.expression_of(plan.condition)
    if expression is None:
        return Covered(TRUE)
    try:
        keys, residual = split_condition(expression, columns, now_ms)
    except InvalidRequestError:  # no equality, or what only Spark understands
        return Covered(TRUE)
    find = columns.finder()
    usable = []
    for target, value in keys:
        if isinstance(target, ColumnNode) and isinstance(value, ColumnNode):
            of_target = locate(find(target.path).path[1:], columns.target)
            if collation(find_field(columns.target, of_target.path[0])) is not None:
                continue  # files are not chosen by the bytes of texts that compare otherwise
            of_source = locate(find(value.path).path[1:], columns.source)
            column = reduce(
                lambda parent, name: parent.getField(name),
                of_source.path[1:],
                named_column(of_source.path[0]),
            )
            usable.append(Key(of_target.path, of_target.data_type, column, of_source.data_type))
    covered = cover(plan.source, usable, plan.on_tasks)
    conjuncts: list[Node] = [] if residual is None else list(conjuncts_of(residual))
    of_target_alone = [each for each in conjuncts if sides_of(each, find) == {"target"}]
    condition = join_conjuncts(tuple(localize(each, find) for each in of_target_alone))
    if condition is None:
        return covered
    implied = implied_predicate(condition, columns.target)
    return covered._replace(predicate=covered.predicate & implied)


def _pair(plan: _Plan, files: Sequence[AddFile]) -> DataFrame:
    """A row for each row of the table and of the source that meet, and for each left alone that
    a clause decides of."""
    rows = _evolve(plan, read_numbered(plan.spark, plan.snapshot, files))
    source = plan.source.alias(plan.sides.source_alias)
    how = "left" if plan.asks_others else "inner"
    met = rows.alias(plan.sides.target_alias).join(source, plan.condition.column, how)
    meets = named_column(SOURCE_ROW).isNotNull()
    chosen = choose_clause(
        [
            (number, meets if each.occasion == "matched" else ~meets, each)
            for number, each in plan.clauses.items()
        ]
    )
    names = plan.source.columns if plan.updates else []
    held = [plan.sides.source_column(name).alias(name) for name in names if name != SOURCE_ROW]
    pairs = met.select(
        named_column(NUMBER.name).alias(_FILE),
        named_column(ROW).alias(_PLACE),
        named_column(SOURCE_ROW),
        chosen.alias(CLAUSE),
        *([sf.struct(*held).alias(_SOURCE)] if held else []),
    )
    return pairs.filter(named_column(CLAUSE).isNotNull() | named_column(SOURCE_ROW).isNotNull())


def _execute(
    plan: _Plan,
    files: Sequence[AddFile],
    pairs: DataFrame,
    changed: Changed,
    covered: Covered,
) -> Mapping[str, int]:
    by_vectors = changed.transaction.properties.deletion_vectors
    counts: dict[tuple[str, str], int] = {}
    touched: list[TouchedFile] = []
    may_repeat = plan.allows_repeats and not covered.is_unique
    deciding = _deciding_pairs(pairs, may_repeat=may_repeat)
    rows = _Rows(plan, deciding, files, range(len(files)), is_few=True)
    make_new_rows = partial(_make_new_rows, plan, now_ms=changed.transaction.clock())
    new, is_few = None, False

    def build_ahead() -> _NewRows | None:
        """What is wanted next, if pairs are few and all files are touched."""
        if not by_vectors:
            _ = rows.staying
        return make_new_rows(sf.broadcast(_matched_rows(pairs))) if plan.inserts else None

    if plan.clauses:
        may_be_few = not (may_repeat or is_connect(plan.spark))
        # This thread only waits: an interrupt would spoil its connection to the JVM.
        with (
            jobs.background_call(plan.spark, build_ahead)
            if may_be_few
            else nullcontext(lambda: None)
        ) as built_ahead:
            by_file = _count_pairs(plan, files, pairs, meet_once=covered.is_unique)
            new = built_ahead()
        is_few = may_be_few and jobs.is_sent_whole(pairs)
        for (_, number), count in by_file.items():
            clause = plan.clauses[number]
            key = clause.occasion, clause.action
            counts[key] = counts.get(key, 0) + count
        touched = _list_touched(plan, files, deciding, by_file, changed, names_rows=by_vectors)
    if plan.inserts and (new is None or not is_few):
        new = make_new_rows(_matched_rows(pairs).distinct())  # one row may meet many
    copied, inserted = 0, None
    if touched:
        if not is_few or len(touched) < len(files):
            numbers = {each.path: number for number, each in enumerate(files)}
            of_touched = [numbers[each.file.path] for each in touched]
            rows = replace(
                rows, files=[each.file for each in touched], numbers=of_touched, is_few=is_few
            )
        copied, inserted = _change(rows, touched, new, changed, counts)
    if inserted is None:
        inserted = 0 if new is None else _insert(plan, new, changed, is_told_of=bool(touched))
    num_source = covered.num_rows
    if num_source is None:
        num_source = count_rows(plan.source, plan.on_tasks)
    marked = [each for each in touched if not each.is_whole] if by_vectors else None
    return merge_metrics(changed, num_source, counts, inserted, copied, marked)


def _deciding_pairs(pairs: DataFrame, *, may_repeat: bool) -> DataFrame:
    """One pair for each row of the table that a clause decides of."""
    deciding = pairs.filter(named_column(CLAUSE).isNotNull())
    return deciding.dropDuplicates([_FILE, _PLACE]) if may_repeat else deciding


def _matched_rows(pairs: DataFrame) -> DataFrame:
    """The rows of the source that meet one of the table."""
    return pairs.select(named_column(SOURCE_ROW))


def _count_pairs(
    plan: _Plan, files: Sequence[AddFile], pairs: DataFrame, *, meet_once: bool
) -> dict[tuple[int, int], int]:
    """How many rows of each file each clause decides of.

    Args:
        meet_once: No row of the table is in two pairs.
    """
    file, clause = named_column(_FILE), named_column(CLAUSE)
    decided = pairs.filter(clause.isNotNull())
    if meet_once:
        counted = decided.groupBy(file.alias("file"), clause.alias("clause")).agg(
            sf.count(sf.lit(1)).alias("rows")
        )
        once = jobs.run(plan.spark, counted.collect, plan.on_tasks)
        return {(each["file"], each["clause"]): each["rows"] for each in once}
    by_row = decided.groupBy(file, named_column(_PLACE)).agg(
        sf.count(sf.lit(1)).alias("times"), sf.min(clause).alias("clause")
    )
    counted = by_row.groupBy(file.alias("file"), "clause").agg(
        sf.count(sf.lit(1)).alias("rows"),
        sf.max(sf.struct("times", named_column(_PLACE).alias("row"))).alias("most"),
    )
    found = jobs.run(plan.spark, counted.collect, plan.on_tasks)
    most = max(found, key=lambda each: each["most"]["times"], default=None)
    if most is not None and most["most"]["times"] > 1 and not plan.allows_repeats:
        raise _repeat_error(plan, files[most["file"]], most["most"]["row"], most["most"]["times"])
    return {(each["file"], each["clause"]): each["rows"] for each in found}


def _list_touched(
    plan: _Plan,
    files: Sequence[AddFile],
    deciding: DataFrame,
    by_file: Mapping[tuple[int, int], int],
    changed: Changed,
    *,
    names_rows: bool,
) -> list[TouchedFile]:
    if names_rows and by_file:
        rows = deciding.select(
            named_column(_FILE).alias(NUMBER.name), named_column(_PLACE).alias(ROW)
        )
        on_event = changed.transaction.on_event
        return name_touched(plan.spark, plan.snapshot, files, rows, on_event, names_rows=True)
    sums: dict[int, int] = {}
    for (number, _), count in by_file.items():
        sums[number] = sums.get(number, 0) + count
    return [
        TouchedFile(file=files[number], num_rows=sums[number], is_whole=False)
        for number in sorted(sums)
    ]


@dataclass(frozen=True)
class _Rows:
    """The rows of touched files, beside what the source has for them."""

    plan: _Plan
    deciding: DataFrame
    files: Sequence[AddFile]
    numbers: Sequence[int]
    """What the pairs call each file."""
    is_few: bool
    """Whether the pairs are sent whole to every task."""

    @lazy
    def staying(self) -> DataFrame:
        """The rows that no clause deletes, with their new values."""
        plan = self.plan
        is_deleted = is_among([number for number in plan.clauses if number not in plan.updates])
        return self.assign(self.join("left").filter(~is_deleted))

    def join(self, how: str) -> DataFrame:
        """All rows ("left"), or those of which a clause decides ("inner")."""
        plan = self.plan
        rows = read_numbered(plan.spark, plan.snapshot, self.files, self.numbers)
        of_source = self.source_rows()
        return (
            _evolve(plan, rows)
            .alias(plan.sides.target_alias)
            .join(
                sf.broadcast(of_source) if self.is_few else of_source,
                _is_same_row((NUMBER.name, ROW), (_FILE, _PLACE)),
                how,
            )
        )

    def source_rows(self) -> DataFrame:
        """The rows of the source that decide, and the places of the rows that they meet."""
        held = [sf.col(f"`{_SOURCE}`.*")] if self.plan.updates else []
        places = [named_column(name) for name in (_FILE, _PLACE, CLAUSE)]
        return self.deciding.select(*places, *held).alias(self.plan.sides.source_alias)

    def assign(self, rows: DataFrame) -> DataFrame:
        """Rows that stay, with their new values."""
        plan, table = self.plan, self.plan.snapshot.uri
        updates, updated = plan.updates, is_among(list(plan.updates))
        names = [f.name for f in tracked_definition(plan.definition, table).schema.fields]
        values = {
            name: values_by_clause(updates, name, plan.sides.target_column(name)) for name in names
        }
        misfits = flags_of_misfits(updates)
        clause = named_column(CLAUSE)
        made = assign(rows, values, misfits, updated.alias(CHANGED), clause)
        return follow(made, partial(where_assigned, updates), plan.definition, table)

    def make_updates(self) -> DataFrame:
        """The rows that get new values, with these."""
        rows = self.join("inner").filter(is_among(list(self.plan.updates)))
        return self.assign(rows)

    def changes(self, updated: DataFrame | None) -> list[tuple[str, DataFrame]]:
        """The rows that change, as they were and as they are.

        Args:
            updated: The rows with their new values; None: they are made again.
        """
        plan = self.plan
        rows = self.join("inner")
        names = [f.name for f in plan.definition.schema.fields]
        before = rows.select(*map(plan.sides.target_column, names), named_column(CLAUSE))
        is_updated = is_among(list(plan.updates))
        told = [("delete", before.filter(~is_updated))]
        if plan.updates:
            told.append(("update_preimage", before.filter(is_updated)))
            told.append(("update_postimage", self.make_updates() if updated is None else updated))
        return told


def _change(
    rows: _Rows,
    touched: Sequence[TouchedFile],
    new: _NewRows | None,
    changed: Changed,
    counts: Mapping[tuple[str, str], int],
) -> tuple[int, int | None]:
    """Change the rows of touched files: how many stay as they are, and how many new ones came.

    Args:
        new: Rows that may be written with those; the second number is None where they are not.
        counts: How many rows clauses decide of, by occasion and action.
    """
    plan = rows.plan
    by_vectors = changed.transaction.properties.deletion_vectors
    tells = plan.definition.has_change_feed
    # Readers of the feed are told the values that the rows have.
    updated = pin(rows.make_updates()) if tells and not plan.has_stable_values else None
    # Values that are counted on are counted over the new rows alone; the feed tells of them too.
    along = None if new is None or tells or new.completed.counted else new
    copied, inserted = 0, None
    if plan.updates or not by_vectors:
        # Statistics may be wrong; no row depends on them here, what is told of the merge does.
        live = [] if by_vectors else [num_live_rows(each.file) for each in touched]
        counts_copied = None in live
        written = _write_staying(rows, updated, along, changed, counts_copied=counts_copied)
        if counts_copied:
            copied = figure_of(written, _COPIED)
        elif not by_vectors:  # by which no row is copied
            copied = sum(each or 0 for each in live) - sum(counts.values())
        if along is not None:
            num_updated = sum(n for (_, action), n in counts.items() if action == "update")
            inserted = written.num_rows - copied - num_updated
    if by_vectors:
        changed.mark_deleted([each for each in touched if not each.is_whole])
    changed.remove([each.file for each in touched if each.is_whole or not by_vectors])
    if tells:
        tell_rows(changed, rows.changes(updated))
    return copied, inserted


def _write_staying(
    rows: _Rows,
    updated: DataFrame | None,
    new: _NewRows | None,
    changed: Changed,
    *,
    counts_copied: bool,
) -> WrittenFiles:
    """Write the rows of touched files that stay, by vectors only those with new values.

    Args:
        updated: The rows with their new values; None: they are made here.
        new: Rows to write with them.
        counts_copied: Whether to count those that stay as they were.
    """
    plan = rows.plan
    checks = misfit_checks(flags_of_misfits(plan.updates))
    if changed.transaction.properties.deletion_vectors:
        staying = rows.assign(_updated_rows(rows)) if updated is None else updated
    elif updated is None:
        staying = rows.staying
    else:
        others = rows.join("left").filter(named_column(CLAUSE).isNull())
        staying = rows.assign(others).unionAll(updated)
    if new is not None:
        # Where only some rows have the ids that tracked rows keep, the others are new ones.
        staying = staying.unionByName(new.completed.frame, allowMissingColumns=True)
        checks += new.checks
    figures = {_COPIED: sf.count_if(~named_column(CHANGED))} if counts_copied else {}
    return write_changed(changed, staying, checks, figures, among=named_column(CHANGED))


def _updated_rows(rows: _Rows) -> DataFrame:
    """The rows that get new values; where they keep none, the table's are not read again."""
    plan = rows.plan
    updated = is_among(list(plan.updates))
    made = {each.column for each in plan.definition.row_rules if isinstance(each, Generated)}
    names = {field.name for field in plan.definition.schema.fields}
    takes_all = all(each.takes_all and each.names | made >= names for each in plan.updates.values())
    if not takes_all or row_columns(plan.definition, plan.snapshot.uri) is not None:
        return rows.join("inner").filter(updated)
    nothing = empty_rows(plan.spark, plan.definition.schema).alias(plan.sides.target_alias)
    return rows.source_rows().filter(updated).join(nothing, sf.lit(True), "left")


@dataclass(frozen=True, slots=True, kw_only=True)
class _NewRows:
    """The rows of the source that meet none of the table, as clauses make them."""

    completed: CompletedRows
    checks: Sequence[RowCheck]


def _make_new_rows(plan: _Plan, met: DataFrame, now_ms: int) -> _NewRows:
    definition, table = plan.definition, plan.snapshot.uri
    unmet = plan.source.join(met, SOURCE_ROW, "left_anti").alias(plan.sides.source_alias)
    chosen = choose_clause([(number, sf.lit(True), each) for number, each in plan.inserts.items()])
    rows = unmet.withColumn(CLAUSE, chosen).filter(named_column(CLAUSE).isNotNull())
    missing = {
        number: missing_values(each.names, definition, plan.spark, now_ms, table)
        for number, each in plan.inserts.items()
    }
    counted = {each.name: each for by in missing.values() for each in by.counted}
    if counted:
        rows = gather_tasks(rows)
    values = {
        field.name: values_by_clause(
            plan.inserts,
            field.name,
            {
                number: by.values[field.name]
                if field.name in by.values
                else null_of(field.data_type)
                for number, by in missing.items()
                if field.name not in plan.inserts[number].names
            },
        )
        for field in definition.schema.fields
    }
    misfits, first = flags_of_misfits(plan.inserts), len(flags_of_misfits(plan.updates))
    is_changed, clause = sf.lit(True).alias(CHANGED), named_column(CLAUSE)
    made = assign(rows, values, misfits, is_changed, clause, first_misfit=first)
    new = follow(made, partial(where_assigned, plan.inserts), definition, table)
    completed = CompletedRows(frame=new, counted=tuple(counted.values()), table=table)
    return _NewRows(completed=completed, checks=[*misfit_checks(misfits, first), *completed.checks])


def _insert(plan: _Plan, new: _NewRows, changed: Changed, *, is_told_of: bool) -> int:
    """Write new rows alone.

    Args:
        is_told_of: Whether files tell readers of the feed what the merge does.
    """
    written = write_changed(
        changed,
        new.completed.frame,
        new.checks,
        new.completed.figures,
        counted=new.completed.counted_values,
        among=sf.lit(True),
    )
    if is_told_of and plan.definition.has_change_feed:  # else the files that are added tell it
        told = read_files(plan.spark, plan.snapshot, written.adds, plan.definition)
        tell_rows(changed, [("insert", told)])
    return written.num_rows


def _is_same_row(left: tuple[str, str], right: tuple[str, str]) -> Column:
    """Whether two places are the same, by the columns of the file's number and of the row's.

    Spark finds rows faster by one number than by two. That one number is the same may be chance, in
    files of very many rows or among very many files: the files are compared as well, in a way that
    Spark does not take for another key.
    """

    def key(place: tuple[str, str]) -> Column:
        file, row = map(named_column, place)
        return sf.shiftleft(file.cast("long"), ROW_BITS).bitwiseXOR(row)

    is_same_file = named_column(left[0]) - named_column(right[0]) == 0
    return (key(left) == key(right)) & is_same_file


def _evolve(plan: _Plan, rows: DataFrame) -> DataFrame:
    """Rows of the table with the columns that the merge gives it."""
    before, table = plan.snapshot.definition, plan.snapshot.uri
    if plan.definition.schema == before.schema:
        return rows
    places = (NUMBER, StructField(ROW, LONG))
    wanted = tracked_definition(plan.definition, table).schema
    return fit(rows, StructType((*wanted.fields, *places)), table).frame


def _repeat_error(plan: _Plan, file: AddFile, row: int, times: int) -> InvalidRequestError:
    expression = plan.expression_of(plan.condition)
    known = plan.snapshot.schema.fields_by_lower_name
    paths = [each.path for each in columns_of(expression.root)] if expression else []
    alias = plan.sides.target_alias.lower()
    names = {
        known[path[1].lower()][0].name
        for path in paths
        if len(path) > 1 and path[0].lower() == alias and path[1].lower() in known
    }
    said = f"row {row} of the file {file.path}"
    if names:
        rows = read_numbered(plan.spark, plan.snapshot, [file]).filter(named_column(ROW) == row)
        (found,) = rows.select(*map(named_column, sorted(names))).collect()
        said = "the row with " + ", ".join(f"{name} = {found[name]}" for name in sorted(names))
    return InvalidRequestError(
        f"{plan.snapshot.uri}: {said} meets {times} rows of the source that would change it; "
        "leave one row for each key in the source, nothing was committed"
    )

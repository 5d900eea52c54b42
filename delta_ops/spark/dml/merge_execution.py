"""Merge execution: the rows of a source meet those of a table, and files are written.

Which rows meet, and which clause decides of each pair, is found out once, from the columns that
decide, and kept by the executors: rows are then found again by their places in files. Where no
pairs are needed for that, files are written in one pass (`merge_in_one_pass`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from delta_ops.errors import InvalidRequestError
from delta_ops.lazy import lazy
from delta_ops.log import Snapshot
from delta_ops.planning.scan import plan_scan
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.expression.nodes import columns_of
from delta_ops.protocol.features import Engine
from delta_ops.protocol.row_rules import Generated
from delta_ops.protocol.row_tracking import row_columns
from delta_ops.spark.dml.changed_rows import (
    CHANGED,
    figure_of,
    misfit_checks,
    pin,
    tell_rows,
    write_changed,
)
from delta_ops.spark.dml.merge_clauses import CLAUSE, choose_clause, flags_of_misfits, is_among
from delta_ops.spark.dml.merge_in_one_pass import merge_in_one_pass
from delta_ops.spark.dml.merge_planning import MergePlan, find_read, plan_merge
from delta_ops.spark.dml.merge_rows import NewRows, assign_updates, evolve, insert, make_new_rows
from delta_ops.spark.dml.merge_source import SOURCE_ROW, Covered, count_rows, validate_source
from delta_ops.spark.dml.touched_files import name_touched
from delta_ops.spark.empty_rows import empty_rows
from delta_ops.spark.expressions.columns import named_column
from delta_ops.spark.expressions.conditions import (
    SparkCondition,
    join_conditions,
    own_condition,
    parse_condition,
)
from delta_ops.spark.places import reach
from delta_ops.spark.read.file_index import ROW_NUMBER
from delta_ops.spark.read.read import NUMBER, read_numbered
from delta_ops.spark.session import jobs
from delta_ops.spark.session.call_sites import omitting_call_sites
from delta_ops.spark.session.failures import translating_failures
from delta_ops.spark.session.session import is_connect, session_time_zone
from delta_ops.spark.write.data_files import WrittenFiles, discard
from delta_ops.transaction.merge import Clause, Condition, MergeRequest, merge_metrics
from delta_ops.transaction.row_changes import Changed, Discard, TouchedFile, num_live_rows

_SOURCE, _PLACE, _FILE = "delta_ops source", "delta_ops place", "delta_ops file"
"""Columns of pairs: the row of the source, and the place of the other one."""
_COPIED = "copied"
ROW_BITS = 40
"""The bits of a place, as one number, that are of the row; the others are of the file."""


class SparkMerge:
    """How this engine merges rows; see `MergeEngine`."""

    name: Engine = "spark"

    def parse(self, condition: Condition) -> SparkCondition:
        """See `MergeEngine`."""
        return parse_condition(condition)

    def parse_own(self, text: str) -> SparkCondition:
        """See `MergeEngine`."""
        return own_condition(text)

    def join(self, conditions: Sequence[SparkCondition]) -> SparkCondition:
        """See `MergeEngine`."""
        return join_conditions(conditions)

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
        plan = plan_merge(request, clauses, snapshot, changed)
        with translating_failures(snapshot.uri, snapshot.uri):
            rules, schema = request.source_rules, plan.sides.source_schema
            validate_source(plan.source, rules, schema, snapshot.uri, plan.on_tasks)
            covered = find_read(plan, changed.transaction.clock())
            changed.transaction.read(covered.predicate)
            changed.transaction.partition_time_zone = zone = session_time_zone(plan.spark)
            files = plan_scan(snapshot, covered.predicate, partition_time_zone=zone)
            in_one_pass = merge_in_one_pass(plan, files, covered, changed)
            if in_one_pass is not None:
                return in_one_pass
            pairs = _pair(plan, files).persist()
            try:
                return _execute(plan, files, pairs, changed, covered)
            finally:
                pairs.unpersist()


def _pair(plan: MergePlan, files: Sequence[AddFile]) -> DataFrame:
    """A row for each row of the table and of the source that meet, and for each left alone that
    a clause decides of."""
    rows = evolve(plan, read_numbered(plan.spark, plan.snapshot, files))
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
        named_column(ROW_NUMBER).alias(_PLACE),
        named_column(SOURCE_ROW),
        chosen.alias(CLAUSE),
        *([sf.struct(*held).alias(_SOURCE)] if held else []),
    )
    return pairs.filter(named_column(CLAUSE).isNotNull() | named_column(SOURCE_ROW).isNotNull())


def _execute(
    plan: MergePlan,
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
    now_ms = changed.transaction.clock()

    def make_new(met: DataFrame) -> NewRows:
        return make_new_rows(plan, plan.source.join(met, SOURCE_ROW, "left_anti"), now_ms)

    new, is_few = None, False

    def build_ahead() -> NewRows | None:
        """What is wanted next, if pairs are few and all files are touched."""
        if not by_vectors:
            _ = rows.staying
        return make_new(sf.broadcast(_matched_rows(pairs))) if plan.inserts else None

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
        new = make_new(_matched_rows(pairs).distinct())  # one row may meet many
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
        inserted = 0 if new is None else insert(plan, new, changed, is_told_of=bool(touched))
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
    plan: MergePlan, files: Sequence[AddFile], pairs: DataFrame, *, meet_once: bool
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
    plan: MergePlan,
    files: Sequence[AddFile],
    deciding: DataFrame,
    by_file: Mapping[tuple[int, int], int],
    changed: Changed,
    *,
    names_rows: bool,
) -> list[TouchedFile]:
    if names_rows and by_file:
        rows = deciding.select(
            named_column(_FILE).alias(NUMBER.name), named_column(_PLACE).alias(ROW_NUMBER)
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

    plan: MergePlan
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
        return assign_updates(self.plan, self.join("left").filter(~is_deleted))

    def join(self, how: str) -> DataFrame:
        """All rows ("left"), or those of which a clause decides ("inner")."""
        plan = self.plan
        rows = read_numbered(plan.spark, plan.snapshot, self.files, self.numbers)
        of_source = self.source_rows()
        return (
            evolve(plan, rows)
            .alias(plan.sides.target_alias)
            .join(
                sf.broadcast(of_source) if self.is_few else of_source,
                _is_same_row((NUMBER.name, ROW_NUMBER), (_FILE, _PLACE)),
                how,
            )
        )

    def source_rows(self) -> DataFrame:
        """The rows of the source that decide, and the places of the rows that they meet."""
        held = [sf.col(f"`{_SOURCE}`.*")] if self.plan.updates else []
        places = [named_column(name) for name in (_FILE, _PLACE, CLAUSE)]
        return self.deciding.select(*places, *held).alias(self.plan.sides.source_alias)

    def make_updates(self) -> DataFrame:
        """The rows that get new values, with these."""
        rows = self.join("inner").filter(is_among(list(self.plan.updates)))
        return assign_updates(self.plan, rows)

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
    new: NewRows | None,
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
    new: NewRows | None,
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
        staying = assign_updates(plan, _updated_rows(rows)) if updated is None else updated
    elif updated is None:
        staying = rows.staying
    else:
        others = rows.join("left").filter(named_column(CLAUSE).isNull())
        staying = assign_updates(plan, others).unionAll(updated)
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


def _repeat_error(plan: MergePlan, file: AddFile, row: int, times: int) -> InvalidRequestError:
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
        rows = read_numbered(plan.spark, plan.snapshot, [file]).filter(
            named_column(ROW_NUMBER) == row
        )
        (found,) = rows.select(*map(named_column, sorted(names))).collect()
        said = "the row with " + ", ".join(f"{name} = {found[name]}" for name in sorted(names))
    return InvalidRequestError(
        f"{plan.snapshot.uri}: {said} meets {times} rows of the source that would change it; "
        "leave one row for each key in the source, nothing was committed"
    )

"""Merge pairs: finds matching rows of table and source, and the clause for each pair.

Spark finds the pairs once, reads only the columns in conditions, and keeps the pairs on the
executors. Later jobs find the rows again by their positions in the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from delta_ops.errors import RepeatedMatchError
from delta_ops.events import OnEvent
from delta_ops.lazy import lazy
from delta_ops.planning.missing_columns import generated_columns
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.expression.nodes import columns_of
from delta_ops.protocol.row_tracking import row_columns
from delta_ops.spark.dml.merge_clauses import CLAUSE, choose_clause, is_among
from delta_ops.spark.dml.merge_planning import MergePlan
from delta_ops.spark.dml.merge_rows import assign_updates, evolve
from delta_ops.spark.dml.merge_source import SOURCE_ROW, Covered
from delta_ops.spark.dml.touched_files import name_touched
from delta_ops.spark.expressions.columns import named_column
from delta_ops.spark.read.file_index import ROW_NUMBER
from delta_ops.spark.read.read import NUMBER, read_numbered
from delta_ops.spark.schema import empty_rows
from delta_ops.spark.session import jobs
from delta_ops.transaction.row_changes import TouchedFile

_SOURCE, _PLACE, _FILE = "delta_ops source", "delta_ops place", "delta_ops file"
"""Columns of pairs: values of the source row, number of the table row, number of its file."""
ROW_BITS = 40
"""Bits of the row number if a position is stored as one number; higher bits hold the file."""

RowCounts = Mapping[tuple[int, int], int]
"""Number of rows that a clause changes, by the numbers of file and clause."""


@dataclass(frozen=True)
class Pairs:
    """One row for each match, and for each unmatched row of the table with a clause."""

    plan: MergePlan
    files: Sequence[AddFile]
    """All files that may contain a match or a row with a clause."""
    frame: DataFrame
    covered: Covered

    @property
    def may_repeat(self) -> bool:
        """Whether a row of the table may be in several pairs, which then give the same result."""
        return self.plan.allows_repeats and not self.covered.is_unique

    @lazy
    def deciding(self) -> DataFrame:
        """One pair for each row of the table that a clause changes."""
        deciding = self.frame.filter(named_column(CLAUSE).isNotNull())
        return deciding.dropDuplicates([_FILE, _PLACE]) if self.may_repeat else deciding

    def matched_rows(self) -> DataFrame:
        """Numbers of the source rows that match a row of the table."""
        return self.frame.select(named_column(SOURCE_ROW))

    def count_rows(self) -> RowCounts:
        """Count the rows of each file that each clause changes.

        Raises:
            RepeatedMatchError: Several source rows would change one row of the table.
        """
        plan, file, clause = self.plan, named_column(_FILE), named_column(CLAUSE)
        decided = self.frame.filter(clause.isNotNull())
        if self.covered.is_unique:
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
            row, times = most["most"]["row"], most["most"]["times"]
            raise _repeat_error(plan, self.files[most["file"]], row, times)
        return {(each["file"], each["clause"]): each["rows"] for each in found}

    def list_touched(
        self, counts: RowCounts, on_event: OnEvent, *, names_rows: bool
    ) -> list[TouchedFile]:
        """List the files with rows that a clause changes.

        Args:
            names_rows: Whether to find the rows too.
        """
        plan = self.plan
        if names_rows and counts:
            rows = self.deciding.select(
                named_column(_FILE).alias(NUMBER.name), named_column(_PLACE).alias(ROW_NUMBER)
            )
            return name_touched(
                plan.spark, plan.snapshot, self.files, rows, on_event, names_rows=True
            )
        sums: dict[int, int] = {}
        for (number, _), count in counts.items():
            sums[number] = sums.get(number, 0) + count
        return [
            TouchedFile(file=self.files[number], num_rows=sums[number], is_whole=False)
            for number in sorted(sums)
        ]


@contextmanager
def find_pairs(plan: MergePlan, files: Sequence[AddFile], covered: Covered) -> Iterator[Pairs]:
    """Find the pairs of a merge; the executors keep them until the context ends."""
    frame = _join(plan, files).persist()
    try:
        yield Pairs(plan, files, frame, covered)
    finally:
        frame.unpersist()


def _join(plan: MergePlan, files: Sequence[AddFile]) -> DataFrame:
    rows = evolve(plan, read_numbered(plan.spark, plan.snapshot, files))
    source = plan.source.alias(plan.sides.source_alias)
    how = "left" if plan.changes_unmatched_rows else "inner"
    met = rows.alias(plan.sides.target_alias).join(source, plan.condition.column, how)
    meets = named_column(SOURCE_ROW).isNotNull()
    chosen = choose_clause(
        [
            (number, meets if each.kind == "matched" else ~meets, each)
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


@dataclass(frozen=True)
class TouchedRows:
    """The rows of touched files, joined with their source rows."""

    pairs: Pairs
    files: Sequence[AddFile]
    numbers: Sequence[int]
    """Number of each file in the pairs."""
    is_few: bool
    """Whether the pairs are sent whole to every task."""

    @property
    def plan(self) -> MergePlan:
        """The merge."""
        return self.pairs.plan

    @lazy
    def staying(self) -> DataFrame:
        """Rows that no clause deletes, with their new values."""
        plan = self.plan
        is_deleted = is_among([number for number in plan.clauses if number not in plan.updates])
        return assign_updates(plan, self.join("left").filter(~is_deleted))

    def join(self, how: str) -> DataFrame:
        """Join all rows ("left"), or only the rows that a clause changes ("inner")."""
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
        """The source rows of the deciding pairs, with the positions of their table rows."""
        held = [sf.col(f"`{_SOURCE}`.*")] if self.plan.updates else []
        places = [named_column(name) for name in (_FILE, _PLACE, CLAUSE)]
        return self.pairs.deciding.select(*places, *held).alias(self.plan.sides.source_alias)

    def make_updates(self) -> DataFrame:
        """Compute the updated rows."""
        rows = self.join("inner").filter(is_among(list(self.plan.updates)))
        return assign_updates(self.plan, rows)

    def changes(self, updated: DataFrame | None) -> list[tuple[str, DataFrame]]:
        """The changed rows for the change data feed, before and after the change.

        Args:
            updated: The updated rows; None: compute them again.
        """
        plan = self.plan
        rows = self.join("inner")
        names = [f.name for f in plan.definition.schema.fields]
        before = rows.select(*map(plan.sides.target_column, names), named_column(CLAUSE))
        is_updated = is_among(list(plan.updates))
        images = [("delete", before.filter(~is_updated))]
        if plan.updates:
            images.append(("update_preimage", before.filter(is_updated)))
            images.append(("update_postimage", self.make_updates() if updated is None else updated))
        return images

    def select_updated(self) -> DataFrame:
        """The rows to update. The table is not read again if the updates replace every value."""
        plan = self.plan
        is_updated = is_among(list(plan.updates))
        made = {each.column for each in generated_columns(plan.definition)}
        names = {field.name for field in plan.definition.schema.fields}
        takes_all = all(
            each.takes_all and each.names | made >= names for each in plan.updates.values()
        )
        if not takes_all or row_columns(plan.definition, plan.snapshot.uri) is not None:
            return self.join("inner").filter(is_updated)
        nothing = empty_rows(plan.spark, plan.definition.schema).alias(plan.sides.target_alias)
        return self.source_rows().filter(is_updated).join(nothing, sf.lit(True), "left")


def _is_same_row(left: tuple[str, str], right: tuple[str, str]) -> Column:
    """Whether two positions are the same.

    Spark joins faster on one number than on two, so the key combines file and row. In very large
    files, or with very many files, different positions may share a key. The file numbers are
    therefore compared too, in a form that Spark does not treat as a second join key.

    Args:
        left: Columns with the numbers of file and row.
        right: Columns with the numbers of file and row on the other side.
    """

    def key(place: tuple[str, str]) -> Column:
        file, row = map(named_column, place)
        return sf.shiftleft(file.cast("long"), ROW_BITS).bitwiseXOR(row)

    is_same_file = named_column(left[0]) - named_column(right[0]) == 0
    return (key(left) == key(right)) & is_same_file


def _repeat_error(plan: MergePlan, file: AddFile, row: int, times: int) -> RepeatedMatchError:
    expression = plan.expression_of(plan.condition)
    known = plan.snapshot.schema.fields_by_lower_name
    paths = [each.path for each in columns_of(expression.root)] if expression else []
    alias = plan.sides.target_alias.lower()
    names = {
        known[path[1].lower()][0].name
        for path in paths
        if len(path) > 1 and path[0].lower() == alias and path[1].lower() in known
    }
    place = f"row {row} of the file {file.path}"
    if names:
        rows = read_numbered(plan.spark, plan.snapshot, [file]).filter(
            named_column(ROW_NUMBER) == row
        )
        (found,) = rows.select(*map(named_column, sorted(names))).collect()
        place = "the row with " + ", ".join(f"{name} = {found[name]}" for name in sorted(names))
    return RepeatedMatchError(
        f"{plan.snapshot.uri}: {place} matches {times} source rows that would change it; keep one "
        "source row for each key. Nothing was committed"
    )

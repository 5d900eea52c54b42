"""Merge in one pass: rewrites files without finding pairs of rows first.

This needs a source where no row of the table can match two rows, and files that are each likely to
contain many matches. The merge reads each file once, joins it with the source, and rewrites it. In
the same job it inserts the source rows whose keys are outside the key ranges of all files. Bitmaps
then show the touched files and the matched source rows. If a file was not touched, or an inserted
source row matched after all, the written files are discarded, and the merge continues with
`merge_pairs`. Source rows that were expected to match and did not are inserted afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from delta_ops.lazy import lazy
from delta_ops.planning.key_ranges import Range, find_likely_ranges
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.columns.mapping import physical_path
from delta_ops.spark.assignments import are_stable
from delta_ops.spark.dml.changed_rows import (
    CHANGED,
    WrittenWithFlags,
    figure_of,
    misfit_checks,
    write_with_flags,
)
from delta_ops.spark.dml.merge_clauses import CLAUSE, flags_of_misfits
from delta_ops.spark.dml.merge_planning import MergePlan
from delta_ops.spark.dml.merge_rows import NewRows, assign_updates, evolve, insert, make_new_rows
from delta_ops.spark.dml.merge_source import SOURCE_ROW, Covered, UniqueNumbers
from delta_ops.spark.expressions.analysis import analyze
from delta_ops.spark.expressions.columns import named_column
from delta_ops.spark.read.read import NUMBER, read_numbered
from delta_ops.spark.session import jobs
from delta_ops.spark.versions import frame_of_arrow, is_connect
from delta_ops.spark.write.data_files import WrittenFiles, discard
from delta_ops.spark.write.missing_columns import ROWS_OF_TASK
from delta_ops.transaction.merge import merge_metrics
from delta_ops.transaction.row_changes import Changed, num_live_rows

LEAST_HITS = 20
"""Expected matches per file. With this many, a file without any match is very unlikely."""
_MOST_BYTES = 256 * 1024 * 1024
"""Limit for the total size of the files; the write may be discarded and must not cost too much."""
_BLOCK = 32_768
"""Bits in one bitmap aggregate of Spark."""
_MOST_ROWS = 8 * _BLOCK
"""Limit for source rows. Each written row passes through one aggregate per block of source rows."""
_MOST_TASKS = 1_000
"""Limit for source tasks. The position of each task's first row is sent to Spark as SQL text."""
_TASK_BITS = ROWS_OF_TASK.bit_length()
_MET, _TOUCHED = "delta_ops met", "delta_ops touched"
"""Bits of matched source rows, by block, and of touched files; names of columns and of figures."""
_UPDATED = "updated"
_KEY = "delta_ops key"


def merge_in_one_pass(
    plan: MergePlan, files: Sequence[AddFile], covered: Covered, changed: Changed
) -> Mapping[str, int] | None:
    """Merge and return the metrics, or return None without a change if pairs must be found first.

    Args:
        files: All files that may contain a match.

    Raises:
        InvalidRequestError: A row breaks a rule, or the rows cannot be computed.
        StorageError: The store failed.
    """
    numbers = covered.numbers
    if numbers is None or not files or not _may_try(plan, files, numbers, changed):
        return None
    key, definition = numbers.key, plan.snapshot.definition
    path = physical_path(key.path, definition.schema) if definition.is_mapped else key.path
    keys = numbers.values.drop_null().to_numpy()
    ranges = find_likely_ranges(files, path, key.data_type, keys, LEAST_HITS)
    if ranges is None or not jobs.is_sent_whole(plan.source) or not _has_stable_values(plan):
        return None
    source = _Source(plan.source, numbers, ranges)
    make_new = partial(make_new_rows, plan, now_ms=changed.transaction.clock())
    new = make_new(source.outside_rows()) if plan.inserts else None
    if new is not None and new.completed.counted:
        return None
    written, checked = _write(plan, files, source, new, changed)
    all_touched = np.count_nonzero(_bits(written, _TOUCHED)) == len(files)
    is_inside, is_met = source.are_inside, source.are_met(written)
    # Statistics may be wrong: a row outside the ranges was inserted, so it must not match any row.
    if not all_touched or (is_met & ~is_inside).any():
        discard(changed.transaction.log.storage, written.adds)
        return None
    changed.add(written.adds, checked)
    changed.remove(files)
    num_live = sum(num_live_rows(each) or 0 for each in files)
    num_inserted, num_updated = written.num_rows - num_live, figure_of(written, _UPDATED)
    is_late = is_inside & ~is_met
    if plan.inserts and is_late.any():
        num_inserted += insert(plan, make_new(source.rows_at(is_late).coalesce(1)), changed)
    return merge_metrics(
        changed,
        len(numbers.rows),
        {("matched", "update"): num_updated},
        num_inserted,
        num_live - num_updated,
        None,
    )


def _may_try(
    plan: MergePlan, files: Sequence[AddFile], numbers: UniqueNumbers, changed: Changed
) -> bool:
    match list(plan.clauses.values()):
        case [only] if only.action == "update" and only.kind == "matched":
            is_upsert = only.predicate is None
        case _:
            is_upsert = False
    return (
        is_upsert
        and not changed.transaction.definition.properties.deletion_vectors
        and not plan.definition.has_change_feed
        and len(files) <= _BLOCK
        and sum(each.size for each in files) <= _MOST_BYTES
        and len(numbers.rows) <= _MOST_ROWS
        and int(numbers.rows.max(initial=0)) >> _TASK_BITS < _MOST_TASKS
        and not is_connect(plan.spark)
    )


def _has_stable_values(plan: MergePlan) -> bool:
    """Whether a late insert gives rows the same values as an insert in the first job."""
    clauses = [*plan.clauses.values(), *plan.inserts.values()]
    return not plan.inserts or all(
        (each.predicate is None or analyze(each.predicate.column, rows).is_stable)
        and (each.takes_all or each.assigned is None or are_stable(each.assigned, rows))
        for each in clauses
        for rows in [plan.sides.rows_of(each.kind)]
    )


@dataclass(frozen=True)
class _Source:
    """Rows of the source, with positions from 0 in the order of their row numbers.

    Rows with keys inside the ranges of the files are expected to match. The other rows cannot
    match.
    """

    rows: DataFrame
    numbers: UniqueNumbers
    ranges: Sequence[Range]

    def bits(self) -> dict[str, Column]:
        """For each block of positions, the bit of the matched source row.

        The bit is null if the source row belongs to another block.
        """
        tasks = self.numbers.rows >> _TASK_BITS
        firsts = np.searchsorted(np.sort(tasks), np.arange(int(tasks.max()) + 1))
        row = named_column(SOURCE_ROW)
        task = sf.shiftright(row, _TASK_BITS).cast("int")  # the task that numbered the row
        of_tasks = sf.expr(f"array({', '.join(f'{first}L' for first in firsts)})")
        place = sf.get(of_tasks, task) + row.bitwiseAND(sf.lit(ROWS_OF_TASK))
        blocks = {first: place - first for first in range(0, len(tasks), _BLOCK)}
        return {
            f"{_MET} {first // _BLOCK}": sf.when(bit.between(0, _BLOCK - 1), bit)
            for first, bit in blocks.items()
        }

    @lazy
    def are_inside(self) -> npt.NDArray[np.bool_]:
        """Whether each row has a key in one of the ranges."""
        values = self.numbers.values
        inside = np.zeros(len(values), bool)
        for low, high in self.ranges:
            first, last = pa.scalar(low, pa.int64()), pa.scalar(high, pa.int64())
            between = pc.and_(pc.greater_equal(values, first), pc.less_equal(values, last))
            inside |= between.fill_null(False).to_numpy(zero_copy_only=False)
        return inside

    def outside_rows(self) -> DataFrame:
        """Rows whose key is null or in none of the ranges."""
        ends = (f"named_struct('low', {low}L, 'high', {high}L)" for low, high in self.ranges)
        # An array literal and a lambda in SQL keep the generated code the same for each merge.
        # Numbers in the code, or the made-up name of a Python lambda, would make Spark compile
        # again, and new code is slow at first.
        text = f"exists(array({', '.join(ends)}), each -> `{_KEY}` BETWEEN each.low AND each.high)"
        keyed = self.rows.withColumn(_KEY, self.numbers.key.column.cast("long"))
        return keyed.filter(~sf.coalesce(sf.expr(text), sf.lit(False))).drop(_KEY)

    def are_met(self, written: WrittenFiles) -> npt.NDArray[np.bool_]:
        """Whether each row matched; all false if the bits were not requested."""
        order = np.argsort(self.numbers.rows)
        bits = [_bits(written, f"{_MET} {i}") for i in range(-(-len(order) // _BLOCK))]
        found = np.zeros(len(order), bool)
        found[order] = np.concatenate(bits)[: len(order)]
        return found

    def rows_at(self, are_wanted: npt.NDArray[np.bool_]) -> DataFrame:
        """Select rows by position."""
        named = pa.table({SOURCE_ROW: self.numbers.rows[are_wanted]})
        wanted = sf.broadcast(frame_of_arrow(self.rows.sparkSession, named))
        return self.rows.join(wanted, SOURCE_ROW, "left_semi")


def _write(
    plan: MergePlan,
    files: Sequence[AddFile],
    source: _Source,
    new: NewRows | None,
    changed: Changed,
) -> WrittenWithFlags:
    """Rewrite the rows of files, together with new rows."""
    (number,) = plan.updates
    sides, is_met = plan.sides, named_column(SOURCE_ROW).isNotNull()
    rows = evolve(plan, read_numbered(plan.spark, plan.snapshot, files))
    flagged = (
        rows.alias(sides.target_alias)
        .join(sf.broadcast(plan.source.alias(sides.source_alias)), plan.condition.column, "left")
        .withColumn(CLAUSE, sf.when(is_met, sf.lit(number)))
    )
    bits = {_TOUCHED: sf.when(is_met, named_column(NUMBER.name).cast("long"))}
    if plan.inserts:  # otherwise matched rows do not matter
        bits |= source.bits()
    staying = assign_updates(plan, flagged, *(bit.alias(name) for name, bit in bits.items()))
    checks = misfit_checks(flags_of_misfits(plan.updates))
    if new is not None and not source.are_inside.all():
        staying = staying.unionByName(new.completed.frame, allowMissingColumns=True)
        checks += new.checks
    figures = {name: sf.bitmap_construct_agg(named_column(name)) for name in bits}
    figures[_UPDATED] = sf.count(named_column(_TOUCHED))
    return write_with_flags(changed, staying, checks, figures, among=named_column(CHANGED))


def _bits(written: WrittenFiles, name: str) -> npt.NDArray[np.bool_]:
    """The bits of a figure; none are set if there were no rows."""
    found: Any = written.figures.get(name)
    if found is None:
        return np.zeros(_BLOCK, bool)
    return np.unpackbits(np.frombuffer(found, np.uint8), bitorder="little").astype(bool)

"""Merge in one pass: files that are as good as sure to be touched are written at once.

Where no row of the table can meet two of the source, and each file that may hold rows that meet one
is likely to hold many, pairs are not looked for first: these files are read once and written again
beside the source. Bits then tell which files were touched and which rows of the source were met. If
a file was not, what was written is thrown away, and the merge goes on as any other; rows of the
source that were not met are written after the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from delta_ops.planning.key_hits import find_likely_range
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.column_mapping import physical_path
from delta_ops.spark import jobs
from delta_ops.spark.changed_rows import CHANGED, figure_of, misfit_checks, write_beside
from delta_ops.spark.data_files import WrittenFiles, discard
from delta_ops.spark.expressions import named_column
from delta_ops.spark.merge_clauses import CLAUSE, flags_of_misfits
from delta_ops.spark.merge_planning import MergePlan
from delta_ops.spark.merge_rows import NewRows, assign_updates, evolve, insert, make_new_rows
from delta_ops.spark.merge_source import SOURCE_ROW, Covered, UniqueNumbers
from delta_ops.spark.missing_columns import ROWS_OF_TASK
from delta_ops.spark.read import NUMBER, read_numbered
from delta_ops.spark.session import is_connect
from delta_ops.transaction.merge import merge_metrics
from delta_ops.transaction.row_changes import Changed, num_live_rows

LEAST_HITS = 20
"""Rows that must be likely to be met in each file: that none is, is then hardly possible."""
_MOST_BYTES = 256 * 1024 * 1024
"""What the files have at most: so much may be written for nothing."""
_BLOCK = 32_768
"""Bits that one aggregate of Spark has."""
_MOST_ROWS = 8 * _BLOCK
"""Rows of the source: each row that is written is shown to as many aggregates as there are blocks
of these."""
_MOST_TASKS = 1_000
_TASK_BITS = ROWS_OF_TASK.bit_length()
_MET, _TOUCHED = "delta_ops met", "delta_ops touched"
"""Bits, as columns and as figures: of rows of the source, by blocks, and of files."""


def merge_in_one_pass(
    plan: MergePlan, files: Sequence[AddFile], covered: Covered, changed: Changed
) -> Mapping[str, int] | None:
    """Merge, and give the metrics; None where this way is not the merge's, which is as it was.

    Args:
        files: All that may hold a row that meets one of the source.

    Raises:
        InvalidRequestError: A row breaks a rule, or the rows cannot be computed.
        StorageError: The store failed.
    """
    numbers = covered.numbers
    if numbers is None or not _may_try(plan, files, numbers, changed):
        return None
    key, definition = numbers.key, plan.snapshot.definition
    path = physical_path(key.path, definition.schema) if definition.is_mapped else key.path
    keys = numbers.values.drop_null().to_numpy()
    likely = find_likely_range(files, path, key.data_type, keys, LEAST_HITS)
    if likely is None or not jobs.is_sent_whole(plan.source):
        return None
    source = _Source(plan, numbers, *likely)
    new = source.new_rows(changed)
    if new is not None and new.completed.counted:
        return None
    written = _write(plan, files, source, new, changed)
    if written is None:
        return None
    changed.remove(files)
    num_live = sum(num_live_rows(each) or 0 for each in files)
    num_inserted = written.num_rows - num_live
    unmet = source.unmet_rows(written) if plan.inserts else None
    if unmet is not None:
        late = make_new_rows(plan, unmet, changed.transaction.clock())
        num_inserted += insert(plan, late, changed)
    num_updated = figure_of(written, "updated")
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
        case [only] if only.action == "update" and only.occasion == "matched":
            is_upsert = only.predicate is None
        case _:
            is_upsert = False
    return (
        is_upsert
        and not changed.transaction.properties.deletion_vectors
        and not plan.definition.has_change_feed
        and len(files) <= _BLOCK
        and sum(each.size for each in files) <= _MOST_BYTES
        and len(numbers.rows) <= _MOST_ROWS
        and int(numbers.rows.max(initial=0)) >> _TASK_BITS < _MOST_TASKS
        and not is_connect(plan.spark)
    )


@dataclass(frozen=True)
class _Source:
    """The rows of the source, of which those with keys in the files' range are thought to be met.

    They have places from 0, in the order of their numbers.
    """

    plan: MergePlan
    numbers: UniqueNumbers
    low: int
    high: int

    @property
    def num_blocks(self) -> int:
        """How many blocks of bits they have."""
        return -(-len(self.numbers.rows) // _BLOCK)

    @property
    def place(self) -> Column:
        """The place of a row; Spark numbers the rows of each task."""
        tasks = self.numbers.rows >> _TASK_BITS
        firsts = np.searchsorted(np.sort(tasks), np.arange(int(tasks.max()) + 1))
        row = named_column(SOURCE_ROW)
        task = sf.shiftright(row, _TASK_BITS).cast("int")
        of_tasks = sf.expr(f"array({', '.join(f'{first}L' for first in firsts)})")
        return sf.get(of_tasks, task) + row.bitwiseAND(sf.lit(ROWS_OF_TASK))

    def is_expected(self) -> npt.NDArray[np.bool_]:
        """Whether each row has a key in the range."""
        values = self.numbers.values
        low, high = (pa.scalar(each, pa.int64()) for each in (self.low, self.high))
        inside = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
        found: npt.NDArray[np.bool_] = inside.fill_null(False).to_numpy(zero_copy_only=False)
        return found

    def new_rows(self, changed: Changed) -> NewRows | None:
        """The rows to insert that are known beforehand; None where there are none."""
        if not self.plan.inserts or self.is_expected().all():
            return None
        key = self.numbers.key.column.cast("long")
        inside = sf.coalesce(key.between(self.low, self.high), sf.lit(False))
        unmet = self.plan.source.filter(~inside)
        return make_new_rows(self.plan, unmet, changed.transaction.clock())

    def unmet_rows(self, written: WrittenFiles) -> DataFrame | None:
        """The rows that were expected to be met, and were not; None where there are none."""
        blocks = [_bits(written, f"{_MET} {i}") for i in range(self.num_blocks)]
        rows, order = self.numbers.rows, np.argsort(self.numbers.rows)
        is_met = np.zeros(len(rows), bool)
        is_met[order] = np.concatenate(blocks)[: len(rows)]
        unmet = rows[self.is_expected() & ~is_met]
        if not len(unmet):
            return None
        source = self.plan.source
        named = source.sparkSession.createDataFrame(pa.table({SOURCE_ROW: unmet}))
        return source.join(sf.broadcast(named), SOURCE_ROW, "left_semi")


def _write(
    plan: MergePlan,
    files: Sequence[AddFile],
    source: _Source,
    new: NewRows | None,
    changed: Changed,
) -> WrittenFiles | None:
    """Write files again, and new rows with them; None where not all were touched."""
    (number,) = plan.updates
    sides, is_met = plan.sides, named_column(SOURCE_ROW).isNotNull()
    rows = evolve(plan, read_numbered(plan.spark, plan.snapshot, files))
    beside = (
        rows.alias(sides.target_alias)
        .join(sf.broadcast(plan.source.alias(sides.source_alias)), plan.condition.column, "left")
        .withColumn(CLAUSE, sf.when(is_met, sf.lit(number)))
    )
    place, touched = source.place, sf.when(is_met, named_column(NUMBER.name).cast("long"))
    blocks = {f"{_MET} {i}": place - i * _BLOCK for i in range(source.num_blocks)}
    bits = {
        _TOUCHED: touched,
        **{name: sf.when(bit.between(0, _BLOCK - 1), bit) for name, bit in blocks.items()},
    }
    staying = assign_updates(plan, beside, *(bit.alias(name) for name, bit in bits.items()))
    checks = misfit_checks(flags_of_misfits(plan.updates))
    if new is not None:
        staying = staying.unionByName(new.completed.frame, allowMissingColumns=True)
        checks += new.checks
    figures = {name: sf.bitmap_construct_agg(named_column(name)) for name in bits}
    figures["updated"] = sf.count(named_column(_TOUCHED))
    beside_others = write_beside(changed, staying, checks, figures, among=named_column(CHANGED))
    written, checked = beside_others
    if np.count_nonzero(_bits(written, _TOUCHED)) < len(files):
        discard(changed.transaction.log.storage, written.adds)
        return None
    changed.add(written.adds, checked)
    return written


def _bits(written: WrittenFiles, name: str) -> npt.NDArray[np.bool_]:
    """The bits of a figure; none is set where there were no rows."""
    found: Any = written.figures.get(name)
    if found is None:
        return np.zeros(_BLOCK, bool)
    return np.unpackbits(np.frombuffer(found, np.uint8), bitorder="little").astype(bool)

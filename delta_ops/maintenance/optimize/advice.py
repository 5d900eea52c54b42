"""Advice: suggests columns for the layout of a table, judged by recorded reads.

Each order is tried on a sample of the rows. Each recorded read is then tried on the resulting
files, with the pruning that reads use. No file is rewritten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import mean

import pyarrow as pa

from delta_ops.arguments import validate_arguments
from delta_ops.arrow.read.projection import select
from delta_ops.arrow.rewrite.layout_trial import sample_partitions, try_order
from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot, TableOrPlace, log_of
from delta_ops.log.version.pruning import match_files
from delta_ops.maintenance.optimize.order import validate_axis
from delta_ops.maintenance.optimize.small_files import own_files, target_size_bytes
from delta_ops.planning.recorded_reads import RecordedRead, recorded_reads
from delta_ops.protocol.arrow_values import array_of
from delta_ops.protocol.predicate import Predicate, parse_predicate, resolve
from delta_ops.protocol.predicate.nodes import leaves_of
from delta_ops.protocol.properties.known import RECORD_READS
from delta_ops.protocol.properties.property import is_on
from delta_ops.protocol.schema import ColumnPath, leaves
from delta_ops.protocol.schema.column_names import name_of_path
from delta_ops.protocol.stats.indexed_columns import has_bounds
from delta_ops.protocol.table_definition import validate
from delta_ops.transaction.rewrite_group import CurveOrder

_MOST_COLUMNS = 8
"""Number of columns that are tried: the columns that most reads use."""
_MOST_TOGETHER = 4
_LEAST_GAIN = 0.01
"""Share of files that another column must skip to be added, since it weakens the other columns."""
_JUDGED_FILES = 4096
"""The most files that are checked to judge the present layout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvisedLayout:
    """An order, and the share of files that it would have skipped."""

    columns: tuple[str, ...]
    skipped: float
    """Share of the files that a recorded read would have skipped, from 0 to 1, on average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutAdvice:
    """Layouts of a table, ranked by the recorded reads."""

    table: str
    version: int
    num_reads: int
    """Number of reads that orders were judged by."""
    num_left_out: int
    """Recorded reads that no longer match the table, or filter by no column that rows can be laid
    out by."""
    num_files: int
    num_files_after: int
    """About how many files a layout would make; `AdvisedLayout.skipped` is a share of these."""
    skipped_today: float
    """As `AdvisedLayout.skipped`, for the present files."""
    layouts: tuple[AdvisedLayout, ...]
    """Each column by itself, and the best combinations; best first."""


def advise(log: TableOrPlace) -> LayoutAdvice:
    """Suggest columns for the layout of the table, with the share of files that reads would skip.

    Reads are recorded if the table's property `delta_ops.recordReads` is true. The table stays
    unchanged. Rows of up to 64 files are read, from the columns that recorded reads use.

    Args:
        log: The table, by its handle, its path or URI.

    Raises:
        InvalidRequestError: No recorded read can be used.
        TableNotFoundError: There is no table here.
        DataFileError: A data file is gone or cannot be read.
        UnsupportedFeatureError: The rows are stored in a way that we cannot read.
        StorageError: The store failed.

    Examples:
        >>> from delta_ops import ddl
        >>> _ = ddl.set_properties("lake/orders", {"delta_ops.recordReads": "true"})
        >>> _ = da.to_table("lake/orders", predicate=col("country") == "NL")
        >>> advise("lake/orders").num_reads
        1
    """
    validate_arguments(advise, locals())
    snapshot = log_of(log).snapshot()
    validate(snapshot.definition, "read", table=snapshot.uri)
    recorded = recorded_reads(snapshot.storage)
    axes = _axes(snapshot)
    reads = [read for each in recorded if (read := _usable(each, snapshot, axes)) is not None]
    if not reads:
        raise InvalidRequestError(_nothing_recorded(snapshot, len(recorded)))
    paths = _frequent_columns(reads, axes)
    files = own_files(snapshot)
    samples = sample_partitions(snapshot, files, paths, target_size_bytes(snapshot, None))
    schema = select(snapshot.schema, sorted({path[0] for path in paths}))

    def share_skipped_by(columns: tuple[ColumnPath, ...]) -> float:
        trial = try_order(samples, schema, CurveOrder(columns=columns, curve="hilbert"))
        return _share_skipped(len(trial), map(trial.num_matching, reads))

    return LayoutAdvice(
        table=snapshot.uri,
        version=snapshot.version,
        num_reads=len(reads),
        num_left_out=len(recorded) - len(reads),
        num_files=len(files),
        num_files_after=sum(each.num_files for each in samples),
        skipped_today=_skipped_today(snapshot, reads),
        layouts=_try_layouts(paths, share_skipped_by),
    )


def _axes(snapshot: Snapshot) -> frozenset[ColumnPath]:
    """The columns whose values can be used to skip files."""
    return frozenset(
        path
        for path, data_type in leaves(snapshot.schema)
        if has_bounds(data_type) and _is_axis(path, snapshot)
    )


def _is_axis(path: ColumnPath, snapshot: Snapshot) -> bool:
    try:
        validate_axis(path, snapshot)
    except InvalidRequestError:
        return False
    return True


def _usable(
    read: RecordedRead, snapshot: Snapshot, axes: frozenset[ColumnPath]
) -> Predicate | None:
    """The resolved predicate of a read; None if no layout can skip files for it."""
    try:
        predicate = resolve(parse_predicate(read.predicate), snapshot.schema)
    except InvalidRequestError:  # it uses columns that were dropped
        return None
    return predicate if any(leaf.column in axes for leaf in leaves_of(predicate)) else None


def _nothing_recorded(snapshot: Snapshot, num_recorded: int) -> str:
    if num_recorded:
        return (
            f"{snapshot.uri}: none of the {num_recorded} recorded reads filters by a column that "
            "rows can be ordered by; record other reads"
        )
    if is_on(RECORD_READS, snapshot.metadata.configuration):
        return (
            f"{snapshot.uri}: no read is recorded yet; first read rows with predicates on columns "
            "that are not partition columns"
        )
    return (
        f"{snapshot.uri}: no read is recorded, because the table does not record reads; set "
        f"{RECORD_READS.name} to true, and repeat this after the table has been read for a while"
    )


def _frequent_columns(reads: Sequence[Predicate], axes: frozenset[ColumnPath]) -> list[ColumnPath]:
    named = Counter(
        path
        for read in reads
        for path in sorted({leaf.column for leaf in leaves_of(read)})
        if path in axes
    )
    return [path for path, _ in named.most_common(_MOST_COLUMNS)]


def _try_layouts(
    paths: Sequence[ColumnPath], share_skipped_by: Callable[[tuple[ColumnPath, ...]], float]
) -> tuple[AdvisedLayout, ...]:
    """Try each column alone; then add the next best column to the best order while that helps."""
    tried: dict[tuple[ColumnPath, ...], float] = {
        (path,): share_skipped_by((path,)) for path in paths
    }
    best = max(tried, key=tried.__getitem__)
    while len(best) < _MOST_TOGETHER:
        larger = {
            (*best, path): share_skipped_by((*best, path)) for path in paths if path not in best
        }
        if not larger:
            break
        next_best = max(larger, key=larger.__getitem__)
        if larger[next_best] < tried[best] + _LEAST_GAIN:
            break
        tried[next_best] = larger[next_best]
        best = next_best
    ordered = sorted(tried.items(), key=lambda each: (-each[1], len(each[0])))
    return tuple(
        AdvisedLayout(columns=tuple(map(name_of_path, columns)), skipped=skipped)
        for columns, skipped in ordered
    )


def _skipped_today(snapshot: Snapshot, reads: Sequence[Predicate]) -> float:
    files = pa.concat_tables(snapshot.stream_live(["path", "partitionValues", "stats"]))
    step = -(-len(files) // _JUDGED_FILES) or 1
    files = files.take(array_of(range(0, len(files), step), pa.int64())).combine_chunks()
    matching = (len(match_files(files, read, snapshot.definition, snapshot.uri)) for read in reads)
    return _share_skipped(len(files), matching)


def _share_skipped(num_files: int, matching: Iterable[int]) -> float:
    return 1 - mean(number / num_files for number in matching) if num_files else 0.0

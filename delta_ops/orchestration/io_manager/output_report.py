"""What Dagster is told of an output: the table at the version that holds it, and its rows.

A rerun that finds its work committed reports that commit, not whatever was committed since. Its
data version is no older than the one that Dagster knows of the same partitions, though: steps read
at the newest data version, and are not taken back by an old run's rerun.

Where a run writes several partitions, the event of each has its own number of rows, which is
counted in the files of the commit: by their statistics where all rows of a file are of one
partition, else by reading the columns of `partition_expr`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg
import pyarrow as pa

from delta_ops.arrow.read.scan import read_files
from delta_ops.errors import DeltaOpsError, VersionNotFoundError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.commit_file import Commit
from delta_ops.log.pruning import file_view, match_files, split_by_match
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.io_manager.column_lineage import computed_lineage, declared_lineage
from delta_ops.orchestration.io_manager.output_settings import ColumnLineage
from delta_ops.orchestration.metadata import (
    commit_metadata,
    data_version,
    rows_by_statistics,
    rows_written,
    table_metadata,
    table_version,
)
from delta_ops.orchestration.table_versions import last_data_version, last_partition_version
from delta_ops.protocol.arrow_schemas import add_files, merge_chunks
from delta_ops.protocol.predicate import Predicate, columns, resolve, to_arrow
from delta_ops.transaction import CommitResult, Txn

_MAX_COUNTED_PARTITIONS = 500
"""Partitions of a run up to which the rows of each are counted: Dagster's own bookkeeping of
metadata takes the square of their number."""
_MAX_LIVE_FILES = 10_000
"""Live files up to which the rows that partitions hold are counted by their statistics."""


def report_output(
    context: dg.OutputContext,
    log: DeltaLog,
    table: Snapshot,
    results: Sequence[CommitResult],
    predicates: Mapping[str, Predicate],
    *,
    is_replaced: bool,
    of_partitions: Predicate | None = None,
    lineage: ColumnLineage | None = None,
    rows: Any = None,
) -> None:
    """Describe what was written, or found written, to Dagster.

    Args:
        table: As the last commit left it; the latest version, if nothing was written.
        predicates: The rows of each partition of the output, if it has any.
        is_replaced: Whether the output is all that its partitions hold.
        of_partitions: The rows whose last change is the data version; None: the table's.
        lineage: What the asset declares of its columns; None: their lineage is that of
        rows: The data of the output, if they are one whole.
    """
    if _has_written(results):
        shown, known = table, None
    else:
        known = known_version(context, table)
        shown = _found_snapshot(log, table, results, known)
    newest = _data_version_number(context, log, shown, results, of_partitions)
    newest = max(newest, min(known or 0, table.version))
    compat.set_data_version(context, data_version(shown, newest))
    metadata = {**table_metadata(shown), **commit_metadata(results)}
    # What was found written may have been computed by other code.
    shown_lineage = _lineage(context, shown, lineage, rows if _has_written(results) else None)
    if shown_lineage is not None:
        metadata["dagster/column_lineage"] = shown_lineage
    adopted = _adopted_commit(log, results)
    if adopted is not None:
        metadata["delta/rows_written"] = rows_of(adopted)
    if context.has_asset_partitions:
        total = metadata.pop("delta/rows_written")
        counts = _partition_counts(context, log, shown, results, predicates, total)
        held = counts if is_replaced else _held_rows(shown, predicates)
        for partition in {**counts, **held}:
            figures = {
                "delta/rows_written": counts.get(partition),
                "dagster/partition_row_count": held.get(partition),
            }
            told = {name: number for name, number in figures.items() if number is not None}
            compat.add_partition_metadata(context, partition, told)
    context.add_output_metadata(metadata)


def _lineage(
    context: dg.OutputContext, table: Snapshot, declared: ColumnLineage | None, rows: Any
) -> dg.TableColumnLineage | None:
    columns = [field.name for field in table.schema.fields]
    if declared is None:
        return computed_lineage(context, rows, columns)
    shown, unknown = declared_lineage(declared, columns)
    if unknown:
        context.log.warning(
            f"delta/column_lineage names {', '.join(unknown)}, of which the table has no column"
        )
    return shown


def known_version(context: dg.OutputContext, snapshot: Snapshot) -> int | None:
    """The newest version of the table that materializations of this output have reported."""
    versions = (table_version(each, snapshot) for each in compat.logged_data_versions(context))
    return max((each for each in versions if each is not None), default=None)


def newest_version_with(
    log: DeltaLog, txns: Sequence[Txn], after_version: int | None, latest: Snapshot
) -> int | None:
    """The newest version after another whose commit carries one of these txns; None: there is none,
    or its commit was cleaned up.
    """
    wanted = {(txn.app_id, txn.version) for txn in txns}
    first = 0 if after_version is None else after_version + 1
    for version in range(latest.version, first - 1, -1):
        commits = list(log.commits(version, version))
        if not commits:
            return None
        if wanted & {(txn.app_id, txn.version) for txn in commits[0].transactions}:
            return version
    return None


def _data_version_number(
    context: dg.OutputContext,
    log: DeltaLog,
    shown: Snapshot,
    results: Sequence[CommitResult],
    of_partitions: Predicate | None,
) -> int:
    """The last version, up to the one that is shown, that changed rows of the output."""
    own = [result.metrics for result in results if result.version == shown.version]
    if any(each.get("numFiles") or each.get("numRemovedFiles") for each in own):
        return shown.version
    if of_partitions is None:
        return last_data_version(log, shown.version)
    return last_partition_version(log, shown, of_partitions, known_version(context, shown))


def _has_written(results: Sequence[CommitResult]) -> bool:
    return any(not result.already_committed for result in results)


def _found_snapshot(
    log: DeltaLog, latest: Snapshot, results: Sequence[CommitResult], known: int | None
) -> Snapshot:
    """The table at the version of the commit that was found."""
    versions = [result.version for result in results if result.version is not None]
    version = max(versions, default=known if results else None)
    if version is None or version >= latest.version:
        return latest
    try:
        return log.snapshot(version)
    except VersionNotFoundError:
        return latest


def _adopted_commit(log: DeltaLog, results: Sequence[CommitResult]) -> Commit | None:
    """The commit of an output that was found written, as a whole."""
    match results:
        case [CommitResult(already_committed=True, version=int() as version)]:
            return next(iter(log.commits(version, version)), None)
    return None


def rows_of(commit: Commit) -> int:
    """The rows that a commit says it wrote."""
    metrics = commit.info.values.get("operationMetrics") if commit.info else None
    return rows_written(metrics) if isinstance(metrics, Mapping) else 0


def _partition_counts(
    context: dg.OutputContext,
    log: DeltaLog,
    snapshot: Snapshot,
    results: Sequence[CommitResult],
    predicates: Mapping[str, Predicate],
    total: int,
) -> Mapping[str, int]:
    """The rows that were written of each partition; none where that cannot be told."""
    keys = context.asset_partition_keys
    if len(keys) == 1:
        return dict.fromkeys(keys, total)
    versions = [result.version for result in results if result.version is not None]
    if not versions or not predicates or len(keys) > _MAX_COUNTED_PARTITIONS:
        return {}
    try:
        commits = [commit for v in versions for commit in log.commits(v, v)]
        counts = dict.fromkeys(predicates, 0)
        for commit in commits:
            for partition, predicate in predicates.items():
                counts[partition] += _count_rows(snapshot, commit.adds, predicate)
    except DeltaOpsError as error:
        # The rows are committed; only their number is not known.
        context.log.warning(f"the rows of each partition were not counted: {error}")
        return {}
    # Files that were written again for what else was in them have rows that are no output.
    return counts if sum(counts.values()) <= total else {}


def _held_rows(snapshot: Snapshot, predicates: Mapping[str, Predicate]) -> Mapping[str, int]:
    """The rows that the table has of each partition, where the statistics of files tell."""
    is_many = len(predicates) > _MAX_COUNTED_PARTITIONS or snapshot.num_files > _MAX_LIVE_FILES
    if not predicates or is_many:
        return {}
    adds = merge_chunks(snapshot.add_rows())
    counts = {}
    for partition, each in predicates.items():
        predicate = resolve(each, snapshot.schema)
        files = match_files(adds, predicate, snapshot.definition, snapshot.uri)
        matched, mixed = split_by_match(files, predicate, snapshot.definition, snapshot.uri)
        count = rows_by_statistics(matched)
        if not len(mixed) and count is not None:
            counts[partition] = count
    return counts


def _count_rows(snapshot: Snapshot, adds: pa.Table, predicate: Predicate) -> int:
    predicate = resolve(predicate, snapshot.schema)
    definition = snapshot.definition
    adds = match_files(merge_chunks(adds), predicate, definition, snapshot.uri)
    matched, mixed = split_by_match(adds, predicate, definition, snapshot.uri)
    view = file_view(matched, ["num_records"], definition, snapshot.uri)
    known = view["num_records"]
    if known.null_count:
        matched, mixed = matched.slice(0, 0), adds
        known = known.slice(0, 0)
    num_known: int = sum(known.to_pylist())
    return num_known + sum(_matching_rows(snapshot, mixed, predicate))


def _matching_rows(snapshot: Snapshot, adds: pa.Table, predicate: Predicate) -> Iterator[int]:
    condition = to_arrow(predicate, snapshot.schema)
    for rows in read_files(snapshot, add_files(adds), sorted(columns(predicate))):
        yield len(rows.filter(condition))

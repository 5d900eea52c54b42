"""Backfill of statistics: adds missing column statistics to the log.

Files lack statistics of a column after `delta.dataSkippingNumIndexedCols`,
`delta.dataSkippingStatsColumns` or the clustering columns changed, or if their writer wrote none.
Footers have the bounds, so no row is read, and FLOAT and DOUBLE get no upper bound where NaN may be
among the values. The commit changes no row (`dataChange` false) and keeps the statistics that the
log has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import TableNotFoundError
from delta_ops.events import OnEvent, ignore
from delta_ops.log import Snapshot, TableOrPlace, log_of
from delta_ops.maintenance.data_footers import Described, describe_files, read_data_footer
from delta_ops.maintenance.request_txn import maintenance_txn
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.file_paths import canonical_path, is_absolute
from delta_ops.protocol.stats.completion import (
    complete_stats,
    described_leaves,
    lacks_bounds,
    lacks_statistics,
    unite_stats,
)
from delta_ops.protocol.stats.indexed_columns import StatsSettings
from delta_ops.storage.concurrency import run_parallel
from delta_ops.transaction import CommitResult, Transaction, begin
from delta_ops.transaction.changes import Describe
from delta_ops.transaction.rewrite_group import Describer


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillResult:
    """The result of `backfill_statistics`."""

    dry_run: bool
    num_files: int
    """Live files within the table."""
    lacking_files: int
    """Files that lack statistics."""
    described_files: int = 0
    version: int | None = None
    """The version that holds the change; None if there is none, or it was cleaned up."""
    already_committed: bool = False
    """True: a concurrent run did the same first, and this one changed nothing."""
    failures: tuple[str, ...] = ()
    """A sentence for each file whose footer cannot be read."""


def backfill_statistics(
    log: TableOrPlace,
    *,
    engine: Describer | None = None,
    user_metadata: str | None = None,
    dry_run: bool = False,
    clock: Clock = system_clock,
    on_event: OnEvent = ignore,
) -> BackfillResult:
    """Add the statistics that the table's settings and clustering columns require.

    Args:
        engine: Reads rows, as `delta_ops.spark.file_statistics(spark)` does, and finds bounds that
            footers lack; None: footers are read.
        user_metadata: Any text, kept in commitInfo.

    Raises:
        CommitConflictError: Another writer changed one of these files first; nothing was committed.
        InvalidRequestError: The clustering columns of the table are unknown.
        StorageError: The store failed.
        UnsupportedFeatureError: The table uses a feature that is not supported.

    Examples:
        >>> backfill_statistics("lake/orders").lacking_files
        0
    """
    validate_arguments(backfill_statistics, locals())
    handle = log_of(log)
    transaction = begin(handle, clock=clock, on_event=on_event, operation="restore")
    snapshot = transaction.snapshot
    if snapshot is None:
        raise TableNotFoundError(handle.uri)
    settings = replace(snapshot.definition.stats_settings, always=transaction.clustering_columns)
    lacks = lacks_statistics if engine is None else lacks_bounds
    num_files, lacking = _find_lacking(snapshot, settings, lacks)
    result = BackfillResult(dry_run=dry_run, num_files=num_files, lacking_files=len(lacking))
    if dry_run or not lacking:
        return result
    described, failures = describe_files(
        lacking,
        partial(_describe_by_footers, snapshot, settings)
        if engine is None
        else partial(_describe_by_rows, engine, snapshot, settings),
        table=snapshot.uri,
        operation="backfill-statistics",
        on_event=on_event,
    )
    result = replace(result, failures=tuple(failures))
    if not described:
        return result
    committed = _commit(transaction, described, num_files, user_metadata)
    return replace(
        result,
        version=committed.version,
        already_committed=committed.already_committed,
        described_files=0 if committed.already_committed else len(described),
    )


def _commit(
    transaction: Transaction,
    described: Sequence[AddFile],
    num_files: int,
    user_metadata: str | None,
) -> CommitResult:
    assert transaction.snapshot is not None
    transaction.set_transaction(maintenance_txn("backfill-statistics", transaction.snapshot, ""))
    transaction.apply(Describe(files=tuple(described)))
    return transaction.commit(
        operation="COMPUTE STATS",
        parameters={"predicate": []},
        metrics={"numFilesScanned": num_files, "numDescribedFiles": len(described)},
        user_metadata=user_metadata,
        counts_files=False,
    )


def _find_lacking(
    snapshot: Snapshot, settings: StatsSettings, lacks: Callable[..., bool]
) -> tuple[int, Sequence[AddFile]]:
    definition = snapshot.definition
    partitions = tuple(definition.partition_names.values())
    wanted = list(described_leaves(definition.physical_schema, partitions, settings))
    num_files, lacking = 0, []
    for add in _own_files(snapshot):
        num_files += 1
        if lacks(add.stats, wanted):
            lacking.append(add)
    return num_files, lacking


def _own_files(snapshot: Snapshot) -> Iterator[AddFile]:
    """Live files within the table; files outside belong to other owners."""
    for add in snapshot.add_files():
        if not is_absolute(canonical_path(add.path, snapshot.uri)):
            yield add


def _describe_by_rows(
    engine: Describer, snapshot: Snapshot, settings: StatsSettings, files: Sequence[AddFile]
) -> Iterator[Described]:
    for add, made in zip(files, engine(snapshot, files, settings), strict=True):
        stats = made and unite_stats(add.stats, made, is_tight=add.deletion_vector is None)
        changed = stats is not None and stats != add.stats
        yield replace(add, stats=stats, data_change=False) if changed else None


def _describe_by_footers(
    snapshot: Snapshot, settings: StatsSettings, files: Sequence[AddFile]
) -> Iterable[Described]:
    return run_parallel(partial(_describe, snapshot, settings), files)


def _describe(snapshot: Snapshot, settings: StatsSettings, add: AddFile) -> Described:
    footer = read_data_footer(snapshot, add)
    if isinstance(footer, str):
        return footer
    definition = snapshot.definition
    partitions = tuple(definition.partition_names.values())
    stats = complete_stats(
        add.stats,
        footer,
        definition.physical_schema,
        partitions,
        settings,
        is_tight=add.deletion_vector is None,
    )
    return None if stats == add.stats else replace(add, stats=stats, data_change=False)

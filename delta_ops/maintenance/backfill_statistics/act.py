"""Backfill statistics: describe live files by columns of which the log says nothing yet.

A table gets other columns with statistics when `delta.dataSkippingNumIndexedCols` or
`delta.dataSkippingStatsColumns` change, when it is clustered by others, or when files came from a
writer that gave none. Footers tell, so no row is read, and FLOAT and DOUBLE get no upper bound
where NaN may be among the values. The commit changes no row (`dataChange` false); what the log says
already stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import TableNotFoundError
from delta_ops.events import OnEvent, Progress, ignore
from delta_ops.log import Snapshot, TableOrPlace, log_of
from delta_ops.maintenance.data_footers import read_data_footer
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
from delta_ops.transaction import begin
from delta_ops.transaction.changes import Describe
from delta_ops.transaction.rewrite_group import Describer

_FOOTERS_AT_A_TIME = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillResult:
    """What `backfill_statistics` found and did."""

    dry_run: bool
    num_files: int
    """Live files of the table's own."""
    lacking_files: int
    """Files of which the log does not say all that it could."""
    described_files: int = 0
    version: int | None = None
    """The version that holds the change; None if there is none, or it was cleaned up."""
    already_committed: bool = False
    """True: a concurrent run did the same first, and this one changed nothing."""
    failures: tuple[str, ...] = ()
    """A sentence for each file of which the footer cannot be read."""


def backfill_statistics(
    log: TableOrPlace,
    *,
    engine: Describer | None = None,
    user_metadata: str | None = None,
    dry_run: bool = False,
    clock: Clock = system_clock,
    on_event: OnEvent = ignore,
) -> BackfillResult:
    """Give live files the statistics that the table's settings and clustering ask for.

    Args:
        engine: Reads rows, as `delta_ops.spark.file_statistics(spark)` does, and finds bounds that
            footers do not tell; None: footers are read.
        user_metadata: Any text, kept in commitInfo.

    Raises:
        CommitConflictError: Somebody changed one of these files meanwhile; nothing was committed.
        InvalidRequestError: The table does not tell by which columns it is clustered.
        StorageError: The store failed.
        UnsupportedFeatureError: The table uses what we cannot describe.
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
    described: list[AddFile] = []
    failures: list[str] = []
    for start in range(0, len(lacking), _FOOTERS_AT_A_TIME):
        batch = lacking[start : start + _FOOTERS_AT_A_TIME]
        for made in (
            run_parallel(partial(_describe, snapshot, settings), batch)
            if engine is None
            else _describe_rows(engine, snapshot, settings, batch)
        ):
            if isinstance(made, str):
                failures.append(made)
            elif made is not None:
                described.append(made)
        done = start + len(batch)
        on_event(
            Progress(
                table=snapshot.uri, operation="backfill-statistics", done=done, total=len(lacking)
            )
        )
    result = replace(result, failures=tuple(failures))
    if not described:
        return result
    transaction.set_transaction(maintenance_txn("backfill-statistics", snapshot, ""))
    transaction.apply(Describe(files=tuple(described)))
    committed = transaction.commit(
        operation="COMPUTE STATS",
        parameters={"predicate": []},
        metrics={"numFilesScanned": num_files, "numDescribedFiles": len(described)},
        user_metadata=user_metadata,
        counts_files=False,
    )
    return replace(
        result,
        version=committed.version,
        already_committed=committed.already_committed,
        described_files=0 if committed.already_committed else len(described),
    )


def _find_lacking(
    snapshot: Snapshot, settings: StatsSettings, lacks: Callable[..., bool]
) -> tuple[int, Sequence[AddFile]]:
    definition = snapshot.definition
    partitions = tuple(definition.partition_names.values())
    wanted = list(described_leaves(definition.physical_schema, partitions, settings))
    own = _own_files(snapshot)
    num_files, lacking = 0, []
    for add in own:
        num_files += 1
        if lacks(add.stats, wanted):
            lacking.append(add)
    return num_files, lacking


def _own_files(snapshot: Snapshot) -> Iterator[AddFile]:
    """The live files but those outside of the table, which belong to somebody else."""
    for add in snapshot.add_files():
        if not is_absolute(canonical_path(add.path, snapshot.uri)):
            yield add


def _describe_rows(
    engine: Describer, snapshot: Snapshot, settings: StatsSettings, files: Sequence[AddFile]
) -> Iterator[AddFile | None]:
    """The files with all that their rows tell; None where the log says that already."""
    for add, made in zip(files, engine(snapshot, files, settings), strict=True):
        stats = made and unite_stats(add.stats, made, is_tight=add.deletion_vector is None)
        changed = stats is not None and stats != add.stats
        yield replace(add, stats=stats, data_change=False) if changed else None


def _describe(snapshot: Snapshot, settings: StatsSettings, add: AddFile) -> AddFile | str | None:
    """The file with all that its footer tells; None where the log says that already."""
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

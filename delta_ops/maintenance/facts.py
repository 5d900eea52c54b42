"""Loads the facts that maintenance decides by, from the log and one listing of it.

The data is not listed. If tombstones have expired, a few of their files are looked up by name,
because the log does not say whether vacuum has run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from delta_ops.errors import LogCorruptError, VersionNotFoundError
from delta_ops.log import Snapshot
from delta_ops.log.checkpoint.incomplete import misleading_files
from delta_ops.log.refs.branches import BRANCHES_DIRECTORY
from delta_ops.log.segment import LogListing
from delta_ops.log.session_place import SESSIONS_DIRECTORY
from delta_ops.maintenance.admission import is_of_branch
from delta_ops.maintenance.indexes.act import IndexInfo
from delta_ops.maintenance.kept_versions import KeptVersions, ref_of_error
from delta_ops.maintenance.log_cleanup.load import plan_of_listed, plan_of_log
from delta_ops.maintenance.log_cleanup.plan import LogCleanupPlan
from delta_ops.maintenance.optimize.plan import OptimizePlan, plan_optimize
from delta_ops.maintenance.optimize.plan_runs import key_order, plan_runs
from delta_ops.maintenance.registry import refusals
from delta_ops.maintenance.scan_cache.act import load_scan_cache_facts
from delta_ops.maintenance.thresholds import Facts
from delta_ops.maintenance.vacuum.due import any_is_there
from delta_ops.maintenance.vacuum.reachable import tombstones_before
from delta_ops.protocol.actions import AddFile
from delta_ops.storage import FileInfo


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedTable:
    """The latest version of a table, loaded to determine its facts."""

    snapshot: Snapshot
    listed: Sequence[FileInfo]
    """All files directly in the log directory."""
    listing: LogListing
    """`listed` by the kind of file."""
    small_files: Iterable[AddFile]
    """Live files that are small for the target size."""
    tombstones: pa.Table
    """The snapshot's tombstones, with at least `vacuum.due.TOMBSTONE_COLUMNS`."""
    target_size_bytes: int
    indexes: Sequence[IndexInfo]
    """The inverted indexes of the table."""
    now_ms: int


def load_facts(
    table: LoadedTable,
    *,
    min_files: int = 2,
    keep: Collection[str] = (),
    keep_versions: Collection[int] = (),
) -> Facts:
    """The facts of a table.

    Args:
        min_files: As for `optimize`.
        keep: As for `vacuum`.
        keep_versions: As for `clean_up_log`.

    Raises:
        InvalidRequestError: A property of the table cannot be parsed.
        VersionNotFoundError, LogCorruptError: As `load_log_cleanup_plan`.
    """
    snapshot, tombstones = table.snapshot, table.tombstones
    horizon_ms = table.now_ms - snapshot.properties.deleted_file_retention_ms
    expired = len(tombstones_before(tombstones, horizon_ms))
    refused: dict[str, tuple[str, ...]] = dict(refusals(snapshot))
    cleanup = _plan_cleanup(table, keep_versions)
    with _refusing(refused, "clean_up_log", snapshot):
        cleanup = _plan_around_refs(table, cleanup, keep_versions)
    is_there = expired > 0
    with _refusing(refused, "vacuum", snapshot):
        is_there = is_there and any_is_there(snapshot, tombstones, horizon_ms, keep)
    return Facts(
        version=snapshot.version,
        mergeable_files=_plan_merging(table, min_files).num_files,
        checkpoint_interval=snapshot.properties.checkpoint_interval,
        commits_since_checkpoint=snapshot.commits_since_checkpoint,
        commit_bytes_since_checkpoint=_commit_bytes(table.listing, snapshot),
        incomplete_checkpoint_files=len(misleading_files(table.listing)),
        stale_checkpoint_files=len(cleanup.incomplete),
        deletable_log_files=len(cleanup.files),
        cleanup_is_enabled=cleanup.is_enabled,
        expired_tombstones=expired,
        expired_file_is_there=is_there,
        refused=refused,
        scan_cache=None if is_of_branch(snapshot) else load_scan_cache_facts(snapshot),
        unindexed_files=max(map(_unindexed_files, table.indexes), default=0),
    )


def _plan_merging(table: LoadedTable, min_files: int) -> OptimizePlan:
    key, target = key_order(table.snapshot), table.target_size_bytes
    if key is not None:
        return plan_runs(table.snapshot, key, target_size_bytes=target, min_files=min_files)
    return plan_optimize(table.small_files, target_size_bytes=target, min_files=min_files)


def _unindexed_files(index: IndexInfo) -> int:
    """Number of files that a refresh of the index would cover."""
    return index.num_files - index.covered_files if index.column is not None else 0


@contextmanager
def _refusing(
    refused: dict[str, tuple[str, ...]], operation: str, snapshot: Snapshot
) -> Iterator[None]:
    """Refuse an operation that must keep a ref whose version cannot be read."""
    try:
        yield
    except VersionNotFoundError as error:
        ref = ref_of_error(snapshot.storage, error)
        if ref is None:
            raise
        reason = f"{ref}, which cannot be read"
    except LogCorruptError as error:
        if not error.file.startswith((f"{BRANCHES_DIRECTORY}/", f"{SESSIONS_DIRECTORY}/")):
            raise
        reason = f"{error.file}, which is missing"
    else:
        return
    refused[operation] = (*refused.get(operation, ()), reason)


def _plan_around_refs(
    table: LoadedTable, plan: LogCleanupPlan, keep_versions: Collection[int]
) -> LogCleanupPlan:
    if not plan.commits + plan.checkpoints:
        return plan  # the refs make no difference
    kept = KeptVersions(table.snapshot.storage, keep_versions).load_all()
    if kept.versions <= frozenset(keep_versions):
        return plan
    return _plan_cleanup(table, kept.by_commits, kept.versions - kept.by_commits)


def _plan_cleanup(
    table: LoadedTable, kept: Collection[int], anchored: Collection[int] = ()
) -> LogCleanupPlan:
    snapshot, now_ms = table.snapshot, table.now_ms
    versions = {"keep_versions": kept, "anchor_versions": anchored}
    try:
        return plan_of_listed(snapshot, table.listed, now_ms=now_ms, **versions)
    except FileNotFoundError:  # cleaned up since it was listed
        return plan_of_log(snapshot, now_ms=now_ms, **versions)


def _commit_bytes(listing: LogListing, snapshot: Snapshot) -> int:
    first = snapshot.version - snapshot.commits_since_checkpoint + 1
    return sum(info.size for v, info in listing.commits.items() if v >= first)

"""Facts of a table: what maintenance goes by, taken from the log, which is listed once.

The data is not listed. Only where tombstones have expired are a few of their files looked for by
name, since the log cannot say whether vacuum has run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import pyarrow as pa

from delta_ops.log import Snapshot
from delta_ops.log.checkpoint.incomplete import misleading_files
from delta_ops.log.segment import LogListing
from delta_ops.maintenance.log_cleanup.act import plan_of_listed, plan_of_log
from delta_ops.maintenance.log_cleanup.plan import LogCleanupPlan
from delta_ops.maintenance.optimize.plan import plan_optimize
from delta_ops.maintenance.registry import refusals
from delta_ops.maintenance.thresholds import Facts
from delta_ops.maintenance.vacuum.due import any_is_there
from delta_ops.maintenance.vacuum.reachable import tombstones_before
from delta_ops.protocol.actions import AddFile
from delta_ops.storage import FileInfo


def load_facts(
    snapshot: Snapshot,
    *,
    listed: Sequence[FileInfo],
    listing: LogListing,
    small_files: Iterable[AddFile],
    tombstones: pa.Table,
    now_ms: int,
    target_size_bytes: int,
    min_files: int = 2,
    keep: Collection[str] = (),
    keep_versions: Collection[int] = (),
) -> Facts:
    """The facts of a table.

    Args:
        snapshot: The latest version.
        listed: All files that are directly in the log directory.
        listing: What `listed` holds, by the kind of file.
        small_files: The live files that are small for this target.
        tombstones: The snapshot's, with `vacuum.due.TOMBSTONE_COLUMNS` at least.
        min_files: As for `optimize`.
        keep: As for `vacuum`.
        keep_versions: As for `clean_up_log`.

    Raises:
        InvalidRequestError: A property of the table cannot be understood.
        VersionNotFoundError, LogCorruptError: As `load_log_cleanup_plan`.
    """
    horizon_ms = now_ms - snapshot.properties.deleted_file_retention_ms
    expired = len(tombstones_before(tombstones, horizon_ms))
    cleanup = _cleanup(snapshot, listed, now_ms, keep_versions)
    merging = plan_optimize(small_files, target_size_bytes=target_size_bytes, min_files=min_files)
    return Facts(
        version=snapshot.version,
        mergeable_files=merging.num_files,
        checkpoint_interval=snapshot.properties.checkpoint_interval,
        commits_since_checkpoint=snapshot.commits_since_checkpoint,
        commit_bytes_since_checkpoint=_commit_bytes(listing, snapshot),
        incomplete_checkpoint_files=len(misleading_files(listing)),
        stale_checkpoint_files=len(cleanup.incomplete),
        deletable_log_files=len(cleanup.files),
        cleanup_is_enabled=cleanup.is_enabled,
        expired_tombstones=expired,
        expired_file_is_there=expired > 0 and any_is_there(snapshot, tombstones, horizon_ms, keep),
        refused=refusals(snapshot),
    )


def _cleanup(
    snapshot: Snapshot, listed: Sequence[FileInfo], now_ms: int, keep_versions: Collection[int]
) -> LogCleanupPlan:
    try:
        return plan_of_listed(snapshot, listed, now_ms=now_ms, keep_versions=keep_versions)
    except FileNotFoundError:  # cleaned up since it was listed
        return plan_of_log(snapshot, now_ms=now_ms, keep_versions=keep_versions)


def _commit_bytes(listing: LogListing, snapshot: Snapshot) -> int:
    first = snapshot.version - snapshot.commits_since_checkpoint + 1
    return sum(info.size for v, info in listing.commits.items() if v >= first)

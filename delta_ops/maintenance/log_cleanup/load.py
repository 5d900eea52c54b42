"""Loads the plan of a log clean-up: lists the log, and reads what the choice of files needs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from delta_ops.log import Snapshot
from delta_ops.log.checkpoint.sidecar_references import referenced_sidecars
from delta_ops.log.checkpoint.sidecars import list_sidecars
from delta_ops.log.history.in_commit_timestamps import load_in_commit_times
from delta_ops.log.refs.anchors import list_anchors
from delta_ops.log.segment import earliest_version, listing_from_files, retry_if_vanished
from delta_ops.maintenance.admission import validate_log_deletable
from delta_ops.maintenance.log_cleanup.plan import (
    LogCleanupPlan,
    add_orphans,
    cutoff_ms_of,
    old_sidecars,
    plan_clean_up_log,
    top_level_files,
)
from delta_ops.storage import FileInfo, Storage


def load_log_cleanup_plan(
    snapshot: Snapshot,
    *,
    now_ms: int,
    keep_versions: Collection[int] = (),
    anchor_versions: Collection[int] = (),
) -> LogCleanupPlan:
    """List the log of a table and plan its clean-up.

    Raises:
        UnsupportedFeatureError: The table has a feature, or a `_delta_ops` format, unknown here.
        InvalidRequestError: A property of the table cannot be understood.
        VersionNotFoundError: A version in `keep_versions` cannot be read.
        LogCorruptError: A version in `keep_versions` cannot be read because a commit is missing, a
            commit lacks the in-commit timestamp that the table requires, or a checkpoint that may
            name old sidecars cannot be read.
    """
    validate_log_deletable(snapshot)
    plan = plan_of_log(
        snapshot, now_ms=now_ms, keep_versions=keep_versions, anchor_versions=anchor_versions
    )
    if plan.boundary_version is None or not plan.commits + plan.checkpoints:
        return plan
    kept = {*keep_versions, *anchor_versions}
    unused = [
        info
        for version, info in list_anchors(snapshot.storage)
        if version < plan.boundary_version and version not in kept
    ]
    return replace(plan, unused_anchors=tuple(unused))


def plan_of_log(
    snapshot: Snapshot,
    *,
    now_ms: int,
    keep_versions: Collection[int] = (),
    anchor_versions: Collection[int] = (),
) -> LogCleanupPlan:
    """Plan like `load_log_cleanup_plan`, but only to report: without validating the features."""

    def look() -> LogCleanupPlan:
        files = list(snapshot.storage.list_from(snapshot.log_directory, ""))
        return plan_of_listed(
            snapshot,
            files,
            now_ms=now_ms,
            keep_versions=keep_versions,
            anchor_versions=anchor_versions,
        )

    return retry_if_vanished(snapshot.storage, snapshot.log_directory, look)


def plan_of_listed(
    snapshot: Snapshot,
    files: Sequence[FileInfo],
    *,
    now_ms: int,
    keep_versions: Collection[int] = (),
    anchor_versions: Collection[int] = (),
) -> LogCleanupPlan:
    """Plan like `load_log_cleanup_plan`, from listed files and without validating the table.

    Args:
        snapshot: The latest version.
        files: All files directly in the log directory.

    Raises:
        FileNotFoundError: A listed file is gone.
        VersionNotFoundError, LogCorruptError: As `load_log_cleanup_plan`.
    """
    storage, properties = snapshot.storage, snapshot.properties
    first = snapshot.base.version + 1 if snapshot.base else 0
    in_log = _versions_in_log(storage, files, {*keep_versions, *anchor_versions})
    retention_ms = properties.log_retention_ms
    is_protected = snapshot.definition.has("checkpointProtection")
    plan = plan_clean_up_log(
        files,
        now_ms=now_ms,
        retention_ms=retention_ms,
        keep_versions=[v for v in in_log if v >= first and v in keep_versions],
        anchor_versions=[v for v in in_log if v >= first and v not in keep_versions],
        is_enabled=properties.enable_expired_log_cleanup,
        in_commit=load_in_commit_times(
            snapshot, listing_from_files(files), cutoff_ms_of(now_ms, retention_ms)
        )
        if properties.in_commit_timestamps
        else None,
        protected_before=properties.checkpoint_protection_version if is_protected else 0,
        table=snapshot.uri,
    )
    if not snapshot.definition.has("v2Checkpoint"):
        return plan
    sidecars = list_sidecars(storage, snapshot.log_directory)
    candidates = {info.path for info in old_sidecars(sidecars, plan, now_ms=now_ms)}
    top_level = top_level_files(files, plan) if candidates else []
    referenced = referenced_sidecars(storage, top_level, candidates)
    return add_orphans(plan, sidecars, referenced, now_ms=now_ms)


def _versions_in_log(
    storage: Storage, files: Sequence[FileInfo], versions: Collection[int]
) -> Collection[int]:
    """The versions that the log still has, and lost ones without an anchor, for an error."""
    first = earliest_version(listing_from_files(files)) if versions else None
    if first is None or min(versions) >= first:
        return versions
    anchored = {version for version, _ in list_anchors(storage)}
    return [each for each in versions if each >= first or each not in anchored]

"""Log clean-up: delete the log files that only versions past their retention need.

Source: PROTOCOL.md, "Metadata Cleanup". `plan` chooses the files.

Before any deletion, the boundary checkpoint is read in full and compared with the checksum of its
version, if there is one: every remaining version will depend on it. The order of deletion protects
readers during the clean-up and after a kill. Kept versions read as before, and deleted versions
read as before or not at all:

1. the hint `_last_checkpoint`, if it names a checkpoint of the plan: without a hint readers list
   the log, with a dangling hint some fail;
2. files of unfinished checkpoints, which another clean-up may take for a whole checkpoint;
3. compactions, which replace deleted commits;
4. the oldest commit, by itself, so that version 0 never looks readable with a hole behind it;
5. the other commits from the oldest on, and each checkpoint after the commits that depend on it;
6. checksums, then sidecars, which no checkpoint names by then, then leftovers.

The cutoff follows the store's clock, because the store sets the times of its files.
The versions of tags and releases get an anchor before the log loses them, so the log need not be
kept since the oldest tag. Anchors of versions that no ref has any more are deleted last.

A clean-up may be killed at any call: the next run finds less to do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import LogCorruptError
from delta_ops.events import OnEvent, Progress, ignore
from delta_ops.log import DeltaLog, Snapshot, TableOrPlace, log_of
from delta_ops.log.checkpoint.compatible import write_compatible_checkpoint
from delta_ops.log.checkpoint.incomplete import delete_stale
from delta_ops.log.checkpoint.read import stream_removes
from delta_ops.log.checkpoint.sidecar_references import referenced_sidecars
from delta_ops.log.checksum_write.verify import validate_checksum
from delta_ops.log.last_checkpoint import load_named_version
from delta_ops.log.refs.refs import announced_deletion
from delta_ops.log.same_table import validate_same_table
from delta_ops.log.segment import earliest_version, list_log
from delta_ops.maintenance.admission import validate_format
from delta_ops.maintenance.kept_versions import KeptVersions, naming_refs
from delta_ops.maintenance.log_cleanup.load import load_log_cleanup_plan
from delta_ops.maintenance.log_cleanup.plan import (
    LogCleanupPlan,
    cutoff_ms_of,
    top_level_files,
)
from delta_ops.protocol.arrow_schemas import ADD, REMOVE
from delta_ops.protocol.file_names import LAST_CHECKPOINT
from delta_ops.storage import FileInfo
from delta_ops.storage.store_clock import store_time_ms
from delta_ops.versioning.anchors import write_anchor
from delta_ops.versioning.releases.holds import drop_lost_holds

_BATCH = 5000
"""Files deleted between two progress events; a store deletes as many as it can at once."""
_SAME_TIME_MS = 60_000
"""Clock difference that does not matter for unfinished files, which are kept for a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCleanupResult:
    """The result of `clean_up_log`."""

    plan: LogCleanupPlan
    dry_run: bool
    deleted_files: int
    deleted_bytes: int
    failures: tuple[str, ...]
    """Files that could not be deleted. The files after them in the plan were not deleted."""
    earliest_version: int | None
    """The first readable version after the clean-up; all later versions are readable, too."""
    needed_after_all: int = 0
    """Sidecars of the plan that stayed, because a new checkpoint names them."""


def clean_up_log(
    log: TableOrPlace,
    *,
    dry_run: bool = False,
    clock: Clock | None = None,
    keep_versions: Collection[int] = (),
    on_event: OnEvent = ignore,
) -> LogCleanupResult:
    """Delete the log files that are past their retention.

    It deletes even if `delta.enableExpiredLogCleanup` is false. Automatic callers check
    `plan.is_enabled` first.

    Args:
        clock: If None, the store's clock, which is read only if there is something to delete. A dry
            run writes nothing and uses this machine's clock.
        keep_versions: Versions that must stay readable at any age, besides those of refs. All
            versions after the first of them stay too, as after the base version of a branch or
            session. A version of a tag or release gets an anchor if the log loses it. Read again
            before the first file is deleted.

    Raises:
        UnsupportedFeatureError: The table has a feature, or a `_delta_ops` format, unknown here.
        VersionNotFoundError: A version in `keep_versions` cannot be read.
        LogCorruptError: The boundary checkpoint cannot be read or contradicts its checksum, or as
            `load_log_cleanup_plan`; nothing was deleted.
        InvalidRequestError: A property of the table cannot be understood.
        TableReplacedError: The table was deleted, or another table is in its place.

    Examples:
        >>> result = clean_up_log("lake/orders", dry_run=True)
        >>> result.deleted_files, result.earliest_version  # the log is young
        (0, 0)
    """
    validate_arguments(clean_up_log, locals())
    log = log_of(log)
    with naming_refs(log.storage):
        return _clean_up(log, dry_run, clock, KeptVersions(log.storage, keep_versions), on_event)


def _clean_up(
    log: DeltaLog,
    dry_run: bool,
    clock: Clock | None,
    keep_versions: KeptVersions,
    on_event: OnEvent,
) -> LogCleanupResult:
    snapshot = log.snapshot()
    now_ms = (clock or system_clock)()
    if not dry_run:
        drop_lost_holds(log, clock or system_clock)
    kept = _load_versions(keep_versions)
    plan = kept.plan(snapshot, now_ms)
    if clock is None and plan.has_work and not dry_run:
        store_ms = store_time_ms(log.storage)
        if _would_differ(store_ms, now_ms, snapshot.properties.log_retention_ms):
            now_ms = store_ms
            plan = kept.plan(snapshot, now_ms)
    if dry_run:
        return LogCleanupResult(
            plan=plan,
            dry_run=True,
            deleted_files=0,
            deleted_bytes=0,
            failures=(),
            earliest_version=plan.earliest_before,
        )
    if plan.has_work:
        validate_same_table(snapshot)
    if plan.boundary_version is None or not plan.commits + plan.checkpoints:
        return _execute(log, snapshot, plan, now_ms, on_event)
    plan, kept = _anchor_versions(log, snapshot, plan, now_ms, kept)
    if plan.boundary_version is None or not plan.commits + plan.checkpoints:
        return _execute(log, snapshot, plan, now_ms, on_event)
    with announced_deletion(log.storage, plan.boundary_version, clock or system_clock):
        plan = _plan_around_new_refs(log, snapshot, plan, now_ms, kept, keep_versions)
        return _execute(log, snapshot, plan, now_ms, on_event)


class _VersionsToKeep(NamedTuple):
    """The versions that must stay readable."""

    by_commits: frozenset[int]
    """The log must keep them, and all versions after them."""
    by_anchors: frozenset[int]
    """An anchor is enough."""

    def plan(self, snapshot: Snapshot, now_ms: int) -> LogCleanupPlan:
        return load_log_cleanup_plan(
            snapshot,
            now_ms=now_ms,
            keep_versions=self.by_commits,
            anchor_versions=self.by_anchors,
        )

    def covers(self, other: _VersionsToKeep) -> bool:
        return (
            other.by_commits <= self.by_commits
            and other.by_anchors <= self.by_commits | self.by_anchors
        )

    def keep_in_log(self, versions: Collection[int]) -> _VersionsToKeep:
        more = self.by_commits.union(versions)
        return _VersionsToKeep(more, self.by_anchors - more)


def _load_versions(keep_versions: KeptVersions) -> _VersionsToKeep:
    kept = keep_versions.load_all()
    return _VersionsToKeep(kept.by_commits, kept.versions - kept.by_commits)


def _anchor_versions(
    log: DeltaLog, snapshot: Snapshot, plan: LogCleanupPlan, now_ms: int, kept: _VersionsToKeep
) -> tuple[LogCleanupPlan, _VersionsToKeep]:
    """Check the boundary of a plan, and write its anchors.

    A version of an earlier table in this place cannot be opened by an anchor, so it stays in the
    log, and there is another plan.
    """
    while plan.boundary_version is not None and plan.commits + plan.checkpoints:
        _validate_boundary(log, plan)
        foreign = []
        for version in plan.anchored:
            found = log.snapshot(version)
            if found.metadata.id == snapshot.metadata.id:
                write_anchor(found, lambda: now_ms)
            else:
                foreign.append(version)
        if not foreign:
            break
        kept = kept.keep_in_log(foreign)
        plan = kept.plan(snapshot, now_ms)
    return plan, kept


def _plan_around_new_refs(
    log: DeltaLog,
    snapshot: Snapshot,
    plan: LogCleanupPlan,
    now_ms: int,
    kept: _VersionsToKeep,
    keep_versions: KeptVersions,
) -> LogCleanupPlan:
    """Replace the plan if there are more versions to keep than when it was made."""
    while plan.commits + plan.checkpoints:
        again = _load_versions(keep_versions)
        if kept.covers(again):
            break
        kept = again.keep_in_log(kept.by_commits)
        plan, kept = _anchor_versions(log, snapshot, kept.plan(snapshot, now_ms), now_ms, kept)
    return plan


def _execute(
    log: DeltaLog, snapshot: Snapshot, plan: LogCleanupPlan, now_ms: int, on_event: OnEvent
) -> LogCleanupResult:
    _prepare_log(log, plan)
    return _delete_planned(log, snapshot, plan, now_ms, on_event)


def _would_differ(store_ms: int, now_ms: int, retention_ms: int) -> bool:
    """Whether the store's clock and this machine's may lead to different plans."""
    cutoffs = {cutoff_ms_of(each, retention_ms) for each in (store_ms, now_ms)}
    return len(cutoffs) > 1 or abs(store_ms - now_ms) > _SAME_TIME_MS


def _validate_boundary(log: DeltaLog, plan: LogCleanupPlan) -> None:
    """Read the boundary checkpoint in full: every remaining version will depend on it."""
    snapshot = log.snapshot(plan.boundary_version)
    snapshot.transactions()  # a checksum may have supplied them instead of the checkpoint
    # Every column is read: once the commits are gone, an unreadable column is lost, and no other
    # checkpoint can be written from this one.
    for _ in snapshot.stream_live(ADD.names):
        pass
    if snapshot.opened_checkpoint is not None:
        for _ in stream_removes(log.storage, snapshot.opened_checkpoint, REMOVE.names):
            pass
    for damaged in snapshot.damaged_checkpoints:
        # Readers fall back to files that this clean-up would delete.
        raise LogCorruptError(log.uri, damaged.file, f"{damaged.reason}; nothing was deleted")
    validate_checksum(snapshot)


def _prepare_log(log: DeltaLog, plan: LogCleanupPlan) -> None:
    """Prepare the log for the first deletion of a checkpoint or commit.

    Writes a checkpoint with a classic name if the plan needs one. Deletes the hint if it names a
    checkpoint that will be deleted.
    """
    if plan.compatible_version is not None:
        write_compatible_checkpoint(log.storage, log.log_directory, plan.compatible_version)
    if plan.checkpoints and plan.boundary_version is not None:
        named = load_named_version(log.storage, log.log_directory)
        if named is not None and named < plan.boundary_version:
            log.storage.delete(f"{log.log_directory}/{LAST_CHECKPOINT}")


def _delete_planned(
    log: DeltaLog, snapshot: Snapshot, plan: LogCleanupPlan, now_ms: int, on_event: OnEvent
) -> LogCleanupResult:
    if plan.incomplete:
        validate_format(snapshot)
    stale = delete_stale(log.storage, log.log_directory, plan.incomplete, now_ms)
    failures = [*stale.failures]
    deleted = [*stale.files]
    needed = 0
    total = len(plan.files)
    sidecars = frozenset(plan.sidecars)
    for batch in () if failures else _batches(plan):
        chosen = batch
        if batch[0] in sidecars:
            named = _named_sidecars(log, plan, batch)
            chosen = [info for info in batch if info.path not in named]
            needed += len(named)
        validate_format(snapshot)
        validate_same_table(snapshot)  # files of another table have the same names
        failures = log.storage.delete_many(info.path for info in chosen)
        left = frozenset(failures)
        deleted += [info for info in chosen if info.path not in left]
        on_event(Progress(table=log.uri, operation="clean up log", done=len(deleted), total=total))
        if failures:
            break
    earliest = plan.earliest_after
    if failures:  # the plan is partly executed
        earliest = earliest_version(list_log(log.storage, log.log_directory))
    return LogCleanupResult(
        plan=plan,
        dry_run=False,
        deleted_files=len(deleted),
        deleted_bytes=sum(info.size for info in deleted),
        failures=tuple(failures),
        earliest_version=earliest,
        needed_after_all=needed,
    )


def _named_sidecars(log: DeltaLog, plan: LogCleanupPlan, sidecars: Sequence[FileInfo]) -> set[str]:
    """The sidecars that an existing checkpoint refers to; read just before a deletion."""
    files = log.storage.list_from(log.log_directory, "")
    return referenced_sidecars(
        log.storage, top_level_files(files, plan), {info.path for info in sidecars}
    )


def _batches(plan: LogCleanupPlan) -> Iterator[Sequence[FileInfo]]:
    oldest, later = plan.versions[:1], plan.versions[1:]
    for files in (
        plan.compactions,
        oldest,
        later,
        plan.checksums,
        plan.sidecars,
        plan.leftovers,
        plan.unused_anchors,
    ):
        for start in range(0, len(files), _BATCH):
            yield files[start : start + _BATCH]

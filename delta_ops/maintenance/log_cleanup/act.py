"""Log clean-up: delete the log files that only versions past their retention need.

Source: PROTOCOL.md, "Metadata Cleanup"; what may go is decided in `plan`.

Before anything goes, the boundary checkpoint is read, with all its parts, and compared with the
checksum of its version if there is one: all that stays will rest on it. Deletion goes in an order
in which whoever looks meanwhile, or after a kill, reads what stays as before, and what goes as
before or not at all:

1. a hint that names a checkpoint about to go: without one readers list, with a dangling one some
   fail;
2. what is left of checkpoints that nobody finished, which another clean-up may take for whole;
3. compactions, which stand for commits that go;
4. the oldest commit, by itself, so that nobody takes version 0 for readable with a hole behind it;
5. the other commits from the oldest on, and each checkpoint after the commits that rest on it;
6. checksums, then sidecars, which by then no checkpoint names, then leftovers.

The cutoff is by the store's clock, as the times of its files are.
It may be killed at any call: the next run finds less to do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import LogCorruptError
from delta_ops.events import OnEvent, Progress, ignore
from delta_ops.log import DeltaLog, Snapshot, TableOrPlace, log_of
from delta_ops.log.checkpoint.compatible import write_compatible_checkpoint
from delta_ops.log.checkpoint.incomplete import delete_stale
from delta_ops.log.checkpoint.read import stream_removes
from delta_ops.log.checkpoint.sidecar_references import referenced_sidecars
from delta_ops.log.checkpoint.sidecars import list_sidecars
from delta_ops.log.checksum_write.verify import validate_checksum
from delta_ops.log.fresh_listing import retry_if_vanished
from delta_ops.log.history.in_commit_timestamps import load_in_commit_times
from delta_ops.log.last_checkpoint import load_named_version
from delta_ops.log.same_table import validate_same_table
from delta_ops.log.segment import earliest_version, list_log, listing_from_files
from delta_ops.maintenance.admission import validate_format, validate_log_deletable
from delta_ops.maintenance.log_cleanup.plan import (
    LogCleanupPlan,
    add_orphans,
    cutoff_ms_of,
    old_sidecars,
    plan_clean_up_log,
    top_level_files,
)
from delta_ops.protocol.arrow_schemas import ADD, REMOVE
from delta_ops.protocol.file_names import LAST_CHECKPOINT
from delta_ops.storage import FileInfo
from delta_ops.storage.store_clock import store_time_ms

_BATCH = 5000
"""Files that are deleted between two words of progress; a store takes as many as it can at once."""
_SAME_TIME_MS = 60_000
"""Next to the day after which unfinished files go; the cutoff is compared by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCleanupResult:
    """What `clean_up_log` did."""

    plan: LogCleanupPlan
    dry_run: bool
    deleted_files: int
    deleted_bytes: int
    failures: tuple[str, ...]
    """Files that could not be deleted; those after them in the plan were left for another run."""
    earliest_version: int | None
    """The earliest version that can be read now, with all after it."""
    needed_after_all: int = 0
    """Sidecars of the plan that stayed, because a checkpoint came to name them meanwhile."""


def load_log_cleanup_plan(
    snapshot: Snapshot, *, now_ms: int, keep_versions: Collection[int] = ()
) -> LogCleanupPlan:
    """List the log of a table and plan its clean-up.

    Raises:
        UnsupportedFeatureError: The table has a feature, or a `_delta_ops` format, unknown here.
        InvalidRequestError: A property of the table cannot be understood.
        VersionNotFoundError: A version that is to be kept cannot be read.
        LogCorruptError: The same, since a commit is missing; or one lacks the timestamp that its
            table demands, or a checkpoint that may name old sidecars cannot be read.
    """
    validate_log_deletable(snapshot)
    return plan_of_log(snapshot, now_ms=now_ms, keep_versions=keep_versions)


def plan_of_log(
    snapshot: Snapshot, *, now_ms: int, keep_versions: Collection[int] = ()
) -> LogCleanupPlan:
    """`load_log_cleanup_plan` for whoever deletes nothing: every table is looked at."""

    def look() -> LogCleanupPlan:
        files = list(snapshot.storage.list_from(snapshot.log_directory, ""))
        return plan_of_listed(snapshot, files, now_ms=now_ms, keep_versions=keep_versions)

    return retry_if_vanished(snapshot.storage, snapshot.log_directory, look)


def clean_up_log(
    log: TableOrPlace,
    *,
    dry_run: bool = False,
    clock: Clock | None = None,
    keep_versions: Collection[int] = (),
    on_event: OnEvent = ignore,
) -> LogCleanupResult:
    """Delete the log files that are past their retention.

    Being asked, it acts even where `delta.enableExpiredLogCleanup` is false; who runs it unasked
    looks at `plan.is_enabled` first.

    Args:
        clock: The store's own if None, which is asked only if there is something to delete; a dry
            run, which writes nothing, goes by this machine's.
        keep_versions: Versions that must stay readable, however old they are, and so all after the
            first of them; looked into again before the first file goes.

    Raises:
        UnsupportedFeatureError: The table has a feature, or a `_delta_ops` format, unknown here.
        VersionNotFoundError: A version that is to be kept cannot be read.
        LogCorruptError: The boundary checkpoint cannot be read or contradicts its checksum, or as
            `load_log_cleanup_plan`; nothing was deleted.
        InvalidRequestError: A property of the table cannot be understood.
        TableReplacedError: The table was deleted, or another stands in its place.
    """
    validate_arguments(clean_up_log, locals())
    log = log_of(log)
    snapshot = log.snapshot()
    now_ms = (clock or system_clock)()
    kept = frozenset(keep_versions)
    plan = load_log_cleanup_plan(snapshot, now_ms=now_ms, keep_versions=kept)
    if clock is None and plan.has_work and not dry_run:
        store_ms = store_time_ms(log.storage)
        if _would_differ(store_ms, now_ms, snapshot.properties.log_retention_ms):
            now_ms = store_ms
            plan = load_log_cleanup_plan(snapshot, now_ms=now_ms, keep_versions=kept)
    while not dry_run and plan.commits + plan.checkpoints:
        _prove_boundary(log, plan)
        again = frozenset(keep_versions)
        if again <= kept:
            break
        kept = again
        plan = load_log_cleanup_plan(snapshot, now_ms=now_ms, keep_versions=kept)
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
    _make_way(log, plan)
    return _delete_planned(log, snapshot, plan, now_ms, on_event)


def plan_of_listed(
    snapshot: Snapshot,
    files: Sequence[FileInfo],
    *,
    now_ms: int,
    keep_versions: Collection[int] = (),
) -> LogCleanupPlan:
    """`load_log_cleanup_plan` of what was listed of the log; who deletes asks whether it may.

    Args:
        snapshot: The latest version.
        files: All that are directly in the log directory.

    Raises:
        FileNotFoundError: One of them is gone.
        VersionNotFoundError, LogCorruptError: As `load_log_cleanup_plan`.
    """
    storage, properties = snapshot.storage, snapshot.properties
    base_version = snapshot.base.version if snapshot.base else -1
    retention_ms = properties.log_retention_ms
    is_protected = snapshot.definition.has("checkpointProtection")
    plan = plan_clean_up_log(
        files,
        now_ms=now_ms,
        retention_ms=retention_ms,
        keep_versions=[version for version in keep_versions if version > base_version],
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


def _would_differ(store_ms: int, now_ms: int, retention_ms: int) -> bool:
    """Whether the store's clock and this machine's may lead to different plans."""
    cutoffs = {cutoff_ms_of(each, retention_ms) for each in (store_ms, now_ms)}
    return len(cutoffs) > 1 or abs(store_ms - now_ms) > _SAME_TIME_MS


def _prove_boundary(log: DeltaLog, plan: LogCleanupPlan) -> None:
    """Read what everything that stays will rest on."""
    snapshot = log.snapshot(plan.boundary_version)
    snapshot.transactions()  # the checkpoint has them, a checksum may have the rest
    # In full: once the commits are gone, a column that cannot be read is lost, and no other
    # checkpoint can be written from this one.
    for _ in snapshot.stream_live(ADD.names):
        pass
    if snapshot.opened_checkpoint is not None:
        for _ in stream_removes(log.storage, snapshot.opened_checkpoint, REMOVE.names):
            pass
    for damaged in snapshot.damaged_checkpoints:
        # Readers have fallen back to what this clean-up would delete.
        raise LogCorruptError(log.uri, damaged.file, f"{damaged.reason}; nothing was deleted")
    validate_checksum(snapshot)


def _make_way(log: DeltaLog, plan: LogCleanupPlan) -> None:
    """What has to be there, or gone, before the first checkpoint or commit goes."""
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
    if failures:  # some of what was to go is gone, some is there
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
    """Sidecars that a checkpoint refers to which is there at this moment."""
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
    ):
        for start in range(0, len(files), _BATCH):
            yield files[start : start + _BATCH]

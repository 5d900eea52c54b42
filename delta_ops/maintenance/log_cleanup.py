"""Log clean-up: delete the log files that only versions past their retention need.

Source: PROTOCOL.md, "Metadata Cleanup"; where it is silent, the rules are the reference's.

1. The cutoff is now less `delta.logRetentionDuration`, at the midnight (UTC) before.
2. The boundary is the newest complete checkpoint of a version that was committed at or before the
   cutoff. Times of commits are made to grow with versions first: a copied log has times at random.
   A multi-part checkpoint with a part missing is no checkpoint.
3. The boundary checkpoint, the commit of its version and everything after stay. Every version that
   was the latest at the cutoff or later can be read as before.
4. Deletion goes: a hint that names a checkpoint about to go (without one readers list, with a
   dangling one some fail), older checkpoints, compactions, the oldest commit, the other commits
   from the oldest on, checksums. Once the older checkpoints are gone the boundary is the first
   place to start from, whichever commits before it are still there; and once the oldest commit is
   gone no reader takes version 0 for readable and finds a hole behind it. So whoever looks while
   this runs, or after it was killed, is told the right earliest version, and from the boundary on
   nothing changes for anybody.

Does not touch V2 checkpoints and their sidecars: a table that has any is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from delta_ops.clock import DAY_MS, Clock, system_clock
from delta_ops.errors import DeltaOpsError, UnsupportedFeatureError
from delta_ops.events import OnEvent, Progress, ignore
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.history import monotone_times
from delta_ops.log.last_checkpoint import load_hint
from delta_ops.log.segment import (
    Checkpoint,
    LogListing,
    earliest_version,
    listing_from_files,
    segment_from_listing,
)
from delta_ops.maintenance.admission import validate_deletable
from delta_ops.maintenance.leftovers import is_leftover
from delta_ops.protocol.file_names import (
    LAST_CHECKPOINT,
    CheckpointName,
    ChecksumName,
    CommitName,
    CompactionName,
    log_file_name,
)
from delta_ops.storage import FileInfo

_BATCH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCleanupPlan:
    """What may go from the log. Files of each kind are in ascending order of versions."""

    cutoff_ms: int
    """Milliseconds since the Unix epoch; what was the latest version then can still be read."""
    boundary_version: int | None
    """Of the checkpoint from which on everything stays; None: only leftovers may go."""
    earliest_before: int | None
    """The earliest version that can be read, with all after it."""
    earliest_after: int | None
    is_enabled: bool
    """`delta.enableExpiredLogCleanup`: whether clean-up may run without being asked."""
    checkpoints: tuple[FileInfo, ...] = ()
    compactions: tuple[FileInfo, ...] = ()
    commits: tuple[FileInfo, ...] = ()
    checksums: tuple[FileInfo, ...] = ()
    leftovers: tuple[FileInfo, ...] = ()
    """Unfinished files that are older than a day."""

    @property
    def files(self) -> tuple[FileInfo, ...]:
        """All that may go, in the order in which it goes."""
        return (
            *self.checkpoints,
            *self.compactions,
            *self.commits,
            *self.checksums,
            *self.leftovers,
        )

    @property
    def size_bytes(self) -> int:
        """Bytes of `files`."""
        return sum(info.size for info in self.files)

    @property
    def has_work(self) -> bool:
        """Whether anything may go."""
        return bool(self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCleanupResult:
    """What `clean_up_log` did."""

    plan: LogCleanupPlan
    dry_run: bool
    deleted_files: int
    deleted_bytes: int
    failures: tuple[str, ...]
    """Files that could not be deleted; those after them in the plan were left for another run."""


def plan_clean_up_log(
    files: Iterable[FileInfo],
    *,
    now_ms: int,
    retention_ms: int,
    keep_versions: Collection[int] = (),
    is_enabled: bool = True,
) -> LogCleanupPlan:
    """Choose the log files to delete.

    Args:
        files: The files directly in the log directory; any order.
        now_ms: Milliseconds since the Unix epoch.
        retention_ms: How long a version can be read after the next one was committed.
        keep_versions: Versions that must stay readable however old they are.
        is_enabled: Goes into the plan; the choice does not depend on it.
    """
    listed = sorted(files)
    listing = listing_from_files(listed)
    cutoff_ms = (now_ms - retention_ms) // DAY_MS * DAY_MS
    boundary = _boundary(listing, cutoff_ms, keep_versions)
    expired = _expired(listed, boundary.version) if boundary else {}
    leftovers = tuple(info for info in listed if is_leftover(info, now_ms))
    gone = {info.path for infos in expired.values() for info in infos}
    left = (info for info in listed if info.path not in gone)
    remaining = listing_from_files(left) if gone else listing
    return LogCleanupPlan(
        cutoff_ms=cutoff_ms,
        boundary_version=boundary.version if boundary else None,
        earliest_before=earliest_version(listing),
        earliest_after=earliest_version(remaining),
        is_enabled=is_enabled,
        checkpoints=tuple(expired.get(CheckpointName, ())),
        compactions=tuple(expired.get(CompactionName, ())),
        commits=tuple(expired.get(CommitName, ())),
        checksums=tuple(expired.get(ChecksumName, ())),
        leftovers=leftovers,
    )


def load_log_cleanup_plan(
    snapshot: Snapshot, *, now_ms: int, keep_versions: Collection[int] = ()
) -> LogCleanupPlan:
    """List the log of a table and plan its clean-up.

    Raises:
        UnsupportedFeatureError: The table uses what we cannot write, or has V2 checkpoints.
        InvalidRequestError: A property of the table cannot be understood.
    """
    validate_deletable(snapshot)
    files = list(snapshot.storage.list_from(snapshot.log_directory, ""))
    if listing_from_files(files).v2_checkpoints:
        raise UnsupportedFeatureError(snapshot.uri, ("v2Checkpoint",), "cleaned up")
    return plan_clean_up_log(
        files,
        now_ms=now_ms,
        retention_ms=snapshot.properties.log_retention_ms,
        keep_versions=keep_versions,
        is_enabled=snapshot.properties.enable_expired_log_cleanup,
    )


def clean_up_log(
    log: DeltaLog,
    *,
    dry_run: bool = False,
    clock: Clock = system_clock,
    keep_versions: Collection[int] = (),
    on_event: OnEvent = ignore,
) -> LogCleanupResult:
    """Delete the log files that are past their retention.

    Being asked, it acts even where `delta.enableExpiredLogCleanup` is false; who runs it unasked
    looks at `plan.is_enabled` first.

    Raises:
        UnsupportedFeatureError: The table uses what we cannot write, or has V2 checkpoints.
        LogCorruptError: The boundary checkpoint cannot be read; nothing was deleted.
        InvalidRequestError: A property of the table cannot be understood.
    """
    plan = load_log_cleanup_plan(log.snapshot(), now_ms=clock(), keep_versions=keep_versions)
    failures: list[str] = []
    deleted: list[FileInfo] = []
    if plan.has_work and not dry_run:
        if plan.boundary_version is not None:
            _prove_boundary(log, plan.boundary_version)
        for batch in _batches(plan):
            failures = log.storage.delete_many(info.path for info in batch)
            deleted += [info for info in batch if info.path not in failures]
            on_event(
                Progress(
                    table=log.uri,
                    operation="clean up log",
                    done=len(deleted),
                    total=len(plan.files),
                )
            )
            if failures:
                break
    return LogCleanupResult(
        plan=plan,
        dry_run=dry_run,
        deleted_files=len(deleted),
        deleted_bytes=sum(info.size for info in deleted),
        failures=tuple(failures),
    )


def _boundary(
    listing: LogListing, cutoff_ms: int, keep_versions: Collection[int]
) -> Checkpoint | None:
    times = monotone_times(listing)
    kept = [version for version in keep_versions if _is_readable(listing, version)]
    old_enough = [
        checkpoint
        for checkpoint in listing.checkpoints
        if _time_of(checkpoint, times) <= cutoff_ms
        and all(checkpoint.version <= version for version in kept)
    ]
    return old_enough[-1] if old_enough else None


def _time_of(checkpoint: Checkpoint, times: dict[int, int]) -> int:
    """When its version was committed; without that commit's file, when it was written, later."""
    written_ms = max(part.modified_ms for part in checkpoint.parts)
    return times.get(checkpoint.version, written_ms)


def _is_readable(listing: LogListing, version: int) -> bool:
    try:
        segment_from_listing(listing, "", version)
    except DeltaOpsError:
        return False
    return True


def _expired(listed: Sequence[FileInfo], boundary: int) -> dict[type, list[FileInfo]]:
    found: dict[type, list[FileInfo]] = {}
    for info in listed:
        match log_file_name(_name(info)):
            case CompactionName(start_version=first) as name if first < boundary:
                found.setdefault(type(name), []).append(info)
            case (
                CommitName(version=v) | CheckpointName(version=v) | ChecksumName(version=v) as name
            ):
                if v < boundary:
                    found.setdefault(type(name), []).append(info)
    return found


def _name(info: FileInfo) -> str:
    return info.path.rpartition("/")[2]


def _prove_boundary(log: DeltaLog, version: int) -> None:
    """Read what everything after it rests on, and drop a hint that is about to dangle."""
    log.snapshot(version).transactions()  # the checkpoint has them, a checksum may have the rest
    hint = load_hint(log.storage, log.log_directory)
    if hint is not None and hint < version:
        log.storage.delete(f"{log.log_directory}/{LAST_CHECKPOINT}")


def _batches(plan: LogCleanupPlan) -> Iterator[Sequence[FileInfo]]:
    oldest, later = plan.commits[:1], plan.commits[1:]
    for files in (
        plan.checkpoints,
        plan.compactions,
        oldest,
        later,
        plan.checksums,
        plan.leftovers,
    ):
        for start in range(0, len(files), _BATCH):
            yield files[start : start + _BATCH]

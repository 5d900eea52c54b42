"""Chooses the log files to delete. Pure.

Source: PROTOCOL.md, "Metadata Cleanup"; the rules of Delta Lake where the protocol is silent. See
docs/decisions/018-log-cleanup.md.

1. The cutoff is `delta.logRetentionDuration` before now, rounded down to midnight (UTC).
2. The boundary is the newest complete checkpoint of a version that was committed at or before the
   cutoff. A commit time that is not later than its predecessor's is first raised, because a copied
   log has random times.
   In-commit timestamps take precedence where commits have them. A multi-part checkpoint with a
   missing part does not count.
3. The boundary checkpoint, the commit of its version and everything after stay. Every version that
   was the latest at the cutoff or later can be read as before.
4. Versions of tags and releases do not hold the boundary back: an anchor keeps each that the log
   loses. See `log.refs.anchors`.
5. A sidecar is deleted if no kept checkpoint names it and it is older than the cutoff: a younger
   sidecar may belong to a checkpoint that is being written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import SupportsIndex

from delta_ops.arguments import validate_arguments
from delta_ops.clock import DAY_MS
from delta_ops.errors import InvalidRequestError
from delta_ops.log.checkpoint.incomplete import stale_files
from delta_ops.log.history.commit_times import latest_times
from delta_ops.log.history.in_commit_timestamps import InCommitTimes
from delta_ops.log.segment import (
    Checkpoint,
    LogListing,
    earliest_version,
    listing_from_files,
    segment_from_listing,
)
from delta_ops.maintenance.leftovers import is_leftover
from delta_ops.protocol.file_names import (
    CheckpointName,
    ChecksumName,
    CompactionName,
    LogFileName,
    V2CheckpointName,
    log_file_name,
)
from delta_ops.storage import FileInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCleanupPlan:
    """The log files to delete. Files of each kind are in ascending order of versions."""

    cutoff_ms: int
    """Milliseconds since the Unix epoch; the latest version at that time stays readable."""
    boundary_version: int | None
    """Version of the oldest checkpoint that stays; None: only leftovers are deleted."""
    earliest_before: int | None
    """The first readable version; all later versions are readable, too."""
    earliest_after: int | None
    latest_version: int | None
    is_enabled: bool
    """`delta.enableExpiredLogCleanup`: whether automatic clean-up is on."""
    compatible_version: int | None = None
    """Version of the newest checkpoint if it needs a copy with a classic name first.

    Readers that know no V2 checkpoints learn from the copy that the table has them.
    """
    incomplete: tuple[FileInfo, ...] = ()
    """Files of unfinished checkpoints, anywhere in the log: see `incomplete_checkpoints`."""
    checkpoints: tuple[FileInfo, ...] = ()
    compactions: tuple[FileInfo, ...] = ()
    commits: tuple[FileInfo, ...] = ()
    checksums: tuple[FileInfo, ...] = ()
    """Checksums of versions, and checksums that Hadoop keeps beside files of the log."""
    sidecars: tuple[FileInfo, ...] = ()
    """Sidecars that no kept checkpoint refers to."""
    leftovers: tuple[FileInfo, ...] = ()
    """Unfinished files that are older than a day."""
    anchored: tuple[int, ...] = ()
    """Versions of tags and releases that get an anchor before the log loses them; ascending."""
    unused_anchors: tuple[FileInfo, ...] = ()
    """Anchors of versions that no ref has any more."""

    @property
    def versions(self) -> tuple[FileInfo, ...]:
        """Commits and checkpoints, in the order of deletion."""
        return tuple(_interleave_checkpoints(self.commits, self.checkpoints))

    @property
    def files(self) -> tuple[FileInfo, ...]:
        """All files to delete, in the order of deletion."""
        return (
            *self.incomplete,
            *self.compactions,
            *self.versions,
            *self.checksums,
            *self.sidecars,
            *self.leftovers,
            *self.unused_anchors,
        )

    @property
    def size_bytes(self) -> int:
        """Bytes of `files`."""
        return sum(info.size for info in self.files)

    @property
    def has_work(self) -> bool:
        """Whether there is anything to delete."""
        return bool(self.files)


def plan_clean_up_log(
    files: Iterable[FileInfo],
    *,
    now_ms: int,
    retention_ms: int,
    keep_versions: Collection[int] = (),
    anchor_versions: Collection[int] = (),
    is_enabled: bool = True,
    in_commit: InCommitTimes | None = None,
    protected_before: int = 0,
    table: str = "",
) -> LogCleanupPlan:
    """Choose the files directly in the log directory to delete.

    Args:
        files: All files directly in the log directory; any order.
        now_ms: Milliseconds since the Unix epoch.
        retention_ms: How long a version can be read after the next version was committed.
        keep_versions: Versions that must stay readable at any age, with all versions after them.
        anchor_versions: Versions that the log may lose, because an anchor keeps them.
        is_enabled: Recorded in the plan; the choice does not depend on it.
        in_commit: In-commit timestamps, if the table has them.
        protected_before: `delta.requireCheckpointProtectionBeforeVersion`: a clean-up that does not
            reach this version writes no checkpoint below it.
        table: For messages.

    Raises:
        InvalidRequestError: A version to keep or to anchor is no whole number.
        VersionNotFoundError: A version to keep or to anchor cannot be read.
        LogCorruptError: It cannot be read because a commit is missing.

    Examples:
        >>> log = DeltaLog("lake/orders")
        >>> files = list(log.storage.list_from(log.log_directory, ""))
        >>> plan = plan_clean_up_log(files, now_ms=1_800_000_000_000, retention_ms=0)
        >>> plan.commits  # no checkpoint makes the commit unnecessary
        ()
    """
    validate_arguments(plan_clean_up_log, locals())
    listed = sorted(files)
    listing = listing_from_files(listed)
    for version in (*keep_versions, *anchor_versions):
        if not isinstance(version, SupportsIndex):
            raise InvalidRequestError(
                f"{version!r} cannot be kept, because it is not a whole number"
            )
        segment_from_listing(listing, table, version)
    cutoff_ms = cutoff_ms_of(now_ms, retention_ms)
    boundary = _boundary(
        listing, _expired_version(listing, cutoff_ms, now_ms, in_commit), keep_versions
    )
    compatible = _version_without_classic_name(listing)
    if boundary is not None and _is_whole(listing, boundary):
        compatible = None  # no commit and no checkpoint would be deleted
    if boundary is not None and compatible is not None and compatible < protected_before:
        boundary = None
    stale = stale_files(listing, now_ms)
    plan = LogCleanupPlan(
        cutoff_ms=cutoff_ms,
        boundary_version=boundary,
        earliest_before=earliest_version(listing),
        earliest_after=earliest_version(_cut_listing(boundary, listing)),
        latest_version=listing.latest_version,
        is_enabled=is_enabled,
        incomplete=stale,
        leftovers=tuple(i for i in listed if "/." in i.path and is_leftover(i, now_ms)),
    )
    if boundary is None:
        return plan
    gone = {info.path for info in stale}
    lost = () if _is_whole(listing, boundary) else {v for v in anchor_versions if v < boundary}
    expired = _other_expired_files([i for i in listed if i.path not in gone], listing, boundary)
    return replace(
        plan,
        compatible_version=compatible,
        commits=tuple(listing.commits[v] for v in sorted(listing.commits) if v < boundary),
        checkpoints=tuple(expired.get("checkpoints", ())),
        compactions=tuple(expired.get("compactions", ())),
        checksums=tuple(expired.get("checksums", ())),
        anchored=tuple(sorted(lost)),
    )


def cutoff_ms_of(now_ms: int, retention_ms: int) -> int:
    """The cutoff in ms: now minus the retention, rounded down to midnight (UTC)."""
    return (now_ms - retention_ms) // DAY_MS * DAY_MS


def add_orphans(
    plan: LogCleanupPlan,
    sidecars: Iterable[FileInfo],
    referenced: Collection[str],
    *,
    now_ms: int,
) -> LogCleanupPlan:
    """Add the deletable files of the sidecar directory to a plan.

    Args:
        sidecars: The files directly in that directory.
        referenced: Paths of the sidecars that a kept checkpoint names.
        now_ms: Milliseconds since the Unix epoch.
    """
    listed = sorted(sidecars)
    orphans = [i for i in old_sidecars(listed, plan, now_ms=now_ms) if i.path not in referenced]
    leftovers = (info for info in listed if is_leftover(info, now_ms))
    return replace(plan, sidecars=tuple(orphans), leftovers=(*plan.leftovers, *leftovers))


def old_sidecars(
    sidecars: Iterable[FileInfo], plan: LogCleanupPlan, *, now_ms: int
) -> list[FileInfo]:
    """The sidecars that are old enough to delete if no checkpoint names them."""
    before_ms = min(plan.cutoff_ms, now_ms - DAY_MS)
    return [
        info
        for info in sidecars
        if info.modified_ms < before_ms
        and info.path.endswith(".parquet")
        and not _name(info).startswith(".")
    ]


def top_level_files(files: Iterable[FileInfo], plan: LogCleanupPlan) -> list[FileInfo]:
    """Files of kept checkpoints that may name sidecars, newest first."""
    gone = {info.path for info in plan.checkpoints}
    return [
        info
        for info in sorted(files, reverse=True)
        if info.size and info.path not in gone and _may_name_sidecars(log_file_name(_name(info)))
    ]


def _may_name_sidecars(name: LogFileName | None) -> bool:
    match name:
        case V2CheckpointName():
            return True
        case CheckpointName(parts=parts):
            return parts == 1
    return False


def _expired_version(
    listing: LogListing, cutoff_ms: int, now_ms: int, in_commit: InCommitTimes | None
) -> int | None:
    """The last version that was certainly committed at or before the cutoff."""
    if in_commit is None and _is_all_younger(listing, cutoff_ms):
        return None
    times = latest_times(listing, now_ms)
    # A checkpoint is written after its commit, so its own time is never too early.
    latest_ms = 0
    for version in sorted({*times, *(c.version for c in listing.checkpoints)}):
        latest_ms = max(latest_ms, times.get(version, 0))
        times.setdefault(version, latest_ms)
    for checkpoint in listing.checkpoints:
        if checkpoint.version not in listing.commits:
            written_ms = max(part.modified_ms for part in checkpoint.parts)
            times[checkpoint.version] = max(written_ms, times[checkpoint.version])
    if in_commit is not None:
        since = in_commit.since_version
        times = {
            version: time
            for version, time in times.items()
            if version < since or version not in listing.commits
        }
        times.update(in_commit.by_version)
    return max((version for version, time in times.items() if time <= cutoff_ms), default=None)


def _is_all_younger(listing: LogListing, cutoff_ms: int) -> bool:
    """Whether all files, and so all versions, are newer than the cutoff."""
    of_checkpoints = (part for each in listing.checkpoints for part in each.parts)
    infos = (*listing.commits.values(), *of_checkpoints)
    return all(info.modified_ms > cutoff_ms for info in infos)


def _boundary(
    listing: LogListing, expired_version: int | None, keep_versions: Collection[int]
) -> int | None:
    if expired_version is None:
        return None
    last = min([expired_version, *keep_versions])
    return max((c.version for c in listing.checkpoints if c.version <= last), default=None)


def _version_without_classic_name(listing: LogListing) -> int | None:
    """The version of the newest checkpoint, if it has no classic name."""
    if not listing.checkpoints or not _has_v2_name(listing.checkpoints[-1]):
        return None
    return listing.checkpoints[-1].version


def _has_v2_name(checkpoint: Checkpoint) -> bool:
    names = [log_file_name(_name(part)) for part in checkpoint.parts]
    return isinstance(names[0], V2CheckpointName)


def _is_whole(listing: LogListing, boundary: int) -> bool:
    oldest = min((*listing.commits, *(c.version for c in listing.checkpoints)))
    return oldest >= boundary


def _cut_listing(boundary: int | None, listing: LogListing) -> LogListing:
    if boundary is None:
        return listing
    return replace(
        listing,
        commits={v: info for v, info in listing.commits.items() if v >= boundary},
        checkpoints=tuple(c for c in listing.checkpoints if c.version >= boundary),
    )


def _other_expired_files(
    listed: Sequence[FileInfo], listing: LogListing, boundary: int
) -> Mapping[str, list[FileInfo]]:
    """Expired files other than commits, by the name of their field in the plan."""
    found: dict[str, list[FileInfo]] = {"checkpoints": [], "compactions": [], "checksums": []}
    commits = {info.path for info in listing.commits.values()}
    for info in listed:
        if info.path in commits:
            continue
        name = _name(info)
        match log_file_name(name):
            # A compaction that starts at the boundary is useless without an older checkpoint.
            case CompactionName(start_version=first) if first <= boundary:
                found["compactions"].append(info)
            case CheckpointName(version=v) | V2CheckpointName(version=v) if v < boundary:
                found["checkpoints"].append(info)
            case ChecksumName(version=v) if v < boundary:
                found["checksums"].append(info)
            case None if _is_of_expired(name, boundary):
                found["checksums"].append(info)
    return found


def _is_of_expired(name: str, boundary: int) -> bool:
    """Whether a file is Hadoop's checksum of an expired or deleted log file."""
    if not (name.startswith(".") and name.endswith(".crc")):
        return False
    match log_file_name(name[1 : -len(".crc")]):
        case None:
            return False
        case CompactionName(start_version=first):
            return first <= boundary
        case of_version:
            return of_version.version < boundary


def _interleave_checkpoints(
    commits: Sequence[FileInfo], checkpoints: Sequence[FileInfo]
) -> list[FileInfo]:
    """Merge commits and checkpoints, each checkpoint after the commits up to the next checkpoint.

    After a partial deletion, a reader of one of these versions finds the checkpoint and a hole
    after it, and every reader rejects a hole. If the checkpoint were deleted first, some readers
    would take the remaining commits for the whole log.
    """
    if not checkpoints:
        return list(commits)
    ordered: list[FileInfo] = []
    waiting: list[FileInfo] = []
    pending = list(reversed(checkpoints))
    for commit in commits:
        while pending and _version(pending[-1]) <= _version(commit):
            if waiting and _version(waiting[0]) < _version(pending[-1]):
                ordered += waiting
                waiting = []
            waiting.append(pending.pop())
        ordered.append(commit)
    return [*ordered, *waiting, *reversed(pending)]


def _version(info: FileInfo) -> str:
    """The zero-padded version in the file name."""
    return _name(info)[:20]


def _name(info: FileInfo) -> str:
    return info.path.rpartition("/")[2]

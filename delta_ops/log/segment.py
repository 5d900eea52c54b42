"""Segment: the files of the log that make up one version.

Source: PROTOCOL.md, "Checkpoints" and "Delta Log Entries".

1. A segment is at most one complete checkpoint and every commit after it, without a gap.
2. It uses the newest complete checkpoint at or below the version, of any kind. A checkpoint with a
   missing part or an empty file is not complete.
3. A gap below the checkpoint does no harm. With a gap above it, the table cannot be read.
4. A listing does not show one moment. While others commit, it may show a version without the
   version before it. Missing versions are therefore listed again.
5. Log compactions are ignored. Some writers leave expired removes out of them, and nothing in a
   compaction shows this. Where an older checkpoint still has the removed files, these would return.
6. A clean-up may delete files between listing and reading. Then a new listing shows the files that
   replaced them, see `retry_if_vanished`.
7. A hint may name a scan cache of the checkpoint's version or of an earlier version. The listing
   then begins at that version, and the cache is read at the same time. It is an addition: the
   segment is complete without it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

from delta_ops.errors import (
    DeltaOpsError,
    LogCorruptError,
    TableNotFoundError,
    VersionNotFoundError,
)
from delta_ops.log.last_checkpoint import Hints, load_hints
from delta_ops.log.replaced_table import is_same_file
from delta_ops.log.scan_cache.file import FoundCache, read_footer_bytes
from delta_ops.log.scan_cache.hint import CacheHint
from delta_ops.log.session_place import is_of_session
from delta_ops.protocol.file_names import (
    CheckpointName,
    ChecksumName,
    V2CheckpointName,
    commit_name,
    commit_version,
    log_file_name,
    version_prefix,
)
from delta_ops.storage import FileInfo, Storage
from delta_ops.storage.concurrency import run_parallel

T = TypeVar("T")

_LISTINGS = 3
MAX_CACHE_AGE = 1000
"""Commits between a scan cache and a checkpoint at most, for the cache to be used: one page of a
listing has about as many files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A complete checkpoint."""

    version: int
    parts: tuple[FileInfo, ...]
    """Its files. A V2 checkpoint has only the top-level file here, which names the sidecars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """The checkpoint and commits of one version; the module's docstring lists its rules."""

    version: int
    checkpoint: Checkpoint | None
    commits: tuple[FileInfo, ...]
    """Ascending, without a gap, up to `version`. The first follows the checkpoint; without a
    checkpoint it is 0, or follows the base version."""
    newest: FileInfo | None = None
    """The file that shows the version: its commit, or its checkpoint if the commit is gone. None if
    this log has neither, or if the caller does not need it."""
    checkpoint_commit: FileInfo | None = None
    """The commit of the checkpoint's version, if it has not been cleaned up."""
    checksums: frozenset[int] = frozenset()
    """Versions with a checksum, starting at the checkpoint's version or at the first."""
    scan_cache: FoundCache | None = None
    """The scan cache that `_last_checkpoint` names."""

    @property
    def checksum_version(self) -> int | None:
        """The newest version whose checksum can replace opening the checkpoint."""
        return max(self.checksums, default=None) if self.checkpoint else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogListing:
    """The files of a log directory by kind."""

    commits: Mapping[int, FileInfo]
    checkpoints: tuple[Checkpoint, ...]
    """Complete checkpoints, ascending, one per version: the checkpoint with the fewest parts."""
    v2_checkpoints: frozenset[int]
    """Versions with a UUID-named checkpoint."""
    checksums: frozenset[int] = frozenset()
    """Versions with a checksum."""
    incomplete: Mapping[int, tuple[FileInfo, ...]] = field(default_factory=dict)
    """Parts and empty files by version, for versions without a complete checkpoint."""

    @property
    def latest_version(self) -> int | None:
        """The newest version with a commit or a complete checkpoint."""
        newest = [self.checkpoints[-1].version] if self.checkpoints else []
        return max((*newest, *self.commits), default=None)

    def file_of(self, version: int) -> FileInfo | None:
        """The version's commit, else the first file of its checkpoint, else None."""
        of_checkpoints = (c.parts[0] for c in self.checkpoints if c.version == version)
        return self.commits.get(version) or next(of_checkpoints, None)


def list_log(storage: Storage, directory: str, *, from_version: int = 0) -> LogListing:
    """List the log directory, starting with a version.

    If a version is missing, the directory is listed a second time, which decides.
    """
    start = version_prefix(from_version) if from_version else ""
    missing = None
    while True:
        listing = listing_from_files(storage.list_from(directory, start))
        missed_before, missing = missing, _find_missing(listing, from_version)
        if missing is None or missing == missed_before:
            return listing


def listing_from_files(files: Iterable[FileInfo]) -> LogListing:
    """Sort listed files by kind."""
    commits: dict[int, FileInfo] = {}
    parts: dict[tuple[int, int], dict[int, FileInfo]] = defaultdict(dict)
    v2_checkpoints: dict[int, FileInfo] = {}
    checksums: set[int] = set()
    of_checkpoints: dict[int, list[FileInfo]] = defaultdict(list)
    for info in files:
        name = info.path.rpartition("/")[2]
        if (committed := commit_version(name)) is not None:  # nearly all files of a long log
            commits[committed] = info
            continue
        match log_file_name(name):
            case CheckpointName(version=version, part=part, parts=count):
                of_checkpoints[version].append(info)
                if info.size and 1 <= part <= count:
                    parts[version, count][part] = info
            case V2CheckpointName(version=version):
                of_checkpoints[version].append(info)
                if info.size:
                    v2_checkpoints[version] = info
            case ChecksumName(version=version) if info.size:
                checksums.add(version)
    complete: dict[int, Checkpoint] = {}
    for (version, count), found in sorted(parts.items()):
        if len(found) == count and version not in complete:
            files_in_order = tuple(found[part] for part in sorted(found))
            complete[version] = Checkpoint(version=version, parts=files_in_order)
    for version, info in v2_checkpoints.items():
        if version not in complete or len(complete[version].parts) > 1:
            complete[version] = Checkpoint(version=version, parts=(info,))
    return LogListing(
        commits=commits,
        checkpoints=tuple(complete[version] for version in sorted(complete)),
        v2_checkpoints=frozenset(v2_checkpoints),
        checksums=frozenset(checksums),
        incomplete={
            version: tuple(infos)
            for version, infos in sorted(of_checkpoints.items())
            if version not in complete
        },
    )


def find_segment(
    storage: Storage, directory: str, version: int | None = None, *, base_version: int | None = None
) -> Segment:
    """Find the segment of a version; of the latest version if `version` is None.

    Args:
        base_version: The version of another log that the first commit here follows.

    Raises:
        TableNotFoundError: The directory holds neither commits nor checkpoints.
        VersionNotFoundError: That version never existed, or has been cleaned up.
        LogCorruptError: A version that is needed is missing.
    """
    # The log of a writer of a session is short and has no checkpoints.
    hints = None if is_of_session(directory) else load_hints(storage, directory)
    if hints is not None and (version is None or version >= hints.version):
        listing, footer = _list_from(storage, directory, hints)
        if any(checkpoint.version == hints.version for checkpoint in listing.checkpoints):
            segment = segment_from_listing(listing, storage.uri, version, base_version)
            if hints.scan_cache is None:
                return segment
            found = find_cache(hints.scan_cache, listing, segment.version, segment.checkpoint)
            return replace(segment, scan_cache=replace(found, footer=footer))
    first = 0 if base_version is None else base_version + 1
    listing = list_log(storage, directory, from_version=first)
    return segment_from_listing(listing, storage.uri, version, base_version)


def find_cache(
    hint: CacheHint, listing: LogListing, version: int, checkpoint: Checkpoint | None
) -> FoundCache:
    """Compare the hint of a scan cache with the log.

    Args:
        hint: The hint.
        listing: Begins at the version of the cache, or earlier.
        version: The version to read.
        checkpoint: The checkpoint that the version is read from.
    """
    last = checkpoint.version if checkpoint else hint.version
    versions = range(hint.version + 1, last + 1)
    commits = tuple(listing.commits[v] for v in versions if v in listing.commits)
    reason = None
    if hint.version > version:
        reason = f"it is of version {hint.version}, which is later"
    elif len(versions) > MAX_CACHE_AGE:
        reason = f"it is of version {hint.version}, more than {MAX_CACHE_AGE} commits ago"
    elif not is_same_file(hint.commit, listing.commits.get(hint.version)):
        reason = f"the log does not have the commit of version {hint.version} that it was made from"
    elif len(commits) < len(versions):
        reason = f"the log does not have all commits since version {hint.version}"
    return FoundCache(hint=hint, commits=commits, reason=reason)


def _list_from(storage: Storage, directory: str, hints: Hints) -> tuple[LogListing, bytes | None]:
    """List the log from the hints' versions on; reads the footer of the scan cache meanwhile."""
    cache, first = hints.scan_cache, hints.version
    if cache is None or first - cache.version > MAX_CACHE_AGE:
        return list_log(storage, directory, from_version=first), None
    listings: list[LogListing] = []
    footers: list[bytes] = []

    def read_listing() -> None:
        start = min(first, cache.version)
        listings.append(list_log(storage, directory, from_version=start))

    def read_footer() -> None:
        with suppress(FileNotFoundError, DeltaOpsError):  # a plan reads it again, and reports it
            footers.append(read_footer_bytes(storage, cache))

    run_parallel(lambda read: read(), (read_listing, read_footer))
    return listings[0], footers[0] if footers else None


def retry_if_vanished(storage: Storage, log_directory: str, look: Callable[[], T]) -> T:
    """Call `look`, and call it again if a listed file is gone.

    Args:
        look: Lists the log and reads the listed files.

    Raises:
        LogCorruptError: Listed files are missing in each of several attempts.
    """
    for _ in range(_LISTINGS):
        try:
            return look()
        except FileNotFoundError as error:
            gone = error
    reason = f"listed files are missing when they are read ({gone})"
    raise LogCorruptError(storage.uri, log_directory, reason) from gone


def segment_from_listing(
    listing: LogListing, table: str, version: int | None, base_version: int | None = None
) -> Segment:
    """Choose the checkpoint and the commits of a version."""
    latest = listing.latest_version
    if latest is None or (base_version is not None and latest < base_version):
        latest = base_version
    if latest is None:
        raise TableNotFoundError(table)
    wanted = latest if version is None else version
    if not 0 <= wanted <= latest:
        raise VersionNotFoundError(table, f"version {wanted}", f"its latest version is {latest}")
    if base_version is not None and wanted < base_version:
        raise VersionNotFoundError(
            table, f"version {wanted}", f"this log begins after version {base_version}"
        )
    checkpoint = _newest_checkpoint(listing.checkpoints, wanted)
    if checkpoint is None:
        first = 0 if base_version is None else base_version + 1
    else:
        first = checkpoint.version + 1
    missing = next((v for v in range(first, wanted + 1) if v not in listing.commits), None)
    if missing is not None:
        raise _hole(listing, table, wanted, missing, explicit=version is not None)
    return Segment(
        version=wanted,
        checkpoint=checkpoint,
        commits=tuple(listing.commits[v] for v in range(first, wanted + 1)),
        checkpoint_commit=listing.commits.get(checkpoint.version) if checkpoint else None,
        checksums=frozenset(
            v for v in listing.checksums if (checkpoint.version if checkpoint else 0) <= v <= wanted
        ),
        newest=listing.file_of(wanted),
    )


def earliest_version(listing: LogListing) -> int | None:
    """The earliest version since which every version can be read; None if there is none."""
    latest = listing.latest_version
    if latest is None:
        return None
    first = latest
    while first in listing.commits:
        first -= 1
    reachable = [c.version for c in listing.checkpoints if c.version >= first]
    return 0 if first < 0 else min(reachable, default=None)


def _find_missing(listing: LogListing, from_version: int) -> int | None:
    """The first version missing below a listed version, cleaned-up versions excepted."""
    if not listing.commits:
        return None
    last = max(listing.commits)
    checkpoint = _newest_checkpoint(listing.checkpoints, last)
    first = min(checkpoint.version + 1, *listing.commits) if checkpoint else from_version
    return next((v for v in range(first, last) if v not in listing.commits), None)


def _newest_checkpoint(checkpoints: Sequence[Checkpoint], version: int) -> Checkpoint | None:
    return max(
        (c for c in checkpoints if c.version <= version), key=lambda c: c.version, default=None
    )


def _hole(
    listing: LogListing, table: str, wanted: int, missing: int, *, explicit: bool
) -> Exception:
    earliest = earliest_version(listing)
    if explicit and earliest is not None and wanted < earliest:
        return VersionNotFoundError(
            table,
            f"version {wanted}",
            f"the log was cleaned up, and the earliest version that can be read is {earliest}",
        )
    return LogCorruptError(
        table,
        f"_delta_log/{commit_name(missing)}",
        f"version {missing} is missing, so version {wanted} cannot be read; restore that file "
        "from a backup",
    )

"""Segment: the files of the log that make up one version.

Source: PROTOCOL.md, "Checkpoints" and "Delta Log Entries".

1. A segment is at most one complete checkpoint and every commit after it, without a hole.
2. The newest complete checkpoint at or below the version is taken, of whatever kind. One with a
   missing part, or with an empty file, is no checkpoint.
3. A hole below the checkpoint does no harm; above it, the table cannot be read.
4. A listing is no picture of one moment: while others commit, it may show a version and not the one
   before it, which it had passed by. So what is missing is looked for again.
5. Log compactions are passed over. Some writers leave expired removes out of them, which brings
   removed files back where an older checkpoint still has them, and nothing in a compaction tells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from delta_ops.errors import (
    LogCorruptError,
    TableNotFoundError,
    VersionNotFoundError,
)
from delta_ops.log.last_checkpoint import load_hint
from delta_ops.protocol.file_names import (
    CheckpointName,
    ChecksumName,
    CommitName,
    V2CheckpointName,
    commit_name,
    log_file_name,
    version_prefix,
)
from delta_ops.storage import FileInfo, Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A complete checkpoint."""

    version: int
    parts: tuple[FileInfo, ...]
    """Its files; for a V2 checkpoint the top-level file, which names its sidecars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """See the module's docstring for what holds of it."""

    version: int
    checkpoint: Checkpoint | None
    commits: tuple[FileInfo, ...]
    """Ascending; from the version after the checkpoint, or 0, to `version`."""
    newest: FileInfo | None = None
    """The file that shows the version: its commit, or its checkpoint where that is gone; None where
    this log has neither, or where it is of no account."""
    checkpoint_commit: FileInfo | None = None
    """The commit of the checkpoint's version, where it has not been cleaned up."""
    checksums: frozenset[int] = frozenset()
    """Versions from the checkpoint's on, or from the first, that have a checksum."""

    @property
    def checksum_version(self) -> int | None:
        """The newest version whose checksum can take the place of opening the checkpoint."""
        return max(self.checksums, default=None) if self.checkpoint else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogListing:
    """The files of a log directory by kind."""

    commits: Mapping[int, FileInfo]
    checkpoints: tuple[Checkpoint, ...]
    """Complete ones, ascending; of several at one version, the one of fewest parts."""
    v2_checkpoints: frozenset[int]
    """Versions that have a checkpoint with a UUID in its name."""
    checksums: frozenset[int] = frozenset()
    """Versions that have a checksum."""
    incomplete: Mapping[int, tuple[FileInfo, ...]] = field(default_factory=dict)
    """By version, where there is no complete checkpoint: parts without the rest, empty files."""

    @property
    def latest_version(self) -> int | None:
        """The newest version that a commit or a complete checkpoint shows."""
        newest = [self.checkpoints[-1].version] if self.checkpoints else []
        return max((*newest, *self.commits), default=None)

    def file_of(self, version: int) -> FileInfo | None:
        """The version's commit, else the first file of its checkpoint, else None."""
        of_checkpoints = (c.parts[0] for c in self.checkpoints if c.version == version)
        return self.commits.get(version) or next(of_checkpoints, None)


def list_log(storage: Storage, directory: str, *, from_version: int = 0) -> LogListing:
    """List the log directory from a version on; what two listings do not show is not there."""
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
        match log_file_name(info.path.rpartition("/")[2]):
            case CommitName(version=version):
                commits[version] = info
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
    """The segment of a version; of the latest one if `version` is None.

    Args:
        base_version: The version, from elsewhere, that the first commit here follows.

    Raises:
        TableNotFoundError: The directory holds neither commits nor checkpoints.
        VersionNotFoundError: That version never was, or has been cleaned up.
        LogCorruptError: A version is missing that is needed.
    """
    hint = load_hint(storage, directory)
    if hint is not None and (version is None or version >= hint):
        listing = list_log(storage, directory, from_version=hint)
        if any(checkpoint.version == hint for checkpoint in listing.checkpoints):
            return segment_from_listing(listing, storage.uri, version, base_version)
    return segment_from_listing(list_log(storage, directory), storage.uri, version, base_version)


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
    """The earliest version from which every later one can be read; None if none can."""
    latest = listing.latest_version
    if latest is None:
        return None
    first = latest
    while first in listing.commits:
        first -= 1
    reachable = [c.version for c in listing.checkpoints if c.version >= first]
    return 0 if first < 0 else min(reachable, default=None)


def _find_missing(listing: LogListing, from_version: int) -> int | None:
    """The first version that is not listed though a later one is, but for what was cleaned up."""
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

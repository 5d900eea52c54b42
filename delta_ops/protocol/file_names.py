"""Names of the files in a log directory.

Source: PROTOCOL.md, "File Types". Versions are zero-padded to 20 digits, so the order of the names
is the order of the versions. Names of any other form are ignored, and so are versions beyond 64
bits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

LAST_CHECKPOINT = "_last_checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitName:
    """`n.json`: the actions of version n."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointName:
    """`n.checkpoint.parquet`, or part `part` of `parts` of a multi-part checkpoint."""

    version: int
    part: int = 1
    parts: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class V2CheckpointName:
    """`n.checkpoint.<uuid>.json` or `.parquet`."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionName:
    """`x.y.compacted.json`: the reconciled actions of versions x to y."""

    start_version: int
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecksumName:
    """`n.crc`: the checksum of version n, with counts and sizes of the table."""

    version: int


LogFileName = CommitName | CheckpointName | V2CheckpointName | CompactionName | ChecksumName

_LAST_VERSION = 2**63 - 1
_COMMIT = re.compile(r"(\d{20})\.json", re.ASCII)
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet", re.ASCII)
_V2_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.[0-9a-fA-F-]{36}\.(?:json|parquet)", re.ASCII)
_COMPACTION = re.compile(r"(\d{20})\.(\d{20})\.compacted\.json", re.ASCII)
_CHECKSUM = re.compile(r"(\d{20})\.crc", re.ASCII)


@lru_cache(maxsize=1 << 14)  # names repeat in every table, and every listing parses them
def log_file_name(name: str) -> LogFileName | None:
    """Parse a name in the log directory; None if it is no log file."""
    found = _parse(name)
    return None if found is None or found.version > _LAST_VERSION else found


def commit_version(name: str) -> int | None:
    """Version of a commit file's name; None for other names. Much faster than `log_file_name`."""
    if name[20:] != ".json" or not (name.isascii() and name[:20].isdigit()):
        return None
    version = int(name[:20])
    return version if version <= _LAST_VERSION else None


def version_prefix(version: int) -> str:
    """Prefix of all names of this version; sorts before them."""
    return f"{version:020d}"


def commit_name(version: int) -> str:
    """The name of the commit file of a version."""
    return f"{version:020d}.json"


def checkpoint_name(version: int) -> str:
    """The name of the classic single-file checkpoint of a version."""
    return f"{version:020d}.checkpoint.parquet"


def checkpoint_part_name(version: int, part: int, parts: int) -> str:
    """The name of one part, numbered from 1, of a multi-part checkpoint."""
    return f"{version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet"


def v2_checkpoint_name(version: int, unique: UUID) -> str:
    """The name of the top-level JSON file of a V2 checkpoint."""
    return f"{version:020d}.checkpoint.{unique}.json"


def checksum_name(version: int) -> str:
    """The name of the checksum file of a version."""
    return f"{version:020d}.crc"


def compaction_name(start_version: int, end_version: int) -> str:
    """The name of the log compaction of a range of versions, both ends included."""
    return f"{start_version:020d}.{end_version:020d}.compacted.json"


def _parse(name: str) -> LogFileName | None:
    if match := _COMMIT.fullmatch(name):
        return CommitName(version=int(match[1]))
    if match := _CHECKPOINT.fullmatch(name):
        return CheckpointName(
            version=int(match[1]), part=int(match[2] or 1), parts=int(match[3] or 1)
        )
    if match := _V2_CHECKPOINT.fullmatch(name):
        return V2CheckpointName(version=int(match[1]))
    if match := _COMPACTION.fullmatch(name):
        return CompactionName(start_version=int(match[1]), version=int(match[2]))
    if match := _CHECKSUM.fullmatch(name):
        return ChecksumName(version=int(match[1]))
    return None

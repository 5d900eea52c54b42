"""Damaged checkpoints: falls back to an older checkpoint, or to all commits.

Source: PROTOCOL.md, "Checkpoints": a checkpoint holds the result of all commits up to its version,
so any older checkpoint plus the later commits gives the same state. The reference has fallen back
like this since 3.2, if opening the table finds the damage.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from delta_ops.errors import LogCorruptError, TableNotFoundError, VersionNotFoundError
from delta_ops.log.segment import Checkpoint, Segment, list_log, segment_from_listing
from delta_ops.storage import Storage

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedCheckpoint:
    """A checkpoint that could not be read."""

    version: int
    paths: tuple[str, ...]
    """Its files, without sidecars."""
    file: str
    """The file that is damaged."""
    reason: str

    @property
    def advice(self) -> str:
        """The problem and its cure, in one sentence."""
        return (
            f"the checkpoint of version {self.version} cannot be read ({self.file}: "
            f"{self.reason}), so readers use an older checkpoint and the commits since then; keep "
            "these files, and create a checkpoint of a later version for readers to start from"
        )


def is_about(error: LogCorruptError, checkpoint: Checkpoint | None) -> bool:
    """Whether an error names a file of the checkpoint or one of its sidecars."""
    if checkpoint is None:
        return False
    paths = tuple(part.path for part in checkpoint.parts)
    return error.file.startswith(paths) or "/_sidecars/" in error.file


def damaged_checkpoint(
    checkpoint: Checkpoint, error: LogCorruptError, table: str
) -> DamagedCheckpoint:
    """Describe the checkpoint of an error, and log a warning."""
    found = DamagedCheckpoint(
        version=checkpoint.version,
        paths=tuple(part.path for part in checkpoint.parts),
        file=error.file,
        reason=error.reason.partition(";")[0],
    )
    logger.warning("%s: %s", table, found.advice)
    return found


def segment_below(
    storage: Storage,
    directory: str,
    version: int,
    checkpoint: Checkpoint,
    base_version: int | None,
) -> Segment | None:
    """Find a segment of the version that is based on an older checkpoint; None without one."""
    listing = list_log(storage, directory)
    older = tuple(each for each in listing.checkpoints if each.version < checkpoint.version)
    try:
        return segment_from_listing(
            replace(listing, checkpoints=older), storage.uri, version, base_version
        )
    except (LogCorruptError, TableNotFoundError, VersionNotFoundError):
        return None

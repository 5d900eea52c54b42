"""Sidecar references: finds the sidecars that the checkpoints of a log name.

Source: PROTOCOL.md, "Sidecar Files".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from delta_ops.log.checkpoint.read import open_checkpoint
from delta_ops.log.segment import Checkpoint
from delta_ops.storage import FileInfo, Storage
from delta_ops.storage.concurrency import MAX_CONCURRENCY, run_parallel


def referenced_sidecars(
    storage: Storage, top_level: Sequence[FileInfo], candidates: Collection[str]
) -> set[str]:
    """Find which of some sidecars are named by any checkpoint.

    Reads checkpoints until each candidate is found: all of them if no checkpoint names a candidate.

    Args:
        top_level: Top-level files of the checkpoints. A file that is gone names nothing.
        candidates: Paths as in a listing.

    Raises:
        LogCorruptError: A checkpoint cannot be read.
    """
    left, found = set(candidates), set[str]()
    start, end = 0, 1
    while left and start < len(top_level):
        for named in run_parallel(partial(named_sidecars, storage), top_level[start:end]):
            found |= left & named
            left -= named
        start, end = end, end + min(end, MAX_CONCURRENCY)
    return found


def named_sidecars(storage: Storage, top: FileInfo) -> set[str]:
    """Sidecars that a top-level file names; empty if the file is gone.

    Raises:
        LogCorruptError: The file cannot be read.
    """
    try:
        # The version comes from the file name, so that it matches for checkpoints of any version.
        opened = open_checkpoint(storage, _checkpoint(top))
    except FileNotFoundError:
        return set()
    return {info.path for info in opened.files if info.path != top.path}


def _checkpoint(top: FileInfo) -> Checkpoint:
    version = int(top.path.rpartition("/")[2][:20])
    return Checkpoint(version=version, parts=(top,))

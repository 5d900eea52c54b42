"""Anchors: copies of checkpoints that keep versions of refs readable without the log.

An anchor is a classic checkpoint of one version, in `_delta_ops/anchors`. It holds the whole state
of the version, so the version can be read after another engine has deleted the commits up to it.
Refs at the same version share an anchor. It is read only if the log cannot be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from delta_ops.log.outside_files import OutsideFiles
from delta_ops.log.segment import Checkpoint, Segment
from delta_ops.log.snapshot import Snapshot, load_readable
from delta_ops.protocol.file_names import checkpoint_name
from delta_ops.storage import FileInfo, Storage
from delta_ops.storage.paths import OWN_DIRECTORY

ANCHORS_DIRECTORY = f"{OWN_DIRECTORY}/anchors"
_NAME = re.compile(r"(?:.*/)?([0-9]{20})\.checkpoint\.parquet")


def anchor_path(version: int) -> str:
    """The anchor of a version, relative to the table's root."""
    return f"{ANCHORS_DIRECTORY}/{checkpoint_name(version)}"


def open_anchor(
    storage: Storage, log_directory: str, version: int, outside: OutsideFiles
) -> Snapshot | None:
    """Open a version by its anchor; None if it has none.

    Raises:
        LogCorruptError: The anchor is damaged.
        UnsupportedFeatureError: delta_ops cannot read the version.
        StorageError: The store failed.
    """
    try:
        info = storage.stat(anchor_path(version))
        checkpoint = Checkpoint(version=version, parts=(info,))
        segment = Segment(version=version, checkpoint=checkpoint, commits=())
        return load_readable(storage, log_directory, segment, outside=outside)
    except FileNotFoundError:
        return None


def list_anchors(storage: Storage) -> Iterator[tuple[int, FileInfo]]:
    """Yield the version and the file of each anchor."""
    for info in storage.list_from(ANCHORS_DIRECTORY, ""):
        name = _NAME.fullmatch(info.path)
        if name is not None and info.size:
            yield int(name[1]), info

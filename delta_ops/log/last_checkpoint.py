"""`_last_checkpoint`: a hint where to begin listing, never a fact.

Source: PROTOCOL.md, "Last Checkpoint File". Missing, empty, malformed or dangling, it is as if it
were not there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from delta_ops.errors import DeltaOpsError
from delta_ops.protocol.file_names import LAST_CHECKPOINT
from delta_ops.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCheckpoint:
    """What the file says of the newest checkpoint."""

    version: int
    size: int
    """Actions in the checkpoint."""
    size_in_bytes: int | None = None
    num_of_add_files: int | None = None


def load_hint(storage: Storage, directory: str) -> int | None:
    """The version that the hint names; None if there is no usable hint."""
    try:
        value = json.loads(storage.read(f"{directory}/{LAST_CHECKPOINT}"))
        version = value["version"]
    except (FileNotFoundError, DeltaOpsError, ValueError, KeyError, TypeError):
        return None
    return version if isinstance(version, int) and version >= 0 else None


def write_hint(storage: Storage, directory: str, hint: LastCheckpoint) -> None:
    """Point at this checkpoint, unless the hint points at a later one already."""
    stored = load_hint(storage, directory)
    if stored is not None and stored >= hint.version:
        return
    body = {
        "version": hint.version,
        "size": hint.size,
        "sizeInBytes": hint.size_in_bytes,
        "numOfAddFiles": hint.num_of_add_files,
    }
    present = {name: value for name, value in body.items() if value is not None}
    storage.replace(
        f"{directory}/{LAST_CHECKPOINT}", json.dumps(present, separators=(",", ":")).encode()
    )

"""Sidecars: files beside a V2 checkpoint that hold its file actions.

Source: PROTOCOL.md, "Sidecar Files", "Sidecar File Information". They lie in a directory of their
own, below that of the log, and an action of the checkpoint's top-level file names each.
"""

from __future__ import annotations

from urllib.parse import quote, unquote
from uuid import uuid4

from delta_ops.protocol.actions import Sidecar
from delta_ops.storage import FileInfo, Storage

_DIRECTORY = "_sidecars"


def list_sidecars(storage: Storage, log_directory: str) -> list[FileInfo]:
    """The files directly in the directory of sidecars, which need not be there."""
    return list(storage.list_from(f"{log_directory}/{_DIRECTORY}", ""))


def new_sidecar_path(log_directory: str) -> str:
    """A path that no other sidecar has."""
    return f"{log_directory}/{_DIRECTORY}/{uuid4()}.parquet"


def is_sidecar(path: str) -> bool:
    """Whether a file of a checkpoint is a sidecar, by its path."""
    return f"/{_DIRECTORY}/" in path


def file_of_sidecar(sidecar: Sidecar, top: FileInfo) -> FileInfo:
    """The file that an action names: whatever directory it names, only the file's name counts.

    Args:
        top: The top-level file of the checkpoint.
    """
    directory, name = top.path.rpartition("/")[0], unquote(sidecar.path).rpartition("/")[2]
    path = f"{directory}/{_DIRECTORY}/{name}"
    return FileInfo(path, sidecar.size_in_bytes, sidecar.modification_time)


def sidecar_of_file(info: FileInfo) -> Sidecar:
    """The action that names a file."""
    name = info.path.rpartition("/")[2]
    return Sidecar(path=quote(name), size_in_bytes=info.size, modification_time=info.modified_ms)

"""Sidecars: files beside a V2 checkpoint that hold its file actions.

Source: PROTOCOL.md, "Sidecar Files", "Sidecar File Information". Sidecars lie in a directory of
their own below the log directory. The checkpoint's top-level file has one action per sidecar.
"""

from __future__ import annotations

from urllib.parse import quote, unquote
from uuid import uuid4

from delta_ops.protocol.actions import Sidecar
from delta_ops.storage import FileInfo, Storage

_DIRECTORY = "_sidecars"


def list_sidecars(storage: Storage, log_directory: str) -> list[FileInfo]:
    """List the files directly in the sidecar directory; empty if there is no such directory."""
    return list(storage.list_from(f"{log_directory}/{_DIRECTORY}", ""))


def new_sidecar_path(log_directory: str) -> str:
    """A new unique path for a sidecar."""
    return f"{log_directory}/{_DIRECTORY}/{uuid4()}.parquet"


def is_sidecar(path: str) -> bool:
    """Whether a path belongs to a sidecar."""
    return f"/{_DIRECTORY}/" in path


def file_of_sidecar(sidecar: Sidecar, top: FileInfo) -> FileInfo:
    """The file that a sidecar action names; ignores the directory in the action.

    Args:
        top: The top-level file of the checkpoint.
    """
    directory, name = top.path.rpartition("/")[0], unquote(sidecar.path).rpartition("/")[2]
    path = f"{directory}/{_DIRECTORY}/{name}"
    return FileInfo(path, sidecar.size_in_bytes, sidecar.modification_time)


def sidecar_of_file(info: FileInfo) -> Sidecar:
    """The sidecar action for a file."""
    name = info.path.rpartition("/")[2]
    return Sidecar(path=quote(name), size_in_bytes=info.size, modification_time=info.modified_ms)

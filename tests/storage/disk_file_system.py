"""A store for the tests: a disk behind fsspec with renames and without exclusive creates."""

from __future__ import annotations

from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from delta_ops.storage import Storage, open_storage
from tests.support.file_lock import FileLock


class DiskFileSystem(LocalFileSystem):  # type: ignore[misc]
    """Addresses have the form disk:///absolute/path."""

    protocol = "disk"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.removeprefix("disk://")))

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        """Write in two steps, so that readers can see a partial file."""
        with open(self._strip_protocol(path), "wb") as file:
            file.write(value[: len(value) // 2])
            file.flush()
            file.write(value[len(value) // 2 :])


def open_disk(directory: str, lock: FileLock | None) -> Storage:
    """The storage at a directory, usable in any process."""
    fsspec.register_implementation("disk", DiskFileSystem, clobber=True)
    return open_storage(f"disk://{directory}", lock=lock)

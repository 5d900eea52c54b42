"""The memory backend: fsspec's store in the memory of this process."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from delta_ops.storage.backends.backend import Backend, Entry
from delta_ops.storage.exclusive_create import ExclusiveCreate, file_exists_error
from delta_ops.store_names import StoreNames

_lock = threading.Lock()


def _hold() -> AbstractContextManager[object]:
    """Return the lock that keeps the store unchanged during a listing or change."""
    return _lock


def _put(fs: Any, path: str, data: bytes, mark: str) -> None:  # noqa: ARG001
    with _hold():
        if fs.exists(path):
            raise file_exists_error(path)
        try:
            fs.pipe_file(path, data)
        except FileExistsError as error:  # fsspec raises this if a parent is a file
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from error


def _look(fs: Any, path: str) -> str | None:
    return "" if fs.exists(path) else None


def _list_tree(fs: Any, directory: str) -> Iterator[Entry]:
    """List all files at once, since the store may change after the lock is released."""
    found: Any = {}
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
        found = fs.find(directory, detail=True)
    return iter(list(found.values()) if isinstance(found, dict) else [])


def _free_lock() -> None:
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    # A thread that holds the lock does not exist in the child.
    os.register_at_fork(after_in_child=_free_lock)

MEMORY = Backend(
    names=StoreNames(schemes=("memory",), service_of=lambda _: ""),
    needs_bucket=False,
    exclusive_create=ExclusiveCreate(put=_put, look=_look),
    is_atomic=True,
    list_tree=_list_tree,
    lock=_hold,
    shares_open_files=True,
)

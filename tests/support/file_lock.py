"""A lock for processes of one machine: one file for a whole table."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager


class FileLock:
    """See `delta_ops.storage.Lock`; pickles."""

    def __init__(self, file: str) -> None:
        self._file = file

    def __repr__(self) -> str:
        raise AssertionError("a lock is not shown")

    @contextmanager
    def __call__(self, path: str) -> Iterator[None]:
        descriptor = os.open(self._file, os.O_CREAT | os.O_RDWR | os.O_APPEND)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.write(descriptor, f"{path}\n".encode())
            yield
        finally:
            os.close(descriptor)

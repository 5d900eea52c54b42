"""Locks: exclusive create by a lock of the user, for stores without exclusive create.

1. The creator holds the lock, checks that the file does not exist, and only then writes.
2. In a store with atomic uploads, the file is uploaded, with the store's own condition if the store
   honors one. In other stores, it is uploaded under a staged name and then renamed.

The lock excludes only writers that use it. A writer without the lock can still replace a commit,
and so can a writer that is delayed until its lock has expired.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from delta_ops.errors import DeltaOpsError, InvalidRequestError, StorageError
from delta_ops.option_words import option
from delta_ops.storage.exclusive_create import ExclusiveCreate, Upload, file_exists_error
from delta_ops.storage.paths import staged_name

Lock = Callable[[str], AbstractContextManager[object]]
"""Takes the full path of the file to create, as the store names it (bucket and key without a
scheme, or a local path). Returns the context manager to hold meanwhile.

It must admit one holder at a time, among all processes on all machines that write to the table, and
keep others out until the holder has left or is dead. One lock for the whole table is enough, and it
need not be reentrant. It must be picklable if the table's handle is pickled. It is never shown or
logged.
"""


def lock_cure() -> str:
    """How to write to a store that needs a lock, for errors."""
    return (
        "Reading works. To write, give the handle of the table a lock that all of its writers "
        f"share: {option('lock', ...)}"
    )


def locked_create(exclusive: ExclusiveCreate, lock: Lock) -> ExclusiveCreate:
    """Wrap requests: creating a file holds the lock and first checks for an existing file."""

    def put(fs: Any, path: str, data: bytes, mark: str) -> None:
        with _creating_alone(exclusive, lock, fs, path):
            exclusive.put(fs, path, data, mark)

    def begin_upload(fs: Any, path: str, mark: str) -> Upload:
        assert exclusive.begin_upload is not None
        return _LockedUpload(
            exclusive.begin_upload(fs, path, mark),
            lambda: _creating_alone(exclusive, lock, fs, path),
        )

    return replace(
        exclusive,
        put=put,
        begin_upload=begin_upload if exclusive.begin_upload else None,
        endpoint_of=None,  # no probe: the lock makes creation exclusive
    )


@contextlib.contextmanager
def hold(lock: Lock, path: str) -> Iterator[None]:
    """Hold the lock; its own errors become a `StorageError` with the original as cause."""
    try:
        holding = lock(path)
        holding.__enter__()
    except DeltaOpsError:
        raise
    except Exception as error:  # raised by the user's code
        raise StorageError(path, "locked", _reason_of("taken", error)) from error
    try:
        yield
    except BaseException as error:
        holding.__exit__(type(error), error, error.__traceback__)
        raise
    try:
        holding.__exit__(None, None, None)
    except Exception as error:  # raised by the user's code
        raise StorageError(path, "unlocked", _reason_of("given back", error)) from error


@contextlib.contextmanager
def hold_for_caller(lock: Lock | None, path: str, table: str) -> Iterator[Lock]:
    """Hold the lock and yield a lock that does nothing, since the user's may not be reentrant.

    Raises:
        InvalidRequestError: There is no lock.
    """
    if lock is None:
        raise InvalidRequestError(
            f"{table}: other writers wait only for a lock that all of them share; give this "
            f"handle the lock, too: {option('lock', ...)}"
        )
    with hold(lock, path):
        yield contextlib.nullcontext


def can_rename(fs: Any) -> bool:
    """Whether the file system has its own rename; fsspec's default copies and then deletes."""
    from fsspec import AbstractFileSystem  # local tables do not need fsspec

    return type(fs).mv is not AbstractFileSystem.mv


def rename_into_place(fs: Any, path: str, data: bytes) -> None:
    """Write a file under a staged name and rename it; the caller has checked that it is new."""
    directory = path.rpartition("/")[0]
    staged = f"{directory}/{staged_name()}"
    fs.makedirs(directory, exist_ok=True)
    try:
        fs.pipe_file(staged, data)
        fs.mv(staged, path)
        renamed = not fs.exists(staged)  # WebHDFS reports success for a rename that it rejected
    except BaseException:
        with contextlib.suppress(Exception):
            fs.rm_file(staged)
        raise
    if not renamed:
        fs.rm_file(staged)
        raise file_exists_error(path)


class _LockedUpload:
    """An upload whose last step holds the lock."""

    def __init__(self, inner: Upload, alone: Callable[[], AbstractContextManager[object]]) -> None:
        self._inner, self._alone = inner, alone
        self.add, self.abandon = inner.add, inner.abandon

    def finish(self) -> None:
        with self._alone():
            self._inner.finish()


@contextlib.contextmanager
def _creating_alone(exclusive: ExclusiveCreate, lock: Lock, fs: Any, path: str) -> Iterator[None]:
    with hold(lock, path):
        if exclusive.look(fs, path) is not None:
            raise file_exists_error(path)
        yield


def _reason_of(verb: str, error: Exception) -> str:
    return f"the lock could not be {verb} ({type(error).__name__}); check it"


def _put_renamed(fs: Any, path: str, data: bytes, mark: str) -> None:  # noqa: ARG001
    rename_into_place(fs, path, data)


def _look(fs: Any, path: str) -> str | None:
    fs.invalidate_cache()
    return "" if fs.exists(path) else None


RENAMING = ExclusiveCreate(put=_put_renamed, look=_look)
"""For stores without atomic uploads; exclusive only while a lock is held."""


def unconditional_create(exclusive: ExclusiveCreate) -> ExclusiveCreate:
    """Requests for a store that ignores the condition; exclusive only while a lock is held."""

    def put(fs: Any, path: str, data: bytes, mark: str) -> None:  # noqa: ARG001
        fs.pipe_file(path, data)

    return replace(exclusive, put=put, begin_upload=None)

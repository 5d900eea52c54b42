"""Exclusive create: one way per kind of store to create a file that must not be there yet.

This is what makes a commit atomic. A store without a way, or one that is found not to honour it, is
refused by name unless the user supplies a lock; there is no fallback that merely looks first.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from delta_ops.errors import UnsupportedStorageError
from delta_ops.storage.backends.azure.create import AZURE
from delta_ops.storage.backends.gcs.create import GCS
from delta_ops.storage.backends.s3.create import S3
from delta_ops.storage.create_way import Way, file_exists_error
from delta_ops.storage.locks import (
    RENAMING,
    Lock,
    can_rename,
    hold,
    way_with_lock,
    way_without_condition,
)
from delta_ops.storage.remote.probe import honours_put, honours_upload

_memory_lock = threading.Lock()
_CURE = (
    "Reading works. To write, give a lock that all writers of the table share: "
    "DeltaLog(uri, storage_options, lock=...)"
)
_NO_LINKS = frozenset(
    {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
)


def way_to_create(
    protocols: tuple[str, ...], fs: Any, root: str, uri: str, lock: Lock | None
) -> Way:
    """How to create a file exclusively below `root`.

    The first call of a process asks an endpoint that is not known, see `probe`.

    Args:
        protocols: Names that fsspec has for the file system.
        fs: The file system.
        root: As `fs` names it.
        uri: For messages.
        lock: What the user supplied.

    Raises:
        UnsupportedStorageError: There is none.
        Exception: Whatever the file system raises when it is asked.
    """
    way = next((_WAYS[protocol] for protocol in protocols if protocol in _WAYS), None)
    if way is None:
        return _way_by_lock(protocols, fs, uri, lock)
    if honours_put(way, fs, root):
        return way_with_lock(way, lock) if lock else way
    if lock:
        return way_with_lock(way_without_condition(way), lock)
    address = way.endpoint_of(fs).address if way.endpoint_of else ""
    raise UnsupportedStorageError(
        f"{uri} cannot be committed to: the store at {address} does not honour the condition that "
        "an object must not be there yet, so that two writers could both create the same version. "
        f"{_CURE}, or keep the table on a store that honours it."
    )


def uploads_in_parts(way: Way, fs: Any, root: str) -> bool:
    """Whether what is longer than a part goes up in parts; else it is kept in memory till then."""
    return way.begin_upload is not None and honours_upload(way, fs, root)


def name_staged_file(staged: str, target: str, lock: Lock | None = None) -> None:
    """Give the finished local file `staged` the name `target` if nothing has it.

    Args:
        staged: In the directory of `target`.
        target: The name to be given.
        lock: What the user supplied, for file systems without hard links.

    Raises:
        FileExistsError: Something has that name, be it a directory or a dangling link.
        UnsupportedStorageError: The file system has no hard links, and there is no lock.
        OSError: Anything else.
    """
    if os.name == "nt":
        os.rename(staged, target)  # refuses an existing name on Windows, and only there
        return
    with hold(lock, target) if lock else contextlib.nullcontext():
        try:
            os.link(staged, target)  # rename would replace an existing file; link refuses
        except FileExistsError:
            # Over NFS a link whose answer was lost is sent again, and then meets itself.
            if not _is_same_file(staged, target):
                raise
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if lock is None:
                raise _no_links_error(target, error) from error
            if os.path.lexists(target):
                raise file_exists_error(target) from error
            os.rename(staged, target)


def _no_links_error(target: str, error: OSError) -> UnsupportedStorageError:
    return UnsupportedStorageError(
        f"{os.path.dirname(target)} cannot be committed to: its file system has no hard links "
        f"({os.strerror(error.errno or 0)}), and without them two writers could both create the "
        f"same version. {_CURE}, or keep the table on a file system that has them, such as ext4, "
        "xfs, btrfs, zfs, APFS, NTFS or NFS."
    )


def _way_by_lock(protocols: tuple[str, ...], fs: Any, uri: str, lock: Lock | None) -> Way:
    if lock is None:
        raise UnsupportedStorageError(
            f"{uri} cannot be committed to: {protocols[0]} has no way that we know to create a "
            "file only if it is not there, so that two writers could both create the same "
            f"version. {_CURE}, or keep the table on a store that has one."
        )
    if not can_rename(fs):
        raise UnsupportedStorageError(
            f"{uri} cannot be committed to, even with a lock: {protocols[0]} can neither upload "
            "nor rename a file at once, so that readers could see a part of a commit. Reading "
            "works; to write, keep the table on another store."
        )
    return way_with_lock(RENAMING, lock)


def get_memory_lock() -> AbstractContextManager[object]:
    """A lock for what must not interleave in fsspec's store in memory, one per process."""
    return _memory_lock


def _put_in_memory(fs: Any, path: str, data: bytes, mark: str) -> None:  # noqa: ARG001
    with get_memory_lock():
        if fs.exists(path):
            raise file_exists_error(path)
        try:
            fs.pipe_file(path, data)
        except FileExistsError as error:  # fsspec's answer when a parent is a file
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from error


def _look_in_memory(fs: Any, path: str) -> str | None:
    return "" if fs.exists(path) else None


def _is_same_file(staged: str, target: str) -> bool:
    try:
        return os.path.samestat(os.lstat(staged), os.lstat(target))
    except OSError:
        return False


_WAYS: Mapping[str, Way] = {
    "memory": Way(put=_put_in_memory, look=_look_in_memory),
    "s3": S3,
    "gs": GCS,
    "abfs": AZURE,
}


def _free_memory_lock() -> None:
    global _memory_lock  # noqa: PLW0603
    _memory_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    # A thread that holds it does not exist in the child.
    os.register_at_fork(after_in_child=_free_memory_lock)

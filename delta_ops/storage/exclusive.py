"""Exclusive create: one way per kind of store to create a file that must not be there yet.

This is what makes a commit atomic, so a way is listed here only if, of any number of concurrent
callers, exactly one succeeds and nobody sees a part of the file. A store without a way is refused
by name; there is no fallback that merely looks first. Conditional PUTs of object stores
(`If-None-Match`, `ifGenerationMatch=0`) are ways of their own and go into `_WAYS`.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from delta_ops.errors import UnsupportedStorageError

Create = Callable[[Any, str, bytes], None]
"""Takes a fsspec file system, its own full path, and the bytes; raises `FileExistsError`."""

memory_lock = threading.Lock()
"""Held for whatever must not interleave in fsspec's store in memory, one per process."""

_NO_LINKS = frozenset(
    {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
)


def name_staged_file(staged: str, target: str) -> None:
    """Give the finished local file `staged` the name `target` if nothing has it.

    Raises:
        FileExistsError: Something has that name, be it a directory or a dangling link.
        UnsupportedStorageError: The file system has no hard links.
        OSError: Anything else.
    """
    if os.name == "nt":
        os.rename(staged, target)  # refuses an existing name on Windows, and only there
        return
    try:
        os.link(staged, target)  # rename would replace an existing file; link refuses
    except FileExistsError:
        # Over NFS a link whose answer was lost is sent again, and then meets itself.
        if not _is_same_file(staged, target):
            raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        raise UnsupportedStorageError(
            f"{os.path.dirname(target)} cannot be committed to: its file system has no hard links "
            f"({os.strerror(error.errno)}), and without them two writers could both create the "
            "same version. Keep the table on a file system that has them, such as ext4, xfs, "
            "btrfs, zfs, APFS, NTFS or NFS."
        ) from error


def way_to_create(protocols: tuple[str, ...], uri: str) -> Create:
    """How to create a file exclusively in a store of one of these fsspec protocols.

    Raises:
        UnsupportedStorageError: There is none.
    """
    for protocol in protocols:
        if protocol in _WAYS:
            return _WAYS[protocol]
    raise UnsupportedStorageError(
        f"{uri} cannot be committed to: this version of delta_ops does not support committing to "
        f"{protocols[0]} yet. Reading it works; to write, keep the table on a local disk or use "
        "another engine."
    )


def _create_in_memory(fs: Any, path: str, data: bytes) -> None:
    with memory_lock:
        if fs.exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        try:
            fs.pipe_file(path, data)
        except FileExistsError as error:  # fsspec's answer when a parent is a file
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from error


def _is_same_file(staged: str, target: str) -> bool:
    try:
        return os.path.samestat(os.lstat(staged), os.lstat(target))
    except OSError:
        return False


_WAYS: Mapping[str, Create] = {"memory": _create_in_memory}

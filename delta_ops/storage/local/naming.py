"""Naming: gives a finished local file its name, unless the name is taken.

A hard link either creates the name or fails, so exactly one of any number of writers succeeds.
"""

from __future__ import annotations

import contextlib
import errno
import os

from delta_ops.errors import UnsupportedStorageError
from delta_ops.storage.create_way import file_exists_error
from delta_ops.storage.locks import LOCK_CURE, Lock, hold

_NO_LINKS = frozenset(
    {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
)


def name_staged_file(staged: str, target: str, lock: Lock | None = None) -> None:
    """Give the finished local file `staged` the name `target` if that name is free.

    Args:
        staged: In the directory of `target`.
        target: The new name.
        lock: The user's lock, for file systems without hard links.

    Raises:
        FileExistsError: The name is taken, even by a directory or a dangling link.
        UnsupportedStorageError: The file system has no hard links, and there is no lock.
        OSError: Any other failure.
    """
    if os.name == "nt":
        os.rename(staged, target)  # on Windows, and only there, rename rejects an existing name
        return
    with hold(lock, target) if lock else contextlib.nullcontext():
        try:
            os.link(staged, target)  # rename would replace an existing file; link fails instead
        except FileExistsError:
            # Over NFS, a link whose answer was lost is sent again and then finds its own file.
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
        f"same version. {LOCK_CURE}, or keep the table on a file system that has them, such as "
        "ext4, xfs, btrfs, zfs, APFS, NTFS or NFS."
    )


def _is_same_file(staged: str, target: str) -> bool:
    try:
        return os.path.samestat(os.lstat(staged), os.lstat(target))
    except OSError:
        return False

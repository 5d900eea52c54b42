"""Local deletion: deletes files together with the checksums that Hadoop keeps beside them.

Hadoop keeps `.name.crc` beside `name`, and reports a file that contradicts its checksum as damaged.
It reads files without a checksum. So the checksum is deleted first. If the file were deleted first,
an interruption could leave a checksum that contradicts the next file of that name.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, islice

from delta_ops.errors import InvalidRequestError
from delta_ops.storage.local.directories import open_place, real_directory, real_place
from delta_ops.storage.local.durability import failure_of, sync_directory, translating
from delta_ops.storage.paths import validate

logger = logging.getLogger(__name__)

_NO_FILE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG})
_LISTED_FOR_EACH = 20
"""Number of names that are listed in less time than one lookup of a missing checksum."""


def delete_file(target: str) -> None:
    """Delete a file if it exists.

    Raises:
        StorageError: The file cannot be deleted.
    """
    with translating(failure_of(target, "deleted")):
        _was_removed(os.unlink, _checksum_of(target))
        _was_removed(os.unlink, target)


def delete_files(root: str, paths: Iterable[str]) -> list[str]:
    """Delete files below a root; logs the reason for each file that stays.

    Returns:
        The paths of the files that cannot be deleted.
    """
    kept: list[str] = []
    real_root = os.path.realpath(root)
    for directory, group in groupby(map(validate, paths), _directory_of):
        in_directory = list(group)
        try:
            place = real_directory(root, real_root, directory)
        except InvalidRequestError as error:
            logger.warning("%s", error)
            kept += in_directory
            continue
        start = len(directory) + 1 if directory else 0
        failed = _delete_in(place, [path[start:] for path in in_directory])
        kept += (path for path in in_directory if failed and path[start:] in failed)
    return kept


def delete_empty(root: str, directories: Iterable[str], before_ms: int) -> list[str]:
    """See `Storage.delete_empty`."""
    changed_ms: dict[str, int] = {}  # times before this call changes anything
    gone: list[str] = []
    # Reverse order, so that directories come before their parents.
    for directory in sorted({d.rstrip("/") for d in directories}, reverse=True):
        path = directory
        while path and path not in gone and _was_emptied(root, path, before_ms, changed_ms):
            gone.append(path)
            path = _directory_of(path)
    return gone


def _was_emptied(root: str, path: str, before_ms: int, changed_ms: dict[str, int]) -> bool:
    """Delete the directory if it is empty and unchanged; whether it was deleted."""
    try:
        target = real_place(root, os.path.realpath(root), path)
        for each in (path, _directory_of(path)):
            if each and each not in changed_ms:
                changed_ms[each] = os.lstat(os.path.join(root, each)).st_mtime_ns // 1_000_000
        if changed_ms[path] >= before_ms:
            return False
        os.rmdir(target)  # fails for links and for directories with entries
    except (OSError, InvalidRequestError):
        return False
    return True


def _delete_in(place: str, names: Sequence[str]) -> frozenset[str]:
    """Delete files of a directory in order; returns the names that cannot be deleted."""
    left: list[str] = []
    try:
        with open_place(place) as directory:
            checksums = _checksums_in(place, _LISTED_FOR_EACH * len(names))
            for name in names:
                try:
                    checksum = f".{name}.crc"
                    if checksums is None or checksum in checksums:
                        _was_removed(directory.unlink, checksum)
                    _was_removed(directory.unlink, name)
                except OSError as error:
                    failure = failure_of(os.path.join(place, name), "deleted")(error)
                    logger.warning("%s", failure)
                    left.append(name)
    except OSError as error:
        if error.errno in _NO_FILE:
            return frozenset()
        logger.warning("%s", failure_of(place, "deleted")(error))
        return frozenset(names)
    return frozenset(left)


def _checksums_in(place: str, limit: int) -> frozenset[str] | None:
    """Names of all checksums in a directory; None if it has more names than `limit`.

    Trying to delete a missing checksum takes as long as deleting a file.
    """
    try:
        with os.scandir(place) as entries:
            names = [entry.name for entry in islice(entries, limit + 1)]
    except OSError:
        return None
    if len(names) > limit:
        return None
    return frozenset([name for name in names if name[0] == "." and name.endswith(".crc")])


def clear_checksum_of(target: str) -> None:
    """Delete Hadoop's checksum of a file that is about to be created.

    The deletion is durable: after a power cut, the old checksum does not come back.
    """
    if _was_removed(os.unlink, _checksum_of(target)):
        sync_directory(os.path.dirname(target))


def _checksum_of(target: str) -> str:
    directory, name = os.path.split(target)
    return os.path.join(directory, f".{name}.crc")


def _was_removed(unlink: Callable[[str], None], place: str) -> bool:
    """Delete a file; False if there is none, or if it is a directory."""
    try:
        unlink(place)
    except OSError as error:
        if error.errno in _NO_FILE:
            return False
        raise
    return True


def _directory_of(path: str) -> str:
    return path.rpartition("/")[0]

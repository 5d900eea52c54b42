"""Local deletion: deletes files together with the checksums that Hadoop keeps beside them.

Hadoop keeps `.name.crc` beside `name`, and reports a file that contradicts its checksum as damaged.
It reads files without a checksum. So the checksum is deleted first. If the file were deleted first,
an interruption could leave a checksum that contradicts the next file of that name.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Sequence
from itertools import islice

from delta_ops.storage.local.directories import open_place
from delta_ops.storage.local.durability import failure_of, sync_directory, translating

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


def delete_in(place: str, names: Sequence[str]) -> frozenset[str]:
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
    """Delete the checksum durably, so that a power cut cannot restore it beside a new file."""
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

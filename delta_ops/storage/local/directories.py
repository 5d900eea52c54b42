"""Local directories: finds the real path of a directory, and opens it.

A directory is opened so that its path is not resolved again for each file. Systems without
directory descriptors (Windows) use whole paths.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from delta_ops.errors import InvalidRequestError
from delta_ops.storage.paths import validate

HAS_DESCRIPTORS = {os.stat, os.unlink} <= os.supports_dir_fd and os.scandir in os.supports_fd


class LocalDirectory(NamedTuple):
    """An open directory. Its methods raise `OSError` untranslated."""

    place: str
    descriptor: int | None

    def names(self) -> list[str]:
        """Names of all entries."""
        return os.listdir(self.place if self.descriptor is None else self.descriptor)

    def status(self) -> os.stat_result:
        """Status of the directory itself."""
        return os.stat(self.place if self.descriptor is None else self.descriptor)

    def status_of_names(self) -> Callable[[str], os.stat_result]:
        """Return a function that reads a file's status by its name; links are not followed.

        It is called for very many names; a `partial` would take a third longer.
        """
        descriptor = self.descriptor
        if descriptor is None:
            return lambda name: os.lstat(self._path_of(name))
        return lambda name: os.lstat(name, dir_fd=descriptor)

    def unlink(self, name: str) -> None:
        """Delete a file in the directory."""
        os.unlink(self._path_of(name), dir_fd=self.descriptor)

    def _path_of(self, name: str) -> str:
        return os.path.join(self.place, name) if self.descriptor is None else name


@contextmanager
def open_place(place: str) -> Iterator[LocalDirectory]:
    """Open the directory at this real path.

    Raises:
        FileNotFoundError: It does not exist. Raised when it is opened or first read.
        NotADirectoryError: It is a file. Raised at the same points.
    """
    if not HAS_DESCRIPTORS:
        yield LocalDirectory(place, None)
        return
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield LocalDirectory(place, descriptor)
    finally:
        os.close(descriptor)


def real_directory(root: str, real_root: str, directory: str) -> str:
    """The real path of a directory, without links.

    Args:
        root: The root as the user named it.
        real_root: The real path of the root.
        directory: Relative to the root; "" is the root.

    Raises:
        InvalidRequestError: A link in the directory leads out of the root.
    """
    if is_plain(real_root, directory):
        return join(real_root, directory) if directory else real_root
    named = os.path.join(root, directory)
    real = os.path.realpath(named)
    if real != real_root and not real.startswith(os.path.join(real_root, "")):
        raise InvalidRequestError(
            f"{named} is not written to because a link in it leads out of "
            f"{root}, to {real}. Replace the link by a directory, or use that location directly."
        )
    return real


def real_place(root: str, real_root: str, path: str) -> str:
    """The real path of a file to write or delete; only its directory is resolved.

    Raises:
        InvalidRequestError: A link in the file's directory leads out of the root.
    """
    directory, _, name = validate(path).rpartition("/")
    return os.path.join(real_directory(root, real_root, directory), name)


def is_plain(root: str, directory: str) -> bool:
    """Whether no part of a directory below the root is a link; the root itself is not checked."""
    place = root
    for part in directory.split("/"):
        place = join(place, part)
        if os.path.islink(place):
            return False
    return True


def join(place: str, path: str) -> str:
    """Join a directory and a valid path below it, three times as fast as `os.path.join`."""
    return f"{place}{path}" if place[-1] == os.sep else f"{place}{os.sep}{path}"

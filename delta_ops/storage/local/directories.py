"""Local directories: opens a directory, so that its path is not resolved again for each file.

Systems without directory descriptors (Windows) use whole paths.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

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
    """Open the directory at this place.

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

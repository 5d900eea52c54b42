"""Ways to create: what a kind of store is asked, so that a file is created only if it is not there.

A way is no way unless, of any number of concurrent callers, exactly one succeeds and nobody sees a
part of the file. That a store honours what it is asked is its promise; `probe` finds those that
ignore it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

PART_BYTES = 16 << 20
"""Size of a part of an upload; a file that is not larger is uploaded by one request."""


class Upload(Protocol):
    """Parts on their way to a store, of which nobody sees anything until they are all there."""

    def add(self, part: bytes) -> None:
        """Upload the next part, of `PART_BYTES` unless it is the last one."""

    def finish(self) -> None:
        """Make the parts the file, or raise `FileExistsError`; at least one was added."""

    def abandon(self) -> None:
        """Drop the parts, as far as the store can be reached."""


class Endpoint(NamedTuple):
    """The place that is asked."""

    address: str
    """Host and port, without a credential."""
    is_known: bool
    """Whether it is the provider's own, which documents that it honours the condition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How one kind of store is asked. Paths are full paths, as the file system of fsspec has them.

    A mark is text that is kept with a file, by which its writer knows it again; "" is none.
    """

    put: Callable[[Any, str, bytes, str], None]
    """Takes file system, path, bytes and mark; raises `FileExistsError`."""
    look: Callable[[Any, str], str | None]
    """Takes file system and path: the mark of what is there, None if nothing is."""
    begin_upload: Callable[[Any, str, str], Upload] | None = None
    """Takes file system, path and mark; None where only one request can be exclusive."""
    endpoint_of: Callable[[Any], Endpoint] | None = None
    """None where the way lies within this process."""


def file_exists_error(path: str) -> FileExistsError:
    """The error to raise."""
    return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)


def split(path: str) -> tuple[str, str]:
    """Bucket and key."""
    bucket, _, key = path.strip("/").partition("/")
    return bucket, key


def split_directory(directory: str) -> tuple[str, str]:
    """Bucket, and the prefix of all keys in the directory."""
    bucket, key = split(directory)
    return bucket, f"{key}/" if key else ""

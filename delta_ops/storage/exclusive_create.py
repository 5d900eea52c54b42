"""Exclusive create: requests to a store that create a file only if it does not exist.

If several callers create the same file at once, exactly one succeeds, and no reader sees a partial
file.
Each store promises to honor the condition in its requests;
`remote.exclusive` finds stores that ignore it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

PART_BYTES = 16 << 20
"""Size of an upload's parts; a smaller file is uploaded by one request."""


class Upload(Protocol):
    """An upload in parts; nothing is visible until all parts are complete."""

    def add(self, part: bytes) -> None:
        """Upload the next part; all parts but the last have `PART_BYTES` bytes."""

    def finish(self) -> None:
        """Combine the parts, at least one, into the file, or raise `FileExistsError`."""

    def abandon(self) -> None:
        """Drop the uploaded parts, if the store can be reached."""


class Endpoint(NamedTuple):
    """Address of a store's service."""

    address: str
    """Host and port, without a credential."""
    is_known: bool
    """Whether it is the provider's own service, which documents that it honors the condition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExclusiveCreate:
    """Requests to one kind of store that create a file only if it does not exist.

    Paths are full paths, as fsspec's file system names them.

    A mark is a text stored with a file, so that its writer recognizes it; "" means no mark.
    """

    put: Callable[[Any, str, bytes, str], None]
    """Creates the file; takes file system, path, bytes and mark; raises `FileExistsError`."""
    look: Callable[[Any, str], str | None]
    """Takes file system and path; returns the mark of the existing file, or None."""
    begin_upload: Callable[[Any, str, str], Upload] | None = None
    """Takes file system, path and mark; None if only a single request can be exclusive."""
    endpoint_of: Callable[[Any], Endpoint] | None = None
    """None if the store is in this process."""


def file_exists_error(path: str) -> FileExistsError:
    """The error for a file that already exists."""
    return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)


def split(path: str) -> tuple[str, str]:
    """Bucket and key of a full path."""
    bucket, _, key = path.strip("/").partition("/")
    return bucket, key


def split_directory(directory: str) -> tuple[str, str]:
    """Bucket of a directory, and the prefix of all keys in it."""
    bucket, key = split(directory)
    return bucket, f"{key}/" if key else ""

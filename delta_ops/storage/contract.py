"""Storage: bytes by path, with exactly the guarantees that a transaction log needs.

Storages know nothing of Delta. A storage is rooted at a directory or prefix. Every path is relative
to the root, decoded, separated by "/", and checked by `paths.validate`, so that no path leads
outside of the root.

1. `create` and `create_from_stream` succeed for exactly one of any number of concurrent callers.
   No reader sees a partial file, and after the call returns, the file survives a power cut.
2. Listings are never cached: a file that another process finished is in the next listing.
3. `delete` of a missing file succeeds.
4. Files outside the root are never written or deleted, whatever links exist.

A killed write may leave a file with a staged name, see `paths.is_hidden_staged`. The name starts
with a dot, sorts before every digit, and matches no pattern for log files. Listings include such
files, so that a clean-up can delete them; other callers select the names they know. Listings leave
out names that `paths.validate` rejects, which no log can contain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import IO, Any, NamedTuple, Protocol

import pyarrow as pa

from delta_ops.storage.range_cache import KeptRanges


class FileInfo(NamedTuple):
    """A file in a listing."""

    path: str
    """Relative to the storage's root, decoded."""
    size: int
    """Bytes."""
    modified_ms: int
    """Milliseconds since the Unix epoch, by the store's clock."""
    etag: str | None = None
    """The store's identifier for this content of the file, without quotes; None if unknown."""


Wanted = Callable[[Sequence[str]], Collection[str]]
"""Selects files: takes one or more paths of one directory and returns the wanted paths, as the same
strings. Called by one thread at a time."""

OnLink = Callable[[str, str | None], None]
"""Takes the path of a link and the path of its target: "" for the root, None for a target outside
of it."""


class Readable(Protocol):
    """The part of a storage that reads single files; it has no methods that write."""

    @property
    def uri(self) -> str:
        """The root as the user named it, without credentials; for messages and `locate`."""

    @property
    def client_options(self) -> Mapping[str, Any]:
        """Options of the store's client, by the client's names; they include credentials."""

    @property
    def endpoint(self) -> str | None:
        """The address that the client connects to, if known; it may hold credentials."""

    @property
    def has_native_input(self) -> bool:
        """Whether Arrow itself reads the files that `open_input` opens.

        If not, Arrow's threads call Python for each read, which may abort a process that is about
        to exit; use `read_ranges` then.
        """

    def kept_ranges(self, file: FileInfo) -> KeptRanges | None:
        """The cache for ranges of the file, which must never change; None without a cache.

        Sends no request to the store. `unchanging` reads through this cache.
        """

    def locate(self, path: str) -> str:
        """The absolute URI or local path of `path`, as other engines accept it; "" is the root."""

    def stat(self, path: str) -> FileInfo:
        """Size and modification time of one file."""

    def read(self, path: str) -> bytes:
        """The whole file."""

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read the bytes [start, end) of each range, in the order of `ranges`.

        Raises:
            StorageError: The file ends before a range does.
        """

    def open_input(self, path: str) -> pa.NativeFile:
        """Open the file for random access by Arrow's readers; the caller closes it.

        Errors of later reads are not translated; most of them are an `OSError`.
        """


class Storage(Readable, Protocol):
    """A store of files; the module's docstring lists the guarantees of every implementation.

    Every method raises `FileNotFoundError` if a required file is missing, `FileExistsError` if a
    new file already exists, and `InvalidRequestError` for a path that `paths.validate` rejects or
    that leaves the root. All other failures (no space, no permission, no connection) are
    `errors.StorageError`, with the path and the cure. After a `StorageError` of `create` or
    `replace` the file may exist or not: read it to find out.
    """

    def list_from(self, directory: str, start: str) -> Iterator[FileInfo]:
        """List files directly in `directory` with names from `start` on, sorted by name.

        A directory that does not exist is empty. Links are not followed.
        """

    def list_tree(
        self, directory: str, wanted: Wanted | None = None, on_link: OnLink | None = None
    ) -> Iterator[FileInfo]:
        """List files in `directory` and below, in any order; links are not followed.

        Several directories are listed at a time.

        Args:
            directory: The top directory.
            wanted: Selects the files to yield; size and time of other files are not read. Also
                called for each empty directory, with only its path plus a slash, if the store has
                empty directories.
            on_link: Called for each link. Files below a link's target have a second name.
        """

    def find(self, paths: Iterable[str]) -> Iterator[FileInfo]:
        """Find the files that exist, in the order of `paths`; several are looked up at a time.

        Links are not followed in any part of a path: a file behind a link counts as missing.
        """

    def list_directories(self, directory: str) -> list[str]:
        """List paths of directories directly in `directory`, sorted; links are left out.

        The result includes paths that `validate` rejects, so that a caller can report them. A
        missing directory is empty. Object stores also read the objects directly in `directory`.
        """

    def is_directory(self, path: str) -> bool:
        """Whether the path is a directory and not a link; avoids a full listing if possible."""

    def holding_lock(self, path: str) -> AbstractContextManager[Storage]:
        """Hold the user's lock, as for creating `path`; yields the storage to use meanwhile.

        Raises:
            InvalidRequestError: There is no lock.
        """

    def create(self, path: str, data: bytes, *, is_durable: bool = True) -> None:
        """Create the file with these bytes, or raise `FileExistsError` and change nothing.

        The existing file may be the caller's own: if an answer is lost, the client sends the
        request again and gets the error for its own file. A caller that must know reads the file.

        Args:
            is_durable: If False, a power cut may delete or corrupt the file. Use it for files that
                readers verify and can do without.

        Raises:
            UnsupportedStorageError: This store has no exclusive create, and there is no lock.
        """

    def create_from_stream(
        self, path: str, write: Callable[[IO[bytes]], None], *, is_durable: bool = True
    ) -> FileInfo:
        """Like `create`, with the content that `write` writes; `write` may close its stream.

        `FileExistsError` is never about the caller's own file. If `write` raises, no file is left,
        and the error is not translated.

        Args:
            is_durable: If False, a power cut may delete the file until `persist` is called, readers
                may see a partial file, and a kill may leave one. `persist` for many files costs far
                less than a durable create of each.
        """

    def replace(self, path: str, data: bytes) -> None:
        """Create or atomically replace the file; readers see the old or the new content."""

    def persist(self, paths: Iterable[str]) -> None:
        """Make existing files and their directories survive a power cut.

        Raises:
            StorageError: A file is gone, or the store failed.
        """

    def delete(self, path: str) -> None:
        """Delete the file if it exists."""

    def delete_many(self, paths: Iterable[str]) -> list[str]:
        """Delete the existing files; returns the paths that could not be deleted, in order."""

    def delete_empty(self, directories: Iterable[str], before_ms: int) -> list[str]:
        """Delete empty directories, and parents that become empty.

        Args:
            directories: The directories; the root is never deleted. Stores whose directories are
                only parts of names delete nothing.
            before_ms: Milliseconds since the Unix epoch; only directories last changed before this
                time are deleted.

        Returns:
            The deleted directories. Directories that cannot be deleted stay.
        """

"""Storage: bytes by path, with exactly the guarantees a transaction log needs.

Knows no Delta. A storage is rooted at a directory or prefix; every path is relative to it, decoded,
separated by "/", and passed through `paths.validate`, so nothing outside the root can be named.

1. `create` and `create_from_stream` succeed for exactly one of any number of concurrent callers,
   nobody ever sees a part of the file, and what returned has reached the disk.
2. A listing is never cached: an object that another process finished is in the next listing.
3. `delete` of what is not there succeeds.
4. Nothing outside the root is written or deleted, whatever links there are.

A write that was killed may leave a file whose name `paths.is_hidden_staged` tells: it starts with a
dot, sorts before every digit, and matches no pattern for log files. Listings do show it, so that it
can be swept; whoever lists takes the names they know and leaves the rest. They leave out names that
`paths.validate` refuses, which no log can contain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import IO, Any, NamedTuple, Protocol

import pyarrow as pa

from delta_ops.storage.range_cache import KeptRanges


class FileInfo(NamedTuple):
    """A file as a listing shows it."""

    path: str
    """Relative to the storage's root, decoded."""
    size: int
    """Bytes."""
    modified_ms: int
    """Milliseconds since the Unix epoch, by the store's clock."""
    etag: str | None = None
    """What the store calls this content of the file, without quotes; None where it says nothing."""


Wanted = Callable[[Sequence[str]], Collection[str]]
"""Takes paths of files in one directory, at least one; those of them that are wanted, as texts that
were given. Called by one thread at a time."""

OnLink = Callable[[str, str | None], None]
"""Takes the path of a link, and that of what it leads to: "" is the root, None another place or
none."""


class Readable(Protocol):
    """The part of a storage that reads single files, and writes nothing."""

    @property
    def uri(self) -> str:
        """The root as the user named it, without credentials; for messages and `locate`."""

    @property
    def client_options(self) -> Mapping[str, Any]:
        """Options that the store's client was opened with, by its names; credentials are there."""

    @property
    def endpoint(self) -> str | None:
        """The address that the client goes to, where it is known; it may hold credentials."""

    @property
    def has_native_input(self) -> bool:
        """Whether Arrow reads by itself what `open_input` gives.

        Else its threads call Python for each read, which may abort a process that is about to exit;
        ranges are read better by `read_ranges` then.
        """

    def kept_ranges(self, file: FileInfo) -> KeptRanges | None:
        """Where this machine keeps ranges of the file, which must never change; None: nowhere.

        Reaches no store. See `unchanging`, which reads by it.
        """

    def locate(self, path: str) -> str:
        """The absolute URI or local path of `path`, as other engines take it; "" is the root."""

    def stat(self, path: str) -> FileInfo:
        """Size and time of one file."""

    def read(self, path: str) -> bytes:
        """The whole file."""

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes [start, end) of each range, in the order asked for.

        Raises:
            StorageError: The file ends before a range does.
        """

    def open_input(self, path: str) -> pa.NativeFile:
        """The file for random access, as Arrow's readers take it; the caller closes it.

        What goes wrong later, while it is read, is raised as it comes: an `OSError`, mostly.
        """


class Storage(Readable, Protocol):
    """See the module's docstring for what every implementation guarantees.

    Raises of every method: `FileNotFoundError` where a file that must be there is not,
    `FileExistsError` where one must not be there and is, `errors.StorageError` for everything else
    (no space, no permission, no connection), with the path and the cure; `InvalidRequestError` for
    a path that `paths.validate` refuses or that leaves the root. After a `StorageError` of a
    `create` or `replace` it is not known whether the file is there: read it.
    """

    def list_from(self, directory: str, start: str) -> Iterator[FileInfo]:
        """Files directly in `directory` whose name is `start` or after it, ordered by name.

        A directory that does not exist is empty. Links are not followed.
        """

    def list_tree(
        self, directory: str, wanted: Wanted | None = None, on_link: OnLink | None = None
    ) -> Iterator[FileInfo]:
        """Files in `directory` and below, in any order; links are not followed.

        Directories are listed several at a time. With `wanted` only what it gives back: of other
        files, size and time need not be asked for; and it is also asked of each directory in which
        there is nothing, where there are such, alone, by its path with a slash at the end.
        `on_link` is told of the links: what lies where one leads to has one more name.
        """

    def find(self, paths: Iterable[str]) -> Iterator[FileInfo]:
        """Find which of the files are there, in their order; several are asked for at a time.

        Links are not followed, in no part of a path: what is reached by one is not there.
        """

    def list_directories(self, directory: str) -> list[str]:
        """Paths of the directories directly in `directory`, ordered; links are left out.

        Paths that `validate` rejects are among them, so that a caller can report them. A directory
        that does not exist is empty. Object stores have to pass by the objects that are directly in
        it.
        """

    def is_directory(self, path: str) -> bool:
        """Whether there is a directory, which a link is not; what is in it is not listed in full
        where the store can tell otherwise."""

    def holding_lock(self, path: str) -> AbstractContextManager[Storage]:
        """Hold the lock that the user supplied as for creating `path`; what to use meanwhile.

        Raises:
            InvalidRequestError: There is no lock.
        """

    def create(self, path: str, data: bytes, *, is_durable: bool = True) -> None:
        """Create the file with these bytes, or raise `FileExistsError` and change nothing.

        The file that exists may be the caller's own: a client sends a request again whose answer
        was lost, and is told of what landed. Whoever must know reads it.

        Args:
            is_durable: False: a power cut may take the file away or leave something else in it, of
                what readers check and can do without.

        Raises:
            UnsupportedStorageError: This store offers no exclusive create, and there is no lock.
        """

    def create_from_stream(
        self, path: str, write: Callable[[IO[bytes]], None], *, is_durable: bool = True
    ) -> FileInfo:
        """Like `create`, of what `write` writes, which may close what it writes to.

        `FileExistsError` is never about the caller's own file. If `write` raises, nothing is there
        and its error passes as it is.

        Args:
            is_durable: False: until `persist` has been called, which takes far less for many files
                than for each, a power cut may take it away, and a part of it may be seen, which a
                kill may leave.
        """

    def replace(self, path: str, data: bytes) -> None:
        """Create or atomically replace the file; readers see the old bytes or the new."""

    def persist(self, paths: Iterable[str]) -> None:
        """Make files that are there, and their directories, survive a power cut.

        Raises:
            StorageError: A file is gone, or the store failed.
        """

    def delete(self, path: str) -> None:
        """Delete the file if it is there."""

    def delete_many(self, paths: Iterable[str]) -> list[str]:
        """Delete the files that are there; the paths that could not be deleted, in order."""

    def delete_empty(self, directories: Iterable[str], before_ms: int) -> list[str]:
        """Delete directories in which there is nothing, and those above that this leaves so.

        Only what was last changed before `before_ms` (milliseconds since the Unix epoch), never the
        root, and nothing where directories are no more than a part of names. What cannot be deleted
        stays. Returns what is gone.
        """

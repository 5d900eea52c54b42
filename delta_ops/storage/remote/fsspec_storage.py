"""fsspec storage: all stores except this machine's file system, accessed through fsspec.

1. Listings are never cached: the file system is opened without a listing cache, and anything that
   it caches nevertheless is dropped before each listing.
2. Only fsspec's single-file calls are used, because the multi-file calls expand wildcards.
3. Files are created by `exclusive`, and replaced only in stores with atomic uploads. Other stores
   support reading, listing and deleting; writing needs a lock from the user.
4. Every error of a file system becomes a `StorageError`, with a message without credentials.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import IO, Any, NamedTuple

import pyarrow as pa

from delta_ops.errors import DeltaOpsError, StorageError, UnsupportedStorageError
from delta_ops.option_words import option
from delta_ops.storage.backends import backend_of
from delta_ops.storage.backends.backend import DELETE_BATCH
from delta_ops.storage.concurrency import MAX_CONCURRENCY, run_ahead, run_parallel
from delta_ops.storage.contract import FileInfo, OnLink, Wanted
from delta_ops.storage.exclusive_create import ExclusiveCreate
from delta_ops.storage.failures import describe_error, reason_of, reveals
from delta_ops.storage.locks import Lock, can_rename, hold, hold_for_caller, rename_into_place
from delta_ops.storage.paths import OWN_DIRECTORY, redact, validate
from delta_ops.storage.range_cache import KeptRanges, RangeCache
from delta_ops.storage.ranges import validate_parts, validate_ranges
from delta_ops.storage.remote.exclusive import exclusive_create_of, uploads_in_parts
from delta_ops.storage.remote.reachable import unreachable_reason
from delta_ops.storage.remote.root import RemoteRoot, schemes_of
from delta_ops.storage.remote.tree import (
    NOTHING_THERE,
    list_directories,
    list_from,
    list_tree,
)
from delta_ops.storage.remote.uploads import upload_written

logger = logging.getLogger(__name__)

_inherited: list[Any] = []
"""File systems of a parent process, kept alive. Deleting one would close connections that belong to
the parent, and would wait for a thread that does not exist in this process."""


class _Unseen(NamedTuple):
    """A value that tracebacks with variables do not show."""

    value: Mapping[str, Any]

    def __repr__(self) -> str:
        return "..."


class FsspecStorage:
    """A `Storage` over a fsspec file system.

    Args:
        fs: Opened with `use_listings_cache=False`.
        root: The root as `fs` names it.
        uri: The root as the user named it, without a trailing slash; credentials are removed.
        lock: The user's lock, see `locks`.
        cache: The user's cache for ranges of unchanging files.
        options: The user's options for `fs`.
    """

    def __init__(
        self,
        fs: Any,
        root: str,
        uri: str,
        lock: Lock | None = None,
        cache: RangeCache | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._opened_fs = fs
        self._opened_in = os.getpid()
        self._root_path = root.rstrip("/")
        self._uri = redact(uri)
        self._lock = lock
        self._cache = cache
        self._options = _Unseen(options or {})
        self._backend = backend_of(*schemes_of(fs))

    def __repr__(self) -> str:
        return f"FsspecStorage({self._uri!r})"

    @property
    def uri(self) -> str:
        """The root as the user named it, without credentials."""
        return self._uri

    @property
    def client_options(self) -> Mapping[str, Any]:
        """See `Storage`."""
        return self._options.value

    @property
    def endpoint(self) -> str | None:
        """See `Storage`."""
        return self._root.address()

    @property
    def has_native_input(self) -> bool:
        """See `Storage`."""
        return False

    def kept_ranges(self, file: FileInfo) -> KeptRanges | None:
        """See `Storage`; also None if the store's address or the file's version is unknown."""
        if self._cache is None or (file.etag is None and file.modified_ms <= 0):
            return None
        address = self._root.address()
        if address is None:
            return None
        content = f"at {file.modified_ms}" if file.etag is None else f"etag {file.etag}"
        return KeptRanges(self._cache, (address, self._root_path, file.path, file.size, content))

    def locate(self, path: str) -> str:
        """The full URI; "" is the root."""
        return self._root.locate(path)

    def list_from(self, directory: str, start: str) -> Iterator[FileInfo]:
        """See `Storage`."""
        with self._failing_as(directory, "listed"):
            return list_from(self._root, directory, start)

    def list_tree(
        self,
        directory: str,
        wanted: Wanted | None = None,
        on_link: OnLink | None = None,  # noqa: ARG002
    ) -> Iterator[FileInfo]:
        """See `Storage`; empty directories are not listed, and there are no links."""
        with self._failing_as(directory, "listed"):
            yield from list_tree(self._root, directory, wanted)

    def find(self, paths: Iterable[str]) -> Iterator[FileInfo]:
        """See `Storage`; these stores have no links."""
        calls = ((1, partial(self._stat_if_there, path)) for path in map(validate, paths))
        for found in run_ahead(calls, 10 * MAX_CONCURRENCY):
            if found is not None:
                yield found

    def list_directories(self, directory: str) -> list[str]:
        """See `Storage`."""
        with self._failing_as(directory, "listed"):
            return list_directories(self._root, directory)

    def is_directory(self, path: str) -> bool:
        """See `Storage`."""
        with self._failing_as(path, "read"), self._backend.lock():
            self._fs.invalidate_cache()
            return bool(self._fs.isdir(self._root.full_path(path)))

    def stat(self, path: str) -> FileInfo:
        """See `Storage`."""
        with self._reading(path), self._backend.lock():
            self._fs.invalidate_cache()
            entry = self._fs.info(self._root.full_path(path))
            if entry["type"] != "file":
                raise FileNotFoundError(path)
            return self._root.info_of(path, entry)

    def read(self, path: str) -> bytes:
        """See `Storage`."""
        with self._reading(path):
            full, fs = self._root.full_path(path), self._fs
            return bytes(fs.cat_file(full, **self._backend.read_options(type(fs))))

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """See `Storage`."""
        validate_ranges(ranges)
        filled = [(start, end) for start, end in ranges if start < end]  # HTTP has no empty ranges
        with self._reading(path):
            answers = iter(self._ranges_of(self._root.full_path(path), filled))
        parts = [next(answers) if start < end else b"" for start, end in ranges]
        return validate_parts(self.locate(path), ranges, parts)

    def open_input(self, path: str) -> pa.NativeFile:
        """See `Storage`."""
        with self._reading(path):
            if self._backend.shares_open_files:
                return pa.BufferReader(self._fs.cat_file(self._root.full_path(path)))
            file = self._fs.open(self._root.full_path(path), "rb")
            if (getattr(file, "details", None) or {}).get("type") == "directory":
                raise FileNotFoundError(path)  # s3fs also opens prefixes of objects
            return pa.PythonFile(file, mode="r")

    @contextlib.contextmanager
    def holding_lock(self, path: str) -> Iterator[FsspecStorage]:
        """See `Storage`."""
        with hold_for_caller(self._lock, self._root.full_path(path), self._uri) as lock:
            yield FsspecStorage(
                self._fs, self._root_path, self._uri, lock, self._cache, self.client_options
            )

    def create(self, path: str, data: bytes, *, is_durable: bool = True) -> None:  # noqa: ARG002
        """See `Storage`; raises `UnsupportedStorageError` as well, see `exclusive`."""
        full, exclusive = self._root.full_path(path), self._exclusive_create()
        with self._failing_as(path, "created", FileExistsError):
            exclusive.put(self._fs, full, data, "")

    def create_from_stream(
        self,
        path: str,
        write: Callable[[IO[bytes]], None],
        *,
        is_durable: bool = True,  # noqa: ARG002
    ) -> FileInfo:
        """See `Storage` and `uploads`; may raise `UnsupportedStorageError`, see `exclusive`."""
        full, exclusive = self._root.full_path(path), self._exclusive_create()
        upload_written(
            write,
            exclusive,
            self._fs,
            full,
            in_parts=lambda: uploads_in_parts(exclusive, self._fs, self._root_path),
            failing=partial(self._failing_as, path, "created"),
        )
        return self.stat(path)

    def replace(self, path: str, data: bytes) -> None:
        """See `Storage`; needs atomic uploads or a lock, else raises `UnsupportedStorageError`.

        With a lock instead of atomic uploads, the file is missing for a moment during the rename.
        """
        full = self._root.full_path(path)
        with self._failing_as(path, "replaced"):
            if self._backend.is_atomic:
                with self._backend.lock():
                    self._fs.pipe_file(full, data)
            elif self._lock is not None and can_rename(self._fs):
                with hold(self._lock, full):
                    with contextlib.suppress(FileNotFoundError):
                        self._fs.rm_file(full)
                    rename_into_place(self._fs, full, data)
            else:
                raise UnsupportedStorageError(
                    f"{self.locate(path)} cannot be replaced: {self._root.kind} may be unable "
                    "to replace a file atomically, so a reader could see a part of it. "
                    "Reading works; to write, give the handle of the table a lock "
                    f"({option('lock', ...)}), or keep the table on another store."
                )

    def persist(self, paths: Iterable[str]) -> None:
        """Do nothing: uploads that these stores have confirmed are durable."""
        for path in paths:
            validate(path)

    def delete(self, path: str) -> None:
        """See `Storage`."""
        with (
            self._failing_as(path, "deleted"),
            self._backend.lock(),
            contextlib.suppress(*NOTHING_THERE),
        ):
            self._fs.rm_file(self._root.full_path(path))

    def delete_many(self, paths: Iterable[str]) -> list[str]:
        """See `Storage`; logs why a file could not be deleted."""
        remaining = map(validate, paths)
        kept: list[str] = []
        while chosen := list(islice(remaining, DELETE_BATCH * MAX_CONCURRENCY)):
            batches = [chosen[i : i + DELETE_BATCH] for i in range(0, len(chosen), DELETE_BATCH)]
            left = list(chain.from_iterable(run_parallel(self._delete_in_bulk, batches)))
            gone = run_parallel(self._is_deleted, left)
            kept += [path for path, is_gone in zip(left, gone, strict=True) if not is_gone]
        return kept

    def delete_empty(self, directories: Iterable[str], before_ms: int) -> list[str]:  # noqa: ARG002
        """Delete nothing: these stores have no empty directories, or do not list them."""
        return []

    @property
    def _fs(self) -> Any:
        """The file system; opened again after a fork, because the connections do not work there."""
        if os.getpid() != self._opened_in:
            fs = self._opened_fs
            _inherited.append(fs)
            self._opened_fs = type(fs)(*fs.storage_args, **fs.storage_options)
            self._opened_in = os.getpid()
        return self._opened_fs

    @property
    def _root(self) -> RemoteRoot:
        return RemoteRoot(self._fs, self._root_path, self._uri, self._backend)

    def _ranges_of(self, full: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        starts, ends = [start for start, _ in ranges], [end for _, end in ranges]
        bounded = {"batch_size": MAX_CONCURRENCY} if self._fs.async_impl else {}
        answers = self._fs.cat_ranges(
            [full] * len(ranges), starts, ends, on_error="return", **bounded
        )
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return [bytes(answer) for answer in answers]

    def _stat_if_there(self, path: str) -> FileInfo | None:
        try:
            return self.stat(path)
        except FileNotFoundError:
            return None

    @contextlib.contextmanager
    def _reading(self, path: str) -> Iterator[None]:
        with self._failing_as(path, "read", FileNotFoundError):
            try:
                yield
            except NOTHING_THERE as error:
                text = os.strerror(errno.ENOENT)
                raise FileNotFoundError(errno.ENOENT, text, self.locate(path)) from error

    @contextlib.contextmanager
    def _failing_as(self, path: str, action: str, *expected: type[OSError]) -> Iterator[None]:
        self._validate_reachable(path, action)
        try:
            yield
        except Exception as error:  # file systems raise what their libraries raise
            if isinstance(error, (DeltaOpsError, *expected)):
                raise
            if isinstance(error, PermissionError):
                error.errno = error.errno or errno.EACCES  # callers check this number
            options = self._opened_fs.storage_options
            failure = StorageError(self.locate(path), action, _reason_of(error, options))
            raise failure from (None if reveals(error, options) else error)

    def _validate_reachable(self, path: str, action: str) -> None:
        address = self._root.slow_address()
        reason = unreachable_reason(address, self._options.value) if address else None
        if reason is not None:
            raise StorageError(self.locate(path), action, reason)

    def _exclusive_create(self) -> ExclusiveCreate:
        with self._failing_as(OWN_DIRECTORY, "probed"):
            return exclusive_create_of(self._root, self._lock)

    def _delete_in_bulk(self, paths: list[str]) -> list[str]:
        """Delete by one request; returns the paths that were not deleted, in order."""
        delete = self._backend.delete_many
        if delete is None or len(paths) == 1:
            return paths
        named = [path for path in paths if not self._backend.is_misread(path)]
        try:
            gone = delete(self._fs, [self._root.full_path(path) for path in named])
        except Exception as error:  # file systems raise what their libraries raise
            logger.info(
                "Batch delete failed; deleting files one by one: %s",
                describe_error(error, self._opened_fs.storage_options),
            )
            return paths
        return [path for path in paths if f"{self._root_path}/{path}" not in gone]

    def _is_deleted(self, path: str) -> bool:
        try:
            self.delete(path)
        except StorageError as error:
            logger.warning("%s", error)
            return False
        return True


def _reason_of(error: Exception, options: Mapping[str, object]) -> str:
    if isinstance(error, NotADirectoryError | IsADirectoryError):
        return reason_of(error)
    description = describe_error(error, options)
    if isinstance(error, PermissionError):
        return f"access is denied ({description}); check the credentials and what they permit"
    return (
        f"the store failed ({description}); check its address, {option('storage_options')} and "
        "the connection"
    )

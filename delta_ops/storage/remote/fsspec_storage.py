"""fsspec storage: every store that is not this machine's file system, as fsspec reaches it.

1. Listings are never cached: the file system is opened without a cache of listings, and whatever
   it holds all the same is dropped before each.
2. Paths are given to fsspec's single-file calls only; those for several files expand wildcards.
3. Creating goes through `exclusive`, replacing only to stores whose upload is atomic; any other
   store can be read, listed and deleted from, and written to within a lock that the user supplies.
4. Whatever a file system raises becomes a `StorageError`, in words without credentials.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import chain, groupby, islice
from typing import IO, Any, NamedTuple

import pyarrow as pa

from delta_ops.errors import DeltaOpsError, StorageError, UnsupportedStorageError
from delta_ops.storage.concurrency import MAX_CONCURRENCY, run_ahead, run_parallel
from delta_ops.storage.contract import FileInfo, OnLink, Wanted
from delta_ops.storage.create_way import Way
from delta_ops.storage.failures import describe_error, reason_of, reveals
from delta_ops.storage.locks import Lock, can_rename, hold, hold_for_caller, rename_into_place
from delta_ops.storage.object_stores import (
    DELETE_BATCH,
    Entry,
    address_of,
    client_address,
    has_table_below_no_name,
    is_taken_for_another,
    options_of_read,
    way_to_delete_many,
    way_to_list_from,
    way_to_list_tree,
)
from delta_ops.storage.paths import is_valid, redact, validate
from delta_ops.storage.range_cache import KeptRanges, RangeCache
from delta_ops.storage.ranges import validate_parts, validate_ranges
from delta_ops.storage.remote.exclusive import get_memory_lock, uploads_in_parts, way_to_create
from delta_ops.storage.remote.probe import PROBES
from delta_ops.storage.remote.reachable import unreachable_reason
from delta_ops.storage.remote.uploads import upload_written

logger = logging.getLogger(__name__)

_OBJECT_STORES = frozenset({"memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})
"""Stores of whole objects: an upload is atomic and durable, and one listing covers a tree."""

_TRY_LONG = frozenset({"gs", "abfs"})
"""Stores whose clients try for long to reach an address where nobody is."""

_LEVELS = 3
"""How many levels of directories are listed in search of enough to list in parallel."""

_JUDGED_TOGETHER = 1000
_TIME_KEYS = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")
_ETAG_KEYS = ("ETag", "etag")
_NOTHING_THERE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_inherited: list[Any] = []
"""File systems of a parent process. One that is let go of closes its connections: it would wait
for a thread that is not there, and they are the parent's."""


class _Unseen(NamedTuple):
    """A value that a traceback with variables does not show."""

    value: Mapping[str, Any]

    def __repr__(self) -> str:
        return "..."


class FsspecStorage:
    """A `Storage` over a fsspec file system.

    Args:
        fs: Opened with `use_listings_cache=False`.
        root: The root as `fs` names it.
        uri: The root as the user named it, without a slash at its end; credentials are dropped.
        lock: What the user supplied, see `locks`.
        cache: Where what is read of unchanging files is kept, if the user wants that.
        options: What `fs` was opened with, as the user gave it.
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
        self._root = root.rstrip("/")
        self._uri = redact(uri)
        self._lock = lock
        self._cache = cache
        self._options = _Unseen(options or {})

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
        return address_of(self._protocols, self._fs)

    @property
    def has_native_input(self) -> bool:
        """See `Storage`."""
        return False

    def kept_ranges(self, file: FileInfo) -> KeptRanges | None:
        """See `Storage`; of files in a known store that have an etag, or a time in its place."""
        if self._cache is None or (file.etag is None and file.modified_ms <= 0):
            return None
        address = address_of(self._protocols, self._fs)
        if address is None:
            return None
        content = f"at {file.modified_ms}" if file.etag is None else f"etag {file.etag}"
        return KeptRanges(self._cache, (address, self._root, file.path, file.size, content))

    def locate(self, path: str) -> str:
        """The full URI; "" is the root."""
        return f"{self._uri}/{validate(path)}" if path else self._uri

    def list_from(self, directory: str, start: str) -> Iterator[FileInfo]:
        """See `Storage`."""
        first = f"{directory}/{start}" if directory else start
        with self._failing_as(directory, "listed"):
            infos = sorted(self._infos_of(self._entries_of(directory, start), directory))
        return (info for info in infos if info.path >= first)

    def list_tree(
        self,
        directory: str,
        wanted: Wanted | None = None,
        on_link: OnLink | None = None,  # noqa: ARG002
    ) -> Iterator[FileInfo]:
        """See `Storage`; of an empty directory nothing is said, and there are no links."""
        walk = self._walk if _OBJECT_STORES.isdisjoint(self._protocols) else self._find_in_parallel
        with self._failing_as(directory, "listed"):
            infos = self._infos_of(walk(directory), directory)
            yield from infos if wanted is None else _filter_wanted(infos, wanted)

    def find(self, paths: Iterable[str]) -> Iterator[FileInfo]:
        """See `Storage`; these stores have no links."""
        calls = ((1, partial(self._stat_if_there, path)) for path in map(validate, paths))
        for found in run_ahead(calls, 10 * MAX_CONCURRENCY):
            if found is not None:
                yield found

    def list_directories(self, directory: str) -> list[str]:
        """See `Storage`."""
        entries: list[Entry] = []
        full = self._full_directory(directory)
        with self._failing_as(directory, "listed"):
            with contextlib.suppress(*_NOTHING_THERE), self._hold_memory():
                self._fs.invalidate_cache()
                entries = self._fs.ls(full, detail=True)
            found = {
                self._relative_path(e["name"]).rstrip("/") for e in entries if _is_directory(e)
            } - {directory}
            if "s3" in self._protocols and has_table_below_no_name(self._fs, entries, full):
                found.add(f"{directory}/")
        return sorted(found)

    def is_directory(self, path: str) -> bool:
        """See `Storage`."""
        with self._failing_as(path, "read"), self._hold_memory():
            self._fs.invalidate_cache()
            return bool(self._fs.isdir(self._full_path(path)))

    def stat(self, path: str) -> FileInfo:
        """See `Storage`."""
        with self._reading(path), self._hold_memory():
            self._fs.invalidate_cache()
            entry = self._fs.info(self._full_path(path))
            if entry["type"] != "file":
                raise FileNotFoundError(path)
            return self._info_of(path, entry)

    def read(self, path: str) -> bytes:
        """See `Storage`."""
        with self._reading(path):
            options = options_of_read(self._protocols)
            return bytes(self._fs.cat_file(self._full_path(path), **options))

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """See `Storage`."""
        validate_ranges(ranges)
        asked = [(start, end) for start, end in ranges if start < end]  # HTTP has no empty range
        with self._reading(path):
            answers = iter(self._ranges_of(self._full_path(path), asked))
        parts = [next(answers) if start < end else b"" for start, end in ranges]
        return validate_parts(self.locate(path), ranges, parts)

    def open_input(self, path: str) -> pa.NativeFile:
        """See `Storage`."""
        with self._reading(path):
            if "memory" in self._protocols:
                # fsspec hands all readers in memory one file, which has one position.
                return pa.BufferReader(self._fs.cat_file(self._full_path(path)))
            file = self._fs.open(self._full_path(path), "rb")
            if (getattr(file, "details", None) or {}).get("type") == "directory":
                raise FileNotFoundError(path)  # s3fs opens what has objects below it
            return pa.PythonFile(file, mode="r")

    @contextlib.contextmanager
    def holding_lock(self, path: str) -> Iterator[FsspecStorage]:
        """See `Storage`."""
        with hold_for_caller(self._lock, self._full_path(path), self._uri) as lock:
            yield FsspecStorage(
                self._fs, self._root, self._uri, lock, self._cache, self.client_options
            )

    def create(self, path: str, data: bytes, *, is_durable: bool = True) -> None:  # noqa: ARG002
        """See `Storage`; also `UnsupportedStorageError`, see `exclusive`."""
        full, way = self._full_path(path), self._way_to_create()
        with self._failing_as(path, "created", FileExistsError):
            way.put(self._fs, full, data, "")

    def create_from_stream(
        self,
        path: str,
        write: Callable[[IO[bytes]], None],
        *,
        is_durable: bool = True,  # noqa: ARG002
    ) -> FileInfo:
        """See `Storage` and `uploads`; also `UnsupportedStorageError`, see `exclusive`."""
        full, way = self._full_path(path), self._way_to_create()
        upload_written(
            write,
            way,
            self._fs,
            full,
            in_parts=lambda: uploads_in_parts(way, self._fs, self._root),
            failing=partial(self._failing_as, path, "created"),
        )
        return self.stat(path)

    def replace(self, path: str, data: bytes) -> None:
        """See `Storage`; also `UnsupportedStorageError` where an upload is not atomic.

        There, within a lock, the file is gone for a moment before the new one has its name.
        """
        full = self._full_path(path)
        with self._failing_as(path, "replaced"):
            if not _OBJECT_STORES.isdisjoint(self._protocols):
                with self._hold_memory():
                    self._fs.pipe_file(full, data)
            elif self._lock is not None and can_rename(self._fs):
                with hold(self._lock, full):
                    with contextlib.suppress(FileNotFoundError):
                        self._fs.rm_file(full)
                    rename_into_place(self._fs, full, data)
            else:
                raise UnsupportedStorageError(
                    f"{self.locate(path)} cannot be replaced: delta_ops does not know "
                    f"{self._protocols[0]} to replace a file at once, so that a reader could see "
                    "a part of it. Reading works; to write, give a lock (DeltaLog(uri, "
                    "storage_options, lock=...)), or keep the table on another store."
                )

    def persist(self, paths: Iterable[str]) -> None:
        """Do nothing: an upload that these stores have confirmed is durable."""
        for path in paths:
            validate(path)

    def delete(self, path: str) -> None:
        """See `Storage`."""
        with (
            self._failing_as(path, "deleted"),
            self._hold_memory(),
            contextlib.suppress(*_NOTHING_THERE),
        ):
            self._fs.rm_file(self._full_path(path))

    def delete_many(self, paths: Iterable[str]) -> list[str]:
        """See `Storage`; why a file could not be deleted goes to the log."""
        remaining = map(validate, paths)
        kept: list[str] = []
        while chosen := list(islice(remaining, DELETE_BATCH * MAX_CONCURRENCY)):
            batches = [chosen[i : i + DELETE_BATCH] for i in range(0, len(chosen), DELETE_BATCH)]
            left = list(chain.from_iterable(run_parallel(self._delete_in_bulk, batches)))
            gone = run_parallel(self._is_deleted, left)
            kept += [path for path, is_gone in zip(left, gone, strict=True) if not is_gone]
        return kept

    def delete_empty(self, directories: Iterable[str], before_ms: int) -> list[str]:  # noqa: ARG002
        """Delete nothing: where stores have directories, `list_tree` shows none that is empty."""
        return []

    @property
    def _fs(self) -> Any:
        """The file system, opened again in a forked process, where its connections are useless."""
        if os.getpid() != self._opened_in:
            fs = self._opened_fs
            _inherited.append(fs)
            self._opened_fs = type(fs)(*fs.storage_args, **fs.storage_options)
            self._opened_in = os.getpid()
        return self._opened_fs

    @property
    def _protocols(self) -> tuple[str, ...]:
        protocol = self._opened_fs.protocol
        return (protocol,) if isinstance(protocol, str) else tuple(protocol)

    def _full_path(self, path: str) -> str:
        if is_taken_for_another(self._protocols, validate(path)):
            reason = (
                f"the client of {self._protocols[0]} would reach another object, because it cuts "
                "the name at its question mark; give the object another name with another program"
            )
            raise StorageError(self.locate(path), "reached", reason)
        return f"{self._root}/{path}"

    def _full_directory(self, directory: str) -> str:
        return self._full_path(directory) if directory else self._root

    def _hold_memory(self) -> contextlib.AbstractContextManager[object]:
        """Keeps fsspec's store in memory from changing under a call that walks it."""
        return get_memory_lock() if "memory" in self._protocols else contextlib.nullcontext()

    def _entries_of(self, directory: str, start: str = "") -> list[Entry]:
        full = self._full_directory(directory)
        list_from = way_to_list_from(self._protocols)
        with contextlib.suppress(*_NOTHING_THERE), self._hold_memory():
            if list_from is not None:
                return list(list_from(self._fs, full, start))
            self._fs.invalidate_cache()
            return list(self._fs.ls(full, detail=True))
        return []

    def _find(self, directory: str) -> Iterable[Entry]:
        with contextlib.suppress(*_NOTHING_THERE), self._hold_memory():
            self._fs.invalidate_cache()
            found = self._fs.find(self._full_directory(directory), detail=True)
            return list(found.values()) if isinstance(found, dict) else []
        return []

    def _find_in_parallel(self, directory: str) -> Iterable[Entry]:
        """Like `_find`; what is below each of several directories by a listing of its own.

        A listing goes on from page to page, so that one of all would take as long as all together.
        """
        if "memory" in self._protocols:
            return self._find(directory)
        if (list_tree := way_to_list_tree(self._protocols)) is not None:
            tree = list_tree(self._fs, self._full_directory(directory))
            if tree is not None:
                return tree
        files: list[Entry] = []
        branches = [directory]
        for _ in range(_LEVELS):
            found = run_ahead(
                ((1, partial(self._level, each)) for each in branches), 2 * MAX_CONCURRENCY
            )
            branches = []
            for entries, directories in found:
                files += entries
                branches += directories
            if not branches or len(branches) >= MAX_CONCURRENCY:
                break
        below = ((1, partial(self._find, each)) for each in branches)
        return chain(files, chain.from_iterable(run_ahead(below, 2 * MAX_CONCURRENCY)))

    def _level(self, directory: str) -> tuple[list[Entry], list[str]]:
        """The files directly in a directory, and the paths of the directories."""
        with contextlib.suppress(*_NOTHING_THERE):
            self._fs.invalidate_cache()
            entries = self._fs.ls(self._full_directory(directory), detail=True)
            files = [entry for entry in entries if entry["type"] == "file"]
            paths = [self._relative_path(e["name"]) for e in entries if e["type"] == "directory"]
            # A directory that is listed as in itself is an object that stands for it.
            # Such an object beside files below it makes a directory of Azure be listed twice.
            below = dict.fromkeys(path.rstrip("/") for path in paths)
            return files, [path for path in below if path != directory and is_valid(path)]
        return [], []

    def _stat_if_there(self, path: str) -> FileInfo | None:
        try:
            return self.stat(path)
        except FileNotFoundError:
            return None

    def _walk(self, directory: str) -> Iterable[Entry]:
        """Like `_find`, which in fsspec's own walk leaves out what cannot be listed."""
        pending = [directory]
        while pending:
            inner = pending.pop()
            for entry in self._entries_of(inner):
                path = self._relative_path(entry["name"])
                if entry["type"] != "directory":
                    yield entry
                elif path != inner and is_valid(path):
                    pending.append(path)

    def _infos_of(self, entries: Iterable[Entry], directory: str) -> Iterator[FileInfo]:
        """The files among `entries` that are in `directory`, which may itself be listed."""
        prefix = f"{directory}/" if directory else ""
        for entry in entries:
            path = self._relative_path(entry["name"])
            if entry["type"] == "file" and path.startswith(prefix) and is_valid(path):
                yield self._info_of(path, entry)

    def _info_of(self, path: str, entry: Entry) -> FileInfo:
        etag = str(next((entry[key] for key in _ETAG_KEYS if entry.get(key)), "")).strip('"')
        return FileInfo(path, int(entry["size"]), self._modified_ms(entry), etag or None)

    def _relative_path(self, name: str) -> str:
        """What a listing calls `name`, as a path; "" when it is not below the root."""
        root = self._root.lstrip("/")
        prefix = f"{root}/" if root else ""
        name = name.lstrip("/")
        return name[len(prefix) :] if name.startswith(prefix) else ""

    def _modified_ms(self, entry: Entry) -> int:
        for key in _TIME_KEYS:
            if entry.get(key) is not None:
                return _ms_of(entry[key])
        return _ms_of(self._fs.modified(entry["name"]))

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

    @contextlib.contextmanager
    def _reading(self, path: str) -> Iterator[None]:
        with self._failing_as(path, "read", FileNotFoundError):
            try:
                yield
            except _NOTHING_THERE as error:
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
                error.errno = error.errno or errno.EACCES  # by which a caller knows it
            options = self._opened_fs.storage_options
            failure = StorageError(self.locate(path), action, _reason_of(error, options))
            raise failure from (None if reveals(error, options) else error)

    def _validate_reachable(self, path: str, action: str) -> None:
        if _TRY_LONG.isdisjoint(self._protocols):
            return
        address = client_address(self._protocols, self._fs)
        reason = unreachable_reason(address, self._options.value)
        if reason is not None:
            raise StorageError(self.locate(path), action, reason)

    def _way_to_create(self) -> Way:
        with self._failing_as(PROBES, "probed"):
            return way_to_create(self._protocols, self._fs, self._root, self._uri, self._lock)

    def _delete_in_bulk(self, paths: list[str]) -> list[str]:
        """Paths that one request for all of them does not delete, in order."""
        delete = way_to_delete_many(self._protocols)
        if delete is None or len(paths) == 1:
            return paths
        named = [path for path in paths if not is_taken_for_another(self._protocols, path)]
        try:
            gone = delete(self._fs, [self._full_path(path) for path in named])
        except Exception as error:  # file systems raise what their libraries raise
            logger.info(
                "Deleting one by one: %s", describe_error(error, self._opened_fs.storage_options)
            )
            return paths
        return [path for path in paths if f"{self._root}/{path}" not in gone]

    def _is_deleted(self, path: str) -> bool:
        try:
            self.delete(path)
        except StorageError as error:
            logger.warning("%s", error)
            return False
        return True


def _filter_wanted(infos: Iterator[FileInfo], wanted: Wanted) -> Iterator[FileInfo]:
    while together := list(islice(infos, _JUDGED_TOGETHER)):
        for _, group in groupby(together, lambda info: info.path.rpartition("/")[0]):
            of_directory = list(group)
            chosen = frozenset(wanted([info.path for info in of_directory]))
            yield from (info for info in of_directory if info.path in chosen)


def _is_directory(entry: Entry) -> bool:
    return bool(entry["type"] == "directory" and not entry.get("islink"))


def _reason_of(error: Exception, options: Mapping[str, object]) -> str:
    if isinstance(error, NotADirectoryError | IsADirectoryError):
        return reason_of(error)
    said = describe_error(error, options)
    if isinstance(error, PermissionError):
        return f"access is denied ({said}); check the credentials and what they permit"
    return f"the store failed ({said}); check its address, storage_options and the connection"


def _ms_of(time: object) -> int:
    match time:
        case datetime():
            aware = time if time.tzinfo else time.replace(tzinfo=UTC)
            return round(aware.timestamp() * 1000)
        case int() | float():
            return round(time * 1000)
        case str():
            return _ms_of(datetime.fromisoformat(time))
        case _:
            raise TypeError(f"{type(time).__name__} is no time of modification")

"""Local storage: files of the operating system, with the guarantees that a log needs.

1. A file is written under a staged name beside its target, fsynced, and only then named: by a hard
   link (create) or a rename (replace). A kill leaves the whole file or none, plus at most a hidden
   staged file. Files that must not be used before `persist` are written under their own names,
   which saves half of the work for very many files.
2. A file is durable as soon as the call returns, see `durability`.
3. Files outside the root are never written or deleted: a directory that leaves the root by a link
   is rejected. The root itself may be a link. Listings neither show nor follow links; reading a
   named file follows them.
4. A new file never gets the checksum of an older file, see `deletion`.
5. Some writers, such as Hadoop's, check that a name is free and then rename their file to it. Such
   a writer can replace a file that was created after its check. So the name is checked again once
   the file is durable: a writer that replaced the file before this check has won. A later writer
   still replaces the file, and nothing in POSIX prevents that.

Uses `os` directly, because fsspec's local file system checks first and then creates.
On macOS, fsync does not include the drive's own cache.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

import pyarrow as pa
from pyarrow.fs import LocalFileSystem

from delta_ops.errors import StorageError
from delta_ops.storage.contract import FileInfo, OnLink, Wanted
from delta_ops.storage.exclusive_create import file_exists_error
from delta_ops.storage.failures import reason_of
from delta_ops.storage.local.deletion import (
    clear_checksum_of,
    delete_empty,
    delete_file,
    delete_files,
)
from delta_ops.storage.local.directories import (
    is_plain,
    join,
    open_place,
    real_directory,
    real_place,
)
from delta_ops.storage.local.durability import (
    directories_upward,
    failure_of,
    make_directories,
    name_staged_file,
    staged_file,
    sync_all,
    sync_directory,
    sync_upward,
    translating,
    write_new_file,
)
from delta_ops.storage.local.tree import find, list_tree
from delta_ops.storage.locks import Lock, hold_for_caller
from delta_ops.storage.paths import is_valid, validate
from delta_ops.storage.range_cache import KeptRanges
from delta_ops.storage.ranges import validate_parts, validate_ranges

_SMALL_BYTES = 1 << 16
_DISK = LocalFileSystem()


class LocalStorage:
    """A `Storage` over a directory of this machine, which need not exist yet.

    Args:
        root: The directory.
        lock: The user's lock, for file systems without hard links.
    """

    __slots__ = ("_lock", "_root")

    def __init__(self, root: str | os.PathLike[str], lock: Lock | None = None) -> None:
        self._root = os.path.abspath(root)
        self._lock = lock

    def __repr__(self) -> str:
        return f"LocalStorage({self._root!r})"

    @property
    def uri(self) -> str:
        """The absolute path of the root; links in it are kept."""
        return self._root

    @property
    def client_options(self) -> Mapping[str, Any]:
        """An empty mapping: a disk has no options."""
        return {}

    @property
    def endpoint(self) -> None:
        """None: a disk has no endpoint."""

    @property
    def has_native_input(self) -> bool:
        """See `Storage`."""
        return True

    def kept_ranges(self, file: FileInfo) -> KeptRanges | None:  # noqa: ARG002
        """None: a cache on another disk would not be faster."""
        return None

    def locate(self, path: str) -> str:
        """The absolute path; "" is the root."""
        return os.path.join(self._root, *validate(path).split("/")) if path else self._root

    def list_from(self, directory: str, start: str) -> Iterator[FileInfo]:
        """See `Storage`."""
        place = self.locate(directory)
        prefix = f"{directory}/" if directory else ""
        translate = failure_of(place, "listed")
        with contextlib.ExitStack() as stack:
            try:
                opened_directory = stack.enter_context(open_place(place))
                # In a long log most names come before `start`; this skips them fastest.
                names = sorted([name for name in opened_directory.names() if name >= start])
            except (FileNotFoundError, NotADirectoryError):
                return
            except OSError as error:
                raise translate(error) from error
            status_of, info_of = opened_directory.status_of_names(), FileInfo._make
            for name in names:
                path = prefix + name
                if not is_valid(path):
                    continue
                try:
                    status = status_of(name)
                except FileNotFoundError:  # deleted after its name was read
                    continue
                except OSError as error:
                    raise translate(error) from error
                if stat.S_ISREG(status.st_mode):
                    # Like `_info_of`, inlined because of the number of files.
                    yield info_of((path, status.st_size, status.st_mtime_ns // 1_000_000, None))

    def list_tree(
        self, directory: str, wanted: Wanted | None = None, on_link: OnLink | None = None
    ) -> Iterator[FileInfo]:
        """See `Storage`."""
        return list_tree(self._root, directory, wanted, on_link)

    def find(self, paths: Iterable[str]) -> Iterator[FileInfo]:
        """See `Storage`."""
        return find(self._root, paths)

    def list_directories(self, directory: str) -> list[str]:
        """See `Storage`."""
        place = self.locate(directory)
        prefix = f"{directory}/" if directory else ""
        found: list[str] = []
        with (
            translating(failure_of(place, "listed")),
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            os.scandir(place) as entries,
        ):
            # Most systems report the type together with the name, so files cost nothing.
            found = [prefix + each.name for each in entries if each.is_dir(follow_symlinks=False)]
        return sorted(found)

    def is_directory(self, path: str) -> bool:
        """See `Storage`."""
        place = self.locate(validate(path))
        with (
            translating(failure_of(place, "read")),
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
        ):
            return stat.S_ISDIR(os.lstat(place).st_mode)
        return False

    def stat(self, path: str) -> FileInfo:
        """See `Storage`."""
        place = self.locate(validate(path))
        with _reading(place):
            status = os.stat(place)
        if not stat.S_ISREG(status.st_mode):
            raise _not_found_error(place)
        return _info_of(path, status)

    def read(self, path: str) -> bytes:
        """See `Storage`."""
        place = os.path.join(self._root, validate(path))
        try:  # for many small files, a context manager would take as long as the read itself
            return _content(place)
        except FileNotFoundError:
            raise
        except (IsADirectoryError, NotADirectoryError) as error:
            raise _not_found_error(place) from error
        except OSError as error:
            raise StorageError(place, "read", reason_of(error)) from error

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """See `Storage`."""
        place = self.locate(validate(path))
        validate_ranges(ranges)
        parts = []
        with _reading(place), open(place, "rb") as file:
            for start, end in ranges:
                file.seek(start)
                parts.append(file.read(end - start))
        return validate_parts(place, ranges, parts)

    def open_input(self, path: str) -> pa.NativeFile:
        """See `Storage`."""
        place = os.path.join(self._root, validate(path))
        try:
            return _DISK.open_input_file(place)
        except OSError:
            pass
        with _reading(place):
            try:
                return pa.OSFile(place)  # slower, but its errors have the reason
            except OSError as error:
                if os.path.isdir(place):  # Arrow's error for directories has no number
                    raise _not_found_error(place) from error
                raise

    @contextlib.contextmanager
    def holding_lock(self, path: str) -> Iterator[LocalStorage]:
        """See `Storage`."""
        with hold_for_caller(self._lock, self.locate(validate(path)), self._root) as lock:
            yield LocalStorage(self._root, lock)

    def create(self, path: str, data: bytes, *, is_durable: bool = True) -> None:
        """See `Storage`."""
        self._create(path, _writer_of(data), is_durable=is_durable)

    def create_from_stream(
        self, path: str, write: Callable[[IO[bytes]], None], *, is_durable: bool = True
    ) -> FileInfo:
        """See `Storage`; without hard links, raises `UnsupportedStorageError` as well."""
        if is_durable:
            return self._create(path, write, is_durable=True)
        return self._create_in_place(path, write)

    def _create(
        self, path: str, write: Callable[[IO[bytes]], None], *, is_durable: bool
    ) -> FileInfo:
        root = self._real_root()
        target = real_place(self._root, root, path)
        directory = os.path.dirname(target)
        translate = failure_of(target, "created")
        if os.path.lexists(target):  # checked first: the loser must not delete the checksum
            raise file_exists_error(target)
        with translating(translate):
            make_directories(root)  # `persist` does not sync directories above the root
            make_directories(directory, is_durable=is_durable)
        with staged_file(directory, write, translate, is_durable=is_durable) as (staged, status):
            with translating(translate):
                clear_checksum_of(target)
            with translating(translate, FileExistsError):
                name_staged_file(staged, target, self._lock)
            if is_durable:
                with translating(translate):
                    sync_upward(directory, root)
                if _was_replaced(target, status):
                    raise file_exists_error(target)
        return _info_of(path, status)

    def _create_in_place(self, path: str, write: Callable[[IO[bytes]], None]) -> FileInfo:
        """Create one of very many files, in as few steps as possible."""
        directory, _, name = validate(path).rpartition("/")
        place, is_new = self._directory_to_fill(directory)
        target = join(place, name)
        translate = failure_of(target, "created")
        if not is_new:  # a new directory is empty
            if os.path.lexists(target):
                raise file_exists_error(target)
            with translating(translate):
                clear_checksum_of(target)
        return _info_of(path, write_new_file(target, write, translate))

    def _directory_to_fill(self, directory: str) -> tuple[str, bool]:
        """Make a directory if missing; returns its real path and whether this call made it."""
        parent = directory.rpartition("/")[0]
        place = join(self._root, directory) if directory else self._root
        if directory and (not parent or is_plain(self._root, parent)):
            try:
                os.mkdir(place)
            except FileExistsError:
                if _is_directory(place):
                    return place, False
            except OSError:  # the parent is missing, or another error
                pass
            else:
                return place, True
        root = self._real_root()
        with translating(failure_of(place, "created")):
            make_directories(root)  # `persist` does not sync directories above the root
            real = real_directory(self._root, root, directory)
            make_directories(real, is_durable=False)
        return real, False

    def replace(self, path: str, data: bytes) -> None:
        """See `Storage`."""
        root = self._real_root()
        target = real_place(self._root, root, path)
        directory = os.path.dirname(target)
        translate = failure_of(target, "replaced")
        with translating(translate):
            make_directories(directory)
        with (
            staged_file(directory, _writer_of(data), translate) as (staged, _),
            translating(translate),
        ):
            clear_checksum_of(target)
            os.replace(staged, target)
            sync_upward(directory, root)

    def persist(self, paths: Iterable[str]) -> None:
        """See `Storage`."""
        root = self._real_root()
        real_directories: dict[str, str] = {}
        targets: list[str] = []
        for path in paths:
            directory, _, name = validate(path).rpartition("/")
            real = real_directories.get(directory)
            if real is None:
                real = real_directories[directory] = real_directory(self._root, root, directory)
            targets.append(join(real, name))
        if not targets:
            return
        directories: set[str] = set()
        for each in real_directories.values():
            for above in directories_upward(each, root):
                if above in directories:
                    break
                directories.add(above)
        with translating(failure_of(self._root, "made durable")):
            sync_all(targets, sorted(directories))
            # The program that wrote the files may also have made the root.
            with contextlib.suppress(PermissionError):
                sync_directory(os.path.dirname(root))

    def delete(self, path: str) -> None:
        """See `Storage`; empty directories stay."""
        delete_file(real_place(self._root, self._real_root(), path))

    def delete_many(self, paths: Iterable[str]) -> list[str]:
        """See `Storage`; logs why a file could not be deleted."""
        return delete_files(self._root, paths)

    def delete_empty(self, directories: Iterable[str], before_ms: int) -> list[str]:
        """See `Storage`."""
        return delete_empty(self._root, directories, before_ms)

    def _real_root(self) -> str:
        return os.path.realpath(self._root)


def _is_directory(place: str) -> bool:
    """Whether this is a directory, and not a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(place).st_mode)
    except FileNotFoundError:  # deleted meanwhile
        return False


def _writer_of(data: bytes) -> Callable[[IO[bytes]], None]:
    def write(stream: IO[bytes]) -> None:
        stream.write(data)

    return write


def _content(place: str) -> bytes:
    """Read a file; a small file is read without looking up its size."""
    descriptor = os.open(place, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        content = os.read(descriptor, _SMALL_BYTES)
        if not content or (len(content) < _SMALL_BYTES and not os.read(descriptor, 1)):
            return content
    finally:
        os.close(descriptor)
    with open(place, "rb", buffering=0) as file:
        return file.readall()


def _info_of(path: str, status: os.stat_result) -> FileInfo:
    return FileInfo(path, status.st_size, status.st_mtime_ns // 1_000_000)


def _was_replaced(target: str, ours: os.stat_result) -> bool:
    """Whether another file has the name, from a writer that checked first and then renamed."""
    try:
        found = os.lstat(target)
    except OSError:  # deleted later, which does not mean that it was replaced
        return False
    # Some file systems give each name of a file its own number, but one size and time.
    is_alike = (found.st_size, found.st_mtime_ns) == (ours.st_size, ours.st_mtime_ns)
    return not is_alike and not os.path.samestat(found, ours)


def _not_found_error(place: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), place)


@contextlib.contextmanager
def _reading(place: str) -> Iterator[None]:
    with translating(failure_of(place, "read"), FileNotFoundError):
        try:
            yield
        except (IsADirectoryError, NotADirectoryError) as error:
            raise _not_found_error(place) from error

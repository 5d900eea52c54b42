"""Durability: writes local files that survive a power cut, and gives them their names.

A file is durable if its bytes are durable and each directory of its path durably holds the next
entry. fsync does both; syncing an unchanged directory costs almost nothing.
A finished file gets its name by a hard link, which either creates the name or fails. So exactly one
of any number of writers succeeds.
Functions raise `OSError` untranslated, unless they say otherwise.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

from delta_ops.errors import StorageError, UnsupportedStorageError
from delta_ops.storage.exclusive_create import file_exists_error
from delta_ops.storage.failures import reason_of
from delta_ops.storage.locks import Lock, hold, lock_cure
from delta_ops.storage.paths import staged_name

Translate = Callable[[OSError], StorageError]

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | getattr(os, "O_BINARY", 0)
_SYNC_FLAGS = (os.O_RDWR if os.name == "nt" else os.O_RDONLY) | _NO_FOLLOW
_NO_LINKS = frozenset(
    {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
)
_BUFFER_BYTES = 1 << 20
_SYNC_THREADS = 32  # concurrent syncs share one commit of the file system's journal
_SYNCED_AT_ONCE = 32  # small, so that an interrupt or an error need not wait long


@contextlib.contextmanager
def staged_file(
    directory: str,
    write: Callable[[IO[bytes]], None],
    translate: Translate,
    *,
    is_durable: bool = True,
) -> Iterator[tuple[str, os.stat_result]]:
    """Context with a new staged file in `directory`, which is deleted at the end.

    Args:
        directory: An existing directory.
        write: Writes the content. Its errors are not translated, so that they are not mistaken for
            errors of this file.
        translate: Converts an error of this file to the error to raise.
    """
    staged = os.path.join(directory, staged_name())
    with translating(translate):
        descriptor = os.open(staged, _CREATE_FLAGS, 0o666)
    try:
        try:
            _write_through(descriptor, write, translate)
            with translating(translate):
                if is_durable:
                    os.fsync(descriptor)
                status = os.fstat(descriptor)
        finally:
            with contextlib.suppress(OSError):  # fsync has already reported lost bytes
                os.close(descriptor)
        yield staged, status
    finally:
        with contextlib.suppress(OSError):  # the file is hidden, and clean-up deletes it later
            os.unlink(staged)


def name_staged_file(staged: str, target: str, lock: Lock | None = None) -> None:
    """Give the finished file `staged` the name `target` if that name is free.

    Args:
        staged: In the directory of `target`.
        target: The new name.
        lock: The user's lock, for file systems without hard links.

    Raises:
        FileExistsError: The name is taken, even by a directory or a dangling link.
        UnsupportedStorageError: The file system has no hard links, and there is no lock.
        OSError: Any other failure.
    """
    if os.name == "nt":
        os.rename(staged, target)  # on Windows, and only there, rename rejects an existing name
        return
    with hold(lock, target) if lock else contextlib.nullcontext():
        try:
            os.link(staged, target)  # rename would replace an existing file; link fails instead
        except FileExistsError:
            # Over NFS, a link whose answer was lost is sent again and then finds its own file.
            if not _is_same_file(staged, target):
                raise
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if lock is None:
                raise _no_links_error(target, error) from error
            if os.path.lexists(target):
                raise file_exists_error(target) from error
            os.rename(staged, target)


def write_new_file(
    target: str, write: Callable[[IO[bytes]], None], translate: Translate
) -> os.stat_result:
    """Write a file under its own name, not durably; deletes it again if `write` raises.

    Args:
        target: A path in an existing directory.
        write: As for `staged_file`.
        translate: As for `staged_file`.

    Raises:
        FileExistsError: The file exists; it stays.
    """
    try:  # for very many files, a context manager would add the cost of a whole step
        descriptor = os.open(target, _CREATE_FLAGS, 0o666)
    except FileExistsError:
        raise
    except OSError as error:
        raise translate(error) from error
    try:
        write(_StagedBytes(descriptor, translate))
        try:
            status = os.fstat(descriptor)
            closing, descriptor = descriptor, -1
            os.close(closing)  # network file systems report lost bytes only here
        except OSError as error:
            raise translate(error) from error
    except BaseException:
        with contextlib.suppress(OSError):
            if descriptor >= 0:
                os.close(descriptor)
        with contextlib.suppress(OSError):  # no version names the file; vacuum deletes it
            os.unlink(target)
        raise
    return status


def make_directories(directory: str, *, is_durable: bool = True) -> None:
    """Make `directory` and its missing parents, each durable in its parent."""
    if os.path.isdir(directory):
        return
    parent = os.path.dirname(directory)
    try:
        _make_directory(directory)
    except FileNotFoundError:
        if parent == directory:
            raise
        make_directories(parent, is_durable=is_durable)
        _make_directory(directory)
    if is_durable:
        sync_directory(parent)


def _make_directory(directory: str) -> None:
    with contextlib.suppress(FileExistsError):  # made by another writer, or a file; open will fail
        os.mkdir(directory)


def sync_file(path: str) -> None:
    """Make the bytes of a file durable, also of a file written by another program."""
    descriptor = os.open(path, _SYNC_FLAGS)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_upward(directory: str, root: str) -> None:
    """Make the entries of `directory` durable, and of each parent up to `root`."""
    for each in directories_upward(directory, root):
        sync_directory(each)


def directories_upward(directory: str, root: str) -> Iterator[str]:
    """Yield `directory` and each parent up to `root`."""
    while True:
        yield directory
        parent = os.path.dirname(directory)
        if directory in (root, parent):  # only the file system's root is its own parent
            return
        directory = parent


def sync_directory(directory: str) -> None:
    """Make the entries of one directory durable."""
    if os.name == "nt":  # Windows has no such call; its journal orders entries
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems reject it for directories, whose entries are always durable.
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        os.close(descriptor)


class translating:  # noqa: N801  (used as a function; a generator takes five times as long)
    """Context that raises `translate(error)` for an `OSError`, except for the types `expected`."""

    __slots__ = ("_expected", "_translate")

    def __init__(self, translate: Translate, *expected: type[OSError]) -> None:
        self._translate, self._expected = translate, expected

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, self._expected):
            raise self._translate(error) from error


class _StagedBytes(io.FileIO):
    """Marks errors of its own file, so that they differ from other errors of `write`.

    Writes all bytes, even if the system accepts only a part: Arrow does not check.
    """

    def __init__(self, descriptor: int, translate: Translate) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self._translate = translate

    def write(self, data: Any) -> int:
        try:
            written = super().write(data)
            with memoryview(data) as view:
                while written < view.nbytes:
                    written += super().write(view.cast("B")[written:])
        except OSError as error:
            raise self._translate(error) from error
        return written


def _write_through(
    descriptor: int, write: Callable[[IO[bytes]], None], translate: Translate
) -> None:
    stream = io.BufferedWriter(_StagedBytes(descriptor, translate), _BUFFER_BYTES)
    try:
        write(stream)
        stream.close()
    finally:
        with contextlib.suppress(StorageError):  # a second close repeats the current error
            stream.close()


def sync_all(files: Sequence[str], directories: Sequence[str]) -> None:
    """Sync files, and then their directories.

    Raises:
        StorageError: A file is gone, or cannot be synced.
        OSError: A directory cannot be synced.
    """
    with ThreadPoolExecutor(_SYNC_THREADS) as pool:
        _sync_each(pool, _sync_files, files)
        _sync_each(pool, _sync_directories, directories)


def _sync_each(
    pool: ThreadPoolExecutor, sync: Callable[[Sequence[str]], None], places: Sequence[str]
) -> None:
    """Sync all paths, several per task: handing over a task takes as long as one sync."""
    size = min(_SYNCED_AT_ONCE, 1 + len(places) // _SYNC_THREADS)
    list(pool.map(sync, [places[i : i + size] for i in range(0, len(places), size)]))


def _sync_files(targets: Sequence[str]) -> None:
    for target in targets:
        try:
            sync_file(target)
        except FileNotFoundError as error:
            reason = (
                "another program deleted it after it was written; find out which, and run again"
            )
            raise StorageError(target, "made durable", reason) from error
        except OSError as error:
            raise failure_of(target, "made durable")(error) from error


def _sync_directories(directories: Sequence[str]) -> None:
    for directory in directories:
        sync_directory(directory)


def failure_of(place: str, action: str) -> Translate:
    """Return a function that converts an error to a `StorageError` for this action and place."""
    return lambda error: StorageError(place, action, reason_of(error))


def _no_links_error(target: str, error: OSError) -> UnsupportedStorageError:
    return UnsupportedStorageError(
        f"{os.path.dirname(target)} cannot be committed to: its file system has no hard links "
        f"({os.strerror(error.errno or 0)}), and without them two writers could both create the "
        f"same version. {lock_cure()}, or keep the table on a file system that has them, such as "
        "ext4, xfs, btrfs, zfs, APFS, NTFS or NFS."
    )


def _is_same_file(staged: str, target: str) -> bool:
    try:
        return os.path.samestat(os.lstat(staged), os.lstat(target))
    except OSError:
        return False

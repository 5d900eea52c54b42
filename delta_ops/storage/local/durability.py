"""Durability: local files and directories that survive a power cut.

A file is durable when its bytes are, and when each directory on the way to it durably holds the
entry of the next. fsync does either; a directory that has not changed costs next to nothing.
Raises `OSError` as it comes, unless a function says otherwise.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

from delta_ops.errors import StorageError
from delta_ops.storage.failures import reason_of
from delta_ops.storage.paths import staged_name

Translate = Callable[[OSError], StorageError]

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | getattr(os, "O_BINARY", 0)
_SYNC_FLAGS = (os.O_RDWR if os.name == "nt" else os.O_RDONLY) | _NO_FOLLOW
_BUFFER_BYTES = 1 << 20
_SYNC_THREADS = 32  # those under way at once share one commit of the file system's journal
_SYNCED_AT_ONCE = 32  # few, so that an interrupt or an error need not wait for many


@contextlib.contextmanager
def staged_file(
    directory: str,
    write: Callable[[IO[bytes]], None],
    translate: Translate,
    *,
    is_durable: bool = True,
) -> Iterator[tuple[str, os.stat_result]]:
    """A file with a staged name in `directory`, which is gone afterwards.

    Args:
        directory: Exists.
        write: Writes the content. What it raises passes unchanged, so that an error of its own is
            not taken for one of this file.
        translate: Turns an error of this file into the one to raise.
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
            with contextlib.suppress(OSError):  # fsync has already told of lost bytes
                os.close(descriptor)
        yield staged, status
    finally:
        with contextlib.suppress(OSError):  # hidden, and swept by clean-up
            os.unlink(staged)


def write_new_file(
    target: str, write: Callable[[IO[bytes]], None], translate: Translate
) -> os.stat_result:
    """Write a file under its own name, not durably; if `write` raises, it is gone again.

    Args:
        target: Its directory exists.
        write: As for `staged_file`.
        translate: As for `staged_file`.

    Raises:
        FileExistsError: There is a file, which stays.
    """
    try:  # very many files are written so; a context manager would take as long as a step
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
            os.close(closing)  # network file systems tell only here of lost bytes
        except OSError as error:
            raise translate(error) from error
    except BaseException:
        with contextlib.suppress(OSError):
            if descriptor >= 0:
                os.close(descriptor)
        with contextlib.suppress(OSError):  # no version names it: vacuum's
            os.unlink(target)
        raise
    return status


def make_directories(directory: str, *, is_durable: bool = True) -> None:
    """Make `directory` and what is missing above it, each durable in its parent."""
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
    with contextlib.suppress(FileExistsError):  # another writer's, or a file that open will meet
        os.mkdir(directory)


def sync_file(path: str) -> None:
    """Make the bytes of a file durable that another program wrote."""
    descriptor = os.open(path, _SYNC_FLAGS)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_upward(directory: str, root: str) -> None:
    """Make the entries of `directory` durable, and of each directory above it up to `root`."""
    for each in directories_upward(directory, root):
        sync_directory(each)


def directories_upward(directory: str, root: str) -> Iterator[str]:
    """`directory` and each above it up to `root`."""
    while True:
        yield directory
        parent = os.path.dirname(directory)
        if directory in (root, parent):  # its own parent only at the top of the file system
            return
        directory = parent


def sync_directory(directory: str) -> None:
    """Make the entries of one directory durable."""
    if os.name == "nt":  # has no such call; its journal orders entries
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems refuse it for directories, whose entries they never hold back.
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        os.close(descriptor)


class translating:  # noqa: N801  (used as a function; a generator takes five times as long)
    """Raise what `translate` makes of an `OSError`; those `expected` pass as they are."""

    __slots__ = ("_expected", "_translate")

    def __init__(self, translate: Translate, *expected: type[OSError]) -> None:
        self._translate, self._expected = translate, expected

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, self._expected):
            raise self._translate(error) from error


class _StagedBytes(io.FileIO):
    """Tells an error of its own file from any other that `write` runs into.

    It takes all that it is given, where the system may take a part: Arrow does not look.
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
        with contextlib.suppress(StorageError):  # closing again repeats the error under way
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
    """Sync all, several in one task: a task takes as long to hand over as one file to sync."""
    size = min(_SYNCED_AT_ONCE, 1 + len(places) // _SYNC_THREADS)
    list(pool.map(sync, [places[i : i + size] for i in range(0, len(places), size)]))


def _sync_files(targets: Sequence[str]) -> None:
    for target in targets:
        try:
            sync_file(target)
        except FileNotFoundError as error:
            reason = "it was deleted after it had been written; see who did that, and run again"
            raise StorageError(target, "made durable", reason) from error
        except OSError as error:
            raise failure_of(target, "made durable")(error) from error


def _sync_directories(directories: Sequence[str]) -> None:
    for directory in directories:
        sync_directory(directory)


def failure_of(place: str, action: str) -> Translate:
    """Translates an error to the failure of this action at this place."""
    return lambda error: StorageError(place, action, reason_of(error))

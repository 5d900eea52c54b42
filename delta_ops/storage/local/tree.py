"""Local trees: the files below a directory of this machine, and which of some files are there.

Several directories are listed at a time where a file system answers slowly, as those do that are
reached by a network. Where it answers at once, threads would only hand Python's lock to each other
at every file, and take longer than one. So one begins, and looks at what it waits for.
Of a file that is not wanted only the name is read: to ask for its size and time is the greater part
of the work. Links are neither shown nor entered nor looked through; of those within the tree it can
be asked where they lead to.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from time import perf_counter, thread_time
from typing import NamedTuple, TypeVar

from delta_ops.errors import StorageError
from delta_ops.storage.concurrency import run_ahead
from delta_ops.storage.contract import FileInfo, OnLink, Wanted
from delta_ops.storage.failures import reason_of
from delta_ops.storage.local.directories import LocalDirectory, open_place
from delta_ops.storage.paths import is_valid, validate

if sys.platform == "linux":
    import resource

R = TypeVar("R")

_THREADS = 8
_AHEAD = 64
"""Directories that are listed and not taken yet."""
_NOTICED_S = 0.05
"""Waiting that is noticed: what is over before needs no threads."""
_TIMED_TOGETHER = 16
_FOUND_TOGETHER = 1000
_FEW = 4
"""Files of which to ask the status takes less time than to open their directory."""


class _Listed(NamedTuple):
    files: list[FileInfo]
    directories: list[str]
    links: list[str]


def list_tree(
    root: str, directory: str, wanted: Wanted | None, on_link: OnLink | None = None
) -> Iterator[FileInfo]:
    """See `Storage.list_tree`.

    Args:
        root: An absolute path.
        directory: Relative to the root.
    """
    if directory:
        validate(directory)
    one_by_one = threading.Lock()
    pace = _Pace()
    pending = [directory]
    while pending:
        calls = [partial(_list, root, each, wanted, one_by_one) for each in pending]
        pending = []
        for files, directories, links in pace.results(calls):
            pending += directories
            if on_link is not None:
                for link in links:
                    _tell(root, link, on_link)
            yield from files


def _tell(root: str, link: str, on_link: OnLink) -> None:
    real_root = os.path.realpath(root)
    real = os.path.realpath(os.path.join(root, *link.split("/")))
    if real == real_root:
        on_link(link, "")
    elif real.startswith(os.path.join(real_root, "")):
        # One that leads nowhere, or to itself, is no name of anything.
        on_link(link, os.path.relpath(real, real_root).replace(os.sep, "/"))
    else:
        on_link(link, None)


def find(root: str, paths: Iterable[str]) -> Iterator[FileInfo]:
    """See `Storage.find`.

    Args:
        root: An absolute path.
        paths: Relative to the root.
    """
    remaining = map(validate, paths)
    groups = iter(lambda: list(islice(remaining, _FOUND_TOGETHER)), [])
    real_root = os.path.realpath(root)
    calls = (partial(_find, real_root, group) for group in groups)
    for found in _Pace().results(calls):
        yield from found


class _Pace:
    """How long calls have waited for the file system, and how long they have worked."""

    def __init__(self) -> None:
        self._waited_s = self._worked_s = 0.0

    def results(self, calls: Iterable[Callable[[], R]]) -> Iterator[R]:
        """What the calls return, in their order."""
        remaining = iter(calls)
        together = 1  # and more later: to look at the clock takes a tenth of a short call
        while self._waited_s <= self._worked_s + _NOTICED_S:
            group = list(islice(remaining, together))
            if not group:
                return
            began_s, began_work_s, began_waits = perf_counter(), thread_time(), _num_waits()
            results = [call() for call in group]
            worked_s = thread_time() - began_work_s
            self._worked_s += worked_s
            # Whoever never gave up its core had to share it: more threads would not help.
            if began_waits is None or _num_waits() != began_waits:
                self._waited_s += perf_counter() - began_s - worked_s
            yield from results
            together = min(2 * together, _TIMED_TOGETHER)
        yield from run_ahead(((1, call) for call in remaining), _AHEAD, _THREADS)


def _num_waits() -> int | None:
    """How often this thread has waited for anything but a core; None where that is not known."""
    if sys.platform != "linux":
        return None
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def _find(real_root: str, paths: list[str]) -> list[FileInfo]:
    found = []
    is_real: dict[str, bool] = {}  # by directory: whether no link leads to it
    for path in paths:
        place = os.path.join(real_root, *path.split("/"))
        directory = os.path.dirname(place)
        try:
            if directory not in is_real:
                is_real[directory] = os.path.realpath(directory) == directory
            status = os.lstat(place)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise StorageError(place, "looked up", reason_of(error)) from error
        if is_real[directory] and stat.S_ISREG(status.st_mode):
            found.append(_info_of(path, status))
    return found


def _list(root: str, directory: str, wanted: Wanted | None, one_by_one: threading.Lock) -> _Listed:
    prefix = f"{directory}/" if directory else ""
    place = f"{root}{os.sep}{prefix}"
    try:
        paths, directories, links = _paths(place, prefix)
        if wanted is not None:
            if paths:
                with one_by_one:
                    paths = list(wanted(paths))
            elif prefix and not (directories or links):
                return _Listed(_empty_directory(place, prefix, wanted, one_by_one), [], [])
        if not paths:
            return _Listed([], directories, links)
        if len(paths) <= _FEW:
            return _Listed(_infos(LocalDirectory(place, None), prefix, paths), directories, links)
        with open_place(place) as open_directory:
            return _Listed(_infos(open_directory, prefix, paths), directories, links)
    except (FileNotFoundError, NotADirectoryError):
        return _Listed([], [], [])
    except OSError as error:
        raise StorageError(place.rstrip("/"), "listed", reason_of(error)) from error


def _empty_directory(
    place: str, prefix: str, wanted: Wanted, one_by_one: threading.Lock
) -> list[FileInfo]:
    """The directory itself if there is nothing in it, not even what listings leave out."""
    with open_place(place) as directory:
        if directory.names():
            return []
        with one_by_one:
            is_wanted = bool(wanted([prefix]))
        return [_info_of(prefix, directory.status())] if is_wanted else []


def _paths(place: str, prefix: str) -> tuple[list[str], list[str], list[str]]:
    """Paths of the files, of the directories, and of the links."""
    files: list[str] = []
    directories: list[str] = []
    links: list[str] = []
    with os.scandir(place) as entries:
        for entry in entries:
            name = entry.name
            path = prefix + name
            # Of most names it is seen at once; what is before them has been looked at.
            if not (prefix and name.isascii() and "\\" not in name) and not is_valid(path):
                continue
            if entry.is_file(follow_symlinks=False):
                files.append(path)
            elif entry.is_dir(follow_symlinks=False):
                directories.append(path)
            elif entry.is_symlink():
                links.append(path)
    return files, directories, links


def _infos(directory: LocalDirectory, prefix: str, paths: list[str]) -> list[FileInfo]:
    found = []
    start = len(prefix)
    status_of = directory.status_of_names()
    for path in paths:
        try:
            status = status_of(path[start:])
        except FileNotFoundError:  # deleted since its name was read
            continue
        if stat.S_ISREG(status.st_mode):
            # As `_info_of`; a call more would be felt, of so many files.
            found.append(FileInfo(path, status.st_size, status.st_mtime_ns // 1_000_000))
    return found


def _info_of(path: str, status: os.stat_result) -> FileInfo:
    return FileInfo(path, status.st_size, status.st_mtime_ns // 1_000_000)

"""Local trees: lists files below a directory of this machine, and looks up given files.

On a slow file system, such as a network file system, several directories are listed at a time. On a
fast file system, threads would only pass the interpreter lock back and forth and take longer. So
one thread begins and measures how long it waits.
Files that are not wanted are listed by name only, since reading size and time is most of the work.
Files and directories are listed in the order of their paths, except that the files of a directory
come before those of its subdirectories.
Links are not listed and not followed; `on_link` reports the targets of links within the tree.
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
"""Maximum number of directories that are listed ahead of the caller."""
_NOTICED_S = 0.05
"""Minimum waiting time before threads are used; shorter work needs none."""
_TIMED_TOGETHER = 16
_FOUND_TOGETHER = 1000
_FEW = 4
"""For up to this many files, reading each status is faster than opening their directory."""


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
        pending.sort(key=_sort_key)
        calls = [partial(_list, root, each, wanted, one_by_one) for each in pending]
        pending = []
        for files, directories, links in pace.results(calls):
            pending += directories
            if on_link is not None:
                for link in links:
                    _report_link(root, link, on_link)
            yield from files


def _sort_key(directory: str) -> str:
    return f"{directory}/"


def _report_link(root: str, link: str, on_link: OnLink) -> None:
    real_root = os.path.realpath(root)
    real = os.path.realpath(os.path.join(root, *link.split("/")))
    if real == real_root:
        on_link(link, "")
    elif real.startswith(os.path.join(real_root, "")):
        # A link to nothing or to itself is harmless: it gives no file a second name.
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
    """Measures how long calls wait for the file system, and how long they compute."""

    def __init__(self) -> None:
        self._waited_s = self._worked_s = 0.0

    def results(self, calls: Iterable[Callable[[], R]]) -> Iterator[R]:
        """Yield the results of the calls, in order."""
        remaining = iter(calls)
        together = 1  # grows later: reading the clock takes a tenth of a short call
        while self._waited_s <= self._worked_s + _NOTICED_S:
            group = list(islice(remaining, together))
            if not group:
                return
            began_s, began_work_s, began_waits = (
                perf_counter(),
                thread_time(),
                _num_voluntary_waits(),
            )
            results = [call() for call in group]
            worked_s = thread_time() - began_work_s
            self._worked_s += worked_s
            # Without a voluntary wait, the thread only shared its core; threads would not help.
            if began_waits is None or _num_voluntary_waits() != began_waits:
                self._waited_s += perf_counter() - began_s - worked_s
            yield from results
            together = min(2 * together, _TIMED_TOGETHER)
        yield from run_ahead(((1, call) for call in remaining), _AHEAD, _THREADS)


def _num_voluntary_waits() -> int | None:
    """How often this thread has waited for input, output or a lock; None if unknown."""
    if sys.platform != "linux":
        return None
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def _find(real_root: str, paths: list[str]) -> list[FileInfo]:
    found = []
    is_real: dict[str, bool] = {}  # by directory: whether its path has no links
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
        paths.sort()
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
    """The directory itself if it is wanted and has no entries, not even skipped entries."""
    with open_place(place) as directory:
        if directory.names():
            return []
        with one_by_one:
            is_wanted = bool(wanted([prefix]))
        return [_info_of(prefix, directory.status())] if is_wanted else []


def _paths(place: str, prefix: str) -> tuple[list[str], list[str], list[str]]:
    """Paths of the files, directories and links in a directory."""
    files: list[str] = []
    directories: list[str] = []
    links: list[str] = []
    with os.scandir(place) as entries:
        for entry in entries:
            name = entry.name
            path = prefix + name
            # Most names pass this quick check; the prefix is already known to be valid.
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
    status_of, info_of = directory.status_of_names(), FileInfo._make
    for path in paths:
        try:
            status = status_of(path[start:])
        except FileNotFoundError:  # deleted after its name was read
            continue
        if stat.S_ISREG(status.st_mode):
            # Like `_info_of`, inlined because of the number of files.
            found.append(info_of((path, status.st_size, status.st_mtime_ns // 1_000_000, None)))
    return found


def _info_of(path: str, status: os.stat_result) -> FileInfo:
    return FileInfo(path, status.st_size, status.st_mtime_ns // 1_000_000)

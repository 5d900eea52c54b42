"""Remote trees: lists the files and directories below the root of a remote storage.

Listings are never cached. A store with its own listing functions, see `Backend`, is listed by them;
any other store by fsspec's common calls. Errors of file systems are not translated.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, groupby, islice

from delta_ops.storage.backends.backend import Entry
from delta_ops.storage.concurrency import MAX_CONCURRENCY, run_ahead
from delta_ops.storage.contract import FileInfo, Wanted
from delta_ops.storage.paths import is_valid
from delta_ops.storage.remote.root import RemoteRoot

NOTHING_THERE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
"""Errors that file systems raise for a missing file or directory."""
_LEVELS = 3
"""Directory levels to list in search of enough directories to list in parallel."""
_JUDGED_TOGETHER = 1000


def list_from(root: RemoteRoot, directory: str, start: str) -> Iterator[FileInfo]:
    """See `Storage.list_from`."""
    first = f"{directory}/{start}" if directory else start
    infos = sorted(root.infos_of(_entries_of(root, directory, start), directory))
    return (info for info in infos if info.path >= first)


def list_tree(root: RemoteRoot, directory: str, wanted: Wanted | None) -> Iterator[FileInfo]:
    """See `Storage.list_tree`. Empty directories are not listed, and there are no links."""
    list_entries = _find_in_parallel if root.backend.is_atomic else _walk
    infos = root.infos_of(list_entries(root, directory), directory)
    return infos if wanted is None else _filter_wanted(infos, wanted)


def list_directories(root: RemoteRoot, directory: str) -> list[str]:
    """See `Storage.list_directories`."""
    entries: list[Entry] = []
    full = root.full_directory(directory)
    with contextlib.suppress(*NOTHING_THERE), root.backend.lock():
        root.fs.invalidate_cache()
        entries = root.fs.ls(full, detail=True)
    found = {root.relative_path(e["name"]).rstrip("/") for e in entries if _is_directory(e)}
    found.discard(directory)
    has_table = root.backend.has_table_below_no_name
    if has_table is not None and has_table(root.fs, entries, full):
        found.add(f"{directory}/")
    return sorted(found)


def _entries_of(root: RemoteRoot, directory: str, start: str = "") -> list[Entry]:
    """Entries directly in a directory; the directory itself may be an entry."""
    full = root.full_directory(directory)
    with contextlib.suppress(*NOTHING_THERE), root.backend.lock():
        if root.backend.list_from is not None:
            return list(root.backend.list_from(root.fs, full, start))
        root.fs.invalidate_cache()
        return list(root.fs.ls(full, detail=True))
    return []


def _walk(root: RemoteRoot, directory: str) -> Iterator[Entry]:
    """Yield all entries of a tree; fsspec's own walk silently skips unreadable directories."""
    pending = [directory]
    while pending:
        inner = pending.pop()
        for entry in _entries_of(root, inner):
            path = root.relative_path(entry["name"])
            if entry["type"] != "directory":
                yield entry
            elif path != inner and is_valid(path):
                pending.append(path)


def _find_in_parallel(root: RemoteRoot, directory: str) -> Iterable[Entry]:
    """List the tree by several listings in parallel, one per directory.

    The pages of a listing follow one another, so a single listing of the whole tree would take as
    long as all of these together.
    """
    if root.backend.list_tree is not None:
        with root.backend.lock():
            tree = root.backend.list_tree(root.fs, root.full_directory(directory))
        if tree is not None:
            return tree
    files: list[Entry] = []
    branches = [directory]
    for _ in range(_LEVELS):
        levels = ((1, partial(_level, root, each)) for each in branches)
        found = list(run_ahead(levels, 2 * MAX_CONCURRENCY))
        files += chain.from_iterable(entries for entries, _ in found)
        branches = [each for _, directories in found for each in directories]
        if not branches or len(branches) >= MAX_CONCURRENCY:
            break
    below = ((1, partial(_find, root, each)) for each in branches)
    return chain(files, chain.from_iterable(run_ahead(below, 2 * MAX_CONCURRENCY)))


def _find(root: RemoteRoot, directory: str) -> list[Entry]:
    """All entries of a tree, from a single listing."""
    with contextlib.suppress(*NOTHING_THERE):
        root.fs.invalidate_cache()
        found = root.fs.find(root.full_directory(directory), detail=True)
        return list(found.values()) if isinstance(found, dict) else []
    return []


def _level(root: RemoteRoot, directory: str) -> tuple[list[Entry], list[str]]:
    """The files directly in a directory, and the paths of its directories."""
    with contextlib.suppress(*NOTHING_THERE):
        root.fs.invalidate_cache()
        entries = root.fs.ls(root.full_directory(directory), detail=True)
        files = [entry for entry in entries if entry["type"] == "file"]
        paths = [root.relative_path(e["name"]) for e in entries if e["type"] == "directory"]
        # A directory listed in itself is a marker object. On Azure, a marker object beside files
        # below it makes the directory appear twice.
        below = dict.fromkeys(path.rstrip("/") for path in paths)
        return files, [path for path in below if path != directory and is_valid(path)]
    return [], []


def _filter_wanted(infos: Iterator[FileInfo], wanted: Wanted) -> Iterator[FileInfo]:
    while together := list(islice(infos, _JUDGED_TOGETHER)):
        for _, group in groupby(together, lambda info: info.path.rpartition("/")[0]):
            of_directory = list(group)
            chosen = frozenset(wanted([info.path for info in of_directory]))
            yield from (info for info in of_directory if info.path in chosen)


def _is_directory(entry: Entry) -> bool:
    return bool(entry["type"] == "directory" and not entry.get("islink"))

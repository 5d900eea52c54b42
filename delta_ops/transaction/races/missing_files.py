"""Missing files: live files that no longer exist in the store.

A few files are looked up one by one. For many files the table is listed first. A listing skips
links and hidden names, so each file that it does not show is looked up too: a file is missing only
if the store reports that the file itself does not exist. A file outside the table is looked up in
its own store.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial

from delta_ops.errors import DataFileError, InvalidRequestError, LogPathError
from delta_ops.log import Snapshot
from delta_ops.log.outside_files import TableFiles
from delta_ops.protocol.actions import AddFile, FileAction
from delta_ops.protocol.deletion_vectors import MalformedVectorError, stored_path
from delta_ops.protocol.file_paths import canonical_path, is_absolute
from delta_ops.storage.concurrency import run_parallel

_MOST_SINGLE_CHECKS = 1000
"""Above this number a listing is cheaper; one listing request returns about as many names."""
_SHOWN = 5


def missing_paths(files: TableFiles, paths: Collection[str]) -> set[str]:
    """The paths that do not exist in the store.

    Args:
        paths: Canonical paths.

    Raises:
        OutsideFileError: A file lies outside the table, and reading there is not allowed.
        StorageError: The store failed.
    """
    wanted = set(paths)
    if sum(not is_absolute(path) for path in wanted) > _MOST_SINGLE_CHECKS:
        wanted -= {info.path for info in files.storage.list_tree("")}
    return confirm_missing(files, wanted)


def confirm_missing(files: TableFiles, paths: Iterable[str]) -> set[str]:
    """Look up each path; returns the paths that do not exist."""
    ordered = sorted(paths)
    is_there = run_parallel(partial(_is_there, files), ordered)
    return {path for path, there in zip(ordered, is_there, strict=True) if not there}


def vector_path(file: FileAction, snapshot: Snapshot) -> str | None:
    """The canonical path of a deletion vector's file; None without such a file.

    Raises:
        InvalidRequestError: The descriptor's path is malformed.
    """
    if file.deletion_vector is None:
        return None
    try:
        return stored_path(file.deletion_vector, snapshot.uri)
    except (MalformedVectorError, LogPathError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InvalidRequestError(
            f"{snapshot.uri}: the deletion vector of file {file.path} cannot be found ({reason}); "
            "repair the log from a backup"
        ) from error


def find_missing(adds: Sequence[AddFile], version: Snapshot) -> list[AddFile]:
    """Find the files that are missing or whose deletion vector is missing.

    Raises:
        InvalidRequestError: The path of a deletion vector is malformed.
        OutsideFileError: A file lies outside the table, and reading there is not allowed.
        StorageError: The store failed.
    """
    needed = {canonical_path(add.path, version.uri): [add] for add in adds}
    for add in adds:
        if (path := vector_path(add, version)) is not None:
            needed.setdefault(path, []).append(add)
    gone = missing_paths(version.table_files, needed)
    return list({add.path: add for path in sorted(gone) for add in needed[path]}.values())


def missing_error(
    version: Snapshot, missing: Sequence[AddFile], what: str, or_else: str = ""
) -> DataFileError:
    """The error for missing files of a version.

    Args:
        what: The consequence, to follow "so that".
        or_else: An alternative to bringing the files back.
    """
    paths = [canonical_path(add.path, version.uri) for add in missing]
    others = f" ({len(paths)} are, {', '.join(paths[1:_SHOWN])} too)" if len(paths) > 1 else ""
    return DataFileError(
        version.uri,
        version.version,
        paths[0],
        f"is gone, or its deletion vector is{others}, so that {what}; nothing was committed. Bring "
        f"them back from a backup{', ' if or_else else ''}{or_else}",
    )


def _is_there(files: TableFiles, path: str) -> bool:
    try:
        storage, place = files.find(path)
        storage.stat(place)
    except FileNotFoundError:
        return False
    return True

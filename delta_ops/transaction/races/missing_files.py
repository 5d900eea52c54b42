"""Missing files: which files that the log names are gone from the store.

A few are asked for one by one; of many, a listing of the table tells which are there. A listing
passes over links and names that it takes for hidden, so what it does not show is asked for too:
a file is missing only if the store says of it that it does not exist. A file outside of the table
is asked for in its own store.
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

_ASKED_ONE_BY_ONE = 1000
"""Listings answer for about so many at once."""
_SHOWN = 5


def missing_paths(files: TableFiles, paths: Collection[str]) -> set[str]:
    """The paths that are not in the store.

    Args:
        paths: Canonical.

    Raises:
        OutsideFileError: One lies outside of the table and may not be looked for there.
        StorageError: The store failed, so that it is not known.
    """
    wanted = set(paths)
    if sum(not is_absolute(path) for path in wanted) > _ASKED_ONE_BY_ONE:
        wanted -= {info.path for info in files.storage.list_tree("")}
    return confirm_missing(files, wanted)


def confirm_missing(files: TableFiles, paths: Iterable[str]) -> set[str]:
    """The paths of which the store says that they do not exist."""
    asked = sorted(paths)
    is_there = run_parallel(partial(_is_there, files), asked)
    return {path for path, there in zip(asked, is_there, strict=True) if not there}


def vector_path(file: FileAction, snapshot: Snapshot) -> str | None:
    """The canonical path of the file that holds the deletion vector; None if there is none.

    Raises:
        InvalidRequestError: It cannot be understood, so that nobody can say whether it is there.
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
    """The files that are gone, or whose deletion vector is: their rows cannot be told any more.

    Raises:
        InvalidRequestError: Where a deletion vector is kept cannot be understood.
        OutsideFileError: One lies outside of the table and may not be looked for there.
        StorageError: The store failed, so that it is not known.
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
    """The error that files of a version are gone.

    Args:
        what: What cannot be done without them.
        or_else: Another cure than to bring them back.
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

"""Missing files: files of a version or a commit that no longer exist in the store.

A vacuum may take the files of a commit for orphans, shortly before or after the commit. Or somebody
deletes a table's directory while another writer creates a new table in it.

A few files are looked up one by one. For many files the table is listed first. A listing skips
links and hidden names, so each file that it does not show is looked up too: a file is missing only
if the store reports that the file itself does not exist. A file outside the table is looked up in
its own store.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial

from delta_ops.errors import (
    CommitConflictError,
    DataFileError,
    DeletedMeanwhileError,
    InvalidRequestError,
    LogPathError,
)
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.outside_files import TableFiles
from delta_ops.option_words import option
from delta_ops.protocol.actions import AddFile, FileAction
from delta_ops.protocol.deletion_vectors import MalformedVectorError, stored_path
from delta_ops.protocol.file_paths import canonical_path, canonical_texts, is_absolute
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
        f"or its deletion vector is missing{others}, so {what}; nothing was committed. Restore "
        f"them from a backup{', ' if or_else else ''}{or_else}",
    )


def validate_added(adds: Sequence[AddFile], snapshot: Snapshot, *, horizon_ms: int) -> None:
    """Reject new files that a vacuum has deleted as orphans because of their age.

    A new file is old if its writer is slow, or if the store's clock was set back.

    Args:
        horizon_ms: Only files older than this are looked up; milliseconds since the Unix epoch.

    Raises:
        CommitConflictError: Files are missing.
    """
    # An engine that does not know the modification time sets 0.
    old = [add for add in adds if 0 != add.modification_time < horizon_ms]
    missing = find_missing(old, snapshot) if old else []
    if missing:
        raise CommitConflictError(
            snapshot.uri,
            snapshot.version,
            f"since then a vacuum has deleted {len(missing)} of the files staged for this "
            f"operation, such as {missing[0].path}: by the store's clock they are older than "
            "delta.deletedFileRetentionDuration",
            "vacuum",
        )


def validate_put_back(adds: Sequence[AddFile], snapshot: Snapshot, version: int) -> None:
    """Report files that an unlogged vacuum deleted while a version put them back.

    Args:
        snapshot: The snapshot that the version was prepared on.
        version: The committed version.

    Raises:
        DeletedMeanwhileError: Files are missing; the error lists the cures.
    """
    missing = find_missing(adds, snapshot) if adds else []
    if missing:
        paths = canonical_texts([add.path for add in missing], snapshot.uri)
        others = f" ({len(paths) - 1} others too)" if len(paths) > 1 else ""
        raise DeletedMeanwhileError(
            snapshot.uri,
            version,
            paths[0],
            f"was deleted while this version restored it{others}, most likely by a vacuum. The "
            "version is committed: restore the file from a backup, remove it from the table "
            f"(repair with {option('remove_missing')}), or restore version {version - 1}",
        )


def validate_new_table(adds: Sequence[AddFile], log: DeltaLog, committed: int | None) -> None:
    """Report the files of a new table that were deleted together with its directory.

    Looks up only the oldest file: a deletion lists the directory first, so if it deleted any of the
    files, it deleted the oldest file too.

    Args:
        committed: The version that names the files; None before the commit.

    Raises:
        DataFileError: The file is missing; the error has the cure.
    """
    paths = canonical_texts([add.path for add in adds], log.uri)
    times = [add.modification_time for add in adds]
    # A clone also names files of its source, which lie outside its directory.
    ours = [each for each in zip(times, paths, strict=True) if not is_absolute(each[1])]
    if not ours:
        return
    _, first = min(ours)
    try:
        log.storage.stat(first)
    except FileNotFoundError:
        by_whom = (
            "was deleted after it was written, most likely by a program that deletes files in "
            "this directory"
        )
        outcome = (
            "Nothing was committed; run this again when no other program deletes files there"
            if committed is None
            else f"Version {committed} is committed and needs it; drop the table and write it again"
        )
        raise DataFileError(log.uri, committed or 0, first, f"{by_whom}. {outcome}") from None


def _is_there(files: TableFiles, path: str) -> bool:
    try:
        storage, place = files.find(path)
        storage.stat(place)
    except FileNotFoundError:
        return False
    return True

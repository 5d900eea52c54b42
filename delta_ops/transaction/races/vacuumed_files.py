"""Vacuumed files: files that disappear shortly before or after the commit that adds them.

A vacuum may take them for orphans. Or somebody deletes a table's directory while another writer
creates a new table in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from delta_ops.errors import CommitConflictError, DataFileError, DeletedMeanwhileError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.file_paths import canonical_texts, is_absolute
from delta_ops.transaction.races.missing_files import find_missing
from delta_ops.transaction.races.vacuum_runs import is_vacuum_open


def validate_no_vacuum(snapshot: Snapshot, *, now_ms: int) -> None:
    """Reject putting files back while a vacuum may be deleting them.

    Raises:
        CommitConflictError: A vacuum has begun and not ended.
    """
    if is_vacuum_open(snapshot, now_ms=now_ms):
        raise CommitConflictError(
            snapshot.uri,
            snapshot.version,
            "leaves a vacuum without its end: files that this operation brings back may be "
            "deleted at any moment. Wait until it has ended, or say that it was killed "
            "(vacuum_was_killed)",
            "vacuum",
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
            f"has been deleted while this version brought it back{others}, most likely by a "
            "vacuum. The version is committed: bring what is gone back from a backup, take it "
            f"out of the table (repair with remove_missing), or restore version {version - 1}",
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
            "has been deleted since it was written, most likely by one who deletes what is in this "
            "directory"
        )
        outcome = (
            "Nothing was committed; run this again when nobody deletes there any more"
            if committed is None
            else f"Version {committed} is committed and names it; drop the table and write it again"
        )
        raise DataFileError(log.uri, committed or 0, first, f"{by_whom}. {outcome}") from None

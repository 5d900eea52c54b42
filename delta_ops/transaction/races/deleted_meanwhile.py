"""Files deleted meanwhile: a commit is about to name them, or has just named them.

A vacuum takes them for leftovers, or whoever deletes the directory of a table while another makes
a new one there.
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
    """Refuse to bring files back while a vacuum may be deleting them.

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
    """Refuse to name new files that a vacuum took for leftovers, since it goes by their age.

    The files of a slow writer are old, and so are those that a disk dates whose clock was set back.

    Args:
        horizon_ms: Older files are looked for; milliseconds since the Unix epoch.

    Raises:
        CommitConflictError: Files are gone.
    """
    # A time of 0 is that of an engine that does not know it.
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
    """Report files that a vacuum deleted, without a sign, while a version brought them back.

    Args:
        snapshot: What the version was prepared on.
        version: The one that was committed.

    Raises:
        DeletedMeanwhileError: With the cures.
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
    """Tell of files that were deleted with the directory in which they were to make a table.

    The file that was written first is asked for alone: whoever deletes a directory lists it, and
    deletes what is there by then.

    Args:
        committed: The version that names the files; None before the commit.

    Raises:
        DataFileError: With the cure.
    """
    paths = canonical_texts([add.path for add in adds], log.uri)
    times = [add.modification_time for add in adds]
    # Files of another table, which a clone names, are not in its directory.
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

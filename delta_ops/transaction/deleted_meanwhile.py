"""Files deleted meanwhile: a vacuum may take what a commit is about to name, or has just named."""

from __future__ import annotations

from collections.abc import Sequence

from delta_ops.errors import CommitConflictError, DataFileError
from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.file_paths import canonical_texts
from delta_ops.transaction.missing_files import find_missing
from delta_ops.transaction.vacuum_runs import is_vacuum_open


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
    """Tell of files that a vacuum deleted, without a sign, while a version brought them back.

    Args:
        snapshot: What the version was prepared on.
        version: The one that was committed.

    Raises:
        DataFileError: With the cures.
    """
    missing = find_missing(adds, snapshot) if adds else []
    if missing:
        paths = canonical_texts([add.path for add in missing], snapshot.uri)
        others = f" ({len(paths) - 1} others too)" if len(paths) > 1 else ""
        raise DataFileError(
            snapshot.uri,
            version,
            paths[0],
            f"has been deleted while this version brought it back{others}, most likely by a "
            "vacuum. The version is committed: bring what is gone back from a backup, take it "
            f"out of the table (repair with remove_missing), or restore version {version - 1}",
        )

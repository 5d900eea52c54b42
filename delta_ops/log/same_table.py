"""Same table: checks that the table at a path is still the table that was read.

While a handle is open, its table can be deleted and another table created at the same path. The new
table counts versions from 0. A commit that follows version 3 of the old table would become version
4 of the new table, or leave a gap before it. `metaData.id` distinguishes the two tables. The commit
that was read reveals a table that was restored to an older state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from delta_ops.errors import StorageError, TableReplacedError, VersionNotFoundError
from delta_ops.log.commit_file import read_commit_if_there, read_txn_id
from delta_ops.log.replaced_table import is_same_file
from delta_ops.log.snapshot import Snapshot
from delta_ops.protocol.file_names import commit_name


def validate_same_table(snapshot: Snapshot) -> None:
    """Reject a snapshot whose version is gone or has another commit.

    Sends one request to the store, or more if the version's commit or checkpoint file has changed.

    Raises:
        TableReplacedError: The table was deleted or replaced by another table, or its version now
            has another commit.
    """
    if snapshot.newest is None or _is_untouched(snapshot):
        return
    snapshot.reopen()
    commit = read_commit_if_there(snapshot.storage, snapshot.log_directory, snapshot.version)
    if commit is not None and snapshot.txn_id not in (None, commit.txn_id):
        raise TableReplacedError(
            snapshot.uri,
            f"has a different commit as version {snapshot.version}, not the commit that was read",
        )


def validate_version_of_ref(
    snapshot: Snapshot, *, table_id: str, txn_id: str | None, ref: str, kind: str
) -> None:
    """Reject a version that is not the version that a ref was made from.

    Args:
        snapshot: The version that the log has.
        table_id: `metaData.id` when the ref was made.
        txn_id: `commitInfo.txnId` of the version's commit at that time; None if unknown.
        ref: For messages, such as `tag 2026-11`.
        kind: For messages, such as `tag`.

    Raises:
        VersionNotFoundError: Another table is in this place, or the version has another commit.
    """
    if snapshot.metadata.id != table_id:
        reason = f"another table was created here after the {kind}"
    elif txn_id is not None and _txn_id(snapshot) not in (None, txn_id):
        reason = (
            f"version {snapshot.version} has another commit than when the {kind} was made, because "
            "the log was restored to an older state"
        )
    else:
        return
    raise VersionNotFoundError(snapshot.uri, ref, reason)


def _txn_id(snapshot: Snapshot) -> str | None:
    """`commitInfo.txnId` of the version's commit; None if it has none, or if the log lost it."""
    if snapshot.txn_id is not None:
        return snapshot.txn_id
    try:
        commit = snapshot.storage.stat(f"{snapshot.log_directory}/{commit_name(snapshot.version)}")
    except FileNotFoundError:
        return None
    return read_txn_id(snapshot.storage, commit)


@contextmanager
def withdrawing_if_replaced(
    snapshot: Snapshot, paths: Callable[[], Iterable[str]]
) -> Iterator[None]:
    """Context that writes log files, and deletes them if the table was replaced meanwhile.

    The check also runs after an error of the store, since the files may exist even then.

    Args:
        paths: Paths of the files to delete. Every table must be able to do without these files.

    Raises:
        TableReplacedError: As `validate_same_table`.
    """
    try:
        yield
    except StorageError:
        with suppress(StorageError):  # the first error says more
            _withdraw_if_replaced(snapshot, paths)
        raise
    _withdraw_if_replaced(snapshot, paths)


def _withdraw_if_replaced(snapshot: Snapshot, paths: Callable[[], Iterable[str]]) -> None:
    try:
        validate_same_table(snapshot)
    except TableReplacedError:
        snapshot.storage.delete_many(paths())
        raise


def _is_untouched(snapshot: Snapshot) -> bool:
    assert snapshot.newest
    try:
        found = snapshot.storage.stat(snapshot.newest.path)
    except FileNotFoundError:
        return False
    return is_same_file(snapshot.newest, found)

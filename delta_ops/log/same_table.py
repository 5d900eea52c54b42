"""Same table: checks that the table at a path is still the table that was read.

While a handle is open, its table can be deleted and another table created at the same path. The new
table counts versions from 0. A commit that follows version 3 of the old table would become version
4 of the new table, or leave a gap before it. `metaData.id` distinguishes the two tables. The commit
that was read reveals a table that was restored to an older state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from delta_ops.errors import StorageError, TableReplacedError
from delta_ops.log.commit_file import read_commit_if_there
from delta_ops.log.replaced_table import is_same_file
from delta_ops.log.snapshot import Snapshot


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

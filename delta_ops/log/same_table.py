"""Same table: whether what was read of a table still stands where it was read.

A table can be deleted, and another be made at its place, while a handle of it is open. Versions are
counted anew then, so that a commit that follows version 3 of the old table would be version 4 of
the new one, or leave a hole behind it. `metaData.id` tells the tables apart, and the commit that
was read tells the same table from one that was put back to an older state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from delta_ops.errors import StorageError, TableReplacedError
from delta_ops.log.commit_file import read_commit_if_there
from delta_ops.log.replaced_table import is_same_file
from delta_ops.log.snapshot import Snapshot


def validate_same_table(snapshot: Snapshot) -> None:
    """Refuse a snapshot whose version the log does not have any more, or has otherwise.

    One question to the store, unless the file that shows the version has been touched.

    Raises:
        TableReplacedError: The table was deleted, another stands in its place, or another commit in
            the place of its version.
    """
    if snapshot.newest is None or _is_untouched(snapshot):
        return
    snapshot.reopen()
    commit = read_commit_if_there(snapshot.storage, snapshot.log_directory, snapshot.version)
    if commit is not None and snapshot.txn_id not in (None, commit.txn_id):
        raise TableReplacedError(
            snapshot.uri,
            f"has another commit as version {snapshot.version} than the one that was read",
        )


@contextmanager
def withdrawing_if_replaced(
    snapshot: Snapshot, paths: Callable[[], Iterable[str]]
) -> Iterator[None]:
    """Write to the log within it what is of use to one table only, and delete it in another's log.

    What the store has failed at may be there all the same, so that it is looked for then too.

    Args:
        paths: What to delete, of files that every table can do without.

    Raises:
        TableReplacedError: As `validate_same_table`.
    """
    try:
        yield
    except StorageError:
        with suppress(StorageError):  # the first one says more
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

"""Overtaken changes: a change that loses its files to a compaction is made again, on the latest.

A commit that only rearranges rows (`dataChange` false in all of its file actions) has left all rows
as they were, in other files. The reference makes its caller begin again.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow.compute as pc

from delta_ops.clock import MINUTE_MS
from delta_ops.errors import CommitConflictError
from delta_ops.log.commit_file import Commit, read_commit_if_there
from delta_ops.transaction.races.conflicts import conflict_error, find_conflict
from delta_ops.transaction.transaction import Transaction

LONGEST_MS = 10 * MINUTE_MS
"""After it a change that compactions have overtaken is not made again."""


def begin_again(error: CommitConflictError, transaction: Transaction) -> Transaction | None:
    """A transaction on the latest version, for what a rearrangement has overtaken.

    Args:
        error: Why the transaction was not committed.

    Returns:
        None where the change cannot be made again: the conflict is another, the caller may have
        put more in the transaction, or the table's metadata or protocol have changed since.
    """
    if not transaction.is_of_one_change or error.kind != "delete delete":
        return None
    winner = _commit_of(transaction, error.version)
    if winner is None or not _only_rearranges(winner):
        return None
    again = transaction.begin_again()
    return again if _are_of_same_table(transaction, again) else None


def validate_reads(before: Transaction, again: Transaction) -> None:
    """Refuse to go on where another commit has changed rows that the first attempt has read.

    For a change whose rows may have been made of what was read then, such as an overwrite. To begin
    again removes rows that others have added meanwhile, so that these conflict at every level.

    Args:
        before: The attempt that was overtaken.
        again: As `begin_again` makes it.

    Raises:
        CommitConflictError: A commit between both conflicts otherwise than over rearranged files.
    """
    first, last = before.snapshot, again.snapshot
    assert first
    assert last
    footprint = replace(before.footprint, removed_paths=frozenset(), isolation="Serializable")
    earlier: list[Commit] = []
    for version in range(first.version + 1, last.version + 1):
        commit = _commit_of(before, version)
        if commit is None:
            reason = "the log was cleaned up since, so that nobody can tell what was changed"
            raise CommitConflictError(before.log.uri, version, reason)
        if conflict := find_conflict(commit, footprint, first, earlier):
            raise conflict_error(conflict, before.log.uri)
        earlier.append(commit)


def _commit_of(transaction: Transaction, version: int) -> Commit | None:
    log = transaction.log
    return read_commit_if_there(log.storage, log.log_directory, version)


def _only_rearranges(commit: Commit) -> bool:
    return not any(
        pc.any(pc.fill_null(files["dataChange"], True), min_count=0).as_py()
        for files in (commit.adds, commit.removes)
    )


def _are_of_same_table(before: Transaction, after: Transaction) -> bool:
    """Whether what was planned for the one holds for the other."""
    first, second = before.snapshot, after.snapshot
    if first is None or second is None:
        return False
    return (first.metadata, first.protocol) == (second.metadata, second.protocol)

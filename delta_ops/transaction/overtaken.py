"""Overtaken changes: rerun a change on the latest version after a compaction removed its files.

A compaction only rearranges rows (`dataChange` is false in all of its file actions): all rows are
unchanged, in other files. In the reference the caller must rerun the change.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow.compute as pc

from delta_ops.clock import MINUTE_MS
from delta_ops.errors import CommitConflictError
from delta_ops.log.commit_file import Commit, read_commit_if_there
from delta_ops.protocol.arrow_values import TRUE_SCALAR
from delta_ops.transaction.races.conflicts import conflict_error, find_conflict
from delta_ops.transaction.transaction import Transaction

LONGEST_MS = 10 * MINUTE_MS
"""An overtaken change is not rerun after this time."""


def begin_again(error: CommitConflictError, transaction: Transaction) -> Transaction | None:
    """Begin a transaction on the latest version, after a compaction was committed first.

    Args:
        error: The conflict.

    Returns:
        None if the change cannot be rerun: the conflict is of another kind, the transaction may
        hold other changes of the caller, or the table's metadata or protocol have changed.
    """
    if not transaction.is_of_one_change or error.kind != "delete delete":
        return None
    winner = _commit_of(transaction, error.version)
    if winner is None or not _only_rearranges(winner):
        return None
    again = transaction.begin_again()
    return again if _are_of_same_table(transaction, again) else None


def validate_reads(before: Transaction, again: Transaction) -> None:
    """Reject the rerun if a concurrent commit changed rows that the first attempt read.

    For an overwrite, whose new rows may depend on the rows read by the first attempt. The rerun
    would also remove rows that others have added since, so such rows conflict at every isolation
    level.

    Args:
        before: The overtaken attempt.
        again: The transaction from `begin_again`.

    Raises:
        CommitConflictError: A commit since the first attempt conflicts by more than rearranged
            files.
    """
    first, last = before.snapshot, again.snapshot
    assert first
    assert last
    footprint = replace(before.footprint, removed_paths=frozenset(), isolation="Serializable")
    earlier: list[Commit] = []
    for version in range(first.version + 1, last.version + 1):
        commit = _commit_of(before, version)
        if commit is None:
            reason = "the log was cleaned up since then, so the changes in between are unknown"
            raise CommitConflictError(before.log.uri, version, reason)
        if conflict := find_conflict(commit, footprint, first, earlier):
            raise conflict_error(conflict, before.log.uri)
        earlier.append(commit)


def _commit_of(transaction: Transaction, version: int) -> Commit | None:
    log = transaction.log
    return read_commit_if_there(log.storage, log.log_directory, version)


def _only_rearranges(commit: Commit) -> bool:
    return not any(
        pc.any(pc.fill_null(files["dataChange"], TRUE_SCALAR), min_count=0).as_py()
        for files in (commit.adds, commit.removes)
    )


def _are_of_same_table(before: Transaction, after: Transaction) -> bool:
    """Whether metadata and protocol are equal, so that the same plan fits both."""
    first, second = before.snapshot, after.snapshot
    if first is None or second is None:
        return False
    return (first.metadata, first.protocol) == (second.metadata, second.protocol)

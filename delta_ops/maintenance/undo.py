"""Undo: reverses a commit that brought back files that a vacuum deleted at the same time.

A vacuum that writes no commits can be noticed only after the commit, by the missing files. The
latest version would stay unreadable until a repair. So the previous state is committed at once:

1. If nobody has committed since, the whole commit is undone.
2. If others have committed, only its changes to files are undone, as by `revert`.
3. The txn of a request with an id is set back, too, so that the request can be run again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from delta_ops.clock import Clock
from delta_ops.errors import CommitConflictError, DeletedMeanwhileError, DeltaOpsError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.commit_file import Commit
from delta_ops.maintenance.set_back import NO_VERSION
from delta_ops.protocol.actions import AddFile, Metadata
from delta_ops.protocol.predicate import TRUE
from delta_ops.protocol.schema import ColumnPath
from delta_ops.transaction import CommitResult, begin
from delta_ops.transaction.changes import PutBack, SetBackTxns
from delta_ops.transaction.idempotency import MAINTENANCE_PREFIX
from delta_ops.transaction.races.missing_files import find_missing, missing_error

_ATTEMPTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Undoing:
    """The contents of the commit that undoes a version."""

    operation: str
    parameters: dict[str, Any]
    adds: Sequence[AddFile]
    removes: Sequence[AddFile]
    transactions: Mapping[str, int]
    """Txn versions to restore, by application id."""
    metadata: Metadata | None = None
    """None: the metadata stays."""
    clustered_by: Sequence[ColumnPath] | None = None
    """None: the clustering columns stay."""
    metrics: dict[str, int] = field(default_factory=dict)
    depends_on_all_rows: bool = False
    """Whether any other commit since the plan makes this commit fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """A version to undo."""

    commit: Commit
    later: Sequence[Commit]
    """All commits after it, ascending."""
    before: Snapshot
    latest: Snapshot
    log: DeltaLog


Plan = Callable[[Undone], Undoing]


def commit_or_undo(
    commit: Callable[[], CommitResult], plan: Plan, log: DeltaLog, *, clock: Clock
) -> CommitResult:
    """Commit restored files, and undo the commit if they were deleted in the meantime.

    Args:
        plan: Plans how to undo the commit.

    Raises:
        DeletedMeanwhileError: Files were deleted; names both versions.
    """
    try:
        return commit()
    except DeletedMeanwhileError as error:
        raise _undo(log, error, plan, clock) from error


def _undo(
    log: DeltaLog, error: DeletedMeanwhileError, plan: Plan, clock: Clock
) -> DeletedMeanwhileError:
    """Undo the version of an error and return the error to raise."""
    failure: DeltaOpsError | None = None
    for _ in range(_ATTEMPTS):
        try:
            undone_by = _commit_previous_state(log, error.version, plan, clock)
        except CommitConflictError as conflict:
            failure = conflict
        except DeltaOpsError as other:
            failure = other
            break
        else:
            reason = (
                f"was deleted while version {error.version} restored it, most likely by a vacuum "
                f"that writes no commits. Version {undone_by} has undone version {error.version}: "
                f"the table has the state of version {error.version - 1} again, plus later "
                "commits of other writers. Restore the file from a backup before you try again"
            )
            return DeletedMeanwhileError(log.uri, error.version, error.file, reason, undone_by)
    reason = f"{error.reason}. It could not be undone: {failure}"
    return DeletedMeanwhileError(log.uri, error.version, error.file, reason.rstrip("."))


def _commit_previous_state(log: DeltaLog, version: int, plan: Plan, clock: Clock) -> int:
    """Commit the state before a version and return the new version."""
    transaction = begin(log, clock=clock, operation="restore")
    latest, before = transaction.snapshot, log.snapshot(version - 1)
    assert latest
    commit, *later = log.commits(version, latest.version)
    undoing = plan(Undone(commit=commit, later=later, before=before, latest=latest, log=log))
    if missing := find_missing(undoing.adds, before):
        raise missing_error(before, missing, f"version {version} cannot be undone")
    if undoing.depends_on_all_rows:
        transaction.read(TRUE, is_serial=True)
    if undoing.metadata is not None:
        transaction.set_metadata(undoing.metadata)
    if undoing.clustered_by is not None:
        transaction.set_clustering(undoing.clustered_by)
    set_back = {**undoing.transactions, **_requests(commit, before)}
    transaction.apply(SetBackTxns(versions=set_back))
    transaction.remove(undoing.removes)
    adds = tuple(replace(add, data_change=True) for add in undoing.adds)
    transaction.apply(PutBack(files=adds, vacuum_was_killed=True))
    committed = transaction.commit(
        operation=undoing.operation,
        parameters=undoing.parameters,
        metrics={
            **undoing.metrics,
            "numRemovedFiles": len(undoing.removes),
            "numRestoredFiles": len(undoing.adds),
            "removedFilesSize": sum(add.size for add in undoing.removes),
            "restoredFilesSize": sum(add.size for add in undoing.adds),
        },
        user_metadata=f"undoes version {version}, because some of its files were deleted",
        counts_files=False,
    )
    assert committed.version is not None
    return committed.version


def _requests(commit: Commit, before: Snapshot) -> dict[str, int]:
    """The maintenance txns of a commit, with their versions from before it."""
    known = before.transactions()
    return {
        txn.app_id: known[txn.app_id].version if txn.app_id in known else NO_VERSION
        for txn in commit.transactions
        if txn.app_id.startswith(MAINTENANCE_PREFIX)
    }

"""Revert: undoes what one commit did to the files of the table, in a commit of its own.

Commits before and after it stay. No file is written, moved or deleted. See `plan` for what is
rejected. A rerun finds the commit of the first run by its txn, unless the files were changed again
since. Reverting the revert makes the commit effective again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import InvalidRequestError, TableNotFoundError, VersionNotFoundError
from delta_ops.events import OnEvent, ignore
from delta_ops.log import DeltaLog, Snapshot, TableOrPlace, log_of
from delta_ops.log.commit_file import Commit
from delta_ops.maintenance.busy_table import retry_on_conflict
from delta_ops.maintenance.request_txn import maintenance_txn
from delta_ops.maintenance.revert.plan import (
    RevertPlan,
    changed_files,
    plan_revert,
    touches_of,
)
from delta_ops.maintenance.set_back import NO_VERSION
from delta_ops.maintenance.undo import Undoing, Undone, commit_or_undo
from delta_ops.transaction import CommitResult, Transaction, Txn, begin
from delta_ops.transaction.changes import PutBack, SetBackTxns
from delta_ops.transaction.races.missing_files import find_missing, missing_error


@dataclass(frozen=True, slots=True, kw_only=True)
class RevertResult:
    """The result of `revert`."""

    plan: RevertPlan
    dry_run: bool
    version: int | None = None
    """The version that holds the change; None if there is none."""
    already_committed: bool = False
    """True: the commit was reverted before, and nothing was changed."""


def revert(
    log: TableOrPlace,
    version: int,
    *,
    timeout: timedelta = timedelta(0),
    hold_writers: bool = False,
    vacuum_was_killed: bool = False,
    user_metadata: str | None = None,
    dry_run: bool = False,
    clock: Clock = system_clock,
    on_event: OnEvent = ignore,
) -> RevertResult:
    """Undo the commit of a version.

    Args:
        version: The version of the commit.
        timeout: How long to retry if another commit comes first, and to wait for the end of a
            vacuum.
        hold_writers: Block writers that commit within the lock of `log` meanwhile.
        vacuum_was_killed: Assume that an unfinished vacuum was killed and will delete nothing more.
        user_metadata: Any text, kept in commitInfo.

    Raises:
        InvalidRequestError: The commit cannot be undone: it created the table, changed its
            definition, or later commits changed its files; or the table is append-only.
        VersionNotFoundError: The commit, a later one, or the version before it was cleaned up.
        DataFileError: Files to bring back are gone.
        DeletedMeanwhileError: Files were deleted while they were brought back; the error names the
            version that undid the revert.
        CommitConflictError: Another writer changed these files meanwhile, or a vacuum is running;
            nothing was committed.
        OutsideFileError: A file to bring back is outside the table and may not be looked up.
        UnsupportedFeatureError: The table uses a feature that we cannot revert.

    Examples:
        >>> _ = da.delete("lake/orders", col("id") == 1)  # version 1
        >>> _ = da.write("lake/orders", pa.table({"id": [4], "country": ["LU"], "price": [1.0]}))
        >>> _ = revert("lake/orders", 1)  # undoes version 1, and keeps version 2
        >>> sorted(da.to_table("lake/orders")["id"].to_pylist())
        [1, 2, 3, 4]
    """
    validate_arguments(revert, locals())
    request = RevertRequest(
        version=version,
        vacuum_was_killed=vacuum_was_killed,
        user_metadata=user_metadata,
        dry_run=dry_run,
        clock=clock,
        on_event=on_event,
    )
    attempt = partial(_revert_once, request)
    return retry_on_conflict(attempt, log_of(log), timeout=timeout, hold_writers=hold_writers)


@dataclass(frozen=True, slots=True, kw_only=True)
class RevertRequest:
    """The arguments of `revert`, which documents them."""

    version: int
    vacuum_was_killed: bool
    user_metadata: str | None
    dry_run: bool
    clock: Clock
    on_event: OnEvent


def _revert_once(request: RevertRequest, log: DeltaLog) -> RevertResult:
    """Revert on the latest version, unless the commit was reverted before."""
    version, dry_run = request.version, request.dry_run
    transaction = begin(log, clock=request.clock, on_event=request.on_event, operation="restore")
    latest = transaction.snapshot
    if latest is None:
        raise TableNotFoundError(log.uri)
    after = log.snapshot(version)
    _validate_version(version, latest)
    before = log.snapshot(version - 1)
    commit, *later = _commits(log, version, latest)
    txn = maintenance_txn("revert", latest, str(version))
    done = _reverting_version(commit, before, after, latest, later, txn)
    if done is not None:
        empty = RevertPlan(version=version, latest_version=latest.version)
        return RevertResult(plan=empty, dry_run=dry_run, version=done, already_committed=True)
    plan = plan_revert(commit, before=before, after=after, latest=latest, later=later)
    if missing := find_missing(plan.adds, before):
        raise missing_error(before, missing, "the commit after it cannot be reverted")
    if not plan.has_work:
        return RevertResult(plan=plan, dry_run=dry_run)
    _prepare(transaction, plan, txn, vacuum_was_killed=request.vacuum_was_killed)
    if dry_run:
        transaction.validate()
        return RevertResult(plan=plan, dry_run=True)
    commit_plan = partial(_commit, transaction, plan, request.user_metadata)
    committed = commit_or_undo(commit_plan, plan_undo, log, clock=request.clock)
    return RevertResult(
        plan=plan,
        dry_run=False,
        version=committed.version,
        already_committed=committed.already_committed,
    )


def _validate_version(version: int, latest: Snapshot) -> None:
    if version > latest.version:
        raise InvalidRequestError(
            f"{latest.uri}: version {version} was committed after the revert began at version "
            f"{latest.version}; run it again if you want to undo that commit"
        )
    if version == 0:
        raise InvalidRequestError(
            f"{latest.uri}: version 0 created the table and cannot be reverted; delete rows instead"
        )


def plan_undo(undone: Undone) -> Undoing:
    """Plan the undo of a version's changes to files."""
    commit = undone.commit
    plan = plan_revert(
        commit,
        before=undone.before,
        after=undone.log.snapshot(commit.version),
        latest=undone.latest,
        later=undone.later,
    )
    return Undoing(
        operation="REVERT",
        parameters={"version": commit.version},
        adds=plan.adds,
        removes=plan.removes,
        transactions=plan.transactions,
    )


def _prepare(
    transaction: Transaction, plan: RevertPlan, txn: Txn, *, vacuum_was_killed: bool
) -> None:
    transaction.set_transaction(txn)
    transaction.apply(SetBackTxns(versions=plan.transactions))
    transaction.remove(plan.removes, data_change=plan.data_change)
    adds = tuple(replace(add, data_change=plan.data_change) for add in plan.adds)
    transaction.apply(PutBack(files=adds, vacuum_was_killed=vacuum_was_killed))


def _commit(transaction: Transaction, plan: RevertPlan, user_metadata: str | None) -> CommitResult:
    return transaction.commit(
        operation="REVERT",
        parameters={"version": plan.version},
        metrics={
            "numRemovedFiles": len(plan.removes),
            "numRestoredFiles": len(plan.adds),
            "removedFilesSize": sum(add.size for add in plan.removes),
            "restoredFilesSize": sum(add.size for add in plan.adds),
        },
        user_metadata=user_metadata,
        counts_files=False,
    )


def _commits(log: DeltaLog, version: int, latest: Snapshot) -> list[Commit]:
    """The commits from a version to the latest, all of them."""
    commits = list(log.commits(version, latest.version))
    if [each.version for each in commits] != list(range(version, latest.version + 1)):
        raise VersionNotFoundError(
            log.uri, f"version {version}", "its commit or a later commit was cleaned up"
        )
    return commits


def _reverting_version(
    commit: Commit,
    before: Snapshot,
    after: Snapshot,
    latest: Snapshot,
    later: list[Commit],
    txn: Txn,
) -> int | None:
    """The version that reverted the commit, unless its files were changed again since."""
    if txn.app_id not in latest.transactions():
        return None
    reverted = _reverting_versions(later, txn.app_id)
    if not reverted:
        return None
    brought, taken = changed_files(commit, before, after)
    since = [each for each in later if each.version > reverted[-1]]
    touches = touches_of({path for path, _ in (*brought, *taken)}, since, latest)
    return None if any(touch.data_change for touch in touches) else reverted[-1]


def _reverting_versions(later: list[Commit], app_id: str) -> list[int]:
    """The versions of reverts that are not undone; undoing a revert restores the earlier txn."""
    reverted: list[int] = []
    last = NO_VERSION
    for commit in later:
        for txn in commit.transactions:
            if txn.app_id != app_id:
                continue
            if txn.version > last:
                reverted.append(commit.version)
            elif reverted:
                reverted.pop()
            last = txn.version
    return reverted

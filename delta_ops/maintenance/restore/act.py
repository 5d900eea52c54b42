"""Restore: brings the table back to an older version in a new commit.

Source: Delta Lake, for the names of operation, parameters and metrics; see `plan`.

No file is written, moved or deleted. The versions in between stay readable, and a restore can be
undone by another restore. Files of the older version must still be in the store. Vacuum deletes
them in the end, so no restore commits while a vacuum runs. The commit depends on every row: if
another writer changes a row first, the restore fails or is retried (`timeout`). Readers of changes
get the difference of the two versions from the commit's actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import partial
from operator import index
from typing import Any

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import InvalidRequestError, TableNotFoundError, VersionNotFoundError
from delta_ops.events import OnEvent, ignore
from delta_ops.log import DeltaLog, Snapshot, TableOrPlace, log_of
from delta_ops.log.history.time_travel import timestamp_ms
from delta_ops.maintenance.busy_table import retry_on_conflict
from delta_ops.maintenance.request_txn import maintenance_txn
from delta_ops.maintenance.restore.plan import RestorePlan, plan_restore
from delta_ops.maintenance.revert.act import plan_undo
from delta_ops.maintenance.undo import Undoing, Undone, commit_or_undo
from delta_ops.option_words import option
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.predicate import TRUE
from delta_ops.protocol.table_definition import validate
from delta_ops.transaction import CommitResult, Transaction, begin
from delta_ops.transaction.changes import PutBack, SetBackTxns
from delta_ops.transaction.races.missing_files import find_missing, missing_error


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """The result of `restore`."""

    plan: RestorePlan
    dry_run: bool
    version: int | None = None
    """The version that holds the change; None if there is none, or it was cleaned up."""
    already_committed: bool = False
    """True: this request was carried out before, and nothing was changed."""
    missing: tuple[str, ...] = ()
    """Missing files of the older version that were left out (`ignore_missing_files`)."""


def restore(
    log: TableOrPlace,
    *,
    version: int | None = None,
    timestamp: str | date | None = None,
    ignore_missing_files: bool = False,
    request_id: str | None = None,
    timeout: timedelta = timedelta(0),
    hold_writers: bool = False,
    vacuum_was_killed: bool = False,
    user_metadata: str | None = None,
    dry_run: bool = False,
    clock: Clock = system_clock,
    on_event: OnEvent = ignore,
) -> RestoreResult:
    """Restore the table to a version or a time.

    Args:
        version: The version to restore; or give `timestamp`, UTC unless it has a zone.
        ignore_missing_files: Restore without the rows of missing files, instead of failing.
        request_id: Identifies one request in all its reruns. It is carried out once, even after
            later writes and clean-ups. Without it a rerun restores the version once more.
        timeout: How long to retry if other writers commit first, and to wait for the end of a
            vacuum. Each retry also undoes the commits of these writers.
        hold_writers: Block writers that commit within the lock of `log` meanwhile.
        vacuum_was_killed: Assume that an unfinished vacuum was killed and will delete nothing more.
        user_metadata: Any text, kept in commitInfo.

    Raises:
        InvalidRequestError: Not exactly one of version and timestamp was given, the table is
            append-only and would lose rows, the older version needs a feature that was dropped, or
            `hold_writers` is set and there is no lock.
        VersionNotFoundError: That version or time cannot be read.
        DataFileError: Files of that version are gone.
        DeletedMeanwhileError: Files of that version were deleted while it was committed; the error
            names the version that undid the restore.
        CommitConflictError: Another writer changed the table meanwhile, or a vacuum is running;
            nothing was committed.
        OutsideFileError: A restored file is outside the table and may not be looked up.
        UnsupportedFeatureError: The table uses a feature that we cannot restore.

    Examples:
        >>> _ = da.delete("lake/orders")
        >>> restore("lake/orders", version=0).version
        2
        >>> da.count_rows("lake/orders")
        3
    """
    validate_arguments(restore, locals())
    request = RestoreRequest(
        version=version,
        timestamp=timestamp,
        ignore_missing_files=ignore_missing_files,
        request_id=request_id,
        vacuum_was_killed=vacuum_was_killed,
        user_metadata=user_metadata,
        dry_run=dry_run,
        clock=clock,
        on_event=on_event,
    )
    attempt = partial(_restore_once, request)
    return retry_on_conflict(attempt, log_of(log), timeout=timeout, hold_writers=hold_writers)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRequest:
    """The arguments of `restore`, which documents them.

    Raises:
        InvalidRequestError: Both version and timestamp are given, or neither.
    """

    version: int | None
    timestamp: str | date | None
    ignore_missing_files: bool
    request_id: str | None
    vacuum_was_killed: bool
    user_metadata: str | None
    dry_run: bool
    clock: Clock
    on_event: OnEvent

    def __post_init__(self) -> None:
        if (self.version is None) == (self.timestamp is None):
            raise InvalidRequestError("restore takes either a version or a timestamp")

    @property
    def identity(self) -> str:
        """The request as a string, independent of the versions that can still be read."""
        if self.timestamp is not None:
            return f"at {timestamp_ms(self.timestamp)}"
        return str(self.version)

    @property
    def parameters(self) -> dict[str, Any]:
        """The operation parameters of commitInfo: version or time as given."""
        timestamp = self.timestamp
        return {
            "version": None if self.version is None else index(self.version),
            "timestamp": timestamp.isoformat() if isinstance(timestamp, date) else timestamp,
        }


def _restore_once(request: RestoreRequest, log: DeltaLog) -> RestoreResult:
    """Restore on the latest version, unless the request was carried out before."""
    dry_run = request.dry_run
    transaction = begin(log, clock=request.clock, on_event=request.on_event, operation="restore")
    latest = transaction.snapshot
    if latest is None:
        raise TableNotFoundError(log.uri)
    try:
        wanted = _wanted_snapshot(log, latest, request)
    except VersionNotFoundError:
        # The commit of an earlier run gave the table the id that the wanted version had.
        done = None
        if request.request_id is not None:
            done = _claim_request(transaction, request, request.identity, latest.metadata.id)
        if done is None:
            raise
        return _result_of(done, request.version, latest, dry_run=dry_run)
    identity = str(wanted.version) if request.request_id is None else request.identity
    # A replaced table gets its old id back, so a rerun finds the commit by that id.
    done = _claim_request(transaction, request, identity, wanted.metadata.id)
    if done is not None:
        return _result_of(done, wanted.version, latest, dry_run=dry_run)
    plan, missing = _plan_existing(
        transaction, wanted, ignore_missing_files=request.ignore_missing_files
    )
    gone = tuple(sorted({add.path for add in missing}))
    found = RestoreResult(plan=plan, dry_run=dry_run, missing=gone)
    if not plan.has_work and (request.request_id is None or dry_run):
        return found  # with an id, an empty commit records that the request was carried out
    _prepare(transaction, plan, vacuum_was_killed=request.vacuum_was_killed)
    if dry_run:
        transaction.validate()
        return found
    commit = partial(
        transaction.commit,
        operation="RESTORE",
        parameters=request.parameters,
        metrics=_metrics(plan, wanted, missing),
        user_metadata=request.user_metadata,
        counts_files=False,
    )
    committed = commit_or_undo(commit, _plan_undo, log, clock=request.clock)
    return replace(found, version=committed.version, already_committed=committed.already_committed)


def _plan_undo(undone: Undone) -> Undoing:
    """Plan the undo of a restore: the whole commit, unless others have committed since."""
    if undone.later:
        return plan_undo(undone)
    before = undone.before
    plan = plan_restore(undone.latest, before)
    return Undoing(
        operation="RESTORE",
        parameters={"version": before.version, "timestamp": None},
        adds=plan.adds,
        removes=plan.removes,
        transactions=plan.transactions,
        metadata=plan.metadata,
        clustered_by=plan.clustered_by,
        metrics={
            "numOfFilesAfterRestore": before.num_files,
            "tableSizeAfterRestore": before.size_bytes,
        },
        depends_on_all_rows=True,
    )


def _wanted_snapshot(log: DeltaLog, latest: Snapshot, request: RestoreRequest) -> Snapshot:
    """The version to restore."""
    wanted = log.snapshot(request.version, request.timestamp)
    if wanted.version > latest.version:
        raise InvalidRequestError(
            f"{log.uri}: version {wanted.version} was committed after the restore began at "
            f"version {latest.version}; run it again if you want to restore that version"
        )
    at_version = f"{log.uri} at version {wanted.version}"
    validate(wanted.definition, "restore", table=at_version)
    return wanted


def _claim_request(
    transaction: Transaction, request: RestoreRequest, identity: str, table_id: str
) -> CommitResult | None:
    """Set the txn of the request; return the result of an earlier run, if there is one."""
    assert transaction.snapshot
    transaction.set_transaction(
        maintenance_txn(
            "restore",
            transaction.snapshot,
            identity,
            request_id=request.request_id,
            table_id=table_id,
        )
    )
    return transaction.done_before()


def _result_of(
    done: CommitResult, version: int | None, latest: Snapshot, *, dry_run: bool
) -> RestoreResult:
    nothing = RestorePlan(version=version, latest_version=latest.version)
    return RestoreResult(
        plan=nothing, dry_run=dry_run, version=done.version, already_committed=True
    )


def _plan_existing(
    transaction: Transaction, wanted: Snapshot, *, ignore_missing_files: bool
) -> tuple[RestorePlan, list[AddFile]]:
    """Split the plan: the plan without the missing files, and the missing files."""
    assert transaction.snapshot
    plan = plan_restore(transaction.snapshot, wanted)
    missing = find_missing(plan.adds, wanted)
    if missing and not ignore_missing_files:
        raise missing_error(
            wanted,
            missing,
            "this version cannot be restored completely",
            f"or restore without their rows ({option('ignore_missing_files', True)})",
        )
    gone = {add.path for add in missing}
    return replace(plan, adds=tuple(a for a in plan.adds if a.path not in gone)), missing


def _prepare(transaction: Transaction, plan: RestorePlan, *, vacuum_was_killed: bool) -> None:
    transaction.read(TRUE, is_serial=True)
    if plan.metadata is not None:
        transaction.set_metadata(plan.metadata)
    if plan.clustered_by is not None:
        transaction.set_clustering(plan.clustered_by)
    transaction.apply(SetBackTxns(versions=plan.transactions))
    transaction.remove(plan.removes)
    adds = tuple(replace(add, data_change=True) for add in plan.adds)
    transaction.apply(PutBack(files=adds, vacuum_was_killed=vacuum_was_killed))


def _metrics(plan: RestorePlan, wanted: Snapshot, missing: Sequence[AddFile]) -> dict[str, int]:
    return {
        "numOfFilesAfterRestore": wanted.num_files - len(missing),
        "tableSizeAfterRestore": wanted.size_bytes - sum(add.size for add in missing),
        "numRemovedFiles": len(plan.removes),
        "numRestoredFiles": len(plan.adds),
        "removedFilesSize": sum(add.size for add in plan.removes),
        "restoredFilesSize": sum(add.size for add in plan.adds),
    }

"""Vacuum commits: what a vacuum leaves in the table's history, one commit before and one after.

Names, parameters and metrics are the reference's: VACUUM START, then VACUUM END. Neither changes a
file. The first carries a txn with the version that was planned on, the last one with the same
number. A START without its END is a vacuum that was killed or is not done yet; the next one leaves
it alone, and has a START and an END of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from delta_ops.clock import Clock
from delta_ops.errors import CommitConflictError, InvalidRequestError
from delta_ops.events import OnEvent
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.maintenance.admission import validate_vacuumable
from delta_ops.maintenance.vacuum.plan import VacuumPlan
from delta_ops.protocol.table_definition import is_supported
from delta_ops.transaction import CommitResult, begin
from delta_ops.transaction.commit.hooks import DEFAULT_HOOKS, Hook, write_checksum
from delta_ops.transaction.races.vacuum_runs import END, START, VacuumRun, next_run, run_app_id

PROPERTY = "delta_ops.vacuum.logging"
"""Table property: whether vacuum commits; true if it is not set."""

_TRIES = 3


def is_logged(snapshot: Snapshot, asked: bool | None) -> bool:
    """Whether a vacuum of this table commits: what was asked for, else what the table says.

    Raises:
        InvalidRequestError: The property is neither true nor false.
    """
    if asked is not None:
        return asked
    text = snapshot.metadata.configuration.get(PROPERTY, "true").strip().lower()
    if text not in ("true", "false"):
        raise InvalidRequestError(
            f"{snapshot.uri}: table property {PROPERTY} is {text!r}; set it to true or false"
        )
    return text == "true"


def commit_start(
    log: DeltaLog,
    snapshot: Snapshot,
    plan: VacuumPlan,
    *,
    before: VacuumRun | None,
    is_enforced: bool,
    specified_ms: int | None,
    user_metadata: str | None = None,
    clock: Clock,
    on_event: OnEvent,
) -> VacuumRun:
    """Commit VACUUM START; the run that has begun.

    Args:
        before: The run that this one goes on with; None if this is the vacuum's first.
        specified_ms: The retention that was asked for; None if it is the table's.
        user_metadata: Any text, kept in commitInfo.

    Raises:
        CommitConflictError: Others were ahead, again and again.
    """
    parameters: dict[str, bool | int] = {"retentionCheckEnabled": is_enforced}
    if specified_ms is not None:
        parameters["specifiedRetentionMillis"] = specified_ms
    parameters["defaultRetentionMillis"] = snapshot.properties.deleted_file_retention_ms
    metrics = {
        "numFilesToDelete": len(plan.files) + len(plan.leftovers),
        "sizeOfDataToDelete": plan.size_bytes,
    }
    for attempt in range(1, _TRIES + 1):
        run = next_run(snapshot, now_ms=clock())
        if before is not None:
            run = run._replace(slot=before.slot)
        try:
            outcome = _commit(
                log, snapshot, START, run, parameters, metrics, user_metadata, clock, on_event
            )
        except CommitConflictError:
            if attempt == _TRIES:
                raise
        else:
            if not outcome.already_committed:
                return run
        # Another vacuum took the slot, or metadata or protocol were changed.
        snapshot = snapshot.refresh()
        validate_vacuumable(snapshot)
    raise CommitConflictError(log.uri, snapshot.version, "is one of many vacuums that begin")


def commit_end(
    log: DeltaLog,
    snapshot: Snapshot,
    run: VacuumRun,
    *,
    deleted: int | None,
    num_directories: int,
    user_metadata: str | None = None,
    clock: Clock,
    on_event: OnEvent,
) -> None:
    """Commit VACUUM END.

    Args:
        deleted: How many files this process has deleted; None if it failed.
        num_directories: How many were looked at.
        user_metadata: Any text, kept in commitInfo.
    """
    status = "FAILED" if deleted is None else "COMPLETED"
    metrics = (
        {}
        if deleted is None
        else {"numDeletedFiles": deleted, "numVacuumedDirectories": num_directories}
    )
    parameters = {"status": status}
    for attempt in range(1, _TRIES + 1):
        try:
            _commit(log, snapshot, END, run, parameters, metrics, user_metadata, clock, on_event)
        except CommitConflictError:
            # Somebody changed metadata or protocol: of no account, unless we cannot go on.
            if attempt == _TRIES:
                raise
            snapshot = snapshot.refresh()
            validate_vacuumable(snapshot)
        else:
            return


def _commit(
    log: DeltaLog,
    snapshot: Snapshot,
    operation: str,
    run: VacuumRun,
    parameters: Mapping[str, object],
    metrics: Mapping[str, int],
    user_metadata: str | None,
    clock: Clock,
    on_event: OnEvent,
) -> CommitResult:
    phase = "start" if operation == START else "end"
    transaction = begin(log, snapshot=snapshot, operation="vacuum", clock=clock, on_event=on_event)
    transaction.set_transaction((run_app_id(snapshot, phase, run.slot), run.version))
    return transaction.commit(
        operation=operation,
        parameters=parameters,
        metrics=metrics,
        counts_files=False,
        user_metadata=user_metadata,
        hooks=_hooks(snapshot, operation),
    )


def _hooks(snapshot: Snapshot, operation: str) -> Sequence[Hook]:
    """What follows a commit: nothing on tables of which we write no checkpoints and checksums."""
    if not is_supported(snapshot.definition, "write", engine=None):
        return ()
    # A checkpoint forgets tombstones, by which it is known that there are files to delete.
    return DEFAULT_HOOKS if operation == END else (write_checksum,)

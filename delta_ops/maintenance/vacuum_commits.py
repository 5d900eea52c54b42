"""Vacuum commits: what a vacuum leaves in the table's history, one commit before and one after.

Names, parameters and metrics are the reference's: VACUUM START, then VACUUM END. Neither changes a
file. The first carries a txn with the version that was planned on, the last one with the same
number: a table whose first is ahead of its last has a vacuum that was killed, or is not done yet.
Whoever comes next goes on with it and ends it, so that no run is begun or ended twice; one that is
still deleting begins another before its next batch.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from delta_ops.clock import Clock
from delta_ops.errors import CommitConflictError, InvalidRequestError, UnsupportedFeatureError
from delta_ops.events import OnEvent
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.maintenance.admission import validate_vacuumable
from delta_ops.maintenance.vacuum_plan import VacuumPlan
from delta_ops.protocol.actions import SetTransaction
from delta_ops.protocol.features import validate_writable
from delta_ops.transaction.commit import Limits, Outcome, Proposal, commit_loop
from delta_ops.transaction.commit_info import commit_info
from delta_ops.transaction.conflicts import Footprint
from delta_ops.transaction.hooks import (
    DEFAULT_HOOKS,
    CommittedVersion,
    Hook,
    follow_up,
    write_checksum,
)
from delta_ops.transaction.idempotency import TxnId, is_done
from delta_ops.transaction.vacuum_runs import END, START, run_app_id, unfinished_run

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
    is_enforced: bool,
    specified_ms: int | None,
    clock: Clock,
    on_event: OnEvent,
) -> None:
    """Commit VACUUM START, unless somebody has.

    Args:
        specified_ms: The retention that was asked for; None if it is the table's.
    """
    parameters: dict[str, bool | int] = {"retentionCheckEnabled": is_enforced}
    if specified_ms is not None:
        parameters["specifiedRetentionMillis"] = specified_ms
    parameters["defaultRetentionMillis"] = snapshot.properties.deleted_file_retention_ms
    metrics = {
        "numFilesToDelete": len(plan.files) + len(plan.leftovers),
        "sizeOfDataToDelete": plan.size_bytes,
    }
    run = snapshot.version
    _commit(log, snapshot, START, run, parameters, metrics, clock=clock, on_event=on_event)


def commit_end(
    log: DeltaLog,
    snapshot: Snapshot,
    *,
    deleted: int | None,
    num_directories: int,
    clock: Clock,
    on_event: OnEvent,
) -> None:
    """Commit VACUUM END, if a run has begun and not ended.

    Args:
        deleted: How many files this process has deleted; None if it failed.
        num_directories: That were looked at.
    """
    run = unfinished_run(snapshot)
    if run is None:
        return
    status = "FAILED" if deleted is None else "COMPLETED"
    metrics = (
        {}
        if deleted is None
        else {"numDeletedFiles": deleted, "numVacuumedDirectories": num_directories}
    )
    _commit(log, snapshot, END, run, {"status": status}, metrics, clock=clock, on_event=on_event)


def _commit(
    log: DeltaLog,
    snapshot: Snapshot,
    operation: str,
    run: int,
    parameters: Mapping[str, object],
    metrics: Mapping[str, int],
    *,
    clock: Clock,
    on_event: OnEvent,
) -> None:
    phase = "start" if operation == START else "end"
    for attempt in range(1, _TRIES + 1):
        txn = TxnId(app_id=run_app_id(snapshot, phase), version=run)
        if is_done(txn, snapshot.transactions(), table=log.uri):
            return
        proposal = _proposal(snapshot, txn, operation, parameters, metrics, clock)
        try:
            outcome = commit_loop(
                log, snapshot, proposal, clock=clock, on_event=on_event, limits=Limits()
            )
        except CommitConflictError:
            # Somebody changed metadata or protocol: of no account, unless we cannot go on.
            snapshot = snapshot.refresh()
            validate_vacuumable(snapshot)
            if attempt == _TRIES:
                raise
        else:
            # A checkpoint forgets tombstones, by which it is known that there are files to delete.
            hooks = DEFAULT_HOOKS if operation == END else (write_checksum,)
            _follow_up(log, snapshot, outcome, hooks, clock, on_event)
            return


def _proposal(
    snapshot: Snapshot,
    txn: TxnId,
    operation: str,
    parameters: Mapping[str, object],
    metrics: Mapping[str, int],
    clock: Clock,
) -> Proposal:
    footprint = Footprint(
        reads=(),
        removed_paths=frozenset(),
        app_ids=frozenset({txn.app_id}),
        domains=frozenset(),
        changes_metadata=False,
        isolation="SnapshotIsolation",
    )
    now_ms = clock()
    stamp = SetTransaction(app_id=txn.app_id, version=txn.version, last_updated=now_ms)
    return Proposal(
        actions=(stamp,),
        info=commit_info(operation, parameters, metrics, footprint, None),
        txn_uuid=str(uuid.uuid4()),
        footprint=footprint,
        txns=(txn,),
        begun_ms=now_ms,
        log_retention_ms=snapshot.properties.log_retention_ms,
        in_commit_timestamps=snapshot.properties.in_commit_timestamps,
    )


def _follow_up(
    log: DeltaLog,
    snapshot: Snapshot,
    outcome: Outcome,
    hooks: Sequence[Hook],
    clock: Clock,
    on_event: OnEvent,
) -> None:
    """What follows a commit, on tables of which we can write checkpoints and checksums."""
    if outcome.already_committed or outcome.version is None:
        return
    try:
        validate_writable(snapshot.protocol, snapshot.metadata, table=log.uri)
    except UnsupportedFeatureError:
        hooks = ()
    committed = CommittedVersion(
        log=log,
        version=outcome.version,
        properties=snapshot.properties,
        clock=clock,
        actions=outcome.actions,
        read_snapshot=snapshot,
        winners=outcome.winners,
    )
    follow_up(committed, hooks, on_event)

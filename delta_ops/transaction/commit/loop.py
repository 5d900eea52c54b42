"""The commit loop.

Source: PROTOCOL.md, "Creation of New Log Entries".

Each turn tries to create the next version's file. Then, in this one place:

1. The file was created: the commit is ours.
2. The file exists and carries our `txnId`: an earlier attempt succeeded and its response was lost.
   The commit is ours.
3. The file exists and another writer committed it. If it carries our txn, the work is done. If it
   conflicts with ours, stop. Otherwise unite our deletion vectors with the winner's and try the
   next version without a wait: each lost race is another writer's progress, and a writer that
   waits at each version falls further behind.
4. The store failed and the file does not exist: try the same version again, after a longer wait.
5. The store failed and the file's existence is unknown: read again, with the same waits.

Before an attempt of a slow transaction, the loop lists the log. After a log clean-up the deleted
versions look free. A commit there would be older than the checkpoint that readers start from, and
nobody would read it.

The loop starts only if the table that was read is still in place, and its branch takes commits.
`hooks.follow_up` checks that this was so until the end.

If a limit is reached, the error depends on the case. Case 3 is a lost race. Case 4 is the store's
error, if every error of the store rules out that the file still appears (no space, no permission).
Everything else is an unknown outcome, and no file is deleted.
"""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from delta_ops.clock import MINUTE_MS, Clock
from delta_ops.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    DeltaOpsError,
    InvalidRequestError,
    LogCorruptError,
    StorageError,
    TableReplacedError,
)
from delta_ops.events import CommitAttempted, OnEvent, RaceLost
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.commit_file import Commit, create_commit, read_commit, read_commit_if_there
from delta_ops.log.refs.side_logs import validate_open
from delta_ops.log.same_table import validate_same_table
from delta_ops.log.segment import list_log
from delta_ops.protocol.actions import Action, CommitInfo, Metadata
from delta_ops.protocol.properties.known import (
    IN_COMMIT_TIMESTAMP_TIME,
    IN_COMMIT_TIMESTAMP_VERSION,
)
from delta_ops.protocol.row_tracking import assign_row_ids, later_mark
from delta_ops.transaction.commit.proposal import Proposal
from delta_ops.transaction.idempotency import Txn, all_done
from delta_ops.transaction.races.conflicts import Conflict, conflict_error, find_conflict
from delta_ops.transaction.races.row_conflicts import judge_vectors, unite_vectors

_NOTHING_WAS_CREATED = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
}
_LAST_MS = 2**63 - 1
"""Greatest commit time: other engines read it as a long."""
_STORE_FAILURES = 8
"""Consecutive failures before the loop gives up; the waits add up to about ten seconds."""
_REFUSALS = 3
_AFTER_A_FAILURE_S = 0.1
_LONGEST_AFTER_A_FAILURE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When the loop gives up."""

    max_attempts: int = 1000
    timeout_s: float = 600.0
    """No attempt begins later; an attempt in progress may finish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the loop ended."""

    version: int | None
    """None if `already_committed` and the commit file was cleaned up."""
    attempts: int
    already_committed: bool = False
    """A concurrent run committed the same txn; `version` is its commit."""
    actions: tuple[Action, ...] = ()
    """All actions of the commit, if it is ours."""
    winners: tuple[Commit, ...] = ()
    """The commits between the snapshot and ours, ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How the loop measures time, waits and chooses at random."""

    elapsed_s: Callable[[], float] = time.monotonic
    """A monotonic clock, in seconds."""
    sleep: Callable[[float], None] = time.sleep
    share: Callable[[], float] = random.random
    """Random number from 0 to 1, multiplied with the longest wait so that writers spread out."""


SYSTEM_PACE = Pace()


def commit_loop(
    log: DeltaLog,
    snapshot: Snapshot | None,
    proposal: Proposal,
    *,
    clock: Clock,
    on_event: OnEvent,
    limits: Limits,
    pace: Pace = SYSTEM_PACE,
) -> Outcome:
    """Commit the proposal after `snapshot`, or as version 0 without a snapshot.

    Raises:
        CommitConflictError: A concurrent commit invalidates the proposal, or all attempts were
            lost.
        CommitStateUnknownError: The store did not report whether the commit exists.
        LogCorruptError: The previous commit lacks the timestamp that the table requires, or has
            the greatest possible timestamp.
        InvalidRequestError: A concurrent writer committed only a part of the proposal's txns.
        StaleRunError: A newer run has overwritten what this run was about to write.
        StorageError: The store failed, and the commit does not exist.
        TableReplacedError: The snapshot's table was deleted or replaced, or its branch was deleted
            or closed.
    """
    version = 0 if snapshot is None else snapshot.version + 1
    time_before = _time_before(log, snapshot, proposal)
    ends = pace.elapsed_s() + limits.timeout_s
    failures: list[StorageError] = []
    winners: list[Commit] = []
    for attempt in range(1, limits.max_attempts + 1):
        is_last = attempt == limits.max_attempts or pace.elapsed_s() >= ends
        # After a failed attempt there is no check: that attempt may still succeed, so its files
        # must stay, and its own check came before it. If the clock was set back, the duration is
        # unknown and the transaction counts as slow.
        is_short = 0 <= clock() - proposal.begun_ms < min(proposal.log_retention_ms, MINUTE_MS)
        if not is_short and not failures:
            _raise_if_cleaned_up(log, version)
        if attempt == 1 and snapshot is not None:
            # The last look before the commit, because the table can be replaced after it.
            validate_same_table(snapshot)
            validate_open(log.storage, log.log_directory, version)
        on_event(CommitAttempted(table=log.uri, version=version, attempt=attempt))
        actions = _stamp(proposal, snapshot, version, clock(), time_before, log.uri)
        try:
            create_commit(log.storage, log.log_directory, version, actions)
        except FileExistsError:
            pass
        except StorageError as error:
            failures.append(error)
        else:
            return Outcome(
                version=version, attempts=attempt, actions=actions, winners=tuple(winners)
            )

        winner = _read_back(log, version, proposal.txn_id, failures, ends, pace)
        if winner is None:
            if is_last or len(failures) == _max_failures(failures):
                raise _final_error(failures, log.uri, version, proposal.txn_id)
            _wait_after_failure(len(failures), pace)
            _raise_if_replaced(snapshot, failures, log.uri, version, proposal.txn_id)
            continue
        if winner.txn_id == proposal.txn_id:
            assert winner.info
            time_ms = winner.in_commit_timestamp
            landed = (winner.info, *_actions_at(version, proposal, time_ms, log.uri))
            return Outcome(
                version=version, attempts=attempt, actions=landed, winners=tuple(winners)
            )
        on_event(RaceLost(table=log.uri, version=version))
        if _carries(winner, proposal.txns, log.uri):
            if snapshot is not None:
                validate_same_table(snapshot)
            return Outcome(version=version, attempts=attempt, already_committed=True)
        proposal = _rebase(log, winner, proposal, snapshot, winners)
        if is_last:
            raise CommitConflictError(log.uri, version, f"{attempt} attempts failed in this way")
        winners.append(winner)
        time_before = _time_of_winner(log, winner, version, proposal) or time_before
        version, failures = version + 1, []
    raise InvalidRequestError(f"max_attempts is {limits.max_attempts}; it must be at least 1")


def _raise_if_cleaned_up(log: DeltaLog, version: int) -> None:
    listing = list_log(log.storage, log.log_directory, from_version=version)
    latest = listing.latest_version
    if latest is not None and version not in listing.commits:
        raise CommitConflictError(
            log.uri,
            latest,
            f"the log was cleaned up beyond version {version - 1}, which this operation was based "
            "on",
        )


def _time_before(log: DeltaLog, snapshot: Snapshot | None, proposal: Proposal) -> int:
    """The timestamp that the commit must exceed; 0 if commits carry no timestamp."""
    if snapshot is None or not proposal.in_commit_timestamps:
        return 0
    holder = _holder_of_commit(snapshot)
    if not proposal.begins_timestamps:
        return _time_of(log, snapshot.version, holder)
    found = list_log(holder.storage, holder.log_directory, from_version=snapshot.version).commits
    return found[snapshot.version].modified_ms if snapshot.version in found else 0


def _time_of_winner(log: DeltaLog, winner: Commit, version: int, proposal: Proposal) -> int | None:
    """The timestamp of a winner; its file's modification time if our commit is the first with one.

    Args:
        version: The winner's version.
    """
    if winner.in_commit_timestamp is not None or not proposal.begins_timestamps:
        return winner.in_commit_timestamp
    found = list_log(log.storage, log.log_directory, from_version=version).commits
    return found[version].modified_ms if version in found else None


def _holder_of_commit(snapshot: Snapshot) -> Snapshot:
    """The snapshot whose log has this version's commit: the snapshot itself, or a `base` of it."""
    holder = snapshot
    while holder.base is not None and snapshot.version <= holder.base.version:
        holder = holder.base
    return holder


def _time_of(log: DeltaLog, version: int, holder: Snapshot) -> int:
    """The in-commit timestamp of a version; ours must be later."""
    commit = read_commit_if_there(holder.storage, holder.log_directory, version)
    if commit is None:
        _raise_if_cleaned_up(log, version + 1)
    if commit is None or commit.in_commit_timestamp is None:
        missing = "its commit file is missing" if commit is None else "it has no inCommitTimestamp"
        raise LogCorruptError(
            log.uri,
            f"version {version}",
            f"{missing}, and the table requires increasing timestamps "
            "(delta.enableInCommitTimestamps)",
        )
    return commit.in_commit_timestamp


def _stamp(
    proposal: Proposal,
    snapshot: Snapshot | None,
    version: int,
    now_ms: int,
    time_before: int,
    table: str,
) -> tuple[Action, ...]:
    info: dict[str, Any] = {}
    if proposal.in_commit_timestamps:
        if time_before >= _LAST_MS:
            raise LogCorruptError(
                table,
                "the newest version",
                f"its inCommitTimestamp is {time_before}, the largest possible value, so no later "
                "commit is possible; nothing was committed. Set delta.enableInCommitTimestamps "
                "to false",
            )
        info["inCommitTimestamp"] = max(now_ms, time_before + 1)
    info |= {"timestamp": info.get("inCommitTimestamp", now_ms), **proposal.info}
    if snapshot is not None:
        info["readVersion"] = snapshot.version
    actions = _actions_at(version, proposal, info.get("inCommitTimestamp"), table)
    return (CommitInfo(values={**info, "txnId": proposal.txn_id}), *actions)


def _actions_at(
    version: int, proposal: Proposal, time_ms: int | None, table: str
) -> tuple[Action, ...]:
    """The proposal's actions with the values that depend on the version.

    New files get row ids, and the metadata record the first version with an in-commit timestamp.

    Source: PROTOCOL.md, "Writer Requirements for Row Tracking", "Writer Requirements for In-Commit
    Timestamps".
    """
    actions = proposal.actions
    if proposal.row_id_mark is not None:
        actions = assign_row_ids(actions, version, proposal.row_id_mark, table)
    if not proposal.begins_timestamps:
        return actions
    resolved = {
        IN_COMMIT_TIMESTAMP_VERSION.name: str(version),
        IN_COMMIT_TIMESTAMP_TIME.name: str(time_ms),
    }
    return tuple(
        replace(action, configuration={**action.configuration, **resolved})
        if isinstance(action, Metadata)
        else action
        for action in actions
    )


def _read_back(
    log: DeltaLog,
    version: int,
    txn_id: str,
    failures: Sequence[StorageError],
    ends: float,
    pace: Pace,
) -> Commit | None:
    """Read the commit at the version after an attempt without a clear success; None if missing.

    Args:
        failures: The failed attempts at this version. Empty: the store reported an existing file.

    Raises:
        CommitStateUnknownError: The store did not report whether the commit exists.
    """
    for failed_reads in count(1):
        try:
            return read_commit(log.storage, log.log_directory, version)
        except FileNotFoundError:
            if failures:
                return None
            reason = "the store reported that it exists, then that it does not"
            raise CommitStateUnknownError(log.uri, version, txn_id, reason) from None
        except StorageError as error:
            if failed_reads == _STORE_FAILURES or pace.elapsed_s() >= ends:
                raise CommitStateUnknownError(log.uri, version, txn_id, str(error)) from error
            _wait_after_failure(failed_reads, pace)
        except DeltaOpsError as error:
            raise CommitStateUnknownError(log.uri, version, txn_id, str(error)) from error
    raise AssertionError


def _max_failures(failures: Sequence[StorageError]) -> int:
    """The allowed number of consecutive failures: few for a full disk, which stays full."""
    return _REFUSALS if all(map(_rules_out_creation, failures)) else _STORE_FAILURES


def _raise_if_replaced(
    snapshot: Snapshot | None,
    failures: Sequence[StorageError],
    table: str,
    version: int,
    txn_id: str,
) -> None:
    """Give up if the table was replaced: a failed attempt may have reached the old table.

    A store error is ignored here, because the next attempt checks again.
    """
    try:
        if snapshot is not None:
            validate_same_table(snapshot)
    except TableReplacedError as replaced:
        raise _final_error(failures, table, version, txn_id) from replaced
    except (DeltaOpsError, OSError):
        return


def _final_error(
    failures: Sequence[StorageError], table: str, version: int, txn_id: str
) -> DeltaOpsError:
    """The error for a version that could not be created and does not exist."""
    last = failures[-1]
    if all(map(_rules_out_creation, failures)):
        return last
    error = CommitStateUnknownError(table, version, txn_id, str(last))
    error.__cause__ = last
    return error


def _rules_out_creation(failure: StorageError) -> bool:
    cause = failure.__cause__
    return isinstance(cause, OSError) and cause.errno in _NOTHING_WAS_CREATED


def _carries(winner: Commit, txns: Sequence[Txn], table: str) -> bool:
    stored = {txn.app_id: txn for txn in winner.transactions}
    return all_done(txns, stored, table=table)


def _rebase(
    log: DeltaLog,
    winner: Commit,
    proposal: Proposal,
    snapshot: Snapshot | None,
    earlier: Sequence[Commit],
) -> Proposal:
    """Adapt the proposal to follow the winner.

    Raises:
        CommitConflictError: The winner invalidates the proposal.
    """
    if snapshot is None:
        raise CommitConflictError(log.uri, winner.version, "created the table")
    rebase = judge_vectors(winner, proposal.footprint, proposal.actions, snapshot)
    if isinstance(rebase, Conflict):
        raise conflict_error(rebase, log.uri)
    conflict = find_conflict(rebase.winner, rebase.footprint, snapshot, earlier)
    if conflict is not None:
        raise conflict_error(conflict, log.uri)
    mark = proposal.row_id_mark
    if mark is not None:
        mark = later_mark(mark, winner.domains, log.uri)
    actions = unite_vectors(proposal.actions, rebase, snapshot)
    return replace(proposal, actions=actions, row_id_mark=mark)


def _wait_after_failure(number: int, pace: Pace) -> None:
    longest_s = min(_AFTER_A_FAILURE_S * 2**number, _LONGEST_AFTER_A_FAILURE_S)
    pace.sleep(pace.share() * longest_s)

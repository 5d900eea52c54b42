"""The commit loop.

Source: PROTOCOL.md, "Creation of New Log Entries".

Each turn tries to create the next version's file. Then, in this one place:

1. created: the commit is ours.
2. it exists and carries our `txnId`: an earlier attempt landed and its answer was lost; it is ours.
3. it exists and is another's: if it carries our txn the work is done; if it conflicts, stop; else,
   with our deletion vectors united with its own, the next version, without a wait: a race that was
   lost is progress of somebody, and who waits at each version that it has to read falls further
   behind.
4. the store failed, and the file is not there: the same version again, after a longer wait.
5. the store failed, and does not say what is there: ask again, as long.

Before an attempt of a transaction that has taken long, the log is looked at: where a clean-up has
deleted the commits that ours would have to follow, their versions look free, and a commit there
would be below the checkpoint that everybody starts from, and never read.

The first attempt is made only if the table that was read still stands there; that it did so until
the end is checked by `hooks.follow_up`.

Where the limits are reached, the error is a lost race in case 3; in case 4 that of the store, if
all its errors rule out that the file can still appear (no space, no permission); and else an
unknown outcome, with which no file is deleted.
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
"""Other engines read the time of a commit as a long."""
_STORE_FAILURES = 8
"""In a row; the waits between them come to some ten seconds."""
_REFUSALS = 3
_AFTER_A_FAILURE_S = 0.1
_LONGEST_AFTER_A_FAILURE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When the loop gives up."""

    max_attempts: int = 1000
    timeout_s: float = 600.0
    """After it no further attempt is begun; one that is under way is waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the loop ended."""

    version: int | None
    """None where `already_committed` by a commit whose file was cleaned up."""
    attempts: int
    already_committed: bool = False
    """A concurrent run committed the same txn; `version` is its commit."""
    actions: tuple[Action, ...] = ()
    """All that stand in the commit, if it is ours."""
    winners: tuple[Commit, ...] = ()
    """The commits between the snapshot and ours, ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How the loop measures time, waits and chooses at random."""

    elapsed_s: Callable[[], float] = time.monotonic
    """Seconds since some moment; never goes back."""
    sleep: Callable[[float], None] = time.sleep
    share: Callable[[], float] = random.random
    """A number from 0 to 1: which share of its longest a wait takes, so that writers part."""


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
    """Commit the proposal after `snapshot`, or as version 0 where there is none.

    Raises:
        CommitConflictError: A commit that came first invalidates it, or all attempts were lost.
        CommitStateUnknownError: The store does not tell whether the commit is there.
        LogCorruptError: The commit before lacks the time that its table demands, or no time can
            come after it.
        InvalidRequestError: A part of the proposal's txns was committed meanwhile.
        StaleRunError: A newer run has overwritten what this one was about to write.
        StorageError: The store failed, and the commit is not there.
        TableReplacedError: Another table, or none, stands where the snapshot's was.
    """
    version = 0 if snapshot is None else snapshot.version + 1
    time_before = _time_before(log, snapshot, proposal)
    ends = pace.elapsed_s() + limits.timeout_s
    if snapshot is not None:
        validate_same_table(snapshot)
    failures: list[StorageError] = []
    winners: list[Commit] = []
    for attempt in range(1, limits.max_attempts + 1):
        is_last = attempt == limits.max_attempts or pace.elapsed_s() >= ends
        # Not while an attempt may still land: that one looked, and its files must stay.
        # A clock that was set back does not tell how long it took.
        is_short = 0 <= clock() - proposal.begun_ms < min(proposal.log_retention_ms, MINUTE_MS)
        if not is_short and not failures:
            _raise_if_cleaned_up(log, version)
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
            raise CommitConflictError(log.uri, version, f"{attempt} attempts were lost like this")
        winners.append(winner)
        time_before = _time_of_winner(log, winner, version, proposal) or time_before
        version, failures = version + 1, []
    raise InvalidRequestError(f"max_attempts is {limits.max_attempts}; it must be 1 at least")


def _raise_if_cleaned_up(log: DeltaLog, version: int) -> None:
    listing = list_log(log.storage, log.log_directory, from_version=version)
    latest = listing.latest_version
    if latest is not None and version not in listing.commits:
        raise CommitConflictError(
            log.uri,
            latest,
            f"the log was cleaned up beyond version {version - 1}, which this operation rests on",
        )


def _time_before(log: DeltaLog, snapshot: Snapshot | None, proposal: Proposal) -> int:
    """The time after which a commit of the proposal has to be; 0 if it carries none."""
    if snapshot is None or not proposal.in_commit_timestamps:
        return 0
    holder = _holder_of_commit(snapshot)
    if not proposal.begins_timestamps:
        return _time_of(log, snapshot.version, holder)
    found = list_log(holder.storage, holder.log_directory, from_version=snapshot.version).commits
    return found[snapshot.version].modified_ms if snapshot.version in found else 0


def _time_of_winner(log: DeltaLog, winner: Commit, version: int, proposal: Proposal) -> int | None:
    """The time that a winner carries; where ours is the first that carries one, that of its file.

    Args:
        version: The winner's.
    """
    if winner.in_commit_timestamp is not None or not proposal.begins_timestamps:
        return winner.in_commit_timestamp
    found = list_log(log.storage, log.log_directory, from_version=version).commits
    return found[version].modified_ms if version in found else None


def _holder_of_commit(snapshot: Snapshot) -> Snapshot:
    """Whose log has the snapshot's commit: a base's, if its own does not begin before it."""
    holder = snapshot
    while holder.base is not None and snapshot.version <= holder.base.version:
        holder = holder.base
    return holder


def _time_of(log: DeltaLog, version: int, holder: Snapshot) -> int:
    """The time that the commit of a version carries, after which ours has to be."""
    commit = read_commit_if_there(holder.storage, holder.log_directory, version)
    if commit is None:
        _raise_if_cleaned_up(log, version + 1)
    if commit is None or commit.in_commit_timestamp is None:
        missing = "its commit file is gone" if commit is None else "it has no inCommitTimestamp"
        raise LogCorruptError(
            log.uri,
            f"version {version}",
            f"{missing}, and the table demands times that grow (delta.enableInCommitTimestamps)",
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
                f"its inCommitTimestamp is {time_before}, after which no time is left for another "
                "one; nothing was committed. Set delta.enableInCommitTimestamps to false",
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
    """The actions, with what they say of the version and of those before it.

    New files get ids for their rows, and metadata say from which version on commits carry their
    time.

    Source: PROTOCOL.md, "Writer Requirements for Row Tracking", "Writer Requirements for In-Commit
    Timestamps".
    """
    actions = proposal.actions
    if proposal.row_id_mark is not None:
        actions = assign_row_ids(actions, version, proposal.row_id_mark, table)
    if not proposal.begins_timestamps:
        return actions
    said = {
        IN_COMMIT_TIMESTAMP_VERSION.name: str(version),
        IN_COMMIT_TIMESTAMP_TIME.name: str(time_ms),
    }
    return tuple(
        replace(action, configuration={**action.configuration, **said})
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
    """What stands at the version after an attempt that did not plainly succeed.

    Args:
        failures: The failed attempts at this version; none: the last one was told that it exists.
    """
    for failed_reads in count(1):
        try:
            return read_commit(log.storage, log.log_directory, version)
        except FileNotFoundError:
            if failures:
                return None
            reason = "the store said that it exists, then that it does not"
            raise CommitStateUnknownError(log.uri, version, txn_id, reason) from None
        except StorageError as error:
            if failed_reads == _STORE_FAILURES or pace.elapsed_s() >= ends:
                raise CommitStateUnknownError(log.uri, version, txn_id, str(error)) from error
            _wait_after_failure(failed_reads, pace)
        except DeltaOpsError as error:
            raise CommitStateUnknownError(log.uri, version, txn_id, str(error)) from error
    raise AssertionError


def _max_failures(failures: Sequence[StorageError]) -> int:
    """How many failures in a row are the end: a disk that is full will be so in ten seconds."""
    return _REFUSALS if all(map(_rules_out_creation, failures)) else _STORE_FAILURES


def _raise_if_replaced(
    snapshot: Snapshot | None,
    failures: Sequence[StorageError],
    table: str,
    version: int,
    txn_id: str,
) -> None:
    """Give up where another table stands now: an attempt may have landed in the one that is gone,
    or land yet. A store that cannot tell at this moment is asked at the next attempt.
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
    """The error of a version that could not be created and is not there."""
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
    """The proposal as it stands after the winner, if that does not invalidate it."""
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

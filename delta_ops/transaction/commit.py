"""The commit loop.

Source: PROTOCOL.md, "Creation of New Log Entries".

Each turn tries to create the next version's file. Then, in this one place:

1. created: the commit is ours.
2. it exists and carries our `txnId`: an earlier attempt landed and its answer was lost; it is ours.
3. it exists and is another's: if it carries our txn the work is done; if it conflicts, stop; else
   the next version.
4. the store failed, and the file is not there: the same version again, a few times. Then stop: with
   the store's error where that rules out that the file can still appear (no space, no permission),
5. else, and where it cannot be said what is there, with an unknown outcome; no file is deleted.
"""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from delta_ops.clock import Clock
from delta_ops.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    DeltaOpsError,
    StorageError,
)
from delta_ops.events import CommitAttempted, OnEvent, RaceLost
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.commit_file import Commit, create_commit, read_commit
from delta_ops.protocol.actions import Action, CommitInfo
from delta_ops.transaction.conflicts import Footprint, find_conflict
from delta_ops.transaction.idempotency import TxnId, all_done

Sleep = Callable[[float], None]

_STORE_FAILURES = 3
_NOTHING_WAS_CREATED = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
}
_AFTER_A_LOSS_S = 0.01
_LONGEST_AFTER_A_LOSS_S = 0.1
_AFTER_A_FAILURE_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A commit that is ready but for its version."""

    actions: tuple[Action, ...]
    """Everything but commitInfo, in the order to be written."""
    info: Mapping[str, Any]
    """commitInfo without `timestamp` and `readVersion`."""
    txn_uuid: str
    """`commitInfo.txnId`: how we know our own commit again."""
    footprint: Footprint
    txns: tuple[TxnId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the loop ended."""

    version: int | None
    """None where `already_committed` by a commit whose file was cleaned up."""
    attempts: int
    already_committed: bool = False
    """A concurrent run committed the same txn; `version` is its commit."""
    actions: tuple[Action, ...] = ()
    """Those that stand in the commit, if it is ours."""
    winners: tuple[Commit, ...] = ()
    """The commits between the snapshot and ours, ascending."""


def commit_loop(
    log: DeltaLog,
    snapshot: Snapshot | None,
    proposal: Proposal,
    *,
    clock: Clock,
    on_event: OnEvent,
    max_attempts: int,
    sleep: Sleep = time.sleep,
) -> Outcome:
    """Commit the proposal after `snapshot`, or as version 0 where there is none.

    Raises:
        CommitConflictError: A commit that came first invalidates it, or `max_attempts` were lost.
        CommitStateUnknownError: See case 5.
        InvalidRequestError: A part of the proposal's txns was committed meanwhile.
        StaleRunError: A newer run has overwritten what this one was about to write.
        StorageError: See case 4.
    """
    version = 0 if snapshot is None else snapshot.version + 1
    failures = 0
    winners: list[Commit] = []
    for attempt in range(1, max_attempts + 1):
        on_event(CommitAttempted(table=log.uri, version=version, attempt=attempt))
        failure: StorageError | None = None
        actions = _stamped(proposal, snapshot, clock())
        try:
            create_commit(log.storage, log.log_directory, version, actions)
        except FileExistsError:
            pass
        except StorageError as error:
            failure = error
        else:
            return Outcome(
                version=version, attempts=attempt, actions=actions, winners=tuple(winners)
            )

        winner = _read_back(log, version, proposal.txn_uuid, failure)
        if winner is None:
            failures += 1
            assert failure is not None
            if failures >= _STORE_FAILURES:
                raise _final(failure, log.uri, version, proposal.txn_uuid)
            sleep(_jitter_s(_AFTER_A_FAILURE_S * 2**failures))
            continue
        if winner.txn_id == proposal.txn_uuid:
            assert winner.info
            landed = (winner.info, *proposal.actions)
            return Outcome(
                version=version, attempts=attempt, actions=landed, winners=tuple(winners)
            )
        on_event(RaceLost(table=log.uri, version=version))
        if _carries(winner, proposal.txns, log.uri):
            return Outcome(version=version, attempts=attempt, already_committed=True)
        _raise_if_conflicting(log, winner, proposal, snapshot)
        winners.append(winner)
        version += 1
        # Each version that is read brings a loser closer to the log's end: a short wait will do.
        sleep(_jitter_s(min(_AFTER_A_LOSS_S * attempt, _LONGEST_AFTER_A_LOSS_S)))
    raise CommitConflictError(
        log.uri, version - 1, f"{max_attempts} attempts were lost to other writers"
    )


def _stamped(proposal: Proposal, snapshot: Snapshot | None, now_ms: int) -> tuple[Action, ...]:
    info: dict[str, Any] = {"timestamp": now_ms, **proposal.info}
    if snapshot is not None:
        info["readVersion"] = snapshot.version
    return (CommitInfo(values={**info, "txnId": proposal.txn_uuid}), *proposal.actions)


def _read_back(
    log: DeltaLog, version: int, txn_uuid: str, failure: StorageError | None
) -> Commit | None:
    """What stands at the version after an attempt that did not plainly succeed."""
    try:
        return read_commit(log.storage, log.log_directory, version)
    except FileNotFoundError:
        if failure is not None:
            return None
        reason = "the store said that it exists, then that it does not"
        raise CommitStateUnknownError(log.uri, version, txn_uuid, reason) from None
    except DeltaOpsError as error:
        raise CommitStateUnknownError(log.uri, version, txn_uuid, str(error)) from error


def _final(failure: StorageError, table: str, version: int, txn_uuid: str) -> Exception:
    cause = failure.__cause__
    if isinstance(cause, OSError) and cause.errno in _NOTHING_WAS_CREATED:
        return failure
    error = CommitStateUnknownError(table, version, txn_uuid, str(failure))
    error.__cause__ = failure
    return error


def _carries(winner: Commit, txns: Sequence[TxnId], table: str) -> bool:
    stored = {txn.app_id: txn for txn in winner.transactions}
    return all_done(txns, stored, table=table)


def _raise_if_conflicting(
    log: DeltaLog, winner: Commit, proposal: Proposal, snapshot: Snapshot | None
) -> None:
    if snapshot is None:
        raise CommitConflictError(log.uri, winner.version, "created the table")
    conflict = find_conflict(winner, proposal.footprint, snapshot)
    if conflict is not None:
        raise CommitConflictError(log.uri, conflict.version, conflict.reason)


def _jitter_s(longest: float) -> float:
    return random.uniform(0, longest)  # noqa: S311  (jitter, not a secret)

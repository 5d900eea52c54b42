"""Ended refs: ends expired branches and sessions, and deletes what is left of ended ones.

1. A branch ends by an entry in the journal of refs. A commit or publication that is running notices
   that the branch was deleted.
2. A session ends by `end.json`, and then by an entry in the journal. If `end.json` says that the
   session is being committed, it stays until the outcome is certain: its commit is on main, or a
   conflict was recorded.
3. Data files stay until a vacuum finds that they are old enough.
"""

from __future__ import annotations

from delta_ops.clock import Clock
from delta_ops.errors import SessionEndedError, TableBusyError
from delta_ops.log import DeltaLog
from delta_ops.log.refs.branches import BRANCHES_DIRECTORY
from delta_ops.log.refs.journal import Change
from delta_ops.log.refs.refs import Refs, refs_journal
from delta_ops.log.refs.session_files import End, Failure, record_failure
from delta_ops.log.session_place import SESSIONS_DIRECTORY
from delta_ops.option_words import option
from delta_ops.storage import Storage
from delta_ops.versioning.branches import drop_branch
from delta_ops.versioning.lifetime import delete_directories_of_deleted, is_over
from delta_ops.versioning.session_state import SessionState, load_state


def end_expired_refs(log: DeltaLog, clock: Clock) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """End the branches and sessions that expired a day ago or earlier.

    Returns:
        The names of the branches, and the ids of the sessions.

    Raises:
        LogCorruptError, UnsupportedFeatureError, StorageError: As `Journal.append`.
    """
    return _delete_expired_branches(log.storage, clock), _end_expired_sessions(log, clock)


def delete_files_of_ended_refs(storage: Storage, horizon_ms: int) -> None:
    """Delete the logs of branches and sessions that the journal of refs lacks, except young logs.

    Args:
        horizon_ms: As for `delete_directories_of_deleted`.

    Raises:
        LogCorruptError, UnsupportedFeatureError: As `Journal.load`.
        StorageError: The store failed.
    """
    delete_directories_of_deleted(
        storage, BRANCHES_DIRECTORY, lambda refs: refs.branches, horizon_ms
    )
    delete_directories_of_deleted(
        storage, SESSIONS_DIRECTORY, lambda refs: refs.sessions, horizon_ms
    )


def _delete_expired_branches(storage: Storage, clock: Clock) -> tuple[str, ...]:
    deleted: list[str] = []

    def decide(refs: Refs) -> Change[Refs] | None:
        now_ms = clock()
        expired = [each for each in refs.branches.values() if is_over(each.expires_ms, now_ms)]
        deleted[:] = sorted(each.name for each in expired)
        for each in expired:
            refs = drop_branch(refs, each)
        text = f"delete expired branches {', '.join(deleted)}"
        return Change(state=refs, text=text) if expired else None

    refs_journal(storage).append(decide, clock)
    return tuple(deleted)


def _end_expired_sessions(log: DeltaLog, clock: Clock) -> tuple[str, ...]:
    sessions = refs_journal(log.storage).load().state.sessions.values()
    ended: list[str] = []
    for session in sessions:
        if not is_over(session.expires_ms, clock()):
            continue
        state = SessionState(log=log.main, session=session)
        end = state.decide_end("expire", clock)
        if end.decision == "commit" and not _is_settled(state, end):
            continue
        if state.forget("expired", clock):
            ended.append(session.id)
    return tuple(sorted(ended))


def _is_settled(state: SessionState, end: End) -> bool:
    """Whether no call can commit the session any more."""
    return (
        state.read_failure() is not None
        or state.landed_version() is not None
        or state.find_txn(end.txn) is not None
    )


def abandon_session(state: SessionState, clock: Clock, *, committer_was_killed: bool) -> None:
    """End a session without a commit; raises as `WriteSession.abandon`."""
    again: SessionState | None = state
    while again is not None:
        end = again.decide_end("abandon", clock)
        if end.decision == "commit":
            _validate_not_committed(again, end, committer_was_killed=committer_was_killed)
        if again.forget("abandoned", clock):
            return
        again = load_state(again.log, again.session.id)  # a rebase was first


def _validate_not_committed(state: SessionState, end: End, *, committer_was_killed: bool) -> None:
    log, session = state.log, state.session
    landed = state.landed_version()
    if landed is not None:
        raise SessionEndedError(
            log.uri,
            session.id,
            f"was committed as version {landed}",
            "Revert that version if its rows are not wanted",
        )
    if state.read_failure() is not None or state.find_txn(end.txn) is not None:
        return
    if not committer_was_killed:
        raise TableBusyError(
            log.uri,
            f"a commit of session {session.id} has begun, and its outcome is not known",
            "Repeat commit() to finish it. Or abandon the session with "
            f"{option('committer_was_killed')} if the process that committed it has ended",
        )
    failure = Failure(
        version=session.base_version, reason=f"session {session.id} was abandoned", kind=""
    )
    record_failure(log.storage, state.directory, failure)

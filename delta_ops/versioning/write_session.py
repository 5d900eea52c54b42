"""Write session: the handle of a session, for its writers and for the commit.

Each writer forks the session, and gets a handle that every verb accepts as the table. See
`log.refs.sessions` for how the rows add up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

import msgspec

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import InvalidRequestError, SessionEndedError
from delta_ops.events import OnEvent, ignore
from delta_ops.log import DeltaLog, Snapshot, TableOrPlace
from delta_ops.log.refs.refs import time_by
from delta_ops.log.refs.session_files import END, ForkBegin, Generation, ended_error
from delta_ops.log.refs.sessions import Fork
from delta_ops.log.session_place import ForkPlace, step_name
from delta_ops.storage.own_files import create_own
from delta_ops.transaction import DEFAULT_HOOKS, Hook
from delta_ops.transaction.idempotency import txn_of
from delta_ops.versioning.ended_refs import abandon_session
from delta_ops.versioning.session_commit import SessionCommit, SessionResult, find_result
from delta_ops.versioning.session_rebase import SessionRebase
from delta_ops.versioning.session_state import SessionState, find_session_commit, load_state
from delta_ops.versioning.session_token import SessionToken, new_id

MOST_CHARACTERS = 500
"""Characters of the name of a session or a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStep:
    """The rows of one step of a session.

    Examples:
        >>> session = begin_session("lake/orders")
        >>> _ = da.delete(session.fork("clean"), col("id") == 1)
        >>> [(each.step, each.attempt) for each in session.steps()]
        [('clean', 1)]
    """

    step: str
    attempt: int
    operations: tuple[str, ...]
    """The operations of its fragments, such as `WRITE`."""
    added_files: int
    removed_files: int
    added_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatus:
    """The state of a session.

    Examples:
        >>> begin_session("lake/orders").status().state
        'open'
    """

    state: Literal["open", "committing", "conflict", "rebasing", "ended"]
    """`committing`, `rebasing`: a call has begun and not finished; repeat it. `conflict`: only a
    rebased session can be committed. `ended`: it was abandoned or has expired, and its entry is
    about to go."""
    reason: str | None = None
    """Why it cannot be committed, as a sentence without a full stop."""


class WriteSession:
    """A session; from `begin_session` or `open_session`. It can be pickled and used by threads.

    Examples:
        >>> session = begin_session("lake/orders")
        >>> _ = da.delete(session.fork("clean"), col("id") == 1)
        >>> session.commit().version
        1
    """

    def __init__(self, log: DeltaLog, token: SessionToken, *, clock: Clock = system_clock) -> None:
        self._log, self._token, self._clock = log, token, clock
        self._last: SessionState | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Omit what was read of the session."""
        return {**vars(self), "_last": None}

    def __repr__(self) -> str:
        return f"WriteSession({self._log.uri!r}, {self.id!r})"

    @property
    def id(self) -> str:
        """The id of the session."""
        return self._token.session

    @property
    def token(self) -> str:
        """JSON without secrets. `open_session` opens the session with it, in another process."""
        return self._token.text

    @property
    def ref(self) -> str:
        """The rows of the session, as a `ref` of every function that reads."""
        return f"session:{self.id}"

    def _state(self) -> SessionState:
        """The session as the journal has it; keeps what was read of it.

        Raises:
            SessionEndedError: It has ended.
        """
        state = load_state(self._log, self.id)
        if state is None:
            version = find_session_commit(self._log, self.id, self._token.base_version)
            raise SessionEndedError(
                self._log.uri,
                self.id,
                "was abandoned, had nothing to commit, or has expired"
                if version is None
                else f"was committed as version {version}",
                "Begin another session",
            )
        if self._last is not None and self._last.session == state.session:
            return self._last
        self._last = state
        return state

    def _look(self) -> tuple[SessionState, dict[int, Generation]]:
        """The session and its files.

        A session ends or is rebased only after `end.json` was created. So as long as there is none,
        what was read of the journal is still true.

        Raises:
            SessionEndedError: It has ended.
        """
        if self._last is not None:
            listed = self._last.reader.look()
            current = listed.get(self._last.session.generation, Generation())
            if current.forks and END not in current.files:
                return self._last, listed
        state = self._state()
        return state, state.reader.look()

    def snapshot(self) -> Snapshot:
        """Open the table with the rows of all writers so far.

        Raises:
            SessionConflictError: Two steps contradict each other.
            SessionEndedError: The session has ended.
            VersionNotFoundError: The base version cannot be read.
            LogCorruptError, StorageError: The session cannot be read.

        Examples:
            >>> session = begin_session("lake/orders")
            >>> _ = da.delete(session.fork("clean"), col("id") == 1)
            >>> da.count_rows(session.snapshot()), da.count_rows("lake/orders", ref=session.ref)
            (2, 2)
        """
        return self._state().load_snapshot()

    def status(self) -> SessionStatus:
        """Find out whether the session takes rows.

        Raises:
            SessionEndedError: The session has ended.
            LogCorruptError, StorageError: The session cannot be read.
        """
        state = self._state()
        end = state.read_end()
        if end is None:
            return SessionStatus(state="open")
        if end.decision == "rebase":
            return SessionStatus(state="rebasing")
        if end.decision != "commit":
            return SessionStatus(state="ended")
        failure = state.read_failure()
        if failure is None:
            return SessionStatus(state="committing")
        return SessionStatus(state="conflict", reason=failure.reason)

    def steps(self) -> list[SessionStep]:
        """The steps whose rows count, in the order of the session.

        Raises:
            SessionEndedError: The session has ended.
            LogCorruptError, StorageError: The session cannot be read.

        Examples:
            >>> session = begin_session("lake/orders")
            >>> _ = da.delete(session.fork("clean"), col("id") == 1)
            >>> [(each.step, each.attempt, each.operations) for each in session.steps()]
            [('clean', 1, ('DELETE',))]
        """
        return [_describe_fork(each) for each in self._state().load_forks()]

    def fork(self, step: str | None = None, *, attempt: int | None = None) -> DeltaLog:
        """Begin an attempt of a step: a handle that every verb accepts as the table.

        The handle sees the rows that other steps have written until this moment, and its own. Its
        commits are the rows of the step. An earlier attempt of the step no longer counts. Several
        writers need one handle each, and a name each.

        Args:
            step: The name of the step, which a repetition of the step uses again. A random name if
                None.
            attempt: The number of the attempt, greater than that of earlier attempts; the next
                number if None.

        Raises:
            InvalidRequestError: The attempt was begun already, or a later one was.
            SessionEndedError: The session has ended, or expired.
            VersionNotFoundError: The base version cannot be read.
            LogCorruptError, StorageError: The session cannot be read, or the store failed.

        Examples:
            >>> session = begin_session("lake/orders")
            >>> rows = da.to_table("lake/orders")
            >>> _ = da.write(session.fork("load"), rows)  # fails later, and is retried
            >>> _ = da.write(session.fork("load"), rows)
            >>> da.count_rows(session.snapshot())
            6
        """
        validate_arguments(WriteSession.fork, locals())
        name = f"step {new_id()}" if step is None else step
        if not name or len(name) > MOST_CHARACTERS:
            raise InvalidRequestError(
                f"{name[:50]!r} cannot name a step; give 1 to {MOST_CHARACTERS} characters"
            )
        state, listed = self._look()
        if state.session.expires_ms <= self._clock():
            raise state.expired_error()
        self._validate_open(state, listed.get(state.session.generation, Generation()))
        # An earlier attempt of this step no longer counts from here on.
        forks = [each for each in state.reader.load(listed) if each.place.step != step_name(name)]
        seen = state.rows.snapshot(forks)
        begun = {
            place.attempt
            for generation in listed.values()
            for place in generation.forks.values()
            if place.step == step_name(name)
        }
        _validate_attempt(attempt, max(begun, default=0), name, self._log.uri)
        for number in count(max(begun, default=0) + 1) if attempt is None else (attempt,):
            place = ForkPlace(self.id, state.session.generation, step_name(name), number)
            begin = ForkBegin(
                id=new_id(),
                step=name,
                attempt=number,
                saw={each.key: each.last_version for each in forks if each.fragments},
                after_version=seen.version,
                begun_ms=time_by(self._clock),
            )
            data = msgspec.json.encode(begin)
            if create_own(self._log.storage, place.fork_file, data):
                return self._log.on_fork(place, seen)
        raise InvalidRequestError(
            f"{self._log.uri}: attempt {attempt} of step {name!r} was begun by another writer; "
            "give a later attempt"
        )

    def _validate_open(self, state: SessionState, listed: Generation) -> None:
        if END not in listed.files:
            return
        end = state.read_end()
        if end is not None and end.decision == "rebase":
            raise SessionEndedError(
                self._log.uri, self.id, "has a rebase that was not finished", "Repeat rebase()"
            )
        raise ended_error(self._log.uri, self.id, end.decision if end else "abandon")

    def commit(
        self,
        *,
        expected_steps: Collection[str] | None = None,
        depends_on: Mapping[TableOrPlace, int] | None = None,
        txn: tuple[str, int] | None = None,
        user_metadata: str | None = None,
        hooks: Sequence[Hook] = DEFAULT_HOOKS,
        on_event: OnEvent = ignore,
    ) -> SessionResult:
        """Commit the rows of all writers to main, in one commit or not at all.

        The call reads and writes no data. The session then takes no more rows. A second call does
        nothing, in any process.

        Args:
            expected_steps: Commit only if exactly these steps have written. A step that has begun
                and has written nothing counts as missing, because it may have failed.
            depends_on: Versions by table that steps have read: commit only if these tables have got
                no other rows, columns or properties since.
            txn: An application id and a version: commit only if the table does not hold this txn,
                so that another session with the same rows is not committed too. If the table holds
                it, the session ends, and the result names the version that has the txn.
            user_metadata: Any text, kept in commitInfo.
            hooks: Steps after the commit.

        Raises:
            SessionConflictError: Commits of main contradict what the writers read, two steps
                contradict each other, or a table of `depends_on` has moved. Nothing was committed.
            InvalidRequestError: Other steps have written than expected, the change data feed cannot
                show the rows as one commit, or an earlier call has begun the commit with another
                txn.
            SessionEndedError: The session was abandoned or rebased, or has expired.
            CommitStateUnknownError: The store did not report whether the commit exists. Repeat the
                call.
            TableReplacedError: The table was deleted or replaced.
            LogCorruptError, StorageError: The store failed. Repeat the call.

        Examples:
            >>> session = begin_session("lake/orders")
            >>> _ = da.write(session.fork("load"), da.to_table("lake/orders"))
            >>> result = session.commit(expected_steps=["load"])
            >>> result.version, result.steps, session.commit().already_committed
            (1, ('load',), True)
        """
        validate_arguments(WriteSession.commit, locals())
        checked = None if txn is None else _checked_txn(txn)
        try:
            state = self._state()
        except SessionEndedError:
            result = find_result(self._log, self._token, checked)
            if result is None:
                raise
            return result
        return SessionCommit(
            state=state,
            expected_steps=expected_steps,
            depends_on=depends_on or {},
            txn=checked,
            user_metadata=user_metadata,
            hooks=hooks,
            clock=self._clock,
            on_event=on_event,
        ).run()

    def abandon(self, *, committer_was_killed: bool = False) -> None:
        """End the session without a commit; a full vacuum later deletes its files.

        Args:
            committer_was_killed: Also abandon a session whose commit has begun and has no outcome,
                because the process that committed it has ended.

        Raises:
            SessionEndedError: The session was committed.
            TableBusyError: A commit has begun, and its outcome is not known.
            StorageError: The store failed. Repeat the call.

        Examples:
            >>> session = begin_session("lake/orders")
            >>> _ = da.write(session.fork("load"), da.to_table("lake/orders"))
            >>> session.abandon()
            >>> da.count_rows("lake/orders"), list_sessions("lake/orders")
            (3, [])
        """
        validate_arguments(WriteSession.abandon, locals())
        state = load_state(self._log, self.id)
        if state is not None:
            abandon_session(state, self._clock, committer_was_killed=committer_was_killed)
        elif find_session_commit(self._log, self.id, self._token.base_version) is not None:
            self._state()

    def rebase(self, *, drop_steps: Collection[str] = ()) -> None:
        """Move the session to the latest version of main, after a conflict or to see new rows.

        Handles from `fork` then take no more rows; fork the session again. The token stays valid.

        Args:
            drop_steps: Steps that are left out, because they contradict new commits of main. Run
                them again afterwards.

        Raises:
            SessionConflictError: Steps contradict new commits of main; the error names them.
            InvalidRequestError: There is no such step.
            SessionEndedError: The session has ended, or expired.
            TableBusyError: A commit has begun, and its outcome is not known.
            StorageError: The store failed. Repeat the call.

        Examples:
            >>> session = begin_session("lake/orders")
            >>> rows = da.to_table("lake/orders")
            >>> _ = da.write(session.fork("load"), rows)
            >>> _ = da.write("lake/orders", rows)
            >>> session.rebase()
            >>> da.count_rows(session.snapshot())
            9
        """
        validate_arguments(WriteSession.rebase, locals())
        SessionRebase(state=self._state(), drop_steps=drop_steps, clock=self._clock).run()


def _validate_attempt(attempt: int | None, newest: int, step: str, table: str) -> None:
    if attempt is None:
        return
    if not 1 <= attempt < 10**10:
        raise InvalidRequestError(f"{table}: attempt {attempt} of step {step!r} must be at least 1")
    if attempt <= newest:
        raise InvalidRequestError(
            f"{table}: attempt {newest} of step {step!r} has begun, so attempt {attempt} cannot "
            "begin; give a later attempt"
        )


def _checked_txn(txn: tuple[str, int]) -> tuple[str, int]:
    checked = txn_of(txn)
    return checked.app_id, checked.version


def _describe_fork(fork: Fork) -> SessionStep:
    return SessionStep(
        step=fork.step,
        attempt=fork.begin.attempt,
        operations=tuple(each.operation or "" for each in fork.fragments),
        added_files=sum(len(each.adds) for each in fork.fragments),
        removed_files=sum(len(each.removes) for each in fork.fragments),
        added_bytes=sum(sum(each.adds["size"].to_pylist()) for each in fork.fragments),
    )

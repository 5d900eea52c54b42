"""Session state: a session as the journal of refs and its own files show it at one moment."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from delta_ops.clock import Clock
from delta_ops.errors import SessionEndedError
from delta_ops.lazy import lazy
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.refs.journal import Change
from delta_ops.log.refs.refs import Refs, Session, refs_journal, time_by
from delta_ops.log.refs.session_files import (
    Decision,
    End,
    Failure,
    decide_end,
    ended_error,
    read_end,
    read_failure,
)
from delta_ops.log.refs.sessions import Fork, SessionReader, SessionRows
from delta_ops.log.session_place import generation_directory
from delta_ops.protocol.actions import AddFile
from delta_ops.transaction.commit.session_conflicts import validate_forks
from delta_ops.transaction.idempotency import result_if_done, txn_of
from delta_ops.transaction.result import CommitResult
from delta_ops.versioning.landed_commit import find_landed
from delta_ops.versioning.session_token import new_id

SESSION_ONLY = "delta_ops.sessionOnly"
"""Tag of an add action whose file must not be committed to main; its value says what is in it."""


@dataclass(kw_only=True)
class SessionState:
    """A session that the journal has, and what was read of it."""

    log: DeltaLog
    """The table's own log."""
    session: Session
    reader: SessionReader = field(init=False)

    def __post_init__(self) -> None:
        self.reader = SessionReader(storage=self.log.storage, session=self.session)

    @property
    def directory(self) -> str:
        """The directory of the current generation."""
        return generation_directory(self.session.id, self.session.generation)

    @lazy
    def base(self) -> Snapshot:
        """The base version.

        Raises:
            VersionNotFoundError: It cannot be read, or belongs to another table.
        """
        return self.log.open_session_base(self.session)

    @lazy
    def rows(self) -> SessionRows:
        """The rows of the session; raises as `base`."""
        return SessionRows(base=self.base, session=self.session)

    def load_forks(self) -> tuple[Fork, ...]:
        """The forks that count at this moment, in order."""
        return self.reader.load(self.reader.look())

    def load_snapshot(self) -> Snapshot:
        """The table with the rows of the session at this moment.

        Raises:
            SessionConflictError: The forks contradict each other.
        """
        forks = self.load_forks()
        validate_forks(self.base, self.session, forks)
        return self.rows.snapshot(forks)

    def read_end(self) -> End | None:
        """How the current generation has ended; None if it has not."""
        return read_end(self.log.storage, self.directory)

    def read_failure(self) -> Failure | None:
        """The conflict of the current generation with main; None if there is none."""
        return read_failure(self.log.storage, self.directory)

    def decide_end(
        self, decision: Decision, clock: Clock, txn: tuple[str, int] | None = None
    ) -> End:
        """End the current generation, unless it has ended; returns the decision that counts.

        Args:
            txn: The txn of a commit.
        """
        end = End(id=new_id(), decision=decision, ended_ms=time_by(clock), txn=txn)
        return decide_end(self.log.storage, self.directory, end)

    def landed_version(self) -> int | None:
        """The version of main that has the session; None if there is none."""
        return find_session_commit(self.log, self.session.id, self.session.base_version)

    def find_txn(self, txn: tuple[str, int] | None) -> CommitResult | None:
        """The commit of a txn to main; None without a txn, or if the table does not hold it."""
        return None if txn is None else find_txn(self.log, self.session.table_id, txn)

    def forget(self, outcome: str, clock: Clock) -> bool:
        """Delete the session from the journal of refs, after its end was decided.

        Args:
            outcome: For people who read the journal, such as `abandoned`.

        Returns:
            Whether the session is gone. A rebase may have begun another generation.
        """

        def decide(refs: Refs) -> Change[Refs] | None:
            known = refs.sessions.get(self.session.id)
            if known is None or known.generation != self.session.generation:
                return None
            left = {key: each for key, each in refs.sessions.items() if key != self.session.id}
            return Change(
                state=replace(refs, sessions=left), text=f"end session {self.session.id}: {outcome}"
            )

        entry = refs_journal(self.log.storage).append(decide, clock)
        return self.session.id not in entry.state.sessions

    def expired_error(self) -> SessionEndedError:
        """The error for a session that has expired and was not ended yet."""
        return ended_error(self.log.uri, self.session.id, "expire")


def find_txn(log: DeltaLog, table_id: str, txn: tuple[str, int]) -> CommitResult | None:
    """The commit of a txn to main, by any writer; None if the table does not hold the txn.

    Args:
        table_id: `metaData.id` of the table.
    """
    latest = log.main.snapshot_if_exists()
    if latest is None or latest.metadata.id != table_id:
        return None
    return result_if_done(log.main, latest, [txn_of(txn)])


def load_state(log: DeltaLog, session_id: str) -> SessionState | None:
    """Load a session from the journal of refs; None if the journal does not have it.

    Raises:
        LogCorruptError, UnsupportedFeatureError, StorageError: As `Journal.load`.
    """
    session = refs_journal(log.storage).load().state.sessions.get(session_id)
    return None if session is None else SessionState(log=log.main, session=session)


def find_session_commit(log: DeltaLog, session_id: str, base_version: int) -> int | None:
    """The version of main that a session committed, also if the session is not in the journal.

    Args:
        base_version: A base version of the session; earlier commits are not read.
    """
    return find_landed(log.main, session_txn_id(session_id), after_version=base_version)


def session_txn_id(session_id: str) -> str:
    """`commitInfo.txnId` of the commit of a session."""
    return str(uuid.uuid5(uuid.UUID(session_id), "commit session"))


def staged_content(files: Iterable[AddFile]) -> str | None:
    """The content of files that must not be committed to main; None without such a file."""
    found = ((each.tags or {}).get(SESSION_ONLY) for each in files)
    return next((each for each in found if each is not None), None)


def names_of(steps: Sequence[str]) -> str:
    """Names of steps for a message, at most five."""
    shown = ", ".join(repr(each) for each in steps[:5])
    return f"{shown} and {len(steps) - 5} more" if len(steps) > 5 else shown

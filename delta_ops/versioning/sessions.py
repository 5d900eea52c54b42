"""Sessions: rows of several writers that become one commit, or nothing.

A session costs one entry in the journal of refs. `write_session` has the handle of its writers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import InvalidRequestError, SessionTokenError
from delta_ops.log import DeltaLog, TableOrPlace, log_of
from delta_ops.log.refs.journal import Change
from delta_ops.log.refs.refs import Refs, Session, load_refs, refs_journal, time_by
from delta_ops.log.refs.session_files import ended_error
from delta_ops.log.refs.sessions import find_session
from delta_ops.log.refs.side_logs import is_side_log
from delta_ops.option_words import option
from delta_ops.transaction.branch_rules import validate_branchable
from delta_ops.versioning.lifetime import given_life_ms, safe_life, validate_life
from delta_ops.versioning.session_rebase import put_session
from delta_ops.versioning.session_token import is_id, new_id, parse_token, token_of
from delta_ops.versioning.version_to_keep import VersionToKeep
from delta_ops.versioning.write_session import MOST_CHARACTERS, WriteSession

LONGEST_LIFE = timedelta(days=7)


def begin_session(
    table: TableOrPlace,
    *,
    expires_in: timedelta = timedelta(hours=24),
    enforce_retention: bool = True,
    clock: Clock = system_clock,
) -> WriteSession:
    """Begin a session on the latest version: its writers' rows become one commit, or none.

    Vacuum and log clean-up of delta_ops keep the files of the session. A vacuum of another engine
    does not know sessions. After its expiry, a session takes no more rows, and the next vacuum of
    delta_ops ends it.

    Args:
        table: A table's location or handle.
        expires_in: Lifetime of the session, at least a minute and at most 7 days.
        enforce_retention: Reject a lifetime that ends less than a day before a vacuum of another
            engine may delete files of the session, see `delta.deletedFileRetentionDuration`.
        clock: Milliseconds since the Unix epoch.

    Raises:
        InvalidRequestError: The session would live too long, the table has row tracking or identity
            columns, or the handle is of a branch or session.
        TableNotFoundError: There is no table here.
        TableReplacedError: The table was deleted, or another table is in its place.
        UnsupportedFeatureError: The table uses a feature that we cannot write, or a later version
            of delta_ops wrote the refs of the table.
        StorageError: The store failed. The session may exist, and expires.

    Examples:
        >>> session = begin_session("lake/orders")
        >>> rows = da.to_table("lake/orders")
        >>> _ = da.write(session.fork("load a"), rows)
        >>> _ = da.write(session.fork("load b"), rows)
        >>> da.count_rows("lake/orders"), da.count_rows(session.snapshot())
        (3, 9)
        >>> session.commit().version
        1
    """
    validate_arguments(begin_session, locals())
    beginning = _Beginning(
        log=_log_of_main(table),
        expires_in=expires_in,
        enforce_retention=enforce_retention,
        clock=clock,
    )
    return beginning.run()


def join_session(
    table: TableOrPlace,
    name: str,
    *,
    expires_in: timedelta = timedelta(hours=24),
    enforce_retention: bool = True,
    clock: Clock = system_clock,
) -> WriteSession:
    """Open the session with a name, or begin it: for writers that cannot pass a token on.

    If several processes call this at once, one of them begins the session, and the others open it.
    After the session was committed or abandoned, or has expired, the name begins another session.

    Args:
        table: A table's location or handle.
        name: Such as the id of the run that the writers belong to.
        expires_in: Lifetime of a session that this call begins, at most 7 days.
        enforce_retention: As for `begin_session`.
        clock: Milliseconds since the Unix epoch.

    Raises:
        InvalidRequestError: The name is empty or too long, or the session cannot begin.
        TableNotFoundError, TableReplacedError, UnsupportedFeatureError, StorageError: As
            `begin_session`.

    Examples:
        >>> one, two = (join_session("lake/orders", "nightly 2026-11-30") for _ in range(2))
        >>> one.id == two.id
        True
    """
    validate_arguments(join_session, locals())
    log = _log_of_main(table)
    if not 1 <= len(name) <= MOST_CHARACTERS:
        raise InvalidRequestError(
            f"{name[:50]!r} cannot name a session; give 1 to {MOST_CHARACTERS} characters"
        )
    refs = refs_journal(log.storage).load().state
    known = _session_named(refs, name, after_ms=time_by(clock))
    if known is not None:
        return WriteSession(log, token_of(known), clock=clock)
    beginning = _Beginning(
        log=log,
        expires_in=expires_in,
        enforce_retention=enforce_retention,
        clock=clock,
        name=name,
    )
    return beginning.run()


def find_named_session(
    log: DeltaLog, name: str, *, clock: Clock = system_clock
) -> WriteSession | None:
    """The latest session with a name, which may have expired; None if all were ended."""
    session = _session_named(refs_journal(log.storage).load().state, name)
    return None if session is None else WriteSession(log.main, token_of(session), clock=clock)


def _log_of_main(table: TableOrPlace) -> DeltaLog:
    log = log_of(table)
    if is_side_log(log.log_directory):
        raise InvalidRequestError(
            f"{log.uri}: the handle is of a branch or a session, and a session is committed to "
            "main; begin it on the table itself"
        )
    return log


def _session_named(refs: Refs, name: str, *, after_ms: int = 0) -> Session | None:
    """The latest session with a name that expires after a time; one that has expired stays here."""
    found = [
        each for each in refs.sessions.values() if each.name == name and each.expires_ms > after_ms
    ]
    return max(found, key=lambda each: each.created_ms, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beginning:
    """The beginning of a session; `begin_session` and `join_session` document the fields."""

    log: DeltaLog
    expires_in: timedelta
    enforce_retention: bool
    clock: Clock
    name: str | None = None

    def run(self) -> WriteSession:
        """Begin the session; open it if another process has begun a session of this name."""
        log = self.log
        life_ms = given_life_ms(self.expires_in, "a session")
        if self.expires_in > LONGEST_LIFE:
            raise InvalidRequestError(
                f"a session lives for at most {LONGEST_LIFE.days} days, not for "
                f"{self.expires_in}: give a shorter {option('expires_in')}, or use a branch for "
                "longer work"
            )
        snapshot = log.snapshot()
        kept = VersionToKeep(log=log, snapshot=snapshot, verb="begin a session at")
        validate_branchable(snapshot.definition, table=log.uri)
        now_ms = time_by(self.clock)
        safe = safe_life(log, snapshot, is_latest=True, now_ms=now_ms)
        life_ms = validate_life(
            life_ms, safe, snapshot, "a session", enforce=self.enforce_retention
        )
        session = Session(
            id=new_id(),
            base_version=snapshot.version,
            table_id=snapshot.metadata.id,
            created_ms=now_ms,
            expires_ms=time_by(lambda: now_ms + life_ms),
            name=self.name,
            txn_id=snapshot.txn_id,
        )

        def decide(refs: Refs) -> Change[Refs] | None:
            if self.name is not None and _session_named(refs, self.name, after_ms=now_ms):
                return None
            kept.validate_kept(refs)
            return Change(
                state=put_session(refs, session),
                text=f"begin session {session.id} at version {session.base_version}",
            )

        refs = refs_journal(log.storage).append(decide, self.clock).state
        begun = refs.sessions.get(session.id) or _session_named(refs, self.name or "")
        assert begun is not None
        return WriteSession(log, token_of(begun), clock=self.clock)


def open_session(table: TableOrPlace, token: str, *, clock: Clock = system_clock) -> WriteSession:
    """Open a session that another process began.

    Args:
        table: The same table, as a location or handle.
        token: `WriteSession.token`. Or the id of a session from `list_sessions`; an expired session
            can be opened by its id.
        clock: Milliseconds since the Unix epoch.

    Raises:
        SessionTokenError: The token was damaged, or belongs to another table.
        SessionEndedError: The session has expired.
        VersionNotFoundError: There is no session of this id.
        TableNotFoundError: There is no table here.
        StorageError: The store failed.

    Examples:
        >>> token = begin_session("lake/orders").token
        >>> session = open_session("lake/orders", token)
        >>> da.write(session.fork("load"), da.to_table("lake/orders")).version
        1
        >>> session.commit().added_files
        1
    """
    validate_arguments(open_session, locals())
    log = log_of(table).main
    if is_id(token):
        return WriteSession(log, token_of(find_session(log.storage, token)), clock=clock)
    parsed = parse_token(token)
    session = refs_journal(log.storage).load().state.sessions.get(parsed.session)
    table_id = session.table_id if session else log.snapshot().metadata.id
    if parsed.table_id != table_id:
        raise SessionTokenError(
            f"{log.uri}: the token belongs to a session of another table; open the session on the "
            "table that it was begun on"
        )
    if parsed.expires_ms <= clock():
        raise ended_error(log.uri, parsed.session, "expire")
    return WriteSession(log, parsed, clock=clock)


def list_sessions(table: TableOrPlace, *, timestamp: str | date | None = None) -> list[Session]:
    """List the sessions of a table that have not ended, oldest first; expired sessions too.

    Args:
        table: A table's location or handle.
        timestamp: List the sessions of this time; UTC unless it has a zone.

    Raises:
        InvalidRequestError: The text is not a time.
        TableNotFoundError: There is no table here.
        VersionNotFoundError: The journal of refs does not go back to this time.
        LogCorruptError: The journal of refs is damaged.
        UnsupportedFeatureError: A later version of delta_ops wrote the refs of the table.
        StorageError: The store failed.

    Examples:
        >>> session = begin_session("lake/orders")
        >>> [each.id == session.id for each in list_sessions("lake/orders")]
        [True]
    """
    validate_arguments(list_sessions, locals())
    log = log_of(table)
    sessions = load_refs(log.storage, log.log_directory, timestamp).sessions.values()
    return sorted(sessions, key=lambda each: (each.created_ms, each.id))

"""Session commit: commits the rows of a session to main, in one commit.

1. Everything that can be rejected without ending the session is checked first. If the table holds
   the txn of the commit, there is nothing to reject and nothing to commit.
2. `end.json` decides that the session is committed. If the journal has the session after that, no
   clean-up has ended it before, and none will. `sealed.json` then fixes its fragments. From here on
   each call, of any process, commits the same fragments on the same base version.
3. The commit is prepared on the base version. The commit loop compares it with every commit that
   main received since, by the rows that the fragments read.
4. The `txnId` of the commit is computed from the session. If an earlier call was killed, or the
   store's answer was lost, this call finds the commit by its `txnId`.
5. A conflict is recorded in `failed.json`. Each other call would find the same conflict.
6. If another session commits the same txn at any time before, the session ends without a commit. No
   call commits it later, because each finds the txn first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow.compute as pc

from delta_ops.clock import Clock
from delta_ops.errors import CommitConflictError, InvalidRequestError, SessionConflictError
from delta_ops.events import OnEvent
from delta_ops.log import DeltaLog, TableOrPlace, log_of
from delta_ops.log.commit_file import Commit
from delta_ops.log.refs.session_files import (
    FAILED,
    SEALED,
    End,
    Failure,
    ended_error,
    list_generations,
    read_end,
    record_failure,
    seal,
)
from delta_ops.log.refs.sessions import Fork, fragments_in_order, last_versions
from delta_ops.log.same_table import validate_same_table
from delta_ops.log.session_place import generation_directory
from delta_ops.option_words import option
from delta_ops.protocol.arrow_values import TRUE_SCALAR
from delta_ops.storage import Storage
from delta_ops.transaction import Hook, begin
from delta_ops.transaction.branch_rules import reads_of, validate_branchable
from delta_ops.transaction.commit.session_conflicts import validate_forks
from delta_ops.transaction.result import CommitResult
from delta_ops.versioning.net_changes import (
    NetChanges,
    load_net_changes,
    stage_net_changes,
    validate_feed,
)
from delta_ops.versioning.session_state import (
    SessionState,
    find_session_commit,
    find_txn,
    load_state,
    names_of,
    session_txn_id,
    staged_content,
)
from delta_ops.versioning.session_token import SessionToken, token_of

OPERATION = "COMMIT SESSION"
"""`operation` of commitInfo."""
_MOST_ATTEMPTS = 1_000_000
"""Each commit that main received since the base version takes one attempt; the time is limited."""
_CERTAIN = frozenset(
    {"protocol", "metadata", "domain", "txn", "concurrent append", "delete read", "delete delete"}
)
"""Kinds of conflicts that each other commit of the session would find too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResult:
    """The result of `WriteSession.commit`."""

    session: str
    version: int | None
    """The version of main that has the rows; None if the session changes nothing, or if log
    clean-up has deleted the commit."""
    already_committed: bool = False
    """Whether an earlier call had committed the session, or another session its txn."""
    steps: tuple[str, ...] = ()
    """The steps whose rows were committed, in order; empty if `already_committed`."""
    added_files: int = 0
    removed_files: int = 0
    failed_hooks: tuple[str, ...] = ()
    """One sentence for each failed hook; the commit remains."""


class _Prepared(NamedTuple):
    """The fragments of a session as one commit."""

    last_versions: list[tuple[str, int]]
    """Of the forks."""
    fragments: list[Commit]
    net: NetChanges


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCommit:
    """One call of `WriteSession.commit`, which documents the fields."""

    state: SessionState
    expected_steps: Collection[str] | None
    depends_on: Mapping[TableOrPlace, int]
    txn: tuple[str, int] | None
    user_metadata: str | None
    hooks: Sequence[Hook]
    clock: Clock
    on_event: OnEvent

    def run(self) -> SessionResult:
        """Commit the session, or find what an earlier call committed."""
        state = self.state
        end = state.read_end()
        was_ended, prepared = end is not None, None
        if end is None:
            if state.find_txn(self.txn) is None:
                prepared = self._validate_ready()
            end = state.decide_end("commit", self.clock, self.txn)
        if end.decision != "commit":
            raise ended_error(state.log.uri, state.session.id, end.decision)
        self._validate_txn(end)
        if load_state(state.log, state.session.id) is None:
            # A clean-up had ended the session and deleted its files, or the commit is done.
            return self._find_result()
        seal(state.log.storage, state.session.id, state.session.generation)
        landed = state.landed_version() if was_ended else None
        if landed is not None:
            return self._finish_again(landed)
        if done := state.find_txn(end.txn):
            return self._finish_by_txn(done)
        listed = state.reader.look()
        if state.session.generation not in listed:  # the files of the session were just deleted
            return self._find_result()
        if FAILED in listed[state.session.generation].files:
            failure = state.read_failure()
            assert failure
            raise self._error(failure)
        return self._commit(state.reader.load(listed), end, prepared)

    def _validate_txn(self, end: End) -> None:
        """Reject another txn than that of the call which has ended the session."""
        if self.txn is not None and self.txn != end.txn:
            raise InvalidRequestError(
                f"{self.state.log.uri}: the commit of session {self.state.session.id} has begun "
                f"with the txn {end.txn}, not {self.txn}; repeat the call without a txn"
            )

    def _find_result(self) -> SessionResult:
        state = self.state
        found = find_result(state.log, token_of(state.session), self.txn)
        if found is None:
            raise state.expired_error()
        return found

    def _validate_ready(self) -> _Prepared:
        """Reject what would not end the session."""
        state = self.state
        if state.session.expires_ms <= self.clock():
            raise state.expired_error()
        validate_same_table(state.base)
        forks = state.load_forks()
        self._validate_expected(forks)
        prepared = self._prepare(forks)
        if self.txn is not None and self.txn[0] in prepared.net.txns:
            raise InvalidRequestError(
                f"{state.log.uri}: a step of session {state.session.id} has written with the txn "
                f"{self.txn[0]}; give the commit another application id"
            )
        for table, version in self.depends_on.items():
            validate_unmoved(table, version)
        return prepared

    def _validate_expected(self, forks: Sequence[Fork]) -> None:
        if self.expected_steps is None:
            return
        wanted, uri = set(self.expected_steps), self.state.log.uri
        written = {each.step for each in forks if each.fragments}
        if missing := sorted(wanted - written):
            raise InvalidRequestError(
                f"{uri}: session {self.state.session.id} has no rows of {names_of(missing)}; run "
                "these steps, then commit the session. Leave a step that had nothing to write out "
                f"of {option('expected_steps')}"
            )
        if unexpected := sorted(written - wanted):
            raise InvalidRequestError(
                f"{uri}: session {self.state.session.id} has rows of {names_of(unexpected)}, which "
                "were not expected; expect these steps too, or fork each again and write nothing"
            )

    def _prepare(self, forks: Sequence[Fork]) -> _Prepared:
        """The fragments as one commit.

        Raises:
            SessionConflictError: The forks contradict each other.
            InvalidRequestError: The change data feed cannot show the fragments as one commit.
        """
        base = self.state.base
        validate_branchable(base.definition, table=base.uri)
        validate_forks(base, self.state.session, forks)
        fragments = fragments_in_order(base, forks)
        net = load_net_changes(base, fragments)
        validate_feed(base, base, fragments, net, "session")
        self._validate_no_staged(net)
        return _Prepared(last_versions(forks), fragments, net)

    def _validate_no_staged(self, net: NetChanges) -> None:
        """Reject files that a step has staged for another step, which has not replaced them."""
        content = staged_content(net.adds)
        if content is not None:
            raise SessionConflictError(
                self.state.log.uri,
                self.state.session.base_version,
                f"session {self.state.session.id} has {content} that were not merged",
                cure=f"Commit it by the function that staged the {content}",
            )

    def _commit(self, forks: Sequence[Fork], end: End, prepared: _Prepared | None) -> SessionResult:
        """Commit the sealed fragments.

        Args:
            prepared: The fragments as they were before the session ended.
        """
        state = self.state
        try:
            if prepared is None or prepared.last_versions != last_versions(forks):
                prepared = self._prepare(forks)
        except SessionConflictError as error:  # a fragment came after the first look
            raise self._error(self._record(error, error.reason)) from error
        _, fragments, net = prepared
        if not (net.adds or net.removes or net.described or net.change_files or net.txns):
            if load_state(state.log, state.session.id) is None:  # another call, or no table
                return self._find_result()
            empty = SessionResult(session=state.session.id, version=None)
            return self._finish(empty, "nothing to commit")
        base = state.base
        transaction = begin(state.log, snapshot=base, clock=self.clock, on_event=self.on_event)
        head = state.rows.snapshot(forks)
        stage_net_changes(transaction, base, head, net)
        transaction.apply(*(read for each in fragments for read in reads_of(each)))
        transaction.draft.txn_id = session_txn_id(state.session.id)
        if end.txn is not None:
            transaction.set_transaction(end.txn)
        try:
            result = transaction.commit(
                operation=OPERATION,
                parameters={
                    "sessionId": state.session.id,
                    "baseVersion": base.version,
                    "numSteps": len([each for each in forks if each.fragments]),
                },
                user_metadata=self.user_metadata,
                hooks=self.hooks,
                max_attempts=_MOST_ATTEMPTS,
            )
        except CommitConflictError as error:
            landed = state.landed_version()  # another call may have committed since
            if landed is not None:
                return self._finish_again(landed)
            if done := state.find_txn(end.txn):
                return self._finish_by_txn(done)
            if error.kind not in _CERTAIN:
                raise
            reason = (
                f"session {state.session.id} cannot be committed, because version {error.version} "
                f"was committed to main since the session began and {error.reason}"
            )
            raise self._error(self._record(error, reason)) from error
        if result.already_committed:
            return self._finish_by_txn(result)
        return self._finish(
            SessionResult(
                session=state.session.id,
                version=result.version,
                steps=tuple(each.step for each in forks if each.fragments),
                added_files=len(net.adds),
                removed_files=len(net.removes),
                failed_hooks=result.failed_hooks,
            ),
            f"committed as version {result.version}",
        )

    def _record(self, error: CommitConflictError, reason: str) -> Failure:
        failure = Failure(
            version=error.version, reason=reason, kind=error.kind, evidence=error.evidence
        )
        return record_failure(self.state.log.storage, self.state.directory, failure)

    def _error(self, failure: Failure) -> SessionConflictError:
        return SessionConflictError(
            self.state.log.uri,
            failure.version,
            failure.reason,
            failure.kind,
            failure.evidence,
            (),
            "Its rows stay readable until it expires: rebase the session, or abandon it",
        )

    def _finish_again(self, version: int) -> SessionResult:
        """Finish what an earlier call has committed."""
        result = SessionResult(
            session=self.state.session.id, version=version, already_committed=True
        )
        return self._finish(result, f"committed as version {version}")

    def _finish_by_txn(self, done: CommitResult) -> SessionResult:
        """End the session without a commit, because another one has committed its txn."""
        result = SessionResult(
            session=self.state.session.id, version=done.version, already_committed=True
        )
        version = "an earlier version" if done.version is None else f"version {done.version}"
        return self._finish(result, f"its txn is in {version}")

    def _finish(self, result: SessionResult, outcome: str) -> SessionResult:
        self.state.forget(outcome, self.clock)
        return result


def find_result(
    log: DeltaLog, token: SessionToken, txn: tuple[str, int] | None
) -> SessionResult | None:
    """The result of a session that has ended; None if it was not committed.

    Args:
        txn: The txn of the commit; that of `end.json` if None.
    """
    version = find_session_commit(log, token.session, token.base_version)
    if version is None:
        end = _end_of_finished(log.storage, token.session)
        txn = txn or (end.txn if end else None)
        done = None if txn is None else find_txn(log, token.table_id, txn)
        if done is None and end is None:
            return None
        version = done.version if done else None
    return SessionResult(session=token.session, version=version, already_committed=True)


def _end_of_finished(storage: Storage, session_id: str) -> End | None:
    """`end.json` of a session that was committed; None if it was not, or if its files are gone.

    `sealed.json` shows that the journal of refs had the session after `end.json` was created. Only
    a session whose commit is done leaves the journal after that, unless a conflict was recorded.
    """
    listed = list_generations(storage, session_id)
    last = max(listed, default=0)
    if not listed or SEALED not in listed[last].files or FAILED in listed[last].files:
        return None
    end = read_end(storage, generation_directory(session_id, last))
    return end if end is not None and end.decision == "commit" else None


def validate_unmoved(table: TableOrPlace, version: int) -> None:
    """Reject a table that got other rows, columns or properties since a version.

    Commits that only rearrange rows do not count.

    Raises:
        InvalidRequestError: There is no such version.
        SessionConflictError: The table has moved.
        TableNotFoundError, LogCorruptError, StorageError: As `DeltaLog.snapshot`.
    """
    log = log_of(table)
    latest = log.snapshot().version
    if not 0 <= version <= latest:
        raise InvalidRequestError(
            f"{log.uri}: {option('depends_on')} names version {version}, and the latest version is "
            f"{latest}; give the version that the steps have read"
        )
    commits = list(log.commits(version + 1, latest)) if latest > version else []
    moved = next((each.version for each in commits if _changes_table(each)), None)
    if moved is None and len(commits) != latest - version:
        moved = latest  # the log was cleaned up, or the table was restored from a backup
    if moved is not None:
        raise SessionConflictError(
            log.uri,
            moved,
            f"the session depends on version {version} of this table, and version {moved} has "
            "changed it",
            "delete read",
            (),
            (),
            "Run the steps that read this table again, then commit the session",
        )


def _changes_table(commit: Commit) -> bool:
    return bool(
        commit.metadata
        or commit.protocol
        or any(
            pc.any(pc.fill_null(actions["dataChange"], TRUE_SCALAR), min_count=0).as_py()
            for actions in (commit.adds, commit.removes)
        )
    )

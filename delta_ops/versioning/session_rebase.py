"""Session rebase: moves the base version of a session to the latest version of main.

Each step whose rows contradict the commits of main since then must be dropped by the caller, who
runs it again afterwards. The fragments of the other steps stay where they are.

1. Conflicts are named before the session is changed.
2. `end.json` ends the generation, so that nobody commits it, and `sealed.json` fixes its fragments.
3. One journal entry has the new base version, the next generation and the dropped forks. A rebase
   that was killed before this entry is finished by the next call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from delta_ops.clock import Clock
from delta_ops.errors import (
    InvalidRequestError,
    SessionConflictError,
    SessionEndedError,
    TableBusyError,
    VersionNotFoundError,
)
from delta_ops.log import Snapshot
from delta_ops.log.commit_file import Commit
from delta_ops.log.refs.journal import Change
from delta_ops.log.refs.refs import Refs, Session, refs_journal
from delta_ops.log.refs.session_files import ended_error, seal
from delta_ops.log.refs.sessions import Fork
from delta_ops.option_words import option
from delta_ops.protocol.arrow_schemas import ADD, add_files
from delta_ops.transaction.commit.session_conflicts import footprint_of, validate_forks
from delta_ops.transaction.races.conflicts import find_conflict
from delta_ops.transaction.staging import Staged
from delta_ops.transaction.write_rules import validate_staged
from delta_ops.versioning.session_state import SessionState, names_of, staged_content
from delta_ops.versioning.version_to_keep import VersionToKeep


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRebase:
    """One call of `WriteSession.rebase`, which documents the fields."""

    state: SessionState
    drop_steps: Collection[str]
    clock: Clock
    version: int | None = None
    """The next base version; the latest if None."""
    validate_sealed: Callable[[Sequence[Fork]], None] | None = None
    """Rejects the fragments that the next generation begins with, in the order of the session. If
    it raises, the session has a rebase that was not finished. Without it, files that are staged for
    another step are rejected: only the caller knows whether they can follow main."""

    def run(self) -> None:
        """Rebase the session."""
        state = self.state
        end = state.read_end()
        if end is None:
            if state.session.expires_ms <= self.clock():
                raise state.expired_error()
            forks = state.load_forks()
            self._validate_no_staged(forks)
            self._dropped_forks(forks, state.log.snapshot(self.version))
            end = state.decide_end("rebase", self.clock)
        if end.decision == "commit":
            self._validate_failed()
        elif end.decision != "rebase":
            raise ended_error(state.log.uri, state.session.id, end.decision)
        seal(state.log.storage, state.session.id, state.session.generation)
        latest = state.log.snapshot(self.version)
        forks = state.load_forks()
        dropped = self._dropped_forks(forks, latest)
        if self.validate_sealed is not None:
            self.validate_sealed([each for each in forks if each not in dropped])
        kept = VersionToKeep(log=state.log, snapshot=latest, verb="rebase a session to")

        def decide(refs: Refs) -> Change[Refs] | None:
            known = refs.sessions.get(state.session.id)
            if known is None:
                raise SessionEndedError(
                    state.log.uri, state.session.id, "was deleted", "Begin another session"
                )
            if known.generation != state.session.generation:
                return None  # another call has rebased it
            kept.validate_kept(refs)
            rebased = msgspec.structs.replace(
                known,
                base_version=latest.version,
                txn_id=latest.txn_id,
                generation=known.generation + 1,
                dropped=(*known.dropped, *(each.key for each in dropped)),
            )
            return Change(
                state=put_session(refs, rebased),
                text=f"rebase session {known.id} to version {latest.version}",
            )

        refs_journal(state.log.storage).append(decide, self.clock)

    def _validate_no_staged(self, forks: Sequence[Fork]) -> None:
        if self.validate_sealed is not None:
            return
        added = (part.adds for each in forks for part in each.fragments)
        content = staged_content(add for adds in added for add in add_files(adds.select(ADD.names)))
        if content is not None:
            raise InvalidRequestError(
                f"{self.state.log.uri}: session {self.state.session.id} has {content}, and cannot "
                f"be rebased by itself; commit it by the function that staged the {content}"
            )

    def _validate_failed(self) -> None:
        """Reject a session whose commit may be on main, or may still get there."""
        state = self.state
        landed = state.landed_version()
        if landed is not None:
            raise SessionEndedError(
                state.log.uri,
                state.session.id,
                f"was committed as version {landed}",
                "Begin another session for more rows",
            )
        if state.read_failure() is None:
            raise TableBusyError(
                state.log.uri,
                f"a commit of session {state.session.id} has begun, and its outcome is not known",
                "Repeat commit() to finish it",
            )

    def _dropped_forks(self, forks: Sequence[Fork], latest: Snapshot) -> list[Fork]:
        """The forks that the rebase leaves out.

        Raises:
            InvalidRequestError: There is no such step.
            SessionConflictError: A step that stays contradicts main, or another step.
        """
        steps = {each.step for each in forks}
        if unknown := sorted(set(self.drop_steps) - steps):
            raise InvalidRequestError(
                f"{self.state.log.uri}: session {self.state.session.id} has no step "
                f"{names_of(unknown)}; its steps are {names_of(sorted(steps)) or 'none'}"
            )
        kept = [each for each in forks if each.step not in self.drop_steps]
        found = list(self._conflicts(kept, latest))
        if found:
            names = tuple(dict.fromkeys(step for step, _ in found))
            raise SessionConflictError(
                self.state.log.uri,
                latest.version,
                f"session {self.state.session.id} cannot be rebased to version {latest.version} "
                f"with {names_of(names)}, because {found[0][1]}",
                "",
                (),
                names,
                f"Rebase it with {option('drop_steps', list(names))}, and run these steps again",
            )
        return [each for each in forks if each.step in self.drop_steps]

    def _conflicts(self, forks: Sequence[Fork], latest: Snapshot) -> Iterator[tuple[str, str]]:
        """Steps that cannot stay, each with the reason."""
        base = self.state.base
        commits = list(self.state.log.commits(base.version + 1, latest.version))
        if len(commits) != latest.version - base.version:
            raise VersionNotFoundError(
                self.state.log.uri,
                f"version {base.version + 1}",
                "the log was cleaned up since the session began; begin another session",
            )
        for fork in forks:
            reason = _reason_to_drop(fork, commits, base, latest)
            if reason is not None:
                yield fork.step, reason
        left = list(forks)
        while True:
            try:
                validate_forks(base, self.state.session, left)
            except SessionConflictError as error:
                yield error.steps[0], error.reason
                left = [each for each in left if each.step not in error.steps]
            else:
                return


def _reason_to_drop(
    fork: Fork, commits: Sequence[Commit], base: Snapshot, latest: Snapshot
) -> str | None:
    """Why a fork cannot follow the commits of main; None if it can."""
    ours, earlier = footprint_of(fork, base), list[Commit]()
    for commit in commits:
        # The definition of the latest version counts, and only once.
        rows = replace(commit, protocol=None, metadata=None)
        conflict = find_conflict(rows, ours, base, earlier)
        if conflict is not None:
            return f"version {conflict.version} of main {conflict.reason}"
        earlier.append(commit)
    if latest.definition == base.definition or not fork.fragments:
        return None
    if not fork.only_appends:
        return "the columns or properties of the table have changed since it read rows"
    adds = [add for each in fork.fragments for add in add_files(each.adds.select(ADD.names))]
    staged = Staged(
        adds=tuple(adds),
        schema=base.schema,
        partition_columns=base.partition_columns,
        num_rows=0,
        row_rules=frozenset(base.definition.row_rules),
    )
    try:
        validate_staged(staged, latest.definition, table=latest.uri)
    except InvalidRequestError as error:
        return f"its files do not fit the latest version ({error})"
    return None


def put_session(refs: Refs, session: Session) -> Refs:
    """The refs with a new or changed session."""
    return msgspec.structs.replace(refs, sessions={**refs.sessions, session.id: session})

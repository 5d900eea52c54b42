"""Commit of array changes: merges the staged changes of a session, and commits the session.

1. If main has changed blocks that the session needs, the keys are compared. Without a conflict, the
   session is rebased to exactly the version that was compared. The comparison is repeated for the
   sealed fragments, so a change that was staged meanwhile is compared too.
2. The merge writes the touched blocks, as a step of the session.
3. The session is committed. A commit to the same blocks at this moment, or a change that was staged
   after the merge, is a conflict: the call begins again at 1.
4. A call that was killed is repeated by any process. A rebase that was not finished, and a commit
   with a conflict, are first rebased to the old base version, so no key escapes the comparison.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Literal

from delta_ops.arrays.blocks import Blocks
from delta_ops.arrays.chunks import ChunkWriter, missing_chunk_error, swept_chunks
from delta_ops.arrays.conflicts import Comparison, KeyConflict
from delta_ops.arrays.keys import is_key_within, place_of
from delta_ops.arrays.merge import Merge
from delta_ops.arrays.staged import (
    MERGE_STEP,
    Change,
    changes_of_forks,
    load_staged,
    stage_changes,
)
from delta_ops.arrays.table import validate_array_table
from delta_ops.clock import Clock
from delta_ops.errors import (
    ChunkConflictError,
    CommitConflictError,
    SessionConflictError,
    SessionEndedError,
    TableBusyError,
)
from delta_ops.log import DeltaLog
from delta_ops.log.refs.sessions import Fork, last_versions
from delta_ops.transaction.commit.loop import SYSTEM_PACE, Pace
from delta_ops.versioning import SessionResult, WriteSession
from delta_ops.versioning.session_rebase import SessionRebase
from delta_ops.versioning.session_state import SessionState, load_state

OnConflict = Literal["fail", "ours", "theirs"]
_MOST_AT_ONE_VERSION = 10
"""Conflicts of one session while main stays at one version, before the call gives up."""
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.05, 5.0
_CLOCK_DIFFERENCE_MS = 60 * 60 * 1000
"""Most milliseconds that the clocks of a writer and of the store may differ."""


class _StagedMeanwhileError(Exception):
    """A change was staged after the comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayCommit:
    """One commit of the array changes of a session.

    Args:
        log: The table's own log.
        session: The session.
        chunks: Writes chunks that are too many for their block.
        on_conflict: Which bytes of a chunk count that both have changed.
        txn: Commit only if the table does not hold this txn; see `WriteSession.commit`.
        user_metadata: Any text, kept in commitInfo.
        timeout: No attempt begins later.
        clock: Milliseconds since the Unix epoch.
        pace: How the call waits for other committers of the session.
    """

    log: DeltaLog
    session: WriteSession
    chunks: ChunkWriter
    on_conflict: OnConflict
    txn: tuple[str, int] | None
    user_metadata: str | None
    timeout: timedelta
    clock: Clock
    pace: Pace = SYSTEM_PACE

    def run(self) -> SessionResult:
        """Commit the session, or find what an earlier call committed.

        Raises:
            ChunkConflictError: Another session has changed a key that this session changes.
            SessionConflictError: Writers of the session go on staging changes.
            TableBusyError: The timeout has passed.
            SessionEndedError, CommitStateUnknownError, StorageError: As `WriteSession.commit`.
        """
        ends = self.pace.elapsed_s() + self.timeout.total_seconds()
        num_failed: Counter[int] = Counter()
        while True:
            try:
                result = self._attempt(has_failed=bool(num_failed))
            except SessionConflictError as error:
                version = self.log.snapshot().version
                num_failed[version] += 1
                if num_failed[version] >= _MOST_AT_ONE_VERSION:
                    raise
                reason = error.reason
                longest_s = min(_FIRST_WAIT_S * 2 ** num_failed.total(), _LONGEST_WAIT_S)
                self.pace.sleep(self.pace.share() * longest_s)
            else:
                if result is not None:
                    return result
                reason = "other commits to its blocks were first"
            if self.pace.elapsed_s() > ends:
                raise TableBusyError(
                    self.log.uri,
                    f"session {self.session.id} was not committed within {self.timeout} ({reason})",
                    "Repeat the call, or let fewer sessions write to one array",
                )

    def _attempt(self, *, has_failed: bool) -> SessionResult | None:
        """Make one attempt; returns None if the session was changed and must be looked at again.

        Args:
            has_failed: Whether an earlier attempt met a conflict. Then the session follows main
                even if no block that it needs was changed, because a property was.

        Raises:
            SessionConflictError: Another commit, or another writer of the session, was first.
        """
        state = load_state(self.log, self.session.id)
        if state is None:
            return self._commit_session()
        end = state.read_end()
        if end is not None:
            if end.decision == "commit" and state.read_failure() is None:
                return self._commit_session()
            if end.decision in ("commit", "rebase"):
                self._rebase(state, state.session.base_version, None)
                return None
            return self._commit_session()  # it raises, because the session has ended
        if state.find_txn(self.txn) is not None:
            return self._commit_session()
        if self._follow_main(state, must_follow=has_failed):
            return None
        try:
            fork = self.session.fork(MERGE_STEP)
            merge = Merge(
                fork=fork,
                base=Blocks(state.base),
                staged=load_staged(state, fork),
                chunks=self.chunks,
            )
            named = merge.run()
        except SessionEndedError as error:
            raise SessionConflictError(
                self.log.uri,
                state.session.base_version,
                f"another process commits session {self.session.id} too ({error.reason})",
                cure="Repeat the call",
            ) from error
        since_ms = state.session.created_ms - _CLOCK_DIFFERENCE_MS
        if lost := swept_chunks(self.log.storage, sorted(set(named)), since_ms):
            raise missing_chunk_error(self.log.storage, lost[0], "of the session")
        return self._commit_session()

    def _commit_session(self) -> SessionResult:
        return self.session.commit(txn=self.txn, user_metadata=self.user_metadata)

    def _follow_main(self, state: SessionState, *, must_follow: bool) -> bool:
        """Compare the keys with main, and rebase the session if main has changed its blocks.

        Returns:
            Whether the session was changed, so the attempt must begin again.
        """
        latest = self.log.snapshot()
        validate_array_table(latest)
        if latest.version == state.session.base_version:
            return False
        forks = state.load_forks()
        changes = changes_of_forks(state, forks).changes
        before, after = Blocks(state.base), Blocks(latest)
        comparison = Comparison(before=before, after=after, changes=changes)
        if not (must_follow or comparison.touches_changed_blocks()):
            return False
        withdrawn = self._resolve(comparison.conflicts(), latest.version, changes)
        if withdrawn:
            stage_changes(self.session.fork(), dict.fromkeys(withdrawn, "withdrawn"))
            return True
        self._rebase(state, latest.version, forks)
        return True

    def _resolve(
        self, conflicts: Sequence[KeyConflict], version: int, changes: Mapping[str, Change]
    ) -> Collection[str]:
        """The keys whose changes are withdrawn.

        Raises:
            ChunkConflictError: A conflict is not resolved by `on_conflict`.
        """
        withdrawn: dict[str, None] = {}
        failed: list[KeyConflict] = []
        for each in conflicts:
            if self.on_conflict == "theirs":
                other, own = place_of(each.other), place_of(each.key).node
                is_above = other.kind == "metadata" and is_key_within(each.key, other.node)
                top = other.node if is_above else own
                withdrawn[each.key] = None
                if each.is_about_metadata:
                    withdrawn.update(
                        dict.fromkeys(key for key in changes if is_key_within(key, top))
                    )
            elif self.on_conflict == "fail" or each.is_about_metadata:
                failed.append(each)
        if failed:
            raise _conflict_error(self.log.uri, version, failed)
        return withdrawn

    def _rebase(self, state: SessionState, version: int, forks: Sequence[Fork] | None) -> None:
        """Move the session to a version.

        Args:
            state: The session.
            version: The version.
            forks: The forks whose changes were compared with the version; None for the base
                version, which needs no comparison.
        """
        known = state.load_forks()
        drop = [MERGE_STEP] if any(each.step == MERGE_STEP for each in known) else []
        try:
            SessionRebase(
                state=state,
                drop_steps=drop,
                clock=self.clock,
                version=version,
                validate_sealed=partial(_validate_compared, forks),
            ).run()
        except _StagedMeanwhileError:
            pass  # the next attempt finds a rebase that was not finished
        except CommitConflictError as error:
            raise TableBusyError(
                self.log.uri,
                f"session {self.session.id} cannot follow version {version} ({error})",
                "Begin another session, and write the arrays again",
            ) from error


def _validate_compared(compared: Sequence[Fork] | None, sealed: Sequence[Fork]) -> None:
    if compared is None:
        return
    ours, theirs = (
        last_versions(sorted(_writers(each), key=lambda fork: fork.key))
        for each in (compared, sealed)
    )
    if ours != theirs:
        raise _StagedMeanwhileError


def _writers(forks: Sequence[Fork]) -> list[Fork]:
    """The forks with changes of arrays."""
    return [each for each in forks if each.fragments and each.step != MERGE_STEP]


def _conflict_error(
    table: str, version: int, conflicts: Sequence[KeyConflict]
) -> ChunkConflictError:
    first = conflicts[0]
    node = place_of(first.other).node
    places = [place_of(each.other) for each in conflicts]
    coordinates = tuple(
        each.coordinates for each in places if each.node == node and each.kind == "chunk"
    )
    if first.is_about_metadata:
        return ChunkConflictError(
            table,
            version,
            tuple(dict.fromkeys(each.other for each in conflicts)),
            node,
            coordinates,
            f"version {version} of main has changed it, and the change of {first.key} in this "
            "session depends on it",
            "Begin another session on the latest version and write the arrays again, or commit "
            "with on_conflict='theirs' to leave out the changes of this node",
        )
    return ChunkConflictError(
        table,
        version,
        tuple(dict.fromkeys(each.other for each in conflicts)),
        node,
        coordinates,
        f"this session and version {version} of main have both changed it",
        "Begin another session on the latest version and write the arrays again, or commit with "
        "on_conflict='ours' or 'theirs'",
    )

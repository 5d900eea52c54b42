"""Commit events: what Dagster is told of the commits that none of its events tells of.

1. Commits are looked at in the order of their versions, each once; a version without a commit was
   cleaned up, and is told as a gap, with what the table shows after it.
2. A commit of a run is told if that run has ended without its event. While it goes on its event may
   come yet: what follows such a commit waits a little, so that events keep the order of versions;
   then only the commit itself waits, in the cursor.
3. Another `metaData.id` is another table, looked at from its first commit on, unless the log still
   has the version that was looked at last: then it is the same log, with a replaced table.
4. Dagster's daemon logs events before it keeps the cursor: what was logged already is not repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import dagster as dg

from delta_ops.clock import MINUTE_MS, Clock
from delta_ops.errors import DeltaOpsError, LogCorruptError, VersionNotFoundError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.commit_file import Commit, read_commit_if_there
from delta_ops.orchestration.changes import changes_rows
from delta_ops.orchestration.commit_cursor import TableCursor
from delta_ops.orchestration.metadata import table_metadata
from delta_ops.orchestration.tables import TableRef
from delta_ops.orchestration.told_commits import (
    SHORT_ID,
    CommitRun,
    Told,
    ToldCommits,
    latest_event_id,
    run_of_commit,
)

Event = dg.AssetMaterialization | dg.AssetObservation
WAIT_MS = 10 * MINUTE_MS
"""How long later commits wait for the event of a run that goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitsFound:
    """What a look at a table has found."""

    events: tuple[Event, ...]
    """In the order in which they are to be logged."""
    cursor: TableCursor
    notes: tuple[str, ...] = ()
    """What a person should know: a sentence each."""


def find_untold_commits(
    table: TableRef,
    seen: TableCursor | None,
    instance: dg.DagsterInstance,
    *,
    may_go_on: Callable[[int], bool],
    clock: Clock,
) -> CommitsFound:
    """The commits of a table that no event tells of.

    Args:
        seen: What the last look came to; None: there was none, and this one only remembers where
            the table stands.
        may_go_on: Whether there is time and room for another commit after so many events.
        clock: By which the age of commits counts.

    Raises:
        TableNotFoundError: There is no table.
        DeltaOpsError: The table cannot be opened. A commit that cannot be read is a note, and the
            next look begins with it.
    """
    log = table.log()
    snapshot = log.snapshot()
    if seen is None:
        here = TableCursor(
            table_id=snapshot.metadata.id,
            version=snapshot.version,
            event_id=latest_event_id(instance, table.asset_key),
        )
        return CommitsFound(events=(), cursor=here)
    told = ToldCommits(instance, table.asset_key, seen.event_id)
    if not told.is_complete:
        cursor = replace(seen, event_id=told.event_id)
        note = "it has more events than one look reads; its commits are looked at after them"
        return CommitsFound(events=(), cursor=cursor, notes=(note,))
    return _Look(table, log, snapshot, told, clock).go_on_from(seen, may_go_on)


class _Look:
    """A look at a table."""

    def __init__(
        self, table: TableRef, log: DeltaLog, snapshot: Snapshot, told: ToldCommits, clock: Clock
    ) -> None:
        self._table, self._log, self._snapshot, self._told = table, log, snapshot, told
        self._clock = clock
        self._table_id = snapshot.metadata.id
        self._version = -1
        self._waiting: dict[int, str] = {}
        self._events: list[Event] = []
        self._notes: list[str] = []

    def go_on_from(self, seen: TableCursor, may_go_on: Callable[[int], bool]) -> CommitsFound:
        self._begin(seen)
        try:
            self._settle_waiting(seen, may_go_on)
            self._take_commits(may_go_on)
        except DeltaOpsError as error:  # what was found before counts
            self._notes.append(str(error))
        cursor = TableCursor(
            table_id=self._table_id,
            version=self._version,
            event_id=self._told.event_id,
            waiting=self._waiting,
        )
        return CommitsFound(events=tuple(self._events), cursor=cursor, notes=tuple(self._notes))

    def _take_commits(self, may_go_on: Callable[[int], bool]) -> None:
        for commit in self._log.commits(self._version + 1, self._snapshot.version):
            self._pass_gap(commit.version - 1)
            if not self._take(commit) or not may_go_on(len(self._events)):
                return
        self._pass_gap(self._snapshot.version)

    def _begin(self, seen: TableCursor) -> None:
        is_known = seen.table_id in (None, self._snapshot.metadata.id)
        if is_known and seen.version <= self._snapshot.version:
            self._version, self._waiting = seen.version, dict(seen.waiting)
        elif is_known:
            self._version = self._snapshot.version
            note = f"the table went back from version {seen.version} to {self._version}"
            self._notes.append(note)
            if not self._told.knows(self._table_id, self._version):
                self._events.append(self._state_event(note, self._version, self._snapshot))
        elif seen.table_id is not None and self._has(seen.table_id, seen.version):
            self._table_id, self._version = seen.table_id, seen.version
            self._waiting = dict(seen.waiting)
        else:
            self._notes.append(f"another table stands in the place of {seen.table_id}")

    def _has(self, table_id: str, version: int) -> bool:
        if not 0 <= version <= self._snapshot.version:
            return False
        try:
            return self._log.snapshot(version).metadata.id == table_id
        except (VersionNotFoundError, LogCorruptError):
            return False

    def _settle_waiting(self, seen: TableCursor, may_go_on: Callable[[int], bool]) -> None:
        for version, run_id in list(self._waiting.items()):
            made_by = CommitRun(run_id=run_id, root_run_id=run_id, asset_key=None)
            if self._told.ask_run(made_by, self._table_id, version) is Told.NOT_YET:
                continue
            if not may_go_on(len(self._events)):
                return
            commit = read_commit_if_there(self._log.storage, self._log.log_directory, version)
            made_by = (commit and run_of_commit(commit)) or made_by
            told = self._told.ask_run(made_by, self._table_id, version)
            if told is Told.NO and not self._told.knows(self._table_id, version):
                # With the version that was reached since: a data version never goes back.
                self._events.append(
                    self._gap_event(version, version, reached=seen.version)
                    if commit is None
                    else self._commit_event(commit, made_by, reached=seen.version)
                )
            del self._waiting[version]

    def _take(self, commit: Commit) -> bool:
        """Tell of the commit if nothing does; False if it has to wait, and what follows it."""
        if commit.metadata is not None:
            self._table_id = commit.metadata.id
        made_by = run_of_commit(commit)
        if not self._told.knows(self._table_id, commit.version):
            told = Told.NO
            if made_by is not None:
                told = self._told.ask_run(made_by, self._table_id, commit.version)
            if told is Told.NO:
                self._events.append(self._commit_event(commit, made_by, reached=commit.version))
            elif told is Told.NOT_YET and made_by is not None:
                self._notes.append(f"version {commit.version} waits for run {made_by.run_id}")
                if self._is_young(commit):
                    return False
                self._waiting[commit.version] = made_by.run_id
        self._version = commit.version
        return True

    def _is_young(self, commit: Commit) -> bool:
        made_ms = commit.info.values.get("timestamp") if commit.info else None
        return type(made_ms) is int and self._clock() - made_ms < WAIT_MS

    def _pass_gap(self, last: int) -> None:
        """Tell of the versions up to one whose commits are gone, as far as nothing does."""
        if last <= self._version:
            return
        first = self._version + 1
        state = self._state_at(last)
        self._table_id = state.metadata.id
        untold = self._told.untold(self._table_id, first, last)
        if untold:
            event = self._gap_event(first, last, reached=last)
            self._events.append(event)
            self._notes.append(str(event.description))
        self._version = last

    def _state_at(self, version: int) -> Snapshot:
        try:
            return self._log.snapshot(version)
        except DeltaOpsError:  # the next checkpoint is of a later version
            return self._snapshot

    def _gap_event(self, first: int, last: int, *, reached: int) -> Event:
        state = self._state_at(last)
        what = f"version {first} was" if first == last else f"versions {first} to {last} were"
        text = f"{what} cleaned up before anybody looked; what changed is not known"
        return self._state_event(text, last, state, first=first, reached=reached)

    def _state_event(
        self,
        description: str,
        version: int,
        state: Snapshot,
        *,
        first: int | None = None,
        reached: int | None = None,
    ) -> Event:
        return dg.AssetMaterialization(
            asset_key=self._table.asset_key,
            description=description,
            metadata={
                **table_metadata(state),
                "delta/shown_version": state.version,
                "delta/version": version,
                "delta/first_version": version if first is None else first,
            },
            tags=self._tags(version if reached is None else reached),
        )

    def _commit_event(self, commit: Commit, made_by: CommitRun | None, *, reached: int) -> Event:
        event = dg.AssetMaterialization if changes_rows(commit) else dg.AssetObservation
        operation = commit.operation or "commit"
        by = "another writer" if made_by is None else f"run {made_by.run_id}, which did not tell"
        return event(
            asset_key=self._table.asset_key,
            description=f"{operation} by {by}",
            metadata={
                "dagster/uri": dg.MetadataValue.text(self._log.uri),
                "delta/version": commit.version,
                "delta/operation": str(commit.operation),
                "delta/engine": str(commit.mark.engine),
                "delta/files_added": len(commit.adds),
                "delta/files_removed": len(commit.removes),
                **_run_metadata(made_by),
            },
            tags=self._tags(reached),
        )

    def _tags(self, reached: int) -> dict[str, str]:
        return {"dagster/data_version": f"{self._table_id[:SHORT_ID]}@{reached}"}


def _run_metadata(made_by: CommitRun | None) -> dict[str, Any]:
    return {} if made_by is None else {"delta/run": dg.MetadataValue.dagster_run(made_by.run_id)}

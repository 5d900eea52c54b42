"""Commit events: what Dagster is told of the commits that none of its events tells of.

1. Commits are looked at in the order of their versions, each once; a version without a commit was
   cleaned up, and is told as a gap, with what the table shows after it.
2. A commit of a run is told if that run has ended without its event. While it goes on its event may
   come yet: what follows such a commit waits a little, so that events keep the order of versions;
   then only the commit itself waits, in the cursor.
3. Another `metaData.id` is another table, looked at from its first commit on, unless the log still
   has the version that was looked at last: then it is the same log, with a replaced table.
4. Dagster's daemon logs events before it keeps the cursor: what was logged already is not repeated.
5. A table that Dagster knows nothing of is told as it stands; of one that it has events of, what
   was committed after the newest version that they name.
6. Of a partitioned asset each partition that a commit touched is told. A window of time that has
   not ended waits in the cursor: Dagster lists its partition afterwards.
7. A data version names a version that changed rows; that of an event never goes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import dagster as dg

from delta_ops.clock import MINUTE_MS, Clock
from delta_ops.errors import DeltaOpsError, LogCorruptError, VersionNotFoundError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.commit_file import Commit, read_commit_if_there
from delta_ops.orchestration.changes import changed_files, changes_rows
from delta_ops.orchestration.commits.commit_cursor import TableCursor
from delta_ops.orchestration.commits.reported_commits import (
    CommitRun,
    Told,
    ToldCommits,
    find_told_place,
    latest_event_id,
    run_of_commit,
)
from delta_ops.orchestration.commits.table_events import (
    FIRST_LOOK,
    Event,
    TableEvents,
    data_version_text,
)
from delta_ops.orchestration.commits.touched_partitions import (
    KeyState,
    Layout,
    Touched,
    key_states,
    touched_partitions,
)
from delta_ops.orchestration.table_versions import last_data_version
from delta_ops.orchestration.tables import TableRef
from delta_ops.protocol.actions import AddFile

WAIT_MS = 10 * MINUTE_MS
"""How long later commits wait for the event of a run that goes on."""
_MAX_COMING = 100
"""Partitions that wait in the cursor; the first ones, by their keys."""


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
    layout: Layout | None = None,
    may_go_on: Callable[[int], bool],
    clock: Clock,
) -> CommitsFound:
    """The commits of a table that no event tells of.

    Args:
        seen: What the last look came to; None: there was none, and Dagster's events say how far the
            table has been told.
        layout: How the table's asset is partitioned; None: not at all, or nobody knows.
        may_go_on: Whether there is time and room for another commit after so many events.
        clock: By which the age of commits counts.

    Raises:
        TableNotFoundError: There is no table.
        DeltaOpsError: The table cannot be opened. A commit that cannot be read is a note, and the
            next look begins with it.
    """
    log = table.log()
    snapshot = log.snapshot()
    if seen is None and (seen := _find_told(table, log, snapshot, instance)) is None:
        here = TableCursor(
            table_id=snapshot.metadata.id,
            version=snapshot.version,
            event_id=latest_event_id(instance, table.asset_key),
        )
        told = ToldCommits(instance, table.asset_key, 0)
        return _Look(table, log, snapshot, layout, instance, told, clock).tell_state(here)
    told = ToldCommits(instance, table.asset_key, seen.event_id)
    if not told.is_complete:
        cursor = replace(seen, event_id=told.event_id)
        note = "it has more events than one look reads; its commits are looked at after them"
        return CommitsFound(events=(), cursor=cursor, notes=(note,))
    look = _Look(table, log, snapshot, layout, instance, told, clock)
    return look.go_on_from(seen, may_go_on)


def _find_told(
    table: TableRef, log: DeltaLog, snapshot: Snapshot, instance: dg.DagsterInstance
) -> TableCursor | None:
    """Where Dagster's events, or a run that will tell, leave the table; None: they say nothing."""
    newest = instance.get_latest_materialization_event(table.asset_key)
    event = newest.asset_materialization if newest is not None else None
    if event is not None and FIRST_LOOK in event.metadata:
        return None  # the look that told of it may have been cut off
    table_id = snapshot.metadata.id
    told = find_told_place(instance, table.asset_key, table_id)
    if event is not None and told is not None:
        return TableCursor(table_id=table_id, version=told.version, event_id=told.event_id)
    version = last_data_version(log, snapshot.version)
    commit = read_commit_if_there(log.storage, log.log_directory, version)
    made_by = run_of_commit(commit) if commit is not None else None
    if made_by is None or instance.get_run_by_id(made_by.run_id) is None:
        return None
    return TableCursor(table_id=table_id, version=version - 1)


class _Look:
    """A look at a table."""

    def __init__(
        self,
        table: TableRef,
        log: DeltaLog,
        snapshot: Snapshot,
        layout: Layout | None,
        instance: dg.DagsterInstance,
        told: ToldCommits,
        clock: Clock,
    ) -> None:
        self._log, self._snapshot, self._layout = log, snapshot, layout
        self._instance, self._told, self._clock = instance, told, clock
        self._make = TableEvents(table.asset_key, snapshot, layout)
        self._table_id = snapshot.metadata.id
        self._version = -1
        self._changed_at: int | None = None
        self._waiting: dict[int, str] = {}
        self._coming: dict[str, int] = {}
        self._events: list[Event] = []
        self._notes: list[str] = []

    def go_on_from(self, seen: TableCursor, may_go_on: Callable[[int], bool]) -> CommitsFound:
        self._begin(seen)
        try:
            self._settle_waiting(seen, may_go_on)
            self._settle_coming()
            self._take_commits(may_go_on)
        except DeltaOpsError as error:  # what was found before counts
            self._notes.append(str(error))
        cursor = TableCursor(
            table_id=self._table_id,
            version=self._version,
            event_id=self._told.event_id,
            waiting=self._waiting,
            coming=self._coming,
        )
        return CommitsFound(events=tuple(self._events), cursor=cursor, notes=tuple(self._notes))

    def tell_state(self, here: TableCursor) -> CommitsFound:
        """The table as it stands, and each partition that it has rows of."""
        version = here.version
        if not self._told.knows(self._table_id, version):
            touched = self._find_touched(self._snapshot.add_files(), version)
            told = self._told.partitions(self._table_id, version)
            reached = self._data_version(last_data_version(self._log, version))
            self._events += self._make.first_look_events(touched, told, reached)
        return CommitsFound(
            events=tuple(self._events),
            cursor=replace(here, coming=self._coming),
            notes=tuple(self._notes),
        )

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
            self._coming = dict(seen.coming)
        elif is_known:
            self._version = self._snapshot.version
            note = f"the table went back from version {seen.version} to {self._version}"
            self._notes.append(note)
            if not self._told.knows(self._table_id, self._version):
                reached = self._data_version(last_data_version(self._log, self._version))
                event = self._make.state(note, self._version, self._snapshot, reached)
                self._events.append(event)
        elif seen.table_id is not None and self._has(seen.table_id, seen.version):
            self._table_id, self._version = seen.table_id, seen.version
            self._waiting, self._coming = dict(seen.waiting), dict(seen.coming)
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
                reached = max(version, last_data_version(self._log, seen.version))
                if commit is None:
                    self._events.append(self._gap_event(version, version, reached=reached))
                else:
                    self._add_commit(commit, made_by, reached=reached)
            del self._waiting[version]

    def _settle_coming(self) -> None:
        """Tell of partitions that Dagster lists by now, and forget those that it never will."""
        try:
            states = key_states(self._coming, self._layout, self._instance)
        except DeltaOpsError as error:  # commits are told all the same
            self._notes.append(f"partitions that wait to be told go on waiting: {error}")
            return
        for key, state in states.items():
            if state is KeyState.COMING:
                continue
            version = self._coming.pop(key)
            if state is KeyState.LISTED and self._told.version_of(key) < version:
                event = self._make.late_partition(key, version, self._data_version(version))
                self._events.append(event)

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
                self._add_commit(commit, made_by, reached=self._rows_version(commit))
            elif told is Told.NOT_YET and made_by is not None:
                self._notes.append(f"version {commit.version} waits for run {made_by.run_id}")
                if self._is_young(commit):
                    return False
                self._waiting[commit.version] = made_by.run_id
        self._version = commit.version
        if changes_rows(commit):
            self._changed_at = commit.version
        return True

    def _rows_version(self, commit: Commit) -> int:
        """The last version up to a commit's that changed rows."""
        if changes_rows(commit):
            return commit.version
        if self._changed_at is None:
            self._changed_at = last_data_version(self._log, commit.version)
        return self._changed_at

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
        return self._make.state(text, last, state, self._data_version(reached), first_version=first)

    def _add_commit(self, commit: Commit, made_by: CommitRun | None, *, reached: int) -> None:
        files = changed_files(commit) if changes_rows(commit) else ()
        touched = self._find_touched(files, commit.version)
        # Runs may have told of later versions already: a data version never goes back.
        ahead = (
            k
            for k in touched.keys
            if self._told.version_reached(self._table_id, k) > commit.version
        )
        told = {*self._told.partitions(self._table_id, commit.version), *ahead}
        version = self._data_version(max(reached, self._told.version_reached(self._table_id, None)))
        self._events += self._make.commit_events(commit, made_by, touched, told, version)

    def _find_touched(self, files: Iterable[AddFile], version: int) -> Touched:
        """The partitions that a version touched; those that are not over wait."""
        if self._layout is None:
            return Touched()
        touched = touched_partitions(files, self._snapshot, self._layout, self._instance)
        self._coming |= dict.fromkeys(touched.coming, version)
        too_many = sorted(self._coming)[_MAX_COMING:]
        for key in too_many:
            del self._coming[key]
        if too_many:
            self._notes.append(
                f"{len(too_many)} windows that have not ended are too many to wait for, from "
                f"{too_many[0]} on; they are told when they are touched again"
            )
        if touched.outside:
            self._notes.append(f"version {version} has values outside of every partition")
        if touched.unknown is not None:
            note = f"not all partitions that version {version} touched are known: {touched.unknown}"
            self._notes.append(note)
        return touched

    def _data_version(self, version: int) -> str:
        return data_version_text(self._table_id, version)

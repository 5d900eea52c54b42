"""Unreported commits: finds the commits that no Dagster event reports, and creates their events.

1. The search visits each commit once, in the order of versions. A version without a commit file was
   cleaned up. It becomes a gap event with the state of the table after it.
2. A commit of a run is reported if the run ended without an event for it. An unfinished run may
   still log the event. The commits after such a commit wait for ten minutes, so that events keep
   the order of versions. Then only the commit itself waits, in the cursor.
3. Another `metaData.id` means another table, and all its commits are visited. If the log still has
   the last visited version, it is the same log with a replaced table.
4. Dagster's daemon logs events before it stores the cursor. Events that were already logged are
   not repeated.
5. A table without events is reported in its current state. A table with events is reported from
   the newest version that an event names.
6. Each partition that a commit changed gets an event if the asset has partitions. A time window
   that has not ended waits in the cursor, because Dagster lists its partition afterwards.
7. A data version names a version that changed rows. The data versions of events never go back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import dagster as dg

from delta_ops.clock import MINUTE_MS, Clock
from delta_ops.errors import DeltaOpsError, LogCorruptError, VersionNotFoundError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.commit_file import Commit, read_commit_if_there
from delta_ops.orchestration.changed_values import changed_files
from delta_ops.orchestration.commits.changed_partitions import (
    ChangedPartitions,
    KeyState,
    Layout,
    find_changed_partitions,
    key_states,
)
from delta_ops.orchestration.commits.commit_cursor import TableCursor
from delta_ops.orchestration.commits.reported_commits import (
    CommitRun,
    ReportedCommits,
    ReportState,
    find_reported_position,
    latest_event_id,
    run_of_commit,
)
from delta_ops.orchestration.commits.table_events import (
    INITIAL_STATE,
    Event,
    TableEvents,
    data_version_text,
)
from delta_ops.orchestration.table_versions import changes_rows, last_data_version
from delta_ops.orchestration.tables import TableRef
from delta_ops.protocol.actions import AddFile

WAIT_MS = 10 * MINUTE_MS
"""How long later commits wait for the event of an unfinished run."""
_MAX_UPCOMING = 100
"""Number of partitions that wait in the cursor; the first by key stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitsFound:
    """The result of a search in one table."""

    events: tuple[Event, ...]
    """Events in the order for Dagster's log."""
    cursor: TableCursor
    notes: tuple[str, ...] = ()
    """Sentences for the person who operates the table."""


def find_unreported_commits(
    table: TableRef,
    seen: TableCursor | None,
    instance: dg.DagsterInstance,
    *,
    layout: Layout | None = None,
    may_go_on: Callable[[int], bool],
    clock: Clock,
) -> CommitsFound:
    """Find the commits of a table that no event reports, and create their events.

    Args:
        seen: The cursor of the last search; None before the first search, which starts where
            Dagster's events end.
        layout: The partitions of the asset; None without partitions, or if they are unknown.
        may_go_on: Takes the number of events so far; returns whether to read another commit.
        clock: Measures the age of commits.

    Raises:
        TableNotFoundError: There is no table.
        DeltaOpsError: The table cannot be opened. An unreadable commit is a note instead, and the
            next search begins with it.
    """
    log = table.log()
    snapshot = log.snapshot()
    if seen is None and (seen := _reported_cursor(table, log, snapshot, instance)) is None:
        here = TableCursor(
            table_id=snapshot.metadata.id,
            version=snapshot.version,
            event_id=latest_event_id(instance, table.asset_key),
        )
        reported = ReportedCommits(instance, table.asset_key, 0)
        search = _CommitSearch(table, log, snapshot, layout, instance, reported, clock)
        return search.report_state(here)
    reported = ReportedCommits(instance, table.asset_key, seen.event_id)
    if not reported.is_complete:
        cursor = replace(seen, event_id=reported.event_id)
        note = "it has more events than one tick reads; its commits are checked after its events"
        return CommitsFound(events=(), cursor=cursor, notes=(note,))
    search = _CommitSearch(table, log, snapshot, layout, instance, reported, clock)
    return search.continue_from(seen, may_go_on)


def _reported_cursor(
    table: TableRef, log: DeltaLog, snapshot: Snapshot, instance: dg.DagsterInstance
) -> TableCursor | None:
    """The cursor after the commits that events report, or a run will report; None if unknown."""
    newest = instance.get_latest_materialization_event(table.asset_key)
    event = newest.asset_materialization if newest is not None else None
    if event is not None and {INITIAL_STATE, "delta/first_look"} & event.metadata.keys():
        return None  # the tick that reported the first state may have been interrupted
    table_id = snapshot.metadata.id
    reported = find_reported_position(instance, table.asset_key, table_id)
    if event is not None and reported is not None:
        return TableCursor(table_id=table_id, version=reported.version, event_id=reported.event_id)
    version = last_data_version(log, snapshot.version)
    commit = read_commit_if_there(log.storage, log.log_directory, version)
    made_by = run_of_commit(commit) if commit is not None else None
    if made_by is None or instance.get_run_by_id(made_by.run_id) is None:
        return None
    return TableCursor(table_id=table_id, version=version - 1)


class _CommitSearch:
    """A search for the unreported commits of one table."""

    def __init__(
        self,
        table: TableRef,
        log: DeltaLog,
        snapshot: Snapshot,
        layout: Layout | None,
        instance: dg.DagsterInstance,
        reported: ReportedCommits,
        clock: Clock,
    ) -> None:
        self._log, self._snapshot, self._layout = log, snapshot, layout
        self._instance, self._reported, self._clock = instance, reported, clock
        self._make = TableEvents(table.asset_key, snapshot, layout)
        self._table_id = snapshot.metadata.id
        self._version = -1
        self._changed_at: int | None = None
        self._waiting: dict[int, str] = {}
        self._upcoming: dict[str, int] = {}
        self._events: list[Event] = []
        self._notes: list[str] = []

    def continue_from(self, seen: TableCursor, may_go_on: Callable[[int], bool]) -> CommitsFound:
        self._resume(seen)
        try:
            self._report_waiting(seen, may_go_on)
            self._report_upcoming()
            self._report_commits(may_go_on)
        except DeltaOpsError as error:  # earlier findings stay valid
            self._notes.append(str(error))
        cursor = TableCursor(
            table_id=self._table_id,
            version=self._version,
            event_id=self._reported.event_id,
            waiting=self._waiting,
            upcoming=self._upcoming,
        )
        return CommitsFound(events=tuple(self._events), cursor=cursor, notes=tuple(self._notes))

    def report_state(self, here: TableCursor) -> CommitsFound:
        """Report the current state of the table, and each partition with rows."""
        version = here.version
        if not self._reported.is_reported_by_sensor(self._table_id, version):
            changed = self._changed_partitions(self._snapshot.add_files(), version)
            reported = self._reported.partitions(self._table_id, version)
            reached = self._data_version(last_data_version(self._log, version))
            self._events += self._make.first_look_events(changed, reported, reached)
        return CommitsFound(
            events=tuple(self._events),
            cursor=replace(here, upcoming=self._upcoming),
            notes=tuple(self._notes),
        )

    def _report_commits(self, may_go_on: Callable[[int], bool]) -> None:
        for commit in self._log.commits(self._version + 1, self._snapshot.version):
            self._report_gap(commit.version - 1)
            if not self._report_unless_reported(commit) or not may_go_on(len(self._events)):
                return
        self._report_gap(self._snapshot.version)

    def _resume(self, seen: TableCursor) -> None:
        is_known = seen.table_id in (None, self._snapshot.metadata.id)
        if is_known and seen.version <= self._snapshot.version:
            self._version, self._waiting = seen.version, dict(seen.waiting)
            self._upcoming = dict(seen.upcoming)
        elif is_known:
            self._version = self._snapshot.version
            note = f"the table went back from version {seen.version} to {self._version}"
            self._notes.append(note)
            if not self._reported.is_reported_by_sensor(self._table_id, self._version):
                reached = self._data_version(last_data_version(self._log, self._version))
                event = self._make.state(note, self._version, self._snapshot, reached)
                self._events.append(event)
        elif seen.table_id is not None and self._has(seen.table_id, seen.version):
            self._table_id, self._version = seen.table_id, seen.version
            self._waiting, self._upcoming = dict(seen.waiting), dict(seen.upcoming)
        else:
            self._notes.append(f"another table has replaced {seen.table_id}")

    def _has(self, table_id: str, version: int) -> bool:
        if not 0 <= version <= self._snapshot.version:
            return False
        try:
            return self._log.snapshot(version).metadata.id == table_id
        except (VersionNotFoundError, LogCorruptError):
            return False

    def _report_waiting(self, seen: TableCursor, may_go_on: Callable[[int], bool]) -> None:
        for version, run_id in list(self._waiting.items()):
            made_by = CommitRun(run_id=run_id, root_run_id=run_id, asset_key=None)
            if self._reported.state_of(made_by, self._table_id, version) is ReportState.PENDING:
                continue
            if not may_go_on(len(self._events)):
                return
            commit = read_commit_if_there(self._log.storage, self._log.log_directory, version)
            made_by = (commit and run_of_commit(commit)) or made_by
            by_run = self._reported.state_of(made_by, self._table_id, version)
            by_sensor = self._reported.is_reported_by_sensor(self._table_id, version)
            if by_run is ReportState.UNREPORTED and not by_sensor:
                # Later commits may already be reported, and a data version never goes back.
                reached = max(version, last_data_version(self._log, seen.version))
                if commit is None:
                    self._events.append(self._gap_event(version, version, reached=reached))
                else:
                    self._add_commit(commit, made_by, reached=reached)
            del self._waiting[version]

    def _report_upcoming(self) -> None:
        """Report waiting partitions that Dagster now lists; drop keys that it will never list."""
        try:
            states = key_states(self._upcoming, self._layout, self._instance)
        except DeltaOpsError as error:  # still report commits
            self._notes.append(f"partitions with a pending report keep waiting: {error}")
            return
        for key, state in states.items():
            if state is KeyState.UPCOMING:
                continue
            version = self._upcoming.pop(key)
            if state is KeyState.LISTED and self._reported.newest_version_of(key) < version:
                event = self._make.late_partition(key, version, self._data_version(version))
                self._events.append(event)

    def _report_unless_reported(self, commit: Commit) -> bool:
        """Report a commit unless an event does; False if it must wait, with all later commits."""
        if commit.metadata is not None:
            self._table_id = commit.metadata.id
        made_by = run_of_commit(commit)
        if not self._reported.is_reported_by_sensor(self._table_id, commit.version):
            by_run = ReportState.UNREPORTED
            if made_by is not None:
                by_run = self._reported.state_of(made_by, self._table_id, commit.version)
            if by_run is ReportState.UNREPORTED:
                self._add_commit(commit, made_by, reached=self._rows_version(commit))
            elif by_run is ReportState.PENDING and made_by is not None:
                self._notes.append(f"version {commit.version} waits for run {made_by.run_id}")
                if self._is_young(commit):
                    return False
                self._waiting[commit.version] = made_by.run_id
        self._version = commit.version
        if changes_rows(commit):
            self._changed_at = commit.version
        return True

    def _rows_version(self, commit: Commit) -> int:
        """The last version up to this commit that changed rows."""
        if changes_rows(commit):
            return commit.version
        if self._changed_at is None:
            self._changed_at = last_data_version(self._log, commit.version)
        return self._changed_at

    def _is_young(self, commit: Commit) -> bool:
        made_ms = commit.info.values.get("timestamp") if commit.info else None
        return type(made_ms) is int and self._clock() - made_ms < WAIT_MS

    def _report_gap(self, last: int) -> None:
        """Report cleaned-up versions up to `last`, unless events name all of them."""
        if last <= self._version:
            return
        first = self._version + 1
        state = self._state_at(last)
        self._table_id = state.metadata.id
        if self._reported.unnamed_versions(self._table_id, first, last):
            event = self._gap_event(first, last, reached=last)
            self._events.append(event)
            self._notes.append(str(event.description))
        self._version = last

    def _state_at(self, version: int) -> Snapshot:
        try:
            return self._log.snapshot(version)
        except DeltaOpsError:  # the oldest checkpoint has a later version
            return self._snapshot

    def _gap_event(self, first: int, last: int, *, reached: int) -> Event:
        state = self._state_at(last)
        what = f"version {first} was" if first == last else f"versions {first} to {last} were"
        text = f"{what} cleaned up before a tick saw them; their changes are unknown"
        return self._make.state(text, last, state, self._data_version(reached), first_version=first)

    def _add_commit(self, commit: Commit, made_by: CommitRun | None, *, reached: int) -> None:
        files = changed_files(commit) if changes_rows(commit) else ()
        changed = self._changed_partitions(files, commit.version)
        # Runs may have reported later versions already, and a data version never goes back.
        newest = partial(self._reported.newest_data_version, self._table_id)
        ahead = (key for key in changed.keys if newest(key) > commit.version)
        reported = {*self._reported.partitions(self._table_id, commit.version), *ahead}
        version = self._data_version(max(reached, newest(None)))
        self._events += self._make.commit_events(commit, made_by, changed, reported, version)

    def _changed_partitions(self, files: Iterable[AddFile], version: int) -> ChangedPartitions:
        """The partitions that a version changed. Windows that have not ended wait in the cursor."""
        if self._layout is None:
            return ChangedPartitions()
        changed = find_changed_partitions(files, self._snapshot, self._layout, self._instance)
        self._upcoming |= dict.fromkeys(changed.upcoming, version)
        too_many = sorted(self._upcoming)[_MAX_UPCOMING:]
        for key in too_many:
            del self._upcoming[key]
        if too_many:
            self._notes.append(
                f"{len(too_many)} windows that have not ended are too many to wait for, from "
                f"{too_many[0]} on; they are reported when they change again"
            )
        if changed.outside:
            self._notes.append(f"version {version} has values outside of every partition")
        if changed.unknown is not None:
            note = f"not all partitions that version {version} touched are known: {changed.unknown}"
            self._notes.append(note)
        return changed

    def _data_version(self, version: int) -> str:
        return data_version_text(self._table_id, version)

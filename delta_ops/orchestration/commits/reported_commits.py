"""Reported commits: the commits of a table that Dagster's events already report.

An event reports a commit in one of three cases:

1. The sensor logged the event, with the version of the commit.
2. The run of the commit logged the event, with the commit's version or a later version. A run logs
   one event for all its commits, with the last version.
3. A run that continues the run of the commit logged the event, and found the work done.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import dagster as dg

from delta_ops.lazy import lazy
from delta_ops.log.commit_file import Commit
from delta_ops.orchestration.dagster_compat import asset_events_of_run
from delta_ops.orchestration.io_manager.reruns import root_id

SINCE_VERSION = "delta/reported_since_version"
"""Metadata key of events that report several versions; the value is the first of them."""
SHORT_ID = 8
"""Characters of `metaData.id` in a data version."""
_PAGE = 1_000
_RUNS_AT_ONCE = 500
_MAX_ID = 255
MAX_EVENTS = 20_000
"""Number of materializations, and of observations, that one tick reads of a table."""


class ReportState(Enum):
    """Whether Dagster has an event for a commit."""

    REPORTED = "an event reports it"
    PENDING = "its run has not ended and may still report it"
    UNREPORTED = "no event reports it"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEvent:
    """An event of a table's asset that names a version."""

    run_id: str
    """Id of the run; "" for an event without a run, such as the sensor's events."""
    short_id: str | None
    """First characters of `metaData.id`; None if the event does not name it."""
    found_done: bool
    """Whether the run found its work already done."""
    first_version: int
    """The first reported version; differs from `version` if the event reports several commits."""
    version: int
    partition: str | None
    """The partition that the event reports; None if it reports the whole commit."""
    data_version: int
    """The table version in the data version of the event; -1 if the event has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRun:
    """The Dagster run of a commit, from its user metadata."""

    run_id: str
    root_run_id: str
    asset_key: dg.AssetKey | None


class ReportedCommits:
    """The commits of one table that Dagster's events report. Loads each run once."""

    def __init__(
        self,
        instance: dg.DagsterInstance,
        asset_key: dg.AssetKey,
        after_event_id: int,
        *,
        max_events: int = MAX_EVENTS,
    ) -> None:
        self._instance, self._asset_key = instance, asset_key
        self._ended: dict[str, bool] = {}
        self._by_run: dict[str, list[TableEvent]] = defaultdict(list)
        records, self.is_complete = _read_records(instance, asset_key, after_event_id, max_events)
        self.event_id = max((each.storage_id for each in records), default=after_event_id)
        """Storage id of the newest event that was read."""
        self._by_sensor: set[tuple[str | None, int]] = set()
        self._partitions: dict[tuple[str | None, int], set[str]] = defaultdict(set)
        self._versions: dict[str, int] = {}
        self._data_versions: dict[tuple[str | None, str | None], int] = {}
        self._named: set[tuple[str | None, int]] = set()
        self._adopted: set[tuple[str | None, int]] = set()
        for record in records:
            event = _table_event(record.event_log_entry)
            if event is None:
                continue
            self._by_run[event.run_id].append(event)
            self._named.add((event.short_id, event.version))
            if event.found_done:
                self._adopted.add((event.short_id, event.version))
            if record.event_log_entry.asset_materialization is not None:
                place = (event.short_id, event.partition)
                known = self._data_versions.get(place, -1)
                self._data_versions[place] = max(event.data_version, known)
            if event.partition is not None:
                newest = max(event.version, self._versions.get(event.partition, -1))
                self._versions[event.partition] = newest
                if not event.run_id:
                    self._partitions[event.short_id, event.version].add(event.partition)
            elif not event.run_id:
                versions = range(event.first_version, event.version + 1)
                self._by_sensor.update((event.short_id, version) for version in versions)

    def is_reported_by_sensor(self, table_id: str, version: int) -> bool:
        """Whether an event of the sensor reports the whole commit."""
        return (table_id[:SHORT_ID], version) in self._by_sensor

    def partitions(self, table_id: str, version: int) -> Collection[str]:
        """Partitions that this version changed, by events of the sensor."""
        return self._partitions.get((table_id[:SHORT_ID], version), ())

    def newest_data_version(self, table_id: str, partition: str | None) -> int:
        """Newest table version in the data versions of a partition, or of the table; else -1."""
        return self._data_versions.get((table_id[:SHORT_ID], partition), -1)

    def newest_version_of(self, partition: str) -> int:
        """Newest version that an event names for a partition; -1 if no event does."""
        return self._versions.get(partition, -1)

    def unnamed_versions(self, table_id: str, first: int, last: int) -> list[int]:
        """Versions from `first` to `last` that no event names, of any writer."""
        named = self._named | self._by_sensor
        return [v for v in range(first, last + 1) if (table_id[:SHORT_ID], v) not in named]

    def state_of(self, made_by: CommitRun, table_id: str, version: int) -> ReportState:
        """Whether the run of a commit, or a run that continues it, has reported the commit."""
        if self._has_reported(made_by.run_id, table_id, version):
            return ReportState.REPORTED
        if not self._has_ended(made_by):
            # The events were read after the status, because an ended run logs no more events.
            reported = self._has_reported(made_by.run_id, table_id, version)
            return ReportState.REPORTED if reported else ReportState.PENDING
        is_adopted = (table_id[:SHORT_ID], version) in self._adopted
        reported = is_adopted or self._has_reported(made_by.run_id, table_id, version)
        reported = reported or any(
            self._has_reported(run_id, table_id, version, found_done=True)
            for root in {made_by.run_id, made_by.root_run_id}
            for run_id in self._runs_by_root.get(root, ())
        )
        return ReportState.REPORTED if reported else ReportState.UNREPORTED

    def _has_reported(
        self, run_id: str, table_id: str, version: int, *, found_done: bool = False
    ) -> bool:
        return any(
            each.version >= version
            and each.short_id in (None, table_id[:SHORT_ID])
            and (each.found_done or not found_done)
            for each in self._by_run.get(run_id, ())
        )

    def _has_ended(self, made_by: CommitRun) -> bool:
        """Read the events of a run, and return whether it has ended; true for an unknown run."""
        run_id = made_by.run_id
        if run_id not in self._ended:
            run = self._instance.get_run_by_id(run_id)
            self._ended[run_id] = run is None or run.is_finished
            keys = (made_by.asset_key, self._asset_key)
            for entry in asset_events_of_run(self._instance, run_id) if run else ():
                event = _table_event(entry)
                if event is not None and _key_of(entry) in keys:
                    self._by_run[run_id].append(event)
        return self._ended[run_id]

    @lazy
    def _runs_by_root(self) -> dict[str, set[str]]:
        """The runs of the events, by the root run that they re-execute."""
        found: dict[str, set[str]] = defaultdict(set)
        run_ids = [run_id for run_id in self._by_run if run_id]
        for start in range(0, len(run_ids), _RUNS_AT_ONCE):
            query = dg.RunsFilter(run_ids=run_ids[start : start + _RUNS_AT_ONCE])
            for run in self._instance.get_runs(query):
                found[root_id(run)].add(run.run_id)
        return found


def run_user_metadata(context: dg.OpExecutionContext) -> str:
    """User metadata that record the run of an op in a commit, for `run_of_commit`."""
    return json.dumps({"dagster/run_id": context.run.run_id, "dagster/job": context.job_name})


def run_of_commit(commit: Commit) -> CommitRun | None:
    """The Dagster run of a commit; None for a commit of another writer."""
    text = commit.info.values.get("userMetadata") if commit.info else None
    try:
        values = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or not _is_id(values.get("dagster/run_id")):
        return None
    run_id, root = values["dagster/run_id"], values.get("dagster/root_run_id")
    asset = values.get("dagster/asset")
    return CommitRun(
        run_id=run_id,
        root_run_id=root if isinstance(root, str) else run_id,
        asset_key=dg.AssetKey.from_user_string(asset) if isinstance(asset, str) else None,
    )


def _is_id(value: object) -> bool:
    """Whether the run storage accepts a value as a run id."""
    return isinstance(value, str) and len(value) <= _MAX_ID and value.isprintable()


def latest_event_id(instance: dg.DagsterInstance, asset_key: dg.AssetKey) -> int:
    """Storage id of the newest event of an asset; 0 without events."""
    newest = [
        record.storage_id
        for fetch in (instance.fetch_materializations, instance.fetch_observations)
        for record in fetch(asset_key, limit=1).records
    ]
    return max(newest, default=0)


class ReportedPosition(NamedTuple):
    """How far the events of a table report its commits."""

    version: int
    """The newest version that an event names. With partitions, the lowest of their versions."""
    event_id: int
    """The storage id just before the event's id."""


def find_reported_position(
    instance: dg.DagsterInstance, asset_key: dg.AssetKey, table_id: str
) -> ReportedPosition | None:
    """How far the newest events of a table report its commits; None if no event names a version.

    Args:
        table_id: `metaData.id`. Events of an earlier table at this location do not count.
    """
    places: dict[str | None, ReportedPosition] = {}
    # Observations of maintenance report its own commits only, not the commits before them.
    for record in instance.fetch_materializations(asset_key, limit=_PAGE).records:
        event = _table_event(record.event_log_entry)
        if event is not None and event.short_id in (None, table_id[:SHORT_ID]):
            place = ReportedPosition(event.version, record.storage_id - 1)
            places[event.partition] = max(place, places.get(event.partition, place))
    if not places:
        return None
    # One partition may be reported up to a version while another lacks an earlier commit.
    return min(places.values())


def _read_records(
    instance: dg.DagsterInstance, asset_key: dg.AssetKey, after_event_id: int, max_events: int
) -> tuple[list[dg.EventLogRecord], bool]:
    """At most `max_events` records of each kind after an event, and whether no more follow."""
    found: list[dg.EventLogRecord] = []
    read_to: list[int] = []
    for fetch in (instance.fetch_materializations, instance.fetch_observations):
        last, count, has_more = after_event_id, 0, True
        while has_more and count < max_events:
            query = dg.AssetRecordsFilter(asset_key=asset_key, after_storage_id=last)
            page = fetch(query, limit=min(_PAGE, max_events), ascending=True)
            found += page.records
            count, has_more = count + len(page.records), page.has_more
            last = page.records[-1].storage_id if page.records else last
        if has_more:
            read_to.append(last)
    if not read_to:
        return found, True
    return [each for each in found if each.storage_id <= min(read_to)], False


def _table_event(entry: dg.EventLogEntry) -> TableEvent | None:
    event: Any = entry.asset_materialization or entry.asset_observation
    if event is None:
        return None
    version = _whole_number(event.metadata, "delta/version")
    if version is None:
        return None
    first = _whole_number(event.metadata, SINCE_VERSION)
    if first is None:  # the earlier name
        first = _whole_number(event.metadata, "delta/first_version")
    short_id, _, number = (event.tags or {}).get("dagster/data_version", "").rpartition("@")
    return TableEvent(
        run_id=entry.run_id,
        short_id=short_id or None,
        found_done=bool(getattr(event.metadata.get("delta/already_committed"), "value", False)),
        first_version=version if first is None else first,
        version=version,
        partition=getattr(event, "partition", None),
        data_version=int(number) if short_id and number.isdecimal() else -1,
    )


def _whole_number(metadata: Mapping[str, Any], name: str) -> int | None:
    value = getattr(metadata.get(name), "value", None)
    return value if type(value) is int else None


def _key_of(entry: dg.EventLogEntry) -> dg.AssetKey | None:
    event: Any = entry.asset_materialization or entry.asset_observation
    return None if event is None else event.asset_key

"""Commit sensor: reports commits of other writers as events, and then evaluates delta_ops checks.

A table that cannot be read does not stop the others. A sentence in the reason and in the log of
the tick says why.
"""

from collections.abc import Sequence
from typing import Any

import dagster as dg

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import TableNotFoundError
from delta_ops.maintenance.fleet.failures import failure_of
from delta_ops.orchestration.checks.check_ops import Evaluation, OwnChecks
from delta_ops.orchestration.commits.changed_partitions import layout_of
from delta_ops.orchestration.commits.commit_cursor import (
    ABSENT,
    SensorCursor,
    cursor_from_text,
    cursor_text,
)
from delta_ops.orchestration.commits.unreported_commits import find_unreported_commits
from delta_ops.orchestration.dagster_compat import sensor_location, target_of_evaluation
from delta_ops.orchestration.dagster_versions import AssetCheckEvaluation
from delta_ops.orchestration.tables import TableRef
from delta_ops.units import count_text


def build_commit_sensor(
    tables: Sequence[TableRef],
    *,
    name: str = "delta_commit_sensor",
    minimum_interval_seconds: int = 60,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
    tick_seconds: int = 30,
    max_events: int = 1000,
    clock: Clock = system_clock,
) -> dg.SensorDefinition:
    """Build a sensor that reports commits without a Dagster event.

    A commit that changed rows becomes a materialization of the asset, or of each changed partition.
    Any other commit becomes an observation; see `unreported_commits`. The delta_ops checks of the
    table are evaluated, without opening data files. The first tick for a table reports its current
    state if Dagster has no event of the table. Otherwise it reports the commits after the versions
    that the events name.

    Args:
        tick_seconds: After this many seconds a tick leaves the other tables to the next tick.
            Dagster ends a tick after one minute.
        max_events: After this many events a tick leaves the rest to the next tick.

    Examples:
        >>> orders = TableRef(asset_key=dg.AssetKey("orders"), uri="lake/orders")
        >>> build_commit_sensor([orders]).name
        'delta_commit_sensor'
    """
    validate_arguments(build_commit_sensor, locals())

    @dg.sensor(
        name=name,
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
        description=(
            f"Reports commits to {count_text(len(tables), 'table')} that have no event yet."
        ),
    )
    def commit_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        ends_ms = clock() + 1000 * tick_seconds
        return _Tick(context, tables, max_events=max_events, ends_ms=ends_ms, clock=clock).run()

    return commit_sensor


class _Tick:
    """One tick: collects the events of tables in turn, up to its limits of time and events."""

    def __init__(
        self,
        context: dg.SensorEvaluationContext,
        tables: Sequence[TableRef],
        *,
        max_events: int,
        ends_ms: int,
        clock: Clock,
    ) -> None:
        self._context, self._clock = context, clock
        self._max_events, self._ends_ms = max_events, ends_ms
        cursor = cursor_from_text(context.cursor)
        self._tables = _rotate(tables, cursor.first)
        self._cursors = dict(cursor.tables)
        self._checks = OwnChecks(context.repository_def)
        self._events: list[Any] = []
        self._notes: list[str] = []

    def run(self) -> dg.SensorResult:
        """Search the tables; the next tick begins with the first table that was not reached."""
        first = None
        following = [*self._tables[1:], *self._tables[:1]]
        for table, next_table in zip(self._tables, following, strict=True):
            self._search(table)
            if not self._may_go_on():
                first = next_table.name
                break
        return dg.SensorResult(
            asset_events=self._events,
            cursor=cursor_text(SensorCursor(tables=self._cursors, first=first)),
            skip_reason="; ".join([_count(self._events), *self._notes]),
        )

    def _may_go_on(self, num_more: int = 0) -> bool:
        """Whether the limits allow more, after `num_more` further events of the current table."""
        has_room = len(self._events) + num_more < self._max_events
        return has_room and self._clock() < self._ends_ms

    def _search(self, table: TableRef) -> None:
        """Add the events of a table, or a note that says why it failed."""
        try:
            found = find_unreported_commits(
                table,
                self._cursors.get(table.name),
                self._context.instance,
                layout=layout_of(table, self._context.repository_def),
                may_go_on=self._may_go_on,
                clock=self._clock,
            )
        except TableNotFoundError as error:
            before = self._cursors.setdefault(table.name, ABSENT)
            if before.version >= 0:
                self._add_failure(table, error)
        except Exception as error:  # one table must not stop the reports of the others
            self._add_failure(table, error)
        else:
            self._events.extend(found.events)
            if found.events:
                self._events.extend(self._check_results(table))
            self._cursors[table.name] = found.cursor
            self._notes += [f"{table.name}: {note}" for note in found.notes]

    def _check_results(self, table: TableRef) -> Sequence[AssetCheckEvaluation]:
        """Results of the delta_ops checks of a table with new commits."""
        context = self._context
        scene = Evaluation(
            instance=context.instance,
            location=sensor_location(context),
            target=target_of_evaluation(context.instance, table.asset_key),
            may_open_data=False,
        )
        return self._checks.evaluate(table.asset_key, scene)

    def _add_failure(self, table: TableRef, error: Exception) -> None:
        sentence = f"{table.name}: {failure_of(error).message}"
        self._context.log.error(sentence)
        self._notes.append(sentence)


def _rotate(tables: Sequence[TableRef], first: str | None) -> list[TableRef]:
    start = next((n for n, table in enumerate(tables) if table.name == first), 0)
    return [*tables[start:], *tables[:start]]


def _count(events: Sequence[Any]) -> str:
    return f"{count_text(len(events), 'event')} reported" if events else "no commits to report"

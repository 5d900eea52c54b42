"""Commit sensor: reports the commits of other writers as events.

A table that cannot be read does not stop the others. A sentence in the reason and in the log of
the tick says why.
"""

from collections.abc import Sequence
from typing import Any

import dagster as dg

from delta_ops.clock import Clock, system_clock
from delta_ops.errors import TableNotFoundError
from delta_ops.maintenance.fleet.maintain import failure_of
from delta_ops.orchestration.commits.changed_partitions import layout_of
from delta_ops.orchestration.commits.commit_cursor import (
    ABSENT,
    SensorCursor,
    cursor_from_text,
    cursor_text,
)
from delta_ops.orchestration.commits.unreported_commits import find_unreported_commits
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
    """Reports commits that no Dagster event reports.

    A commit that changed rows becomes a materialization, in each partition that it changed if the
    asset has partitions. Any other commit becomes an observation; see `unreported_commits`. The
    first tick for a table reports its current state if Dagster has no event of the table. Otherwise
    it reports the commits after the versions that the events name.

    Args:
        tick_seconds: After so many seconds a tick leaves the other tables to the next tick. Dagster
            ends a tick after one minute.
        max_events: After so many events a tick leaves the rest to the next tick.
    """

    @dg.sensor(
        name=name,
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
        description=(
            f"Makes events of the commits to {count_text(len(tables), 'table')} that no event "
            "tells of."
        ),
    )
    def commit_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        cursor = cursor_from_text(context.cursor)
        ends_ms = clock() + 1000 * tick_seconds
        cursors, events, notes = dict(cursor.tables), list[Any](), list[str]()

        def may_go_on(found: int = 0) -> bool:
            return len(events) + found < max_events and clock() < ends_ms

        in_turn = _rotate(tables, cursor.first)
        first = None
        for table, following in zip(in_turn, in_turn[1:] + in_turn[:1], strict=True):
            try:
                found = find_unreported_commits(
                    table,
                    cursors.get(table.name),
                    context.instance,
                    layout=layout_of(table, context.repository_def),
                    may_go_on=may_go_on,
                    clock=clock,
                )
            except TableNotFoundError as error:
                before = cursors.setdefault(table.name, ABSENT)
                if before.version >= 0:
                    notes.append(_report_failure(context, table, error))
            except Exception as error:  # one table must not keep the others from being told
                notes.append(_report_failure(context, table, error))
            else:
                events.extend(found.events)
                cursors[table.name] = found.cursor
                notes += [f"{table.name}: {note}" for note in found.notes]
            if not may_go_on():
                first = following.name
                break
        return dg.SensorResult(
            asset_events=events,
            cursor=cursor_text(SensorCursor(tables=cursors, first=first)),
            skip_reason="; ".join([_count(events), *notes]),
        )

    return commit_sensor


def _rotate(tables: Sequence[TableRef], first: str | None) -> list[TableRef]:
    start = next((n for n, table in enumerate(tables) if table.name == first), 0)
    return [*tables[start:], *tables[:start]]


def _count(events: Sequence[Any]) -> str:
    return f"{count_text(len(events), 'event')} reported" if events else "no commits to report"


def _report_failure(context: dg.SensorEvaluationContext, table: TableRef, error: Exception) -> str:
    """Why a table was left out, in a sentence, which Dagster's log has too."""
    sentence = f"{table.name}: {failure_of(error).message}"
    context.log.error(sentence)
    return sentence

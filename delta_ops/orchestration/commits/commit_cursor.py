"""Commit cursor: how far the commit sensor has read each table, as text.

Dagster stores the text in the record of every tick, so it is kept short.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from delta_ops.errors import InvalidRequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCursor:
    """How far the commits of a table have been read."""

    table_id: str | None
    """`metaData.id` at `version`; None if unknown."""
    version: int
    """All commits up to this version have been read; -1 if none."""
    event_id: int = 0
    """Storage id in Dagster. All events of the asset up to this id have been read."""
    waiting: Mapping[int, str] = field(default_factory=dict)
    """Run ids by version. These runs have not ended and may still report the version."""
    upcoming: Mapping[str, int] = field(default_factory=dict)
    """Partitions that Dagster does not list yet, with the last version that changed them."""


ABSENT = TableCursor(table_id=None, version=-1)
"""Cursor of a missing table. If a table is created there, all its commits are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorCursor:
    """How far the sensor has read all its tables."""

    tables: Mapping[str, TableCursor] = field(default_factory=dict)
    """Cursors by asset key; a table that was never read is absent."""
    first: str | None = None
    """The first table of the next tick; None for any table."""


def cursor_from_text(text: str | None) -> SensorCursor:
    """The cursor of an earlier tick; also accepts a mapping of tables to versions.

    Raises:
        InvalidRequestError: The text is no cursor of this sensor.
    """
    try:
        return _cursor_from_values(json.loads(text) if text else {})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidRequestError(
            "the cursor of the sensor is not one of its own texts; clear the cursor in the UI, and "
            "the sensor starts where Dagster's events of the tables end"
        ) from error


def _cursor_from_values(values: dict[str, Any]) -> SensorCursor:
    if not isinstance(values.get("tables"), dict):
        known = {n: TableCursor(table_id=None, version=int(v)) for n, v in values.items()}
        return SensorCursor(tables=known)
    return SensorCursor(
        tables={name: _table_cursor(each) for name, each in values["tables"].items()},
        first=values.get("first"),
    )


def cursor_text(cursor: SensorCursor) -> str:
    """The cursor for the next tick."""
    values = {
        "tables": {name: _table_values(each) for name, each in cursor.tables.items()},
        "first": cursor.first,
    }
    return json.dumps(values, separators=(",", ":"))


def _table_cursor(values: Mapping[str, Any]) -> TableCursor:
    return TableCursor(
        table_id=values["id"],
        version=int(values["version"]),
        event_id=int(values.get("event", 0)),
        waiting={int(version): run for version, run in values.get("waiting", {}).items()},
        upcoming=values.get("coming", {}),
    )


def _table_values(cursor: TableCursor) -> dict[str, Any]:
    values: dict[str, Any] = {"id": cursor.table_id, "version": cursor.version}
    if cursor.event_id:
        values["event"] = cursor.event_id
    if cursor.waiting:
        values["waiting"] = {str(version): run for version, run in cursor.waiting.items()}
    if cursor.upcoming:
        values["coming"] = dict(cursor.upcoming)
    return values

"""Commit cursor: how far the commit sensor has looked at each of its tables, as text.

Dagster keeps the text, also in the record of every tick, so that it holds no more than is needed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCursor:
    """How far a table has been looked at."""

    table_id: str | None
    """`metaData.id` at `version`; None where it is not known."""
    version: int
    """All commits up to here have been looked at; -1: none."""
    event_id: int = 0
    """Storage id in Dagster; all events of the asset up to it have been taken into account."""
    waiting: Mapping[int, str] = field(default_factory=dict)
    """Versions looked at whose run has not ended yet and may tell of them itself, by run id."""
    coming: Mapping[str, int] = field(default_factory=dict)
    """Partitions that Dagster does not list yet, with the last version that touched them."""


ABSENT = TableCursor(table_id=None, version=-1)
"""Cursor of a table that was not there: what is made at its place is looked at from the first
commit on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorCursor:
    """How far the sensor has come."""

    tables: Mapping[str, TableCursor] = field(default_factory=dict)
    """By asset key; a table that has never been looked at is not in it."""
    first: str | None = None
    """The table that the next tick begins with; None: any."""


def cursor_from_text(text: str | None) -> SensorCursor:
    """What an earlier tick has written; also a mapping of tables to versions."""
    values: dict[str, Any] = json.loads(text) if text else {}
    if not isinstance(values.get("tables"), dict):
        known = {name: TableCursor(table_id=None, version=v) for name, v in values.items()}
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
        version=values["version"],
        event_id=values.get("event", 0),
        waiting={int(version): run for version, run in values.get("waiting", {}).items()},
        coming=values.get("coming", {}),
    )


def _table_values(cursor: TableCursor) -> dict[str, Any]:
    values: dict[str, Any] = {"id": cursor.table_id, "version": cursor.version}
    if cursor.event_id:
        values["event"] = cursor.event_id
    if cursor.waiting:
        values["waiting"] = {str(version): run for version, run in cursor.waiting.items()}
    if cursor.coming:
        values["coming"] = dict(cursor.coming)
    return values

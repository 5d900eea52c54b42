"""A commit sensor that a test ticks, and tables for it to look at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa

import delta_ops.arrow as da
from delta_ops.orchestration import TableRef, build_commit_sensor

ROWS = pa.table({"x": [1, 2, 3]})


class Watch:
    """A sensor and the results of its ticks, logged as Dagster's daemon does."""

    def __init__(
        self,
        instance: dg.DagsterInstance,
        *tables: TableRef,
        definitions: dg.Definitions | None = None,
        **settings: Any,
    ) -> None:
        self.instance, self.definitions = instance, definitions
        self.cursor: str | None = None
        self.sensor = build_commit_sensor(tables, **settings)
        self.reason = ""

    def look(self) -> list[Any]:
        """A tick's events, without logging them."""
        context = dg.build_sensor_context(
            self.instance, cursor=self.cursor, definitions=self.definitions
        )
        tick = self.sensor.evaluate_tick(context)
        self.reason, self._next = str(tick.skip_message), tick.cursor
        return list(tick.asset_events)

    def tick(self) -> list[Any]:
        events = self.look()
        self.log(events)
        self.cursor = self._next
        return events

    def log(self, events: Sequence[Any]) -> None:
        for event in events:
            self.instance.report_runless_asset_event(event)


def versions(events: Sequence[Any]) -> list[int]:
    return [event.metadata["delta/version"].value for event in events]


def ref(root: Path, name: str = "orders") -> TableRef:
    return TableRef(asset_key=dg.AssetKey(name), uri=str(root / name))


def append(table: TableRef, times: int = 1, **settings: Any) -> None:
    for _ in range(times):
        da.write(table.uri, ROWS, **settings)


def commit_file(table: TableRef, version: int) -> Path:
    return Path(table.uri) / "_delta_log" / f"{version:020d}.json"

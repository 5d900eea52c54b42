"""Log listener: writes the events of a table write to Dagster's log."""

from __future__ import annotations

import time
from typing import Any

from delta_ops.events import CheckpointDamaged, CommitLost, Event, Progress, RaceLost

PROGRESS_S = 10.0
"""Seconds between two lines that report progress."""


class LogListener:
    """Logs lost races and lost commits, and the number of finished Spark tasks now and then.

    Args:
        log: The log of a Dagster context.
    """

    def __init__(self, log: Any) -> None:
        self._log = log
        self._logged_at = time.monotonic()

    def __call__(self, event: Event) -> None:
        """Log one event."""
        match event:
            case Progress() if time.monotonic() - self._logged_at >= PROGRESS_S:
                self._logged_at = time.monotonic()
                self._log.info(f"{event.table}: {event.operation}, {event.count} tasks done")
            case RaceLost():
                self._log.info(f"{event.table}: another writer committed {event.version} first")
            case CommitLost() | CheckpointDamaged():
                self._log.warning(f"{event.table}: {event.advice}")

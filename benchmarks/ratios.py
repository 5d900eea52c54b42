"""Ratios to peers: benchmarks record them, and `make bench` ends with all of them, worst first."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_FILE = "DELTA_OPS_RATIOS"
"""Environment variable with the file that collects the ratios of a run of benchmarks."""
GOAL = 1.2
"""Times as fast as the peer, where delta_ops does the work."""
LIBRARY_GOAL = 1.0
"""The same, where both sides wait for the Parquet library."""
MEMORY_GOAL = 1.0


class Ratio(NamedTuple):
    """A figure of delta_ops beside the figure of a peer; less is better."""

    work: str
    ours: float
    peer: float
    unit: str = "s"
    goal: float = GOAL

    @property
    def times(self) -> float:
        """How many times the peer needs as much."""
        return self.peer / self.ours if self.ours else float("inf")

    @property
    def is_below_goal(self) -> bool:
        return self.times < self.goal


def record_ratio(ratio: Ratio) -> None:
    """Add a ratio to the table that `make bench` prints; without `make bench`, do nothing."""
    if place := os.environ.get(_FILE):
        with open(place, "a") as file:
            file.write(json.dumps(ratio) + "\n")


def environment_of(place: Path) -> dict[str, str]:
    """Return the variables that make benchmarks record their ratios in a file."""
    return {_FILE: str(place)}


def recorded_ratios(place: Path) -> list[Ratio]:
    """Return the ratios in a file, worst first in relation to their goals."""
    lines = place.read_text().splitlines() if place.exists() else []
    ratios = [Ratio(*json.loads(line)) for line in lines]
    return sorted(ratios, key=lambda each: each.times / each.goal)


def ratio_table(ratios: Iterable[Ratio]) -> str:
    """Render ratios in their order, with a mark where the goal is missed."""
    lines = ["| work | delta_ops | peer | times | goal | |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {each.work} | {_figure(each.ours)} {each.unit} | {_figure(each.peer)} {each.unit} "
        f"| {each.times:.2f} | {each.goal:.1f} | {'below its goal' if each.is_below_goal else ''} |"
        for each in ratios
    ]
    return "\n".join(lines)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

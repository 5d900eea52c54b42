"""Tables that grow along a column, with some late data, and regular layout."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import cycle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.ddl import cluster_by
from delta_ops.maintenance import optimize
from delta_ops.maintenance.optimize.clustering import load_clustering

START = datetime(2020, 1, 1, tzinfo=UTC)
VALUES: Mapping[str, Callable[[int], Any]] = {
    "number": lambda n: n,
    "time": lambda n: START + timedelta(minutes=n),
    "day": lambda n: date(1970, 1, 1) + timedelta(days=n // 10),
    "text": lambda n: f"order {n:09}",
    "decimal": lambda n: Decimal(n) / 8,
    "float": lambda n: n / 8,
}
ROWS = 200
SPAN = 1_000
"""Number of new values in each commit."""


class Late:
    """A table that grows along a column, with counts of the written bytes."""

    def __init__(self, root: Path, kind: str, share: float, target_size: int) -> None:
        self.log, self.share, self.kind = DeltaLog(root), share, kind
        self.target_size = target_size
        self.lots = random.Random(f"{kind} {share} {target_size}")
        self.num_commits = self.bytes_appended = self.bytes_rewritten = 0
        self.ids: list[int] = []

    def append(self) -> None:
        first = SPAN * self.num_commits
        numbers = [
            self.lots.randrange(first + SPAN) if self.lots.random() < self.share else first + each
            for each in self.lots.sample(range(SPAN), ROWS)
        ]
        ids = [ROWS * self.num_commits + place for place in range(ROWS)]
        values = pa.array(
            map(VALUES[self.kind], numbers),
            pa.decimal128(12, 3) if self.kind == "decimal" else None,
        )
        rows = pa.table(
            {
                "value": values,
                "id": ids,
                "note": [str(self.lots.random()) for _ in ids],
            }
        )
        settings = {"delta.targetFileSize": str(self.target_size)}
        is_new = not self.num_commits
        da.write(self.log, rows, configuration=settings if is_new else None)
        (entry,) = self.log.history(1)
        self.bytes_appended += int(entry.operation_metrics["numOutputBytes"])
        self.num_commits += 1
        if is_new:
            cluster_by(self.log, ["value"])

    def lay_out(self) -> None:
        self.bytes_rewritten += optimize(self.log).bytes_added


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "share"),
    [
        ("number", 0.2),
        *(
            pytest.param(kind, share, marks=pytest.mark.full)
            for kind, share in zip(VALUES, cycle([0.02, 0.2]), strict=False)
        ),
    ],
)
def test_late_data_cost_little_and_leave_few_files_to_a_value(
    tmp_path: Path, kind: str, share: float
) -> None:
    assert_cheap(Late(tmp_path, kind, share, target_size=30_000), num_commits=50, every=5)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "target_size", "share"),
    [
        ("number", 20_000, 0.05),
        ("number", 400_000, 0.2),
        ("time", 20_000, 0.2),
        ("time", 400_000, 0.05),
    ],
)
def test_hundreds_of_commits_with_late_data(
    tmp_path: Path, kind: str, target_size: int, share: float
) -> None:
    assert_cheap(Late(tmp_path, kind, share, target_size), num_commits=500, every=10)


def assert_cheap(table: Late, num_commits: int, every: int) -> None:
    """Lay the table out after each `every` commits."""
    deepest = 0
    for number in range(1, num_commits + 1):
        table.append()
        if number % every == 0:
            table.lay_out()
            found = load_clustering(table.log.snapshot())
            assert found.loose_files == 0
            deepest = max(deepest, found.depth)
            assert not optimize(table.log).plan.has_work
    assert deepest < 4
    assert table.bytes_rewritten < 4 * table.bytes_appended
    rows = da.to_table(table.log, columns=["id"])["id"].to_pylist()
    assert sorted(rows) == list(range(ROWS * num_commits))


@pytest.mark.full
def test_data_that_lie_everywhere_are_not_rewritten_again_and_again(tmp_path: Path) -> None:
    table = Late(tmp_path, "number", 1.0, target_size=30_000)
    for number in range(1, 61):
        table.append()
        if number % 5 == 0:
            table.lay_out()
    assert table.bytes_rewritten < 5 * table.bytes_appended
    assert load_clustering(table.log.snapshot()).depth < 6

"""How many files may hold the same values."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.ddl import cluster_by
from delta_ops.maintenance import health, optimize, plan_maintenance
from delta_ops.maintenance.optimize.clustering import load_clustering
from delta_ops.maintenance.optimize.depth import max_depth
from delta_ops.maintenance.optimize.overlaps import Ranges

Box = list[tuple[Any, Any]]
"""The least and the greatest value on each axis; None if no value is known."""

bound = st.none() | st.integers(0, 6)


def ranges_of(boxes: list[Box]) -> list[Ranges]:
    ranges = []
    for axis in zip(*boxes, strict=True):
        values = sorted({value for pair in axis for value in pair if value is not None})
        lows = [0 if low is None else values.index(low) + 1 for low, _ in axis]
        highs = [len(values) + 1 if high is None else values.index(high) + 1 for _, high in axis]
        ranges.append(Ranges(np.array(lows), np.array(highs)))
    return ranges


@st.composite
def tables_of_boxes(draw: st.DrawFn) -> list[Box]:
    num_axes = draw(st.integers(1, 3))

    def interval(pair: tuple[Any, Any]) -> tuple[Any, Any]:
        return pair if None in pair else (min(pair), max(pair))

    box = st.lists(st.tuples(bound, bound).map(interval), min_size=num_axes, max_size=num_axes)
    return draw(st.lists(box, min_size=1, max_size=8))


@given(tables_of_boxes())
def test_the_depth_is_that_of_the_deepest_point(boxes: list[Box]) -> None:
    def is_around(box: Box, point: tuple[int, ...]) -> bool:
        return all(
            (low is None or low <= value) and (high is None or value <= high)
            for (low, high), value in zip(box, point, strict=True)
        )

    points = product(range(-1, 8), repeat=len(boxes[0]))
    brute = max(sum(is_around(box, point) for box in boxes) for point in points)
    assert max_depth(ranges_of(boxes)) == brute


@pytest.mark.parametrize(
    ("boxes", "depth"),
    [
        pytest.param([[(1, 2)], [(3, 4)]], 1, id="apart"),
        pytest.param([[(1, 2)], [(2, 4)]], 2, id="sharing a value"),
        pytest.param([[("a", None)], [("b", "c")], [("x", "y")]], 2, id="without an end"),
        pytest.param([[(1, 9), (1, 2)], [(1, 9), (3, 4)]], 1, id="apart on one of two axes"),
    ],
)
def test_the_depth_of_boxes(boxes: list[Box], depth: int) -> None:
    assert max_depth(ranges_of(boxes)) == depth


def overlapping(root: Path) -> DeltaLog:
    for part in range(6):
        da.write(root, pa.table({"id": range(part, 600, 6)}))
    cluster_by(root, ["id"])
    return DeltaLog(root)


def test_clustering_reduces_the_depth_and_health_recommends_it(tmp_path: Path) -> None:
    log = overlapping(tmp_path)
    (finding,) = [each for each in health(log).findings if each.measure == "clustering_depth"]
    assert (finding.value, finding.verdict, finding.operation) == (6, "due", "optimize")
    optimize(log, target_size=1_500)
    assert log.snapshot().num_files > 1
    (finding,) = [each for each in health(log).findings if each.measure == "clustering_depth"]
    assert (finding.value, finding.verdict) == (1, "ok")


def test_once_a_table_is_laid_out_nothing_is_due(tmp_path: Path) -> None:
    log = overlapping(tmp_path)
    assert "optimize" in plan_maintenance(log).operations
    optimize(log, target_size=1_500)
    assert "optimize" not in plan_maintenance(log).operations
    assert "optimize" not in health(log).operations


def test_a_table_without_clustering_has_no_depth(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1]}))
    (finding,) = [f for f in health(tmp_path).findings if f.measure == "clustering_depth"]
    assert (finding.value, finding.verdict, finding.advice) == (0, "ok", "")


def test_a_clustered_table_without_files_has_no_depth(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"a": pa.array([], pa.int64())}))
    cluster_by(tmp_path, ["a"])
    found = load_clustering(DeltaLog(tmp_path).snapshot())
    assert (found.depth, found.loose_files) == (0, 0)

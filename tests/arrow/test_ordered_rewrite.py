"""Rewrites of a group's rows in an order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from itertools import cycle, pairwise
from math import nan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col
from delta_ops.arrow.read.scan import read_files
from delta_ops.ddl import cluster_by
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.stats.file_stats import parse_stats
from delta_ops.transaction import CurveOrder, RewriteGroup, Staged
from delta_ops.transaction.rewrite_group import Curve
from tests.support.tables import rows, rows_by_deltalake

KILOBYTE = 1 << 10
UTC = pa.timestamp("us", "UTC")


def put_in_order(
    root: Path,
    columns: Sequence[str],
    *,
    files: int,
    memory_bytes: int,
    curve: Curve = "zorder",
    separate: Predicate | None = None,
) -> Staged:
    """Rewrite all files of a table and commit."""
    log = DeltaLog(root)
    snapshot = log.snapshot()
    group = RewriteGroup(
        files=tuple(snapshot.add_files()),
        target_size_bytes=max(1, snapshot.size_bytes // files),
        order=CurveOrder(columns=tuple(tuple(name.split(".")) for name in columns), curve=curve),
        separate=separate,
    )
    staged = da.rewrite(snapshot, group, memory_bytes=memory_bytes)
    transaction = begin(log)
    transaction.stage(staged)
    transaction.remove(group.files, data_change=False)
    transaction.commit(operation="OPTIMIZE")
    return staged


def ranges(staged: Staged, column: str) -> list[tuple[Any, Any]]:
    found = [parse_stats(add.stats) for add in staged.adds]
    return [(each.min_values[column], each.max_values[column]) for each in found if each]


MEMORIES = [
    pytest.param(1 << 30, id="all rows in memory"),
    pytest.param(64 * KILOBYTE, id="rows through files"),
]


@pytest.mark.parametrize("memory_bytes", MEMORIES)
def test_by_one_column_no_two_files_overlap(tmp_path: Path, memory_bytes: int) -> None:
    numbers = random.Random(1).sample(range(20_000), 20_000)
    for part in range(10):
        da.write(tmp_path, pa.table({"id": numbers[part::10], "x": ["text"] * 2_000}))
    staged = put_in_order(tmp_path, ["id"], files=5, memory_bytes=memory_bytes)
    assert len(staged.adds) >= 4
    for (_, before), (after, _) in pairwise(ranges(staged, "id")):
        assert before < after
    found = da.to_table(tmp_path)
    assert sorted(found["id"].to_pylist()) == list(range(20_000))
    for add in staged.adds:
        batches = read_files(DeltaLog(tmp_path).snapshot(), [add], ["id"])
        ids = pa.Table.from_batches(batches)["id"].to_pylist()
        assert ids == sorted(ids)


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("memory_bytes", "last"),
    [
        pytest.param(1 << 30, 100.0, id="all rows in memory"),
        pytest.param(64 * KILOBYTE, -1.0, id="all rows of numbers"),
        pytest.param(64 * KILOBYTE, 19_000.0, id="rows through files"),
        pytest.param(64 * KILOBYTE, 10.0**9, id="only NaN"),
        pytest.param(1 * KILOBYTE, 19_999.0, id="buckets of buckets", marks=pytest.mark.full),
    ],
)
def test_separate_rows_share_no_file_with_others(
    tmp_path: Path, memory_bytes: int, last: float
) -> None:
    numbers = random.Random(1).sample([None, nan, *map(float, range(20_000))], 20_002)
    for part in range(10):
        da.write(tmp_path, pa.table({"v": numbers[part::10]}, pa.schema([("v", pa.float64())])))
    before = sorted(map(repr, da.to_table(tmp_path)["v"].to_pylist()))
    separate = col("v") > last
    staged = put_in_order(tmp_path, ["v"], files=5, memory_bytes=memory_bytes, separate=separate)
    assert len(staged.adds) <= 8
    snapshot = DeltaLog(tmp_path).snapshot()
    for add in staged.adds:
        values = pa.Table.from_batches(read_files(snapshot, [add], ["v"]))["v"].to_pylist()
        assert len({v is not None and not v <= last for v in values}) == 1
    assert sorted(map(repr, da.to_table(tmp_path)["v"].to_pylist())) == before


@pytest.mark.parametrize(
    ("curve", "memory_bytes"),
    [
        pytest.param("zorder", 64 * KILOBYTE, id="Z-order, rows through files"),
        pytest.param("hilbert", 1 << 30, id="Hilbert, all rows in memory"),
        pytest.param("hilbert", 1 * KILOBYTE, id="buckets of buckets", marks=pytest.mark.full),
    ],
)
def test_by_two_columns_files_are_narrow_in_both(
    tmp_path: Path, memory_bytes: int, curve: Curve
) -> None:
    numbers = random.Random(1)
    for _ in range(4):
        columns = {name: [numbers.randrange(10**6) for _ in range(5_000)] for name in "ab"}
        da.write(tmp_path, pa.table(columns))
    staged = put_in_order(tmp_path, ["a", "b"], files=16, memory_bytes=memory_bytes, curve=curve)
    for column in "ab":
        mean = sum(high - low for low, high in ranges(staged, column)) / len(staged.adds)
        assert mean < 0.4 * 10**6


def test_rows_of_equal_ranks_are_in_one_file_where_that_is_not_far_too_large(
    tmp_path: Path,
) -> None:
    # Without an order, files have about as many bytes per row as their source files.
    others = random.Random(1).choices(range(1 << 60), k=7_000)
    da.write(tmp_path, pa.table({"day": [n % 7 for n in range(7_000)], "x": others}))
    staged = put_in_order(tmp_path, ["day"], files=6, memory_bytes=1 << 20)
    for (_, before), (after, _) in pairwise(ranges(staged, "day")):
        assert before < after


def test_a_value_that_most_rows_have_makes_several_files(tmp_path: Path) -> None:
    values = random.Random(1).sample([7] * 19_000 + list(range(1_000)), 20_000)
    da.write(tmp_path, pa.table({"id": values, "x": range(20_000)}))
    staged = put_in_order(tmp_path, ["id"], files=5, memory_bytes=64 * KILOBYTE)
    assert 4 <= len(staged.adds) <= 10
    assert sorted(da.to_table(tmp_path)["id"].to_pylist()) == sorted(values)


ALL_TYPES = pa.table(
    {
        "i": pa.array([3, None, 1, 2], pa.int32()),
        "f": pa.array([nan, 1.5, None, -0.0]),
        "d": pa.array([Decimal("1.50"), None, Decimal("-2.25"), Decimal(0)], pa.decimal128(10, 2)),
        "day": pa.array([date(2026, 1, 1), None, date(1, 1, 1), date(9999, 1, 1)]),
        "t": pa.array([datetime(2026, 1, 1), None, datetime(1, 1, 1), None], UTC),
        "n": pa.array([datetime(2026, 1, 1), None, datetime(1, 1, 1), None], pa.timestamp("us")),
        "s": pa.array(["ü", "", None, "a" * 99]),
        "y": pa.array([b"\xff", b"", None, b"a"]),
        "b": pa.array([True, None, False, True]),
        "st": pa.array([{"x": 1}, None, {"x": None}, {"x": -1}]),
        "l": pa.array([[1, None], None, [], [2]], pa.list_(pa.int32())),
        "m": pa.array([[("a", 1)], None, [], [("b", None)]], pa.map_(pa.string(), pa.int64())),
    }
)  # fmt: skip


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("column", "memory_bytes"),
    list(zip(["i", "f", "d", "day", "t", "n", "s", "y", "b", "st.x"], cycle([1 << 30, 1]))),
)
def test_rows_of_all_types_are_kept_whatever_orders_them(
    tmp_path: Path, column: str, memory_bytes: int
) -> None:
    for _ in range(3):
        da.write(tmp_path, ALL_TYPES)
    before = rows(da.to_table(tmp_path))
    put_in_order(tmp_path, [column], files=2, memory_bytes=memory_bytes)
    assert str(rows(da.to_table(tmp_path))) == str(before)
    assert str(rows_by_deltalake(tmp_path)) == str(before)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        pytest.param("i", [None, 1, 2, 3], id="null is first"),
        pytest.param("f", [None, -0.0, 1.5, "nan"], id="NaN is last"),
        pytest.param("s", [None, "", "a" * 99, "ü"], id="texts by their bytes"),
    ],
)
def test_the_order_of_one_column(tmp_path: Path, column: str, expected: list[Any]) -> None:
    da.write(tmp_path, ALL_TYPES.select([column]))
    put_in_order(tmp_path, [column], files=1, memory_bytes=1 << 20)
    found = da.to_table(tmp_path)[column].to_pylist()
    assert ["nan" if each != each else each for each in found] == expected  # noqa: PLR0124


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": pa.array([], pa.int64())}))
    da.write(tmp_path, pa.table({"id": [1]}))
    log = DeltaLog(tmp_path)
    transaction = begin(log)
    (add,) = log.snapshot().add_files()
    order = CurveOrder(columns=(("id",),))
    empty = RewriteGroup(files=(), target_size_bytes=1, order=order)
    assert transaction.snapshot
    assert da.rewrite(transaction.snapshot, empty).adds == ()
    one = replace(empty, files=(add,))
    assert len(da.rewrite(transaction.snapshot, one).adds) == 1


def test_ids_of_rows_are_kept(tmp_path: Path) -> None:
    properties = {"delta.enableRowTracking": "true"}
    for part in range(3):
        da.write(tmp_path, pa.table({"id": [9 - part, part]}), configuration=properties)
    cluster_by(tmp_path, ["id"])
    before = ids_of_rows(tmp_path)
    put_in_order(tmp_path, ["id"], files=1, memory_bytes=1 << 20)
    assert ids_of_rows(tmp_path) == before


def ids_of_rows(root: Path) -> list[tuple[Any, ...]]:
    from delta_ops.arrow.read.scan import read_kept

    snapshot = DeltaLog(root).snapshot()
    found = pa.Table.from_batches(read_kept(snapshot, snapshot.add_files()))
    assert len(found.column_names) == 3
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    for part in range(8):
        da.write(tmp_path, pa.table({"id": range(part * 100, part * 100 + 100)}))
    files = sorted(tmp_path.rglob("*"))
    log = DeltaLog(tmp_path)
    snapshot = log.snapshot()
    adds = tuple(snapshot.add_files())
    (tmp_path / adds[-1].path).rename(tmp_path / "elsewhere")
    group = RewriteGroup(files=adds, target_size_bytes=100, order=CurveOrder(columns=(("id",),)))
    with pytest.raises(Exception, match="is missing"):
        da.rewrite(snapshot, group)
    (tmp_path / "elsewhere").rename(tmp_path / adds[-1].path)
    assert sorted(tmp_path.rglob("*")) == files

"""Sort key and ordered scan: sorted files, and rows in the order of columns."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.arrow.write.data_file import ROW_GROUP_ROWS
from delta_ops.ddl import cluster_by, drop_columns, rename_column, set_properties
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import optimize

NAME = "delta_ops.sortKey"
MAPPED = {"delta.columnMapping.mode": "name"}
SCHEMA = pa.schema(
    [
        ("a", pa.int64()),
        ("b", pa.string()),
        ("c", pa.timestamp("us", tz="UTC")),
        ("d", pa.decimal128(9, 2)),
        ("e", pa.float64()),
        ("p", pa.string()),
    ]
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "a": st.integers(-5, 5),
    "b": st.sampled_from(["", "a", "B", "é", "z" * 40, "z" * 41]),
    "c": st.integers(-(2**40), 2**40),
    "d": st.integers(-999, 999).map(lambda each: Decimal(each) / 100),
    "e": st.sampled_from([0.0, -0.0, 1.5, -math.inf, math.inf, math.nan]),
    "p": st.sampled_from(["x", "y"]),
}
ROWS = st.lists(
    st.fixed_dictionaries({n: v if n == "p" else st.none() | v for n, v in VALUES.items()}),
    min_size=1,
    max_size=8,
)


def key_of(row: dict[str, Any], names: Sequence[str]) -> list[tuple[int, Any]]:
    """The place of a row in Spark's order: nulls first, NaN last."""
    found: list[tuple[int, Any]] = []
    for name in names:
        value = row[name]
        if value is None:
            found.append((0, 0))
        elif isinstance(value, float) and math.isnan(value):
            found.append((2, 0))
        else:
            found.append((1, value.encode() if isinstance(value, str) else value))
    return found


def ordered(table: Path, names: Sequence[str], **options: Any) -> list[dict[str, Any]]:
    batches = da.to_batches(table, order_by=names, **options)
    return [row for batch in batches for row in batch.to_pylist()]


@settings(max_examples=25)
@given(
    writes=st.lists(
        st.tuples(ROWS, st.sampled_from(["a", "b,a", "d", ""])), min_size=1, max_size=6
    ),
    names=st.lists(st.sampled_from(SCHEMA.names), min_size=1, max_size=3, unique=True),
    deleted=st.integers(-6, 6),
)
def test_an_ordered_scan_is_a_sort(
    tmp_path_factory: pytest.TempPathFactory,
    writes: list[tuple[list[dict[str, Any]], str]],
    names: list[str],
    deleted: int,
) -> None:
    table = tmp_path_factory.mktemp("ordered") / "t"
    properties = {"delta.enableDeletionVectors": "true"}
    for rows, sort_key in writes:
        data = pa.Table.from_pylist(rows, SCHEMA)
        da.write(table, data, partition_by=["p"], configuration=properties)
        set_properties(table, {NAME: sort_key or None})
    da.delete(table, f"a = {deleted}")
    found = ordered(table, names)
    keys = [key_of(row, names) for row in found]
    assert keys == sorted(keys)
    expected = da.to_table(table).to_pylist()
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


def write_days(table: Path, **configuration: str) -> None:
    """Ten files that overlap their neighbours only."""
    for day in range(10):
        ids = [(each * 7) % 150 + day * 100 for each in range(150)]
        rows = pa.table({"id": ids, "v": ["x"] * 150})
        da.write(table, rows, configuration={NAME: "id", **configuration})


def test_an_ordered_scan_opens_only_files_that_overlap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_days(tmp_path)
    opened: list[str] = []
    read_metadata = DeltaLog(tmp_path).storage.__class__.open_input

    def note(self: Any, path: str) -> Any:
        opened.append(path)
        return read_metadata(self, path)

    monkeypatch.setattr(DeltaLog(tmp_path).storage.__class__, "open_input", note)
    batches = da.to_batches(tmp_path, ["id"], order_by=["id"])
    next(batches)
    assert len({path for path in opened if not path.startswith("_delta_log")}) <= 3
    rest = [each for batch in batches for each in batch["id"].to_pylist()]
    assert rest == sorted(rest)


def test_a_file_of_several_row_groups_is_read_in_order(tmp_path: Path) -> None:
    number = ROW_GROUP_ROWS + 1000
    ids = [(each * 7919) % number for each in range(number)]
    da.write(tmp_path, pa.table({"id": ids}), configuration={NAME: "id"})
    (add,) = DeltaLog(tmp_path).snapshot().add_files()
    assert pq.read_metadata(tmp_path / add.path).num_row_groups == 2
    batches = da.to_batches(tmp_path, order_by="id")
    assert [each for batch in batches for each in batch["id"].to_pylist()] == list(range(number))


PEAK = """
import sys
import pyarrow as pa
import delta_ops.arrow as da
last, num_rows = -1, 0
for batch in da.to_batches(sys.argv[1], order_by=["id"]):
    assert last <= batch["id"][0].as_py()
    last, num_rows = batch["id"][-1].as_py(), num_rows + batch.num_rows
print(num_rows, pa.default_memory_pool().max_memory())
"""


@pytest.mark.full
def test_memory_grows_neither_with_the_files_nor_with_their_rows(tmp_path: Path) -> None:
    file_rows = ROW_GROUP_ROWS + 200_000
    order = np.random.default_rng(1).permutation(file_rows)
    peaks = []
    for number in range(6):  # each file overlaps the next: the depth is 2
        ids = order + number * (file_rows // 2 + 1)
        columns = {"id": ids, **dict.fromkeys("abc", ids * 7919 % 1000003)}
        da.write(tmp_path, pa.table(columns), configuration={} if number else {NAME: "id"})
        if number in (2, 5):
            command = [sys.executable, "-c", PEAK, str(tmp_path)]
            found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            num_rows, peak = map(int, found.split())
            assert num_rows == (number + 1) * file_rows
            peaks.append(peak)
    assert max(peaks) < 8 * len(columns) * file_rows  # the values of one file
    assert peaks[1] < 1.2 * peaks[0]


def test_files_state_their_order_and_stay_sorted(tmp_path: Path) -> None:
    write_days(tmp_path)
    optimize(tmp_path)
    da.update(tmp_path, {"v": "'y'"}, "id = 7")
    (add,) = DeltaLog(tmp_path).snapshot().add_files()
    footer = pq.read_metadata(tmp_path / add.path)
    assert footer.row_group(0).sorting_columns == (pq.SortingColumn(0, nulls_first=True),)
    ids = pq.read_table(tmp_path / add.path)["id"].to_pylist()
    assert ids == sorted(ids)
    assert len(ids) == 1500


def test_a_condition_and_columns_apply_to_an_ordered_scan(tmp_path: Path) -> None:
    write_days(tmp_path)
    found = ordered(tmp_path, ["ID"], columns=["v"], predicate="id < 20 or id = 900")
    assert found == [{"v": "x"}] * (20 + 1 + 1)


def test_the_key_follows_a_rename_and_cannot_be_dropped(tmp_path: Path) -> None:
    write_days(tmp_path, **MAPPED)
    rename_column(tmp_path, "id", "key")
    assert DeltaLog(tmp_path).snapshot().metadata.configuration[NAME] == "key"
    with pytest.raises(InvalidRequestError, match="used by the sort key"):
        drop_columns(tmp_path, ["key"])


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("nothing", "does not exist"),
        ("p", "is a partition column"),
        ("s.x", "is a field of a struct"),
        ("s", "which has no order"),
        ("f", "defines no order for NaN"),
        ("id, ID", "is named twice"),
    ],
)
def test_a_wrong_sort_key_is_rejected(tmp_path: Path, key: str, reason: str) -> None:
    rows = pa.table({"id": [1], "s": [{"x": 1}], "f": [1.0], "p": ["a"]})
    with pytest.raises(InvalidRequestError, match=reason):
        da.write(tmp_path, rows, partition_by=["p"], configuration={NAME: key})
    assert not (tmp_path / "_delta_log").exists()


def test_a_sort_key_excludes_clustering_and_other_orders(tmp_path: Path) -> None:
    write_days(tmp_path / "sorted")
    with pytest.raises(InvalidRequestError, match="so it cannot be clustered too"):
        cluster_by(tmp_path / "sorted", ["id"])
    with pytest.raises(InvalidRequestError, match="has the sort key id"):
        optimize(tmp_path / "sorted", zorder_by=["v"])
    da.write(tmp_path / "clustered", pa.table({"id": [1]}))
    cluster_by(tmp_path / "clustered", ["id"])
    with pytest.raises(InvalidRequestError, match="so it cannot be clustered too"):
        set_properties(tmp_path / "clustered", {NAME: "id"})


@pytest.mark.parametrize(("names", "reason"), [(["no"], "does not exist"), ([], "names no column")])
def test_a_wrong_order_is_rejected(tmp_path: Path, names: list[str], reason: str) -> None:
    write_days(tmp_path)
    with pytest.raises(InvalidRequestError, match=reason):
        list(da.to_batches(tmp_path, order_by=names))

"""Differing rows of two versions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.ddl import NewColumn, add_columns
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import optimize
from tests.support.counting_storage import CountingStorage

VECTORS = {"delta.enableDeletionVectors": "true"}


def differing(old: Any, new: Any, **options: Any) -> list[tuple[str, Any]]:
    rows = da.diff_rows(old, new, **options).to_pylist()
    found = [(row.pop("_change_type"), tuple(row.values())) for row in rows]
    return sorted(found, key=repr)


def test_a_changed_row_is_a_deletion_and_an_insertion(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1, 2, 3], "x": ["a", "b", None]}))
    da.update(tmp_path, {"x": "'c'"}, "id = 2")
    da.delete(tmp_path, "id = 3")
    log = DeltaLog(tmp_path)
    assert differing(log.snapshot(0), log) == [
        ("delete", (2, "b")),
        ("delete", (3, None)),
        ("insert", (2, "c")),
    ]
    assert differing(log.snapshot(0), log, predicate="id = 2") == [
        ("delete", (2, "b")),
        ("insert", (2, "c")),
    ]
    assert differing(log.snapshot(0), log, columns=["id"]) == [("delete", (3,))]


def test_the_same_rows_in_other_files_do_not_differ(tmp_path: Path) -> None:
    for number in (3, 1, 2):
        da.write(tmp_path, pa.table({"id": [number, number], "xs": [[number], None]}))
    optimize(tmp_path)
    log = DeltaLog(tmp_path)
    assert da.diff_rows(log.snapshot(2), log).num_rows == 0


def test_a_column_with_the_name_of_the_change_is_left_out_by_name(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1], "_change_type": ["a"]}))
    da.delete(tmp_path)
    log = DeltaLog(tmp_path)
    with pytest.raises(InvalidRequestError, match="leave it out with columns"):
        da.diff_rows(log.snapshot(0), log)
    assert differing(log.snapshot(0), log, columns=["id"]) == [("delete", (1,))]


def test_nulls_nans_and_zeros_of_both_signs_do_not_differ(tmp_path: Path) -> None:
    for name, zero in [("old", 0.0), ("new", -0.0)]:
        values = [None, float("nan"), zero]
        nested = [{"l": [each]} for each in values]
        da.write(tmp_path / name, pa.table({"x": values, "n": nested}))
    assert da.diff_rows(tmp_path / "old", tmp_path / "new").num_rows == 0


def test_a_column_with_a_dot_in_its_name_is_compared(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"a.b`c": [1], "n": [{"x": 1, "y": 1}]}))
    da.write(tmp_path, pa.table({"a.b`c": [2], "n": [{"x": 1, "y": 2}]}), mode="overwrite")
    old, new = DeltaLog(tmp_path).snapshot(0), DeltaLog(tmp_path).snapshot()
    assert differing(old, new, columns=["a.b`c"]) == [("delete", (1,)), ("insert", (2,))]
    assert differing(old, new, columns=["n.x"]) == []


def test_a_row_counts_as_often_as_it_occurs(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1, 1, 1, 2]}))
    da.write(tmp_path, pa.table({"id": [1, 2, 2]}), mode="overwrite")
    log = DeltaLog(tmp_path)
    assert differing(log.snapshot(0), log) == [
        ("delete", (1,)),
        ("delete", (1,)),
        ("insert", (2,)),
    ]


@pytest.mark.parametrize("configuration", [None, VECTORS], ids=["files", "deletion vectors"])
def test_files_of_both_versions_are_not_read(
    tmp_path: Path, configuration: dict[str, str] | None
) -> None:
    da.write(tmp_path, pa.table({"id": [1]}), configuration=configuration)
    da.write(tmp_path, pa.table({"id": [2, 3]}))
    (common,) = [add.path for add in DeltaLog(tmp_path).snapshot(0).add_files()]
    da.delete(tmp_path, "id = 3")
    read: list[str] = []
    storage = CountingStorage(
        DeltaLog(tmp_path).storage, lambda _number, _method, path, _when: read.append(path)
    )
    log = DeltaLog(tmp_path, storage=storage)
    assert differing(log.snapshot(1), log.snapshot()) == [("delete", (3,))]
    assert common not in read
    assert any(path.endswith(".parquet") for path in read)


def test_nested_and_void_columns_are_compared_by_their_values(tmp_path: Path) -> None:
    rows = pa.table({"s": [{"a": [1, None]}, {"a": None}], "n": pa.nulls(2)})
    da.write(tmp_path, rows)
    da.write(tmp_path, rows.slice(1), mode="overwrite")
    log = DeltaLog(tmp_path)
    assert differing(log.snapshot(0), log) == [("delete", ({"a": [1, None]}, None))]


def test_a_column_of_one_version_is_null_in_the_other(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1, 2]}))
    add_columns(tmp_path, [NewColumn(name="note", data_type="string")])
    log = DeltaLog(tmp_path)
    assert differing(log.snapshot(0), log) == []
    da.update(log, {"note": "'a'"}, "id = 1")
    assert differing(log.snapshot(0), log) == [("delete", (1, None)), ("insert", (1, "a"))]
    assert differing(log.snapshot(0), log, columns=["note"]) == [
        ("delete", (None,)),
        ("insert", ("a",)),
    ]


def test_types_that_cannot_be_compared_are_an_error(tmp_path: Path) -> None:
    da.write(tmp_path / "a", pa.table({"id": [1], "x": ["a"]}))
    da.write(tmp_path / "b", pa.table({"id": [1], "x": [True]}))
    with pytest.raises(InvalidRequestError, match="leave the column out with columns"):
        da.diff_rows(tmp_path / "a", tmp_path / "b")
    assert da.diff_rows(tmp_path / "a", tmp_path / "b", ["id"]).num_rows == 0


def test_a_column_that_no_version_has_is_an_error(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1]}))
    with pytest.raises(InvalidRequestError, match="column"):
        da.diff_rows(tmp_path, tmp_path, ["nothing"])
    with pytest.raises(InvalidRequestError, match="column"):
        da.diff_rows(tmp_path, tmp_path, ["nothing"], predicate="id = 1")


_ROWS = st.lists(
    st.tuples(st.sampled_from([0, 1, None]), st.sampled_from(["a", "", None])), max_size=6
)


@given(old=_ROWS, new=_ROWS)
def test_the_difference_is_that_of_multisets(
    tmp_path_factory: pytest.TempPathFactory, old: list[Any], new: list[Any]
) -> None:
    root = tmp_path_factory.mktemp("t")
    for rows in (old, new):
        data = pa.table(
            {
                "x": pa.array([x for x, _ in rows], pa.int64()),
                "y": pa.array([y for _, y in rows], pa.string()),
            }
        )
        da.write(root, data, mode="overwrite")
    log = DeltaLog(root)
    expected = [("delete", row) for row in (Counter(old) - Counter(new)).elements()]
    expected += [("insert", row) for row in (Counter(new) - Counter(old)).elements()]
    assert differing(log.snapshot(0), log) == sorted(expected, key=repr)


def test_nested_times_that_python_lacks_are_compared(tmp_path: Path) -> None:
    year_10000 = pa.array([253402300800000000, 253402300800000001]).cast(pa.timestamp("us"))
    times = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), year_10000)
    da.write(tmp_path / "a", pa.table({"id": [1, 2], "times": times}))
    da.write(tmp_path / "b", pa.table({"id": [1, 2], "times": times.take(pa.array([0, 0]))}))
    found = da.diff_rows(tmp_path / "a", tmp_path / "b")
    assert found["id"].to_pylist() == [2, 2]


def test_numbers_that_have_no_common_type_are_refused(tmp_path: Path) -> None:
    da.write(tmp_path / "a", pa.table({"x": [2**53 + 1]}))
    da.write(tmp_path / "b", pa.table({"x": [1.0]}))
    with pytest.raises(InvalidRequestError, match="leave the column out"):
        da.diff_rows(tmp_path / "a", tmp_path / "b")

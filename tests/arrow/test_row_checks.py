"""NOT NULL at every depth: checks read the values, not the nullability of Arrow types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError
from tests.support.tables import rows, rows_by_deltalake

_LONG = pa.field("v", pa.int64(), nullable=False)
_STRUCT = pa.struct([_LONG.with_name("x")])
_LOOSE_STRUCT = pa.struct([("x", pa.int64())])

STRICT: dict[str, tuple[pa.DataType, pa.DataType]] = {
    "a list": (pa.list_(_LONG.with_name("element")), pa.list_(pa.int64())),
    "a map": (pa.map_(pa.string(), _LONG.with_name("value")), pa.map_(pa.string(), pa.int64())),
    "a struct": (_STRUCT, _LOOSE_STRUCT),
    "a list of structs": (pa.list_(_STRUCT), pa.list_(_LOOSE_STRUCT)),
    "a map of structs": (pa.map_(pa.string(), _STRUCT), pa.map_(pa.string(), _LOOSE_STRUCT)),
    "a map by structs": (pa.map_(_STRUCT, pa.string()), pa.map_(_LOOSE_STRUCT, pa.string())),
    "a list of lists": (
        pa.list_(pa.list_(_LONG.with_name("element"))),
        pa.list_(pa.list_(pa.int64())),
    ),
}


@pytest.mark.parametrize(
    ("kind", "value", "path"),
    [
        ("a list", [1, None], "a.element"),
        ("a map", [("k", None)], "a.value"),
        ("a struct", {"x": None}, "a.x"),
        ("a list of structs", [{"x": 1}, {"x": None}], "a.element.x"),
        ("a map of structs", [("k", {"x": None})], "a.value.x"),
        ("a map by structs", [({"x": None}, "v")], "a.key.x"),
        ("a list of lists", [[1], [None]], "a.element.element"),
    ],
)
def test_a_null_inside_is_refused(tmp_path: Path, kind: str, value: Any, path: str) -> None:
    strict, loose = STRICT[kind]
    da.write(tmp_path, pa.table({"a": pa.array([], strict)}))
    with pytest.raises(InvalidRequestError, match=f"column {path} has a null"):
        da.write(tmp_path, pa.table({"a": pa.array([None, value], loose)}))
    assert not list(tmp_path.glob("*.parquet"))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("a list", [1, 2]),
        ("a list", []),
        ("a map", []),
        ("a map", [("k", 1)]),
        ("a struct", {"x": 1}),
        ("a list of structs", [{"x": 1}, None]),
        ("a map of structs", [("k", {"x": 1}), ("l", None)]),
        ("a map by structs", [({"x": 1}, None)]),
        ("a list of lists", [[1], None]),
    ],
)
def test_rows_that_keep_the_rule_are_taken_whatever_their_arrow_types(
    tmp_path: Path, kind: str, value: Any
) -> None:
    strict, loose = STRICT[kind]
    data = pa.table({"a": pa.array([None, value], loose)})
    da.write(tmp_path, pa.table({"a": pa.array([], strict)}))
    da.write(tmp_path, data)
    assert rows(da.to_table(DeltaLog(tmp_path))) == rows(data)
    assert rows_by_deltalake(tmp_path) == rows(data)


def test_a_null_outside_of_a_slice_is_not_looked_at(tmp_path: Path) -> None:
    strict, loose = STRICT["a map"]
    da.write(tmp_path, pa.table({"a": pa.array([], strict)}))
    data = pa.table({"a": pa.array([[("k", None)], [("k", 1)]], loose)}).slice(1)
    assert da.write(tmp_path, data).version == 1


def test_a_name_with_a_dot_is_one_name(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("a.b", pa.int64(), nullable=False)])
    da.write(tmp_path, pa.table({"a.b": [1]}, schema=schema))
    with pytest.raises(InvalidRequestError, match=r"column a\.b has a null"):
        da.write(tmp_path, pa.table({"a.b": pa.array([None], pa.int64())}))


@pytest.mark.parametrize("by_column", [True, False], ids=["the partition column", "another"])
def test_a_null_in_a_partitioned_table_is_refused(tmp_path: Path, by_column: bool) -> None:
    schema = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in ("id", "p")])
    da.write(tmp_path, schema.empty_table(), partition_by=["p"])
    data = pa.table({"id": [1, 1 if by_column else None], "p": [1, None if by_column else 1]})
    with pytest.raises(InvalidRequestError, match="has a null, but is NOT NULL"):
        da.write(tmp_path, data)
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_field_that_must_not_be_null_has_right_values_beside_a_null_parent(
    tmp_path: Path,
) -> None:
    text = pa.struct([pa.field("x", pa.string(), nullable=False), pa.field("n", _STRUCT)])
    values = [{"x": "a", "n": {"x": 1}}, None, {"x": "c", "n": None}, {"x": "", "n": {"x": 4}}]
    data = pa.table({"a": pa.array(values, text)}).slice(1)
    da.write(tmp_path, data)
    assert da.to_table(DeltaLog(tmp_path))["a"].to_pylist() == values[1:]

"""REPLACE COLUMNS: columns move, and are added and commented; none is removed or retyped."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.ddl import NewColumn
from delta_ops.ddl.alter import alter
from delta_ops.ddl.replace_columns import replace_columns
from delta_ops.errors import InvalidRequestError, ReplacedColumnsError

ROWS = pa.table(
    {
        "id": pa.array([1], pa.int32()),
        "s": pa.array([{"a": 1, "b": "x"}], pa.struct([("a", pa.int32()), ("b", pa.string())])),
        "l": pa.array([[{"c": 2}]], pa.list_(pa.struct([("c", pa.int32())]))),
    }
)


def state(place: Path, *columns: tuple[str, str] | NewColumn) -> None:
    stated = [
        each if isinstance(each, NewColumn) else NewColumn(name=each[0], data_type=each[1])
        for each in columns
    ]
    alter(place, partial(replace_columns, columns=stated), None, None, None, dry_run=False)


@pytest.mark.parametrize("mode", ["none", "name"])
def test_columns_and_fields_move_and_are_added(tmp_path: Path, mode: str) -> None:
    da.write(tmp_path, ROWS, configuration={"delta.columnMapping.mode": mode})
    state(
        tmp_path,
        ("l", "ARRAY<STRUCT<d: DATE, c: INT>>"),
        NewColumn(name="late", data_type="string", comment="new"),
        ("S", "STRUCT<b: STRING, a: INT>"),
        ("id", "INT"),
    )
    assert da.to_table(tmp_path).to_pylist() == [
        {"l": [{"d": None, "c": 2}], "late": None, "s": {"b": "x", "a": 1}, "id": 1}
    ]
    da.write(tmp_path, ROWS)
    assert da.count_rows(tmp_path) == 2
    state(
        tmp_path,
        ("l", "ARRAY<STRUCT<d: DATE, c: INT>>"),
        ("late", "STRING"),
        ("s", "STRUCT<b: STRING, a: INT>"),
        ("id", "INT"),
    )
    assert DeltaLog(tmp_path).snapshot().version == 2  # nothing to change
    assert DeltaLog(tmp_path).snapshot().schema.fields[1].metadata["comment"] == "new"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([("id", "INT"), ("s", "STRUCT<a: INT, b: STRING>")], "lacks l;"),
        (
            [("id", "INT"), ("s", "STRUCT<a: INT>"), ("l", "ARRAY<STRUCT<c: INT>>")],
            "lacks s.b;",
        ),
        (
            [("id", "BIGINT"), ("s", "STRUCT<a: INT, b: STRING>"), ("l", "ARRAY<STRUCT<c: INT>>")],
            "column id of type integer cannot become long",
        ),
        (
            [("id", "INT"), ("s", "STRUCT<a: INT, b: STRING>"), ("l", "ARRAY<INT>")],
            "column l.element of type struct cannot become integer",
        ),
    ],
)
def test_no_column_is_removed_or_retyped(
    tmp_path: Path, columns: list[tuple[str, str]], message: str
) -> None:
    da.write(tmp_path, ROWS)
    with pytest.raises(ReplacedColumnsError, match=f"{tmp_path.name}.*{message}"):
        state(tmp_path, *columns)
    assert DeltaLog(tmp_path).snapshot().version == 0


def test_a_repeated_name_is_rejected(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1]}))
    with pytest.raises(InvalidRequestError, match="named twice"):
        state(tmp_path, ("id", "BIGINT"), ("ID", "BIGINT"))


def test_lengths_of_texts_are_stated_and_kept(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1]}))
    state(tmp_path, ("id", "BIGINT"), ("v", "VARCHAR(2)"))
    state(tmp_path, ("v", "VARCHAR(2)"), ("id", "BIGINT"), ("w", "STRUCT<x: CHAR(2)>"))
    with pytest.raises(InvalidRequestError, match=r"w\.x holds at most 2"):
        da.write(tmp_path, pa.table({"id": [2], "w": [{"x": "abc"}]}))
    for wanted in ("STRING", "VARCHAR(3)"):
        stated = (("v", wanted), ("id", "BIGINT"), ("w", "STRUCT<x: CHAR(2)>"))
        with pytest.raises(ReplacedColumnsError, match=r"column v of type varchar\(2\) cannot"):
            state(tmp_path, *stated)

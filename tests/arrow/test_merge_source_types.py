"""Types of a merge's source: unused columns are ignored, and compatible columns are cast."""

from __future__ import annotations

from datetime import time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError

UNUSABLE = {
    "time": pa.array([time(1)]),
    "duration": pa.array([timedelta(1)]),
    "empty": pa.array([{}], pa.struct([])),
    "uuid": pa.array([b"x" * 16], pa.uuid()),
    "deep": pa.array([[{"t": time(1)}]]),
    "interval": pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
}
UNUSED = {
    **UNUSABLE,
    "nothing": pa.nulls(1),
    "unsigned": pa.array([2**64 - 1], pa.uint64()),
    "half": pa.array([1.5], pa.float16()),
    "wide": pa.array([Decimal("1E+60")], pa.decimal256(70, 0)),
}
TABLE = pa.schema([("id", pa.int64()), ("v", pa.int64())])


def table_of(root: Path, schema: pa.Schema = TABLE, **values: Any) -> Path:
    row = {"id": 1, **values}
    da.write(root, pa.Table.from_pylist([row], schema))
    return root


@pytest.mark.some_cases(7)
@pytest.mark.parametrize("column", UNUSED.values(), ids=UNUSED)
def test_columns_that_no_clause_uses_may_be_of_any_type(tmp_path: Path, column: pa.Array) -> None:
    table_of(tmp_path)
    source = pa.table({"id": [1], "v": [7], "extra": column})
    da.merge(tmp_path, source, "target.id = source.id").when_matched_update(
        {"v": "source.v"}
    ).execute()
    merge = da.merge(tmp_path, source.set_column(0, "id", [[2]]), "target.id = source.id")
    merge.when_not_matched_insert_all(except_cols=["Extra"]).execute()
    assert sorted(da.to_table(tmp_path).to_pylist(), key=str) == [
        {"id": 1, "v": 7},
        {"id": 2, "v": 7},
    ]


@pytest.mark.parametrize("column", UNUSABLE.values(), ids=UNUSABLE)
@pytest.mark.parametrize(
    "run",
    [
        pytest.param(lambda m: m.when_matched_update_all(), id="all columns"),
        pytest.param(lambda m: m.when_matched_update({"v": "source.extra"}), id="a value"),
        pytest.param(lambda m: m.when_matched_delete("source.extra IS NULL"), id="a condition"),
    ],
)
def test_a_column_that_no_table_can_hold_is_refused_where_it_is_used(
    tmp_path: Path, column: pa.Array, run: Any
) -> None:
    table_of(tmp_path, TABLE.append(pa.field("extra", pa.string())))
    merge = da.merge(tmp_path, pa.table({"id": [1], "extra": column}), "target.id = source.id")
    with pytest.raises(
        InvalidRequestError, match=r"/.*: column extra of the source is of Arrow"
    ) as e:
        run(merge).execute()
    assert "except_cols" in str(e.value)
    assert DeltaLog(tmp_path).snapshot().version == 0


def test_a_key_that_no_table_can_hold_is_refused(tmp_path: Path) -> None:
    source = pa.table({"id": UNUSABLE["time"]})
    with pytest.raises(
        InvalidRequestError, match="column id of the source is of Arrow type time64"
    ):
        da.merge(
            table_of(tmp_path), source, "target.id = source.id"
        ).when_matched_delete().execute()


@pytest.mark.parametrize(
    ("name", "added"), [("nothing", pa.null()), ("unsigned", pa.decimal128(20, 0))]
)
def test_a_new_column_has_the_type_that_a_write_gives_it(
    tmp_path: Path, name: str, added: pa.DataType
) -> None:
    source = pa.table({"id": [1], "extra": UNUSED[name]})
    merge = da.merge(table_of(tmp_path), source, "target.id = source.id", merge_schema=True)
    merge.when_matched_update_all().execute()
    assert da.to_table(tmp_path).schema.field("extra").type == added


def test_a_new_column_needs_a_type_that_a_write_takes(tmp_path: Path) -> None:
    source = pa.table({"id": [1], "extra": UNUSED["time"]})
    merge = da.merge(table_of(tmp_path), source, "target.id = source.id", merge_schema=True)
    with pytest.raises(InvalidRequestError, match="of column extra has no Delta equivalent"):
        merge.when_matched_update_all().execute()
    assert DeltaLog(tmp_path).snapshot().version == 0


@pytest.mark.parametrize(
    ("argument", "stored"),
    [
        pytest.param(pa.array([5], pa.uint64()), pa.array([5]), id="an unsigned integer"),
        pytest.param(pa.array([1.5], pa.float16()), pa.array([1.5]), id="a half float"),
        pytest.param(
            pa.array([Decimal("1E+37")], pa.decimal256(70, 10)),
            pa.array([Decimal("1E+37")], pa.decimal128(38, 0)),
            id="a wide decimal",
        ),
        pytest.param(
            pa.array([[np.float16(0.5)]], pa.list_(pa.float16())), pa.array([[0.5]]), id="a list"
        ),
        pytest.param(
            pa.array([{"x": 5}], pa.struct([("x", pa.uint64())])),
            pa.array([{"x": 5}]),
            id="a struct",
        ),
        pytest.param(
            pa.array([5], pa.uint64()).dictionary_encode(), pa.array([5]), id="a dictionary"
        ),
    ],
)
def test_a_value_that_an_append_takes_is_taken_by_a_merge(
    tmp_path: Path, argument: pa.Array, stored: pa.Array
) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", stored.type)])
    table_of(tmp_path, schema)
    source = pa.table({"id": [1], "v": argument})
    da.write(tmp_path, source)
    da.delete(tmp_path, "v IS NOT NULL")
    merge = da.merge(tmp_path, source, "target.id = source.id", merge_schema=True)
    merge.when_matched_update_all().execute()
    assert da.to_table(tmp_path)["v"].to_pylist() == stored.to_pylist()
    assert DeltaLog(tmp_path).snapshot().arrow_schema.field("v").type == schema.field("v").type


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(pa.array([1, 2**64 - 1, None], pa.uint64()), id="unsigned integers"),
        pytest.param(pa.array([1, 1.5, None], pa.float16()), id="half floats"),
        pytest.param(pa.array([1, 10**37, None], pa.decimal256(70, 0)), id="wide decimals"),
    ],
)
def test_a_key_that_the_column_cannot_have_meets_no_row(tmp_path: Path, keys: pa.Array) -> None:
    table_of(tmp_path)
    merge = da.merge(tmp_path, pa.table({"k": keys}), "id = k")
    merge.when_matched_update({"v": 9}).when_not_matched_insert({"v": 0}).execute()
    found = da.to_table(tmp_path).to_pylist()
    assert sorted(found, key=str) == [{"id": 1, "v": 9}, *[{"id": None, "v": 0}] * 2]

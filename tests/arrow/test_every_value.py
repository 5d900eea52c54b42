"""For every type, depth and value on every surface: what is stored is what was given, or an error.

The surfaces: data that are written, updates, merges, predicates and partitions. Metadata of assets
lead to the same updates, merges and predicates (`tests/orchestration/test_output_merge.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.arrow.casting import plan_fit
from delta_ops.ddl import create_table
from delta_ops.errors import InvalidRequestError
from delta_ops.log import plan_scan
from delta_ops.protocol.predicate import to_arrow
from delta_ops.protocol.schema import (
    LONG,
    STRING,
    DataType,
    StructField,
    StructType,
)
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type
from delta_ops.protocol.values.conversion import value_of_type
from tests.support.every_value import (
    DEPTHS,
    PRIMITIVES,
    VALUES,
    can_partition,
    is_found,
    is_kept,
    kept,
    leaves_of,
    means_same,
)

NAMES = [data_type.name for data_type in PRIMITIVES]


@pytest.mark.some_cases(23)
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("data_type", PRIMITIVES, ids=NAMES)
def test_a_value_of_any_kind_is_the_same_or_refused(data_type: DataType, depth: str) -> None:
    wrap_type, wrap = DEPTHS[depth]
    wanted = wrap_type(data_type)
    num_kept = 0
    for value in VALUES:
        try:
            taken = value_of_type(wrap(value), StructField("v", wanted), "t")
        except InvalidRequestError:
            continue
        array = pa.array([taken], arrow_type_from_type(wanted))
        (stored,) = leaves_of(array, of_keys=depth == "a key")
        assert means_same(value, stored), (value, stored)
        num_kept += 1
    assert num_kept == len(kept(data_type)) >= 2


def columns_of(depth: str) -> Mapping[str, tuple[DataType, Any, Any]]:
    """A column for each type and value that it keeps: the type, the value and the input."""
    wrap_type, wrap = DEPTHS[depth]
    pairs = [(t, value) for t in PRIMITIVES for value in kept(t)]
    return {f"c{n}": (wrap_type(t), value, wrap(value)) for n, (t, value) in enumerate(pairs)}


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    "surface",
    [
        "update",
        pytest.param("not matched", marks=pytest.mark.full),
        pytest.param("matched", marks=pytest.mark.full),
        pytest.param("by source", marks=pytest.mark.full),
    ],
)
@pytest.mark.parametrize("depth", ["a column", "a field deep down"])
def test_arguments_of_an_operation_are_read(tmp_path: Path, depth: str, surface: str) -> None:
    columns = columns_of(depth)
    fields = [StructField(name, data_type) for name, (data_type, *_) in columns.items()]
    create_table(tmp_path, StructType((StructField("id", LONG), *fields)))
    da.write(tmp_path, pa.table({"id": [1]}))
    # A bare text would be a SQL expression.
    values = {
        name: pa.scalar(data) if isinstance(data, str) and "\ud800" not in data else data
        for name, (_, _, data) in columns.items()
    }
    source = pa.table({"k": [1 if surface == "matched" else 2]})
    match surface:
        case "update":
            da.update(tmp_path, values)
        case "matched":
            da.merge(tmp_path, source, "id = k").when_matched_update(values).execute()
        case "not matched":
            da.merge(tmp_path, source, "id = k").when_not_matched_insert(
                {"id": 2, **values}
            ).execute()
        case "by source":
            da.merge(tmp_path, source, "id = k").when_not_matched_by_source_update(values).execute()
    row = da.to_table(tmp_path, predicate=col("id") == (2 if surface == "not matched" else 1))
    for name, (_, value, _) in columns.items():
        (stored,) = leaves_of(row[name].combine_chunks())
        assert means_same(value, stored), (name, value, stored)


@pytest.mark.parametrize("data_type", PRIMITIVES, ids=NAMES)
def test_a_predicate_finds_the_rows_with_the_value_or_is_refused(data_type: DataType) -> None:
    field = StructField("v", data_type)
    schema = StructType((field,))
    values = [value_of_type(each, field, "t") for each in kept(data_type)]
    rows = pa.table({"v": pa.array(values, arrow_type_from_type(data_type))})
    stored = rows["v"].to_pylist()
    for value in VALUES:
        if isinstance(value, str) and data_type != STRING:
            continue  # read as a literal of the type
        try:
            found = rows.filter(to_arrow(col("v") == value, schema))["v"].to_pylist()
        except InvalidRequestError:
            assert not is_kept(value, data_type)
            continue
        expected = [each for each in stored if is_found(value, each, data_type)]
        assert repr(found) == repr(expected), value  # NaN does not equal itself


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("data_type", PRIMITIVES, ids=NAMES)
def test_a_partition_has_the_value_that_was_written(tmp_path: Path, data_type: DataType) -> None:
    values = [value_of_type(each, StructField("p", data_type), "t") for each in kept(data_type)]
    values = [each for each in values if can_partition(each)]
    data = pa.array(values, arrow_type_from_type(data_type))
    da.write(tmp_path, pa.table({"n": range(len(data)), "p": data}), partition_by=["p"])
    found = da.to_table(tmp_path).sort_by("n")["p"].combine_chunks()
    assert found.equals(data)
    snapshot = DeltaLog(tmp_path).snapshot()
    for value in values:
        predicate = col("p") == value
        assert value in da.to_table(tmp_path, predicate=predicate)["p"].to_pylist()
        assert len(plan_scan(snapshot, predicate)) == 1


ARROW_TYPES = [
    pa.int8(), pa.uint8(), pa.int64(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(),
    pa.decimal32(5, 2), pa.decimal128(38, 18), pa.decimal128(31, 0), pa.decimal256(70, 10),
    pa.bool_(), pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary_view(),
    pa.binary(1), pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("ns"),
    pa.timestamp("ns", "Asia/Tokyo"), pa.timestamp("us", "UTC"), pa.time64("us"), pa.duration("s"),
    pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int8(), pa.int64()),
]  # fmt: skip


def arrays_of(data_type: pa.DataType) -> Iterator[pa.Array]:
    """An array for each value that Arrow accepts for the type."""
    for value in VALUES:
        try:
            array = pa.array([value.as_py() if isinstance(value, pa.Scalar) else value], data_type)
            array.to_pylist()  # fails for dates outside of Python's range
            yield array
        except Exception:  # depends on the class of the value
            continue


@pytest.mark.some_cases(8)
@pytest.mark.parametrize("depth", ["a column", "a field deep down"])
@pytest.mark.parametrize(
    "source",
    [
        pytest.param(each, id=str(each), marks=pytest.mark.full if number % 3 else ())
        for number, each in enumerate(ARROW_TYPES)
    ],
)
def test_a_value_of_arrow_data_is_the_same_or_refused(source: pa.DataType, depth: str) -> None:
    nest = depth != "a column"
    for array in arrays_of(source):
        data = _nested(array) if nest else array
        for data_type in PRIMITIVES:
            wanted = arrow_type_from_type(data_type)
            target = _nested(pa.nulls(1, wanted)).type if nest else wanted
            batch = pa.record_batch({"v": data})
            try:
                fit = plan_fit(batch.schema, pa.schema([("v", target)]), "t")
                (fitted,) = fit(batch)
            except InvalidRequestError:
                continue
            for stored in leaves_of(fitted["v"]):
                assert means_same(array[0], stored), (array, data_type)


def _nested(array: pa.Array) -> pa.Array:
    """The value inside a struct inside a map inside a list."""
    structs = pa.StructArray.from_arrays([array], ["x"])
    maps = pa.MapArray.from_arrays([0, 1], pa.array(["k"]), structs)
    return pa.ListArray.from_arrays([0, 1], maps)

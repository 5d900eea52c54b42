"""Every type, depth and value in Spark: the stored value equals the input, or an error.

`make test` takes a sample by a fixed seed, `make test-all` all pairs of types and more values. For
the values themselves see `tests/arrow/test_every_value.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, col
from delta_ops.ddl import create_table
from delta_ops.errors import InvalidRequestError
from delta_ops.log import plan_scan
from delta_ops.planning.assigned_columns import is_sql_text
from delta_ops.protocol.schema import (
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    DataType,
    DecimalType,
    StructField,
    StructType,
)
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type
from delta_ops.protocol.values.conversion import value_of_type
from delta_ops.spark.casting import fit_value
from delta_ops.spark.expressions.columns import matches, named_column
from delta_ops.spark.schema import spark_schema_from_schema
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
from tests.support.tiers import seeded

pytestmark = pytest.mark.spark

FULL = pytest.mark.full
Cases = Mapping[str, tuple[DataType, Any, Any, str]]
"""By column: its type, the value, the input, and its depth."""


def columns_of(depths: list[str], most: int, seed: int) -> Cases:
    """A column for each type, and for some of the values that it keeps."""
    choice = seeded(seed)
    found = [
        (DEPTHS[depth][0](data_type), value, DEPTHS[depth][1](value), depth)
        for depth in depths
        for data_type in PRIMITIVES
        for value in choice.sample(kept(data_type), min(most, len(kept(data_type))))
    ]
    return {f"c{number}": each for number, each in enumerate(found)}


SOME, ALL = ["a key", "a field deep down"], list(DEPTHS)


@pytest.mark.full
@pytest.mark.full
@pytest.mark.parametrize(
    ("surface", "depths", "most"),
    [
        ("update", SOME, 1),
        pytest.param("not matched", SOME, 1, marks=FULL),
        *(
            pytest.param(surface, ALL, 3, marks=FULL)
            for surface in ("update", "matched", "not matched", "by source")
        ),
    ],
)
def test_arguments_of_an_operation_are_read(
    spark: SparkSession, tmp_path: Path, surface: str, depths: list[str], most: int
) -> None:
    columns = columns_of(depths, most, len(surface))
    fields = [StructField(name, data_type) for name, (data_type, *_) in columns.items()]
    create_table(tmp_path, StructType((StructField("id", LONG), *fields)))
    da.write(tmp_path, pa.table({"id": [1]}))
    values = {
        name: pa.scalar(data) if is_sql_text(data) else data
        for name, (_, _, data, _) in columns.items()
    }
    merge = ds.merge(tmp_path, spark.sql(f"SELECT {1 + (surface != 'matched')}L AS k"), "id = k")
    match surface:
        case "update":
            ds.update(spark, tmp_path, values)
        case "matched":
            merge.when_matched_update(values).execute()
        case "not matched":
            merge.when_not_matched_insert({"id": "k", **values}).execute()
        case "by source":
            merge.when_not_matched_by_source_update(values).execute()
    row = da.to_table(tmp_path, predicate=col("id") == (2 if surface == "not matched" else 1))
    for name, (_, value, _, depth) in columns.items():
        (stored,) = leaves_of(row[name].combine_chunks(), of_keys=depth == "a key")
        assert means_same(value, stored), (name, value, stored)


def values_of(data_type: DataType, depth: str = "a column") -> pa.Array:
    """The values that a type keeps, at a depth."""
    wrap_type, wrap = DEPTHS[depth]
    field = StructField("v", wrap_type(data_type))
    values = [value_of_type(wrap(each), field, "t") for each in kept(data_type)]
    return pa.array(values, arrow_type_from_type(field.data_type))


def side_by_side(arrays: Mapping[str, pa.Array]) -> pa.Table:
    """Columns of different lengths, with null below."""
    most = max(map(len, arrays.values()))
    filled = {
        name: pa.chunked_array([each, pa.nulls(most - len(each), each.type)])
        for name, each in arrays.items()
    }
    return pa.table(filled)


def frame_of(spark: SparkSession, rows: pa.Table, data_types: Mapping[str, DataType]) -> DataFrame:
    """A frame with these types; by default Spark takes a time without a zone as an instant."""
    fields = (StructField(name, data_type) for name, data_type in data_types.items())
    schema = spark_schema_from_schema(StructType(tuple(fields)))
    return spark.createDataFrame(rows, schema).coalesce(1)


IN_EACH_RUN = (STRING, DOUBLE, TIMESTAMP, DecimalType(38, 18))
PARTITIONED = [
    pytest.param(each, id=each.name, marks=() if each in IN_EACH_RUN else FULL)
    for each in PRIMITIVES
]
PAIRS = [(source, target) for source in PRIMITIVES for target in PRIMITIVES if source != target]


@pytest.mark.full
@pytest.mark.parametrize(
    ("depth", "num_pairs"),
    [
        ("a column", 40),
        ("a field deep down", 40),
        *(pytest.param(depth, len(PAIRS), marks=FULL) for depth in DEPTHS),
    ],
)
def test_a_value_of_a_frame_is_the_same_or_refused(
    spark: SparkSession, depth: str, num_pairs: int
) -> None:
    wrap_type = DEPTHS[depth][0]
    data = {source.name: values_of(source, depth) for source in PRIMITIVES}
    columns, pairs = [], []
    for source, target in seeded(num_pairs).sample(PAIRS, num_pairs):
        field = StructField("v", wrap_type(target))
        try:
            fitted, misfit = fit_value(named_column(source.name), wrap_type(source), field, "t")
        except InvalidRequestError:
            continue
        pairs.append((source, target))
        columns.append(fitted.alias(f"{len(pairs)} fitted"))
        if misfit:
            columns.append(misfit[0].alias(f"{len(pairs)} misfit"))
    types = {source.name: wrap_type(source) for source in PRIMITIVES}
    found = frame_of(spark, side_by_side(data), types).select(*columns).toArrow()
    assert pairs
    for number, (source, target) in enumerate(pairs, 1):
        before, after = data[source.name], found[f"{number} fitted"].combine_chunks()
        name = f"{number} misfit"
        misfits = found[name].to_pylist() if name in found.schema.names else [False] * len(found)
        for place in range(len(before)):
            if misfits[place]:
                continue
            of_keys = depth == "a key"
            (one,) = leaves_of(before.take([place]), of_keys=of_keys)
            (other,) = leaves_of(after.take([place]), of_keys=of_keys)
            assert means_same(one, other), (source, target, one, other)


@pytest.mark.parametrize("num_values", [12, pytest.param(len(VALUES), marks=FULL)])
def test_a_predicate_finds_the_rows_with_the_value_or_is_refused(
    spark: SparkSession, num_values: int
) -> None:
    choice = seeded(num_values)
    schema = StructType(tuple(StructField(each.name, each) for each in PRIMITIVES))
    rows = side_by_side({each.name: values_of(each) for each in PRIMITIVES})
    wanted, columns = [], []
    for data_type in PRIMITIVES:
        for value in choice.sample(VALUES, num_values):
            if isinstance(value, str) and data_type != STRING:
                continue  # read as a literal of the type
            try:
                columns.append(matches(col(f"`{data_type.name}`") == value, schema))
            except InvalidRequestError:
                assert not is_kept(value, data_type)
                continue
            wanted.append((data_type, value))
    named = [each.alias(f"{number}") for number, each in enumerate(columns)]
    types = {each.name: each for each in PRIMITIVES}
    found = frame_of(spark, rows, types).select(*named).toArrow()
    for number, (data_type, value) in enumerate(wanted):
        stored = values_of(data_type).to_pylist()
        expected = [is_found(value, each, data_type) for each in stored]
        assert found[f"{number}"].to_pylist()[: len(stored)] == expected, (data_type, value)


@pytest.mark.full
@pytest.mark.parametrize("data_type", PARTITIONED)
def test_a_partition_has_the_value_that_was_written(
    spark: SparkSession, tmp_path: Path, data_type: DataType
) -> None:
    array = values_of(data_type)
    values = [each for each in array.to_pylist() if can_partition(each)]
    values = [each for each in values if not isinstance(each, str) or "\0" not in each]  # rejected
    data = pa.array(values, array.type)
    rows = pa.table({"n": range(len(data)), "p": data})
    frame = frame_of(spark, rows, {"n": LONG, "p": data_type})
    ds.write(frame, tmp_path, partition_by=["p"])
    assert da.to_table(tmp_path).sort_by("n")["p"].combine_chunks().equals(data)
    read = ds.read(spark, tmp_path).orderBy("n").toArrow()["p"].combine_chunks()
    assert read.cast(data.type).equals(data)
    snapshot = DeltaLog(tmp_path).snapshot()
    for value in values:
        assert len(plan_scan(snapshot, col("p") == value)) == 1
    value = seeded(len(values)).choice(values)
    found = ds.read(spark, tmp_path, predicate=col("p") == value).toArrow()["p"]
    assert value in found.cast(data.type).to_pylist()

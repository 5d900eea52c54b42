"""Random filters of DataFrames select the same rows from chosen files as from all rows.

Tables have a column of each type with values at its edges, in files of several writers. Columns are
indexed, and may have other names in files. Rows are deleted by vectors; scan caches and indexes are
fresh, stale or damaged. The session is in New York.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from functools import reduce
from operator import eq, ge, gt, le, lt, ne
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.ddl import rename_column
from delta_ops.maintenance import create_checkpoint, create_index, create_scan_cache, list_indexes
from delta_ops.protocol.schema import (
    DATE,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    StructField,
    StructType,
)
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema
from delta_ops.protocol.schema.column_names import quote
from delta_ops.spark.schema import spark_schema_from_schema
from tests.support.mutations import mutate
from tests.support.random_tables import COMPARABLE, DrawnAtEdges, edges_of

pytestmark = [pytest.mark.spark, pytest.mark.full]

FILES = 10
FILTERS = 40
OPERATORS = (eq, eq, eq, ne, lt, le, gt, ge, Column.eqNullSafe)
EPOCH = datetime(1970, 1, 1)
TEXTS = ("a", "é東 京", " ")
"""Partition values."""


class Filters:
    """Random conditions on a table's columns."""

    def __init__(self, drawn: DrawnAtEdges, schema: StructType) -> None:
        self._drawn, self._chance, self._fields = drawn, drawn.random, schema.fields

    def draw(self, depth: int = 2) -> Column:
        """A comparison, or a combination of conditions."""
        kind = self._chance.randrange(8) if depth else 7
        if kind == 0:
            return ~self.draw(depth - 1)
        if kind < 4:
            return self.draw(depth - 1) & self.draw(depth - 1)
        if kind < 6:
            return self.draw(depth - 1) | self.draw(depth - 1)
        return self._comparison()

    def _comparison(self) -> Column:
        chance = self._chance
        column, data_type = self._column()
        if chance.random() < 0.2:
            return column.isNull() if chance.random() < 0.5 else column.isNotNull()
        if isinstance(data_type, StructType):
            return column.isNotNull()
        if chance.random() < 0.3:
            listed = [self._literal(data_type) for _ in range(chance.choice((1, 3, 14)))]
            return column.isin(listed)
        compare = chance.choice(OPERATORS)
        literal = self._literal(data_type)
        return compare(column, literal) if chance.random() < 0.7 else compare(literal, column)

    def _column(self) -> tuple[Column, DataType]:
        field = self._chance.choice(self._fields)
        column = sf.col(quote(field.name))
        if isinstance(field.data_type, StructType) and self._chance.random() < 0.7:
            inner = self._chance.choice(field.data_type.fields)
            return column[inner.name], inner.data_type
        return column, field.data_type

    def _literal(self, data_type: DataType) -> Column:
        """A literal of the type, or of a type that Spark casts."""
        value = self._chance.choice(edges_of(data_type))
        wanted = spark_schema_from_schema(StructType((StructField("x", data_type),)), ())
        literal = literal_of(value, data_type)
        return literal.cast(wanted[0].dataType) if self._chance.random() < 0.8 else literal


def literal_of(value: Any, data_type: DataType) -> Column:
    """A literal; of times, independent of the zone of the process."""
    if data_type == DATE:
        return sf.expr(f"date_from_unix_date({(value - EPOCH.date()).days})")
    if data_type in (TIMESTAMP, TIMESTAMP_NTZ):
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
        zone, name = ("Z", "TIMESTAMP") if data_type == TIMESTAMP else ("", "TIMESTAMP_NTZ")
        return sf.expr(f"{name}'{text}{zone}'")
    if isinstance(value, Decimal):
        return sf.expr(f"{value:f}BD")
    return sf.lit(value)


def draw_schema(drawn: DrawnAtEdges) -> StructType:
    """A number of each row, a partition column, a column of each type, and a struct."""
    partitions = drawn.random.choice((LONG, DATE, TIMESTAMP, STRING))
    inner = StructType(tuple(map(drawn.field, drawn.random.sample(COMPARABLE, 3))))
    columns = [StructField("row", LONG), StructField("p", partitions)]
    return StructType((*columns, *map(drawn.field, (*COMPARABLE, inner))))


def draw_rows(drawn: DrawnAtEdges, schema: StructType, first: int) -> pa.Table:
    """Rows of one file; each column has only some of the edges."""
    count = drawn.random.choice((1, 4, 9))
    arrow = arrow_schema_from_schema(schema)
    data_type = schema.fields[1].data_type
    partition = drawn.random.choice(TEXTS if data_type == STRING else edges_of(data_type))
    columns = [pa.array(range(first, first + count), pa.int64()), [partition] * count]
    columns += [drawn.column(each.data_type, count) for each in schema.fields[2:]]
    return pa.table(
        [pa.array(values, field.type) for values, field in zip(columns, arrow, strict=True)],
        schema=arrow,
    )


def numbers_found(frames: Sequence[DataFrame]) -> list[list[int]]:
    """The rows of each frame, by their numbers."""
    parts = (each.select(sf.lit(i).alias("frame"), "row") for i, each in enumerate(frames))
    found: list[list[int]] = [[] for _ in frames]
    for frame, row in reduce(DataFrame.unionAll, parts).collect():
        found[frame].append(row)
    return [sorted(each) for each in found]


def damage(drawn: DrawnAtEdges, folder: Path) -> None:
    """Damage some files of the indexes or caches."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and drawn.random.random() < 0.5:
            path.write_bytes(mutate(path.read_bytes(), drawn.random))


@pytest.mark.parametrize(
    "seed",
    [*range(8), *(pytest.param(each, marks=pytest.mark.long) for each in range(8, 60))],
)
def test_filters_select_the_rows_of_a_full_scan(
    tmp_path: Path, in_new_york: SparkSession, seed: int
) -> None:
    spark, drawn, root = in_new_york, DrawnAtEdges(seed), tmp_path / "t"
    schema = draw_schema(drawn)
    is_mapped, has_vectors = seed % 4 == 1, seed % 4 in (1, 2)
    configuration = {
        "delta.dataSkippingNumIndexedCols": drawn.random.choice(("-1", "0", "9")),
        "delta.enableDeletionVectors": str(has_vectors).lower(),
        "delta.columnMapping.mode": "name" if is_mapped else "none",
    }

    def append(number: int) -> None:
        rows = draw_rows(drawn, schema, number * 10)
        if number and number % 3 == 0 and not (is_mapped or has_vectors):
            write_deltalake(str(root), rows, mode="append")
        else:
            partition_by = ["p"] if number == 0 and seed % 2 else None
            da.write(
                root,
                rows,
                partition_by=partition_by,
                configuration=configuration if number == 0 else None,
            )

    for number in range(FILES):
        append(number)
    if is_mapped:
        for field in schema.fields[2:6]:
            rename_column(root, quote(field.name), f"renamed {field.name}")
        schema = DeltaLog(root).snapshot().schema
    if has_vectors:
        da.delete(root, f"row % 10 = {drawn.random.choice((0, 1))}")
    for number, field in enumerate(schema.fields):
        if not isinstance(field.data_type, StructType) and seed % 8:
            create_index(root, f"index_{number}", quote(field.name))
    create_checkpoint(root)
    if seed % 3:
        create_scan_cache(root)
    if seed % 3 != 1:
        for number in range(FILES, FILES + 3):
            append(number) if not is_mapped else da.delete(root, f"row = {number}")
    if seed % 4 == 3:
        assert list_indexes(root)
        damage(drawn, root / "_delta_ops")

    snapshot = DeltaLog(root).snapshot()
    everything = ds.read(spark, snapshot).localCheckpoint()
    filters = Filters(drawn, schema)
    conditions = [filters.draw() for _ in range(FILTERS)]
    expected = numbers_found([everything.filter(each) for each in conditions])
    found = numbers_found([ds.read(spark, snapshot).filter(each) for each in conditions])
    for condition, rows, all_rows in zip(conditions, found, expected, strict=True):
        assert rows == all_rows, condition
    assert any(0 < len(each) < everything.count() for each in expected)

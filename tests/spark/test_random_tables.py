"""Tables drawn at random, of every type at every depth, read by Spark and by Arrow: equal rows.

The session is in a time zone of its own. Columns have other names in files, come later and were
dropped; some have no type; rows are deleted by vectors, and what commits did to them is compared as
well.
"""

from __future__ import annotations

import random
import string
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops.protocol.actions import Action, AddFile
from delta_ops.protocol.arrow_types import arrow_schema_from_schema
from delta_ops.protocol.column_mapping import physical_name, rename_columns
from delta_ops.protocol.partition_values import serialize
from delta_ops.protocol.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    INTEGER_RANGES,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)
from delta_ops.protocol.variant import field_names
from delta_ops.transaction.changes import tombstone
from tests.arrow.foreign_table import commit, create, data_file, inline_vector, stored_vector
from tests.spark.frames import rows_of, sorted_texts
from tests.variants import NO_NAMES, encode

pytestmark = pytest.mark.spark

COMPARABLE: Sequence[DataType] = (
    *(STRING, BINARY, BOOLEAN, BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE, DATE),
    *(TIMESTAMP, TIMESTAMP_NTZ, DecimalType(9, 2), DecimalType(18, 0), DecimalType(38, 20)),
)
FEED = {"delta.enableChangeDataFeed": "true"}
FIRST = datetime(1, 1, 2)
DAYS = (date(9999, 12, 30) - FIRST.date()).days


class Drawn:
    """What a seed draws: types, and values and stored forms of them."""

    def __init__(self, seed: int, is_mapped: bool) -> None:
        self.random = random.Random(seed)
        self.is_mapped = is_mapped
        self._number = 0

    def field(self, data_type: DataType) -> StructField:
        self._number += 1
        letters = "".join(self.random.choices(string.ascii_letters, k=2))
        name = f"{letters}{self.random.choice('. é`')}{self._number}"
        metadata = {
            "delta.columnMapping.id": self._number,
            "delta.columnMapping.physicalName": f"col-{self._number}",
        }
        return StructField(name, data_type, metadata=metadata if self.is_mapped else {})

    def type(self, depth: int) -> DataType:
        kind = self.random.randrange(8) if depth else 0
        match kind:
            case 5:
                return ArrayType(self.type(depth - 1))
            case 6:
                return MapType(self.random.choice((STRING, LONG, DATE)), self.type(depth - 1))
            case 7:
                return self.struct(depth - 1)
        return self.random.choice((*COMPARABLE, VOID, VARIANT))

    def struct(self, depth: int) -> StructType:
        return StructType(
            tuple(self.field(self.type(depth)) for _ in range(self.random.randint(1, 4)))
        )

    def stored(self, data_type: DataType) -> DataType | None:
        """The type as a file may have it: without fields that came later, with others; or none."""
        match data_type:
            case StructType(fields=fields):
                kept = [
                    replace(each, data_type=inner)
                    for each in fields
                    if self.random.random() < 0.85
                    and (inner := self.stored(each.data_type)) is not None
                ]
                if self.random.random() < 0.2:
                    kept.append(self.field(self.random.choice(COMPARABLE)))
                self.random.shuffle(kept)
                return StructType(tuple(kept)) if kept else None
            case ArrayType(element_type=element_type):
                element = self.stored(element_type)
                return None if element is None else ArrayType(element)
            case MapType(key_type=key_type, value_type=value_type):
                value = self.stored(value_type)
                return None if value is None else MapType(key_type, value)
        return None if data_type == VOID else data_type

    def value(self, data_type: DataType, nullable: bool = True) -> Any:
        draw = self.random
        if nullable and draw.random() < 0.2:
            return None
        match data_type:
            case StructType(fields=fields):
                return {each.name: self.value(each.data_type) for each in fields}
            case ArrayType(element_type=element_type):
                return [self.value(element_type) for _ in range(draw.randrange(4))]
            case MapType(key_type=key_type, value_type=value_type):
                keys = {self.value(key_type, False) for _ in range(draw.randrange(4))}
                return [(key, self.value(value_type)) for key in keys]
            case DecimalType(precision=precision, scale=scale):
                digits = draw.randrange(-(10**precision) + 1, 10**precision)
                return Decimal(digits).scaleb(-scale)
        return self._leaf(data_type)

    def _leaf(self, data_type: DataType) -> Any:
        draw = self.random
        if data_type in INTEGER_RANGES:
            least, most = INTEGER_RANGES[data_type]
            return draw.choice((least, -1, 0, 7, most))
        if data_type in (FLOAT, DOUBLE):
            return draw.choice((0.5, -1.25, 1e10, float("nan"), float("inf"), -0.0))
        if data_type == VARIANT:
            said = draw.choice((None, 5, "text", True, 1.5, [1, None]))
            return {"metadata": NO_NAMES, "value": encode(said, field_names(NO_NAMES))}
        moment = FIRST + timedelta(
            days=draw.choice((0, DAYS, draw.randrange(DAYS))),
            microseconds=draw.randrange(86_400_000_000),
        )
        made: dict[DataType, Any] = {
            STRING: draw.choice(("", "a", "é東 京", "x" * 50)),
            BINARY: draw.choice((b"", b"\xff\0", b"abc")),
            BOOLEAN: draw.random() < 0.5,
            DATE: moment.date(),
            TIMESTAMP: moment.replace(tzinfo=UTC),
            TIMESTAMP_NTZ: moment,
        }
        return made[data_type]

    def rows(self, schema: StructType, count: int) -> pa.Table:
        """A table as a file may have it."""
        stored = self.stored(schema)
        if not isinstance(stored, StructType):
            return pa.table({"none of the table's": [0] * count})
        if self.is_mapped:
            stored = rename_columns(stored, physical_name)
        arrow = arrow_schema_from_schema(stored)
        values = [[self.value(each.data_type) for _ in range(count)] for each in stored.fields]
        arrays = [pa.array(v, each.type) for v, each in zip(values, arrow, strict=True)]
        return pa.Table.from_arrays(arrays, schema=arrow)


@pytest.mark.parametrize("seed", range(8))
def test_rows_and_changes_of_random_tables_are_those_of_arrow(
    tmp_path: Path, in_new_york: SparkSession, way: str, seed: int
) -> None:
    drawn = Drawn(seed, is_mapped=seed % 2 == 1)
    partition = drawn.field(COMPARABLE[seed * 7 % len(COMPARABLE)])
    columns = tuple(drawn.field(drawn.type(3)) for _ in range(8))
    columns += tuple(map(drawn.field, drawn.random.sample(COMPARABLE, 4)))
    schema = StructType((*columns[:3], partition, *columns[3:]))
    name = physical_name(partition) if drawn.is_mapped else partition.name

    def draw_file(number: int) -> AddFile:
        count = drawn.random.choice((1, 5, 40))
        value = drawn.value(partition.data_type)
        return data_file(
            tmp_path,
            f"{number}.parquet",
            drawn.rows(StructType(columns), count),
            partition_values={name: serialize(value, partition.data_type)},
            deletion_vector=draw_vector(count),
        )

    def draw_vector(count: int) -> Any:
        if drawn.random.random() < 0.4:
            return None
        deleted = [row for row in range(count) if drawn.random.random() < 0.3]
        vector = inline_vector(deleted), stored_vector(tmp_path, deleted)
        return drawn.random.choice(vector)

    configuration = {**FEED, **({"delta.columnMapping.mode": "name"} if drawn.is_mapped else {})}
    log = create(tmp_path, schema, [], configuration, (partition.name,))
    live = [draw_file(number) for number in range(5)]
    commit(log, 1, live)
    changed = [replace(each, deletion_vector=draw_vector(1)) for each in live[:2]]
    gone = [tombstone(each, 0, data_change=True) for each in live[:3]]
    actions: list[Action] = [*gone, *changed]
    commit(log, 2, actions)

    by_arrow = da.to_table(log)
    assert sorted_texts(rows_of(ds.read(in_new_york, log))) == sorted_texts(by_arrow.to_pylist())
    changes = da.read_changes(log, 0).read_all()
    found = rows_of(ds.read_changes(in_new_york, log, 0))
    assert sorted_texts(found) == sorted_texts(changes.to_pylist())
    assert len(changes) > len(by_arrow)

"""Random tables for tests, by a seed: types, values and their stored forms."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from delta_ops.protocol.columns.mapping import physical_name, rename_columns
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
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema
from delta_ops.protocol.variant import field_names
from tests.support.tiers import seeded
from tests.support.variants import NO_NAMES, encode

COMPARABLE: Sequence[DataType] = (
    *(STRING, BINARY, BOOLEAN, BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE, DATE),
    *(TIMESTAMP, TIMESTAMP_NTZ, DecimalType(9, 2), DecimalType(18, 0), DecimalType(38, 20)),
)
FIRST = datetime(1, 1, 2)
DAYS = (date(9999, 12, 30) - FIRST.date()).days


class Drawn:
    """Random types, values and stored forms, drawn by a seed."""

    types: Sequence[DataType] = (*COMPARABLE, VOID, VARIANT)
    """Types that are not nested."""
    separators = ". é`"
    """A character of every column's name."""

    def __init__(self, seed: int, is_mapped: bool) -> None:
        self.random = seeded(seed)
        self.is_mapped = is_mapped
        self._number = 0

    def field(self, data_type: DataType) -> StructField:
        self._number += 1
        letters = "".join(self.random.choices(string.ascii_letters, k=2))
        name = f"{letters}{self.random.choice(self.separators)}{self._number}"
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
        return self.random.choice(self.types)

    def struct(self, depth: int) -> StructType:
        return StructType(
            tuple(self.field(self.type(depth)) for _ in range(self.random.randint(1, 4)))
        )

    def stored(self, data_type: DataType) -> DataType | None:
        """The type in an older or newer file: with fewer or other fields; or none."""
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
        return self.leaf(data_type)

    def leaf(self, data_type: DataType) -> Any:
        """A value of a type that is not nested."""
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
        """A table in a possible form of a file."""
        stored = self.stored(schema)
        if not isinstance(stored, StructType):
            return pa.table({"none of the table's": [0] * count})
        if self.is_mapped:
            stored = rename_columns(stored, physical_name)
        arrow = arrow_schema_from_schema(stored)
        values = [[self.value(each.data_type) for _ in range(count)] for each in stored.fields]
        arrays = [pa.array(v, each.type) for v, each in zip(values, arrow, strict=True)]
        return pa.Table.from_arrays(arrays, schema=arrow)


class DrawnAtEdges(Drawn):
    """Random tables that every engine can write, with values at the edges of types."""

    types = COMPARABLE
    separators = ".-é_"

    def __init__(self, seed: int) -> None:
        super().__init__(seed, is_mapped=False)
        self._chosen: Sequence[int] = ()
        self._nulls = 0.0

    def value(self, data_type: DataType, nullable: bool = True) -> Any:
        """A value; one of the column's few values."""
        if nullable and self.random.random() < self._nulls:
            return None
        return super().value(data_type, False)

    def column(self, data_type: DataType, count: int) -> list[Any]:
        """Values of a column that has only some edges, with some nulls, only nulls, or none."""
        self._chosen = [self.random.randrange(60) for _ in range(self.random.choice((1, 2, 9)))]
        self._nulls = self.random.choice((0, 0.2, 0.5, 1))
        return [self.value(data_type) for _ in range(count)]

    def leaf(self, data_type: DataType) -> Any:
        """One of the edge values that the column uses."""
        edges = edges_of(data_type)
        return edges[self.random.choice(self._chosen) % len(edges)]


def edges_of(data_type: DataType) -> Sequence[Any]:
    """Values that are often stored, compared or described wrongly."""
    if data_type in INTEGER_RANGES:
        least, most = INTEGER_RANGES[data_type]
        return (least, least + 1, -1, 0, 7, most - 1, most)
    if isinstance(data_type, DecimalType):
        most = 10**data_type.precision - 1
        digits = (-most, -1, 0, 1, 5, most // 10 + 1, most - 1, most)
        return tuple(
            Decimal((each < 0, tuple(map(int, str(abs(each)))), -data_type.scale))
            for each in digits
        )
    return _EDGES[data_type]


_FRACTIONS = (0.5, -1.25, 0.1, 1e10, float("nan"), float("inf"), float("-inf"), -0.0, 0.0)
_MOMENTS = (
    datetime(1, 1, 1),
    datetime(1, 1, 1, microsecond=1),
    datetime(1582, 10, 4, 23, 59, 59, 123456),
    datetime(1883, 11, 18, 16, 59, 59, 999999),
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(1970, 1, 1),
    datetime(1970, 1, 1, microsecond=1),
    datetime(2024, 3, 10, 2, 30),
    datetime(2024, 11, 3, 5, 30, 0, 6000),
    datetime(2024, 11, 3, 6, 30, 0, 6001),
    datetime(9999, 12, 31, 23, 59, 59, 999000),
    datetime(9999, 12, 31, 23, 59, 59, 999999),
)
_EDGES: Mapping[DataType, Sequence[Any]] = {
    BOOLEAN: (True, False),
    FLOAT: (*_FRACTIONS, 3.4028234663852886e38, 1.401298464324817e-45),
    DOUBLE: (*_FRACTIONS, 1.7976931348623157e308, 5e-324, 1 / 3),
    BINARY: (b"", b"\0", b"\xff\0", b"abc" * 20, b"\xff" * 40),
    STRING: (
        *("", "a", " ", "\0", "é東 京", "x" * 32, "x" * 33, "x" * 31 + "éy", "é" * 3000),
        *(
            "\x7f" * 40,
            "\x7e" * 32 + "\x7f",
            "\x7f" * 32 + "x",
            "ab\0" * 15,
            "\ud7ff\ue000\uffff" * 12,
        ),
        *(
            "😀" * 40,
            "a" * 31 + "😀z",
            "a" * 31 + "\uffff😀",
            "\U0010ffff" * 40,
            "x" * 32 + "\U0010ffff" * 10,
        ),
        *(
            "\U0010ffff" * 70,
            "x" * 31 + "\U0010ffff" * 40,
            "\x7f" * 31 + "\U0010ffff" * 2 + "\x7f" * 40,
        ),
    ),
    DATE: (
        *(date(1, 1, 1), date(1582, 10, 4), date(1582, 10, 15), date(1969, 12, 31)),
        *(date(1970, 1, 1), date(2024, 2, 29), date(9999, 12, 31)),
    ),
    TIMESTAMP: [each.replace(tzinfo=UTC) for each in _MOMENTS],
    TIMESTAMP_NTZ: _MOMENTS,
}

"""Indexed columns: the columns of a table that get statistics.

Source: PROTOCOL.md, "Per-file Statistics", and the table properties `delta.dataSkipping...`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache

from delta_ops.protocol.schema import (
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER_RANGES,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ColumnPath,
    DataType,
    DecimalType,
    StructType,
    leaves,
)

_BOUNDED = (*INTEGER_RANGES, FLOAT, DOUBLE, DATE, STRING, TIMESTAMP, TIMESTAMP_NTZ)
"""Types with bounds in statistics, besides decimals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsSettings:
    """Columns that get statistics, and the maximum length of their texts."""

    num_indexed_columns: int = 32
    """`delta.dataSkippingNumIndexedCols`: number of leaf columns with statistics.

    Counted in schema order; an array or a map is one leaf. -1: all.
    """
    columns: tuple[ColumnPath, ...] | None = None
    """`delta.dataSkippingStatsColumns`: columns with statistics, each struct with its fields.

    None: the first columns.
    """
    always: tuple[ColumnPath, ...] = ()
    """Additional columns with statistics, such as clustering columns."""
    string_prefix_length: int = 32
    """`delta.dataSkippingStringPrefixLength`: longer texts are truncated to about this length."""


DEFAULT_STATS = StatsSettings()


def has_bounds(data_type: DataType) -> bool:
    """Whether statistics of a type have bounds."""
    return data_type in _BOUNDED or isinstance(data_type, DecimalType)


@lru_cache(maxsize=16)
def indexed_data_leaves(
    schema: StructType, partition_columns: tuple[str, ...], settings: StatsSettings
) -> tuple[tuple[ColumnPath, DataType], ...]:
    """The leaf columns with statistics, without partition columns.

    Cached, since all files of a table have the same columns.
    """
    return tuple(indexed_leaves(_drop_columns(schema, partition_columns), settings))


def _drop_columns(schema: StructType, partition_columns: Collection[str]) -> StructType:
    left_out = {name.lower() for name in partition_columns}
    return StructType(tuple(each for each in schema.fields if each.name.lower() not in left_out))


def indexed_leaves(
    schema: StructType, settings: StatsSettings
) -> Iterator[tuple[ColumnPath, DataType]]:
    """The leaf columns with statistics: the fields of structs; arrays and maps are leaves."""
    wanted = None if settings.columns is None else {_lower(path) for path in settings.columns}
    always = {_lower(path) for path in settings.always}
    number = settings.num_indexed_columns
    for position, (path, data_type) in enumerate(leaves(schema)):
        if wanted is not None:
            is_indexed = any(_lower(path)[: i + 1] in wanted for i in range(len(path)))
        else:
            is_indexed = number < 0 or position < number
        if is_indexed or _lower(path) in always:
            yield path, data_type


def _lower(path: ColumnPath) -> ColumnPath:
    return tuple(name.lower() for name in path)

"""Statistics of a data file, from its Parquet footer.

Source: PROTOCOL.md, "Per-file Statistics".

NaN is greater than every number, but only parquet-mr includes it in the maximum. Other writers hide
it: their maxima of floating-point columns are used only if the caller found no NaN in the column.
Footers do not record whether a text's bound was truncated; a truncated bound is still a bound.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from math import isnan
from typing import Any, NamedTuple

import msgspec
import pyarrow.parquet as pq

from delta_ops.protocol.schema import (
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER_RANGES,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    ArrayType,
    ColumnPath,
    DataType,
    DecimalType,
    MapType,
    StructType,
)
from delta_ops.protocol.stats.bound_texts import (
    insert_value,
    lower_bound,
    stats_text,
    upper_bound,
)
from delta_ops.protocol.stats.indexed_columns import (
    DEFAULT_STATS,
    StatsSettings,
    indexed_data_leaves,
)
from delta_ops.protocol.values.legacy_calendar import legacy_calendar

_NAN_AWARE_WRITER = "parquet-mr version"
_UNITS_PER_MS = {"milliseconds": 1, "microseconds": 1_000, "nanoseconds": 1_000_000}
_ENCODER = msgspec.json.Encoder()


def stats_from_footer(
    metadata: pq.FileMetaData,
    schema: StructType,
    partition_columns: Collection[str],
    settings: StatsSettings = DEFAULT_STATS,
    *,
    columns_without_nan: Collection[ColumnPath] = (),
    row_groups: Sequence[int] | None = None,
) -> str:
    """Make the statistics of a data file, as JSON, from its footer.

    Args:
        metadata: The footer, written by Spark, pyarrow or another Parquet library.
        schema: The table's columns.
        partition_columns: They get no statistics and do not count as indexed columns.
        columns_without_nan: Floating-point columns where the caller found no NaN.
        row_groups: Describe only these row groups instead of the whole file.
    """
    of_files = FileStatsMaker(metadata, schema, partition_columns, settings)
    return of_files.stats(metadata, columns_without_nan, row_groups)


class FileStatsMaker:
    """Makes statistics of files that one writer wrote with equal settings; finds common parts once.

    Args:
        metadata: The footer of any of the files.
        schema: As for `stats_from_footer`; the same goes for the other arguments.
    """

    def __init__(
        self,
        metadata: pq.FileMetaData,
        schema: StructType,
        partition_columns: Collection[str],
        settings: StatsSettings = DEFAULT_STATS,
    ) -> None:
        self._prefix = settings.string_prefix_length
        found = footer_columns(metadata)
        is_legacy = legacy_calendar(metadata.metadata).is_used
        nan_is_seen = (metadata.created_by or "").startswith(_NAN_AWARE_WRITER)
        self._columns = [
            _column(*found[name], path, data_type, is_legacy, nan_is_seen)
            for path, data_type in indexed_data_leaves(schema, tuple(partition_columns), settings)
            if not isinstance(data_type, ArrayType | MapType)
            and (name := _name_in_footer(path, data_type)) in found
        ]
        self._has_decimals = any(isinstance(each.data_type, DecimalType) for each in self._columns)

    def stats(
        self,
        metadata: pq.FileMetaData,
        columns_without_nan: Collection[ColumnPath] = (),
        row_groups: Sequence[int] | None = None,
    ) -> str:
        """Make the statistics of one file, as JSON, from its footer."""
        lower: dict[str, Any] = {}
        upper: dict[str, Any] = {}
        null_counts: dict[str, Any] = {}
        numbers = range(metadata.num_row_groups) if row_groups is None else row_groups
        groups = [metadata.row_group(i) for i in numbers]
        only = groups[0] if len(groups) == 1 else None  # a table may have very many small files
        for column in self._columns:
            number, path, data_type, stored_as, unit, may_hide_nan, is_number = column
            if only is not None:
                low, high, null_count = _bounds_and_nulls(only.column(number), stored_as)
            else:
                low, high, null_count = _merge([g.column(number) for g in groups], stored_as)
            if not is_number:
                if may_hide_nan and path not in columns_without_nan:
                    high = None
                if low is not None:
                    low = lower_bound(low, data_type, unit, self._prefix)
                if high is not None:
                    high = upper_bound(high, data_type, unit, self._prefix)
            insert_value(lower, path, low)
            insert_value(upper, path, high)
            insert_value(null_counts, path, null_count)
        stats = {
            "numRecords": sum([group.num_rows for group in groups]),
            "minValues": lower,
            "maxValues": upper,
            "nullCount": null_counts,
        }
        return stats_text(stats) if self._has_decimals else _ENCODER.encode(stats).decode()


def _name_in_footer(path: ColumnPath, data_type: DataType) -> str:
    # A variant is null where its dictionary is null.
    return ".".join((*path, "metadata") if data_type == VARIANT else path)


def footer_columns(metadata: pq.FileMetaData) -> dict[str, tuple[int, Any]]:
    """Number and column of each footer column outside lists, by dotted path.

    A path that two columns share is left out: a column may be called `a.b` next to a struct `a`
    with a field `b`.
    """
    found: dict[str, tuple[int, Any]] = {}
    twice = set()
    schema = metadata.schema
    for number in range(metadata.num_columns):
        column = schema.column(number)
        path = column.path
        if path in found:
            twice.add(path)
        if column.max_repetition_level == 0:
            found[path] = number, column
    for path in twice:
        del found[path]
    return found


class _Column(NamedTuple):
    """A column of a file, with its conversion to statistics."""

    number: int
    """Position among the footer's leaf columns, from 0."""
    path: ColumnPath
    data_type: DataType
    stored_as: str | None
    """How to read bounds from the footer; None: use no bounds."""
    units_per_ms: int
    may_hide_nan: bool
    is_number: bool
    """Bounds are integers or decimals, which are the same in the footer and in JSON."""


def _column(
    number: int,
    column: Any,
    path: ColumnPath,
    data_type: DataType,
    is_legacy: bool,
    nan_is_seen: bool,
) -> _Column:
    is_time = data_type in (TIMESTAMP, TIMESTAMP_NTZ)
    of_another_calendar = is_legacy and (is_time or data_type == DATE)
    return _Column(
        number=number,
        path=path,
        data_type=data_type,
        stored_as=None if of_another_calendar else _bound_kind(column, data_type),
        units_per_ms=_units_per_ms(column) if is_time else 1,
        may_hide_nan=data_type in (FLOAT, DOUBLE) and not nan_is_seen,
        is_number=data_type in INTEGER_RANGES or isinstance(data_type, DecimalType),
    )


def _merge(chunks: Sequence[Any], stored_as: str | None) -> tuple[Any, Any, int | None]:
    """Bounds and null count over row groups, in the footer's units; None is unknown."""
    lows: list[Any] = []
    highs: list[Any] = []
    null_count: int | None = 0
    for chunk in chunks:
        low, high, nulls = _bounds_and_nulls(chunk, stored_as)
        null_count = None if null_count is None or nulls is None else null_count + nulls
        if nulls != chunk.num_values:
            lows.append(low)
            highs.append(high)
    return (
        min(lows) if lows and None not in lows else None,
        max(highs) if highs and None not in highs else None,
        null_count,
    )


def _bounds_and_nulls(chunk: Any, stored_as: str | None) -> tuple[Any, Any, int | None]:
    statistics, num_values = chunk.statistics, chunk.num_values
    if not num_values:
        return None, None, 0
    if statistics is None:
        return None, None, None
    nulls = statistics.null_count if statistics.has_null_count else None
    if nulls == num_values or stored_as is None or not statistics.has_min_max:
        return None, None, nulls
    if stored_as == "raw":  # the converted values fail for years beyond Python's types
        return statistics.min_raw, statistics.max_raw, nulls
    low, high = statistics.min, statistics.max
    if isinstance(low, float):
        return None if isnan(low) else low, None if isnan(high) else high, nulls
    return low, high, nulls


def _bound_kind(column: Any, data_type: DataType) -> str | None:
    """How to read bounds from the footer; None if its column is not of the type."""
    logical, physical = column.logical_type.type, column.physical_type
    if data_type in INTEGER_RANGES:
        is_integer = physical in ("INT32", "INT64") and logical in ("NONE", "INT")
        return "value" if is_integer else None
    if isinstance(data_type, DecimalType):
        return "value" if logical == "DECIMAL" else None
    if data_type in (FLOAT, DOUBLE):
        return "value" if physical in ("FLOAT", "DOUBLE") else None
    if data_type == DATE:
        return "raw" if logical == "DATE" else None
    if data_type == STRING:
        return "raw" if logical == "STRING" else None
    if data_type in (TIMESTAMP, TIMESTAMP_NTZ):
        is_utc = _logical_type(column).get("isAdjustedToUTC") is (data_type == TIMESTAMP)
        return "raw" if physical == "INT64" and logical == "TIMESTAMP" and is_utc else None
    return None


def _logical_type(column: Any) -> Mapping[str, Any]:
    return _parsed_logical_type(column.logical_type.to_json())


@lru_cache(maxsize=64)
def _parsed_logical_type(text: str) -> Mapping[str, Any]:
    found = json.loads(text)
    return found if isinstance(found, dict) else {}


def _units_per_ms(column: Any) -> int:
    return _UNITS_PER_MS.get(_logical_type(column).get("timeUnit", ""), 1)

"""Statistics of a data file: made from a Parquet footer, read from the log.

Source: PROTOCOL.md, "Per-file Statistics".

A bound that cannot be proved is left out: readers skip files by it. It has to hold in every engine,
so zeros get the sign that widens the bound, timestamps are rounded outwards to milliseconds, and
what JSON cannot say (NaN, infinity, years beyond 9999) is no bound. NaN is greater than every
number, but only parquet-mr puts it into the maximum, others hide it: their maxima of floating-point
columns are used only for columns that the caller saw without NaN.
Footers do not say whether a string bound was cut; a cut one is still a bound.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from math import isfinite, isnan
from typing import Annotated, Any, NamedTuple

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
    leaves,
)
from delta_ops.protocol.values.legacy_calendar import legacy_calendar

_NAN_AWARE_WRITER = "parquet-mr version"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROS_PER_MS = 1_000
_BOUNDED = (*INTEGER_RANGES, FLOAT, DOUBLE, DATE, STRING, TIMESTAMP, TIMESTAMP_NTZ)
"""Types, beside decimals, of which statistics have bounds."""
_UNITS_PER_MS = {"milliseconds": 1, "microseconds": 1_000, "nanoseconds": 1_000_000}
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_QUICK_ENCODER = msgspec.json.Encoder()
_ASCII_MAX, _UNICODE_MAX = "\x7f", "\U0010ffff"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStats:
    """Statistics as the log has them; `file_bounds` gives them types.

    The mappings mirror the structs of the schema and hold JSON values, numbers with a fraction or
    an exponent as Decimal.
    """

    num_records: int | None = None
    """Physical rows: those that a deletion vector marks are counted."""
    min_values: Mapping[str, Any] = field(default_factory=dict)
    max_values: Mapping[str, Any] = field(default_factory=dict)
    null_count: Mapping[str, Any] = field(default_factory=dict)
    tight_bounds: bool = True
    """False: rows may have been deleted since; the bounds still hold, but may not be reached."""


def parse_stats(text: str | None) -> FileStats | None:
    """Read the statistics of an add; None if there are none or they are no JSON object.

    A part that is malformed counts as missing: the file is then read, not skipped.
    """
    if not text:
        return None
    try:
        parsed = json.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError):
        return None
    if not isinstance(parsed, dict):
        return None
    num_records = parsed.get("numRecords")
    return FileStats(
        num_records=(
            num_records if type(num_records) is int and 0 <= num_records < 2**63 else None
        ),
        min_values=_object(parsed.get("minValues")),
        max_values=_object(parsed.get("maxValues")),
        null_count=_object(parsed.get("nullCount")),
        tight_bounds=parsed.get("tightBounds") is not False,
    )


def widen_stats(text: str | None) -> str | None:
    """The statistics of a file of which rows are deleted: bounds hold, and may not be reached.

    Source: PROTOCOL.md, "Per-file Statistics" (`tightBounds`).
    """
    if text is None or parse_stats(text) is None:
        return text
    # Numbers keep their digits, which Python's would not.
    said: dict[str, Any] = _PARTS.decode(text)
    return _QUICK_ENCODER.encode({**said, "tightBounds": False}).decode()


def count_records(text: str | None, num_rows: int) -> str:
    """The statistics of a file with the number of its rows, which they did not tell.

    Source: PROTOCOL.md, "Writer Requirement for Deletion Vectors" (a file with one says it).
    """
    said: dict[str, Any] = {} if text is None or parse_stats(text) is None else _PARTS.decode(text)
    return _QUICK_ENCODER.encode({"numRecords": num_rows, **said}).decode()


_PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Records(msgspec.Struct):
    numRecords: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None  # noqa: N815


_RECORDS = msgspec.json.Decoder(_Records)


def num_records(text: str | None) -> int | None:
    """What `parse_stats` finds as the number of records; passes over all else, and so is faster."""
    if not text:
        return None
    try:
        return _RECORDS.decode(text).numRecords
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsSettings:
    """Which columns get statistics, and how long their texts may be."""

    num_indexed_columns: int = 32
    """`delta.dataSkippingNumIndexedCols`: how many leaf columns get statistics, in the schema's
    order; an array or a map is one. -1: all."""
    columns: tuple[ColumnPath, ...] | None = None
    """`delta.dataSkippingStatsColumns`: these, a struct with its fields; None: the first."""
    always: tuple[ColumnPath, ...] = ()
    """Columns that get statistics beside these, such as those by which a table is clustered."""
    string_prefix_length: int = 32
    """`delta.dataSkippingStringPrefixLength`: longer texts are cut to about so many characters."""


DEFAULT_STATS = StatsSettings()


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
        partition_columns: They get no statistics and are not counted.
        columns_without_nan: Floating-point columns in which the caller saw no NaN.
        row_groups: The statistics are of these only, instead of the whole file.
    """
    of_files = FileStatsMaker(metadata, schema, partition_columns, settings)
    return of_files.stats(metadata, columns_without_nan, row_groups)


class FileStatsMaker:
    """Makes the statistics of files that one writer wrote alike; what they share is found once.

    Args:
        metadata: The footer of one of them.
        schema: As for `stats_from_footer`, and so are the others.
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
        self._has_fractions = any(
            each.data_type in (FLOAT, DOUBLE) or isinstance(each.data_type, DecimalType)
            for each in self._columns
        )

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
        for column in self._columns:
            number, path, data_type, stored_as, unit, may_hide_nan, is_number = column
            low, high, null_count = _merge([group.column(number) for group in groups], stored_as)
            if not is_number:
                if may_hide_nan and path not in columns_without_nan:
                    high = None
                low = _lower_json(low, data_type, unit, self._prefix)
                high = _upper_json(high, data_type, unit, self._prefix)
            _insert(lower, path, low)
            _insert(upper, path, high)
            _insert(null_counts, path, null_count)
        stats = {
            "numRecords": sum([group.num_rows for group in groups]),
            "minValues": lower,
            "maxValues": upper,
            "nullCount": null_counts,
        }
        return _json(stats) if self._has_fractions else _QUICK_ENCODER.encode(stats).decode()


class Bounds(NamedTuple):
    """What the values of a column come to in one file."""

    data_type: DataType
    low: Any
    """As in a footer: days, microseconds, UTF-8; None is unknown."""
    high: Any
    null_count: int


def has_bounds(data_type: DataType) -> bool:
    """Whether statistics have bounds of a type."""
    return data_type in _BOUNDED or isinstance(data_type, DecimalType)


def stats_from_bounds(
    num_records: int, bounds: Mapping[ColumnPath, Bounds], prefix_length: int
) -> str:
    """Make the statistics of a data file, as JSON, from the bounds of its columns."""
    lower: dict[str, Any] = {}
    upper: dict[str, Any] = {}
    null_counts: dict[str, Any] = {}
    for path, (data_type, low, high, null_count) in bounds.items():
        _insert(lower, path, _lower_json(low, data_type, _MICROS_PER_MS, prefix_length))
        _insert(upper, path, _upper_json(high, data_type, _MICROS_PER_MS, prefix_length))
        _insert(null_counts, path, null_count)
    return _json(
        {
            "numRecords": num_records,
            "minValues": lower,
            "maxValues": upper,
            "nullCount": null_counts,
        }
    )


def _name_in_footer(path: ColumnPath, data_type: DataType) -> str:
    # Of a variant the dictionary is null where the variant is.
    return ".".join((*path, "metadata") if data_type == VARIANT else path)


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


@lru_cache(maxsize=16)
def indexed_data_leaves(
    schema: StructType, partition_columns: tuple[str, ...], settings: StatsSettings
) -> tuple[tuple[ColumnPath, DataType], ...]:
    """Kept, since a table's files all have the same."""
    return tuple(indexed_leaves(_drop_columns(schema, partition_columns), settings))


def _drop_columns(schema: StructType, partition_columns: Collection[str]) -> StructType:
    left_out = {name.lower() for name in partition_columns}
    return StructType(tuple(each for each in schema.fields if each.name.lower() not in left_out))


def indexed_leaves(
    schema: StructType, settings: StatsSettings
) -> Iterator[tuple[ColumnPath, DataType]]:
    """The leaves that get statistics: a struct's fields; an array or a map is one."""
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


def footer_columns(metadata: pq.FileMetaData) -> dict[str, tuple[int, Any]]:
    """The footer's columns outside lists by dotted path, with their number; a path that two columns
    share is left out.

    A column may be called `a.b` beside a struct `a` with a field `b`.
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
    """A column of files that get statistics."""

    number: int
    """Place among the leaves of the footer, from 0."""
    path: ColumnPath
    data_type: DataType
    stored_as: str | None
    """How to take bounds from the footer; None: not at all."""
    units_per_ms: int
    may_hide_nan: bool
    is_number: bool
    """Bounds are integers or decimals, which stand in the footer as they do in JSON."""


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
    """Bounds and number of nulls over row groups, in the footer's units; None is unknown."""
    if len(chunks) == 1:
        return _bounds_and_nulls(chunks[0], stored_as)
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
    statistics = chunk.statistics
    if not chunk.num_values:
        return None, None, 0
    nulls = statistics.null_count if statistics and statistics.has_null_count else None
    if nulls == chunk.num_values:
        return None, None, nulls
    return *_bounds(statistics, stored_as), nulls


def _bounds(statistics: Any, stored_as: str | None) -> tuple[Any, Any]:
    if not statistics or not statistics.has_min_max:
        return None, None
    match stored_as:
        case "value":
            low, high = statistics.min, statistics.max
        case "raw":
            # The converted values fail beyond the years that Python's types can hold.
            low, high = statistics.min_raw, statistics.max_raw
        case _:
            return None, None
    if isinstance(low, float):
        return None if isnan(low) else low, None if isnan(high) else high
    return low, high


def _bound_kind(column: Any, data_type: DataType) -> str | None:
    """How to take bounds from the footer; None if its column is not of the type."""
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
    return _object(json.loads(text))


def _units_per_ms(column: Any) -> int:
    return _UNITS_PER_MS.get(_logical_type(column).get("timeUnit", ""), 1)


def _lower_json(low: Any, data_type: DataType, units_per_ms: int, prefix_length: int) -> Any:
    match low:
        case float():
            return (low or -0.0) if isfinite(low) else None
        case bytes():
            return _prefix(_decode(low), prefix_length)
        case int() if data_type == DATE:
            return _date_text(low)
        case int() if data_type in (TIMESTAMP, TIMESTAMP_NTZ):
            return _timestamp_text(low // units_per_ms, data_type)
    return low


def _upper_json(high: Any, data_type: DataType, units_per_ms: int, prefix_length: int) -> Any:
    match high:
        case float():
            return (high or 0.0) if isfinite(high) else None
        case bytes():
            return _prefix_above(_decode(high), prefix_length)
        case int() if data_type == DATE:
            return _date_text(high)
        case int() if data_type in (TIMESTAMP, TIMESTAMP_NTZ):
            # Readers may or may not add the millisecond that other writers cut off.
            return _timestamp_text(-(-high // units_per_ms), data_type)
    return high


def _decode(value: bytes) -> str | None:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _prefix(text: str | None, length: int) -> str | None:
    return text[:length] if text is not None and (length > 0 or not text) else None


def _prefix_above(text: str | None, length: int) -> str | None:
    """A short text not below this one in UTF-8 order; None if there is none."""
    if text is None or len(text) <= length:
        return text
    for end in range(length, 2 * length):
        following = text[end : end + 1]
        if not following:
            return text
        if following < _ASCII_MAX:
            return text[:end] + _ASCII_MAX
        if following < _UNICODE_MAX:
            return text[:end] + _UNICODE_MAX
    return None


def _date_text(days: int) -> str | None:
    try:
        return (date(1970, 1, 1) + timedelta(days=days)).isoformat()
    except OverflowError:
        return None


def _timestamp_text(milliseconds: int, data_type: DataType) -> str | None:
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None
    text = moment.replace(tzinfo=None).isoformat(timespec="milliseconds")
    return f"{text}Z" if data_type == TIMESTAMP else text


def _insert(target: dict[str, Any], path: ColumnPath, value: Any) -> None:
    if value is None:
        return
    if len(path) > 1:
        for name in path[:-1]:
            target = target.setdefault(name, {})
    target[path[-1]] = value


def _json(value: Any) -> str:
    try:
        return _ENCODER.encode(value)
    except TypeError:
        return _json_with_decimals(value)


def _json_with_decimals(value: Any) -> str:
    """JSON with every digit of decimals, which `json` does not write."""
    match value:
        case dict():
            members = (
                f"{json.dumps(k, ensure_ascii=False)}:{_json_with_decimals(v)}"
                for k, v in value.items()
            )
            return f"{{{','.join(members)}}}"
        case Decimal():
            return format(value, "f")
    return json.dumps(value, ensure_ascii=False)

"""Domains: the possible values of a column in each of many files.

Bounds are sort keys: values that Arrow orders as Spark orders the originals. NaN is the greatest
number, -0.0 equals 0.0, and texts are ordered by their UTF-8 bytes. Arrow parses the statistics of
all files at once if they match the schema; otherwise `file_bounds` parses each file. A domain
contains every value that the statistics allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from delta_ops.protocol.arrow_values import (
    FALSE_SCALAR,
    TRUE_SCALAR,
    array_of,
    integer_scalar,
    scalar,
)
from delta_ops.protocol.schema import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER_RANGES,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ColumnPath,
    DataType,
    DecimalType,
)
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type
from delta_ops.protocol.stats.file_bounds import (
    OFFSETS_IN_MINUTES,
    TRUNCATED_BYTES,
    is_exact,
    lower_bound,
    null_count,
    upper_bound,
)
from delta_ops.protocol.stats.file_stats import FileStats, parse_stats

_JSON_TYPES: Mapping[DataType, pa.DataType] = {
    **dict.fromkeys(INTEGER_RANGES, pa.int64()),
    **dict.fromkeys((FLOAT, DOUBLE), pa.float64()),
    **dict.fromkeys((STRING, DATE, TIMESTAMP, TIMESTAMP_NTZ), pa.string()),
    BOOLEAN: pa.bool_(),
}
"""JSON types of bounds in statistics; without decimals, which Arrow would read as doubles."""
MILLISECOND = integer_scalar(1000, pa.duration("us"))
"""Added to a file's greatest time, which the writer truncated to milliseconds."""
_REPLACEMENT, _UNICODE_MAX = "\ufffd", "\U0010ffff"
_LONG_MIN, _LONG_MAX = INTEGER_RANGES[LONG]
_NAN_KEY = integer_scalar(_LONG_MAX)
_WIDE_DIGITS = 76
_WIDE = Context(prec=_WIDE_DIGITS, traps=[InvalidOperation])
_NO_STATS = FileStats()
_BLOCK_BYTES = 1 << 20

LeafTypes = Mapping[ColumnPath, DataType | None]
"""Columns in a predicate; None: the predicate checks only whether the column is null."""


class Domain(NamedTuple):
    """Possible values of a column: one entry per file, or per distinct partition value."""

    has_nulls: pa.BooleanArray
    has_values: pa.BooleanArray
    low: Any
    """Sort keys; null where there is no bound."""
    high: Any
    hides_nan: bool = False
    """True: a value may also be NaN, whatever the bounds."""
    codes: pa.Array | None = None
    """The entry of each file; None: one entry per file, in order."""

    def filter(self, mask: pa.BooleanArray) -> Domain:
        """Keep the files whose mask is true."""
        if self.codes is not None:
            return self._replace(codes=self.codes.filter(mask))
        return self._replace(
            has_nulls=self.has_nulls.filter(mask),
            has_values=self.has_values.filter(mask),
            low=self.low.filter(mask),
            high=self.high.filter(mask),
        )

    def limit_to_nan(self) -> Domain:
        """The domain if all values are NaN."""
        return self._replace(low=_NAN_KEY, high=_NAN_KEY, hides_nan=False)

    def pad(self, width: int) -> Domain:
        """The domain of a CHAR column, whose shorter texts end with spaces.

        Some writers pad the values and some do not, and a bound may be truncated. Bounds from
        statistics are therefore dropped; only partition values are kept and padded.
        """
        if self.codes is None:
            unknown = pa.nulls(len(self.low), self.low.type)
            return self._replace(low=unknown, high=unknown)
        return self._replace(low=pc.utf8_rpad(self.low, width), high=pc.utf8_rpad(self.high, width))

    def drop_high(self) -> Domain:
        """The domain without upper bounds, where NaN is the greatest value."""
        return self._replace(high=pa.nulls(len(self.high), self.high.type), hides_nan=False)


class PartitionColumn(NamedTuple):
    """The values of a partition column in all files."""

    codes: pa.Array
    """One code per file; integers without nulls."""
    values: Sequence[Any] | pa.Array
    """The values by code, as `partition_values` parses them."""


def domain_of_partitions(column: PartitionColumn, data_type: DataType) -> Domain:
    """The domain of a partition column: each file has one value, or null, in all rows."""
    keys = sort_keys(column.values, data_type)
    return Domain(keys.is_null(), keys.is_valid(), keys, keys, codes=column.codes)


def domains_at_once(stats: pa.Array, types: LeafTypes) -> Mapping[ColumnPath, Domain]:
    """The domains of the columns that Arrow can parse; empty if statistics are malformed.

    Args:
        stats: JSON, one text per file.
        types: The columns and their types.
    """
    known = {path: t for path, t in types.items() if not isinstance(t, DecimalType)}
    try:
        parsed = _parse(stats, known)
        return {path: _domain_at_once(parsed, path, t) for path, t in known.items()}
    except (pa.ArrowException, ValueError):  # a bound does not match its type
        return {}


def domains_one_by_one(
    stats: pa.Array, types: LeafTypes, *, exact_only: bool = False
) -> Mapping[ColumnPath, Domain]:
    """The domains of columns of any type.

    Args:
        stats: JSON, one text per file.
        types: The columns and their types.
        exact_only: Drop bounds that may not be values of the file's rows.
    """
    parsed = [parse_stats(text) or _NO_STATS for text in stats.to_pylist()]
    if exact_only:
        parsed = [each if each.tight_bounds else _NO_STATS for each in parsed]
    return {path: _domain_one_by_one(parsed, path, t, exact_only) for path, t in types.items()}


def sort_keys(values: Sequence[Any] | pa.Array, data_type: DataType | None) -> pa.Array:
    """Sort keys of values, which `partition_values` or `literals` returned."""
    if data_type is None:
        return values if isinstance(values, pa.Array) else array_of(values)
    if data_type in INTEGER_RANGES:
        return _array(values, pa.int64())
    if data_type in (FLOAT, DOUBLE):
        return _float_keys(_array(values, pa.float64()))
    if isinstance(data_type, DecimalType):
        return _array(values, pa.decimal256(_WIDE_DIGITS, data_type.scale))
    array = _array(values, arrow_type_from_type(data_type))
    return array.cast(pa.int8()) if data_type == BOOLEAN else array


def _array(values: Sequence[Any] | pa.Array, data_type: pa.DataType) -> pa.Array:
    if isinstance(values, pa.Array):
        return values.cast(data_type)
    return array_of(values, data_type)


def _float_keys(numbers: pa.Array) -> pa.Array:
    """Sort keys of doubles: their bits, with the order of negative numbers reversed."""
    bits = pc.add(numbers, scalar(0.0)).view(pa.int64())  # -0.0 becomes 0.0
    keys = pc.if_else(pc.less(bits, scalar(0)), pc.bit_wise_xor(bits, scalar(_LONG_MAX)), bits)
    return pc.if_else(pc.is_nan(numbers), _NAN_KEY, keys)


def _domain_one_by_one(
    stats: Sequence[FileStats], path: ColumnPath, data_type: DataType | None, exact_only: bool
) -> Domain:
    nulls = [null_count(each, path) for each in stats]
    rows = [each.num_records for each in stats]
    bounds = [_bounds(each, path, data_type, exact_only) for each in stats]
    return Domain(
        array_of([count != 0 for count in nulls], pa.bool_()),
        array_of([n is None or n != r for n, r in zip(nulls, rows, strict=True)], pa.bool_()),
        sort_keys([low for low, _ in bounds], data_type),
        sort_keys([high for _, high in bounds], data_type),
        hides_nan=data_type in (FLOAT, DOUBLE),
    )


def _bounds(
    stats: FileStats, path: ColumnPath, data_type: DataType | None, exact_only: bool
) -> tuple[Any, Any]:
    if data_type is None:
        return None, None
    low = _fit(lower_bound(stats, path, data_type), data_type, ROUND_FLOOR)
    high = _fit(upper_bound(stats, path, data_type), data_type, ROUND_CEILING)
    if exact_only and not (is_exact(low, data_type) and is_exact(high, data_type)):
        return None, None
    return low, high


def _fit(bound: Any, data_type: DataType, rounding: str) -> Any:
    """Convert a bound for `sort_keys`; None if the type cannot hold it."""
    if data_type in INTEGER_RANGES:
        return bound if bound is not None and _LONG_MIN <= bound <= _LONG_MAX else None
    if bound is None or not isinstance(data_type, DecimalType):
        return bound
    try:
        return bound.quantize(Decimal(1).scaleb(-data_type.scale), rounding, _WIDE)
    except InvalidOperation:
        return None


def _domain_at_once(parsed: pa.RecordBatch, path: ColumnPath, data_type: DataType | None) -> Domain:
    nulls = _look_up(parsed, "nullCount", path)
    if data_type is not None and data_type in _JSON_TYPES:
        lowest, highest = _look_up(parsed, "minValues", path), _look_up(parsed, "maxValues", path)
        low, high = _type_bound(lowest, data_type), _type_bound(highest, data_type)
        is_swapped = pc.fill_null(pc.greater(low, high), FALSE_SCALAR)
        if data_type == DOUBLE:  # a DOUBLE column may have been FLOAT before
            low = pc.min_element_wise(low, _type_bound(lowest, FLOAT))
            high = pc.max_element_wise(high, _type_bound(highest, FLOAT))
        low = pc.if_else(is_swapped, pa.NULL, low)
        high = _loosen(pc.if_else(is_swapped, pa.NULL, high), data_type)
    else:
        low = high = sort_keys([None] * len(parsed), data_type)
    return Domain(
        pc.fill_null(pc.not_equal(nulls, scalar(0)), TRUE_SCALAR),
        pc.fill_null(pc.not_equal(nulls, parsed.column("numRecords")), TRUE_SCALAR),
        low,
        high,
        hides_nan=data_type in (FLOAT, DOUBLE),
    )


def _parse(stats: pa.Array, types: LeafTypes) -> pa.RecordBatch:
    """Parse the parts of the statistics that a predicate needs.

    Raises:
        pa.ArrowInvalid, ValueError: Statistics are malformed.
    """
    bounds = {path: _JSON_TYPES[t] for path, t in types.items() if t and t in _JSON_TYPES}
    schema = pa.schema(
        [
            ("numRecords", pa.int64()),
            ("minValues", _nest(bounds)),
            ("maxValues", _nest(bounds)),
            ("nullCount", _nest(dict.fromkeys(types, pa.int64()))),
        ]
    )
    texts = pc.fill_null(stats, scalar("{}"))
    # Each text contains at least one object, so equal counts mean one row per text.
    if not pc.all(pc.starts_with(texts, "{")).as_py():
        raise ValueError("statistics that are not a JSON object")
    lines = pc.binary_join(
        pa.ListArray.from_arrays(array_of([0, len(stats)], pa.int32()), texts), scalar("\n")
    )
    parsed = _read_json_lines(lines[0].as_buffer(), schema)
    if len(parsed) != len(stats):
        raise ValueError("statistics that are several objects")
    return pa.RecordBatch.from_struct_array(parsed.to_struct_array().combine_chunks())


def _nest(types: Mapping[ColumnPath, pa.DataType]) -> pa.StructType:
    """Nest the columns by their paths, as Arrow structs."""
    below: dict[str, dict[ColumnPath, pa.DataType]] = {}
    for path, data_type in types.items():
        below.setdefault(path[0], {})[path[1:]] = data_type
    return pa.struct(
        [(name, inner[()] if () in inner else _nest(inner)) for name, inner in below.items()]
    )


def _look_up(stats: pa.RecordBatch, part: str, path: ColumnPath) -> Any:
    return pc.struct_field(stats.column(part), list(path))


def _type_bound(bound: pa.Array, data_type: DataType) -> pa.Array:
    """Sort keys of bounds in the log; null where a bound is unreliable."""
    if data_type in (FLOAT, DOUBLE):
        number = bound.cast(pa.float32()).cast(pa.float64()) if data_type == FLOAT else bound
        is_number = pc.and_(pc.invert(pc.is_nan(number)), pc.invert(pc.is_inf(number)))
        return pc.if_else(is_number, _float_keys(number), pa.NULL)
    if data_type == BOOLEAN:
        return bound.cast(pa.int8())
    if data_type in (DATE, TIMESTAMP_NTZ):
        return bound.cast(arrow_type_from_type(data_type))
    if data_type == TIMESTAMP:
        moment = bound.cast(arrow_type_from_type(data_type))
        is_old = pc.less(moment, scalar(OFFSETS_IN_MINUTES, moment.type))
        return pc.if_else(pc.and_not(is_old, pc.ends_with(bound, "Z")), pa.NULL, moment)
    return bound


def _loosen(typed: pa.Array, data_type: DataType) -> pa.Array:
    """Raise upper bounds that may be truncated, like `file_bounds.upper_bound`."""
    if data_type in (TIMESTAMP, TIMESTAMP_NTZ):
        return pc.add(typed, MILLISECOND)
    if data_type == STRING:
        is_replaced = pc.ends_with(typed, _REPLACEMENT)
        above = pc.replace_substring_regex(typed, rf"\??{_REPLACEMENT}$", _UNICODE_MAX)
        longer = pc.binary_join_element_wise(typed, scalar(_UNICODE_MAX), scalar(""))
        may_be_truncated = pc.greater_equal(pc.binary_length(typed), scalar(TRUNCATED_BYTES))
        return pc.if_else(is_replaced, above, pc.if_else(may_be_truncated, longer, typed))
    return typed


def _read_json_lines(lines: pa.Buffer, schema: pa.Schema) -> pa.Table:
    """Read lines of JSON objects as rows; skip fields that the schema lacks.

    Arrow's reader rejects a fraction for a whole number. Texts are valid UTF-8.

    Raises:
        pa.ArrowInvalid: A line is no JSON, or does not match the schema.
    """

    def read(block_bytes: int) -> pa.Table:
        return pj.read_json(
            pa.BufferReader(lines),
            # Threads do not speed up a single block, but add waiting time.
            read_options=pj.ReadOptions(
                block_size=block_bytes, use_threads=len(lines) > block_bytes
            ),
            parse_options=pj.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore"
            ),
            # Arrow's default pool frees its memory after each call, and takes twice as long.
            memory_pool=pa.system_memory_pool(),
        )

    try:
        table = read(_BLOCK_BYTES)
    except pa.ArrowInvalid as error:
        if "straddl" not in str(error):
            raise
        table = read(len(lines) + 1)  # a line is longer than a block
    table.validate(full=True)  # Arrow's reader accepts any bytes as text
    return table

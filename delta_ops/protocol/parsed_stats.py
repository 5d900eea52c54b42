"""Statistics as a struct: `stats_parsed` of a checkpoint, from JSON and back to JSON.

Source: PROTOCOL.md, "Checkpoint Schema" and "Per-file Statistics". Columns have their physical
names. A value without a form on the other side becomes null or is left out; other statistics of the
file stay. A missing bound skips no file. No I/O.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.protocol.arrow_values import array_of, scalar
from delta_ops.protocol.columns.mapping import physical_name, rename_columns
from delta_ops.protocol.schema import BOOLEAN, LONG, ColumnPath, DataType, leaves
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type
from delta_ops.protocol.stats.file_bounds import typed_value
from delta_ops.protocol.stats.file_stats import FileStats, parse_stats
from delta_ops.protocol.stats.indexed_columns import has_bounds, indexed_leaves
from delta_ops.protocol.table_definition import TableDefinition

Tree = Mapping[str, "Tree | DataType"]
"""Fields by name; a struct is a nested tree."""


def stats_shape(definition: TableDefinition) -> Tree:
    """The fields of `stats_parsed`, for all columns with statistics."""
    stored = columns_with_stats(definition)
    bounds = _tree((path, data_type) for path, data_type in stored if has_bounds(data_type))
    shape: dict[str, Tree | DataType] = {"numRecords": LONG, "tightBounds": BOOLEAN}
    if bounds:
        shape |= {"minValues": bounds, "maxValues": bounds}
    if stored:
        shape["nullCount"] = _tree((path, LONG) for path, _ in stored)
    return shape


def columns_with_stats(definition: TableDefinition) -> list[tuple[ColumnPath, DataType]]:
    """The leaf columns with statistics, by physical names."""
    data = definition.data_schema
    indexed = {path for path, _ in indexed_leaves(data, definition.properties.stats)}
    in_files = rename_columns(data, physical_name) if definition.is_mapped else data
    return [
        (path, data_type)
        for (path, data_type), (logical, _) in zip(leaves(in_files), leaves(data), strict=True)
        if logical in indexed
    ]


def arrow_type(shape: Tree | DataType) -> pa.DataType:
    """The Arrow type for a shape."""
    if isinstance(shape, Mapping):
        return pa.struct([pa.field(name, arrow_type(each)) for name, each in shape.items()])
    return arrow_type_from_type(shape)


def parsed_stats(texts: pa.Array, shape: Tree) -> pa.Array:
    """Statistics as a struct of `arrow_type(shape)`; null for files without statistics."""
    found = [parse_stats(text) for text in texts.to_pylist()]
    return _array([None if stats is None else _members(stats) for stats in found], shape)


def _members(stats: FileStats) -> Mapping[str, Any]:
    return {
        "numRecords": stats.num_records,
        "tightBounds": stats.tight_bounds,
        "minValues": stats.min_values,
        "maxValues": stats.max_values,
        "nullCount": stats.null_count,
    }


def _tree(paths: Iterable[tuple[ColumnPath, DataType]]) -> Tree:
    root: dict[str, Any] = {}
    for path, data_type in paths:
        place = root
        for name in path[:-1]:
            place = place.setdefault(name, {})
        place[path[-1]] = data_type
    return root


def _array(values: Sequence[Any], shape: Tree | DataType) -> pa.Array:
    if not isinstance(shape, Mapping):
        return _typed_array(values, shape)
    present = [value if isinstance(value, Mapping) else None for value in values]
    children = [
        _array([None if value is None else value.get(name) for value in present], each)
        for name, each in shape.items()
    ]
    absent = array_of([value is None for value in present], pa.bool_())
    return pa.StructArray.from_arrays(children, fields=list(arrow_type(shape)), mask=absent)


def _typed_array(values: Sequence[Any], data_type: DataType) -> pa.Array:
    stored = arrow_type_from_type(data_type)
    typed = [None if value is None else typed_value(value, data_type) for value in values]
    try:
        return array_of(typed, stored)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return array_of([_fit_or_none(value, stored) for value in typed], stored)


def _fit_or_none(value: Any, stored: pa.DataType) -> Any:
    try:
        scalar(value, stored)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return None
    return value


def add_json_stats(adds: pa.StructArray) -> pa.StructArray:
    """Fill in missing JSON statistics from `stats_parsed`, and drop that field."""
    names = [adds.type.field(i).name for i in range(adds.type.num_fields)]
    if "stats_parsed" not in names:
        return adds
    texts = pc.struct_field(adds, "stats").to_pylist() if "stats" in names else [None] * len(adds)
    lacking = [row for row, text in enumerate(texts) if text is None]
    parsed = pc.struct_field(adds, "stats_parsed").take(array_of(lacking, pa.int64()))
    for row, stats in zip(lacking, _clear_inconvertible(parsed).to_pylist(), strict=True):
        texts[row] = None if stats is None else stats_json(stats)
    kept = [name for name in names if name not in ("stats", "stats_parsed")]
    arrays = [pc.struct_field(adds, name) for name in kept]
    return pa.StructArray.from_arrays(
        [*arrays, array_of(texts, pa.string())], names=[*kept, "stats"]
    )


def stats_json(stats: Mapping[str, Any]) -> str:
    """A row of `stats_parsed` as JSON, without values that have no JSON form."""
    return json.dumps(_plain_value(stats), separators=(",", ":"), allow_nan=False)


def _plain_value(value: Any) -> Any:
    """The value as JSON types; None if it has no JSON form."""
    match value:
        case Mapping():
            plain = {name: _plain_value(v) for name, v in value.items()}
            return {name: v for name, v in plain.items() if v is not None}
        case bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case datetime() | date():
            return value.isoformat().replace("+00:00", "Z")
    return None


_FIRST, _LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY, _LAST_DAY = (_FIRST - _EPOCH).days, (_LAST - _EPOCH).days
_DAY_US = 86_400_000_000
_JSON_KINDS = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_string,
    pa.types.is_large_string,
)


def _clear_inconvertible(array: pa.Array) -> pa.Array:
    """Replace values without a JSON form by null, such as years before 1 and after 9999."""
    kind = array.type
    if pa.types.is_struct(kind):
        if not kind.num_fields:
            return array
        children = [_clear_inconvertible(child) for child in array.flatten()]
        names = [kind.field(i).name for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, names=names, mask=array.is_null())
    if pa.types.is_dictionary(kind):
        return _clear_inconvertible(array.dictionary_decode())
    if pa.types.is_date32(kind):
        return _clear_outside(array, array.cast(pa.int32()), _FIRST_DAY, _LAST_DAY)
    if pa.types.is_timestamp(kind):
        try:
            micros = array.cast(pa.timestamp("us", kind.tz))
        except pa.ArrowInvalid:  # finer than a microsecond, or out of its range
            return pa.nulls(len(array))
        # One day less at each end: a time zone may shift the local date by a day.
        first, last = (_FIRST_DAY + 1) * _DAY_US, (_LAST_DAY - 1) * _DAY_US
        return _clear_outside(micros, micros.cast(pa.int64()), first, last)
    return array if any(is_kind(kind) for is_kind in _JSON_KINDS) else pa.nulls(len(array))


def _clear_outside(array: pa.Array, numbers: pa.Array, first: int, last: int) -> pa.Array:
    inside = pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))
    return pc.if_else(inside, array, scalar(None, array.type))

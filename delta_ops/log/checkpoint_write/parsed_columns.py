"""Typed columns of an add in a checkpoint: `stats_parsed` and `partitionValues_parsed`.

Source: PROTOCOL.md, "Checkpoint Schema" and "Per-file Statistics". Columns have their physical
names. A statistic that does not fit its column's type becomes null; other statistics of the file
stay. A missing bound skips no file. No I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from delta_ops.protocol.columns.mapping import physical_name, rename_columns
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
    leaves,
)
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type
from delta_ops.protocol.stats.file_bounds import typed_value
from delta_ops.protocol.stats.file_stats import FileStats, parse_stats
from delta_ops.protocol.stats.indexed_columns import indexed_leaves
from delta_ops.protocol.table_definition import TableDefinition

_BOUNDED = (*INTEGER_RANGES, FLOAT, DOUBLE, DATE, STRING, TIMESTAMP, TIMESTAMP_NTZ)
Tree = Mapping[str, "Tree | DataType"]
"""Fields by name; a struct is a nested tree."""


def stats_shape(definition: TableDefinition) -> Tree:
    """The fields of `stats_parsed`, for all columns with statistics."""
    data = definition.data_schema
    indexed = {path for path, _ in indexed_leaves(data, definition.properties.stats)}
    in_files = rename_columns(data, physical_name) if definition.is_mapped else data
    stored = [
        (path, data_type)
        for (path, data_type), (logical, _) in zip(leaves(in_files), leaves(data), strict=True)
        if logical in indexed
    ]
    bounds = _tree((path, data_type) for path, data_type in stored if _is_bounded(data_type))
    shape: dict[str, Tree | DataType] = {"numRecords": LONG, "tightBounds": BOOLEAN}
    if bounds:
        shape |= {"minValues": bounds, "maxValues": bounds}
    if stored:
        shape["nullCount"] = _tree((path, LONG) for path, _ in stored)
    return shape


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


def _is_bounded(data_type: DataType) -> bool:
    """Whether the reference writes and uses bounds for this type."""
    return isinstance(data_type, DecimalType) or data_type in _BOUNDED


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
    absent = pa.array([value is None for value in present], pa.bool_())
    return pa.StructArray.from_arrays(children, fields=list(arrow_type(shape)), mask=absent)


def _typed_array(values: Sequence[Any], data_type: DataType) -> pa.Array:
    stored = arrow_type_from_type(data_type)
    typed = [None if value is None else typed_value(value, data_type) for value in values]
    try:
        return pa.array(typed, stored)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return pa.array([_fit_or_none(value, stored) for value in typed], stored)


def _fit_or_none(value: Any, stored: pa.DataType) -> Any:
    try:
        pa.scalar(value, stored)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return None
    return value

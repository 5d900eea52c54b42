"""Completion: adds missing statistics of the columns that the settings select.

Source: PROTOCOL.md, "Per-file Statistics".

Existing statistics keep every digit: their writer may have had more information than a footer has.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import msgspec
import pyarrow.parquet as pq

from delta_ops.protocol.schema import ArrayType, ColumnPath, DataType, MapType, StructType
from delta_ops.protocol.stats.file_stats import num_records, parse_stats, widen_stats
from delta_ops.protocol.stats.from_footer import footer_columns, stats_from_footer
from delta_ops.protocol.stats.indexed_columns import StatsSettings, has_bounds, indexed_data_leaves

_PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def described_leaves(
    schema: StructType, partition_columns: Collection[str], settings: StatsSettings
) -> Iterator[tuple[ColumnPath, DataType]]:
    """The leaf columns that get statistics; arrays and maps get none."""
    for path, data_type in indexed_data_leaves(schema, tuple(partition_columns), settings):
        if not isinstance(data_type, ArrayType | MapType):
            yield path, data_type


def lacks_statistics(text: str | None, wanted: Iterable[tuple[ColumnPath, DataType]]) -> bool:
    """Whether statistics lack the number of rows, or the null count of a leaf."""
    stats = parse_stats(text)
    if stats is None or stats.num_records is None:
        return True
    return not all(_has_value(stats.null_count, path) for path, _ in wanted)


def lacks_bounds(text: str | None, wanted: Iterable[tuple[ColumnPath, DataType]]) -> bool:
    """Whether statistics lack a bound of a leaf that may have values."""
    stats = parse_stats(text)
    if stats is None or stats.num_records is None:
        return True
    return any(
        has_bounds(data_type)
        and _value_at(stats.null_count, path) != stats.num_records
        and not (_has_value(stats.min_values, path) and _has_value(stats.max_values, path))
        for path, data_type in wanted
    )


def unite_stats(text: str | None, more: str, *, is_tight: bool) -> str:
    """Merge two statistics; existing values win.

    Args:
        text: Existing statistics.
        more: Additional statistics.
        is_tight: False: rows of the file have been deleted, so that bounds may not be reached.
    """
    united = (
        more if parse_stats(text) is None else _unite((text or "").encode(), more.encode()).decode()
    )
    return united if is_tight else widen_stats(united) or united


def complete_stats(
    text: str | None,
    footer: pq.FileMetaData,
    schema: StructType,
    partition_columns: Collection[str],
    settings: StatsSettings,
    *,
    is_tight: bool,
) -> str:
    """Add missing statistics from a footer.

    A column that the file does not have is null in all rows.

    Args:
        schema: The table's columns, by physical names.
        partition_columns: They get no statistics.
        is_tight: False: rows of the file have been deleted, so that bounds may not be reached.
    """
    made = stats_from_footer(footer, schema, partition_columns, settings)
    there = {tuple(path.split(".")) for path in footer_columns(footer)}
    missing: dict[str, Any] = {}
    for path, _ in described_leaves(schema, partition_columns, settings):
        if not any(each[: len(path)] == path for each in there):
            _insert(missing, path, num_records(made))
    complete = _unite(made.encode(), json.dumps({"nullCount": missing}).encode()).decode()
    return unite_stats(text, complete, is_tight=is_tight)


def _has_value(values: Any, path: ColumnPath) -> bool:
    return _value_at(values, path) is not None


def _value_at(values: Any, path: ColumnPath) -> Any:
    for name in path:
        values = values.get(name) if isinstance(values, dict) else None
    return values


def _insert(values: dict[str, Any], path: ColumnPath, value: Any) -> None:
    for name in path[:-1]:
        values = values.setdefault(name, {})
    values[path[-1]] = value


def _unite(existing: bytes, more: bytes) -> bytes:
    """Merge two JSON objects; values of the first win."""
    try:
        one, other = _PARTS.decode(existing), _PARTS.decode(more)
    except msgspec.DecodeError:  # both are plain values
        return existing
    united: dict[str, Any] = {**one, **{n: v for n, v in other.items() if n not in one}}
    for name in one.keys() & other.keys():
        united[name] = msgspec.Raw(_unite(bytes(one[name]), bytes(other[name])))
    return msgspec.json.encode(united)

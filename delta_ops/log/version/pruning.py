"""Data skipping: finds live files that can hold matching rows, and computes their file columns.

A file is skipped only if its partition values or statistics prove that none of its rows matches.
With missing, malformed or unusable statistics, the file stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.errors import InvalidRequestError, LogPathError
from delta_ops.protocol.arrow_schemas import CANONICAL_PATH, merge_chunks
from delta_ops.protocol.arrow_values import FALSE_SCALAR, numpy_of, scalar
from delta_ops.protocol.columns.mapping import physical_predicate
from delta_ops.protocol.predicate import (
    Kept,
    Predicate,
    count_unbounded,
    might_match,
    might_match_by_step,
    must_match,
    resolve,
)
from delta_ops.protocol.predicate import columns as columns_of
from delta_ops.protocol.predicate.nodes import leaves_of
from delta_ops.protocol.schema import ColumnPath, DataType
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type
from delta_ops.protocol.stats.file_domains import PartitionColumn
from delta_ops.protocol.stats.file_stats import parse_stats
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.protocol.values.partition_values import parse, parse_array, parse_each

J = TypeVar("J")
_Judge = Callable[[Predicate, Mapping[str, PartitionColumn], pa.Array], J]
_SOURCES = {
    "path": CANONICAL_PATH,
    "log_path": "path",
    "size": "size",
    "modification_time": "modificationTime",
    "partition_values": "partitionValues",
    "num_records": "stats",
    "stats": "stats",
    "tags": "tags",
    "deletion_vector": "deletionVector",
}


def sources(columns: Sequence[str]) -> list[str]:
    """The `ADD` columns that the requested file columns are computed from.

    Raises:
        InvalidRequestError: There is no such file column.
    """
    unknown = [name for name in columns if name not in _SOURCES]
    if unknown:
        raise InvalidRequestError(
            f"there is no file column {unknown[0]}; choose from {', '.join(_SOURCES)}"
        )
    names = [_SOURCES[name] for name in columns]
    if "partitionValues" in names:
        names.append("path")  # for errors about malformed values
    return list(dict.fromkeys(names))


def file_view(
    adds: pa.Table,
    columns: Sequence[str],
    definition: TableDefinition,
    uri: str,
    time_zone: str = "UTC",
) -> pa.Table:
    """Convert rows of `ADD` columns to the file columns of `Snapshot.files`."""
    adds = merge_chunks(adds)
    return pa.table(
        {name: _view_column(name, adds, definition, uri, time_zone) for name in columns}
    )


def match_files(
    adds: pa.Table,
    predicate: Predicate,
    definition: TableDefinition,
    uri: str,
    time_zone: str = "UTC",
) -> pa.Table:
    """Keep the files that may hold a matching row.

    Args:
        adds: Has the columns `path` and `partitionValues`, and `stats` if the predicate names other
            columns than partition columns.
        time_zone: Time zone for partition timestamps without one.

    Raises:
        InvalidRequestError: The predicate names an unknown column, or a literal that does not fit
            its column.
        LogPathError: A partition value of a file does not fit its column's type.
    """
    judged = _judge_files(adds, predicate, definition, uri, time_zone, might_match)
    return pa.Table.from_batches([files.filter(might) for files, might in judged], adds.schema)


def match_mask(
    adds: pa.Table, predicate: Predicate, definition: TableDefinition, uri: str, time_zone: str
) -> npt.NDArray[np.bool_]:
    """For each file, whether it may hold a matching row; takes and raises as `match_files`."""
    judged = _judge_files(adds, predicate, definition, uri, time_zone, might_match)
    masks = [numpy_of(might) for _, might in judged]
    return np.concatenate([np.empty(0, dtype=bool), *masks])


def match_by_step(
    adds: pa.Table, predicate: Predicate, definition: TableDefinition, uri: str, time_zone: str
) -> Iterator[tuple[pa.RecordBatch, Kept]]:
    """Yield files with what each step keeps of them; takes and raises the same as `match_files`."""
    return _judge_files(adds, predicate, definition, uri, time_zone, might_match_by_step)


def split_by_match(
    adds: pa.Table,
    predicate: Predicate,
    definition: TableDefinition,
    uri: str,
    time_zone: str = "UTC",
) -> tuple[pa.Table, pa.Table]:
    """Split files into files with only matching rows, and all other files.

    Takes and raises the same as `match_files`.
    """
    judged = [
        (files, pc.fill_null(must, FALSE_SCALAR))
        for files, must in _judge_files(adds, predicate, definition, uri, time_zone, must_match)
    ]
    matched = [files.filter(must) for files, must in judged]
    others = [files.filter(pc.invert(must)) for files, must in judged]
    return pa.Table.from_batches(matched, adds.schema), pa.Table.from_batches(others, adds.schema)


def all_match(
    adds: pa.Table, predicate: Predicate, definition: TableDefinition, uri: str, time_zone: str
) -> bool:
    """Return whether all files have only matching rows; arguments as for `match_files`."""
    judged = _judge_files(adds, predicate, definition, uri, time_zone, must_match)
    proven = (pc.all(pc.fill_null(must, FALSE_SCALAR), min_count=0) for _, must in judged)
    return all(each.as_py() for each in proven)


def files_without_bounds(
    adds: pa.Table, predicate: Predicate, definition: TableDefinition
) -> Mapping[ColumnPath, int]:
    """The number of files that lack bounds of a compared column, by column."""
    resolved = resolve(predicate, definition.schema)
    stored = physical_predicate(resolved, definition.schema) if definition.is_mapped else resolved
    leaves = zip(leaves_of(stored), leaves_of(resolved), strict=True)
    names = {by_file.column: by_user.column for by_file, by_user in leaves}
    partitions = frozenset(definition.partition_names.values())
    found = count_unbounded(stored, partitions, adds["stats"].combine_chunks())
    return {names[path]: count for path, count in found.items()}


def _judge_files(
    adds: pa.Table,
    predicate: Predicate,
    definition: TableDefinition,
    uri: str,
    time_zone: str,
    judge: _Judge[J],
) -> Iterator[tuple[pa.RecordBatch, J]]:
    """Yield files with the result of `judge` for each."""
    resolved = resolve(predicate, definition.schema)
    if definition.is_mapped:
        resolved = physical_predicate(resolved, definition.schema)
    looked_at = columns_of(resolved)
    stored_names = definition.partition_names
    types = {
        stored_names[each.name]: each.data_type
        for each in definition.partition_fields
        if stored_names[each.name] in looked_at
    }
    reads_stats = bool(looked_at - set(types))
    for files in adds.to_batches():
        values = {
            name: partition_column(files, name, t, uri, time_zone) for name, t in types.items()
        }
        stats = files.column("stats") if reads_stats else pa.nulls(len(files), pa.string())
        yield files, judge(resolved, values, stats)


def values_of(maps: pa.MapArray, name: str) -> pa.Array:
    """The value under a name in each map; many times faster than Arrow's own lookup."""
    at = _uniform_place(maps, name)
    if at is None:
        return pc.map_lookup(maps, scalar(name), "first")
    return maps.items.take(at) if isinstance(at, pa.Array) else maps.items.slice(*at)


def _uniform_place(maps: pa.MapArray, name: str) -> pa.Array | tuple[int, int] | None:
    """Positions of a name's values, if all maps have the same keys in the same order."""
    if not len(maps) or maps.null_count:
        return None
    ends = maps.offsets
    lengths = pc.min_max(pc.subtract(ends.slice(1), ends.slice(0, len(maps))))
    width = lengths["max"].as_py()
    if not width or lengths["min"].as_py() != width:
        return None
    start = ends[0].as_py()
    names = maps.keys.slice(start, width).to_pylist()
    if name not in names:
        return None
    place = names.index(name)
    key = maps.keys[start + place]
    if width == 1:
        same = pc.all(pc.equal(maps.keys.slice(start, len(maps)), key)).as_py()
        return (start, len(maps)) if same else None
    places = pc.add(ends.slice(0, len(maps)), place)
    same = pc.all(pc.equal(maps.keys.take(places), key)).as_py()
    return places if same else None


def partition_column(
    adds: pa.RecordBatch, name: str, data_type: DataType, uri: str, time_zone: str
) -> PartitionColumn:
    """The values of a partition column, by its physical name.

    Args:
        adds: Has the columns `path` and `partitionValues`.
        name: The physical name of the column.
        data_type: The type of the column.
        uri: The table's root.
        time_zone: Time zone for partition timestamps without one.

    Raises:
        LogPathError: A value does not fit the type.
    """
    texts = values_of(adds.column("partitionValues"), name)
    encoded = texts.dictionary_encode(null_encoding="encode")
    with _naming_file(adds, texts, name, data_type, uri):
        values = parse_each(encoded.dictionary, data_type, time_zone=time_zone)
    return PartitionColumn(codes=encoded.indices, values=values)


@contextmanager
def _naming_file(
    adds: Any, texts: pa.Array, name: str, data_type: DataType, uri: str
) -> Iterator[None]:
    """Context that adds the first file with a malformed value to the error.

    Args:
        adds: Has a `path` column.
        texts: The values, one per row.
    """
    try:
        yield
    except InvalidRequestError as error:
        rows = zip(adds["path"].to_pylist(), texts.to_pylist(), strict=True)
        path, reason = next((p, why) for p, text in rows if (why := _refusal(text, data_type)))
        raise LogPathError(uri, path, f"{reason}, the type of column {name}") from error


def _refusal(text: str | None, data_type: DataType) -> str | None:
    try:
        parse(text, data_type)
    except InvalidRequestError as error:
        return error.message.rstrip(".")
    return None


def _view_column(
    name: str, adds: pa.Table, definition: TableDefinition, uri: str, time_zone: str
) -> pa.ChunkedArray:
    column = adds[_SOURCES[name]]
    match name:
        case "partition_values":
            # All chunks at once, so that a value in many chunks is parsed only once.
            return pa.chunked_array([_partition_struct(adds, definition, uri, time_zone)])
        case "num_records":
            parsed = (parse_stats(text) for text in column.to_pylist())
            return pa.chunked_array([[s.num_records if s else None for s in parsed]], pa.int64())
        case _:
            return column


def parsed_partition_values(
    adds: pa.Table, definition: TableDefinition, uri: str
) -> pa.StructArray:
    """Typed partition values, by physical column names.

    Args:
        adds: Has the columns `path` and `partitionValues`.

    Raises:
        LogPathError: A value does not fit its column's type.
    """
    logical = _partition_struct(adds, definition, uri, "UTC")
    names = [definition.partition_names[field.name] for field in logical.type]
    return pa.StructArray.from_arrays(logical.flatten(), names=names)


def _partition_struct(
    adds: pa.Table, definition: TableDefinition, uri: str, time_zone: str
) -> pa.StructArray:
    maps = adds["partitionValues"].combine_chunks()
    types = {each.name: each.data_type for each in definition.partition_fields}
    if not types:
        return pa.Array.from_buffers(pa.struct([]), len(maps), [None])
    fields = [pa.field(name, arrow_type_from_type(t)) for name, t in types.items()]
    arrays = []
    for name, data_type in types.items():
        texts = values_of(maps, definition.partition_names[name])
        with _naming_file(adds, texts, name, data_type, uri):
            arrays.append(parse_array(texts, data_type, time_zone=time_zone))
    return pa.StructArray.from_arrays(arrays, fields=fields)

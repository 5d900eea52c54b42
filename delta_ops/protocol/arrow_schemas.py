"""Actions as Arrow: columns of file actions in replay, and rows of a checkpoint.

Source: PROTOCOL.md, "Checkpoint Schema". Field names are the JSON names, so a column read from a
checkpoint can be written to the next checkpoint unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice, repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.protocol.actions import AddFile, DeletionVector, RemoveFile
from delta_ops.protocol.arrow_values import scalar

STRING_MAP = pa.map_(pa.string(), pa.string())
DELETION_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
        ("maxRowIndex", pa.int64()),
    ]
)
REQUIRED_OF_VECTORS = ("storageType", "pathOrInlineDv", "sizeInBytes", "cardinality")
"""Without one of these fields, deleted rows would reappear or be counted."""
ADD = pa.schema(
    [
        ("path", pa.string()),
        ("partitionValues", STRING_MAP),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("tags", STRING_MAP),
        ("deletionVector", DELETION_VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("clusteringProvider", pa.string()),
    ]
)
REMOVE = pa.schema(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", STRING_MAP),
        ("size", pa.int64()),
        ("stats", pa.string()),
        ("tags", STRING_MAP),
        ("deletionVector", DELETION_VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
    ]
)
_SMALL_CHUNK = 1024
"""Rows. Below this size, one merged chunk is faster than many chunks."""
CANONICAL_PATH = "canonicalPath"
"""Added to the fields of a file action: its path from `file_paths.canonical_path`."""
PATH_HASH = "pathHash"
"""Added to the fields of a commit's file action: a hash of its path, valid in this process only.

Different hashes imply different paths.
"""
METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", STRING_MAP)])),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.field("element", pa.string()))),
        ("configuration", STRING_MAP),
        ("createdTime", pa.int64()),
    ]
)
PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", pa.list_(pa.field("element", pa.string()))),
        ("writerFeatures", pa.list_(pa.field("element", pa.string()))),
    ]
)
TXN = pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])
DOMAIN_METADATA = pa.struct(
    [("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]
)

_VALUES = ("partitionValues.key_value.key", "partitionValues.key_value.value")
CHECKPOINT_PARQUET: Mapping[str, Any] = {
    "compression": "snappy",
    "write_page_checksum": True,
    # Columns whose values repeat; for others Parquet starts a dictionary and gives it up.
    "use_dictionary": [f"{action}.{name}" for action in ("add", "remove") for name in _VALUES],
}
"""Options for the Parquet files of a checkpoint; compression as in the reference."""


def add_path_hash(schema: pa.Schema) -> pa.Schema:
    """`ADD` or `REMOVE` with a `PATH_HASH` column."""
    return schema.append(pa.field(PATH_HASH, pa.int64()))


def merge_chunks(table: pa.Table) -> pa.Table:
    """Merge small chunks, since each chunk costs a call."""
    chunks = max((column.num_chunks for column in table.columns), default=0)
    return table.combine_chunks() if chunks > 1 and chunks * _SMALL_CHUNK > len(table) else table


def add_files(table: pa.Table) -> list[AddFile]:
    """Convert rows of the `ADD` schema to actions."""
    return [
        AddFile(
            path=path,
            size=size,
            partition_values=partition_values or {},
            modification_time=modification_time or 0,
            data_change=data_change is not False,
            stats=stats,
            tags=tags,
            deletion_vector=vector,
            base_row_id=base_row_id,
            default_row_commit_version=default_row_commit_version,
            clustering_provider=clustering_provider,
        )
        for (
            path,
            partition_values,
            size,
            modification_time,
            data_change,
            stats,
            tags,
            vector,
            base_row_id,
            default_row_commit_version,
            clustering_provider,
        ) in _rows(table, ADD.names)
    ]


def remove_files(table: pa.Table) -> list[RemoveFile]:
    """Convert rows of the `REMOVE` schema to actions."""
    return [
        RemoveFile(
            path=path,
            deletion_timestamp=deletion_timestamp,
            data_change=data_change is not False,
            extended_file_metadata=extended_file_metadata,
            partition_values=partition_values,
            size=size,
            stats=stats,
            tags=tags,
            deletion_vector=vector,
            base_row_id=base_row_id,
            default_row_commit_version=default_row_commit_version,
        )
        for (
            path,
            deletion_timestamp,
            data_change,
            extended_file_metadata,
            partition_values,
            size,
            stats,
            tags,
            vector,
            base_row_id,
            default_row_commit_version,
        ) in _rows(table, REMOVE.names)
    ]


def tombstones(adds: pa.Table, now_ms: int) -> list[RemoveFile]:
    """Removes that cancel rows of the `ADD` schema, with all known fields of the files."""
    return [
        RemoveFile(
            path=path,
            deletion_timestamp=now_ms,
            extended_file_metadata=True,
            partition_values=partition_values or {},
            size=size,
            tags=tags,
            deletion_vector=vector,
            base_row_id=base_row_id,
            default_row_commit_version=default_row_commit_version,
        )
        for (
            path,
            partition_values,
            size,
            tags,
            vector,
            base_row_id,
            default_row_commit_version,
        ) in _rows(adds, _OF_TOMBSTONES)
    ]


def conform(struct: pa.StructArray, schema: pa.Schema) -> pa.Table:
    """Convert a checkpoint's struct column to a table of `schema`.

    Missing fields become null; other fields are cast. Raises `pa.ArrowInvalid`, `TypeError` or
    `ValueError` if a column holds another kind of value than the schema.
    """
    by_name = {struct.type.field(i).name: i for i in range(struct.type.num_fields)}
    children = struct.flatten()
    columns = [
        _cast(children[by_name[field.name]], field)
        if field.name in by_name
        else pa.nulls(len(struct), field.type)
        for field in schema
    ]
    table = pa.Table.from_arrays(columns, schema=schema)
    table.validate(full=True)  # no step before this one has checked the text encoding
    return table


_KINDS = (
    (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_binary),
    (pa.types.is_integer,),
    (pa.types.is_boolean,),
    (pa.types.is_map,),
    (pa.types.is_struct,),
)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    """Cast the column to another width or encoding, but not to another kind of type."""
    stored = column.type
    if stored == field.type:
        return _present_vectors(column) if stored == DELETION_VECTOR else column
    kind = stored.value_type if pa.types.is_dictionary(stored) else stored
    same = any(
        any(test(kind) for test in tests) and any(test(field.type) for test in tests)
        for tests in _KINDS
    )
    if not same and not pa.types.is_null(kind):
        raise TypeError(f"{field.name} is {stored} and must be {field.type}")
    if column.null_count == len(column):  # faster than a cast
        return pa.nulls(len(column), field.type)
    cast = column.cast(field.type)
    return _present_vectors(cast) if field.type == DELETION_VECTOR else cast


def _present_vectors(vectors: pa.StructArray) -> pa.StructArray:
    """Turn structs with only null fields into nulls; some writers use them for no vector."""
    if vectors.null_count == len(vectors):
        return vectors
    present = pc.struct_field(vectors, "storageType").is_valid()
    for name in REQUIRED_OF_VECTORS:
        if pc.any(pc.xor(present, pc.struct_field(vectors, name).is_valid())).as_py():
            raise ValueError(f"a deletion vector lacks its storageType or {name}")
    return pc.if_else(present, vectors, scalar(None, vectors.type))


_OF_TOMBSTONES = (
    "path",
    "partitionValues",
    "size",
    "tags",
    "deletionVector",
    "baseRowId",
    "defaultRowCommitVersion",
)


def _rows(table: pa.Table, names: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    """Convert rows column by column, because Arrow converts whole rows slowly."""
    return zip(*(_python_values(table[name]) for name in names), strict=True)


def _python_values(column: pa.ChunkedArray) -> Iterable[Any]:
    if column.null_count == len(column):
        return repeat(None, len(column))
    if pa.types.is_map(column.type):
        return chain.from_iterable(map(_mappings, column.chunks))
    values: list[Any] = column.to_pylist()
    return map(_deletion_vector, values) if column.type == DELETION_VECTOR else values


def _mappings(maps: pa.MapArray) -> Iterator[dict[str, str | None] | None]:
    starts = maps.offsets.to_pylist()
    names, values = (
        _texts(entries.slice(starts[0], starts[-1] - starts[0]))
        for entries in (maps.keys, maps.items)
    )
    pairs = zip(names, values, strict=True)
    # Files of one partition share one mapping, since mappings take more memory than all other
    # fields.
    shared: dict[tuple[Any, ...], dict[str, str | None]] = {}
    for start, end, is_present in zip(
        starts, starts[1:], maps.is_valid().to_pylist(), strict=False
    ):
        content = tuple(islice(pairs, end - start))
        if not is_present:
            yield None
            continue
        mapping = shared.get(content)
        if mapping is None:
            mapping = shared[content] = dict(content)
        yield mapping


def _texts(strings: pa.StringArray) -> list[Any]:
    """Convert strings so that equal strings share one Python object."""
    encoded = strings.dictionary_encode()
    once = encoded.dictionary.to_pylist()
    return [None if code is None else once[code] for code in encoded.indices.to_pylist()]


def deletion_vectors(column: pa.ChunkedArray) -> Iterator[DeletionVector | None]:
    """Convert a column of type `DELETION_VECTOR` to values."""
    return map(_deletion_vector, column.to_pylist())


def _deletion_vector(row: Mapping[str, Any] | None) -> DeletionVector | None:
    if row is None or row["storageType"] is None:
        return None
    return DeletionVector(
        storage_type=row["storageType"],
        path_or_inline_dv=row["pathOrInlineDv"],
        offset=row["offset"],
        size_in_bytes=row["sizeInBytes"],
        cardinality=row["cardinality"],
        max_row_index=row["maxRowIndex"],
    )

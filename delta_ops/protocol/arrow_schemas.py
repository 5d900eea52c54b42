"""Actions as Arrow: the columns of file actions in replay, and the rows of a checkpoint.

Source: PROTOCOL.md, "Checkpoint Schema". Field names are the JSON names, so that a column read from
a checkpoint is the column written to the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.protocol.actions import AddFile, DeletionVector, RemoveFile

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
"""Rows; chunk by chunk, smaller ones take longer than copying them into one."""
CANONICAL_PATH = "canonicalPath"
"""Beside the fields of a file action: its path as `file_paths.canonical_path` gives it."""
PATH_HASH = "pathHash"
"""Beside the fields of a file action of a commit: a hash of its path, of use in this process only.

Paths of different hashes are different."""
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
    # What repeats; elsewhere a dictionary is begun and given up.
    "use_dictionary": [f"{action}.{name}" for action in ("add", "remove") for name in _VALUES],
}
"""How a checkpoint's Parquet files are written; what is compressed best by the reference is."""


def hashed(schema: pa.Schema) -> pa.Schema:
    """`ADD` or `REMOVE` with a `PATH_HASH`."""
    return schema.append(pa.field(PATH_HASH, pa.int64()))


def evened(table: pa.Table) -> pa.Table:
    """The same rows in chunks that are worth a call each."""
    chunks = max((column.num_chunks for column in table.columns), default=0)
    return table.combine_chunks() if chunks > 1 and chunks * _SMALL_CHUNK > len(table) else table


def add_files(table: pa.Table) -> list[AddFile]:
    """Rows of the `ADD` schema as values."""
    return [
        AddFile(
            path=row["path"],
            size=row["size"],
            partition_values=_mapping(row["partitionValues"]) or {},
            modification_time=row["modificationTime"] or 0,
            data_change=row["dataChange"] is not False,
            stats=row["stats"],
            tags=_mapping(row["tags"]),
            deletion_vector=_deletion_vector(row["deletionVector"]),
            base_row_id=row["baseRowId"],
            default_row_commit_version=row["defaultRowCommitVersion"],
            clustering_provider=row["clusteringProvider"],
        )
        for row in table.to_pylist()
    ]


def remove_files(table: pa.Table) -> list[RemoveFile]:
    """Rows of the `REMOVE` schema as values."""
    return [
        RemoveFile(
            path=row["path"],
            deletion_timestamp=row["deletionTimestamp"],
            data_change=row["dataChange"] is not False,
            extended_file_metadata=row["extendedFileMetadata"],
            partition_values=_mapping(row["partitionValues"]),
            size=row["size"],
            stats=row["stats"],
            tags=_mapping(row["tags"]),
            deletion_vector=_deletion_vector(row["deletionVector"]),
            base_row_id=row["baseRowId"],
            default_row_commit_version=row["defaultRowCommitVersion"],
        )
        for row in table.to_pylist()
    ]


def conform(struct: pa.StructArray, schema: pa.Schema) -> pa.Table:
    """A checkpoint's struct column as a table of `schema`: missing fields are null, others cast.

    Raises `pa.ArrowInvalid`, `TypeError` or `ValueError` where a column holds something else than
    the schema has.
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
    table.validate(full=True)  # nobody has looked yet whether the text is text
    return table


_KINDS = (
    (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_binary),
    (pa.types.is_integer,),
    (pa.types.is_boolean,),
    (pa.types.is_map,),
    (pa.types.is_struct,),
)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    """The column in another width or encoding; what is of another kind is not converted."""
    stored = column.type
    if stored == field.type:
        return _present_vectors(column) if stored == DELETION_VECTOR else column
    kind = stored.value_type if pa.types.is_dictionary(stored) else stored
    same = any(
        any(test(kind) for test in tests) and any(test(field.type) for test in tests)
        for tests in _KINDS
    )
    if not same and not pa.types.is_null(kind):
        raise TypeError(f"{field.name} is {stored} and has to be {field.type}")
    if column.null_count == len(column):  # sooner made than cast
        return pa.nulls(len(column), field.type)
    cast = column.cast(field.type)
    return _present_vectors(cast) if field.type == DELETION_VECTOR else cast


def _present_vectors(vectors: pa.StructArray) -> pa.StructArray:
    """Null where there are nothing but nulls: some writers lose the absence of a struct."""
    if vectors.null_count == len(vectors):
        return vectors
    present = pc.struct_field(vectors, "storageType").is_valid()
    placed = pc.struct_field(vectors, "pathOrInlineDv").is_valid()
    if pc.any(pc.xor(present, placed)).as_py():
        raise ValueError("a deletion vector lacks its storageType or pathOrInlineDv")
    return pc.if_else(present, vectors, pa.scalar(None, vectors.type))


def _mapping(pairs: list[tuple[str, str | None]] | None) -> dict[str, str | None] | None:
    return None if pairs is None else dict(pairs)


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

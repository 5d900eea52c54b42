"""One data file written, with its statistics.

Source: PROTOCOL.md, "Data Files", "Per-file Statistics". Partition columns are never in the files
that we write.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delta_ops.arrow.nesting import without_hidden_nulls
from delta_ops.arrow.row_checks import validate_rows
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.file_paths import canonical_path, encode_path
from delta_ops.protocol.partition_values import hive_directory
from delta_ops.protocol.stats import stats_from_footer
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.storage import Storage

# The table property's names where Arrow has others.
_ARROW_CODECS = {"uncompressed": "none", "lz4_raw": "lz4"}
_ROW_GROUP_ROWS = 1_048_576


def write_data_file(
    storage: Storage,
    batches: Iterable[pa.RecordBatch],
    file_schema: pa.Schema,
    *,
    definition: TableDefinition,
    partition_values: Mapping[str, str | None],
    data_change: bool,
    is_durable: bool = True,
) -> AddFile:
    """Write one new file of a partition.

    Args:
        batches: Rows without the partition columns, of `file_schema`.
        definition: The table as the commit will leave it.
        partition_values: Serialised, for every partition column, in the order of the directories.
        is_durable: False: it is not before `Storage.persist`, which is to be called before a commit
            names it.

    Raises:
        InvalidRequestError: A row breaks a rule of the table, or the rows cannot be encoded.
        StorageError: The store failed.
    """
    codec = definition.properties.compression_codec
    directory = hive_directory(list(partition_values), partition_values)
    name = f"part-00000-{uuid.uuid4()}-c000.{codec}.parquet"
    path = f"{directory}/{name}" if directory else name
    footers: list[pq.FileMetaData] = []
    free_of_nan = {field.name for field in file_schema if pa.types.is_floating(field.type)}

    def write(sink: IO[bytes]) -> None:
        compression = _ARROW_CODECS.get(codec, codec)
        with _parquet_writer(sink, file_schema, compression, storage.uri, footers) as writer:
            for row_group in _row_groups(batches):
                validate_rows(row_group, definition.schema, storage.uri)
                writer.write_table(_declared(row_group), row_group_size=_ROW_GROUP_ROWS)
                free_of_nan.difference_update(
                    [name for name in free_of_nan if _has_nan(row_group[name])]
                )

    info = storage.create_from_stream(path, write, is_durable=is_durable)
    return AddFile(
        path=encode_path(path),
        size=info.size,
        partition_values=dict(partition_values),
        modification_time=info.modified_ms,
        data_change=data_change,
        stats=stats_from_footer(
            footers[0],
            definition.schema,
            list(partition_values),
            definition.properties.stats,
            columns_without_nan=[(name,) for name in free_of_nan],
        ),
    )


def discard(storage: Storage, adds: Iterable[AddFile]) -> None:
    """Delete staged files that no version can come to name; one that stays is vacuum's."""
    storage.delete_many(canonical_path(add.path, storage.uri) for add in adds)


@contextlib.contextmanager
def _parquet_writer(
    sink: IO[bytes],
    schema: pa.Schema,
    compression: str,
    table: str,
    footers: list[pq.FileMetaData],
) -> Iterator[pq.ParquetWriter]:
    """A writer whose footer is in `footers` at the end, and whose errors are ours."""
    try:
        writer = pq.ParquetWriter(
            sink,
            schema,
            compression=compression,
            store_schema=False,
            metadata_collector=footers,
        )
        try:
            yield writer
        except BaseException:
            with contextlib.suppress(Exception):  # closing what is broken hides why it broke
                writer.close()
            raise
        writer.close()
    # The store's own errors come as StorageError already: what is left is the encoder's.
    except (pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InvalidRequestError(
            f"{table}: the rows cannot be written to a Parquet file ({reason}); change the column "
            "or the table property delta.parquet.compression.codec, whichever that names"
        ) from error


def _has_nan(column: pa.ChunkedArray) -> bool:
    return bool(pc.any(pc.is_nan(column), min_count=0).as_py())


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Neighbouring batches together, so that many small ones do not make many small row groups."""
    pending: list[pa.RecordBatch] = []
    num_rows = 0
    for batch in batches:
        pending.append(batch)
        num_rows += len(batch)
        if num_rows >= _ROW_GROUP_ROWS:
            yield pa.Table.from_batches(pending)
            pending, num_rows = [], 0
    if pending:
        yield pa.Table.from_batches(pending)


def _declared(rows: pa.Table) -> pa.Table:
    """Make rows as Parquet takes them: without nulls in fields that must not be null.

    Delta allows one where the field's parent is null, and Arrow puts one there.
    """
    columns = [_declared_column(rows[field.name], field) for field in rows.schema]
    return pa.table(columns, schema=rows.schema)


def _declared_column(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if not pa.types.is_nested(field.type):
        return column
    chunks = [without_hidden_nulls(each, field.type, nullable=True) for each in column.chunks]
    return pa.chunked_array(chunks, type=field.type)

"""Data files: write rows to new files of a table.

Memory is bounded for any number of rows. Without partitions, each row group is written as soon as
its rows have arrived. With partitions, rows are held and split by partition. When the held rows
reach a limit, one file for each partition is written, several in parallel. While files are written,
earlier files are made durable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from typing import Literal, NamedTuple

import pyarrow as pa
import pyarrow.types as pt

from delta_ops.arrow.memory_pools import sparing_memory
from delta_ops.arrow.partitioning import PartitionValues, split, validate_new_values
from delta_ops.arrow.row_checks import validate_rows
from delta_ops.arrow.write.data_file import DataFileWriter, row_groups
from delta_ops.arrow.write.written_files import LOCAL_WRITES, WrittenFiles, all_or_none
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.change_data import feed_definition
from delta_ops.protocol.file_paths import canonical_texts
from delta_ops.protocol.row_tracking import tracked_definition
from delta_ops.protocol.schema import ColumnPath
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.storage import Storage
from delta_ops.storage.concurrency import MAX_CONCURRENCY, Behind, run_ahead
from delta_ops.transaction.staging import WriteTarget

Rows = Literal["new", "kept", "changes"]
"""New rows, existing rows that move to another file, or rows of the change data feed."""
_FILE_BYTES = 512 * 1024 * 1024
"""Size in memory of the rows of a file."""
_HELD_BYTES = 144 * 1024 * 1024
"""Rows of a partitioned table that are held before they are written, one file for each partition.
"""
_PIECE_BYTES = 16 * 1024 * 1024
_PIECES_AHEAD = 2
"""Number of pieces that are sorted ahead of the current piece."""
_FEW_BYTES = 1024 * 1024
_AHEAD_BYTES = 64 * 1024 * 1024
_CALL_BYTES, _CALL_FILES = 256 * 1024, 16
"""Limits of the small files that a thread writes by one call."""
_PERSISTED_FILES = 512
"""Files that are made durable together while others are written; many share one journal commit."""


def definition_of_rows(target: WriteTarget, rows: Rows) -> TableDefinition:
    """Return the table definition with the extra columns that files of such rows have."""
    match rows:
        case "kept":
            return tracked_definition(target.definition, target.table)
        case "changes":
            return feed_definition(target.definition)
    return target.definition


@sparing_memory()
def write_rows(
    target: WriteTarget,
    batches: Iterable[pa.RecordBatch],
    rows: Rows = "new",
    *,
    is_durable: bool = True,
) -> tuple[AddFile, ...]:
    """Write rows to new files; all or none.

    Args:
        batches: Rows with the columns of `definition_of_rows`, in any order, and maybe others.
        rows: The kind of rows.
        is_durable: If False, the caller must call `Storage.persist` before a commit names the
            files.

    Raises:
        InvalidRequestError: A row breaks a rule of the table.
    """
    definition, storage = definition_of_rows(target, rows), target.storage
    names = _stored_columns(definition).names
    if definition.schema.fields and not definition.data_schema.fields:
        raise InvalidRequestError(
            f"{storage.uri}: every column is of type void or a partition column, so no file could "
            "hold the rows; add a column with values, or give a column a type. Nothing was written"
        )
    writer = DataFileWriter(
        storage,
        arrow_schema_from_schema(definition.data_schema),
        definition,
        target.clustered_by,
        is_of_changes=rows == "changes",
    )
    failed: list[Exception] = []
    selected: Iterator[pa.RecordBatch] = (batch.select(names) for batch in batches)
    if rows == "new":
        selected = _refuse_unreadable(selected, definition.partition_columns, storage.uri)
    inputs = _note_failures(selected, failed)
    try:
        with all_or_none(storage) as files:
            if definition.partition_columns:
                # Making many files durable one by one would take most of the time.
                with Behind(partial(_persist, storage), _PERSISTED_FILES) as persisted:
                    on_written = partial(_add_all, persisted) if is_durable else None
                    for held in _collect_writes(inputs, writer, definition, storage.uri):
                        _write_held(files, held, storage, on_written)
            else:
                for run in _runs(inputs):
                    groups = row_groups(run)
                    add = writer.write(groups, {}, data_change=True, is_durable=is_durable)
                    files.keep([add])
    except BaseException as error:
        if failed and error is not failed[0]:
            raise failed[0] from None  # the file's writer treats it as its own error
        raise
    return files.adds


def _persist(storage: Storage, adds: Sequence[AddFile]) -> None:
    storage.persist(canonical_texts([add.path for add in adds], storage.uri))


def _add_all(persisted: Behind[AddFile], adds: Iterable[AddFile]) -> None:
    for add in adds:
        persisted.add(add)


def _write_held(
    files: WrittenFiles,
    held: Iterable[tuple[int, Callable[[], AddFile]]],
    storage: Storage,
    on_written: Callable[[list[AddFile]], object] | None,
) -> None:
    def write(write_files: Iterable[Callable[[], AddFile]]) -> list[AddFile]:
        adds = []
        for write_file in write_files:
            if files.is_over:
                break
            adds.append(write_file())
            files.keep(adds[-1:])
        return adds

    is_local = storage.has_native_input
    grouped = _group(held, _CALL_FILES if is_local else 1)
    writes = ((num_bytes, partial(write, each)) for num_bytes, each in grouped)
    max_calls = LOCAL_WRITES if is_local else MAX_CONCURRENCY
    files.write_all(writes, _AHEAD_BYTES, max_calls, on_written=on_written)


def _group(
    held: Iterable[tuple[int, Callable[[], AddFile]]], max_files: int
) -> Iterator[tuple[int, list[Callable[[], AddFile]]]]:
    """Group writes of very small files: handing one to a thread takes as long as the write."""
    total, group = 0, list[Callable[[], AddFile]]()
    for num_bytes, write_file in held:
        if group and (total + num_bytes > _CALL_BYTES or len(group) == max_files):
            yield total, group
            total, group = 0, []
        total += num_bytes
        group.append(write_file)
    if group:
        yield total, group


def _collect_writes(
    batches: Iterable[pa.RecordBatch],
    writer: DataFileWriter,
    definition: TableDefinition,
    table: str,
) -> Iterator[Iterator[tuple[int, Callable[[], AddFile]]]]:
    """Hold rows up to a limit, and yield a size and a write function for each file.

    The files are not durable, see `DataFileWriter`.
    """
    names = definition.partition_columns

    def split_piece(piece: pa.Table) -> _SplitPiece:
        # Files lack the partition columns, so the file's writer cannot validate them.
        validate_rows(piece, definition.schema, table)
        return _SplitPiece(
            partitions=list(split(piece, definition.schema, names, table)),
            free_of_nan=writer.floats_without_nan(piece),
            num_bytes=piece.drop_columns(list(names)).nbytes,
        )

    calls = (
        (_PIECE_BYTES, partial(split_piece, piece))
        for piece in _pieces(batches, _stored_columns(definition))
    )
    held: dict[tuple[str | None, ...], list[pa.Table]] = {}
    free_of_nan = all_floats = writer.floats
    num_bytes = 0
    with closing(run_ahead(calls, _PIECES_AHEAD * _PIECE_BYTES, LOCAL_WRITES)) as pieces:
        for each in pieces:
            for values, rows in each.partitions:
                held.setdefault(tuple(values.values()), []).append(rows)
            free_of_nan &= each.free_of_nan
            num_bytes += each.num_bytes
            if num_bytes >= _HELD_BYTES:
                yield _writes(held, names, num_bytes, writer, free_of_nan)
                num_bytes, free_of_nan = 0, all_floats
    yield _writes(held, names, num_bytes, writer, free_of_nan)


class _SplitPiece(NamedTuple):
    """Rows by partition."""

    partitions: list[tuple[PartitionValues, pa.Table]]
    free_of_nan: frozenset[ColumnPath]
    num_bytes: int
    """Size without the partition columns."""


def _writes(
    held: dict[tuple[str | None, ...], list[pa.Table]],
    names: Sequence[str],
    held_bytes: int,
    writer: DataFileWriter,
    free_of_nan: frozenset[ColumnPath],
) -> Iterator[tuple[int, Callable[[], AddFile]]]:
    """Yield a write function for each partition, and release its rows afterwards."""
    held_rows = sum(len(rows) for pieces in held.values() for rows in pieces)
    for key in list(held):
        values, pieces = dict(zip(names, key, strict=True)), held.pop(key)
        rows = pa.concat_tables(pieces) if len(pieces) > 1 else pieces[0]
        # Arrow needs as long to compute the size of a slice as to write a file.
        num_bytes = held_bytes * len(rows) // held_rows
        if num_bytes <= _FEW_BYTES:
            yield num_bytes, partial(writer.write_few, rows, values, free_of_nan, num_bytes)
        else:
            groups = row_groups(rows.to_batches())
            yield (
                num_bytes,
                partial(writer.write, groups, values, data_change=True, is_durable=False),
            )


def _pieces(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    pending: list[pa.RecordBatch] = []
    size = 0
    for batch in chain.from_iterable(map(_halve, batches)):
        if pending and size + batch.nbytes > _PIECE_BYTES:
            yield pa.Table.from_batches(pending, schema)
            pending, size = [], 0
        pending.append(batch)
        size += batch.nbytes
    if pending:
        yield pa.Table.from_batches(pending, schema)


def _stored_columns(definition: TableDefinition) -> pa.Schema:
    """Return the columns that files store: columns of type void are left out."""
    return pa.schema([field for field in definition.arrow_schema if not pt.is_null(field.type)])


def _runs(batches: Iterable[pa.RecordBatch]) -> Iterator[Iterator[pa.RecordBatch]]:
    """Yield the rows of one file after another; consume each before the next."""
    remaining = chain.from_iterable(map(_halve, batches))
    for first in remaining:
        yield _run(chain([first], remaining))


def _run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    size = 0
    for batch in batches:
        size += batch.nbytes
        yield batch
        if size >= _FILE_BYTES:
            return


def _halve(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split a batch into batches of bounded size, or single rows; an empty batch yields nothing."""
    if len(batch) > 1 and batch.nbytes > _PIECE_BYTES:
        half = len(batch) // 2
        yield from _halve(batch.slice(0, half))
        yield from _halve(batch.slice(half))
    elif len(batch):
        yield batch


def _refuse_unreadable(
    batches: Iterable[pa.RecordBatch], partition_columns: Sequence[str], table: str
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        columns = {name: batch[name] for name in partition_columns}
        validate_new_values(columns, partition_columns, table)
        yield batch


def _note_failures(
    batches: Iterable[pa.RecordBatch], failed: list[Exception]
) -> Iterator[pa.RecordBatch]:
    """Yield the batches, and add their errors to `failed`."""
    try:
        yield from batches
    except Exception as error:
        failed.append(error)
        raise

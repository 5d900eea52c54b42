"""Write rows to a table from this process: write = begin + stage + commit.

Rows are taken in chunks of bounded size, each split by partition; a file holds the rows of one
partition of one chunk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arguments import validate_arguments
from delta_ops.arrow.casting import plan_fit
from delta_ops.arrow.data_file_write import discard, write_data_file
from delta_ops.arrow.partitioning import split
from delta_ops.arrow.row_checks import validate_rows, validate_values
from delta_ops.arrow.scan import read_files
from delta_ops.errors import InvalidRequestError
from delta_ops.events import OnEvent, WriteStarted, ignore
from delta_ops.events import Staged as StagedEvent
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_types import arrow_schema_from_schema, schema_from_arrow
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.protocol.predicate import TRUE, Predicate, resolve, to_arrow
from delta_ops.protocol.row_rules import not_null_rules
from delta_ops.protocol.schema import StructType, validate_distinct
from delta_ops.transaction import (
    DEFAULT_HOOKS,
    CommitResult,
    Hook,
    Staged,
    Transaction,
    TxnId,
)
from delta_ops.transaction.replacement import plan_replacement, true_when_stored
from delta_ops.transaction.write_request import (
    Mode,
    Target,
    create_if_missing,
    transaction_on,
    validate_mode,
    validate_partitioning,
    write_parameters,
)

_CHUNK_BYTES = 512 * 1024 * 1024


def write(
    target: Target,
    data: Any,
    mode: Mode = "append",
    partition_by: Sequence[str] | None = None,
    *,
    replace_where: Predicate | None = None,
    txn: TxnId | tuple[str, int] | None = None,
    configuration: Mapping[str, str] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    hooks: Sequence[Hook] = DEFAULT_HOOKS,
    on_event: OnEvent = ignore,
) -> CommitResult:
    """Write rows and commit; creates the table where there is none.

    Args:
        target: Where the table is or shall be, or a transaction to add to and commit.
        data: An Arrow table, batch or reader, or anything with `__arrow_c_stream__`.
        mode: "overwrite" replaces all rows, or those for which `replace_where` is true.
        partition_by: For a new table; for one that exists, its own partitioning or None.
        txn: Application id and version: a write that the table holds already is not done again.
        configuration: Table properties of a new table.
        hooks: What to do after the commit; by default a checksum, and a checkpoint when one is due.

    Raises:
        InvalidRequestError: The data do not fit the table.
        CommitConflictError: A concurrent commit invalidates this one; the files are deleted again.
        CommitStateUnknownError: The store did not tell; the files are kept.
        StorageError: The store failed; what was written is deleted again.
    """
    validate_arguments(write, locals())
    validate_mode(mode, replace_where)
    transaction = transaction_on(target, storage_options, on_event)
    if txn is not None:
        transaction.set_transaction(txn)
    if done := transaction.done_before():
        return done
    transaction.on_event(WriteStarted(table=transaction.log.uri))
    reader = _reader(data)
    create_if_missing(
        transaction, lambda: schema_from_arrow(reader.schema), partition_by, configuration
    )
    staged = _stage(transaction, reader, partition_by, replace_where)
    survivors: tuple[AddFile, ...] = ()
    try:
        transaction.stage(staged)
        if mode == "overwrite":
            survivors = _replace(transaction, TRUE if replace_where is None else replace_where)
        transaction.on_event(
            StagedEvent(table=transaction.log.uri, num_files=len(staged.adds + survivors))
        )
        result = transaction.commit(
            operation="WRITE",
            parameters=write_parameters(mode, transaction, replace_where),
            user_metadata=user_metadata,
            hooks=hooks,
        )
    finally:
        if not transaction.may_be_committed:
            discard(transaction.log.storage, staged.adds + survivors)
    return result


def stage_write(
    target: Target,
    data: Any,
    partition_by: Sequence[str] | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    on_event: OnEvent = ignore,
) -> Staged:
    """Write the data files of an append and commit nothing.

    The table must exist, or `target` be a transaction that creates it.

    Raises:
        InvalidRequestError: The data do not fit the table.
        TableNotFoundError: There is no table to fit them to.
    """
    validate_arguments(stage_write, locals())
    transaction = transaction_on(target, storage_options, on_event)
    return _stage(transaction, _reader(data), partition_by, None)


def write_rows(transaction: Transaction, batches: Iterable[pa.RecordBatch]) -> tuple[AddFile, ...]:
    """Write rows of the table's schema to new files; all of them or none.

    Raises:
        InvalidRequestError: A row breaks a rule of the table.
    """
    definition, storage = transaction.definition, transaction.log.storage
    schema, partition_columns = definition.schema, definition.partition_columns
    file_schema = arrow_schema_from_schema(definition.data_schema)
    adds: list[AddFile] = []
    # Where there may be many files, to make each of them durable would take most of the time.
    is_durable = not partition_columns
    try:
        for chunk in _chunks(batches, definition.arrow_schema, _CHUNK_BYTES):
            # Files do not have these columns: whoever writes one cannot check them.
            validate_rows(chunk.select(partition_columns), schema, transaction.log.uri)
            for values, rows in split(chunk, schema, partition_columns, transaction.log.uri):
                adds.append(
                    write_data_file(
                        storage,
                        rows.select(file_schema.names).to_batches(),
                        file_schema,
                        definition=definition,
                        partition_values=values,
                        data_change=True,
                        is_durable=is_durable,
                    )
                )
        if not is_durable:
            storage.persist(canonical_path(add.path, storage.uri) for add in adds)
    except BaseException:  # an interrupt too would leave files that nobody names
        discard(storage, adds)
        raise
    return tuple(adds)


def _stage(
    transaction: Transaction,
    reader: pa.RecordBatchReader,
    partition_by: Sequence[str] | None,
    must_match: Predicate | None,
) -> Staged:
    validate_partitioning(transaction, partition_by)
    schema = transaction.schema
    validate_distinct(schema, transaction.log.uri)
    num_rows = 0

    def counted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        nonlocal num_rows
        for batch in batches:
            num_rows += len(batch)
            yield batch

    if must_match is not None:
        columns = transaction.metadata.partition_columns
        must_match = true_when_stored(must_match, schema, columns)
    rows = counted(_fitted(reader, schema, transaction.log.uri, must_match))
    adds = write_rows(transaction, rows)
    return Staged(
        adds=adds,
        schema=schema,
        partition_columns=transaction.metadata.partition_columns,
        num_rows=num_rows,
        row_rules=frozenset(not_null_rules(schema)),
    )


def _replace(transaction: Transaction, predicate: Predicate) -> tuple[AddFile, ...]:
    """Remove what the predicate matches; the files that hold the surviving rows of mixed files."""
    transaction.read(predicate)
    if transaction.snapshot is None:
        return ()
    plan = plan_replacement(transaction.snapshot, predicate)
    transaction.remove_rows(plan.matched)
    transaction.remove(plan.mixed)
    schema = transaction.schema
    survivors = _surviving_rows(transaction, plan.mixed, predicate)
    adds = write_rows(transaction, survivors)
    transaction.stage(
        Staged(
            adds=adds,
            schema=schema,
            partition_columns=transaction.metadata.partition_columns,
            num_rows=0,
            row_rules=frozenset(not_null_rules(schema)),
        )
    )
    return adds


def _surviving_rows(
    transaction: Transaction, mixed: Sequence[AddFile], predicate: Predicate
) -> Iterator[pa.RecordBatch]:
    snapshot = transaction.snapshot
    assert snapshot
    matches = to_arrow(resolve(predicate, snapshot.schema), snapshot.schema)
    # A row for which the predicate is null does not match; a filter drops null as it does false.
    survives = ~pc.if_else(pc.is_null(matches), pa.scalar(False), matches)
    for batch in read_files(snapshot, mixed, snapshot.arrow_schema.names):
        yield from pa.Table.from_batches([batch]).filter(survives).to_batches()


def _reader(data: Any) -> pa.RecordBatchReader:
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if isinstance(data, pa.Table):
        return data.to_reader()
    if hasattr(data, "__arrow_c_stream__"):
        try:
            return pa.RecordBatchReader.from_stream(data)
        except pa.ArrowException as error:
            reason = str(error).partition("\n")[0].rstrip(".")
            raise InvalidRequestError(
                f"data of type {type(data).__name__} have a column that pyarrow does not know "
                f"({reason}); cast it"
            ) from error
    raise InvalidRequestError(
        f"data of type {type(data).__name__} is no Arrow data; give a pyarrow Table, RecordBatch "
        "or RecordBatchReader, or an object with __arrow_c_stream__"
    )


def _fitted(
    reader: pa.RecordBatchReader, schema: StructType, table: str, must_match: Predicate | None
) -> Iterator[pa.RecordBatch]:
    """Batches with the table's columns and types, in its order."""
    fit = plan_fit(reader.schema, arrow_schema_from_schema(schema), table)
    condition = to_arrow(resolve(must_match, schema), schema) if must_match is not None else None
    for batch in reader:
        for fitted in fit(batch):
            validate_values(fitted, table)
            if condition is not None and len(fitted.filter(condition)) < len(fitted):
                raise InvalidRequestError(
                    f"{table}: the data have rows for which replace_where is not true; they would "
                    "be added outside of what is replaced. Filter the data, or widen replace_where"
                )
            yield fitted


def _chunks(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, chunk_bytes: int
) -> Iterator[pa.Table]:
    pending: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        for piece in _pieces(batch, chunk_bytes):
            if pending and size + piece.nbytes > chunk_bytes:
                yield pa.Table.from_batches(pending, schema)
                pending, size = [], 0
            pending.append(piece)
            size += piece.nbytes
    if pending:
        yield pa.Table.from_batches(pending, schema)


def _pieces(batch: pa.RecordBatch, piece_bytes: int) -> Iterator[pa.RecordBatch]:
    """The rows in batches of bounded size, as far as a row is not larger; none if it is empty."""
    if len(batch) > 1 and batch.nbytes > piece_bytes:
        half = len(batch) // 2
        yield from _pieces(batch.slice(0, half), piece_bytes)
        yield from _pieces(batch.slice(half), piece_bytes)
    elif len(batch):
        yield batch

"""Write rows to a table from this process: write = begin + stage + commit.

What becomes of the rows is said in `new_files`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any
from weakref import WeakSet

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delta_ops.arguments import validate_arguments
from delta_ops.arrow.casting import plan_fit
from delta_ops.arrow.generated_columns import GeneratedColumns
from delta_ops.arrow.partitioning import fill_empty
from delta_ops.arrow.read.scan import read_files, read_kept
from delta_ops.arrow.row_checks import plan_checks, validate_values
from delta_ops.arrow.write.change_files import mark_files, mark_rows
from delta_ops.arrow.write.data_file import discard
from delta_ops.arrow.write.missing_columns import MissingColumns
from delta_ops.arrow.write.new_files import Rows, definition_of_rows, write_rows
from delta_ops.error_texts import first_line
from delta_ops.errors import InvalidRequestError
from delta_ops.events import OnEvent, ignore
from delta_ops.lazy import lazy
from delta_ops.log import Snapshot
from delta_ops.planning.replacement import Replacement, plan_replacement
from delta_ops.protocol.actions import AddCdcFile, AddFile
from delta_ops.protocol.change_data import change_files
from delta_ops.protocol.features import Engine
from delta_ops.protocol.predicate import Predicate, resolve, to_arrow
from delta_ops.protocol.row_rules import counted_rules, not_null_rules
from delta_ops.protocol.row_tracking import tracked_definition
from delta_ops.protocol.schema import NO_COLUMNS, StructType
from delta_ops.protocol.schema.arrow_types import columns_from_arrow
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.transaction import (
    DEFAULT_HOOKS,
    CommitResult,
    Hook,
    Staged,
    Transaction,
    Txn,
)
from delta_ops.transaction.write import (
    Mode,
    PartitionOverwriteMode,
    Target,
    WriteRequest,
    describe_outsiders,
    stage,
    transaction_on,
    write_by_engine,
)


def write(
    target: Target,
    data: Any,
    mode: Mode = "append",
    partition_by: Sequence[str] | None = None,
    *,
    replace_where: Predicate | None = None,
    partition_overwrite_mode: PartitionOverwriteMode = "static",
    merge_schema: bool = False,
    overwrite_schema: bool = False,
    txn: Txn | tuple[str, int] | None = None,
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
        mode: "overwrite" replaces all rows, or those for which `replace_where` is true; "error"
            and "ignore" only make a new table: where there is one they raise, or do nothing.
        partition_by: For a new table; for one that exists, its own partitioning or None.
        replace_where: Rows of the data for which it is not true are refused.
        partition_overwrite_mode: "dynamic" replaces the partitions of which the data have rows; of
            a table without partitions, all rows.
        merge_schema: Add columns, and fields of structs, that only the data have. What the table
            has keeps its type.
        overwrite_schema: The columns of the data become the table's, and `partition_by`, where it
            is given, its partitioning; for an overwrite of all rows.
        txn: Application id and version: a write that the table holds already is not done again.
        configuration: Table properties of a new table; one that exists keeps its own.
        hooks: What to do after the commit; by default a checksum, and a checkpoint when one is due.

    Raises:
        InvalidRequestError: The data do not fit the table.
        CommitConflictError: A concurrent commit invalidates this one; the files are deleted again.
        CommitStateUnknownError: The store did not tell; the files are kept.
        StorageError: The store failed; what was written is deleted again.
        TableExistsError: There is a table, and the mode is "error".
    """
    validate_arguments(write, locals())
    transaction = transaction_on(target, storage_options, on_event, "arrow")
    request = WriteRequest(
        mode=mode,
        partition_by=partition_by,
        replace_where=replace_where,
        partition_overwrite_mode=partition_overwrite_mode,
        merge_schema=merge_schema,
        overwrite_schema=overwrite_schema,
        txn=txn,
        configuration=configuration,
        user_metadata=user_metadata,
        hooks=hooks,
    )
    return write_by_engine(transaction, request, ArrowWrite(transaction, data))


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
    transaction = transaction_on(target, storage_options, on_event, "arrow")
    return stage(transaction, ArrowWrite(transaction, data), partition_by, None)


class ArrowWrite:
    """Rows of Arrow data for a transaction; see `WriteEngine`."""

    name: Engine = "arrow"

    def __init__(self, transaction: Transaction, data: Any) -> None:
        self._transaction, self._data = transaction, data

    @lazy
    def _reader(self) -> pa.RecordBatchReader:
        return reader_of(self._data)

    def go_on(self, transaction: Transaction) -> None:
        """See `WriteEngine`."""
        self._transaction = transaction

    def schema_of_data(self, known: StructType = NO_COLUMNS) -> StructType:
        """See `WriteEngine`."""
        names = known.fields_by_lower_name
        fields = (f for f in self._reader.schema if f.name.lower() not in names or _may_change(f))
        return columns_from_arrow(pa.schema(fields))

    def stage_data(self, must_match: Predicate | None) -> Staged:
        """See `WriteEngine`."""
        table, definition = self._transaction.log.uri, self._transaction.definition
        missing = MissingColumns(definition, self._transaction.clock(), table)
        rows = _fit_batches(self._reader, missing, definition, table, must_match)
        return replace(_stage_batches(self._transaction, rows), counted=missing.counted_values())

    def plan_replacement(self, snapshot: Snapshot, predicate: Predicate) -> Replacement:
        """See `WriteEngine`."""
        return plan_replacement(snapshot, predicate)

    def stage_survivors(self, files: Sequence[AddFile], predicate: Predicate) -> Staged:
        """See `WriteEngine`."""
        assert self._transaction.snapshot
        wanted = definition_of_rows(self._transaction, "kept")
        rows = _surviving_rows(self._transaction.snapshot, files, predicate, wanted)
        return _stage_batches(self._transaction, rows, "kept")

    def write_change_files(
        self, replaced: Iterable[AddFile], predicate: Predicate, added: Sequence[AddFile]
    ) -> tuple[AddCdcFile, ...]:
        """See `WriteEngine`."""
        snapshot, definition = self._transaction.snapshot, self._transaction.definition
        assert snapshot
        names = snapshot.arrow_schema.names
        # As in `_surviving_rows`, columns may have come.
        fit = plan_fit(snapshot.arrow_schema, definition.arrow_schema, snapshot.uri)
        gone = chain.from_iterable(map(fit, read_files(snapshot, replaced, names, predicate)))
        rows = chain(
            (mark_rows(batch, "delete") for batch in gone),
            mark_files(snapshot, added, "insert", definition),
        )
        return change_files(write_rows(self._transaction, rows, "changes"))

    def discard(self, adds: Sequence[AddFile | AddCdcFile]) -> None:
        """See `WriteEngine`."""
        discard(self._transaction.log.storage, adds)


def _stage_batches(
    transaction: Transaction, batches: Iterable[pa.RecordBatch], rows: Rows = "new"
) -> Staged:
    num_rows = 0
    checks = plan_checks(transaction.definition, transaction.log.uri)

    def count_batches() -> Iterator[pa.RecordBatch]:
        nonlocal num_rows
        for batch in batches:
            num_rows += len(batch)
            for check in checks.values():
                check(batch)
            yield batch

    adds = write_rows(transaction, count_batches(), rows)
    definition = transaction.definition
    return Staged(
        adds=adds,
        schema=definition.schema,
        partition_columns=definition.partition_columns,
        num_rows=num_rows,
        row_rules=frozenset(
            (*not_null_rules(definition.schema), *checks, *counted_rules(definition.row_rules))
        ),
    )


def _surviving_rows(
    snapshot: Snapshot,
    mixed: Sequence[AddFile],
    predicate: Predicate,
    wanted: TableDefinition,
) -> Iterator[pa.RecordBatch]:
    matches = to_arrow(resolve(predicate, snapshot.schema), snapshot.schema)
    # A row for which the predicate is null does not match; a filter drops null as it does false.
    survives = ~pc.if_else(pc.is_null(matches), pa.scalar(False), matches)
    # The table may have more columns by now, which are null in rows that were there before.
    stored = tracked_definition(snapshot.definition, snapshot.uri)
    fit = plan_fit(stored.arrow_schema, wanted.arrow_schema, snapshot.uri)
    for batch in read_kept(snapshot, mixed):
        for survivors in pa.Table.from_batches([batch]).filter(survives).to_batches():
            yield from fit(survivors)


def _may_change(field: pa.Field) -> bool:
    """Whether a column that a table has may get fields, or a wider type, by these data."""
    is_wide = pt.is_signed_integer(field.type) or field.type in (pa.float32(), pa.float64())
    return bool(is_wide or pt.is_decimal128(field.type) or pt.is_nested(field.type))


_taken = WeakSet[pa.RecordBatchReader]()
"""Readers that operations were given."""


def reader_of(data: Any) -> pa.RecordBatchReader:
    """The rows of Arrow data, as they come.

    Raises:
        InvalidRequestError: It is no Arrow data, or a reader that was taken before: it has no rows
            any more, and who tries again with it would overwrite, or delete, by nothing.
    """
    if isinstance(data, pa.RecordBatchReader):
        if data in _taken:
            raise InvalidRequestError(
                "the RecordBatchReader was given to an operation before, and can be read once; "
                "give a new one, or a Table. Nothing was written"
            )
        _taken.add(data)
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if isinstance(data, pa.Table):
        return data.to_reader()
    if hasattr(data, "__arrow_c_stream__"):
        try:
            return pa.RecordBatchReader.from_stream(data)
        except (pa.ArrowException, OverflowError) as error:  # pandas: a number over 64 bits
            reason = first_line(error)
            raise InvalidRequestError(
                f"data of type {type(data).__name__} have a column that pyarrow does not know "
                f"({reason}); cast it"
            ) from error
    raise InvalidRequestError(
        f"data of type {type(data).__name__} is no Arrow data; give a pyarrow Table, RecordBatch "
        "or RecordBatchReader, or an object with __arrow_c_stream__"
    )


def _fit_batches(
    reader: pa.RecordBatchReader,
    missing: MissingColumns,
    definition: TableDefinition,
    table: str,
    must_match: Predicate | None,
) -> Iterator[pa.RecordBatch]:
    """Batches with the table's columns and types, in its order."""
    if not reader.schema.names:  # such as a frame of no records, which has no rows by mistake
        raise InvalidRequestError(
            f"{table}: the data have no columns; to write no rows, give them the table's columns"
        )
    schema = definition.schema
    completion = missing.plan(reader.schema.names)
    generated = GeneratedColumns(definition, table)
    left_out = generated.left_out(reader.schema.names)
    given = completion.complete_schema(reader.schema)
    fit = plan_fit(given, definition.arrow_schema, table)
    condition = None if must_match is None else to_arrow(resolve(must_match, schema), schema)
    for batch in reader:
        for rows in fit(completion.complete(batch)):
            fitted = generated.fill(_stored_rows(rows, definition), left_out)
            validate_values(fitted, table)
            if must_match is not None and len(fitted.filter(condition)) < len(fitted):
                raise InvalidRequestError(f"{table}: {describe_outsiders(must_match, definition)}")
            yield fitted


def _stored_rows(rows: pa.RecordBatch, definition: TableDefinition) -> pa.RecordBatch:
    """The rows as they are read back: an empty partition value is null."""
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    for each in definition.partition_fields:
        columns[each.name] = fill_empty(columns[each.name], each)
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=rows.schema)

"""Write: write rows to files, commit the files, and discard files that were not committed.

The same for both engines. Modes and options mean the same as in the reference implementation,
except that `partition_by=None` always keeps the table's own partitioning.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from textwrap import shorten
from typing import Any

from delta_ops.errors import (
    CommitConflictError,
    InvalidRequestError,
    TableExistsError,
    naming_table,
)
from delta_ops.events import DataFilesStaged, OnEvent, WriteStarted
from delta_ops.log import Snapshot
from delta_ops.log.delta_log import log_of
from delta_ops.option_words import option
from delta_ops.protocol.actions import AddCdcFile, AddFile
from delta_ops.protocol.arrow_schemas import add_files
from delta_ops.protocol.change_data import validate_feed_columns
from delta_ops.protocol.predicate import In, Predicate, resolve
from delta_ops.protocol.predicate.nodes import leaves_of
from delta_ops.protocol.predicate.text import predicate_text
from delta_ops.protocol.properties.table_properties import ignored_properties
from delta_ops.protocol.schema import StructType, validate_distinct
from delta_ops.protocol.schema.column_names import find_columns
from delta_ops.protocol.table_definition import TableDefinition, validate
from delta_ops.transaction import CommitResult, Staged
from delta_ops.transaction.changes import AddChangeFiles
from delta_ops.transaction.engine import Engine
from delta_ops.transaction.overtaken import LONGEST_MS, begin_again, validate_reads
from delta_ops.transaction.replacement import ReplacedRows, plan_replacement, replaced_rows
from delta_ops.transaction.requests import Epoch, RecordedOperation, Target, WriteRequest
from delta_ops.transaction.source_rules import SourceRule
from delta_ops.transaction.staging import WriteTarget
from delta_ops.transaction.table_change import MergeColumns, OverwriteColumns
from delta_ops.transaction.transaction import Transaction, begin

logger = logging.getLogger(__name__)

_SHOWN_CHARACTERS = 200
_MODES: Mapping[str, str] = {
    "append": "Append",
    "overwrite": "Overwrite",
    "error": "ErrorIfExists",
    "ignore": "Ignore",
}
"""Every mode, with its name in commitInfo."""


def write_rows(engine: Engine, data: Any, request: WriteRequest) -> CommitResult:
    """Write rows and commit; the first commit creates the table.

    The new files are deleted again only if it is certain that no version names them. An interrupt
    or a listener's error after the first commit attempt leaves this unknown.

    Raises:
        InvalidRequestError: The request or the data do not fit the table.
        CommitConflictError: A concurrent commit invalidates this one; the files are deleted again.
        CommitStateUnknownError: The store did not report whether the commit exists; the files stay.
        StorageError: The store failed; the files are deleted again.
        TableExistsError: The table exists, and the mode is "error".
    """
    transaction = transaction_on(request.target, request.storage_options, request.on_event, engine)
    validate_request(request)
    if request.txn is not None:
        transaction.set_transaction(request.txn)
    if done := transaction.done_before():
        return done
    if request.mode not in ("error", "ignore"):
        return _write(transaction, request, engine, data)
    try:
        transaction.require_new_table()
        return _write(transaction, request, engine, data)
    except TableExistsError:
        if request.mode == "error":
            raise
        return CommitResult(version=None, already_committed=False, attempts=0, ignored=True)


def _write(
    transaction: Transaction, request: WriteRequest, engine: Engine, data: Any
) -> CommitResult:
    table = transaction.log.uri
    transaction.on_event(WriteStarted(table=table))
    if request.epoch is None:  # a stream reports them when it starts
        report_ignored_properties(transaction.snapshot, request.configuration)
    with naming_table(table):
        _change_columns(transaction, request, partial(engine.schema_of, data))
    target = transaction.target
    if transaction.draft.definition is not None:
        # The changed definition may need a feature that only the other engine supports.
        validate(target.definition, "write", table=table, engine=engine.name)
    rules = [*request.source_rules]
    if request.replace_where is not None:
        rules.append(_rule_of_replacement(request.replace_where, target.definition))
    staged = stage(target, engine, data, request.partition_by, rules)
    try:
        before = transaction.snapshot
        # If the commit keeps the metadata, its files also fit a later version.
        keeps_metadata = before is not None and target.definition.metadata == before.metadata
        adds_only_rows = request.mode == "append" and keeps_metadata
        if request.epoch is not None and not staged.adds and adds_only_rows:
            # A rerun of an empty batch is empty too, so no txn needs to prevent it.
            return CommitResult(version=None, already_committed=False, attempts=0)
        while True:
            try:
                return _commit_rows(transaction, request, engine, staged, target.definition)
            except CommitConflictError as error:
                is_in_time = transaction.clock() < target.now_ms + LONGEST_MS
                may_again = request.mode == "overwrite" and keeps_metadata and is_in_time
                again = begin_again(error, transaction) if may_again else None
                if again is None:
                    raise
                first, transaction = transaction, again
            if done := transaction.done_before():
                return done
            validate_reads(first, transaction)
    finally:
        if not transaction.may_be_committed:
            engine.discard(transaction.log.storage, staged.adds)


def report_ignored_properties(
    snapshot: Snapshot | None, configuration: Mapping[str, str] | None
) -> None:
    """Log a warning for each property of a request that differs from the existing table's.

    Raises:
        InvalidRequestError: A property is unknown, or has an invalid value.
    """
    if snapshot is not None and configuration:
        known, features = snapshot.metadata.configuration, snapshot.definition.features
        for reason in ignored_properties(known, features, configuration):
            logger.warning("%s: %s", snapshot.uri, reason)


def _commit_rows(
    transaction: Transaction,
    request: WriteRequest,
    engine: Engine,
    staged: Staged,
    definition: TableDefinition,
) -> CommitResult:
    """Commit staged rows; an overwrite also removes the replaced rows.

    Files that this function writes are deleted again if no version names them. The staged files
    stay.

    Args:
        definition: The table after the commit.
    """
    written: list[AddFile | AddCdcFile] = []
    try:
        transaction.stage(staged)
        if request.mode == "overwrite":
            replaced = replaced_rows(request, staged.adds, definition)
            _replace(transaction, engine, replaced, written)
        num_files = len(staged.adds) + len(written)
        transaction.on_event(DataFilesStaged(table=transaction.log.uri, num_files=num_files))
        operation = recorded_operation(request, definition)
        return transaction.commit(
            operation=operation.name,
            parameters=operation.parameters,
            user_metadata=request.user_metadata,
            hooks=request.hooks,
        )
    finally:
        if not transaction.may_be_committed:
            engine.discard(transaction.log.storage, written)


def stage_rows(engine: Engine, data: Any, request: WriteRequest) -> Staged:
    """Write the data files of an append and commit nothing.

    Raises:
        DeltaOpsError: As for `stage`.
    """
    transaction = transaction_on(request.target, request.storage_options, request.on_event, engine)
    return stage(transaction.target, engine, data, request.partition_by)


def stage(
    target: WriteTarget,
    engine: Engine,
    data: Any,
    partition_by: Sequence[str] | None,
    rules: Sequence[SourceRule] = (),
) -> Staged:
    """Write the rows to files, and commit nothing.

    Args:
        data: Rows in a form that the engine accepts.
        partition_by: The table's partition columns, or None.
        rules: Conditions that every row must meet.

    Raises:
        InvalidRequestError: The data do not fit the table.
        TableNotFoundError: There is no table.
    """
    definition, table = target.definition, target.table
    validate_feed_columns(definition, table)
    validate_partitioning(definition, partition_by, table)
    validate_distinct(definition.schema, table)
    with naming_table(table):
        return engine.write_rows(data, target, rules)


def _rule_of_replacement(replaced: Predicate, definition: TableDefinition) -> SourceRule:
    """The rule that an overwrite accepts only rows that match its predicate."""
    text = shorten(predicate_text(replaced), _SHOWN_CHARACTERS)
    emptied = [name for name in definition.partition_columns if _selects_empty(name, replaced)]
    note = f". An empty value of partition column {emptied[0]!r} is null" if emptied else ""
    message = (
        f"the data have rows for which {text} is not true, so they are outside of the replaced "
        "rows; filter the data, or replace more rows (with "
        f"{option('replace_where')}, or the partition of the asset){note}"
    )
    return SourceRule(
        predicate=replaced, message=message, error_class="DELTA_REPLACE_WHERE_MISMATCH"
    )


def _selects_empty(name: str, predicate: Predicate) -> bool:
    """Whether a predicate compares a column with an empty text."""
    for leaf in leaves_of(predicate):
        values = leaf.values if isinstance(leaf, In) else [getattr(leaf, "value", None)]
        if leaf.column[0].lower() == name.lower() and any(each in ("", b"") for each in values):
            return True
    return False


def _replace(
    transaction: Transaction,
    engine: Engine,
    predicate: Predicate,
    written: list[AddFile | AddCdcFile],
) -> None:
    """Remove the rows that match the predicate, and rewrite the other rows of mixed files.

    Args:
        written: Collects the new files.
    """
    transaction.read(predicate)
    snapshot = transaction.snapshot
    if snapshot is None:
        return
    zone = transaction.partition_time_zone
    plan = plan_replacement(snapshot, predicate, partition_time_zone=zone)
    target = transaction.target
    records_rows = bool(plan.mixed) and target.definition.has_change_feed
    if records_rows and transaction.draft.removes_rows:
        raise InvalidRequestError(
            f"{target.table}: the change data feed cannot record replaced rows in a commit that "
            "also removes rows in another way; make separate commits"
        )
    transaction.remove_rows(plan.matched)
    if not plan.mixed:
        return
    if records_rows:
        files = chain(add_files(plan.matched), plan.mixed)
        replaced = ReplacedRows(snapshot=snapshot, files=files, predicate=predicate)
        changes = engine.write_replacement(replaced, transaction.draft.new_files, target)
        written += changes
        transaction.apply(AddChangeFiles(files=changes))
        if not changes:
            return  # no row changes; a rewritten file would report all its rows as changed
    transaction.remove(plan.mixed)
    mixed = ReplacedRows(snapshot=snapshot, files=plan.mixed, predicate=predicate)
    survivors = engine.write_survivors(mixed, target)
    written += survivors.adds
    # Surviving rows were in the table before, so they do not count as output.
    transaction.stage(replace(survivors, num_rows=0))


def _change_columns(
    transaction: Transaction, request: WriteRequest, schema_of_data: Callable[..., StructType]
) -> None:
    """Create the table, or give it the columns that the request adds."""
    if transaction.snapshot is None:
        if not transaction.creates_table:
            transaction.create_table(
                schema_of_data(),
                partition_by=request.partition_by or (),
                configuration=request.configuration,
            )
        return
    if request.replace_where is not None:
        with naming_table(transaction.log.uri):
            # The replaced rows are older than the new columns.
            resolve(request.replace_where, transaction.snapshot.schema)
    if request.overwrite_schema:
        data_schema = schema_of_data()
        transaction.change_table(
            OverwriteColumns(data_schema=data_schema, partition_by=request.partition_by)
        )
    elif request.merge_schema:
        merge_columns(transaction, schema_of_data(transaction.schema))


def merge_columns(transaction: Transaction, data_schema: StructType) -> None:
    """Add the columns, and fields of structs, that only the data have.

    Raises:
        InvalidRequestError: The columns do not fit the table.
    """
    transaction.change_table(MergeColumns(data_schema=data_schema))


def validate_request(request: WriteRequest) -> None:
    """Reject unknown modes and options that contradict each other.

    Raises:
        InvalidRequestError: The options are invalid.
    """
    mode, is_dynamic = request.mode, request.partition_overwrite_mode == "dynamic"
    if mode not in _MODES:
        raise InvalidRequestError(
            f"{option('mode')} {mode!r} is unknown; choose {', '.join(_MODES)}"
        )
    if request.partition_overwrite_mode not in ("static", "dynamic"):
        raise InvalidRequestError(
            f"{option('partition_overwrite_mode')} {request.partition_overwrite_mode!r} is "
            "unknown; choose static or dynamic"
        )
    replaces = {
        option("replace_where"): request.replace_where is not None,
        option("partition_overwrite_mode", "dynamic"): is_dynamic,
        option("overwrite_schema"): request.overwrite_schema,
    }
    chosen = [name for name, is_chosen in replaces.items() if is_chosen]
    if chosen and mode != "overwrite":
        raise InvalidRequestError(f"{chosen[0]} needs {option('mode', 'overwrite')}, not {mode!r}")
    if chosen[1:] == [option("overwrite_schema")]:
        raise InvalidRequestError(
            f"{chosen[1]} replaces the whole table, but {chosen[0]} only a part of it; leave "
            f"one of them out, or add columns with {option('merge_schema')}"
        )
    if len(chosen) > 1:
        raise InvalidRequestError(
            f"{chosen[0]} and {chosen[1]} both choose the rows to replace; leave one of them out"
        )
    if request.merge_schema and request.overwrite_schema:
        raise InvalidRequestError(
            f"{option('merge_schema')} keeps the table's columns, but "
            f"{option('overwrite_schema')} replaces them; leave one of them out"
        )


def transaction_on(
    target: Target,
    storage_options: Mapping[str, Any] | None,
    on_event: OnEvent,
    engine: Engine,
) -> Transaction:
    """Attach the engine to the target's transaction; begin a transaction if the target is a table.

    Raises:
        UnsupportedFeatureError: The table uses a feature that the engine cannot write.
    """
    if isinstance(target, Transaction):
        transaction = target
    else:
        transaction = begin(log_of(target, storage_options), on_event=on_event)
        transaction.is_of_one_change = True
    if transaction.snapshot is not None or transaction.creates_table:
        validate(transaction.definition, "write", table=transaction.log.uri, engine=engine.name)
    engine.attach(transaction)
    return transaction


def validate_partitioning(
    definition: TableDefinition, partition_by: Sequence[str] | None, table: str
) -> None:
    """Reject partition columns that differ from the table's partition columns.

    Raises:
        InvalidRequestError: The columns differ.
    """
    columns = definition.partition_columns
    if partition_by is not None and _normalize(partition_by, definition.schema) != columns:
        raise InvalidRequestError(
            f"{table} is partitioned by {', '.join(columns) or 'nothing'}, not by "
            f"{', '.join(partition_by) or 'nothing'}; leave {option('partition_by')} out"
        )


def _normalize(names: Sequence[str], schema: StructType) -> tuple[str, ...]:
    """The names as the schema spells them; unchanged if one of them is not a column."""
    try:
        return find_columns(schema, names)
    except InvalidRequestError:
        return tuple(names)


def recorded_operation(request: WriteRequest, definition: TableDefinition) -> RecordedOperation:
    """The operation that the history shows.

    Args:
        definition: The table after the commit.
    """
    if request.recorded_as is not None:
        return request.recorded_as
    if request.epoch is not None:
        return RecordedOperation("STREAMING UPDATE", _epoch_parameters(request.epoch))
    return RecordedOperation("WRITE", parameters_of_write(request, definition))


def _epoch_parameters(epoch: Epoch) -> dict[str, Any]:
    """`commitInfo.operationParameters` of a batch, with the reference's names."""
    return {
        "outputMode": epoch.output_mode.capitalize(),
        "queryId": epoch.query_id,
        "epochId": str(epoch.number),
    }


def parameters_of_write(request: WriteRequest, definition: TableDefinition) -> dict[str, Any]:
    """`commitInfo.operationParameters` of a WRITE, with the reference's names."""
    parameters: dict[str, Any] = {
        "mode": _MODES[request.mode],
        "partitionBy": list(definition.partition_columns),
    }
    if request.replace_where is not None:
        parameters["predicate"] = predicate_text(request.replace_where)
    flags = {
        "isDynamicPartitionOverwrite": request.partition_overwrite_mode == "dynamic",
        "canOverwriteSchema": request.overwrite_schema,
        "canMergeSchema": request.merge_schema,
    }
    return {**parameters, **{name: True for name, is_set in flags.items() if is_set}}

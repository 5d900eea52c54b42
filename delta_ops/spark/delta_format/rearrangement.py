"""Rearrangement: an overwrite with `dataChange = false`, which may only move rows to other files.

The reference does not check this. Streams and the change data feed skip such a commit, so they
would miss a row that it adds or loses. Before the commit, the rows of the new files are therefore
compared with the rows of the removed files, including their number of occurrences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame

from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_schemas import add_files
from delta_ops.protocol.row_tracking import row_columns
from delta_ops.protocol.schema import VARIANT, MapType, walk
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.spark.read.read import read_files
from delta_ops.spark.session import jobs
from delta_ops.spark.session.failures import translating_failures
from delta_ops.spark.session.progress import tasks_reporter
from delta_ops.transaction import CommitResult, Staged, Transaction
from delta_ops.transaction.engine import Engine
from delta_ops.transaction.replacement import ReplacedRows, plan_replacement, replaced_rows
from delta_ops.transaction.requests import WriteRequest
from delta_ops.transaction.staging import WriteTarget
from delta_ops.transaction.write import parameters_of_write, stage, validate_request

_COLLATIONS = "__COLLATIONS"
"""Metadata key of a column whose strings compare by a collation and not by their bytes."""


def write_rearranged(
    engine: Engine, df: DataFrame, transaction: Transaction, request: WriteRequest
) -> CommitResult:
    """Write the rows of a table, or of a part of it, to other files, and commit.

    Args:
        request: An overwrite.

    Raises:
        InvalidRequestError: The rows differ from the replaced rows, or cannot be compared with
            them.
    """
    validate_request(request)
    table, snapshot = transaction.log.uri, transaction.snapshot
    if request.txn is not None:
        transaction.set_transaction(request.txn)
    if done := transaction.done_before():
        return done
    if snapshot is None or request.mode != "overwrite" or _changes_schema(request):
        raise InvalidRequestError(
            f"{table}: dataChange=false promises that the rows only move to other files; use it "
            "with mode overwrite on an existing table, without mergeSchema and overwriteSchema, "
            "or leave it out"
        )
    _validate_comparable(snapshot.definition, table)
    written: list[AddFile] = []
    try:
        target = transaction.target
        staged = _mark_rearranged(stage(target, engine, df, request.partition_by))
        written += staged.adds
        replaced = replaced_rows(request, staged.adds, target.definition)
        transaction.read(replaced)
        zone = transaction.partition_time_zone
        plan = plan_replacement(snapshot, replaced, partition_time_zone=zone)
        removed = [*add_files(plan.matched), *plan.mixed]
        parts = [staged]
        if plan.mixed:
            mixed = ReplacedRows(snapshot=snapshot, files=plan.mixed, predicate=replaced)
            survivors = engine.write_survivors(mixed, target)
            survivors = _mark_rearranged(survivors)
            written += survivors.adds
            parts.append(replace(survivors, num_rows=0))  # survivors are not output of this write
        _validate_same_rows(target, snapshot, df, removed, written)
        transaction.remove(removed, data_change=False)
        for each in parts:
            transaction.stage(each)
        return transaction.commit(
            operation="WRITE",
            parameters=parameters_of_write(request, target.definition),
            user_metadata=request.user_metadata,
            hooks=request.hooks,
        )
    finally:
        if not transaction.may_be_committed:
            engine.discard(transaction.log.storage, written)


def _changes_schema(request: WriteRequest) -> bool:
    return request.overwrite_schema or request.merge_schema


def _mark_rearranged(staged: Staged) -> Staged:
    return replace(staged, adds=tuple(replace(each, data_change=False) for each in staged.adds))


def _validate_comparable(definition: TableDefinition, table: str) -> None:
    cure = "use delta_ops.maintenance.optimize to rearrange the rows"
    if row_columns(definition, table) is not None:
        raise InvalidRequestError(
            f"{table}: dataChange=false cannot be used on a table with row tracking, because this "
            f"write would not keep the row ids; {cure}"
        )
    for obstacle in _obstacles(definition):
        raise InvalidRequestError(
            f"{table}: dataChange=false cannot be checked, because the new rows cannot be "
            f"compared with the replaced rows: {obstacle}; {cure}"
        )


def _obstacles(definition: TableDefinition) -> Iterator[str]:
    for path, data_type in walk(definition.schema):
        if isinstance(data_type, MapType) or data_type == VARIANT:
            kind = "a map" if isinstance(data_type, MapType) else "a variant"
            yield f"{'.'.join(path)} is {kind}"
    if _COLLATIONS in definition.metadata.schema_string:
        yield "texts of a column are compared by a collation"


def _validate_same_rows(
    target: WriteTarget,
    snapshot: Snapshot,
    df: DataFrame,
    removed: Sequence[AddFile],
    added: Sequence[AddFile],
) -> None:
    spark, table = df.sparkSession, snapshot.uri
    before = read_files(spark, snapshot, removed)
    after = read_files(spark, snapshot, added, target.definition)
    on_tasks = tasks_reporter(target.on_event, table, "find")
    with translating_failures(table, table):
        # If the counts are equal and `exceptAll` finds nothing, both hold the same rows.
        counts = [jobs.run(spark, each.count, on_tasks) for each in (before, after)]
        missing = counts[0] != counts[1] or jobs.run(
            spark, before.exceptAll(after).limit(1).collect, on_tasks
        )
    if missing:
        raise InvalidRequestError(
            f"{table}: dataChange is false, but the {counts[1]} rows of the new files differ from "
            f"the {counts[0]} rows of the replaced files; leave dataChange out, or write the rows "
            "unchanged. Nothing was committed"
        )

"""Delete rows by Spark: files without them take the place of those that had them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession

from delta_ops.arguments import validate_arguments
from delta_ops.errors import naming_table
from delta_ops.events import OnEvent, ignore
from delta_ops.log import Snapshot
from delta_ops.protocol.expression import Expression
from delta_ops.protocol.predicate import Predicate
from delta_ops.spark.dml.changed_rows import tell_rows, write_changed
from delta_ops.spark.dml.touched_files import MATCHES, find_touched, mark_matching
from delta_ops.spark.expressions.columns import named_column
from delta_ops.spark.expressions.conditions import Condition, condition_of
from delta_ops.spark.places import reach
from delta_ops.spark.read.read import pad_columns, read_kept, read_numbered
from delta_ops.spark.session.call_sites import omitting_call_sites
from delta_ops.spark.session.session import session_time_zone
from delta_ops.spark.write.data_files import discard
from delta_ops.transaction import DEFAULT_HOOKS, CommitResult, Hook, Txn
from delta_ops.transaction.row_changes import (
    Changed,
    RowChange,
    Touched,
    TouchedFile,
    commit_change,
    delete_metrics,
    open_for_change,
)
from delta_ops.transaction.write import Target


def delete(
    spark: SparkSession,
    target: Target,
    predicate: Predicate | Expression | Column | str | None = None,
    *,
    target_alias: str | None = None,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    hooks: Sequence[Hook] = DEFAULT_HOOKS,
    on_event: OnEvent = ignore,
) -> CommitResult:
    """Delete the rows for which the predicate is true, and commit.

    Files of which every row matches by partition values or statistics are not opened. Where no row
    matches, nothing is committed, and the result's version is None.

    Args:
        target: Where the table is, or a transaction to add to and commit.
        predicate: As `col` or `parse_predicate` make it, an expression, a text of Spark's SQL or a
            Column; None: all rows.
        target_alias: What the table is called in the predicate, if it is.
        txn: Application id and version: a delete that the table holds already is not done again.
        user_metadata: Any text, kept in the commit.
        hooks: What to do after the commit; by default a checksum, and a checkpoint when one is due.

    Raises:
        InvalidRequestError: The predicate does not fit the table, or the table is append-only.
        CommitConflictError: A concurrent commit invalidates this one; the files are deleted again.
        CommitStateUnknownError: The store did not tell; the files are kept.
        StorageError: The store failed; what was written is deleted again.
        TableNotFoundError: There is no table.
        UnsupportedFeatureError: The table uses what this engine cannot write.
    """
    validate_arguments(delete, locals())
    transaction, snapshot = open_for_change(target, storage_options, on_event, "deleted", "spark")
    reach(spark, transaction.log.storage)
    transaction.partition_time_zone = session_time_zone(spark)
    schema, table = snapshot.schema, snapshot.uri
    with naming_table(table):
        condition = condition_of(predicate, spark, schema, transaction.clock(), table, target_alias)
    change = RowChange(
        operation="DELETE",
        parameters={"predicate": [] if predicate is None else [condition.text]},
        txn=txn,
        user_metadata=user_metadata,
        hooks=hooks,
    )
    make = partial(_delete, spark, condition)
    return commit_change(transaction, change, make, discard)


@omitting_call_sites()
def _delete(spark: SparkSession, condition: Condition, changed: Changed) -> dict[str, int]:
    transaction, snapshot = changed.transaction, changed.snapshot
    transaction.read_to_change(condition.implied)
    by_vectors = transaction.properties.deletion_vectors
    names_rows = by_vectors or not condition.is_stable
    touched = find_touched(spark, snapshot, condition, transaction.on_event, names_rows=names_rows)
    changed.remove(touched.matched)
    num_copied = 0
    if by_vectors:
        changed.mark_deleted(touched.mixed)
    elif touched.mixed:
        mixed = [each.file for each in touched.mixed]
        changed.remove(mixed)
        survivors = _survivors(spark, snapshot, touched.mixed, condition)
        num_copied = write_changed(changed, survivors, among=None).num_rows
    if touched.mixed and transaction.definition.has_change_feed:
        tell_rows(changed, [("delete", _deleted_rows(spark, snapshot, touched, condition))])
    marked = touched.mixed if by_vectors else ()
    return delete_metrics(changed, touched.num_rows, num_copied, marked)


def _survivors(
    spark: SparkSession, snapshot: Snapshot, mixed: Sequence[TouchedFile], condition: Condition
) -> DataFrame:
    if condition.is_stable:
        rows = read_kept(spark, snapshot, [each.file for each in mixed])
        rows = pad_columns(rows, snapshot.schema)
        return condition.apply_alias(rows).filter(~condition.column)
    rows = mark_matching(spark, snapshot, mixed, condition)
    return rows.filter(~named_column(MATCHES))


def _deleted_rows(
    spark: SparkSession, snapshot: Snapshot, touched: Touched, condition: Condition
) -> DataFrame:
    rows = mark_matching(spark, snapshot, touched.mixed, condition)
    some = rows.filter(named_column(MATCHES)).drop(MATCHES)
    return some.unionAll(read_numbered(spark, snapshot, touched.matched))

"""Create table: create an empty table, or replace a table by an empty table in one commit.

Source: PROTOCOL.md, "Change Metadata"; operations and their parameters have the reference's names.

The earlier versions of a replaced table stay in its history and can be read and restored. The table
keeps its id, its txns and the features of its protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import pyarrow as pa

from delta_ops.arguments import validate_arguments
from delta_ops.ddl.alter import NOTHING_COMMITTED
from delta_ops.errors import InvalidRequestError, TableExistsError, naming_table
from delta_ops.log import TableOrPlace, log_of
from delta_ops.option_words import option
from delta_ops.planning.definition import define_table
from delta_ops.protocol.predicate import TRUE
from delta_ops.protocol.schema import StructType
from delta_ops.protocol.schema.arrow_types import columns_from_arrow, validate_levels
from delta_ops.transaction import CommitResult, Transaction, Txn, begin
from delta_ops.transaction.replacement import plan_replacement

IfExists = Literal["error", "ignore", "replace"]


def create_table(
    target: TableOrPlace,
    schema: StructType | pa.Schema,
    *,
    partition_by: Sequence[str] = (),
    cluster_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    name: str | None = None,
    description: str | None = None,
    if_exists: IfExists = "error",
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> CommitResult:
    """Create a table with these columns and no rows.

    Args:
        schema: An Arrow schema or a `StructType` of `delta_ops.protocol.schema`. The metadata of a
            `StructType`'s fields may define defaults, generated columns and identity columns.
        partition_by: Partition columns, in the order of the directories.
        cluster_by: Clustering columns, or fields of structs, instead of partition columns.
        properties: Table properties; the features that they need are added.
        name: Name in the metadata of the table.
        description: Description in the metadata of the table.
        if_exists: "replace" gives an existing table this definition and removes its rows, in one
            commit; "ignore" leaves it unchanged.
        txn: Application id and version; a change with a txn that is in the table is not repeated.
        user_metadata: Any text, stored in commitInfo.

    Raises:
        InvalidRequestError: The definition is invalid, or the existing table cannot be replaced by
            it.
        TableExistsError: The table exists, and `if_exists` is "error".
        CommitConflictError: Another writer changed the table first.
        UnsupportedFeatureError: The table uses a feature that we cannot write.

    Examples:
        >>> columns = pa.schema([("id", pa.int64()), ("day", pa.date32())])
        >>> create_table("lake/sales", columns, cluster_by=["day"]).version
        0
        >>> da.to_table("lake/sales").num_rows
        0
    """
    validate_arguments(create_table, locals())
    if isinstance(schema, StructType):
        for each in schema.fields:
            validate_levels(each.data_type, each.name)
    if if_exists not in get_args(IfExists):
        raise InvalidRequestError(
            f"{option('if_exists')} is {if_exists!r}; give "
            f"{', '.join(map(repr, get_args(IfExists)))}"
        )
    log = log_of(target, storage_options)
    transaction = begin(log)
    if txn is not None:
        transaction.set_transaction(txn)
        if done := transaction.done_before():
            return done
    is_there = transaction.snapshot is not None
    if is_there and if_exists != "replace":
        if if_exists == "ignore":
            return replace(NOTHING_COMMITTED, ignored=True)
        raise TableExistsError(log.uri)
    with naming_table(log.uri):
        define_table(
            transaction,
            columns_from_arrow(schema) if isinstance(schema, pa.Schema) else schema,
            partition_by=partition_by,
            cluster_by=cluster_by,
            properties=properties,
            name=name,
            description=description,
        )
    if not is_there:
        transaction.require_new_table()
    _remove_rows(transaction)
    return transaction.commit(
        operation="CREATE OR REPLACE TABLE" if if_exists == "replace" else "CREATE TABLE",
        parameters={
            "partitionBy": list(transaction.definition.partition_columns),
            "clusterBy": list(cluster_by),
            "description": description,
            "isManaged": "false",
            "properties": dict(properties or {}),
        },
        user_metadata=user_metadata,
        counts_files=False,
    )


def _remove_rows(transaction: Transaction) -> None:
    if transaction.snapshot is None:
        return
    transaction.read(TRUE)
    plan = plan_replacement(transaction.snapshot, TRUE)
    transaction.remove_rows(plan.matched)
    transaction.remove(plan.mixed)

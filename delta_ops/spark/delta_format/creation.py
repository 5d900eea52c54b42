"""Creation: creates tables from the columns or the rows of a DataFrame, or replaces tables.

A replaced table gets the new definition and the new rows in one commit. Its earlier versions stay
in its history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession

from delta_ops.errors import TableExistsError
from delta_ops.events import ignore
from delta_ops.log import DeltaLog
from delta_ops.planning.definition import define_table
from delta_ops.protocol.schema import StructType
from delta_ops.spark.engine import SparkEngine, engine_of
from delta_ops.spark.read.stale_reads import refuse_stale_rows
from delta_ops.spark.session.settings import default_properties, session_settings
from delta_ops.spark.write.data_files import BY_TABLE, FileSettings
from delta_ops.transaction import Transaction, begin
from delta_ops.transaction.requests import RecordedOperation, WriteRequest
from delta_ops.transaction.write import transaction_on, write_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """The definition of a table, without its columns."""

    partition_by: Sequence[str] = ()
    cluster_by: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    is_managed: bool = False
    """Whether the session's catalog owns the files."""

    def add_defaults(self, spark: SparkSession) -> NewTable:
        """Add the properties that the session sets for new tables."""
        given = {name.lower() for name in self.properties}
        defaults = default_properties(spark).items()
        kept = {name: value for name, value in defaults if name.lower() not in given}
        return replace(self, properties={**kept, **self.properties})


def create_from_rows(
    df: DataFrame,
    log: DeltaLog,
    new: NewTable,
    *,
    replaces: bool,
    settings: FileSettings = BY_TABLE,
    user_metadata: str | None = None,
) -> None:
    """Create a table with the columns and rows of a DataFrame.

    Args:
        replaces: Whether an existing table gets this definition and these rows.
        user_metadata: None for the session's.

    Raises:
        InvalidRequestError: The definition is invalid, or the rows come from an earlier version of
            the replaced table.
        TableExistsError: The table exists, and is not to be replaced.
    """
    spark = df.sparkSession
    engine = engine_of(df, settings)
    transaction = transaction_on(log, None, ignore, engine)
    if transaction.snapshot is not None:
        if not replaces:
            raise TableExistsError(log.uri)
        refuse_stale_rows(df, transaction.snapshot)
    defined = new.add_defaults(spark)
    _define(transaction, engine.schema_of(df), defined)
    name = "CREATE OR REPLACE TABLE AS SELECT" if replaces else "CREATE TABLE AS SELECT"
    request = WriteRequest(
        target=transaction,
        mode="overwrite" if replaces else "error",
        user_metadata=user_metadata or session_settings(spark).user_metadata,
        recorded_as=RecordedOperation(name, _parameters(transaction, defined)),
    )
    write_rows(engine, df, request)


def create_empty(df: DataFrame, log: DeltaLog, new: NewTable) -> None:
    """Create a table with the columns of a DataFrame and no rows.

    Args:
        df: Rows or a stream; nothing reads them.

    Raises:
        InvalidRequestError: The definition is invalid.
        TableExistsError: The table exists.
    """
    spark = df.sparkSession
    transaction, defined = begin(log), new.add_defaults(spark)
    if transaction.snapshot is not None:
        raise TableExistsError(log.uri)
    _define(transaction, SparkEngine(spark).schema_of(df), defined)
    transaction.require_new_table()
    transaction.commit(
        operation="CREATE TABLE",
        parameters=_parameters(transaction, defined),
        user_metadata=session_settings(spark).user_metadata,
        counts_files=False,
    )


def _define(transaction: Transaction, columns: StructType, new: NewTable) -> None:
    define_table(
        transaction,
        columns,
        partition_by=new.partition_by,
        cluster_by=new.cluster_by,
        properties=new.properties,
        description=new.comment,
    )


def _parameters(transaction: Transaction, new: NewTable) -> Mapping[str, object]:
    """`commitInfo.operationParameters` of a new table, with the reference's names."""
    return {
        "isManaged": "true" if new.is_managed else "false",
        "description": new.comment,
        "partitionBy": list(transaction.definition.partition_columns),
        "clusterBy": list(new.cluster_by),
        "properties": dict(new.properties),
    }

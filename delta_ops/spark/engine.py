"""The Spark engine: reads, writes and changes rows with Spark jobs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddCdcFile, AddFile
from delta_ops.protocol.features import Engine as EngineName
from delta_ops.protocol.row_rules import Check, NotNull
from delta_ops.protocol.schema import NO_COLUMNS, StructType
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.spark.casting import FitValue, fit_value
from delta_ops.spark.dml.delete import plan_delete
from delta_ops.spark.dml.merge import PlannedMerge
from delta_ops.spark.dml.update import plan_update
from delta_ops.spark.existing_rows import check_rows
from delta_ops.spark.expressions.conditions import (
    SparkCondition,
    join_conditions,
    parse_condition,
)
from delta_ops.spark.file_uris import reach
from delta_ops.spark.rewrite.rewrite import rewrite_group
from delta_ops.spark.session import jobs
from delta_ops.spark.session.call_sites import omitting_call_sites
from delta_ops.spark.session.session import session_time_zone
from delta_ops.spark.versions import is_connect, validate_session
from delta_ops.spark.write.data_files import BY_TABLE, FileSettings, discard
from delta_ops.spark.write.staging import (
    schema_of,
    stage_rows,
    stage_survivors,
    write_replacement,
)
from delta_ops.storage import Storage
from delta_ops.transaction import RewriteGroup, Staged, Transaction
from delta_ops.transaction.engine import PlannedChange
from delta_ops.transaction.replacement import ReplacedRows
from delta_ops.transaction.requests import DeleteRequest, MergeRequest, UpdateRequest
from delta_ops.transaction.source_rules import SourceRule
from delta_ops.transaction.staging import WriteTarget

_MOST_AT_ONCE = 32
_AT_ONCE_REMOTELY = 4
"""For Connect: a client cannot see how many tasks the server can run."""


class SparkEngine:
    """See `Engine`.

    Args:
        settings: File settings for writes.
        fit_value: Converts the values of updates and merges to the types of their columns.
    """

    name: EngineName = "spark"

    def __init__(
        self,
        spark: SparkSession,
        settings: FileSettings = BY_TABLE,
        fit_value: FitValue = fit_value,
    ) -> None:
        validate_session(spark)
        self._spark, self._settings, self._fit_value = spark, settings, fit_value

    def attach(self, transaction: Transaction) -> None:
        """See `Engine`."""
        reach(self._spark, transaction.log.storage)
        transaction.partition_time_zone = session_time_zone(self._spark)

    def schema_of(self, data: DataFrame, known: StructType = NO_COLUMNS) -> StructType:
        """See `Engine`."""
        return schema_of(data, known)

    @omitting_call_sites()
    def write_rows(
        self, data: DataFrame, target: WriteTarget, rules: Sequence[SourceRule] = ()
    ) -> Staged:
        """See `Engine`."""
        return stage_rows(data, target, rules, self._settings)

    @omitting_call_sites()
    def write_survivors(self, replaced: ReplacedRows, target: WriteTarget) -> Staged:
        """See `Engine`."""
        return stage_survivors(self._spark, replaced, target, self._settings)

    @omitting_call_sites()
    def write_replacement(
        self, replaced: ReplacedRows, added: Sequence[AddFile], target: WriteTarget
    ) -> tuple[AddCdcFile, ...]:
        """See `Engine`."""
        return write_replacement(self._spark, replaced, added, target, self._settings)

    def parse_condition(self, condition: Any) -> SparkCondition:
        """See `Engine`."""
        return parse_condition(condition)

    def join_conditions(self, conditions: Sequence[SparkCondition]) -> SparkCondition:
        """See `Engine`."""
        return join_conditions(conditions)

    def plan_change(
        self, request: DeleteRequest | UpdateRequest | MergeRequest, transaction: Transaction
    ) -> PlannedChange:
        """See `Engine`."""
        match request:
            case DeleteRequest():
                return plan_delete(self._spark, request, transaction)
            case UpdateRequest():
                return plan_update(self._spark, request, transaction, self._fit_value)
        return PlannedMerge(request, self._fit_value)

    def rewrite(self, snapshot: Snapshot, group: RewriteGroup) -> Staged:
        """See `Engine`."""
        return rewrite_group(self._spark, snapshot, group)

    __call__ = rewrite
    """Code that wraps `delta_ops.spark.rewrite(spark)` calls it as a function."""

    def num_rewrites_at_once(self) -> int:
        """See `Engine`: a small group is only one task."""
        if is_connect(self._spark):
            return _AT_ONCE_REMOTELY
        return min(self._spark.sparkContext.defaultParallelism, _MOST_AT_ONCE)

    def together(self) -> AbstractContextManager[jobs.Together]:
        """See `Engine`."""
        return jobs.together(self._spark)

    def check_rows(
        self, snapshot: Snapshot, definition: TableDefinition, rules: Sequence[Check | NotNull]
    ) -> None:
        """See `Engine`."""
        check_rows(self._spark, snapshot, definition, rules)

    def discard(self, storage: Storage, files: Sequence[AddFile | AddCdcFile]) -> None:
        """See `Engine`."""
        discard(storage, files)


def engine_of(df: DataFrame, settings: FileSettings = BY_TABLE) -> SparkEngine:
    """Create the engine that writes the rows of a DataFrame.

    Raises:
        InvalidRequestError: The DataFrame is a stream.
    """
    engine = SparkEngine(df.sparkSession, settings)
    if df.isStreaming:
        raise InvalidRequestError(
            "write a streaming DataFrame with write_stream, or batch by batch with foreachBatch"
        )
    return engine

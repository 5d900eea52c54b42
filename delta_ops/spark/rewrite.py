"""Execute a rewrite group on Spark: the same rows in fewer files.

The scan is cut into tasks of at most the target size, and tasks are put together without a shuffle.
Within that the order of rows is Spark's, not that of the group's files.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.protocol.row_tracking import tracked_definition
from delta_ops.protocol.table_definition import validate
from delta_ops.spark.data_files import TableTarget, rewrite_rows
from delta_ops.spark.read import read_kept
from delta_ops.spark.row_checks import checked_rules, null_checks
from delta_ops.spark.session import overriding
from delta_ops.transaction import RewriteGroup, Staged
from delta_ops.transaction.rewrite_group import Rewriter

_MAX_TASK_BYTES = "spark.sql.files.maxPartitionBytes"
_LARGEST_TASK_BYTES = 128 * 1024 * 1024
"""Spark's default; larger tasks only wait for each other."""


def rewrite(spark: SparkSession) -> Rewriter:
    """The Spark engine for `optimize`.

    The function it returns raises `InvalidRequestError` where an input file is gone or cannot be
    read or a row breaks a rule of the table, and `StorageError` where the store fails; what was
    written is then deleted again.
    """
    validate_arguments(rewrite, locals())

    def rewrite_group(snapshot: Snapshot, group: RewriteGroup) -> Staged:
        definition = snapshot.definition
        validate(definition, "write", table=snapshot.uri, engine="spark")
        if group.order is not None:
            raise InvalidRequestError(
                f"{snapshot.uri}: the Spark engine does not sort rows along a curve; have the "
                "Arrow engine do it (engine=delta_ops.arrow.rewrite)"
            )
        checks = tuple(null_checks(snapshot.schema))
        total = sum(add.size for add in group.files)
        task_bytes = min(group.target_size_bytes, _LARGEST_TASK_BYTES)
        with overriding(spark, {_MAX_TASK_BYTES: f"{task_bytes}b"}):
            rows = read_kept(spark, snapshot, group.files)
            written = rewrite_rows(
                rows.coalesce(max(1, round(total / group.target_size_bytes))),
                checks,
                {
                    name: group.files[0].partition_values.get(name)
                    for name in definition.partition_names.values()
                },
                TableTarget(
                    storage=snapshot.storage,
                    definition=tracked_definition(definition, snapshot.uri),
                    clustered_by=snapshot.clustering_columns,
                ),
            )
        return Staged(
            adds=written.adds,
            schema=snapshot.schema,
            partition_columns=snapshot.partition_columns,
            num_rows=written.num_rows,
            row_rules=checked_rules(checks),
        )

    return rewrite_group

"""Rewrite: writes the rows of a rewrite group to fewer files with Spark.

The scan is split into tasks of at most the target size, and tasks are combined without a shuffle.
Rows within the group are then in Spark's order, not in the order of the files. A group with an
order is sorted along its curve, or split into ranges of the sort key.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.option_words import option
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.row_tracking import tracked_definition
from delta_ops.protocol.schema import StructType
from delta_ops.protocol.stats.file_stats import parse_stats
from delta_ops.protocol.table_definition import validate
from delta_ops.spark.expressions.columns import named_column
from delta_ops.spark.read.file_index import ROW_NUMBER
from delta_ops.spark.read.read import NUMBER, read_kept, read_with_places
from delta_ops.spark.rewrite.curve_order import CurveUnavailableError, sort_along
from delta_ops.spark.row_checks import checked_rules, null_checks
from delta_ops.spark.session.session import overriding
from delta_ops.spark.versions import repartition_by_id
from delta_ops.spark.write.data_files import TableTarget, rewrite_rows
from delta_ops.transaction import CurveOrder, KeyOrder, RewriteGroup, Staged
from delta_ops.transaction.row_changes import num_live_rows

_MAX_TASK_BYTES = "spark.sql.files.maxPartitionBytes"
_LARGEST_TASK_BYTES = 128 * 1024 * 1024
"""Spark's default. Larger tasks would only delay the end of the job."""
_UNKNOWN_ROWS = 100_000_000
"""Assumed rows for files without statistics; keeps the sample small enough for the driver."""


def rewrite_group(spark: SparkSession, snapshot: Snapshot, group: RewriteGroup) -> Staged:
    """See `Engine.rewrite`.

    Raises:
        InvalidRequestError: An input file is missing or cannot be read, or a row breaks a rule.
        StorageError: The store failed. The new files are deleted again.
    """
    definition = group.definition or snapshot.definition
    validate(definition, "write", table=snapshot.uri, engine="spark")
    stored = tracked_definition(definition, snapshot.uri)
    checks = tuple(null_checks(snapshot.schema))
    total = sum(add.size for add in group.files)
    task_bytes = min(group.target_size_bytes, _LARGEST_TASK_BYTES)
    with overriding(spark, {_MAX_TASK_BYTES: f"{task_bytes}b"}):
        num_files = max(1, round(total / group.target_size_bytes))
        rows = read_kept(spark, snapshot, group.files)
        match group.order:
            case None:
                rows = _coalesce(spark, rows, snapshot, group.files, num_files)
            case KeyOrder(columns=columns):
                # The writer sorts the rows of each partition by the sort key.
                rows = rows.repartitionByRange(
                    num_files, *(named_column(name) for (name,) in columns)
                )
            case CurveOrder():
                rows = _sort(rows, group.order, stored.schema, snapshot, group, num_files)
        written = rewrite_rows(
            rows,
            checks,
            {
                definition.partition_names[name]: group.files[0].partition_values.get(in_log)
                for name, in_log in snapshot.definition.partition_names.items()
            },
            TableTarget(
                storage=snapshot.storage,
                definition=stored,
                clustered_by=group.clustering_columns(snapshot),
            ),
        )
    return Staged(
        adds=written.adds,
        schema=definition.schema,
        partition_columns=definition.partition_columns,
        num_rows=written.num_rows,
        row_rules=checked_rules(checks),
    )


def _coalesce(
    spark: SparkSession,
    rows: DataFrame,
    snapshot: Snapshot,
    files: Sequence[AddFile],
    num_files: int,
) -> DataFrame:
    """Combine the rows into `num_files` partitions without reordering them."""
    known = parse_stats(files[0].stats)
    if len(files) > 1 or num_files == 1 or known is None or not known.num_records:
        return rows.coalesce(num_files)
    # Spark reads a row group in one task, and some files have only one row group.
    return _read_parted(spark, snapshot, files[0], known.num_records, num_files)


def _read_parted(
    spark: SparkSession, snapshot: Snapshot, add: AddFile, num_rows: int, num_parts: int
) -> DataFrame:
    """Read the rows of one file as `read_kept` does, in partitions that keep the file's row order.

    Args:
        num_rows: Rows in the file, including deleted rows.
        num_parts: Number of partitions. Each gets about the same number of rows.
    """
    rows = read_with_places(spark, snapshot, [add])
    part = sf.floor(named_column(ROW_NUMBER) * num_parts / sf.lit(max(1, num_rows))).cast("int")
    numbered = rows.withColumn(NUMBER.name, part)
    together = repartition_by_id(numbered, num_parts, named_column(NUMBER.name))
    return together.sortWithinPartitions(named_column(ROW_NUMBER)).drop(NUMBER.name, ROW_NUMBER)


def _sort(
    rows: DataFrame,
    order: CurveOrder,
    schema: StructType,
    snapshot: Snapshot,
    group: RewriteGroup,
    num_files: int,
) -> DataFrame:
    known = [num_live_rows(add) for add in group.files]
    # The sample need not be exact: files without statistics count like the average of the others.
    recorded = [each for each in known if each is not None]
    num_rows = sum(recorded) * len(known) // len(recorded) if recorded else 0
    try:
        return sort_along(rows, order, schema, num_rows or _UNKNOWN_ROWS, num_files, group.separate)
    except CurveUnavailableError as error:
        raise InvalidRequestError(
            f"{snapshot.uri}: this session cannot order rows along a curve ({error}); use a "
            f"classic session, or the Arrow engine ({option('engine', 'delta_ops.arrow.rewrite')})"
        ) from error

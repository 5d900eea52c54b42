"""Optimized writes: a shuffle that brings the rows of each partition together, for some tables.

The shuffle makes fewer files for many partitions, but takes longer than the write itself if a run
writes one partition. It is therefore only for tables with `delta.autoOptimize.optimizeWrite`.
Spark's rebalance hint spreads a large partition over several tasks; a repartition by the partition
columns would not. Adaptive execution splits data above its advisory size and merges smaller data.
It splits only between the outputs of different tasks, so rows from one task stay together.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.spark.expressions.columns import named_column

_OPTIMIZE_WRITE = "delta.autoOptimize.optimizeWrite"
_TASK_BYTES = 128 * 1024 * 1024
"""Shuffle bytes per task for tables without a target file size; Parquet files are smaller."""
_EXCLUDED_RULES = "spark.sql.adaptive.optimizer.excludedRules"
_EMPTY_RELATIONS = "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"
"""This rule removes an empty shuffle from the plan, and the counts of row checks below it."""


def gather_partitions(rows: DataFrame, definition: TableDefinition) -> DataFrame:
    """Shuffle rows so that each partition is in as few tasks as the file size allows.

    Args:
        rows: The partition columns are named as in the log.
    """
    if not _is_enabled(definition):
        return rows
    return rows.hint("rebalance", *map(named_column, definition.partition_names.values()))


def settings_of(definition: TableDefinition, spark: SparkSession) -> Mapping[str, str]:
    """Session settings for an optimized write; empty if the table does not enable it."""
    if not _is_enabled(definition):
        return {}
    excluded = (spark.conf.get(_EXCLUDED_RULES, "") or "").split(",")
    others = [rule for rule in map(str.strip, excluded) if rule not in ("", _EMPTY_RELATIONS)]
    task_bytes = definition.properties.target_file_size_bytes or _TASK_BYTES
    return {
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.coalescePartitions.enabled": "true",
        "spark.sql.adaptive.optimizeSkewsInRebalancePartitions.enabled": "true",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": f"{task_bytes}b",
        _EXCLUDED_RULES: ",".join([*others, _EMPTY_RELATIONS]),
    }


def _is_enabled(definition: TableDefinition) -> bool:
    setting = definition.metadata.configuration.get(_OPTIMIZE_WRITE, "")
    return setting.lower() == "true" and bool(definition.partition_columns)

"""Optimised writes: the rows of a partition are brought together, where the table asks for it.

A shuffle makes few files of many partitions, but takes longer than the write itself where a run
writes one partition: hence only for tables with `delta.autoOptimize.optimizeWrite`. Spark's
rebalance hint spreads a large partition over several tasks, which a repartition by the partition's
columns would not: adaptive execution cuts what is larger than its advisory size, and joins what is
smaller. It cuts between what different tasks sent, so rows that one task computed stay together.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.spark.expressions.columns import named_column

_OPTIMIZE_WRITE = "delta.autoOptimize.optimizeWrite"
_TASK_BYTES = 128 * 1024 * 1024
"""Bytes of a shuffle, which Parquet makes smaller; for tables that name no size."""
_EXCLUDED_RULES = "spark.sql.adaptive.optimizer.excludedRules"
_EMPTY_RELATIONS = "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"
"""Takes a shuffle of no rows out of the plan, and with it the counts of the checks below it."""


def gather_partitions(rows: DataFrame, definition: TableDefinition) -> DataFrame:
    """The rows, those of a partition in as few tasks as the size of a file allows.

    Args:
        rows: With the partition columns under their names in the log.
    """
    if not _is_asked_for(definition):
        return rows
    return rows.hint("rebalance", *map(named_column, definition.partition_names.values()))


def settings_of(definition: TableDefinition, spark: SparkSession) -> Mapping[str, str]:
    """Session settings for the time of such a write; none if the table does not ask for it."""
    if not _is_asked_for(definition):
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


def _is_asked_for(definition: TableDefinition) -> bool:
    asked = definition.metadata.configuration.get(_OPTIMIZE_WRITE, "")
    return asked.lower() == "true" and bool(definition.partition_columns)

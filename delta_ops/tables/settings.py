"""Settings: those of a session that the commands of delta-spark go by."""

from __future__ import annotations

from pyspark.sql import SparkSession

_PREFIX = "spark.databricks.delta."


def merges_schema(spark: SparkSession) -> bool:
    """Whether merges add columns of their sources, where they say nothing of it."""
    return _is_set(spark, "schema.autoMerge.enabled", "false")


def checks_retention(spark: SparkSession) -> bool:
    """Whether a vacuum refuses a retention that is shorter than the table's."""
    return _is_set(spark, "retentionDurationCheck.enabled", "true")


def _is_set(spark: SparkSession, name: str, default: str) -> bool:
    value = spark.conf.get(f"{_PREFIX}{name}", default)
    return (value or default).strip().lower() == "true"

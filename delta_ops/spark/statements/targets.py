"""Targets: finds the Delta table that a statement names, if it names one."""

from __future__ import annotations

from pyspark.sql import SparkSession

from delta_ops.spark.delta_format.catalog_entries import location_of_parts
from delta_ops.spark.delta_format.sql_source import is_name_free, names_paths
from delta_ops.spark.statements.nodes import Target

_DELTA = "delta"


def path_of_target(spark: SparkSession, target: Target) -> str | None:
    """The path of a Delta table.

    Returns:
        The path that the target contains, or the location of a table in the session's catalog. None
        if the target is a view, another kind of table, or unknown.

    On Spark Connect, only paths are known.
    """
    if target.path is not None:
        return target.path
    return path_in_name(spark, target) or location_of_parts(spark, target.parts)


def path_in_name(spark: SparkSession, target: Target) -> str | None:
    """The path of a target such as delta.`/path`; None for other names."""
    match target.parts:
        case (source, path) if source.lower() == _DELTA:
            return path if names_paths(spark) or is_name_free(spark) else None
    return None

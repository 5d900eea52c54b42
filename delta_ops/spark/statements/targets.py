"""Targets: finds the Delta table that a statement names, if it names one."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from delta_ops.spark.delta_format.catalog_entries import names_in_session_catalog
from delta_ops.spark.delta_format.catalog_tables import plain_path
from delta_ops.spark.delta_format.sql_source import is_name_free, names_paths
from delta_ops.spark.java_classes import java_class
from delta_ops.spark.statements.nodes import Target
from delta_ops.spark.versions import is_connect

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
    return path_in_name(spark, target) or _location(spark, target.parts)


def path_in_name(spark: SparkSession, target: Target) -> str | None:
    """The path of a target such as delta.`/path`; None for other names."""
    match target.parts:
        case (source, path) if source.lower() == _DELTA:
            return path if names_paths(spark) or is_name_free(spark) else None
    return None


def _location(spark: SparkSession, parts: tuple[str, ...]) -> str | None:
    """The location of a table with provider "delta" in the session's catalog."""
    if is_connect(spark):
        return None
    session: Any = spark
    jvm, state = session._jvm, session._jsparkSession.sessionState()
    name = names_in_session_catalog(spark, parts)
    if name is None:
        return None
    database, table = name
    of_database = java_class(jvm, "scala.Option").apply(database)
    identifier = java_class(jvm, "org.apache.spark.sql.catalyst.TableIdentifier")(
        table, of_database
    )
    try:
        entry = state.catalog().getTempViewOrPermanentTableMetadata(identifier)
        if str(entry.provider()).lower() != f"some({_DELTA})":
            return None
        utils = java_class(jvm, "org.apache.spark.sql.catalyst.catalog.CatalogUtils")
        location = utils.URIToString(entry.location())
    except (PySparkException, Py4JError):  # no such table or database
        return None
    return plain_path(location)

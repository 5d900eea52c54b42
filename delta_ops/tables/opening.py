"""Opening: finds a table by a delta-spark identifier and opens its log with Spark's settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog
from delta_ops.spark.delta_format.catalog_entries import find_location
from delta_ops.spark.versions import setting_names

_OF_HADOOP = "spark.hadoop."
_OF_FILE_SYSTEMS = ("fs.", "dfs.")
_BY_PATH = re.compile(r"(?P<format>[A-Za-z]+)\.`(?P<path>(?:[^`]|``)+)`")


def path_in(identifier: str, table_format: str) -> str | None:
    """The path in an identifier such as delta.`/path`; None for other identifiers."""
    found = _BY_PATH.fullmatch(identifier.strip())
    if found is None or found["format"].lower() != table_format:
        return None
    return found["path"].replace("``", "`")


def location_of(spark: SparkSession, name: str) -> str:
    """Look up a table's location in the session's catalog.

    Raises:
        InvalidRequestError: The catalog has no such table, or it is not a Delta table.
    """
    location = find_location(spark, name)
    if location is None:
        raise InvalidRequestError(
            f"{name} is not a Delta table: the session's catalog has no such table; open the "
            "table by its path, DeltaTable.forPath(spark, path)"
        )
    return location


def short_name(name: str) -> str:
    """The last part of a table's name; expressions may use it."""
    return re.split(r"\.(?=(?:[^`]*`[^`]*`)*[^`]*$)", name)[-1].strip("` ")


def open_log(
    spark: SparkSession,
    path: str,
    settings: Mapping[str, str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> DeltaLog:
    """Open the log of a table with the session's Hadoop settings.

    Args:
        settings: Further settings for this table; they override the session's.
        storage_options: fsspec options of the table's store; they override all settings.

    Raises:
        InvalidRequestError: A setting is not about a file system, or has no counterpart.
    """
    for name in settings or {}:
        if not name.startswith(_OF_FILE_SYSTEMS):
            raise InvalidRequestError(
                f"{path}: the setting {name} does not belong to a file system; give settings that "
                "begin with fs. or dfs."
            )
    options = {**_settings_of_session(spark), **(settings or {}), **(storage_options or {})}
    return DeltaLog(path, options or None)


def _settings_of_session(spark: SparkSession) -> dict[str, str]:
    named = {
        name.removeprefix(_OF_HADOOP): spark.conf.get(name) or ""
        for name in setting_names(spark)
        if name.startswith(_OF_HADOOP)
    }
    return {name: value for name, value in named.items() if name.startswith(_OF_FILE_SYSTEMS)}

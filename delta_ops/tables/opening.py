"""Opening: the log of a table, reached by the settings by which Spark reaches its files."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog

_OF_HADOOP = "spark.hadoop."
_OF_FILE_SYSTEMS = ("fs.", "dfs.")


def open_log(spark: SparkSession, path: str, settings: Mapping[str, str] | None = None) -> DeltaLog:
    """The log of a table, by the settings of Hadoop that the session has, and by more of them.

    Args:
        settings: What was given for this table; it wins.

    Raises:
        InvalidRequestError: A setting is none of a file system, or has no counterpart here.
    """
    for name in settings or {}:
        if not name.startswith(_OF_FILE_SYSTEMS):
            raise InvalidRequestError(
                f"{path}: the setting {name} is none of a file system; give settings that begin "
                "with fs. or dfs."
            )
    return DeltaLog(path, {**_settings_of_session(spark), **(settings or {})} or None)


def _settings_of_session(spark: SparkSession) -> dict[str, str]:
    settings: Mapping[str, str] = spark.conf.getAll
    named = {
        name.removeprefix(_OF_HADOOP): value
        for name, value in settings.items()
        if name.startswith(_OF_HADOOP)
    }
    return {name: value for name, value in named.items() if name.startswith(_OF_FILE_SYSTEMS)}

"""Names: what delta-spark calls a table by, and where the table is."""

from __future__ import annotations

import re

from pyspark.sql import SparkSession

from delta_ops.errors import InvalidRequestError
from delta_ops.spark.delta_format.catalog_tables import find_location

_BY_PATH = re.compile(r"(?P<format>[A-Za-z]+)\.`(?P<path>(?:[^`]|``)+)`")


def path_in(identifier: str, table_format: str) -> str | None:
    """The path in an identifier such as delta.`/path`; None if it is another one."""
    found = _BY_PATH.fullmatch(identifier.strip())
    if found is None or found["format"].lower() != table_format:
        return None
    return found["path"].replace("``", "`")


def location_of(spark: SparkSession, name: str) -> str:
    """Where the session's catalog says that a table is.

    Raises:
        InvalidRequestError: There is no such table there, or it is none of Delta's.
    """
    location = find_location(spark, name)
    if location is None:
        raise InvalidRequestError(
            f"{name} is no Delta table: the session's catalog has no such table; open the table by "
            "its path, DeltaTable.forPath(spark, path)"
        )
    return location


def short_name(name: str) -> str:
    """The last part of a table's name, by which expressions may call it."""
    return re.split(r"\.(?=(?:[^`]*`[^`]*`)*[^`]*$)", name)[-1].strip("` ")

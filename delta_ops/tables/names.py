"""Names: what delta-spark calls a table by, and where the table is."""

from __future__ import annotations

import re

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from delta_ops.errors import InvalidRequestError

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
    try:
        rows = spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    except PySparkException as error:
        raise InvalidRequestError(
            f"{name} is no Delta table: the session's catalog has no such table; open the table by "
            "its path, DeltaTable.forPath(spark, path)"
        ) from error
    said = {row["col_name"]: row["data_type"] for row in rows}
    provider, location = said.get("Provider"), said.get("Location")
    if (provider or "").lower() != "delta" or not location:
        raise InvalidRequestError(
            f"{name} is no Delta table: to the session's catalog it is "
            f"{f'a table of {provider}' if provider else 'a view'}; open the table by its path, "
            "DeltaTable.forPath(spark, path)"
        )
    return str(location)


def short_name(name: str) -> str:
    """The last part of a table's name, by which expressions may call it."""
    return re.split(r"\.(?=(?:[^`]*`[^`]*`)*[^`]*$)", name)[-1].strip("` ")

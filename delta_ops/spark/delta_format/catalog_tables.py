"""Catalog tables: finds the location of tables with provider "delta" in the session's catalog.

The catalog only maps a name to a path. Everything else about a table is in its log.
"""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from delta_ops.errors import InvalidRequestError

_LOCAL = "file:"


def find_location(spark: SparkSession, name: str) -> str | None:
    """Find the location of a table; None if the catalog does not have the name.

    Raises:
        InvalidRequestError: The name is a view or another kind of table, or is no valid name.
    """
    try:
        if not spark.catalog.tableExists(name):
            return None
        # As an argument: in the text, Spark would replace session variables in the name.
        described = "DESCRIBE TABLE EXTENDED IDENTIFIER(:name)"
        rows = spark.sql(described, {"name": name}).collect()
    except PySparkException as error:
        raise InvalidRequestError(
            f"{name}: the session's catalog cannot look it up "
            f"({str(error).strip().splitlines()[0]}); name the table by its path"
        ) from error
    details = {row["col_name"]: row["data_type"] for row in rows}
    provider, location = details.get("Provider"), details.get("Location")
    if (provider or "").lower() != "delta" or not location:
        raise InvalidRequestError(
            f"{name} is not a Delta table: in the session's catalog it is "
            f"{f'a table of {provider}' if provider else 'a view'}; open the table by its path, "
            "DeltaTable.forPath(spark, path)"
        )
    return plain_path(location)


def plain_path(place: str) -> str:
    """Convert Spark's location to a path. In local paths, a percent sign is a plain character."""
    if not place.startswith(_LOCAL):
        return place
    return f"/{place.removeprefix(_LOCAL).lstrip('/')}"

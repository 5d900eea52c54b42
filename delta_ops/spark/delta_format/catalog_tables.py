"""Catalog tables: where the session's catalog says that tables of the provider "delta" are.

A name stands for a path, and nothing else: what the table is, its log says.
"""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from delta_ops.errors import InvalidRequestError

_LOCAL = "file:"


def find_location(spark: SparkSession, name: str) -> str | None:
    """Where a table is; None where the catalog has none of this name.

    Raises:
        InvalidRequestError: It has another kind of table, or a view, or this is no name.
    """
    try:
        if not spark.catalog.tableExists(name):
            return None
        rows = spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    except PySparkException as error:
        raise InvalidRequestError(
            f"{name}: the session's catalog cannot look it up "
            f"({str(error).strip().splitlines()[0]}); name the table by its path"
        ) from error
    said = {row["col_name"]: row["data_type"] for row in rows}
    provider, location = said.get("Provider"), said.get("Location")
    if (provider or "").lower() != "delta" or not location:
        raise InvalidRequestError(
            f"{name} is no Delta table: to the session's catalog it is "
            f"{f'a table of {provider}' if provider else 'a view'}; open the table by its path, "
            "DeltaTable.forPath(spark, path)"
        )
    return plain_path(location)


def plain_path(place: str) -> str:
    """A place as Spark names it, where a percent sign of a local path stands for itself."""
    if not place.startswith(_LOCAL):
        return place
    return f"/{place.removeprefix(_LOCAL).lstrip('/')}"


def create_external(spark: SparkSession, name: str, path: str) -> None:
    """Give a table a name in the session's catalog; `DROP TABLE` leaves its files."""
    spark.catalog.createTable(name, path, "delta")

"""Catalog tables: locations as catalogs hold them.

The catalog only maps a name to a path. Everything else about a table is in its log.
"""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from delta_ops.errors import InvalidRequestError

_LOCAL = "file:"


def described_location(spark: SparkSession, name: str) -> str | None:
    """Find the location of a Delta table by DESCRIBE; None if the catalog does not have the name.

    For Spark Connect, whose client has no catalog, and for catalogs other than the session's.

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
    return delta_location(name, details.get("Provider") or "", details.get("Location") or "")


def delta_location(name: str, provider: str, location: str) -> str:
    """The path of a table by its entry.

    Args:
        name: For messages.
        provider: Empty for a view.

    Raises:
        InvalidRequestError: The entry is a view or another kind of table.
    """
    if provider.lower() != "delta" or not location:
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

"""Catalog entries: names of Delta tables in the catalog of a classic session.

An entry maps a name to a location. The log is the truth for everything else. The columns of an
entry are a copy for clients that list the columns of the catalog; reads do not use them.

A table without a location of its own is managed: its files are in the directory of its database,
and Spark deletes them with the entry.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from delta_ops.errors import InvalidRequestError
from delta_ops.spark.delta_format.catalog_tables import plain_path
from delta_ops.spark.delta_format.sql_source import forget_columns, is_provided, provided_source
from delta_ops.spark.expressions.columns import quote
from delta_ops.spark.java_classes import java_class
from delta_ops.spark.versions import error_with_condition, is_connect

_DELTA = "delta"
_TABLE_IDENTIFIER = "org.apache.spark.sql.catalyst.TableIdentifier"
_CATALOG_UTILS = "org.apache.spark.sql.catalyst.catalog.CatalogUtils"
_SESSION_CATALOG = "spark_catalog"
_NAME = re.compile(r"\w+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A name in the session's catalog, and the location of its table."""

    database: str
    table: str
    path: str
    is_managed: bool
    """Whether Spark owns the files."""
    is_known: bool
    """Whether the catalog has the name."""

    @property
    def name(self) -> str:
        """The full name, for messages and as a name in SQL."""
        return f"{quote(self.database)}.{quote(self.table)}"


def parts_of_name(spark: SparkSession, name: str) -> tuple[str, ...] | None:
    """The parts of a name in SQL syntax; None if Spark cannot parse the name.

    Args:
        spark: A classic session.
    """
    session: Any = spark
    try:
        parsed = session._jsparkSession.sessionState().sqlParser().parseMultipartIdentifier(name)
    except PySparkException:
        return None
    return tuple(parsed.apply(number) for number in range(parsed.size()))


def names_in_session_catalog(
    spark: SparkSession, parts: Sequence[str]
) -> tuple[str | None, str] | None:
    """Database and table of a name; None if the name is in another catalog.

    The database is None if the name has none.
    """
    session: Any = spark
    manager = session._jsparkSession.sessionState().catalogManager()
    match tuple(parts):
        case (catalog, database, table):
            return (database, table) if catalog.lower() == _SESSION_CATALOG else None
        case (database, table):
            if database.lower() != _SESSION_CATALOG and manager.isCatalogRegistered(database):
                return None
            found: tuple[str | None, str] = (database, table)
        case (table,):
            found = (None, table)
        case _:
            return None
    return found if manager.currentCatalog().name() == _SESSION_CATALOG else None


def find_place(
    spark: SparkSession, parts: Sequence[str], location: str | None = None
) -> Place | None:
    """Find the location of a table, or of a table to be created with this name.

    Args:
        location: The location of a new table; None for the directory of its database.

    Returns:
        The place; None if the name is in another catalog or belongs to a view or another table, or
        if SQL of this session does not support Delta tables.

    Raises:
        AnalysisException: There is no such database, or the catalog cannot have the name.
    """
    if is_connect(spark) or not is_provided(spark):
        return None
    name = names_in_session_catalog(spark, parts)
    if name is None:
        return None
    _validate_name(name[1])
    session: Any = spark
    jvm, catalog = session._jvm, session._jsparkSession.sessionState().catalog()
    database, table = name[0] or catalog.getCurrentDatabase(), name[1]
    identifier = _identifier(jvm, database, table)
    known = _entry(jvm, catalog, identifier)
    if known is not None:
        provider, path, is_managed = known
        if provider.lower() != _DELTA:
            return None
    elif location is None:
        path, is_managed = _text_of(jvm, catalog.defaultTablePath(identifier)), True
    else:
        path, is_managed = _resolve(jvm, catalog, database, location), False
    return Place(
        database=database,
        table=table,
        path=plain_path(path),
        is_managed=is_managed,
        is_known=known is not None,
    )


def add_entry(spark: SparkSession, place: Place, columns: StructType) -> None:
    """Add a table to the session's catalog.

    Raises:
        AnalysisException: The catalog has the name meanwhile, or rejects it.
    """
    session: Any = spark
    location = None if place.is_managed else place.path
    provided_source(spark).addTable(
        session._jsparkSession, place.database, place.table, location, columns.json()
    )


def copy_columns(spark: SparkSession, place: Place, columns: StructType) -> None:
    """Copy the columns of a table to its entry, after a statement that may have changed them.

    A catalog that cannot change the columns keeps its copy, because reads do not use it.
    """
    session: Any = spark
    jvm, state = session._jvm, session._jsparkSession
    try:
        identifier = _identifier(jvm, place.database, place.table)
        known = state.sessionState().catalog().getTableMetadata(identifier)
        if known.schema().json() != columns.json():
            data_type = java_class(jvm, "org.apache.spark.sql.types.DataType")
            names = known.identifier()
            state.sharedState().externalCatalog().alterTableDataSchema(
                names.database().get(), names.table(), data_type.fromJson(columns.json())
            )
    except (PySparkException, Py4JError):
        pass
    forget_columns(spark)


def is_hidden(spark: SparkSession, name: str) -> bool:
    """Whether a temporary view has this name, so that queries do not see the table.

    Args:
        spark: A classic session.
    """
    parts = parts_of_name(spark, name)
    if parts is None or len(parts) > 1:
        return False
    session: Any = spark
    catalog = session._jsparkSession.sessionState().catalog()
    identifier = java_class(session._jvm, _TABLE_IDENTIFIER)(parts[0])
    return bool(catalog.isTempView(identifier))


def require_place(
    spark: SparkSession, name: str, location: str | None = None, *, method: str, cure: str
) -> Place:
    """Find the place of a table by a name in SQL syntax.

    Raises:
        InvalidRequestError: The catalog of the session cannot have a Delta table of this name.
    """
    parts = None if is_connect(spark) else parts_of_name(spark, name)
    place = None if parts is None else find_place(spark, parts, location)
    if place is None:
        if is_connect(spark):
            reason = "Spark Connect has no names of Delta tables"
        elif not is_provided(spark):
            reason = "SQL of this session does not read Delta tables; call ds.register(spark)"
        elif parts is None:
            reason = "this is no name of a table"
        else:
            reason = "the name belongs to a view, another kind of table or another catalog"
        raise InvalidRequestError(f"{method}({name!r}): {reason}. Use another name, or {cure}")
    return place


def _validate_name(table: str) -> None:
    """Reject a name that Spark's catalog rejects, before files are written for it."""
    if not _NAME.fullmatch(table):
        raise error_with_condition(
            AnalysisException,
            f"{quote(table)} is not a name that Spark's catalog accepts; use letters of ASCII, "
            "digits and underscores, or write to a path",
            "INVALID_SCHEMA_OR_RELATION_NAME",
        )


def _identifier(jvm: Any, database: str, table: str) -> Any:
    of_database = java_class(jvm, "scala.Option").apply(database)
    return java_class(jvm, _TABLE_IDENTIFIER)(table, of_database)


def _entry(jvm: Any, catalog: Any, identifier: Any) -> tuple[str, str, bool] | None:
    """Provider, location and whether Spark owns the files; None if the name is unknown.

    The provider of a view is empty.
    """
    if not catalog.tableExists(identifier):
        return None
    known = catalog.getTableMetadata(identifier)
    provider = known.provider().get() if known.provider().isDefined() else ""
    if provider.lower() != _DELTA:
        return provider, "", False
    return provider, _text_of(jvm, known.location()), known.tableType().name() == "MANAGED"


def _text_of(jvm: Any, uri: Any) -> str:
    return str(java_class(jvm, _CATALOG_UTILS).URIToString(uri))


def _resolve(jvm: Any, catalog: Any, database: str, location: str) -> str:
    """A location as Spark reads it in CREATE TABLE: relative to the directory of the database."""
    make_path = java_class(jvm, "org.apache.hadoop.fs.Path")
    path = make_path(location)
    if path.toUri().isAbsolute() or path.isAbsolute():
        return location
    base = make_path(catalog.getDatabaseMetadata(database).locationUri())
    return str(make_path(base, path).toString())

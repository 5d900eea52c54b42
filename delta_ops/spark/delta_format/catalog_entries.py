"""Catalog entries: names of Delta tables in the catalog of a classic session.

An entry maps a name to a location. The log is the truth for everything else. The columns of an
entry are a copy for clients that list the columns of the catalog; reads do not use them.

A table without a location of its own is managed: its files are in the directory of its database,
and Spark deletes them with the entry.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from delta_ops.errors import InvalidRequestError
from delta_ops.spark.delta_format.catalog_tables import (
    delta_location,
    described_location,
    plain_path,
)
from delta_ops.spark.delta_format.sql_source import (
    SESSION_CATALOG,
    forget_columns,
    is_provided,
    provided_source,
)
from delta_ops.spark.expressions.columns import quote
from delta_ops.spark.java_classes import java_class
from delta_ops.spark.versions import error_condition, error_with_condition, is_connect

logger = logging.getLogger(__name__)

_DELTA = "delta"
_TABLE_IDENTIFIER = "org.apache.spark.sql.catalyst.TableIdentifier"
_CATALOG_UTILS = "org.apache.spark.sql.catalyst.catalog.CatalogUtils"
_NAME = re.compile(r"\w+", re.ASCII)
_MISSING = frozenset({"TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND"})
"""Conditions of Spark's errors about a name that the catalog does not have."""


class _Entry(NamedTuple):
    """A table or view in a catalog."""

    provider: str
    """Empty for a view."""
    location: str
    """Empty for tables of other providers."""
    is_managed: bool

    @property
    def is_delta(self) -> bool:
        """Whether it is a Delta table."""
        return self.provider.lower() == _DELTA


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
            return (database, table) if catalog.lower() == SESSION_CATALOG else None
        case (database, table):
            if database.lower() != SESSION_CATALOG and manager.isCatalogRegistered(database):
                return None
            found: tuple[str | None, str] = (database, table)
        case (table,):
            found = (None, table)
        case _:
            return None
    return found if manager.currentCatalog().name() == SESSION_CATALOG else None


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
        if not known.is_delta:
            return None
        path, is_managed = known.location, known.is_managed
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


def find_location(spark: SparkSession, name: str) -> str | None:
    """Find the location of a Delta table; None if the catalog does not have the name.

    Args:
        name: A name in SQL syntax. A temporary view hides the table of its name.

    Raises:
        InvalidRequestError: The name is a view or another kind of table, or is no valid name.
    """
    parts = None if is_connect(spark) else parts_of_name(spark, name)
    found = None if parts is None else names_in_session_catalog(spark, parts)
    if found is None:
        return described_location(spark, name)
    entry = _entry_of_name(spark, found)
    return None if entry is None else delta_location(name, entry.provider, entry.location)


def location_of_parts(spark: SparkSession, parts: Sequence[str]) -> str | None:
    """The location of a Delta table; None for all else, and for names that a view hides.

    On Spark Connect, no name is known.
    """
    name = None if is_connect(spark) else names_in_session_catalog(spark, parts)
    if name is None:
        return None
    try:
        entry = _entry_of_name(spark, name)
    except PySparkException:  # such as a name that no table can have
        return None
    return plain_path(entry.location) if entry is not None and entry.is_delta else None


def path_of_entry(spark: SparkSession, entry: Any) -> str | None:
    """The path of a Delta table that a query reads; None if the entry has no path.

    Args:
        entry: Spark's entry of the table, of the catalog or of a path in a query.
    """
    session: Any = spark
    storage = entry.storage()
    if storage.locationUri().isDefined():
        return plain_path(_text_of(session._jvm, storage.locationUri().get()))
    path = storage.properties().get("path")
    return path.get() if path.isDefined() else None


def _entry_of_name(spark: SparkSession, name: tuple[str | None, str]) -> _Entry | None:
    """The entry that a name in a statement means: a temporary view, or a table."""
    session: Any = spark
    catalog = session._jsparkSession.sessionState().catalog()
    return _entry(session._jvm, catalog, _identifier(session._jvm, *name))


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
    except (PySparkException, Py4JJavaError) as error:
        logger.warning(
            "the catalog keeps its former copy of the columns of %s, which only clients that list "
            "columns see: %s",
            place.name,
            str(error).strip().partition("\n")[0],
        )
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


def _identifier(jvm: Any, database: str | None, table: str) -> Any:
    of_database = java_class(jvm, "scala.Option").apply(database)
    return java_class(jvm, _TABLE_IDENTIFIER)(table, of_database)


def _entry(jvm: Any, catalog: Any, identifier: Any) -> _Entry | None:
    """The entry of a name; None if the catalog does not have it.

    Args:
        identifier: Without a database, it may also be a temporary view.
    """
    try:
        known = catalog.getTempViewOrPermanentTableMetadata(identifier)
    except AnalysisException as error:
        if error_condition(error) in _MISSING:
            return None
        raise
    provider = known.provider().get() if known.provider().isDefined() else ""
    if provider.lower() != _DELTA:
        return _Entry(provider, "", is_managed=False)
    is_managed = known.tableType().name() == "MANAGED"
    return _Entry(provider, _text_of(jvm, known.location()), is_managed)


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

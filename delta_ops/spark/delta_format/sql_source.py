"""The SQL source: lets Spark SQL read tables with the provider "delta".

Users write `CREATE TABLE ... USING delta LOCATION`, temporary views, and paths in queries. Spark
looks for the class `delta.DefaultSource`. Our class (`java/delta`) calls Python for the columns and
the rows of a table.

1. A path in a query belongs to the catalog "delta", which turns it into a table of the provider.
   Without such a catalog, the class rejects the path with our error message.
2. The rows are the rows of the latest version at planning time, as a plan over our file index. The
   class adds the columns and filters of the query to this plan. Spark therefore prunes columns,
   partitions and files, and starts no Python worker.
3. Rows in memory (`CACHE TABLE`) are used as long as the table has no newer version. Then Spark
   computes them again. The class compares the versions each time a query uses the rows.
4. Descriptions of a table come from its log. All other statements on a table are rejected, and the
   error names the call to make instead (`sql_statements`).

The Java code depends on Spark internals, as the file index does.
"""

from __future__ import annotations

import contextlib
import json
import weakref
from functools import partial
from typing import Any, NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from delta_ops.errors import InvalidRequestError
from delta_ops.option_words import Surface, spoken_on
from delta_ops.spark.callbacks import Callback, accept_callbacks
from delta_ops.spark.compiled import OBSTACLES, first_line, instance_on_executors
from delta_ops.spark.delta_format.sql_statements import (
    DESCRIBES,
    DESCRIPTION,
    MOVES,
    NAMES_A_TABLE,
    SAYS_MORE,
    Options,
    Tables,
    describe,
    details_of_path,
    refusal_of,
    refusal_of_details,
    refusal_of_name,
)
from delta_ops.spark.expressions.columns import quote
from delta_ops.spark.java_classes import java_class, mapping_of
from delta_ops.spark.read.stale_reads import version_mark, version_marks
from delta_ops.spark.versions import is_connect, reads_paths

_CLASS = "delta.DefaultSource"
_REGISTER = "org.apache.spark.sql.sources.DataSourceRegister"
SESSION_CATALOG = "spark_catalog"
"""Spark's name of the catalog that every session has."""
_CATALOG, _CATALOG_CLASS = "spark.sql.catalog.delta", "delta.PathCatalog"

_provided: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
"""Our Java class by Spark context, for contexts where SQL supports the provider."""


class SqlUnavailableError(Exception):
    """This session or Spark version does not support the source."""


def provide(spark: SparkSession, tables: Tables) -> None:
    """Let SQL read tables with the provider "delta", in all sessions of this process.

    Args:
        spark: A classic session.

    Raises:
        SqlUnavailableError: This session does not support the source.
    """
    try:
        accept_callbacks(spark)
        context = spark.sparkContext
        source = instance_on_executors(spark, _CLASS, {_REGISTER: _CLASS})
        source.use(Callback(_Answers(context, tables).answer, context))
        source.guard(spark._jsparkSession)
        _provided[context] = source
        _name_catalog(spark)
    except OBSTACLES as error:
        raise SqlUnavailableError(first_line(error)) from error


def _name_catalog(spark: SparkSession) -> None:
    """Let this session and later sessions find paths in queries.

    The catalog would hide a database of the same name. It is not set if one exists, if another
    catalog has the name, or if this Spark cannot read files of the catalog.
    """
    if not reads_paths(spark.version):
        return
    if names_paths(spark) or is_name_free(spark):
        context: Any = spark.sparkContext
        context._jsc.sc().conf().set(_CATALOG, _CATALOG_CLASS)
        spark.conf.set(_CATALOG, _CATALOG_CLASS)


def is_name_free(spark: SparkSession) -> bool:
    """Whether `delta` is neither a database nor the name of a catalog."""
    if spark.conf.get(_CATALOG, None) is not None:
        return False
    catalogs = {SESSION_CATALOG, spark.catalog.currentCatalog()}
    return not any(_has_database(spark, each) for each in catalogs)


def _has_database(spark: SparkSession, catalog: str) -> bool:
    try:
        # With its catalog, because Spark still knows our catalog `delta` after `withdraw`.
        return spark.catalog.databaseExists(f"{quote(catalog)}.delta")
    except AnalysisException:
        return False  # the catalog has no databases


def names_paths(spark: SparkSession) -> bool:
    """Whether queries of a session may contain paths."""
    return spark.conf.get(_CATALOG, None) == _CATALOG_CLASS


def _forget_catalog(context: Any) -> None:
    settings = context._jsc.sc().conf()
    if settings.get(_CATALOG, "") == _CATALOG_CLASS:
        settings.remove(_CATALOG)


def is_provided(spark: SparkSession) -> bool:
    """Whether SQL of a session supports the provider."""
    return not is_connect(spark) and spark.sparkContext in _provided


def provided_source(spark: SparkSession) -> Any:
    """Our Java class for a session; see `is_provided`."""
    return _provided[spark.sparkContext]


def withdraw(spark: SparkSession) -> None:
    """Remove the provider from SQL. The Java classes stay and reject every query.

    Args:
        spark: The catalog is removed from this session. Other sessions keep it, and it rejects
            queries.
    """
    for context, source in _provided.items():
        with contextlib.suppress(*OBSTACLES):  # an application that has ended
            source.use(None)
            _forget_catalog(context)
    _provided.clear()
    with contextlib.suppress(*OBSTACLES):
        if not is_connect(spark) and spark.conf.get(_CATALOG, None) == _CATALOG_CLASS:
            spark.conf.unset(_CATALOG)


class _Answers(NamedTuple):
    """Handles calls of the Java source for one Spark context."""

    context: Any
    tables: Tables

    @spoken_on(Surface.SQL)
    def answer(self, question: Any) -> Any:
        """Open a table, or answer to a statement on one."""
        # Py4J recognizes the end of an array by a Java exception, so the indexes are requested.
        if isinstance(question[0], str):
            statement, session, texts, detail, known = map(question.__getitem__, range(5))
            options = mapping_of(self.context._jvm, texts)
            return self._answer_to(statement, self._session(session), options, detail, known)
        session, texts, known = map(question.__getitem__, range(3))
        options = mapping_of(self.context._jvm, texts)
        table = _Table(self._session(session), options, self.tables)
        if known is not None:
            table.validate_known(StructType.fromJson(json.loads(known)))
        return Callback(table.answer, self.context)

    def _session(self, session: Any) -> SparkSession:
        return SparkSession(self.context, session)

    def _answer_to(
        self, statement: str, spark: SparkSession, options: Options, detail: str, known: Any
    ) -> Any:
        """Return the reason to reject a statement, or a description; None leaves it to Spark."""
        place = next((text for name, text in options.items() if name.lower() == "path"), "")
        if statement == MOVES:
            self.tables.open(spark, {"path": detail})  # which rejects a place without a table
            return None
        if statement == NAMES_A_TABLE and detail == SAYS_MORE:
            return refusal_of_details(place)
        if statement not in (NAMES_A_TABLE, *DESCRIBES):
            return refusal_of(statement, place, detail)
        given = json.loads(detail) if statement == NAMES_A_TABLE else None
        if given is not None and not given["fields"]:
            return None
        columns = self.tables.read(spark, options).schema
        snapshot = self.tables.open(spark, options)
        if given is not None:
            return refusal_of_name(place, StructType.fromJson(given), columns, snapshot)
        if known is not None:
            details = [tuple(row) for row in DataFrame(known, spark).collect()]
        else:
            details = details_of_path(place) if detail else []
        return spark.createDataFrame(describe(columns, snapshot, details), DESCRIPTION)._jdf


class _Table:
    """A table that Spark SQL reads; its columns are as they were when it was opened."""

    def __init__(self, spark: SparkSession, options: Options, tables: Tables) -> None:
        self._spark = spark
        self._read = partial(tables.read, spark, options)
        self._open = partial(tables.open, spark, options)
        first = self._read()
        self._columns, self._schema = first.schema, _json_of(first)
        plan: Any = first._jdf.queryExecution().optimizedPlan()
        self._size = str(min(int(str(plan.stats().sizeInBytes())), 2**62))

    def validate_known(self, known: StructType) -> None:
        """Reject columns of a reader that the table does not have.

        Raises:
            InvalidRequestError: Names these columns.
        """
        types = {each.name.lower(): each.dataType.simpleString() for each in self._columns.fields}
        others = [
            f"{each.name} {each.dataType.simpleString()}"
            for each in known.fields
            if types.get(each.name.lower()) != each.dataType.simpleString()
        ]
        if others:
            raise InvalidRequestError(
                f"the table has no column {', '.join(others)}; leave the schema out, because the "
                "table defines its columns"
            )

    def answer(self, question: str) -> Any:
        """Return what Spark requests: the columns, the size, the version, or the rows with it."""
        match question:
            case "schema":
                return self._schema
            case "size":
                return self._size
            case "version":
                return version_mark(self._open())
        version, rows = self._rows()
        if _json_of(rows) != self._schema:
            # Spark caches the columns of a named table; a new query then requests them again.
            forget_columns(self._spark)
            raise InvalidRequestError(
                "the table's columns have changed since the query or the session loaded them; "
                "run REFRESH TABLE, or run the query again"
            )
        context: Any = self._spark.sparkContext
        answer = context._gateway.new_array(java_class(context._jvm, "java.lang.Object"), 2)
        answer[0], answer[1] = version, rows._jdf
        return answer

    def _rows(self) -> tuple[str, DataFrame]:
        """The rows of the latest version, and a version that is not later than the rows."""
        rows = self._read()
        mark = next(version_marks(rows), None)
        if mark is not None:
            return mark, rows
        version = version_mark(self._open())  # such as changes: the version first, then the rows
        return version, self._read()


def forget_columns(spark: SparkSession) -> None:
    """Make a session request the columns of named tables again at the next planning."""
    session: Any = spark
    session._jsparkSession.sessionState().catalog().invalidateAllCachedTables()


def _json_of(rows: DataFrame) -> str:
    return json.dumps(rows.schema.jsonValue())

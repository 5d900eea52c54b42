"""Routing: `spark.sql` runs Delta's statements on Delta tables in delta_ops.

1. A statement whose first word begins none of Delta's statements goes to Spark.
2. So does a statement that the grammar does not understand completely.
3. So does a statement whose target is not a Delta table.
4. So does a statement that Spark's own parser rejects, if Spark has such a statement. Spark then
   raises its error.

Spark receives the text and the arguments unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.sql_formatter import SQLStringFormatter

from delta_ops.errors import DeltaOpsError, InvalidRequestError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.spark.delta_format.calls import Calls
from delta_ops.spark.delta_format.catalog_entries import Place, find_place
from delta_ops.spark.delta_format.change_paths import options_of_changes, path_with_changes
from delta_ops.spark.delta_format.options import instant_of
from delta_ops.spark.delta_format.readers import load, open_version
from delta_ops.spark.session.error_conditions import analysis_error
from delta_ops.spark.session.session import session_time_zone
from delta_ops.spark.statements import nodes
from delta_ops.spark.statements.cursor import Quotes
from delta_ops.spark.statements.frames_for_paths import frames_for_paths, may_name_paths
from delta_ops.spark.statements.lexer import UnclearError
from delta_ops.spark.statements.nodes import Statement, Target
from delta_ops.spark.statements.parameters import bind
from delta_ops.spark.statements.parse import may_be_ours, parse
from delta_ops.spark.statements.refusals import refusal_of
from delta_ops.spark.statements.row_ids import (
    may_name_row_ids,
    query_with_row_ids,
    refusal_of_row_ids,
)
from delta_ops.spark.statements.table_changes import ChangesAt, may_read_changes, pin_changes
from delta_ops.spark.statements.targets import path_in_name, path_of_target, path_of_view
from delta_ops.spark.statements.time_travel import Travel, may_travel, pin_versions
from delta_ops.spark.versions import is_connect

Sql = Callable[..., DataFrame]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_OF_SPARK = (
    nodes.Delete,
    nodes.Update,
    nodes.MergeInto,
    nodes.Insert,
    nodes.Truncate,
    nodes.SetProperties,
    nodes.UnsetProperties,
    nodes.AddColumns,
    nodes.ReplaceColumns,
    nodes.RenameColumn,
    nodes.DropColumns,
    nodes.AlterColumns,
    nodes.CommentOnTable,
    nodes.CreateTable,
    nodes.CreateTableLike,
    nodes.Show,
    nodes.Unsupported,
)
"""Statements that Spark's parser knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """A statement on a Delta table, and what is needed to run it."""

    spark: SparkSession
    statement: Statement
    path: str
    """Location of the target."""
    place: Place | None
    """Entry of a table that the statement creates by name."""
    is_named: bool
    """Whether the target is a name in the session's catalog."""
    query: Callable[[str], DataFrame]
    """Runs a query in Spark."""
    storage_options: Mapping[str, Any] | None


def sql_with_delta(
    original: Sql,
    spark: SparkSession,
    storage_options: Mapping[str, Any] | None,
    sqlQuery: str,  # noqa: N803  (Spark's name)
    args: Any = None,
    **values: Any,
) -> DataFrame:
    """Run a statement in delta_ops if it is Delta's and on a Delta table; otherwise in Spark.

    Args:
        original: Spark's own method of this session.
        values: For the fields in braces of the text.

    Raises:
        AnalysisException: A parameter of such a statement cannot be bound.
    """
    if not isinstance(sqlQuery, str):
        return original(sqlQuery, args, **values)
    query = _Queries(original=original, spark=spark, storage_options=storage_options).run
    if not may_be_ours(sqlQuery):
        return query(sqlQuery, args, **values)
    if is_connect(spark) and values:
        return query(sqlQuery, args, **values)  # its fields are part of the plan, and not views
    formatter = SQLStringFormatter(spark)
    try:
        text = formatter.format(sqlQuery, **values) if values else sqlQuery
        found = _find(query, spark, storage_options, text, args)
        if found is not None:
            run: Callable[[Routed], DataFrame] = import_module(_RUNNER).run
            return run(found)
    finally:
        formatter.clear()
    try:
        return query(sqlQuery, args, **values)
    except AnalysisException as error:
        is_syntax = isinstance(error, ParseException)
        is_delta = lambda target: path_of_target(spark, target) is not None  # noqa: E731
        reason = refusal_of(text, _quotes(spark), is_delta, is_syntax_error=is_syntax)
        reason = reason or refusal_of_row_ids(text, error)
        if reason is None:
            raise
        raise (ParseException if is_syntax else AnalysisException)(reason) from error


_RUNNER = "delta_ops.tables.statements.run"
"""Runs statements with the verbs of upper layers; imported when the first statement is routed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Queries:
    """Runs statements in Spark, with versions of Delta tables named by their paths."""

    original: Sql
    spark: SparkSession
    storage_options: Mapping[str, Any] | None

    def run(self, text: str, args: Any = None, **values: Any) -> DataFrame:
        if may_travel(text):
            text, args = self._pin_versions(text, args)
        if may_read_changes(text):
            text = pin_changes(text, _quotes(self.spark), self._path_of_changes)
        if may_name_row_ids(text) and not values:
            found = query_with_row_ids(self.spark, text, args, self._open)
            if found is not None:
                return found
        if not values and is_connect(self.spark) and may_name_paths(text):
            text, values = frames_for_paths(text, self._read)
        return self.original(text, args, **values)

    def _pin_versions(self, text: str, args: Any) -> tuple[str, Any]:
        """Pin the versions of a query, also versions that are parameters."""
        quotes = _quotes(self.spark)
        try:
            bound = bind(text, args)
        except UnclearError:
            return text, args
        if not args or bound.refusal is not None:
            return pin_versions(text, quotes, self._path_of), args
        pinned = pin_versions(bound.text, quotes, self._path_of)
        return (text, args) if pinned == bound.text else (pinned, None)

    def _read(self, path: str) -> DataFrame:
        options = {"path": ("path", path)} | options_of_changes(path)
        try:
            return load(self.spark, Calls(options=options), None, self.storage_options)
        except DeltaOpsError as error:
            raise analysis_error(error) from error

    def _open(self, target: Target) -> Snapshot | None:
        path = path_of_target(self.spark, target)
        if path is None:
            return None
        calls = Calls(options={"path": ("path", path)})
        return open_version(self.spark, calls, self.storage_options)

    def _path_of(self, travel: Travel) -> str | None:
        path = path_of_target(self.spark, travel.target)
        if path is None or travel.version is not None:
            return path if path is None else f"{path}@v{travel.version}"
        try:
            instant = self._instant_of(travel)
            snapshot = DeltaLog(path, self.storage_options).snapshot(timestamp=instant)
        except DeltaOpsError as error:
            raise analysis_error(error) from error
        return f"{path}@v{snapshot.version}"

    def _instant_of(self, travel: Travel) -> datetime:
        if travel.expression is None:
            zone = session_time_zone(self.spark)
            return instant_of("TIMESTAMP AS OF", travel.timestamp or "", zone)
        return time_of(self.original, travel.expression)

    def _path_of_changes(self, changes: ChangesAt) -> str | None:
        path = path_of_target(self.spark, changes.target)
        if path is None:
            return None
        try:
            ends = [self._end_of(each) for each in (changes.start, changes.end)]
        except DeltaOpsError as error:
            raise analysis_error(error) from error
        return path_with_changes(path, ends[0], ends[1])

    def _end_of(self, end: int | str | None) -> str:
        """A version, or a time in UTC, as text."""
        if not isinstance(end, str):
            return "" if end is None else str(end)
        return instant_of("table_changes", end, session_time_zone(self.spark)).isoformat()


def time_of(sql: Sql, expression: str) -> datetime:
    """Compute the time that an expression of TIMESTAMP AS OF means.

    Args:
        sql: Runs a query in Spark.

    Raises:
        InvalidRequestError: The expression is NULL.
    """
    found = sql(f"SELECT unix_micros(CAST({expression} AS TIMESTAMP))").first()
    if found is None or found[0] is None:
        raise InvalidRequestError(f"TIMESTAMP AS OF {expression} is NULL; write a time or a date")
    return _EPOCH + timedelta(microseconds=found[0])


def _find(
    query: Sql,
    spark: SparkSession,
    storage_options: Mapping[str, Any] | None,
    text: str,
    args: Any,
) -> Routed | None:
    try:
        bound = bind(text, args)
    except UnclearError:
        return None
    statement = parse(bound.text, _quotes(spark))
    if statement is None:
        return None
    place = _new_place(spark, statement)
    converted = _path_to_convert(statement)
    path = converted or (place.path if place else path_of_target(spark, statement.target))
    if path is None and isinstance(statement, nodes.Delete | nodes.Update | nodes.MergeInto):
        path = path_of_view(spark, statement.target)
    if path is None or not _accepts(spark, statement, bound.text):
        return None
    if bound.refusal is not None:
        raise AnalysisException(f"parameter {bound.refusal}")
    return Routed(
        spark=spark,
        statement=statement,
        path=path,
        place=place,
        is_named=converted is None and is_named(spark, statement.target),
        query=query,
        storage_options=storage_options,
    )


def _new_place(spark: SparkSession, statement: Statement) -> Place | None:
    """The place of a table that a statement creates by its name; None for other statements."""
    match statement:
        case nodes.CreateTable() | nodes.ShallowClone():
            pass
        case nodes.CreateTableLike(source=source, is_delta=is_delta):
            if not is_delta and path_of_target(spark, source) is None:
                return None
        case _:
            return None
    if not is_named(spark, statement.target):
        return None
    return find_place(spark, statement.target.parts, statement.location)


def is_named(spark: SparkSession, target: Target) -> bool:
    """Whether a target is a name in a catalog, and no path."""
    return target.path is None and path_in_name(spark, target) is None


def _path_to_convert(statement: Statement) -> str | None:
    match statement:
        case nodes.ConvertToDelta(target=Target(parts=(source, path))):
            return path if source.lower() == "parquet" else None
    return None


def _quotes(spark: SparkSession) -> Quotes:
    def flag(name: str) -> bool:
        return (spark.conf.get(name, "false") or "").lower() == "true"

    return Quotes(
        keeps_backslashes=flag("spark.sql.parser.escapedStringLiterals"),
        doubles_are_names=flag("spark.sql.ansi.enabled")
        and flag("spark.sql.ansi.doubleQuotedIdentifiers"),
    )


def _accepts(spark: SparkSession, statement: Statement, text: str) -> bool:
    """Whether Spark's parser accepts the statement, or the condition of a statement of Delta's."""
    if isinstance(statement, nodes.Optimize | nodes.Reorg | nodes.AddConstraint):
        condition = statement.condition
        return condition is None or _parses(spark, f"DELETE FROM t WHERE {condition}")  # noqa: S608
    return not isinstance(statement, _OF_SPARK) or _parses(spark, text)


def _parses(spark: SparkSession, text: str) -> bool:
    if is_connect(spark):
        return True  # a client has no parser; the server parses each condition and query
    session: Any = spark
    try:
        session._jsparkSession.sessionState().sqlParser().parsePlan(text)
    except PySparkException:
        return False
    return True

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
from importlib import import_module
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.sql_formatter import SQLStringFormatter

from delta_ops.errors import DeltaOpsError
from delta_ops.log import DeltaLog
from delta_ops.spark.delta_format.options import instant_of
from delta_ops.spark.session.session import session_time_zone
from delta_ops.spark.statements import nodes
from delta_ops.spark.statements.cursor import Quotes
from delta_ops.spark.statements.lexer import UnclearError
from delta_ops.spark.statements.nodes import Statement, Target
from delta_ops.spark.statements.parameters import bind
from delta_ops.spark.statements.parse import may_be_ours, parse
from delta_ops.spark.statements.targets import path_in_name, path_of_target
from delta_ops.spark.statements.time_travel import Travel, may_travel, pin_versions
from delta_ops.spark.versions import is_connect

Sql = Callable[..., DataFrame]

_OF_SPARK = (
    nodes.Delete,
    nodes.Update,
    nodes.MergeInto,
    nodes.Insert,
    nodes.Truncate,
    nodes.SetProperties,
    nodes.UnsetProperties,
    nodes.AddColumns,
    nodes.RenameColumn,
    nodes.DropColumns,
    nodes.AlterColumn,
    nodes.CommentOnTable,
    nodes.CreateTable,
)
"""Statements that Spark's parser knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """A statement on a Delta table, and what is needed to run it."""

    spark: SparkSession
    statement: Statement
    path: str
    """Location of the target."""
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
    if not isinstance(sqlQuery, str) or is_connect(spark):
        return original(sqlQuery, args, **values)
    query = _Queries(original=original, spark=spark, storage_options=storage_options).run
    if not may_be_ours(sqlQuery):
        return query(sqlQuery, args, **values)
    formatter = SQLStringFormatter(spark)
    try:
        text = formatter.format(sqlQuery, **values) if values else sqlQuery
        found = _find(query, spark, storage_options, text, args)
        if found is not None:
            run: Callable[[Routed], DataFrame] = import_module(_RUNNER).run
            return run(found)
    finally:
        formatter.clear()
    return query(sqlQuery, args, **values)


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
            text = pin_versions(text, _quotes(self.spark), self._path_of)
        return self.original(text, args, **values)

    def _path_of(self, travel: Travel) -> str | None:
        path = path_of_target(self.spark, travel.target)
        if path is None or travel.timestamp is None:
            return path if path is None else f"{path}@v{travel.version}"
        try:
            instant = instant_of("TIMESTAMP AS OF", travel.timestamp, session_time_zone(self.spark))
            snapshot = DeltaLog(path, self.storage_options).snapshot(timestamp=instant)
        except DeltaOpsError as error:
            raise AnalysisException(str(error)) from error
        return f"{path}@v{snapshot.version}"


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
    path = path_of_target(spark, statement.target)
    if path is None:
        path = _path_to_convert(statement)
    if path is None or not _accepts(spark, statement, bound.text):
        return None
    if bound.refusal is not None:
        raise AnalysisException(f"parameter {bound.refusal}")
    return Routed(
        spark=spark,
        statement=statement,
        path=path,
        is_named=is_named(spark, statement.target),
        query=query,
        storage_options=storage_options,
    )


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
    session: Any = spark
    try:
        session._jsparkSession.sessionState().sqlParser().parsePlan(text)
    except PySparkException:
        return False
    return True

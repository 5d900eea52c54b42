"""Conditions: selects the rows of an operation; Spark evaluates the condition.

A text may use all of Spark SQL. Files are skipped by the part that delta_ops expressions can
represent.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from delta_ops.errors import InvalidRequestError
from delta_ops.late_imports import importing
from delta_ops.planning.assigned_columns import is_sql_text
from delta_ops.planning.conditions import (
    Selection,
    finder_with_alias,
    selection_of_expression,
    selection_of_predicate,
    simplify_condition,
)
from delta_ops.protocol.expression import Expression, parse_expression
from delta_ops.protocol.expression.nodes import columns_of
from delta_ops.protocol.expression.quotes import (
    condition_of_constants,
    validate_looks_at_rows,
    validate_quotes,
)
from delta_ops.protocol.expression.resolution import Find
from delta_ops.protocol.predicate import Predicate, columns
from delta_ops.protocol.predicate.text import predicate_text
from delta_ops.protocol.schema import (
    BOOLEAN,
    INTEGER_RANGES,
    STRING,
    TIMESTAMP,
    StructType,
    leaves,
)
from delta_ops.spark.expressions.analysis import analyze, reason_of, validate_known
from delta_ops.spark.expressions.column_text import sql_of
from delta_ops.spark.expressions.columns import matches
from delta_ops.spark.expressions.lists_of_texts import reads_lists_otherwise
from delta_ops.spark.schema import empty_rows
from delta_ops.spark.session.session import session_time_zone
from delta_ops.spark.session.variables import escape_variables, names_like_variables
from delta_ops.spark.versions import CONSECUTIVE_LITERALS, is_connect, is_on

_UTC = frozenset({"UTC", "Etc/UTC", "GMT", "Z", "+00:00"})
_INSTANT = re.compile(r"timestamp(?!_ntz)", re.IGNORECASE)
_READ_OTHERWISE = (
    ("\\", "spark.sql.parser.escapedStringLiterals"),
    ('"', "spark.sql.ansi.doubleQuotedIdentifiers"),
    ("''", CONSECUTIVE_LITERALS),
    ('""', CONSECUTIVE_LITERALS),
)
"""Characters whose meaning depends on a setting. Variables are handled separately."""
_QUOTED_NAMES = ("spark.sql.ansi.enabled", "spark.sql.ansi.doubleQuotedIdentifiers")
"""If both settings are true, Spark reads double-quoted names."""
_ZONELESS = (*INTEGER_RANGES, BOOLEAN, STRING)
"""Types whose values do not depend on a time zone in comparisons."""


@dataclass(frozen=True, slots=True)
class SparkCondition:
    """A condition as SQL text, expression or Spark column."""

    source: str | Expression | Column
    sql: str | None = None
    """The text for Spark, if it differs from `source`."""
    may_be_constant: bool = False
    """Whether the condition may have constants only, unless it has text in double quotes."""

    @property
    def text(self) -> str:
        """The condition in SQL, or Spark's display of a column without SQL text."""
        if isinstance(self.source, Column):
            return sql_of(self.source) or column_text(self.source)
        return self.source if isinstance(self.source, str) else self.source.text

    @property
    def column(self) -> Column:
        """The condition as a Spark column over the columns that it names."""
        if isinstance(self.source, Column):
            return self.source
        return sf.expr(self.text if self.sql is None else self.sql)

    def naming(self, *schemas: StructType) -> SparkCondition:
        """Escape these columns' names, which Spark would otherwise read as session variables."""
        if not isinstance(self.source, str):
            return self
        sql = self.source if self.sql is None else self.sql
        return replace(self, sql=escape_variables(sql, names_like_variables(*schemas)))

    def qualify_names(
        self, alias: str, names: Collection[str], spark: SparkSession
    ) -> SparkCondition:
        """Put an alias before these columns; see `qualify`."""
        if isinstance(self.source, Column):
            return self
        source = qualify(self.source, alias, names, spark)
        return (
            self
            if source is self.source
            else replace(parse_condition(source), may_be_constant=self.may_be_constant)
        )

    def expression_in(
        self, spark: SparkSession, schemas: Sequence[StructType]
    ) -> Expression | None:
        """The condition as a delta_ops expression; None if there is no equivalent.

        A Spark column needs a SQL string from `sql_of`. The result is None if the condition uses
        dates or times and the time zone of the session is not UTC, because delta_ops reads them in
        UTC. It is also None if session settings change the meaning of the string.

        Args:
            spark: The session that evaluates the condition.
            schemas: The columns that the condition may use.
        """
        text = sql_of(self.source) if isinstance(self.source, Column) else self.text
        if text is None or _reads_otherwise(spark, text if self.sql is None else self.sql):
            return None
        try:
            found = parse_expression(text)
        except InvalidRequestError:
            return None
        if reads_lists_otherwise(spark, found, schemas):
            return None
        if session_time_zone(spark) in _UTC:
            return found
        names = {name.lower() for each in columns_of(found.root) for name in each.path}
        fields = (field for schema in schemas for field in schema.fields)
        is_safe = all(
            field.name.lower() not in names or field.data_type in _ZONELESS for field in fields
        )
        return found if is_safe else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """The rows of a table that an operation selects."""

    selection: Selection
    column: Column
    """Whether the condition is true, over the table's columns; false if it is null."""
    is_stable: bool
    """Whether each evaluation is known to give the same result."""
    alias: str | None = None
    """Alias of the rows in the condition."""

    def apply_alias(self, rows: DataFrame) -> DataFrame:
        """Set the alias that the condition uses on these rows."""
        return rows if self.alias is None else rows.alias(self.alias)


def parse_condition(source: Any) -> SparkCondition:
    """Parse the condition that a caller passes.

    Raises:
        InvalidRequestError: The value is not a condition.
    """
    if isinstance(source, Predicate):
        source = parse_expression(predicate_text(source))
    match source:
        case SparkCondition():
            return source
        case str():
            return SparkCondition(str.__str__(source))
        case Column():
            return SparkCondition(source)
        case Expression():  # an expression has no session variables
            return SparkCondition(source, escape_variables(source.text))
    raise InvalidRequestError(
        f"a condition is of type {type(source).__name__}; give a SQL string such as 'id = 1', a "
        "predicate, an expression, or a Column"
    )


def qualify(
    source: str | Expression, alias: str, names: Collection[str], spark: SparkSession
) -> str | Expression:
    """Put an alias before these columns if delta_ops can parse the SQL; else return it as it is.

    Args:
        source: A SQL string or an expression.
        alias: The alias of the table that the columns belong to.
        names: The columns, in lower case.
        spark: The session that evaluates the SQL.
    """
    text = source if isinstance(source, str) else source.text
    if not names or _reads_otherwise(spark, text):
        return source
    with importing():
        from delta_ops.protocol.expression.sql import qualify_columns

    try:
        found = qualify_columns(text, alias, names)
    except InvalidRequestError:
        return source
    if found == text:
        return source
    return found if isinstance(source, str) else parse_expression(found)


def join_conditions(conditions: Sequence[SparkCondition]) -> SparkCondition:
    """Join conditions with SQL text by AND."""
    texts, read = (
        [each.text for each in conditions],
        [each.sql or each.text for each in conditions],
    )
    return SparkCondition(" AND ".join(texts), " AND ".join(read))


def condition_of(
    source: SparkCondition | Predicate | Expression | Column | str | None,
    spark: SparkSession,
    schema: StructType,
    now_ms: int,
    table: str,
    alias: str | None = None,
) -> Condition:
    """Build a Condition from the caller's argument; None selects all rows.

    Args:
        now_ms: Time of the statement, in milliseconds since the Unix epoch.
        table: For messages.
        alias: Alias of the table in the condition.

    Raises:
        InvalidRequestError: The condition does not fit the table, or its result may change between
            evaluations.
    """
    if source is None or isinstance(source, Predicate):
        selection = selection_of_predicate(source)
        column = matches(selection.implied, schema)
        return Condition(selection=selection, column=column, is_stable=True, alias=alias)
    parsed = parse_condition(source).naming(schema)
    empty = empty_rows(spark, schema)
    rows = empty.alias(alias) if alias else empty
    is_stable = validate_condition(parsed, rows, table, finder_with_alias(schema, alias))
    expression = parsed.expression_in(spark, [schema])
    root = None if expression is None else expression.root
    return Condition(
        selection=selection_of_expression(parsed.text, root, schema, now_ms, alias),
        column=is_true(parsed.column),
        is_stable=is_stable,
        alias=alias,
    )


def simplify_text(text: str, spark: SparkSession, schema: StructType) -> Predicate | str:
    """Convert a SQL string to a predicate if both mean the same in this session; else keep it."""
    found = simplify_condition(text)
    if not isinstance(found, Predicate) or _reads_otherwise(spark, text):
        return text
    if reads_lists_otherwise(spark, parse_expression(text), [schema]):
        return text
    return text if has_times_of_session(found, text, spark, schema) else found


def has_times_of_session(
    predicate: Predicate, text: str, spark: SparkSession, schema: StructType
) -> bool:
    """Whether a SQL string compares times, and the time zone of the session is not UTC."""
    if session_time_zone(spark) in _UTC:
        return False
    names = {name.lower() for name in columns(predicate)}
    types = {data_type for path, data_type in leaves(schema) if path[0].lower() in names}
    return TIMESTAMP in types or _INSTANT.search(text) is not None


def text_of_predicate(
    condition: Predicate | Expression | Column | str | None,
) -> Predicate | Expression | str | None:
    """Convert a Column to its SQL text, and keep other conditions.

    Raises:
        InvalidRequestError: The Column does more than compare columns with values, so that its rows
            are known to Spark only.
    """
    if not isinstance(condition, Column):
        return condition
    text = sql_of(condition)
    if text is None:
        raise InvalidRequestError(
            f"the Column {column_text(condition)} does more than compare columns with values, so "
            "only Spark knows its rows; compare columns with values, such as "
            'col("day") >= "2026-01-31"'
        )
    return text


def validate_times(
    condition: Predicate | Expression | str | None, spark: SparkSession, schema: StructType
) -> None:
    """Reject a SQL string with times if the time zone of the session is not UTC.

    Raises:
        InvalidRequestError: The message has the cure.
    """
    if not isinstance(condition, str):
        return
    predicate = simplify_condition(condition)
    if isinstance(predicate, Predicate) and has_times_of_session(
        predicate, condition, spark, schema
    ):
        raise InvalidRequestError(
            f"the condition {condition!r} contains times, which delta_ops reads in UTC, and the "
            "time zone of this session is not UTC; set spark.sql.session.timeZone to UTC, or give "
            "a predicate with datetimes, made with col"
        )


def _reads_otherwise(spark: SparkSession, text: str) -> bool:
    """Whether the session may parse a SQL string differently from delta_ops expressions."""
    return "${" in text or any(
        mark in text and is_on(spark, setting) for mark, setting in _READ_OTHERWISE
    )


def is_true(condition: Column) -> Column:
    """Whether a condition is true; false if it is null.

    Spark does not push this form to the Parquet reader, which skips row groups by statistics that
    may not include NaN.
    """
    return sf.coalesce(condition, sf.lit(False))


def validate_condition(condition: SparkCondition, rows: DataFrame, table: str, find: Find) -> bool:
    """Reject a value that is no condition over these rows, or has only constants.

    Args:
        condition: The condition of the request.
        rows: A DataFrame without rows, with the columns that the condition may use.
        table: For messages.
        find: Finds these columns.

    Returns:
        Whether each evaluation is known to give the same result.

    Raises:
        InvalidRequestError: The message has the reason.
    """
    spark = rows.sparkSession
    validate_names([condition.source], spark, find)
    _validate_settings(condition, spark, table)
    try:
        column = condition.column
    except ParseException as error:  # PySpark 3.5 parses a text before it is used
        raise InvalidRequestError(
            f"{table}: the condition {condition.text!r} cannot be used: Spark does not understand "
            f"it ({reason_of(error)})"
        ) from error
    found = analyze(column, rows, must_be_true=True)
    validate_known(found, find, table)
    if found.obstacle:
        raise InvalidRequestError(
            f"{table}: the condition {condition.text!r} cannot be used: {found.obstacle}",
            found.error_class,
        ) from found.error
    if condition.may_be_constant and '"' not in condition.text:
        return found.is_stable
    if found.is_constant:
        raise condition_of_constants(condition.text)
    if is_connect(spark) and (expression := condition.expression_in(spark, [])) is not None:
        validate_looks_at_rows(expression)
    return found.is_stable


def _validate_settings(condition: SparkCondition, spark: SparkSession, table: str) -> None:
    """Reject an expression or predicate if Spark would read its text differently."""
    sql = condition.text if condition.sql is None else condition.sql
    if isinstance(condition.source, Expression) and _reads_otherwise(spark, sql):
        raise InvalidRequestError(
            f"{table}: settings of this session change the meaning of the condition "
            f"{condition.text!r}; give a Column, or a SQL string that is written for them"
        )


def validate_names(names: Iterable[Any], spark: SparkSession, find: Find) -> None:
    """Reject column names in double quotes if the session reads these as strings.

    Args:
        names: Conditions and values. Only SQL strings, expressions and columns are checked.
        spark: The session that evaluates them.
        find: Finds columns.

    Raises:
        InvalidRequestError: The message shows both spellings.
    """
    settings = (spark.conf.get(each) or "" for each in _QUOTED_NAMES)
    if all(value.lower() == "true" for value in settings):
        return
    for each in names:
        if is_sql_text(each):
            validate_quotes(each, find)
        elif isinstance(each, Expression):
            validate_quotes(each.text, find)
        elif isinstance(each, Column):
            validate_quotes(sql_of(each) or "", find)


def column_text(column: Column) -> str:
    """Spark's display of a column."""
    shown = str(column)
    return shown.removeprefix("Column<'").removesuffix("'>")

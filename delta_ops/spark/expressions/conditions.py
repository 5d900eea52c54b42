"""Conditions: which rows an operation is about, as Spark evaluates it.

A text is Spark's own SQL, whatever it says; what our expressions understand of it leaves out files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from delta_ops.errors import InvalidRequestError, UnknownColumnError
from delta_ops.protocol.expression import Expression, parse_expression
from delta_ops.protocol.expression.implication import implied_predicate
from delta_ops.protocol.expression.nodes import Column as ColumnNode
from delta_ops.protocol.expression.nodes import Node, columns_of, map_nodes
from delta_ops.protocol.expression.quotes import (
    condition_of_constants,
    validate_looks_at_rows,
    validate_quotes,
)
from delta_ops.protocol.expression.resolution import Find, Found, locate
from delta_ops.protocol.expression.statement_time import bind_time
from delta_ops.protocol.predicate import TRUE, Predicate
from delta_ops.protocol.predicate.text import predicate_text
from delta_ops.protocol.schema import BOOLEAN, INTEGER_RANGES, STRING, ColumnPath, StructType
from delta_ops.spark.empty_rows import empty_rows
from delta_ops.spark.expressions.analysis import analyze
from delta_ops.spark.expressions.column_text import sql_of
from delta_ops.spark.expressions.columns import matches
from delta_ops.spark.session.session import is_connect, session_time_zone
from delta_ops.spark.session.variables import escape_variables, names_like_variables

_UTC = frozenset({"UTC", "Etc/UTC", "GMT", "Z", "+00:00"})
_READ_OTHERWISE = (
    ("\\", "spark.sql.parser.escapedStringLiterals"),
    ('"', "spark.sql.ansi.doubleQuotedIdentifiers"),
    ("''", "spark.sql.legacy.consecutiveStringLiterals.enabled"),
    ('""', "spark.sql.legacy.consecutiveStringLiterals.enabled"),
)
"""What a text has that means something else with a setting; a variable is one without."""
_QUOTED_NAMES = ("spark.sql.ansi.enabled", "spark.sql.ansi.doubleQuotedIdentifiers")
"""Settings with which Spark reads names in double quotes."""
_ZONELESS = (*INTEGER_RANGES, BOOLEAN, STRING)
"""Types whose values have nothing to do with a time zone, as far as they matter here."""


@dataclass(frozen=True, slots=True)
class SparkCondition:
    """A condition as it is given: a text of SQL, an expression, or a column of Spark's."""

    given: str | Expression | Column
    sql: str | None = None
    """The text that Spark reads, where it is not the one given."""

    @property
    def text(self) -> str:
        """The condition in SQL, or as Spark shows a column that has no text there."""
        if isinstance(self.given, Column):
            return sql_of(self.given) or column_text(self.given)
        return self.given if isinstance(self.given, str) else self.given.text

    @property
    def column(self) -> Column:
        """The condition over columns that bear the names which it uses."""
        if isinstance(self.given, Column):
            return self.given
        return sf.expr(self.text if self.sql is None else self.sql)

    def naming(self, *schemas: StructType) -> SparkCondition:
        """The condition where these columns are, whose names are no variables of the session."""
        if not isinstance(self.given, str):
            return self
        sql = self.given if self.sql is None else self.sql
        return replace(self, sql=escape_variables(sql, names_like_variables(*schemas)))

    def expression_in(
        self, spark: SparkSession, schemas: Sequence[StructType]
    ) -> Expression | None:
        """What our expressions understand of it; None: nothing.

        Of a column of Spark's that is what `sql_of` can write. Where the session is not in UTC,
        nothing is said of dates and times, which mean others there, and nothing at all where its
        settings make another condition of the text.

        Args:
            spark: The session that evaluates it.
            schemas: The columns that it may look at.
        """
        text = sql_of(self.given) if isinstance(self.given, Column) else self.text
        if text is None or _reads_otherwise(spark, text if self.sql is None else self.sql):
            return None
        try:
            found = parse_expression(text)
        except InvalidRequestError:
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
    """Which rows of a table are meant."""

    text: str
    """The condition in SQL; "true" for all rows."""
    column: Column
    """Whether it is true, over the table's columns; false where it is null."""
    implied: Predicate
    """A predicate that is true wherever the condition is."""
    is_implied: bool
    """Whether the predicate says the same of every row."""
    is_stable: bool
    """Whether it is known to come to the same each time it is evaluated."""
    alias: str | None = None
    """What the rows may be called in it."""

    def apply_alias(self, rows: DataFrame) -> DataFrame:
        """The rows by their alias, as the condition takes them."""
        return rows if self.alias is None else rows.alias(self.alias)


def parse_condition(given: Any) -> SparkCondition:
    """What a caller gives for a condition.

    Raises:
        InvalidRequestError: It is none.
    """
    match given:
        case str() | Column():
            return SparkCondition(given)
        case Expression():  # what it says, it says without a session
            return SparkCondition(given, escape_variables(given.text))
    raise InvalidRequestError(
        f"a condition is of type {type(given).__name__}; give a text of SQL such as 'id = 1', an "
        "expression, or a Column"
    )


def own_condition(text: str) -> SparkCondition:
    """A condition of our own, in which there is no variable of the session."""
    return SparkCondition(text, escape_variables(text))


def join_conditions(conditions: Sequence[SparkCondition]) -> SparkCondition:
    """The condition that all of these are true, which are texts."""
    texts, read = (
        [each.text for each in conditions],
        [each.sql or each.text for each in conditions],
    )
    return SparkCondition(" AND ".join(texts), " AND ".join(read))


def condition_of(
    given: Predicate | Expression | Column | str | None,
    spark: SparkSession,
    schema: StructType,
    now_ms: int,
    table: str,
    alias: str | None = None,
) -> Condition:
    """The condition that a caller gives; None: all rows.

    Args:
        now_ms: Time of the statement, in milliseconds since the Unix epoch.
        table: For messages.
        alias: What the table may be called in it.

    Raises:
        InvalidRequestError: It does not fit the table, or is not the same each time.
    """
    if given is None or isinstance(given, Predicate):
        predicate = TRUE if given is None else given
        return Condition(
            text="true" if predicate == TRUE else predicate_text(predicate),
            column=matches(predicate, schema),
            implied=predicate,
            is_implied=True,
            is_stable=True,
            alias=alias,
        )
    parsed = parse_condition(given).naming(schema)
    empty = empty_rows(spark, schema)
    rows = empty.alias(alias) if alias else empty
    is_stable = validate_condition(parsed, rows, table, finder_with_alias(schema, alias))
    expression = parsed.expression_in(spark, [schema])
    return Condition(
        text=parsed.text,
        column=is_true(parsed.column),
        implied=TRUE
        if expression is None
        else implied_predicate(
            bind_time(_strip_alias(expression.root, alias, schema), now_ms), schema
        ),
        is_implied=False,
        is_stable=is_stable,
        alias=alias,
    )


def _reads_otherwise(spark: SparkSession, text: str) -> bool:
    """Whether the session may take a text for another one than our expressions do."""
    return "${" in text or any(
        mark in text and (spark.conf.get(setting, None) or "").lower() == "true"
        for mark, setting in _READ_OTHERWISE
    )


def _strip_alias(node: Node, alias: str | None, schema: StructType) -> Node:
    """An expression whose columns go without the alias of their table."""

    def strip(each: Node) -> Node | None:
        if not isinstance(each, ColumnNode) or alias is None or len(each.path) == 1:
            return None
        first, second, *_ = (name.lower() for name in each.path)
        is_alias = first == alias.lower() and second in schema.fields_by_lower_name
        return ColumnNode(each.path[1:]) if is_alias else None

    return map_nodes(node, strip)


def is_true(condition: Column) -> Column:
    """Whether a condition is true; false where it is null.

    Spark does not hand this form to the Parquet reader, which leaves out row groups by statistics
    that may not know of NaN.
    """
    return sf.coalesce(condition, sf.lit(False))


def finder_with_alias(schema: StructType, alias: str | None) -> Find:
    """How to find the columns of a table, whose alias may stand before their names."""

    def find(path: ColumnPath) -> Found:
        if alias is not None and len(path) > 1 and path[0].lower() == alias.lower():
            with suppress(UnknownColumnError):
                return locate(path[1:], schema)
        return locate(path, schema)

    return find


def validate_condition(condition: SparkCondition, rows: DataFrame, table: str, find: Find) -> bool:
    """Refuse what is no condition over these rows, or is one of constants alone.

    Args:
        condition: As given.
        rows: None, with the columns that it may look at.
        table: For messages.
        find: Finds these columns.

    Returns:
        Whether it is known to come to the same each time it is evaluated.

    Raises:
        InvalidRequestError: With the reason.
    """
    spark = rows.sparkSession
    validate_names([condition.given], spark, find)
    found = analyze(condition.column, rows, must_be_true=True)
    if found.obstacle:
        raise InvalidRequestError(
            f"{table}: the condition {condition.text!r} cannot be used: {found.obstacle}"
        )
    if found.is_constant:
        raise condition_of_constants(condition.text)
    if is_connect(spark) and (expression := condition.expression_in(spark, [])) is not None:
        validate_looks_at_rows(expression)
    return found.is_stable


def validate_names(given: Iterable[Any], spark: SparkSession, find: Find) -> None:
    """Refuse names of columns in double quotes, where the session reads texts in them.

    Args:
        given: Conditions and values, of which texts of SQL, expressions and columns are looked at.
        spark: The session that evaluates them.
        find: Finds columns.

    Raises:
        InvalidRequestError: With both ways to write it.
    """
    settings = (spark.conf.get(each) or "" for each in _QUOTED_NAMES)
    if all(value.lower() == "true" for value in settings):
        return
    for each in given:
        if isinstance(each, str | Expression):
            validate_quotes(each if isinstance(each, str) else each.text, find)
        elif isinstance(each, Column):
            validate_quotes(sql_of(each) or "", find)


def column_text(column: Column) -> str:
    """A column as Spark shows it."""
    shown = str(column)
    return shown.removeprefix("Column<'").removesuffix("'>")

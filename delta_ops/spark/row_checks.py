"""Row checks: conditions that no row may meet, counted while Spark writes the rows.

Counting needs no second pass over the rows. Unlike an error raised in an expression, a count does
not depend on Spark's evaluation order. Rows that break a rule are written too, and the files are
then deleted.

Conditions of constraints and invariants are Spark SQL, so Spark parses them. They are validated
first: they may use only columns of the row, and nothing that differs between sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf

from delta_ops.errors import BrokenRuleError, InvalidRequestError
from delta_ops.protocol.expression.quotes import validate_rule
from delta_ops.protocol.row_rules import (
    ExpressionRule,
    Generated,
    NotNull,
    RowRule,
    describe_violation,
)
from delta_ops.protocol.schema import ArrayType, DataType, MapType, StructType
from delta_ops.protocol.schema.char_types import CharLengths, length_limits
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.spark.expressions.analysis import why_unusable
from delta_ops.spark.expressions.columns import named_column, quote
from delta_ops.spark.expressions.stored_sql import stored_sql
from delta_ops.spark.generated_columns import generated_text
from delta_ops.spark.schema import empty_rows
from delta_ops.spark.session.variables import escape_variables
from delta_ops.spark.versions import figures_of, reports_one_observation

NUM_ROWS = "number of rows"
"""Name of a figure of an observation."""
_IsBroken = Callable[[Column], Column]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCheck:
    """A check of one rule."""

    num_broken: Column
    """An aggregate over the rows. It is 0 if all rows satisfy the rule."""
    message: str
    """The problem and its cure, without the table."""
    rule: RowRule | None = None
    """The table's rule; None for a check of this write only."""
    error_class: str | None = None
    """The reference's error class of rows that break no rule of the table."""


def counts_of(checks: Sequence[RowCheck]) -> list[Column]:
    """Number of rows that break each rule, as columns of an observation."""
    return [each.num_broken.alias(str(i)) for i, each in enumerate(checks)]


def observe_rows(
    frame: DataFrame, checks: Sequence[RowCheck], figures: Mapping[str, Column], table: str
) -> tuple[DataFrame, Callable[[], Mapping[str, Any]], Observation | None]:
    """Attach checks and figures to the rows of a write.

    Args:
        figures: Aggregates to compute over the rows, by name.

    Returns:
        The rows, and a function for after the write. It rejects broken checks and returns the
        figures. If Spark would lose a further observation of the write, the observation counts the
        rows too (`NUM_ROWS`), and is returned.
    """
    if not checks and not figures:
        return frame, dict, None
    observed = Observation()
    counted = observed if reports_one_observation(frame.sparkSession) else None
    aggregates = [each.alias(name) for name, each in figures.items()]
    if counted is not None:
        aggregates.append(count_rows())

    def judge() -> Mapping[str, Any]:
        found = figures_of(observed, table)
        _validate_counts(checks, found, table)
        return {name: found[name] for name in figures}

    return frame.observe(observed, *counts_of(checks), *aggregates), judge, counted


def count_rows() -> Column:
    """Number of rows, as a column of an observation."""
    return sf.count(sf.lit(1)).alias(NUM_ROWS)


def _validate_counts(checks: Sequence[RowCheck], counts: Mapping[str, Any], table: str) -> None:
    """Reject rows that break a rule.

    Raises:
        InvalidRequestError: Names the rule and the number of rows.
    """
    for i, check in enumerate(checks):
        if counts[str(i)]:
            message = f"{table}: {check.message} (rows: {counts[str(i)]})"
            if check.rule is None:
                raise InvalidRequestError(message, check.error_class)
            raise BrokenRuleError(message, str(check.rule))


def null_checks(schema: StructType, among: Column | None = None) -> Iterator[RowCheck]:
    """Checks for columns that must not be null.

    Args:
        among: Condition for rows to check. None: all rows.
    """
    for each in schema.fields:
        for path, is_broken in _required_fields(each.data_type, each.nullable, each.name):
            yield RowCheck(
                num_broken=_count(is_broken(named_column(each.name)), among),
                message=(
                    f"column {path} has a null, and the table says NOT NULL; fill in a value or "
                    "leave the row out"
                ),
                rule=NotNull(path),
            )


def length_checks(schema: StructType, among: Column | None = None) -> Iterator[RowCheck]:
    """Checks for strings with a maximum number of characters.

    Args:
        among: Condition for rows to check. None: all rows.
    """
    for each in schema.fields:
        limits = length_limits(each)
        if limits is None:
            continue
        for path, limit, is_broken in _limited_texts(each.data_type, limits, each.name):
            yield RowCheck(
                num_broken=_count(is_broken(named_column(each.name)), among),
                message=(
                    f"column {path} holds at most {limit} characters, but a value has more; "
                    "shorten it or leave the row out. Nothing was committed"
                ),
                error_class="DELTA_EXCEED_CHAR_VARCHAR_LIMIT",
            )


def expression_checks(
    definition: TableDefinition,
    spark: SparkSession,
    table: str,
    rules: Sequence[RowRule] | None = None,
    among: Column | None = None,
) -> Iterator[RowCheck]:
    """Checks for CHECK constraints, invariants and generated columns of the table.

    Args:
        rules: Rules to check. None: all rules of the table.
        among: Condition for rows to check. None: all rows.

    Raises:
        InvalidRequestError: An expression needs more than the table's columns, or its result
            depends on the session.
    """
    wanted = definition.row_rules if rules is None else rules
    of_expressions = [each for each in wanted if isinstance(each, ExpressionRule)]
    if not of_expressions:
        return
    conditions = validate_expressions(of_expressions, definition, spark, table)
    for rule, condition in zip(of_expressions, conditions, strict=True):
        yield RowCheck(
            num_broken=_count(~sf.coalesce(sf.expr(condition), sf.lit(False)), among),
            message="; ".join(describe_violation(rule)),
            rule=rule,
        )


def validate_expressions(
    rules: Sequence[ExpressionRule], definition: TableDefinition, spark: SparkSession, table: str
) -> list[str]:
    """Return Spark SQL conditions that are true for rows that satisfy the rules.

    Raises:
        InvalidRequestError: An expression needs more than the table's columns, or its result
            depends on the session.
    """
    empty = empty_rows(spark, definition.schema)
    return [_validated_condition(rule, definition, empty, table) for rule in rules]


def _validated_condition(
    rule: ExpressionRule, definition: TableDefinition, empty: DataFrame, table: str
) -> str:
    """Condition of a rule; rejects a condition that does not depend on the columns alone."""
    validate_rule(rule, definition.schema, table)
    condition = _condition_of(rule, definition, empty.sparkSession)
    if reason := why_unusable(condition, empty, must_be_true=True):
        raise InvalidRequestError(
            f"{table}: {rule} ({rule.expression}) cannot be checked: {reason}. Drop it, or "
            "write with the engine that added it"
        )
    return condition


def _count(is_broken: Column, among: Column | None) -> Column:
    return sf.count_if(is_broken if among is None else among & is_broken)


def _condition_of(rule: ExpressionRule, definition: TableDefinition, spark: SparkSession) -> str:
    """Spark SQL condition that is true for rows that satisfy the rule."""
    if isinstance(rule, Generated):
        value = generated_text(rule, definition, spark)
        return f"{escape_variables(quote(rule.column))} <=> {value}"
    return stored_sql(rule.expression or "", spark)


def checked_rules(checks: Sequence[RowCheck]) -> frozenset[RowRule]:
    """Rules that hold for all rows if the checks find nothing."""
    return frozenset(each.rule for each in checks if each.rule is not None)


def _required_fields(
    data_type: DataType, nullable: bool, path: str
) -> Iterator[tuple[str, _IsBroken]]:
    """Paths that must not be null in this type, each with a condition that it is null.

    A required field may be null if its parent is null. The conditions themselves are never null.
    """
    if not nullable:
        yield path, Column.isNull
    match data_type:
        case StructType(fields=fields):
            for each in fields:
                for inner, is_broken in _required_fields(
                    each.data_type, each.nullable, f"{path}.{each.name}"
                ):
                    yield inner, partial(breaks_in_field, each.name, is_broken)
        case ArrayType(element_type=element_type, contains_null=contains_null):
            for inner, is_broken in _required_fields(
                element_type, contains_null, f"{path}.element"
            ):
                yield inner, partial(breaks_in_any, _elements, is_broken)
        case MapType(key_type=key_type, value_type=value_type, value_contains_null=contains_null):
            # Map keys are never null in Spark, and Delta has no nullability for them.
            for inner, is_broken in _required_fields(key_type, True, f"{path}.key"):
                yield inner, partial(breaks_in_any, sf.map_keys, is_broken)
            for inner, is_broken in _required_fields(value_type, contains_null, f"{path}.value"):
                yield inner, partial(breaks_in_any, sf.map_values, is_broken)


def _limited_texts(
    data_type: DataType, limits: CharLengths, path: str
) -> Iterator[tuple[str, int, _IsBroken]]:
    """Paths of strings with a maximum length, each with its limit.

    The third value is a condition that the string is longer. It is never null.
    """
    if isinstance(limits, int):
        yield path, limits, partial(_is_longer, limits)
        return
    match data_type:
        case StructType(fields=fields):
            for each in fields:
                if inner := limits.get(each.name):
                    for found, limit, is_broken in _limited_texts(
                        each.data_type, inner, f"{path}.{each.name}"
                    ):
                        yield found, limit, partial(breaks_in_field, each.name, is_broken)
        case ArrayType(element_type=element_type):
            for found, limit, is_broken in _limited_texts(
                element_type, limits["element"], f"{path}.element"
            ):
                yield found, limit, partial(breaks_in_any, _elements, is_broken)
        case MapType(key_type=key_type, value_type=value_type):
            members = (("key", key_type, sf.map_keys), ("value", value_type, sf.map_values))
            for name, member_type, of_map in members:
                if inner := limits.get(name):
                    for found, limit, is_broken in _limited_texts(
                        member_type, inner, f"{path}.{name}"
                    ):
                        yield found, limit, partial(breaks_in_any, of_map, is_broken)


def _is_longer(limit: int, text: Column) -> Column:
    return sf.coalesce(sf.length(text) > limit, sf.lit(False))


def breaks_in_field(name: str, is_broken: _IsBroken, value: Column) -> Column:
    """Whether a field of a struct breaks a rule; false for a null struct."""
    return value.isNotNull() & is_broken(value.getField(name))


def breaks_in_any(
    elements: Callable[[Column], Column], is_broken: _IsBroken, value: Column
) -> Column:
    """Whether an element of a collection breaks a rule; false for a null collection."""
    return sf.coalesce(sf.exists(elements(value), is_broken), sf.lit(False))


def _elements(value: Column) -> Column:
    return value

"""Row checks: validate Arrow data against the rules for every row of a table.

Source: PROTOCOL.md, "Column Invariants" (NOT NULL), "Generated Columns", `protocol.row_rules`.

Only values count, not the nullability of the Arrow types. A required value may be null if its
parent is null. An Arrow text column can hold bytes that are not UTF-8, and Parquet accepts them:
the file would be written, and other readers would fail on it.

Expressions of constraints, invariants and generated columns must be in the dialect of
`docs/predicates.md` and `docs/expressions.md`, which has the same meaning in Spark. Other
expressions are rejected before a file is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arrow.acero import evaluate
from delta_ops.arrow.char_columns import find_longer
from delta_ops.arrow.expressions.evaluation import (
    equal_null_safely,
    evaluate_condition,
    rows_of_batch,
)
from delta_ops.arrow.generated_columns import plan_generated
from delta_ops.arrow.nesting import entries
from delta_ops.error_texts import first_line, value_text
from delta_ops.errors import BrokenRuleError, InvalidRequestError
from delta_ops.protocol.arrow_values import FALSE_SCALAR
from delta_ops.protocol.expression import parse_expression
from delta_ops.protocol.expression.quotes import validate_rule
from delta_ops.protocol.expression.resolution import finder_of, resolve_condition
from delta_ops.protocol.predicate import parse_predicate, resolve, to_arrow
from delta_ops.protocol.row_rules import (
    ExpressionRule,
    Generated,
    MaxLength,
    NotNull,
    describe_violation,
    not_null_rules,
)
from delta_ops.protocol.schema import (
    STORED_VARIANT,
    VARIANT,
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    walk,
)
from delta_ops.protocol.schema.char_types import CharLengths, length_limits
from delta_ops.protocol.table_definition import TableDefinition

Checks = Mapping[ExpressionRule | MaxLength, Callable[[pa.RecordBatch], None]]
"""Validators by rule; each raises for a batch with a row that breaks its rule."""
_Filter = Callable[[pa.RecordBatch], pa.RecordBatch]
_Rows = TypeVar("_Rows", pa.RecordBatch, pa.Table)
_SHOWN_COLUMNS = 20


def validate_values(rows: pa.RecordBatch, table: str) -> None:
    """Reject values that their type does not allow, such as text that is not UTF-8.

    Args:
        rows: Rows of any types.
        table: For the message.

    Raises:
        InvalidRequestError: A column has such a value; the message names the column.
    """
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            reason = first_line(error)
            raise InvalidRequestError(
                f"{table}: column {name} has a value that its type does not allow ({reason}); "
                "change it or leave the row out. Store bytes that are not UTF-8 in a binary "
                "column, or decode them with their own encoding first"
            ) from error


def plan_checks(definition: TableDefinition, table: str) -> Checks:
    """Plan the validators for rules with an expression and for maximum lengths.

    Args:
        table: For messages.

    Raises:
        InvalidRequestError: This engine cannot evaluate an expression.
    """
    rules = [rule for rule in definition.row_rules if isinstance(rule, ExpressionRule)]
    limits = ((each, length_limits(each)) for each in definition.schema.fields)
    return {
        **{rule: plan_check(rule, definition, table) for rule in rules},
        **{
            MaxLength(field.name): partial(_validate_lengths, field.name, of_field, table)
            for field, of_field in limits
            if of_field is not None
        },
    }


def plan_check(
    rule: ExpressionRule, definition: TableDefinition, table: str
) -> Callable[[pa.RecordBatch], None]:
    """Plan the validator for one rule.

    Args:
        definition: The table with the rule's columns.
        table: For messages.

    Raises:
        InvalidRequestError: This engine cannot evaluate the rule's expression.
    """
    validate_rule(rule, definition.schema, table)
    find_broken = _plan_filter(rule, definition, table)
    problem, cure = describe_violation(rule)

    def validate(rows: pa.RecordBatch) -> None:
        broken = find_broken(rows)
        if len(broken):
            raise BrokenRuleError(
                f"{table}: {problem} (rows: {len(broken)} of a batch of {len(rows)}, the first: "
                f"{describe_row(broken)}); {cure}",
                str(rule),
            )

    return validate


def _validate_lengths(name: str, limits: CharLengths, table: str, rows: pa.RecordBatch) -> None:
    """Reject rows with a string that is longer than its column allows.

    Raises:
        InvalidRequestError: A string is too long; the message names the column.
    """

    def first_longer(some: pa.RecordBatch) -> tuple[str, int] | None:
        return next(find_longer(some.column(name), limits, name), None)

    found = first_longer(rows)
    if found is not None:
        path, limit = found
        broken = _first_broken(rows, lambda some: first_longer(some) is not None)
        raise BrokenRuleError(
            f"{table}: column {path} holds at most {limit} characters, but a value has more (the "
            f"first such row: {describe_row(broken)}); shorten it or leave the row out. Nothing "
            "was committed",
            str(MaxLength(name)),
        )


def _plan_filter(rule: ExpressionRule, definition: TableDefinition, table: str) -> _Filter:
    """Plan a filter that keeps the rows that break a rule."""
    try:
        if isinstance(rule, Generated):
            return _plan_comparison(rule, definition, table)
        return _plan_condition(rule.expression or "", definition)
    except InvalidRequestError as error:
        raise InvalidRequestError(
            f"{table}: {rule} ({rule.expression}) needs the Spark engine: {error} Write with "
            "delta_ops.spark"
        ) from error


def _plan_condition(text: str, definition: TableDefinition) -> _Filter:
    """Plan a filter that keeps the rows where a condition is false or null."""
    schema = definition.schema
    try:
        holds = to_arrow(resolve(parse_predicate(text), schema), schema)
    except InvalidRequestError:
        node = resolve_condition(parse_expression(text).root, finder_of(schema))
        return lambda rows: rows.filter(pc.invert(evaluate_condition(node, rows_of_batch(rows))))
    is_broken = ~pc.if_else(pc.is_null(holds), FALSE_SCALAR, holds)
    return lambda rows: rows.filter(evaluate(is_broken, rows))


def _plan_comparison(rule: Generated, definition: TableDefinition, table: str) -> _Filter:
    """Plan a filter that keeps the rows whose value differs from the expression's value."""
    values = plan_generated(rule, definition, table)

    def find_broken(rows: pa.RecordBatch) -> pa.RecordBatch:
        [made] = values.evaluate(rows_of_batch(rows))
        return rows.filter(pc.invert(equal_null_safely(rows.column(rule.column), made)))

    return find_broken


def describe_row(rows: pa.RecordBatch | pa.Table) -> str:
    """Describe the first row, for messages."""
    names = rows.schema.names
    shown = [f"{name} = {_text(rows[name][0])}" for name in names[:_SHOWN_COLUMNS]]
    return ", ".join(shown) + (", ..." if len(names) > _SHOWN_COLUMNS else "")


def _text(value: pa.Scalar) -> str:
    try:
        return value_text(value.as_py())
    except (OverflowError, ValueError):  # Python's types cannot hold the value
        return value_text(value)


def has_required_values(schema: StructType) -> bool:
    """Return whether anything must not be null: a column, or a part of a variant."""
    types = (data_type for _, data_type in walk(schema))
    return bool(not_null_rules(schema)) or VARIANT in types


def validate_rows(rows: pa.Table, schema: StructType, table: str) -> None:
    """Reject rows with a null that the schema forbids.

    Args:
        rows: Rows with the schema's Arrow types; a column may be missing.
        schema: The table's schema.
        table: For the message.

    Raises:
        InvalidRequestError: There is such a null; the message names the column.
    """
    for field in schema.fields:
        if has_required_values(StructType((field,))) and field.name in rows.column_names:
            _validate_required(rows, field, table)


def _validate_required(rows: pa.Table, field: StructField, table: str) -> None:
    path = _first_null(rows[field.name], field)
    if path is not None:
        broken = _first_broken(rows, lambda some: _first_null(some[field.name], field) is not None)
        raise BrokenRuleError(
            f"{table}: column {path} has a null, but is NOT NULL (the first such row: "
            f"{describe_row(broken)}); fill in a value or leave the row out",
            str(NotNull(path)),
        )


def _first_null(column: pa.ChunkedArray, field: StructField) -> str | None:
    """Return the path of a forbidden null, if any."""
    found = (
        path
        for chunk in column.chunks
        for path in _find_nulls(chunk, field.data_type, field.nullable, field.name)
    )
    return next(found, None)


def _first_broken(rows: _Rows, is_there: Callable[[_Rows], bool]) -> _Rows:
    """Find a row that breaks a rule by bisection; at least one row breaks it."""
    while len(rows) > 1:
        half = rows.slice(0, len(rows) // 2)
        rows = half if is_there(half) else rows.slice(len(half))
    return rows


def _find_nulls(array: Any, data_type: DataType, nullable: bool, path: str) -> Iterator[str]:
    """Yield the paths of forbidden nulls; the array must not have nulls caused by its parent."""
    if not nullable and array.null_count:
        yield path
    match data_type:
        case StructType(fields=fields):
            members = array.drop_null().flatten()
            for member, each in zip(members, fields, strict=True):
                yield from _find_nulls(member, each.data_type, each.nullable, f"{path}.{each.name}")
        case ArrayType(element_type=element_type, contains_null=contains_null):
            yield from _find_nulls(array.flatten(), element_type, contains_null, f"{path}.element")
        case PrimitiveType() if data_type == VARIANT:
            yield from _find_nulls(array, STORED_VARIANT, True, path)
        case MapType():
            keys, values = entries(array).flatten().flatten()
            yield from _find_nulls(keys, data_type.key_type, True, f"{path}.key")
            yield from _find_nulls(
                values, data_type.value_type, data_type.value_contains_null, f"{path}.value"
            )

"""Row rules: conditions that every row of a table must satisfy.

Source: PROTOCOL.md, "Column Invariants", "CHECK Constraints", "Generated Columns", "Identity
Columns".

The code that writes rows checks the rules and declares which rules it has checked. The code that
commits requires all of them. A constraint is satisfied if its expression is true; null violates it,
as false does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from delta_ops.protocol.schema import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    walk,
)

GENERATION_EXPRESSION = "delta.generationExpression"
"""Key of the column metadata that holds a generation expression."""
CONSTRAINTS = "delta.constraints."
"""Prefix of the property of a CHECK constraint; the constraint's name follows."""


@dataclass(frozen=True, slots=True)
class NotNull:
    """A column without nulls, except where its parent is null."""

    column: str
    """Dotted; below arrays and maps, parts are `element`, `key` and `value`."""

    def __str__(self) -> str:
        return f"NOT NULL {self.column}"


@dataclass(frozen=True, slots=True)
class Check:
    """A CHECK constraint: a predicate that every row must satisfy."""

    name: str
    expression: str
    """A condition of Spark SQL over the table's columns."""

    def __str__(self) -> str:
        return f"CHECK constraint {self.name}"


@dataclass(frozen=True, slots=True)
class Invariant:
    """A predicate that every row must satisfy, stored with a column."""

    column: str
    expression: str | None
    """A condition of Spark SQL over the table's columns; None if unreadable."""

    def __str__(self) -> str:
        return f"the invariant of column {self.column}"


@dataclass(frozen=True, slots=True)
class Generated:
    """A column computed from other columns."""

    column: str
    """Dotted; other engines generate only top-level columns."""
    expression: str | None
    """An expression of Spark SQL over the table's columns; None if unreadable."""

    def __str__(self) -> str:
        return f"generated column {self.column}"


@dataclass(frozen=True, slots=True)
class Identity:
    """An identity column; the schema holds its high-water mark."""

    column: str

    def __str__(self) -> str:
        return f"identity column {self.column}"


@dataclass(frozen=True, slots=True)
class MaxLength:
    """A string column with a maximum number of characters.

    A rule of Spark, not of the protocol: writers check it, commits do not require it.
    """

    column: str

    def __str__(self) -> str:
        return f"the length of column {self.column}"


ExpressionRule = Check | Invariant | Generated
RowRule = NotNull | ExpressionRule | Identity | MaxLength


def describe_violation(rule: ExpressionRule) -> tuple[str, str]:
    """The problem of rows that break a rule, and the cure, for messages."""
    if isinstance(rule, Generated):
        problem, cure = "differs from the value of its expression", "leave the column out"
    else:
        problem, cure = "is not true", "correct these rows or leave them out"
    return f"{rule} ({rule.expression}) {problem}", f"{cure}, nothing was committed"


def not_null_rules(schema: StructType) -> tuple[NotNull, ...]:
    """The NOT NULL rules of columns and nested fields."""
    return tuple(
        NotNull(path)
        for each in schema.fields
        for path in _required_paths(each.data_type, each.nullable, each.name)
    )


def rules_of_expressions(
    schema: StructType, configuration: Mapping[str, str]
) -> Iterator[Check | Invariant | Generated | Identity]:
    """All rules of a table except NOT NULL, CHECK constraints first.

    Args:
        configuration: `metaData.configuration`.
    """
    for key, expression in configuration.items():
        if key.lower().startswith(CONSTRAINTS):
            yield Check(key[len(CONSTRAINTS) :], expression)
    for path, field in _fields(schema):
        if not field.metadata:
            continue
        column = ".".join(path)
        if "delta.invariants" in field.metadata:
            yield Invariant(column, _invariant(field.metadata["delta.invariants"]))
        if GENERATION_EXPRESSION in field.metadata:
            expression = field.metadata[GENERATION_EXPRESSION]
            yield Generated(column, expression if isinstance(expression, str) else None)
        if any(key.startswith("delta.identity.") for key in field.metadata):
            yield Identity(column)


def counted_rules(rules: Iterable[RowRule]) -> frozenset[RowRule]:
    """The identity columns: writers generate their values, or take explicit values if allowed."""
    return frozenset(each for each in rules if isinstance(each, Identity))


def _invariant(text: Any) -> str | None:
    """The expression in `delta.invariants`, which the reference wraps in two JSON objects."""
    try:
        parsed = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None
    for key in ("expression", "expression"):
        parsed = parsed.get(key) if isinstance(parsed, dict) else None
    return parsed if isinstance(parsed, str) else None


def _required_paths(data_type: DataType, nullable: bool, path: str) -> Iterator[str]:
    if not nullable:
        yield path
    match data_type:
        case StructType(fields=fields):
            for each in fields:
                yield from _required_paths(each.data_type, each.nullable, f"{path}.{each.name}")
        case ArrayType(element_type=element_type, contains_null=contains_null):
            yield from _required_paths(element_type, contains_null, f"{path}.element")
        case MapType(key_type=key_type, value_type=value_type, value_contains_null=contains_null):
            # Map keys are never null themselves; their fields may be.
            yield from _required_paths(key_type, True, f"{path}.key")
            yield from _required_paths(value_type, contains_null, f"{path}.value")


def _fields(schema: StructType) -> Iterator[tuple[tuple[str, ...], StructField]]:
    """Every field at every depth, with its path."""
    root: tuple[tuple[str, ...], DataType] = ((), schema)
    for path, data_type in (root, *walk(schema)):
        if isinstance(data_type, StructType):
            for field in data_type.fields:
                yield (*path, field.name), field

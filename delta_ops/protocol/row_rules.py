"""Row rules: what a table demands of every row.

Source: PROTOCOL.md, "Column Invariants", "CHECK Constraints", "Generated Columns", "Identity
Columns".

Who writes rows checks the rules and attests which; who commits asks for all of them.
A constraint is kept where its expression is true; null breaks it, as false does.
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
"""The key in the metadata of a column under which the expression of its values stands."""
CONSTRAINTS = "delta.constraints."
"""How the property of a CHECK constraint begins; its name follows."""


@dataclass(frozen=True, slots=True)
class NotNull:
    """A column that has no nulls, but where its parent is null."""

    column: str
    """Dotted; below arrays and maps it goes on with `element`, `key` and `value`."""

    def __str__(self) -> str:
        return f"NOT NULL {self.column}"


@dataclass(frozen=True, slots=True)
class Check:
    """A CHECK constraint: a predicate that is true for every row."""

    name: str
    expression: str
    """A condition of Spark SQL over the table's columns."""

    def __str__(self) -> str:
        return f"CHECK constraint {self.name}"


@dataclass(frozen=True, slots=True)
class Invariant:
    """A predicate that is true for every row, kept with a column."""

    column: str
    expression: str | None
    """A condition of Spark SQL over the table's columns; None where it cannot be read."""

    def __str__(self) -> str:
        return f"the invariant of column {self.column}"


@dataclass(frozen=True, slots=True)
class Generated:
    """A column whose values follow from others."""

    column: str
    """Dotted; other engines make top-level ones only."""
    expression: str | None
    """An expression of Spark SQL over the table's columns; None where it cannot be read."""

    def __str__(self) -> str:
        return f"generated column {self.column}"


@dataclass(frozen=True, slots=True)
class Identity:
    """A column whose values are counted; the schema says how far."""

    column: str

    def __str__(self) -> str:
        return f"identity column {self.column}"


@dataclass(frozen=True, slots=True)
class MaxLength:
    """A column of strings that are declared to have so many characters at most.

    It is Spark's rule, not the protocol's: who writes rows keeps it, who commits does not ask.
    """

    column: str

    def __str__(self) -> str:
        return f"the length of column {self.column}"


RowRule = NotNull | Check | Invariant | Generated | Identity | MaxLength


def not_null_rules(schema: StructType) -> tuple[NotNull, ...]:
    """The columns of a schema that must not be null, at every depth."""
    return tuple(
        NotNull(path)
        for each in schema.fields
        for path in _required_paths(each.data_type, each.nullable, each.name)
    )


def rules_of_expressions(
    schema: StructType, configuration: Mapping[str, str]
) -> Iterator[Check | Invariant | Generated | Identity]:
    """The rules of a table beside NOT NULL, CHECK constraints first.

    Args:
        configuration: `metaData.configuration`.
    """
    for key, expression in configuration.items():
        if key.lower().startswith(CONSTRAINTS):
            yield Check(key[len(CONSTRAINTS) :], expression)
    for path, field in _fields(schema):
        column = ".".join(path)
        if "delta.invariants" in field.metadata:
            yield Invariant(column, _invariant(field.metadata["delta.invariants"]))
        if GENERATION_EXPRESSION in field.metadata:
            expression = field.metadata[GENERATION_EXPRESSION]
            yield Generated(column, expression if isinstance(expression, str) else None)
        if any(key.startswith("delta.identity.") for key in field.metadata):
            yield Identity(column)


def counted_rules(rules: Iterable[RowRule]) -> frozenset[RowRule]:
    """The identity columns: their values are counted, or given where that is allowed."""
    return frozenset(each for each in rules if isinstance(each, Identity))


def _invariant(text: Any) -> str | None:
    """The expression in `delta.invariants`, which the reference wraps twice."""
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
            # A key is never null to begin with; what is in it may be.
            yield from _required_paths(key_type, True, f"{path}.key")
            yield from _required_paths(value_type, contains_null, f"{path}.value")


def _fields(schema: StructType) -> Iterator[tuple[tuple[str, ...], StructField]]:
    """Every field at every depth with its path."""
    root: tuple[tuple[str, ...], DataType] = ((), schema)
    for path, data_type in (root, *walk(schema)):
        if isinstance(data_type, StructType):
            for field in data_type.fields:
                yield (*path, field.name), field

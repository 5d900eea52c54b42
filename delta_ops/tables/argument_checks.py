"""Argument checks: validates arguments with the exception types and messages of delta-spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from pyspark.sql import Column

from delta_ops.spark.expressions.conditions import SparkCondition

ColumnOrText: TypeAlias = "Column | str"
"""An expression: Spark SQL text or a Column."""


def check_condition(value: Any) -> SparkCondition | None:
    """Return a condition or None; other types are an error.

    As in delta-spark, the condition may have constants only.
    """
    if value is None:
        return None
    if isinstance(value, Column | str):
        source = str.__str__(value) if isinstance(value, str) else value
        return SparkCondition(source, may_be_constant=True)
    raise TypeError(
        "'condition' must be a Spark SQL Column or a string of Spark SQL; its type is "
        f"{type(value).__name__}"
    )


def check_assignments(value: Any, argument: str) -> dict[str, ColumnOrText]:
    """Return a dict of expressions by column; other values are an error.

    Args:
        argument: Name of the argument in errors.
    """
    if value is None:
        raise ValueError(f"{argument} cannot be None; give a dict of expressions by column")
    if not isinstance(value, dict):
        raise TypeError(f"{argument} must be a dict; it is of type {type(value).__name__}")
    for name, expression in value.items():
        if not isinstance(name, str):
            raise TypeError(
                f"Keys of dict in {argument} must contain only column names; found {name!r} of "
                f"type {type(name).__name__}"
            )
        if not isinstance(expression, Column | str):
            raise TypeError(
                f"Values of dict in {argument} must contain only Spark SQL Columns or strings of "
                f"Spark SQL; found {expression!r} of type {type(expression).__name__}"
            )
    return {
        name: str.__str__(each) if isinstance(each, str) else each for name, each in value.items()
    }


def require_type(value: Any, kind: type, argument: str, expected: str) -> None:
    """Raise ValueError unless a value has the expected type."""
    if not isinstance(value, kind):
        raise ValueError(f"{argument} needs to be {expected} but got '{type(value)}'.")


def check_text(value: Any, argument: str) -> str:
    """Return a string; other types are an error.

    Args:
        argument: Name of the argument in errors.
    """
    if not isinstance(value, str):
        raise TypeError(f"{argument} must be str; found {value!r} of type {type(value).__name__}")
    return value


def check_names(values: Iterable[Any], argument: str) -> tuple[str, ...]:
    """Return column names that were passed one by one or as one list.

    Args:
        argument: Name of each item in errors.
    """
    match values:
        case [list() | tuple() as listed]:
            return tuple(check_text(each, argument) for each in listed)
    return tuple(check_text(each, argument) for each in values)


def check_properties(value: Any) -> Mapping[str, str]:
    """Return table properties; empty for None."""
    if value is None:
        return {}
    require_type(value, dict, "properties", "a dict")
    for name, text in value.items():
        require_type(name, str, f"All property keys including {name}", "a string")
        require_type(text, str, f"All property values including {text}", "a string")
    return dict(value)

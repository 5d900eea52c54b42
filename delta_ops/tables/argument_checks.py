"""Given: what callers give to the methods of delta-spark, refused with its types of errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from pyspark.sql import Column

ColumnOrText: TypeAlias = "Column | str"
"""An expression: a text of Spark's SQL, or a Column."""


def condition(given: Any) -> ColumnOrText | None:
    """A condition; None is none."""
    if given is None or isinstance(given, Column | str):
        return given
    raise TypeError(
        "'condition' must be a Spark SQL Column or a string of Spark's SQL; it is of type "
        f"{type(given).__name__}"
    )


def assignments(given: Any, argument: str) -> dict[str, ColumnOrText]:
    """Expressions by column.

    Args:
        argument: For messages.
    """
    if given is None:
        raise ValueError(f"{argument} cannot be None; give a dict of expressions by column")
    if not isinstance(given, dict):
        raise TypeError(f"{argument} must be a dict; it is of type {type(given).__name__}")
    for name, value in given.items():
        if not isinstance(name, str):
            raise TypeError(
                f"Keys of dict in {argument} must contain only names of columns; found {name!r} of "
                f"type {type(name).__name__}"
            )
        if not isinstance(value, Column | str):
            raise TypeError(
                f"Values of dict in {argument} must contain only Spark SQL Columns or strings of "
                f"Spark's SQL; found {value!r} of type {type(value).__name__}"
            )
    return dict(given)


def require_type(given: Any, kind: type, argument: str, words: str) -> None:
    """Refuse what is of another type, as the methods do that take a version or a time."""
    if not isinstance(given, kind):
        raise ValueError(f"{argument} needs to be {words} but got '{type(given)}'.")


def text(given: Any, words: str) -> str:
    """A text.

    Args:
        words: What it is, for messages.
    """
    if not isinstance(given, str):
        raise TypeError(f"{words} must be str; found {given!r} of type {type(given).__name__}")
    return given


def names(given: Iterable[Any], words: str) -> tuple[str, ...]:
    """Names of columns, given one by one or as one list.

    Args:
        words: What each is, for messages.
    """
    match given:
        case [list() | tuple() as listed]:
            return tuple(text(each, words) for each in listed)
    return tuple(text(each, words) for each in given)


def properties(given: Any) -> Mapping[str, str]:
    """Table properties; None is none."""
    if given is None:
        return {}
    require_type(given, dict, "properties", "a dict")
    for name, value in given.items():
        require_type(name, str, f"All property keys including {name}", "a string")
        require_type(value, str, f"All property values including {value}", "a string")
    return dict(given)

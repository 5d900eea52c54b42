"""The predicate: selects rows of a table; build and import it here.

    (col("day") >= "2026-01-01") & col("country").isin(["NL", "BE"])

Three-valued logic as in Spark: a comparison with null is null, and a row matches only if the
predicate is true. NaN equals NaN and is greater than every number, -0.0 equals 0.0, and texts are
ordered by their UTF-8 bytes. `col("a.b")` and `col("a", "b")` are the field b of the struct a. Put
a name with a dot in backticks, or pass the names separately. `resolve` gives literals their types;
see `literals` for the values that fit a column. `parse_predicate("day >= '2026-01-01'")` builds the
same predicate from text, a subset of Spark SQL.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from delta_ops.errors import InvalidRequestError
from delta_ops.late_imports import importing
from delta_ops.protocol.predicate.files import (
    Kept,
    count_unbounded,
    might_match,
    might_match_by_step,
    must_match,
)
from delta_ops.protocol.predicate.nodes import (
    Always,
    And,
    Comparison,
    In,
    IsNull,
    Not,
    Operator,
    Or,
    Predicate,
)
from delta_ops.protocol.predicate.resolution import columns, resolve
from delta_ops.protocol.predicate.rows import to_arrow
from delta_ops.protocol.schema.column_names import name_of_column, split_name, unquote
from delta_ops.protocol.values.plain_values import UnfitValueError, plain_value

__all__ = [
    "TRUE",
    "Always",
    "And",
    "Column",
    "Comparison",
    "In",
    "IsNull",
    "Kept",
    "Not",
    "Operator",
    "Or",
    "Predicate",
    "all_of",
    "col",
    "columns",
    "count_unbounded",
    "might_match",
    "might_match_by_step",
    "must_match",
    "parse_predicate",
    "resolve",
    "to_arrow",
]

TRUE = Always(True)
"""Matches every row."""


def col(name: str, *fields: str) -> Column:
    """A column, or a field of a struct column, to compare with literals.

    Args:
        name: As in SQL: `a.b` is the field b of a; backticks enclose a name with a dot.
        fields: Nested fields. With them, every name is taken literally, including dots.

    Examples:
        >>> wanted = (col("country") == "NL") & (col("price") > 10)
        >>> da.to_table("lake/orders", predicate=wanted)["id"].to_pylist()
        [3]
        >>> da.count_rows("lake/orders", col("id").isin([1, 2]))
        2
    """
    if fields:
        return Column(tuple(map(unquote, (name, *fields))))
    try:
        return Column(split_name(name))
    except InvalidRequestError:  # the name has characters that need backticks in SQL
        return Column((name,))


def all_of(predicates: Iterable[Predicate]) -> Predicate:
    """A predicate that is true where all of these are true; `TRUE` if there are none."""
    combined = tuple(predicates)
    match combined:
        case ():
            return TRUE
        case (only,):
            return only
    return And(combined)


def parse_predicate(text: str) -> Predicate:
    """Parse a condition of Spark SQL; `docs/predicates.md` documents the subset.

    Names and literals are checked against the table's columns when the predicate is used.

    Raises:
        InvalidRequestError: The text is not a condition, or is outside the supported subset.

    Examples:
        >>> wanted = parse_predicate("country IN ('NL', 'LU') AND price BETWEEN 5 AND 15")
        >>> da.to_table("lake/orders", predicate=wanted)["id"].to_pylist()
        [1]
    """
    with importing():  # importing sqlglot is slow
        from delta_ops.protocol.predicate.sql import predicate_from_sql

    return predicate_from_sql(text)


def parse_literal(text: str) -> Any:
    """Parse a literal of Spark SQL; None is null.

    Raises:
        InvalidRequestError: The text is no literal.
    """
    with importing():
        from delta_ops.protocol.predicate.sql import literal_from_sql

    return literal_from_sql(text)


class Column:
    """A column in a comparison; comparing it makes a predicate."""

    __slots__ = ("path",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, path: tuple[str, ...]) -> None:
        self.path = path

    def __repr__(self) -> str:
        names = (name_of_column(self.path[0]),) if len(self.path) == 1 else self.path
        return f"col({', '.join(map(repr, names))})"

    def __eq__(self, value: object) -> Comparison:  # type: ignore[override]
        return self._compare("==", value)

    def __ne__(self, value: object) -> Comparison:  # type: ignore[override]
        return self._compare("!=", value)

    def __lt__(self, value: object) -> Comparison:
        return self._compare("<", value)

    def __le__(self, value: object) -> Comparison:
        return self._compare("<=", value)

    def __gt__(self, value: object) -> Comparison:
        return self._compare(">", value)

    def __ge__(self, value: object) -> Comparison:
        return self._compare(">=", value)

    def isin(self, values: Iterable[Any]) -> In | Always:
        """True where the column equals one of the values; without values false, even for null.

        Raises:
            InvalidRequestError: `values` is one text, or contains a column or predicate.
        """
        if isinstance(values, str | bytes):
            raise InvalidRequestError(f"{self!r}.isin takes a list of values, not {values!r}.")
        listed = tuple(None if each is None else self._literal(each) for each in values)
        return In(self.path, listed) if listed else Always(False)

    def is_null(self) -> IsNull:
        """True where the column is null, otherwise false."""
        return IsNull(self.path)

    def is_not_null(self) -> Not:
        """True where the column is not null, otherwise false."""
        return Not(IsNull(self.path))

    def __bool__(self) -> bool:
        raise InvalidRequestError(
            f"{self!r} is not a condition: compare it, as in {self!r} == True."
        )

    def _compare(self, operator: Operator, value: object) -> Comparison:
        if value is None:
            raise InvalidRequestError(
                f"{self!r} {operator} None is null for every row; "
                f"use {self!r}.is_null() or {self!r}.is_not_null()."
            )
        return Comparison(self.path, operator, self._literal(value))

    def _literal(self, value: object) -> object:
        if isinstance(value, Column | Predicate):
            raise InvalidRequestError(f"{self!r} can be compared with values only, not {value!r}.")
        try:
            return plain_value(value)
        except UnfitValueError as error:
            raise InvalidRequestError(
                f"{self!r} cannot be compared with {value!r}: {error}."
            ) from error

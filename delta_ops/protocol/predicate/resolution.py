"""Resolution: match the names and literals of a predicate with a schema."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from typing import NamedTuple

from delta_ops.errors import InvalidRequestError, UnknownColumnError
from delta_ops.protocol.predicate.nodes import (
    Always,
    And,
    Comparison,
    In,
    IsNull,
    Leaf,
    Not,
    Operator,
    Or,
    Predicate,
    leaves_of,
)
from delta_ops.protocol.schema import (
    DATE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ColumnPath,
    DataType,
    StructField,
    StructType,
    collation,
    find_field,
)
from delta_ops.protocol.schema.char_types import char_length
from delta_ops.protocol.schema.column_names import find_head, refuse_quoted_name
from delta_ops.protocol.values.literals import QuotedText, is_comparable, literal_of_type


def resolve(predicate: Predicate, schema: StructType) -> Predicate:
    """Spell names as in the schema, and convert literals to the columns' types.

    Resolving again changes nothing.

    Raises:
        InvalidRequestError: A column does not exist or cannot be compared; a literal does not fit
            its type, or is a name in double quotes; or the argument is no predicate.
    """
    match predicate:
        case Comparison(column, operator, value):
            path, found = locate_comparable(column, schema)
            _refuse_names((value,), schema)
            if found.data_type == DATE and isinstance(value, datetime):
                return _date_against_time(path, operator, _midnight_before(value, path))
            literals, width = _literals((value,), path, found, schema)
            return Comparison(path, operator, literals[0], found.data_type, width)
        case In(column, values):
            path, found = locate_comparable(column, schema)
            _refuse_names(values, schema)
            if found.data_type == DATE:
                return _date_in(path, values)
            literals, width = _literals(values, path, found, schema)
            return In(path, literals, found.data_type, width)
        case IsNull(column):
            path, found = locate(column, schema)
            return IsNull(path, found.data_type)
        case And(operands):
            return And(tuple(resolve(each, schema) for each in operands))
        case Or(operands):
            return Or(tuple(resolve(each, schema) for each in operands))
        case Not(operand):
            return Not(resolve(operand, schema))
        case Always():
            return predicate
    raise InvalidRequestError(
        f"{predicate!r} is not a predicate: compare a column, as in col('id') == 5, or parse a "
        "SQL condition with parse_predicate."
    )


def columns(predicate: Predicate) -> frozenset[str]:
    """The top-level columns that the predicate needs, spelled as in the predicate."""
    return frozenset(leaf.column[0] for leaf in leaves_of(predicate))


def resolved_type(leaf: Leaf) -> DataType:
    """The column type of a leaf in a resolved predicate."""
    assert leaf.data_type is not None, f"{leaf} is not resolved"
    return leaf.data_type


def locate_comparable(column: ColumnPath, schema: StructType) -> tuple[ColumnPath, StructField]:
    """The path and field of a column, spelled as in the schema.

    Raises:
        InvalidRequestError: The column does not exist or cannot be compared with literals.
    """
    path, found = locate(column, schema)
    if not is_comparable(found.data_type):
        fields = "compare one of its fields, or " if isinstance(found.data_type, StructType) else ""
        raise InvalidRequestError(
            f"Column {'.'.join(path)} of type {found.data_type.name} cannot be compared with a "
            f"value; {fields}test it for null."
        )
    if (name := collation(found)) is not None:
        # A comparison of bytes would miss rows, and files, that are equal by the collation.
        raise InvalidRequestError(
            f"Column {'.'.join(path)} has the collation {name}, which delta_ops cannot use in "
            "comparisons: read without this predicate and filter the rows, or test the column "
            "for null."
        )
    return path, found


def _literals(
    values: tuple[object, ...], path: ColumnPath, field: StructField, schema: StructType
) -> tuple[tuple[object, ...], int | None]:
    """Convert values to the column's type; also returns the length that CHAR values are padded to.

    For a top-level column, values are padded like the column.

    Source: Spark's `ApplyCharTypePadding`.
    """
    found = tuple(None if v is None else _literal(v, path, field.data_type) for v in values)
    width = char_length(path, find_field(schema, path[0]))
    if width is None or len(path) > 1:
        return found, width
    width = max([width, *(len(str(each)) for each in found if each is not None)])
    return tuple(None if each is None else str(each).ljust(width) for each in found), width


def _refuse_names(values: Iterable[object], schema: StructType) -> None:
    for each in values:
        if isinstance(each, QuotedText):
            refuse_quoted_name(each, lambda path: locate(path, schema))


def locate(column: ColumnPath, schema: StructType) -> tuple[ColumnPath, StructField]:
    """The path and field of a column, spelled as in the schema.

    Raises:
        UnknownColumnError: The column does not exist.
    """
    found = find_head(schema, column)
    if len(column) == 1:
        return (found.name,), found
    if not isinstance(found.data_type, StructType):
        raise UnknownColumnError(
            f"Column {found.name} is of type {found.data_type.name} and has no field {column[1]}."
        )
    path, field = locate(column[1:], found.data_type)
    return (found.name, *path), field


def _literal(value: object, path: ColumnPath, data_type: DataType) -> object:
    return literal_of_type(value, data_type, column=".".join(path))


class _Midnight(NamedTuple):
    """The start of a day, at or before a time."""

    day: date
    is_exact: bool
    """Whether the time is exactly midnight."""


def _midnight_before(time: datetime, path: ColumnPath) -> _Midnight:
    """The midnight at or before a time; an instant is taken in UTC."""
    zoned = time.tzinfo is not None
    local: datetime = _literal(time, path, TIMESTAMP if zoned else TIMESTAMP_NTZ)  # type: ignore[assignment]
    return _Midnight(local.date(), local.time() == datetime.min.time())


def _date_against_time(path: ColumnPath, operator: Operator, time: _Midnight) -> Predicate:
    """Compare a date with a time using only dates; Spark casts the date to its midnight."""
    day = time.day
    if time.is_exact:
        return Comparison(path, operator, day, DATE)
    up_to, after = Comparison(path, "<=", day, DATE), Comparison(path, ">", day, DATE)
    match operator:
        case "<" | "<=":
            return up_to
        case ">" | ">=":
            return after
        case "==":
            return And((up_to, after))  # false, or null if the date is null
        case "!=":
            return Or((up_to, after))


def _date_in(path: ColumnPath, values: tuple[object, ...]) -> Predicate:
    """Match dates and times in a list; a time other than midnight equals no date."""
    times = [_midnight_before(v, path) for v in values if isinstance(v, datetime)]
    others = [v for v in values if not isinstance(v, datetime)]
    listed = [None if v is None else _literal(v, path, DATE) for v in others]
    listed += [time.day for time in times if time.is_exact]
    if times and not listed:
        return _date_against_time(path, "==", times[0])
    return In(path, tuple(listed), DATE)

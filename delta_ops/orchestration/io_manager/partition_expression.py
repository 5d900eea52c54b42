"""Partition expressions: a column, or a function of a column, that decides a row's partition.

The syntax is Spark SQL's: `at`, `` `departed at` ``, `place.day`, `date(at)`, `to_date(at)`,
`CAST(at AS DATE)`, `date_trunc('hour', at)`, `year(at)`, `timestamp_seconds(n)`,
`timestamp_millis(n)`, `timestamp_micros(n)`. Instants are converted in UTC.

Each function is monotonic: a range of its values is a range of the column, so data skipping works.
Other functions are not supported for this reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import PrimitiveType, StructField, StructType, find_field

_NAME = r"`(?:[^`]|``)+`|\w+"
_PATH = rf"(?P<path>(?:{_NAME})(?:\s*\.\s*(?:{_NAME}))*)"
_FORMS = tuple(
    re.compile(rf"\s*{form}\s*", re.IGNORECASE)
    for form in (
        _PATH,
        rf"(?P<function>date|to_date|year|timestamp_(?:seconds|millis|micros))\s*\(\s*{_PATH}\s*\)",
        rf"cast\s*\(\s*{_PATH}\s+as\s+(?P<function>date)\s*\)",
        rf"(?P<function>date_trunc)\s*\(\s*'(?P<unit>\w+)'\s*,\s*{_PATH}\s*\)",
    )
)
_UNITS = ("year", "month", "day", "hour", "minute", "second")
_PER_SECOND = {
    "timestamp_seconds": 1,
    "timestamp_millis": 1_000,
    "timestamp_micros": 1_000_000,
}
_INTEGERS = ("byte", "short", "integer", "long")
_TIMES = ("timestamp", "timestamp_ntz", "date")
_OF_FOLDERS = (*_INTEGERS, "date", "string", "boolean")
"""Types of partition columns with few values."""
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionExpression:
    """A column, or a monotonic function of a column."""

    text: str
    path: tuple[str, ...]
    """Path of the column, or of the field of a struct."""
    type_name: str
    """Type of the values: `date`, `timestamp`, `string`, `integer`, ...; "" for a nested type."""
    first: Callable[[Any], Any] | None
    """Returns the least column value whose function value is at least the given value. None: the
    expression is the column itself."""

    @property
    def is_integer(self) -> bool:
        """Whether the values are whole numbers."""
        return self.type_name in _INTEGERS


def parse_expression(text: str, schema: StructType) -> PartitionExpression:
    """Parse an expression over these columns.

    Raises:
        InvalidRequestError: The expression is not supported, or its column does not exist or has
            another type.
    """
    path, function, unit = _parse_over(text, schema)
    column_type = _type_name(text, path, schema)
    if function is None:
        return PartitionExpression(text=text, path=path, type_name=column_type, first=None)
    type_name, first = _function(text, function, unit, column_type)
    return PartitionExpression(text=text, path=path, type_name=type_name, first=first)


def partition_columns(expressions: Sequence[str], schema: StructType) -> tuple[str, ...]:
    """The columns of these expressions that a new table can have as partition columns.

    Left out are instants and decimal fractions, because each value would be a folder, fields of
    structs, and functions of a column. Empty if the table would have no other columns.
    """
    names = []
    for text in expressions:
        path, function, _ = _parse_over(text, schema)
        if function is None and len(path) == 1:
            field = _find(text, path[0], schema)
            data_type = field.data_type
            if isinstance(data_type, PrimitiveType) and data_type.name in _OF_FOLDERS:
                names.append(field.name)
    return tuple(dict.fromkeys(names)) if len(set(names)) < len(schema.fields) else ()


def next_value(value: Any) -> Any:
    """The least value after a date, an instant or a whole number."""
    if isinstance(value, datetime):
        return value + _MICROSECOND
    return value + timedelta(days=1) if isinstance(value, date) else value + 1


def _parse_over(text: str, schema: StructType) -> tuple[tuple[str, ...], str | None, str | None]:
    """Parse an expression; a string that does not parse may be the exact name of a column.

    Returns:
        Column path, function and unit.
    """
    is_name = text.lower() in schema.fields_by_lower_name
    try:
        parsed = _parse(text)
        _type_name(text, parsed[0], schema)
    except InvalidRequestError:
        if not is_name:
            raise
        return (text,), None, None
    return parsed


def _parse(text: str) -> tuple[tuple[str, ...], str | None, str | None]:
    for form in _FORMS:
        if found := form.fullmatch(text):
            groups = found.groupdict()
            names = [name.strip() for name in re.findall(_NAME, groups["path"])]
            path = tuple(n[1:-1].replace("``", "`") if n[0] == "`" else n for n in names)
            function = groups.get("function")
            return path, function.lower() if function else None, groups.get("unit")
    raise InvalidRequestError(
        f"partition_expr {text!r} is not supported; give a column, or date(column), "
        "date_trunc('hour', column), year(column), timestamp_seconds(column), "
        "timestamp_millis(column) or timestamp_micros(column)"
    )


def _type_name(text: str, path: tuple[str, ...], schema: StructType) -> str:
    for name in path[:-1]:
        inner = _find(text, name, schema).data_type
        if not isinstance(inner, StructType):
            raise InvalidRequestError(
                f"partition_expr names a field of {name!r}, which is not a struct; put a column "
                "name with a dot in backticks"
            )
        schema = inner
    data_type = _find(text, path[-1], schema).data_type
    return data_type.name if isinstance(data_type, PrimitiveType) else ""


def _find(text: str, name: str, schema: StructType) -> StructField:
    try:
        return find_field(schema, name)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"partition_expr {text!r} matches no column. {error}") from error


def _function(
    text: str, function: str, unit: str | None, column_type: str
) -> tuple[str, Callable[[Any], Any]]:
    match function:
        case "date" | "to_date" if column_type in (*_TIMES, "string"):
            return "date", lambda day: _column_value(column_type, _midnight(day))
        case "year" if column_type in (*_TIMES, "string"):
            return "integer", lambda y: _column_value(column_type, datetime(y, 1, 1, tzinfo=UTC))
        case "date_trunc" if unit and unit.lower() in _UNITS and column_type in _TIMES:
            kept = unit.lower()
            type_name = "timestamp" if column_type == "date" else column_type
            return type_name, lambda time: _column_value(column_type, _round_up(time, kept))
        case _ if function in _PER_SECOND and column_type in _INTEGERS:
            ticks = _PER_SECOND[function]
            return "timestamp", lambda time: -((_EPOCH - time) // _MICROSECOND * ticks // 10**6)
    raise InvalidRequestError(
        f"partition_expr {text!r} cannot be used on a column of type {column_type or 'struct'}; "
        f"date and year need times, dates or strings such as 2026-01-31; date_trunc needs times or "
        f"dates and the unit {', '.join(_UNITS)}; timestamp_seconds needs whole numbers"
    )


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _column_value(column_type: str, time: datetime) -> Any:
    """The least value of a column at or after a time."""
    match column_type:
        case "timestamp_ntz":
            return time.replace(tzinfo=None)
        case "date":
            day = time.date()
            return day if time == _midnight(day) else day + timedelta(days=1)
        case "string":
            return time.date().isoformat()
    return time


def _round_up(time: datetime, unit: str) -> datetime:
    """Round a time up to a whole unit, in UTC."""
    time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    lesser: Mapping[str, Any] = {"month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0}
    kept = _UNITS[: _UNITS.index(unit) + 1]
    start = time.replace(
        microsecond=0, **{name: least for name, least in lesser.items() if name not in kept}
    )
    if start == time:
        return time
    match unit:
        case "year":
            return start.replace(year=start.year + 1)
        case "month":
            return start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)
    return start + timedelta(**{f"{unit}s": 1})

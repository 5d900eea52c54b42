"""Values: convert a user's value to a Delta type, the same way for both engines.

A conversion never changes the value: nothing is truncated, rounded or parsed. A value that does not
fit is rejected with its path, such as `s.a`. A number may get another numeric type that can hold
the same number. FLOAT and DOUBLE also accept a decimal whose digits are the shortest form of the
result: 0.1 is a valid FLOAT; 16777217 is not, because the nearest FLOAT is 16777216. A struct is a
dict by field names. It must have all fields if the row would otherwise lose the values of missing
fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isnan
from numbers import Integral, Real
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.error_texts import value_text
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.arrow_values import TRUE_SCALAR, array_of
from delta_ops.protocol.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER_RANGES,
    STORED_VARIANT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
    find_field,
)
from delta_ops.protocol.values.partition_values import (
    decimal_of_type,
    is_utf8,
    round_to_float,
    shortest_float,
)
from delta_ops.protocol.values.plain_values import UnfitValueError, elements_of, plain_value

_CURES: Mapping[DataType, str] = {
    BOOLEAN: "give True or False",
    STRING: "give a str",
    BINARY: "give bytes",
    DATE: "give a datetime.date",
    FLOAT: "give a number that the type holds exactly, such as numpy.float32(value)",
    DOUBLE: "give a number that the type holds exactly, such as float(value)",
    TIMESTAMP: "give a datetime of whole microseconds with a time zone, such as tzinfo=UTC",
    TIMESTAMP_NTZ: "give a datetime of whole microseconds without a time zone",
}

_NULL = "it must not be null"


def value_of_type(value: Any, field: StructField, table: str, *, is_whole: bool = True) -> Any:
    """Convert a user's value for `pyarrow.scalar`, without changing it.

    Args:
        value: None is null, at every depth.
        field: The column, or a struct field named by its path.
        table: For messages.
        is_whole: Require all fields of structs; otherwise missing fields are null.

    Returns:
        None, or a value in the form of `primitive_value`; an array as a list, a map as a list of
        pairs, a struct as a dict of all its fields.

    Raises:
        InvalidRequestError: The message names the path in the value, the value and the type.
    """

    def refuse(path: str, wanted: str, source: Any, reason: str) -> InvalidRequestError:
        return InvalidRequestError(
            f"{table}: column {path} of type {wanted} cannot hold {value_text(source)} of type "
            f"{type(source).__name__}: {reason}"
        )

    return _Taking(refuse, is_whole).value(value, field.data_type, field.name)


def primitive_value(value: Any, data_type: DataType) -> Any:
    """Convert a value to bool, int, float, Decimal, str, bytes, date or datetime.

    A `timestamp` is returned in UTC.

    Args:
        value: Not None.
        data_type: Not an array, map or struct.

    Raises:
        UnfitValueError: The type cannot hold the value.
    """
    try:
        found = _convert(plain_value(value), data_type)
    except (InvalidRequestError, ArithmeticError, ValueError) as error:
        raise error if isinstance(error, UnfitValueError) else UnfitValueError from error
    if found is None:
        raise UnfitValueError
    return found


def _convert(value: Any, data_type: DataType) -> Any:
    """Convert a value; None if the type cannot hold it."""
    if isinstance(data_type, DecimalType):
        return _decimal(value, data_type)
    if data_type in INTEGER_RANGES:
        low, high = INTEGER_RANGES[data_type]
        is_whole = is_number(value) and low <= value <= high and value == int(value)
        return int(value) if is_whole else None
    if data_type in (FLOAT, DOUBLE):
        return _float(value, data_type) if is_number(value) else None
    match value:
        case bool() if data_type == BOOLEAN:
            return value
        case str() if data_type == STRING:
            return str(value) if is_utf8(value) else None
        case bytes() | bytearray() | memoryview() if data_type == BINARY:
            return bytes(value)
        case datetime() if data_type == TIMESTAMP:
            return value.astimezone(UTC) if value.tzinfo is not None else None
        case datetime() if data_type == TIMESTAMP_NTZ:
            return value if value.tzinfo is None else None
        case datetime():
            return None
        case date():
            return _start_of_day(value, data_type)
    return None


def _start_of_day(value: date, data_type: DataType) -> Any:
    if data_type == DATE:
        return value
    midnight = datetime(value.year, value.month, value.day)
    if data_type == TIMESTAMP:
        return midnight.replace(tzinfo=UTC)
    return midnight if data_type == TIMESTAMP_NTZ else None


def is_number(value: Any) -> bool:
    """Whether a Python value counts as a number; True and False do not."""
    return isinstance(value, Real | Decimal) and not isinstance(value, bool)


def _float(value: Any, data_type: DataType) -> float | None:
    number = float(value)
    if data_type == FLOAT:
        number = round_to_float(number)
    if number == value or (isnan(number) and isnan(value)):
        return number
    if not isinstance(value, float | Decimal):
        return None
    digits = shortest_float(number) if data_type == FLOAT else repr(number)
    source = value if isinstance(value, Decimal) else Decimal(repr(float(value)))
    return number if source == Decimal(digits) else None


def _decimal(value: Any, data_type: DecimalType) -> Decimal | None:
    match value:
        case bool():
            return None
        case Decimal():
            return decimal_of_type(value, data_type)
        case Integral():
            return decimal_of_type(Decimal(int(value)), data_type)
        case float():
            # The digits that the user wrote, not the digits of the nearest binary fraction.
            return decimal_of_type(Decimal(repr(float(value))), data_type)
    return None


class _Taking(NamedTuple):
    """The conversion of one value."""

    refuse: Callable[[str, str, Any, str], InvalidRequestError]
    """Makes an error from a path, a type name, a value and a reason."""
    is_whole: bool
    """Whether structs require all fields."""

    def value(self, value: Any, data_type: DataType, path: str) -> Any:
        """Convert the value at a path."""
        if value is None:
            return None
        try:
            plain = plain_value(value)
            if plain is None:
                return None
            match data_type:
                case ArrayType(element_type=element_type, contains_null=is_nullable):
                    elements = elements_of(plain)
                    return self._all(elements, element_type, f"{path}.element", is_nullable)
                case MapType():
                    return self._map(plain, data_type, path)
                case StructType():
                    return self._struct(plain, data_type, path)
                case _ if data_type == VARIANT:
                    return self._struct(plain, STORED_VARIANT, path)
            return primitive_value(plain, data_type)
        except UnfitValueError as error:
            reason = str(error) or _cure(data_type)
            raise self.refuse(path, data_type.name, value, reason) from error

    def _all(
        self, values: Sequence[Any], data_type: DataType, path: str, is_nullable: bool
    ) -> list[Any]:
        """Convert values of one type, such as the elements of an array."""
        taken = _take_at_once(values, data_type)
        if taken is None:
            taken = [self.value(each, data_type, path) for each in values]
        if not is_nullable and any(each is None for each in taken):
            raise self.refuse(path, data_type.name, None, _NULL)
        return taken

    def _map(self, value: Any, data_type: MapType, path: str) -> list[tuple[Any, Any]]:
        pairs = _pairs(value)
        keys = self._all([key for key, _ in pairs], data_type.key_type, f"{path}.key", False)
        if len({_hashable(key) for key in keys}) < len(keys):
            raise UnfitValueError("a key occurs twice; give it once")
        is_nullable = data_type.value_contains_null
        items = [item for _, item in pairs]
        taken = self._all(items, data_type.value_type, f"{path}.value", is_nullable)
        return list(zip(keys, taken, strict=True))

    def _struct(self, value: Any, data_type: StructType, path: str) -> dict[str, Any]:
        source: dict[str, Any] = {}
        for name, item in _members(value, data_type).items():
            try:
                field = find_field(data_type, str(name))
            except InvalidRequestError as error:
                known = ", ".join(each.name for each in data_type.fields)
                raise UnfitValueError(
                    f"it has no field {name!r}; the fields are {known}"
                ) from error
            if field.name in source:
                raise UnfitValueError(f"field {field.name!r} occurs twice; give it once")
            source[field.name] = item
        members = {}
        for field in data_type.fields:
            if self.is_whole and field.name not in source:
                raise UnfitValueError(f"it lacks the field {field.name!r}; give None for null")
            inner = f"{path}.{field.name}"
            member = self.value(source.get(field.name), field.data_type, inner)
            if member is None and not field.nullable:
                raise self.refuse(inner, field.data_type.name, None, _NULL)
            members[field.name] = member
        return members


def _take_at_once(values: Sequence[Any], data_type: DataType) -> list[Any] | None:
    """The values unchanged, if one check finds that all of them fit; otherwise None."""
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) != 1:
        return None
    (kind,) = kinds
    is_same = (kind, data_type) in _SAME
    if kind is int and data_type in INTEGER_RANGES:
        low, high = INTEGER_RANGES[data_type]
        present = [each for each in values if each is not None]
        is_same = low <= min(present) and max(present) <= high
    if kind is str and data_type == STRING:
        is_same = is_utf8("".join(filter(None, values)))
    if kind is float and data_type == FLOAT:
        return _floats_at_once(values)
    return list(values) if is_same else None


_SAME = frozenset({(float, DOUBLE), (bool, BOOLEAN), (bytes, BINARY), (date, DATE)})
"""Pairs of a Python type and a Delta type that has all of its values."""


def _floats_at_once(values: Sequence[float | None]) -> list[float | None] | None:
    source = array_of(values, pa.float64())
    fitted = source.cast(pa.float32(), safe=False)
    exact, written = fitted.cast(pa.float64()), fitted.cast(pa.string()).cast(pa.float64())
    same = pc.or_(pc.equal(exact, source), pc.equal(written, source))
    same = pc.or_(same, pc.and_(pc.is_nan(source), pc.is_nan(fitted)))
    is_fit = pc.all(pc.fill_null(same, TRUE_SCALAR), min_count=0).as_py()
    return exact.to_pylist() if is_fit else None


def _pairs(value: Any) -> Sequence[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return list(value.items())
    is_list = isinstance(value, list | tuple)
    if is_list and all(isinstance(each, list | tuple) and len(each) == 2 for each in value):
        return [(key, item) for key, item in value]
    raise UnfitValueError("give a dict, or a list of pairs of a key and a value")


def _members(value: Any, data_type: StructType) -> Mapping[Any, Any]:
    """The fields of a struct given as a mapping, a Row or a tuple."""
    if isinstance(value, Mapping):
        return value
    for name in ("_asdict", "asDict"):  # named tuples, and Rows of Spark
        if isinstance(value, tuple) and hasattr(value, name):
            members: Mapping[Any, Any] = getattr(value, name)()
            return members
    if isinstance(value, tuple) and len(value) == len(data_type.fields):
        return {each.name: item for each, item in zip(data_type.fields, value, strict=True)}
    raise UnfitValueError("give a dict of its fields by name")


def _hashable(value: Any) -> Any:
    """Convert a map key to a hashable value."""
    match value:
        case dict():
            return tuple(map(_hashable, value.values()))
        case list() | tuple():
            return tuple(map(_hashable, value))
    return value


def _cure(data_type: DataType) -> str:
    if data_type in INTEGER_RANGES:
        low, high = INTEGER_RANGES[data_type]
        return f"give a whole number from {low} to {high}"
    if isinstance(data_type, DecimalType):
        whole = data_type.precision - data_type.scale
        return f"give a number of {whole} digits before the point and {data_type.scale} after it"
    return _CURES.get(data_type, "give an expression of SQL")

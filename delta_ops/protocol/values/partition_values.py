"""Partition values: convert typed values to the strings of `partitionValues` and back.

Source: PROTOCOL.md, "Partition Value Serialization".

Parsing returns the value that was written. Each value has exactly one text, so that files of one
partition agree. Null, the empty string and empty bytes are the same value: null. Binary is the
UTF-8 text of its bytes, as in Spark. Bytes that are not UTF-8 are rejected, since no text restores
them in every reader. -0.0 is written as 0.0, since both are equal.

A partition value differs from its directory name: `hive_directory` escapes it, and the path in the
log is also URI-encoded (not here).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import ROUND_HALF_EVEN, Context, Decimal, Inexact, InvalidOperation
from math import isinf, isnan
from struct import pack, unpack
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.arrow_values import array_of, scalar
from delta_ops.protocol.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER_RANGES,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
    StructField,
)
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type
from delta_ops.protocol.schema.char_types import char_length

HIVE_DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The directory name of a null; never a value in the log."""

_HIVE_ESCAPES = {
    code: f"%{code:02X}" for code in (*range(0x20), 0x7F, *map(ord, "\"#%'*/:=?\\{[]^"))
}
"""As in Spark's ExternalCatalogUtils.escapePathName, plus NUL, which no file system allows."""

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_FLOAT_NAME = re.compile(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE)
"""Spark reads all of these; deltalake writes `inf`."""
_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})")
_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{1,9}))?)?)?"
    r"(Z|[+-][0-9]{2}:[0-9]{2}(?::[0-9]{2})?)?"
)
_PLAIN_INTEGER = r"\A-?[0-9]{1,19}\z"
_PLAIN_DATE = r"\A(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-[0-9]{2}-[0-9]{2}"
_PLAIN_TIME = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
_FIXED_ZONE = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?")
"""Offsets allowed as a Spark session's time zone, besides region names."""
_EXACT = Context(prec=100, rounding=ROUND_HALF_EVEN, traps=[Inexact, InvalidOperation])


def serialize(value: Any, data_type: DataType) -> str | None:
    """Serialize a typed value for the log; None is null.

    Args:
        value: bool, int, float, Decimal, str, bytes, date or datetime, matching the type. A
            `timestamp` has a time zone, a `timestamp_ntz` has none.
        data_type: The column's type.

    Raises:
        InvalidRequestError: The value is not of the type, or the type cannot partition a table.
    """
    if value is None:
        return None
    text = _serialize_value(value, data_type)
    if text is None:
        raise InvalidRequestError(
            f"{value!r} cannot be written as a partition value of type {data_type.name}."
        )
    return text or None


def parse(text: str | None, data_type: DataType, *, time_zone: str = "UTC") -> Any:
    """Parse a value from the log to bool, int, float, Decimal, str, bytes, date or datetime.

    Args:
        text: A value of `partitionValues`; None and the empty string are null.
        data_type: The column's type.
        time_zone: Zone of timestamps without one, as a region or an offset. Use the zone of the
            system that wrote the table.

    Raises:
        InvalidRequestError: The text is no value of the type.
    """
    if not text:
        return None
    try:
        value = _parse_value(text, data_type, time_zone)
    except (ArithmeticError, ValueError) as error:
        raise _malformed_error(text, data_type) from error
    if value is None:
        raise _malformed_error(text, data_type)
    return value


def stored_where_empty(field: StructField) -> str | None:
    """The value that a partition column stores instead of an empty value.

    Returns:
        None for null, spaces for a CHAR column, or "" if nothing replaces the value; a NOT NULL
        column then rejects it.
    """
    if length := char_length((), field):
        return " " * length
    return None if field.nullable and field.data_type in (STRING, BINARY) else ""


def parse_array(values: pa.Array, data_type: DataType, *, time_zone: str = "UTC") -> pa.Array:
    """Parse a column of partition values; each distinct text is parsed once.

    Args:
        values: Strings of `partitionValues`.
        data_type: The column's type; `arrow_types` maps it to the type of the result.
        time_zone: As for `parse`.

    Raises:
        InvalidRequestError: A text is no value of the type.
    """
    encoded = pc.dictionary_encode(values.cast(pa.string()))
    parsed = parse_each(encoded.dictionary, data_type, time_zone=time_zone)
    return parsed.take(encoded.indices)


def parse_each(texts: pa.StringArray, data_type: DataType, *, time_zone: str = "UTC") -> pa.Array:
    """Parse many partition values, in one step if all have the usual form.

    Args and errors are the same as for `parse_array`.
    """
    found = _parse_at_once(texts, data_type)
    if found is not None:
        return found
    parsed = [parse(text, data_type, time_zone=time_zone) for text in texts.to_pylist()]
    return array_of(parsed, arrow_type_from_type(data_type))


def hive_directory(columns: Sequence[str], values: Mapping[str, str | None]) -> str:
    """Name the directory of a partition: `a=US%2FEast/b=__HIVE_DEFAULT_PARTITION__`.

    Args:
        columns: The partition columns in the table's order.
        values: Serialized values by column.

    Returns:
        The directory in the store, relative and without a slash at either end. It must still be
        URI-encoded for the log.

    Raises:
        InvalidRequestError: A column has no value.

    Source: Spark's ExternalCatalogUtils.getPartitionPathString.
    """
    try:
        texts = [(each, values[each] or HIVE_DEFAULT_PARTITION) for each in columns]
    except KeyError as error:
        raise InvalidRequestError(
            f"Partition column {error.args[0]} has no value; null is a value."
        ) from error
    return "/".join([f"{_escape(name)}={_escape(text)}" for name, text in texts])


def round_to_float(value: float) -> float:
    """Round to the nearest number of type `float`.

    Raises:
        OverflowError: The number is beyond the range of the type.
    """
    return float(unpack("<f", pack("<f", value))[0])


def decimal_of_type(value: Decimal, data_type: DecimalType) -> Decimal:
    """Convert a number to the scale of the type.

    Raises:
        ArithmeticError: The number is not finite, or has more digits than the type.
    """
    if not value.is_finite():
        raise InvalidOperation("no number")
    fitted = value.quantize(Decimal(1).scaleb(-data_type.scale), context=_EXACT)
    if len(fitted.as_tuple().digits) > data_type.precision:
        raise InvalidOperation(f"more than {data_type.precision} digits")
    return fitted


def _malformed_error(text: str, data_type: DataType) -> InvalidRequestError:
    return InvalidRequestError(f"Partition value {text!r} is not a valid {data_type.name}.")


def _escape(name: str) -> str:
    return name if name.isalnum() else name.translate(_HIVE_ESCAPES)


def _serialize_value(value: Any, data_type: DataType) -> str | None:
    """Serialize a value; None if it does not match the type."""
    match value:
        case bool():
            return str(value).lower() if data_type == BOOLEAN else None
        case int() if data_type in INTEGER_RANGES:
            low, high = INTEGER_RANGES[data_type]
            return str(value) if low <= value <= high else None
        case int() | float() if data_type in (FLOAT, DOUBLE):
            return _serialize_float(value, data_type)
        case int() | Decimal() if isinstance(data_type, DecimalType):
            return _serialize_decimal(Decimal(value), data_type)
        case str() if data_type == STRING:
            return value if is_utf8(value) else None
        case bytes() if data_type == BINARY:
            return _decode(value)
        case datetime() if data_type == TIMESTAMP and value.tzinfo is not None:
            utc = value.astimezone(UTC).replace(tzinfo=None)
            return f"{utc.isoformat(timespec='microseconds')}Z"
        case datetime() if data_type == TIMESTAMP_NTZ and value.tzinfo is None:
            return value.isoformat(sep=" ", timespec="microseconds")
        case date() if data_type == DATE and not isinstance(value, datetime):
            return value.isoformat()
    return None


def _serialize_decimal(value: Decimal, data_type: DecimalType) -> str | None:
    try:
        return format(decimal_of_type(value, data_type), "f")
    except ArithmeticError:
        return None


def _serialize_float(value: float, data_type: DataType) -> str | None:
    try:
        number = float(value) if data_type == DOUBLE else round_to_float(value)
    except OverflowError:
        return None
    if isnan(number):
        return "NaN"
    if isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "0.0"
    return _java_text(repr(number) if data_type == DOUBLE else shortest_float(number))


def shortest_float(number: float) -> str:
    """The shortest text that parses to this number of type `float`."""
    texts = (f"{number:.{digits}g}" for digits in range(1, 10))
    return next(text for text in texts if _reads_back(text, number))


def _reads_back(text: str, number: float) -> bool:
    try:
        return round_to_float(float(text)) == number
    except OverflowError:
        return False


def _java_text(text: str) -> str:
    """Format a finite number as Java's Double.toString does: `1.5`, `1.0E7`, `4.9E-324`."""
    sign, digits, exponent = Decimal(text).normalize(_EXACT).as_tuple()
    assert isinstance(exponent, int)
    mantissa = "".join(map(str, digits))
    point = len(mantissa) + exponent
    minus = "-" if sign else ""
    if -3 < point <= 7:
        padded = mantissa.rjust(len(mantissa) + max(0, 1 - point), "0").ljust(max(point, 0), "0")
        whole = max(point, 1)
        return f"{minus}{padded[:whole]}.{padded[whole:] or '0'}"
    return f"{minus}{mantissa[0]}.{mantissa[1:] or '0'}E{point - 1}"


def _decode(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequestError(
            f"{value!r} cannot be a binary partition value: only bytes that are valid UTF-8 have "
            "the same value in every engine. Partition by a string instead, such as its hex "
            "digits."
        ) from error


def is_utf8(text: str) -> bool:
    """Whether a text has no half of a surrogate pair, which no file can hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _parse_value(text: str, data_type: DataType, time_zone: str) -> Any:
    """Parse a text; None if it is no value of the type. Errors of conversions pass through."""
    if isinstance(data_type, DecimalType):
        return decimal_of_type(Decimal(text), data_type) if _NUMBER.fullmatch(text) else None
    if data_type in INTEGER_RANGES:
        low, high = INTEGER_RANGES[data_type]
        number = int(text) if _INTEGER.fullmatch(text) else None
        return number if number is not None and low <= number <= high else None
    if data_type in (FLOAT, DOUBLE):
        return _parse_float(text, data_type)
    match data_type:
        case t if t == STRING:
            return text if is_utf8(text) else None
        case t if t == BINARY:
            return text.encode("utf-8")
        case t if t == BOOLEAN:
            return {"true": True, "false": False}.get(text.lower())
        case t if t == DATE:
            found = _DATE.fullmatch(text)
            return date(*map(int, found.groups())) if found else None
        case t if t == TIMESTAMP:
            return _parse_timestamp(text, time_zone)
        case t if t == TIMESTAMP_NTZ:
            local, zone = _split_timestamp(text)
            return local if zone is None else None
    return None


def _parse_at_once(texts: pa.StringArray, data_type: DataType) -> pa.Array | None:
    """Parse all texts with Arrow; None unless Arrow reads each text as `parse` does."""
    pattern = _plain_pattern(data_type)
    if pattern is None:
        return None
    texts = pc.if_else(pc.equal(texts, scalar("")), pa.NULL, texts)
    if not pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py():
        return None
    wanted = arrow_type_from_type(data_type)
    try:
        texts.validate(full=True)  # invalid UTF-8 is reported when Python values are made
        return texts.cast(wanted)
    except pa.ArrowInvalid:
        return None


def _plain_pattern(data_type: DataType) -> str | None:
    """Pattern of texts that Arrow reads as `parse` does, or rejects; None for other types."""
    if data_type in INTEGER_RANGES:
        return _PLAIN_INTEGER
    match data_type:
        case t if t in (STRING, BINARY):
            return ""
        case t if t == DATE:
            return rf"{_PLAIN_DATE}\z"
        case t if t == TIMESTAMP:
            return rf"{_PLAIN_DATE}[ T]{_PLAIN_TIME}Z\z"
        case t if t == TIMESTAMP_NTZ:
            return rf"{_PLAIN_DATE}[ T]{_PLAIN_TIME}\z"
    return None


def _parse_float(text: str, data_type: DataType) -> float | None:
    if _FLOAT_NAME.fullmatch(text):
        return float(text)
    if not _NUMBER.fullmatch(text):
        return None
    number = float(text)
    if isinf(number):
        return None  # digits name a number; infinity has its own name
    return number if data_type == DOUBLE else round_to_float(number)


def _parse_timestamp(text: str, time_zone: str) -> datetime | None:
    local, zone = _split_timestamp(text)
    if local is None:
        return None
    # At clock changes, zoneinfo's default picks the same instant as java.time: the earlier of two
    # instants, or for a skipped time the instant equally far after the gap.
    return local.replace(tzinfo=zone or _zone(time_zone)).astimezone(UTC)


def _zone(time_zone: str) -> tzinfo:
    if fixed := _FIXED_ZONE.fullmatch(time_zone):
        sign, hours, minutes = fixed.groups()
        return _offset(f"{sign}{hours}:{minutes or 0}")
    try:
        return UTC if time_zone in ("UTC", "Z") else ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidRequestError(
            f"{time_zone!r} is not a time zone; give a name such as Asia/Tokyo."
        ) from error


def _split_timestamp(text: str) -> tuple[datetime | None, tzinfo | None]:
    found = _TIMESTAMP.fullmatch(text)
    if not found:
        return None, None
    *parts, fraction, offset = found.groups()
    nanoseconds = int((fraction or "").ljust(9, "0"))
    if nanoseconds % 1000:
        return None, None
    year, month, day, hour, minute, second = (int(part or 0) for part in parts)
    local = datetime(year, month, day, hour, minute, second, nanoseconds // 1000)
    return local, _offset(offset) if offset else None


def _offset(text: str) -> tzinfo:
    if text == "Z":
        return UTC
    hours, minutes, seconds = (*map(int, text[1:].split(":")), 0)[:3]
    offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return timezone(-offset if text[0] == "-" else offset)

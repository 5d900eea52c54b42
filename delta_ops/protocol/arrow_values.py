"""Arrow values without pandas.

pyarrow imports pandas, if it is installed, as soon as it converts a Python value or a NumPy array:
`pa.array`, `pa.scalar`, `Schema.empty_table`, and functions that compare or combine a column with a
Python value. The import takes longer than opening a table, and 40 MB. `array_of` and `scalar`
convert values of the usual types themselves.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import accumulate
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MICROSECOND = timedelta(microseconds=1)
_DECIMAL_BYTES = 16
_MOST_BYTES = 2**31 - 1
"""Bytes of the strings of an array, which has 32-bit offsets."""


def array_of(values: Iterable[Any], data_type: pa.DataType | None = None) -> pa.Array:
    """Return `pa.array(values, data_type)`."""
    if isinstance(values, np.ndarray):
        converted = _array_of_numpy(values)
        if converted is None:
            return pa.array(values, data_type)
        is_other = data_type is not None and converted.type != data_type
        return converted.cast(data_type) if is_other else converted
    listed = values if isinstance(values, list | tuple) else list(values)
    kinds = {str if issubclass(kind, str) else kind for kind in {*map(type, listed)}} - {NoneType}
    if not kinds:
        return pa.nulls(len(listed), pa.null() if data_type is None else data_type)
    known = _TYPES.get(*kinds) if data_type is None and len(kinds) == 1 else data_type
    if known is not None:
        conversion = _conversion(known)
        if conversion is not None and kinds <= conversion.kinds:
            try:
                return conversion.convert(listed, known)
            except (ArithmeticError, ValueError):
                pass  # pyarrow's error says what does not fit
    return pa.array(listed, data_type)


def scalar(value: Any, data_type: pa.DataType | None = None) -> pa.Scalar:
    """Return `pa.scalar(value, data_type)`."""
    if value is None and data_type is None:
        return pa.NULL
    if isinstance(value, list | tuple | dict | np.ndarray):
        return pa.scalar(value, data_type)
    return array_of([value], data_type)[0]


def numpy_of(values: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return `values.to_numpy(zero_copy_only=False)`; an array that shares memory is read-only."""
    if isinstance(values, pa.ChunkedArray):
        if values.num_chunks == 1:
            return numpy_of(values.chunk(0))
        return np.concatenate([*map(numpy_of, values.chunks), numpy_of(pa.nulls(0, values.type))])
    if values.null_count or not pt.is_primitive(values.type) or pt.is_temporal(values.type):
        found: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
        return found
    if not len(values):
        return np.empty(0, values.type.to_pandas_dtype())
    content = values.buffers()[1]
    if pt.is_boolean(values.type):
        first, last = values.offset, values.offset + len(values)
        bits = np.frombuffer(content, np.uint8)[first // 8 : (last + 7) // 8]
        unpacked = np.unpackbits(bits, bitorder="little")
        return unpacked[first % 8 :][: len(values)].astype(np.bool_)
    end = values.offset + len(values)
    shared = np.frombuffer(content, values.type.to_pandas_dtype(), count=end)[values.offset :]
    shared.flags.writeable = False
    return shared


def empty_table(schema: pa.Schema) -> pa.Table:
    """Return a table without rows."""
    return pa.table([pa.nulls(0, each.type) for each in schema], schema=schema)


def repeat(value: pa.Scalar, count: int) -> pa.Array:
    """Return `pa.repeat(value, count)`, which creates a broken array if the strings are too large.

    Raises:
        pa.ArrowCapacityError: The strings or bytes have more than 2 GB in total.
    """
    is_of_bytes = pt.is_string(value.type) or pt.is_binary(value.type)
    if is_of_bytes and value.is_valid and value.as_buffer().size * count > _MOST_BYTES:
        raise pa.ArrowCapacityError(
            f"{count} times a value of {value.as_buffer().size} bytes is too large for one array"
        )
    return pa.repeat(value, count)


def integer_array(values: Iterable[int], data_type: pa.DataType | None = None) -> pa.Array:
    """Return integers as an array of a type with 64 bits; int64 by default."""
    numbers = array("q", values)
    buffers = [None, pa.py_buffer(numbers)]
    return pa.Array.from_buffers(data_type or pa.int64(), len(numbers), buffers)


def integer_scalar(value: int, data_type: pa.DataType | None = None) -> pa.Scalar:
    """Return an integer as a scalar of a type with 64 bits; int64 by default."""
    return integer_array([value], data_type)[0]


def text_array(texts: Collection[str | None]) -> pa.Array:
    """Return texts as an array; raises `OverflowError` if they have more than 2 GB in total."""
    return _array_of_texts(list(texts), pa.string())


class _Conversion(NamedTuple):
    """Conversion of Python values to an array."""

    kinds: Set[type]
    """The types of values beside None."""
    convert: Callable[[Sequence[Any], pa.DataType], pa.Array]
    """Raises `ArithmeticError` or `ValueError` if a value does not fit."""


def _array_of_texts(values: Sequence[str | None], data_type: pa.DataType) -> pa.Array:
    texts = [each or "" for each in values]
    together = "".join(texts)
    if together.isascii():  # then each character is a byte, and no text is encoded by itself
        content = together.encode()
        return _array_of_pieces(values, map(len, texts), content, data_type)
    return _array_of_bytes([None if each is None else each.encode() for each in values], data_type)


def _array_of_bytes(values: Sequence[bytes | None], data_type: pa.DataType) -> pa.Array:
    pieces = [each or b"" for each in values]
    return _array_of_pieces(values, map(len, pieces), b"".join(pieces), data_type)


def _array_of_pieces(
    values: Sequence[Any], lengths: Iterable[int], content: bytes, data_type: pa.DataType
) -> pa.Array:
    ends = pa.py_buffer(array("i", accumulate(lengths, initial=0)))
    buffers = [_validity(values), ends, pa.py_buffer(content)]
    return pa.Array.from_buffers(data_type, len(values), buffers)


def _array_of_numbers(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    code, bits = _CODES[data_type], _validity(values)
    numbers = array(code, values if bits is None else [each or 0 for each in values])
    return pa.Array.from_buffers(data_type, len(numbers), [bits, pa.py_buffer(numbers)])


def _array_of_floats(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    most = _MOST_INTEGERS[data_type]
    if any(type(each) is int and abs(each) > most for each in values):
        raise ValueError("an integer that the type may not hold exactly")
    bits = _validity(values)
    numbers = np.array([0.0 if each is None else each for each in values], np.float64)
    if data_type == pa.float32():
        with np.errstate(over="ignore"):
            numbers = numbers.astype(np.float32)
    return pa.Array.from_buffers(data_type, len(numbers), [bits, pa.py_buffer(numbers)])


def _array_of_booleans(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    bits = np.packbits([bool(each) for each in values], bitorder="little")
    return pa.Array.from_buffers(data_type, len(values), [_validity(values), pa.py_buffer(bits)])


def _array_of_dates(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    days = array("i", [each.toordinal() - _EPOCH_DAY if each else 0 for each in values])
    return pa.Array.from_buffers(data_type, len(days), [_validity(values), pa.py_buffer(days)])


def _array_of_times(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    times = array("q", [_microseconds(each) if each else 0 for each in values])
    return pa.Array.from_buffers(data_type, len(times), [_validity(values), pa.py_buffer(times)])


def _array_of_decimals(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    numbers = b"".join(
        (0 if each is None else _unscaled_number(each, data_type)).to_bytes(
            _DECIMAL_BYTES, "little", signed=True
        )
        for each in values
    )
    buffers = [_validity(values), pa.py_buffer(numbers)]
    return pa.Array.from_buffers(data_type, len(values), buffers)


def _array_of_structs(values: Sequence[Any], data_type: pa.StructType) -> pa.Array:
    fields = list(data_type)
    members = [
        array_of([None if each is None else each.get(field.name) for each in values], field.type)
        for field in fields
    ]
    return pa.StructArray.from_arrays(members, fields=fields, mask=_nulls(values))


def _array_of_lists(values: Sequence[Any], data_type: pa.ListType) -> pa.Array:
    items = array_of([item for each in values for item in each or ()], data_type.value_type)
    return pa.ListArray.from_arrays(_ends(values), items, type=data_type, mask=_nulls(values))


def _array_of_maps(values: Sequence[Any], data_type: pa.MapType) -> pa.Array:
    pairs = [
        pair for each in values for pair in (each.items() if isinstance(each, dict) else each or ())
    ]
    keys = array_of([key for key, _ in pairs], data_type.key_type)
    items = array_of([item for _, item in pairs], data_type.item_type)
    mask = _nulls(values)
    return pa.MapArray.from_arrays(_ends(values), keys, items, type=data_type, mask=mask)


def _ends(values: Sequence[Any]) -> pa.Array:
    return array_of(list(accumulate((len(each or ()) for each in values), initial=0)), pa.int32())


def _nulls(values: Sequence[Any]) -> pa.Array | None:
    return array_of([each is None for each in values]) if None in values else None


def _microseconds(time: datetime) -> int:
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND


def _unscaled_number(value: Decimal, data_type: pa.Decimal128Type) -> int:
    """The number without its decimal point; raises `ValueError` if it does not fit exactly."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or exponent + data_type.scale < 0:
        raise ValueError("no number, or too many digits after the point")
    if len(digits) + exponent + data_type.scale > data_type.precision:
        raise ValueError("too many digits")
    zeros = "0" * (exponent + data_type.scale)
    unscaled = int("".join(map(str, digits)) + zeros)
    return -unscaled if sign else unscaled


def _validity(values: Sequence[Any]) -> pa.Buffer | None:
    if None not in values:
        return None
    return pa.py_buffer(np.packbits([each is not None for each in values], bitorder="little"))


def _conversion(data_type: pa.DataType) -> _Conversion | None:
    """The conversion of Python values to a type; None if pyarrow converts."""
    found = _CONVERSIONS.get(data_type)
    if found is None and pt.is_timestamp(data_type) and data_type.unit == "us":
        return _Conversion({datetime}, _array_of_times)
    if found is None and pt.is_decimal128(data_type):
        return _Conversion({Decimal}, _array_of_decimals)
    if pt.is_struct(data_type) and data_type.num_fields:
        return _Conversion({dict}, _array_of_structs)
    if pt.is_list(data_type):
        return _Conversion({list}, _array_of_lists)
    if pt.is_map(data_type):
        return _Conversion({dict, list}, _array_of_maps)
    return found


def _array_of_numpy(values: Any) -> pa.Array | None:
    """Return numbers and booleans as an array; None if pyarrow converts."""
    if values.ndim != 1 or type(values) is not np.ndarray:
        return None
    if values.dtype == np.bool_:
        bits = np.packbits(values, bitorder="little")
        return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)])
    if values.dtype.kind not in "iuf" or values.dtype.itemsize < 2 or not values.dtype.isnative:
        return None
    data_type = pa.from_numpy_dtype(values.dtype)
    content = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(data_type, len(values), [None, content])


_TYPES: Mapping[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
}
"""The types of values that have no given type."""
_CODES: Mapping[pa.DataType, str] = {
    pa.int8(): "b",
    pa.int16(): "h",
    pa.int32(): "i",
    pa.int64(): "q",
    pa.uint8(): "B",
    pa.uint16(): "H",
    pa.uint32(): "I",
    pa.uint64(): "Q",
}
_MOST_INTEGERS: Mapping[pa.DataType, int] = {pa.float32(): 1 << 24, pa.float64(): 1 << 53}
"""Every integer up to this number is a number of the type."""
_CONVERSIONS: Mapping[pa.DataType, _Conversion] = {
    **{data_type: _Conversion({int}, _array_of_numbers) for data_type in _CODES},
    pa.float32(): _Conversion({float, int}, _array_of_floats),
    pa.float64(): _Conversion({float, int}, _array_of_floats),
    pa.bool_(): _Conversion({bool}, _array_of_booleans),
    pa.string(): _Conversion({str}, _array_of_texts),
    pa.binary(): _Conversion({bytes}, _array_of_bytes),
    pa.date32(): _Conversion({date}, _array_of_dates),
}
TRUE_SCALAR, FALSE_SCALAR = scalar(True), scalar(False)

"""Variant: a value of any type as bytes, with a dictionary of its field names.

Source: VariantEncoding.md of the Parquet format; PROTOCOL.md, "Variant Data Type", refers to it.

A value is a header byte and its content; numbers are little-endian. Objects and arrays begin with
the offsets of their members. An object names its fields by their ids in the dictionary. Bytes are
checked before use. A size or offset beyond its container, an id without a name or a duplicate name
is a ValueError. Members of a value do not overlap, so a check takes linear time for any content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from itertools import accumulate, pairwise
from typing import NamedTuple


class Primitive(IntEnum):
    """Types without members; each number is the type's number in a header."""

    NULL = 0
    TRUE = 1
    FALSE = 2
    INT8 = 3
    INT16 = 4
    INT32 = 5
    INT64 = 6
    DOUBLE = 7
    DECIMAL4 = 8
    DECIMAL8 = 9
    DECIMAL16 = 10
    DATE = 11
    TIMESTAMP = 12
    TIMESTAMP_NTZ = 13
    FLOAT = 14
    BINARY = 15
    STRING = 16
    TIME_NTZ = 17
    TIMESTAMP_NANOS = 18
    TIMESTAMP_NTZ_NANOS = 19
    UUID = 20


class FieldNames(NamedTuple):
    """The dictionary that belongs to a value."""

    names: tuple[str, ...]
    """In the order of their ids."""
    ids: Mapping[str, int]
    """By name; the first id of a duplicate name."""


_PRIMITIVE, _SHORT_STRING, _OBJECT, _ARRAY = range(4)
"""Basic types: the low bits of a header."""

_VERSION = 1
_MAX_SHORT_STRING = 63
"""Bytes."""
_MAX_DECIMAL_SCALE = 38
_SIZE_BYTES = 4
"""Bytes of the length prefix of a string or binary value."""
_FIXED_SIZES: Mapping[int, int] = {
    Primitive.NULL: 0,
    Primitive.TRUE: 0,
    Primitive.FALSE: 0,
    Primitive.INT8: 1,
    Primitive.INT16: 2,
    Primitive.INT32: 4,
    Primitive.INT64: 8,
    Primitive.DOUBLE: 8,
    Primitive.DECIMAL4: 1 + 4,
    Primitive.DECIMAL8: 1 + 8,
    Primitive.DECIMAL16: 1 + 16,
    Primitive.DATE: 4,
    Primitive.TIMESTAMP: 8,
    Primitive.TIMESTAMP_NTZ: 8,
    Primitive.FLOAT: 4,
    Primitive.TIME_NTZ: 8,
    Primitive.TIMESTAMP_NANOS: 8,
    Primitive.TIMESTAMP_NTZ_NANOS: 8,
    Primitive.UUID: 16,
}
"""Bytes after the header; the first byte of a decimal is its scale."""
_DECIMALS = (Primitive.DECIMAL4, Primitive.DECIMAL8, Primitive.DECIMAL16)


def field_names(metadata: bytes) -> FieldNames:
    """Parse the names of a dictionary.

    Raises:
        ValueError: The bytes are no dictionary, or have another version.
    """
    if not metadata or metadata[0] & 0x0F != _VERSION:
        raise ValueError("a dictionary of names is not of version 1 of the encoding")
    width = (metadata[0] >> 6) + 1
    (count,) = _numbers(metadata, 1, 1, width)
    offsets = _numbers(metadata, 1 + width, count + 1, width)
    texts = metadata[1 + width * (count + 2) :]
    if offsets[0] != 0 or offsets[-1] != len(texts) or offsets != sorted(offsets):
        raise ValueError("the offsets in a dictionary of names do not fit its length")
    names = tuple(str(texts[start:end], "utf-8") for start, end in pairwise(offsets))
    return FieldNames(names, {names[i]: i for i in reversed(range(count))})


def valid_value(value: bytes, names: FieldNames) -> bytes:
    """Validate a whole value, and sort the fields of its objects by name.

    Some writers leave the fields unsorted, while readers use binary search.

    Raises:
        ValueError: The bytes are not exactly one value, or do not match these names.
    """
    if _end(value, 0, len(value)) != len(value):
        raise ValueError("there are bytes after the end of a value")
    ordered: bytearray | None = None
    waiting = [0]
    while waiting:
        start = waiting.pop()
        if _basic_type(value, start) not in (_OBJECT, _ARRAY):
            _validate_leaf(value, start)
            continue
        members = _valid_members(value, start, names)
        waiting += members.starts
        keys = [names.names[each] for each in members.ids]
        if any(one > other for one, other in pairwise(keys)):
            ordered = bytearray(value) if ordered is None else ordered
            head = _head(members, sorted(range(len(keys)), key=keys.__getitem__))
            ordered[members.at : members.at + len(head)] = head
    return value if ordered is None else bytes(ordered)


def object_fields(value: bytes, names: FieldNames) -> dict[str, bytes]:
    """The fields of a valid object, each as a value.

    Raises:
        ValueError: The value is no object.
    """
    if _basic_type(value, 0) != _OBJECT:
        raise ValueError("a residual value of a shredded object is not an object")
    members = _members(value, 0)
    return {
        names.names[each]: value[start : _end(value, start, members.end)]
        for each, start in zip(members.ids, members.starts, strict=True)
    }


def primitive_value(kind: Primitive, content: bytes = b"") -> bytes:
    """Encode a value of a type of fixed size.

    Args:
        kind: The type.
        content: The bytes after the header.
    """
    return bytes([kind << 2]) + content


def decimal_value(unscaled: int, scale: int, precision: int) -> bytes:
    """Encode a decimal in the number of bytes for its precision.

    Raises:
        ValueError: The number has more digits.
    """
    if abs(unscaled) >= 10**precision:
        raise ValueError(f"a decimal has more than the {precision} digits of its type")
    kind = _DECIMALS[(precision > 9) + (precision > 18)]
    content = unscaled.to_bytes(_FIXED_SIZES[kind] - 1, "little", signed=True)
    return primitive_value(kind, bytes([scale]) + content)


def string_value(text: str) -> bytes:
    """Encode a string."""
    content = text.encode()
    if len(content) <= _MAX_SHORT_STRING:
        return bytes([len(content) << 2 | _SHORT_STRING]) + content
    return _sized_value(Primitive.STRING, content)


def binary_value(content: bytes) -> bytes:
    """Encode a binary value."""
    return _sized_value(Primitive.BINARY, content)


def array_value(elements: Sequence[bytes]) -> bytes:
    """Encode an array of encoded values."""
    width, offsets = _offsets(elements)
    is_large, count = _count(elements)
    header = is_large << 4 | (width - 1) << 2 | _ARRAY
    return b"".join([bytes([header]), count, offsets, *elements])


def object_value(fields: Mapping[str, bytes], names: FieldNames) -> bytes:
    """Encode an object of encoded values.

    Raises:
        ValueError: A field's name is not in the dictionary.

    Source: VariantEncoding.md, "Object field ID order and uniqueness".
    """
    ordered = sorted(fields)  # by code point, which equals the byte order of UTF-8
    unknown = [name for name in ordered if name not in names.ids]
    if unknown:
        raise ValueError(f"the field {unknown[0]!r} of an object is not in the dictionary of names")
    ids = [names.ids[name] for name in ordered]
    values = [fields[name] for name in ordered]
    id_width = _width(max(ids, default=0))
    width, offsets = _offsets(values)
    is_large, count = _count(values)
    header = is_large << 6 | (id_width - 1) << 4 | (width - 1) << 2 | _OBJECT
    return b"".join([bytes([header]), count, _pack(ids, id_width), offsets, *values])


class _Members(NamedTuple):
    """Positions of the members of an object or array."""

    ids: Sequence[int]
    """Name ids of an object's fields, parallel to `starts`; empty for an array."""
    starts: Sequence[int]
    """Start of each value; the values are not yet validated."""
    at: int
    """Start of the ids; the offsets follow them."""
    id_width: int
    """Bytes of an id."""
    width: int
    """Bytes of an offset."""
    first: int
    """Start of the values."""
    end: int
    """End of the last value."""


def _basic_type(value: bytes, start: int) -> int:
    return value[start] & 3


def _validate_leaf(value: bytes, start: int) -> None:
    """Validate a short string or primitive whose end is within the bytes."""
    kind = value[start] >> 2
    if _basic_type(value, start) == _SHORT_STRING:
        str(value[start + 1 : start + 1 + kind], "utf-8")
    elif kind == Primitive.STRING:
        text = start + 1 + _SIZE_BYTES
        str(value[text : _end(value, start, len(value))], "utf-8")
    elif kind in _DECIMALS and value[start + 1] > _MAX_DECIMAL_SCALE:
        raise ValueError(f"a decimal has the scale {value[start + 1]}")


def _valid_members(value: bytes, start: int, names: FieldNames) -> _Members:
    """Read the members of an object or array, and validate that they end inside it."""
    members = _members(value, start)
    if any(each >= len(names.names) for each in members.ids):
        raise ValueError("a field id of an object is not in the dictionary of names")
    if len({names.names[each] for each in members.ids}) < len(members.ids):
        raise ValueError("an object has two fields with the same name")
    extents = sorted((each, _end(value, each, members.end)) for each in members.starts)
    if any(end > start for (_, end), (start, _) in pairwise(extents)):
        raise ValueError("members of an object or array overlap")
    return members


def _head(members: _Members, order: Sequence[int]) -> bytes:
    """Encode ids and offsets in another order; the values do not move."""
    ids = [members.ids[i] for i in order]
    offsets = [members.starts[i] - members.first for i in order]
    return _pack(ids, members.id_width) + _pack(offsets, members.width)


def _members(value: bytes, start: int) -> _Members:
    """Read the members of an object or array whose end is within the bytes."""
    header = value[start] >> 2
    is_object = _basic_type(value, start) == _OBJECT
    width = (header & 3) + 1
    id_width = (header >> 2 & 3) + 1 if is_object else 0
    count_width = 4 if header >> (4 if is_object else 2) & 1 else 1
    (count,) = _numbers(value, start + 1, 1, count_width)
    at_ids = start + 1 + count_width
    at_offsets = at_ids + count * id_width
    ids = _numbers(value, at_ids, count, id_width) if is_object else ()
    *offsets, size = _numbers(value, at_offsets, count + 1, width)
    first = at_offsets + (count + 1) * width
    starts = [first + each for each in offsets]
    return _Members(ids, starts, at_ids, id_width, width, first, first + size)


def _end(value: bytes, start: int, limit: int) -> int:
    """The end of a value according to its header.

    Raises:
        ValueError: The end is beyond the limit.
    """
    if not 0 <= start < limit:
        raise ValueError("a value starts after the end of its container")
    basic_type, header = _basic_type(value, start), value[start] >> 2
    if basic_type in (_OBJECT, _ARRAY):
        end = _members(value, start).end
    elif basic_type == _SHORT_STRING:
        end = start + 1 + header
    elif header in _FIXED_SIZES:
        end = start + 1 + _FIXED_SIZES[header]
    elif header in (Primitive.BINARY, Primitive.STRING):
        (size,) = _numbers(value, start + 1, 1, _SIZE_BYTES)
        end = start + 1 + _SIZE_BYTES + size
    else:
        raise ValueError(f"a value has the unknown type {header}")
    if end > limit:
        raise ValueError("a value ends after the end of its container")
    return end


def _numbers(data: bytes, start: int, count: int, width: int) -> Sequence[int]:
    end = start + count * width
    if end > len(data):
        raise ValueError("a value or dictionary ends too early")
    if width == 1:
        return list(data[start:end])
    return [int.from_bytes(data[i : i + width], "little") for i in range(start, end, width)]


def _pack(numbers: Sequence[int], width: int) -> bytes:
    if width == 1:
        return bytes(numbers)
    return b"".join(each.to_bytes(width, "little") for each in numbers)


def _width(number: int) -> int:
    """Number of bytes that an unsigned number takes."""
    width = (number.bit_length() + 7) // 8 or 1
    if width > 4:
        raise ValueError("a value is longer than the encoding allows")
    return width


def _offsets(values: Sequence[bytes]) -> tuple[int, bytes]:
    """Bytes per offset, and the encoded offsets: each value's start and the last value's end."""
    offsets = list(accumulate(map(len, values), initial=0))
    width = _width(offsets[-1])
    return width, _pack(offsets, width)


def _count(values: Sequence[bytes]) -> tuple[bool, bytes]:
    """Whether the number of values takes four bytes, and the encoded number."""
    is_large = len(values) > 255
    return is_large, len(values).to_bytes(4 if is_large else 1, "little")


def _sized_value(kind: Primitive, content: bytes) -> bytes:
    return primitive_value(kind, len(content).to_bytes(_SIZE_BYTES, "little") + content)

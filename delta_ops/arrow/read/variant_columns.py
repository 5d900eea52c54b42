"""Variant columns: convert stored variants, shredded or not, to the table's variants.

Source: the Parquet format's VariantShredding.md.

A file may store parts of a variant in separate columns. The struct then has, beside `metadata` with
all field names, a column `typed_value`: a value with its own type, the elements of an array, or the
fields of an object. Each element or field is again a struct of `value` and `typed_value`. `value`
holds everything that does not fit `typed_value`.

This module joins both parts into one value, row by row. It rejects an invalid combination if the
combination is ambiguous. Each Arrow type of a `typed_value` maps to exactly one variant type. No
type is widened, and a unit that variants lack is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delta_ops.arrow.dictionary_columns import MAX_BYTES, decode
from delta_ops.arrow.nesting import Convert, cast, is_list
from delta_ops.protocol.arrow_values import array_of
from delta_ops.protocol.schema import VARIANT
from delta_ops.protocol.schema.arrow_types import arrow_type_from_type
from delta_ops.protocol.variant import (
    FieldNames,
    Primitive,
    array_value,
    binary_value,
    decimal_value,
    field_names,
    object_fields,
    object_value,
    primitive_value,
    string_value,
    valid_value,
)

_METADATA, _VALUE, _TYPED_VALUE = "metadata", "value", "typed_value"
_NULL = primitive_value(Primitive.NULL)
_NO_NAMES = FieldNames((), {})

Values = list[bytes | None]
"""Encoded values; None means missing."""
_Encode = Callable[[Any, Sequence[FieldNames]], Values]
"""Encodes an array; takes the array and the field names for each of its values."""


class StoredVariant(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """Marks the type of a stored variant in a conversion plan.

    The mark distinguishes a variant from a plain struct with the same fields. No array has this
    type.
    """

    def __init__(self, group: pa.DataType, where: str) -> None:
        self.where = where
        """The column, for messages."""
        super().__init__(group, "delta_ops.stored_variant")

    def __arrow_ext_serialize__(self) -> bytes:
        return self.where.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, group: pa.DataType, serialized: bytes) -> StoredVariant:
        return cls(group, serialized.decode())


def mark_variant(stored: pa.DataType, where: str) -> pa.DataType:
    """Return the type of a variant in a plan: marked if it needs conversion.

    Args:
        stored: The type in the file of a column that is a variant in the table.
        where: The column, for messages.
    """
    group = stored.storage_type if isinstance(stored, pa.BaseExtensionType) else stored
    if not pt.is_struct(group):
        return stored
    parts = sorted((each.name, each.nullable) for each in group)
    is_plain = group is stored and parts == [(_METADATA, False), (_VALUE, False)]
    return stored if is_plain else StoredVariant(group, where)


def plan_variant(stored: StoredVariant) -> Convert:
    """Plan the conversion of stored variants to the table's variants.

    The conversion raises pa.ArrowCapacityError for too much data, as in `nesting.plan_conversion`,
    and ValueError for a malformed row.

    Raises:
        ValueError: The file's columns do not form a stored variant.
    """
    group, where = stored.storage_type, stored.where
    if len({each.name for each in group}) < group.num_fields:
        raise ValueError(f"variant {where} has two parts with the same name")
    metadata_index = group.get_field_index(_METADATA)
    if metadata_index < 0:
        raise ValueError(f"variant {where} has no {_METADATA}")
    to_values = _plan_parts(group, where, {_METADATA})
    is_shredded = group.get_field_index(_TYPED_VALUE) >= 0
    fields = list(arrow_type_from_type(VARIANT))

    def convert(array: Any) -> pa.StructArray:
        rows = _storage(array)
        # flatten() makes all parts null where the struct is null.
        metadata = cast(decode(rows.flatten()[metadata_index]), pa.binary())
        if metadata.null_count > rows.null_count:
            raise ValueError(f"variant {where} has rows without {_METADATA}")
        if is_shredded:
            values = _binary(to_values(rows, _names_of(metadata, where)))
        else:
            values = cast(decode(rows.flatten()[group.get_field_index(_VALUE)]), pa.binary())
        # The struct decides whether there is a variant; a variant without a value is then the
        # variant null (VariantShredding.md, "Value Shredding").
        arrays = [metadata, pc.fill_null(values, _NULL)]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=rows.is_null())

    return convert


def _names_of(metadata: pa.BinaryArray, where: str) -> Sequence[FieldNames]:
    known: dict[bytes | None, FieldNames] = {None: _NO_NAMES}
    rows = metadata.to_pylist()
    with _naming_column(where):
        for each in rows:
            if each not in known:
                known[each] = field_names(each)
    return [known[each] for each in rows]


def _plan_parts(group: pa.StructType, where: str, others: Iterable[str] = ()) -> _Encode:
    """Plan how to encode a group of `value` and `typed_value`; one of the two may be absent."""
    parts = {each.name for each in group}.difference(others)
    if not parts or not parts <= {_VALUE, _TYPED_VALUE}:
        raise ValueError(
            f"variant {where} is stored in parts {sorted(parts)}, which is not a variant"
        )
    value_index, typed_index = (group.get_field_index(each) for each in (_VALUE, _TYPED_VALUE))
    if value_index >= 0 and not is_binary(group.field(value_index).type):
        raise ValueError(f"variant {where} has a {_VALUE} of {group.field(value_index).type}")

    def encode_value(members: Sequence[Any], names: Sequence[FieldNames]) -> Values:
        if value_index < 0:
            return [None] * len(names)
        values = decode(members[value_index]).to_pylist()
        with _naming_column(where):
            return [
                None if value is None else valid_value(value, known)
                for value, known in zip(values, names, strict=True)
            ]

    if typed_index < 0:
        return lambda array, names: encode_value(array.flatten(), names)
    typed_type = group.field(typed_index).type
    plan = _plan_object if pt.is_struct(typed_type) else _plan_either
    join = plan(typed_type, where)

    def encode(array: pa.StructArray, names: Sequence[FieldNames]) -> Values:
        members = array.flatten()
        return join(encode_value(members, names), members[typed_index], names)

    return encode


_Join = Callable[[Values, Any, Sequence[FieldNames]], Values]
"""Joins a group's `value` and `typed_value`; also takes the field names for each row."""


def _plan_either(data_type: pa.DataType, where: str) -> _Join:
    """Plan the join for values other than objects: each row has at most one of both parts."""
    encode = _plan_array(data_type, where) if is_list(data_type) else _plan_leaf(data_type, where)

    def join(values: Values, typed: Any, names: Sequence[FieldNames]) -> Values:
        encoded = encode(typed, names)
        for value, other in zip(values, encoded, strict=True):
            if value is not None and other is not None:
                raise ValueError(f"variant {where} has two values in one row")
        return [
            value if other is None else other for value, other in zip(values, encoded, strict=True)
        ]

    return join


def _plan_object(data_type: pa.StructType, where: str) -> _Join:
    """Plan the join for an object: some fields have separate columns, others are in `value`."""
    own = [each.name for each in data_type]
    own_names = frozenset(own)
    if len(own_names) < len(own):
        raise ValueError(f"variant {where} has two fields with the same name")
    encoders = [_plan_field(each, where) for each in data_type]

    def merge_fields(
        value: bytes | None, own_values: Sequence[bytes | None], known: FieldNames
    ) -> bytes:
        fields = {
            name: each for name, each in zip(own, own_values, strict=True) if each is not None
        }
        if value is not None:
            others = object_fields(value, known)
            twice = own_names.intersection(others)
            if twice:
                raise ValueError(f"the field {min(twice)!r} is in {_VALUE} and has its own column")
            fields |= others
        return object_value(fields, known)

    def join(values: Values, typed: Any, names: Sequence[FieldNames]) -> Values:
        columns = [
            encode(array, names) for encode, array in zip(encoders, typed.flatten(), strict=True)
        ]
        is_object = typed.is_valid().to_pylist()
        with _naming_column(where):
            return [
                merge_fields(value, [column[i] for column in columns], names[i])
                if is_object[i]
                else value
                for i, value in enumerate(values)
            ]

    return join


def _plan_field(field: pa.Field, where: str) -> _Encode:
    if not pt.is_struct(field.type):
        raise ValueError(f"variant {where} has the field {field.name} as {field.type}, not a group")
    return _plan_parts(field.type, f"{where}.{field.name}")


def _plan_array(data_type: pa.DataType, where: str) -> _Encode:
    if not pt.is_struct(data_type.value_type):
        raise ValueError(f"variant {where} has elements of {data_type.value_type}, not a group")
    to_elements = _plan_parts(data_type.value_type, f"{where}.element")

    def encode(array: Any, names: Sequence[FieldNames]) -> Values:
        lengths = pc.list_value_length(array).to_pylist()
        names_of_elements = [
            known for known, length in zip(names, lengths, strict=True) for _ in range(length or 0)
        ]
        elements = iter(to_elements(array.flatten(), names_of_elements))
        return [
            None
            if length is None
            else array_value([next(elements) or _NULL for _ in range(length)])
            for length in lengths
        ]

    return encode


def _plan_leaf(data_type: pa.DataType, where: str) -> _Encode:
    to_values = plan_primitives(data_type)
    if to_values is None:
        raise ValueError(
            f"variant {where} has a {_TYPED_VALUE} of {data_type}, which variants cannot have"
        )

    def encode(array: Any, _names: Sequence[FieldNames]) -> Values:
        plain = decode(array)
        with _naming_column(where):
            return to_values(plain)

    return encode


@contextmanager
def _naming_column(where: str) -> Iterator[None]:
    """Add the column's name to errors about a value."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"variant {where}: {error}") from error


def _storage(array: Any) -> Any:
    return array.storage if isinstance(array.type, pa.BaseExtensionType) else array


def _binary(values: Values) -> pa.BinaryArray:
    """Build one array.

    Raises:
        pa.ArrowCapacityError: The values are larger than one array can hold.
    """
    if sum(len(each) for each in values if each is not None) > MAX_BYTES:
        raise pa.ArrowCapacityError("the variants are too large for one Arrow array")
    return array_of(values, pa.binary())


def plan_primitives(data_type: pa.DataType) -> Callable[[Any], Values] | None:
    """Return the encoder for columns of this type; None if variants lack the type.

    The encoder needs decoded dictionaries. It raises ValueError for a string that is not UTF-8 and
    for a decimal with too many digits.
    """
    plain = _type_of(data_type)
    return next((to_values for is_type, to_values in _PRIMITIVES if is_type(plain)), None)


def is_binary(data_type: pa.DataType) -> bool:
    """Return whether the values are bytes of any length, with or without a dictionary."""
    return _is_binary(_type_of(data_type))


def _plan_fixed_width(kind: Primitive, width: int) -> Callable[[Any], Values]:
    """Plan the encoding of values that have the same bytes in Arrow and in a variant."""
    layout = pa.binary(width)

    def encode(array: Any) -> Values:
        contents = array.view(layout).to_pylist()
        return [None if each is None else primitive_value(kind, each) for each in contents]

    return encode


def _booleans(array: Any) -> Values:
    values = {
        None: None,
        True: primitive_value(Primitive.TRUE),
        False: primitive_value(Primitive.FALSE),
    }
    return [values[each] for each in array.to_pylist()]


def _decimals(array: Any) -> Values:
    precision, scale = array.type.precision, array.type.scale
    numbers = array.cast(pa.decimal128(precision, scale)).view(pa.binary(16)).to_pylist()
    return [
        None
        if each is None
        else decimal_value(int.from_bytes(each, "little", signed=True), scale, precision)
        for each in numbers
    ]


def _strings(array: Any) -> Values:
    return [None if each is None else string_value(each) for each in array.to_pylist()]


def _binaries(array: Any) -> Values:
    return [None if each is None else binary_value(each) for each in array.to_pylist()]


def _uuids(array: Any) -> Values:
    return _plan_fixed_width(Primitive.UUID, 16)(array.storage)


def _is_string(t: pa.DataType) -> bool:
    return bool(pt.is_string(t) or pt.is_large_string(t) or pt.is_string_view(t))


def _is_binary(t: pa.DataType) -> bool:
    return bool(pt.is_binary(t) or pt.is_large_binary(t) or pt.is_binary_view(t))


def _is_timestamp(unit: str, *, has_zone: bool) -> Callable[[pa.DataType], bool]:
    return lambda t: pt.is_timestamp(t) and t.unit == unit and (t.tz is not None) == has_zone


_PRIMITIVES: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], Values]], ...] = (
    (pt.is_boolean, _booleans),
    (pt.is_int8, _plan_fixed_width(Primitive.INT8, 1)),
    (pt.is_int16, _plan_fixed_width(Primitive.INT16, 2)),
    (pt.is_int32, _plan_fixed_width(Primitive.INT32, 4)),
    (pt.is_int64, _plan_fixed_width(Primitive.INT64, 8)),
    (pt.is_float32, _plan_fixed_width(Primitive.FLOAT, 4)),
    (pt.is_float64, _plan_fixed_width(Primitive.DOUBLE, 8)),
    (pt.is_date32, _plan_fixed_width(Primitive.DATE, 4)),
    (lambda t: pt.is_time64(t) and t.unit == "us", _plan_fixed_width(Primitive.TIME_NTZ, 8)),
    (_is_timestamp("us", has_zone=True), _plan_fixed_width(Primitive.TIMESTAMP, 8)),
    (_is_timestamp("us", has_zone=False), _plan_fixed_width(Primitive.TIMESTAMP_NTZ, 8)),
    (_is_timestamp("ns", has_zone=True), _plan_fixed_width(Primitive.TIMESTAMP_NANOS, 8)),
    (_is_timestamp("ns", has_zone=False), _plan_fixed_width(Primitive.TIMESTAMP_NTZ_NANOS, 8)),
    (lambda t: pt.is_decimal32(t) or pt.is_decimal64(t) or pt.is_decimal128(t), _decimals),
    (_is_string, _strings),
    (_is_binary, _binaries),
    (lambda t: isinstance(t, pa.UuidType), _uuids),
)


def _type_of(data_type: pa.DataType) -> pa.DataType:
    return data_type.value_type if pt.is_dictionary(data_type) else data_type

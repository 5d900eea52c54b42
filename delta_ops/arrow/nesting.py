"""Nesting: convert values of one Arrow type to another, down to the leaves.

Fields of structs match by name, without regard to case; a missing field becomes null. All layouts
of lists and maps become plain layouts; dictionaries and run ends are decoded. The caller's rules
decide how leaves convert, because writes and reads have different rules. Structs, lists and maps
are rebuilt, since Arrow's own cast loses fields whose names differ in case, and loses the values of
list views.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delta_ops.arrow.dictionary_columns import MAX_BYTES, fit_in_array
from delta_ops.protocol.arrow_values import array_of, scalar
from delta_ops.protocol.schema.arrow_types import LEAF_IDS

Convert = Callable[[Any], Any]
"""Converts an array of one type to an array of another type."""

_WITHOUT_VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


class Rules(NamedTuple):
    """Which conversions are allowed."""

    leaf: Callable[[pa.DataType, pa.DataType, str], Convert]
    """Plans the conversion between two types, unless both are structs, both lists or both maps. The
    path is for messages."""
    validate_names: Callable[[Sequence[str], Sequence[str], str], None]
    """Checks the given and the wanted field names at a path; "" is the row."""


def plan_conversion(source: pa.DataType, target: pa.DataType, path: str, rules: Rules) -> Convert:
    """Plan the conversion from the source type to the target type.

    The target has no dictionary, except for a dictionary column that stays encoded.

    The conversion raises `pa.ArrowInvalid` or `pa.ArrowCapacityError` if the values are larger than
    one array can hold, and the errors of the leaves.
    """
    if source.id in LEAF_IDS:
        return rules.leaf(source, target, path)
    if pt.is_null(source):
        return lambda array: pa.nulls(len(array), target)
    if pt.is_dictionary(source):
        if source == target:
            return _keep_dictionary
        return _dictionary(source, target, path, rules)
    if pt.is_run_end_encoded(source):
        value_type = _WITHOUT_VIEWS.get(source.value_type, source.value_type)
        convert = plan_conversion(value_type, target, path, rules)
        return lambda array: convert(_decode_runs(array, value_type))
    if pt.is_struct(source) and pt.is_struct(target) and target.num_fields:
        return _struct(source, target, path, rules)
    if pt.is_map(source) and pt.is_map(target):
        return _map(source, target, path, rules)
    if is_list(source) and is_list(target):
        return _list(source, target, path, rules)
    return rules.leaf(source, target, path)


def plan_fields(
    source: Sequence[pa.Field], target: Sequence[pa.Field], path: str, rules: Rules
) -> Callable[[Sequence[pa.Array], int], list[pa.Array]]:
    """Plan how to convert columns; the conversion takes the source columns and their length."""
    rules.validate_names([each.name for each in source], [each.name for each in target], path)
    by_lower_name = {each.name.lower(): i for i, each in enumerate(source)}
    by_name = {each.name: i for i, each in enumerate(source)}
    plans: list[tuple[int, Convert] | None] = []
    for each in target:
        found = by_name.get(each.name, by_lower_name.get(each.name.lower()))
        inner = f"{path}.{each.name}" if path else each.name
        plans.append(
            None
            if found is None
            else (found, plan_conversion(source[found].type, each.type, inner, rules))
        )

    def convert(columns: Sequence[pa.Array], num_rows: int) -> list[pa.Array]:
        return [
            pa.nulls(num_rows, each.type) if plan is None else plan[1](columns[plan[0]])
            for each, plan in zip(target, plans, strict=True)
        ]

    return convert


def convert_in_pieces(rows: Any, convert: Convert) -> Iterator[Any]:
    """Convert an array or batch, and split it if the result is too large for one array.

    Raises:
        pa.ArrowInvalid, pa.ArrowCapacityError: A single row does not convert.
    """
    try:
        converted = convert(rows)
    except (pa.ArrowInvalid, pa.ArrowCapacityError):
        if len(rows) < 2:
            raise
    else:
        yield converted
        return
    half = len(rows) // 2
    yield from convert_in_pieces(rows.slice(0, half), convert)
    yield from convert_in_pieces(rows.slice(half), convert)


def cast(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Apply Arrow's safe cast, which rejects lossy conversions.

    Raises:
        pa.ArrowException: A value does not fit, or all values together are larger than one array
            can hold.
    """
    if values.type in _WITHOUT_VIEWS:
        # A direct cast of more than 2 GiB of views silently creates a broken array.
        values = values.cast(_WITHOUT_VIEWS[values.type])
    try:
        return values.cast(target)
    except pa.ArrowInvalid:
        is_large = pt.is_large_string(values.type) or pt.is_large_binary(values.type)
        if not is_large or values.nbytes > MAX_BYTES:
            raise
    # For a slice, Arrow checks its end in the buffer instead of its length.
    return pa.concat_arrays([values, values.slice(0, 0)]).cast(target)


def integer_to_decimal(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert integers to decimals.

    Raises:
        pa.ArrowException: A number has too many digits.
    """
    # Arrow requires a precision that fits every number of the integer type.
    digits_of_any = 20
    return values.cast(pa.decimal256(digits_of_any + target.scale, target.scale)).cast(target)


def decimal_to_decimal(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert decimals to another precision and scale.

    Raises:
        pa.ArrowException: A number has too many digits.
    """
    fitted = values.cast(target)
    source = values.type
    if target.precision - target.scale >= source.precision - source.scale:
        return fitted
    # Arrow appends zeros without an overflow check; a wrapped number does not convert back.
    if not fitted.cast(source).equals(values):
        raise pa.ArrowInvalid(f"a number has too many digits for {target}")
    return fitted


def is_list(data_type: pa.DataType) -> bool:
    """Return whether the type is a list, in any of Arrow's layouts."""
    return bool(
        pt.is_list(data_type)
        or pt.is_large_list(data_type)
        or pt.is_fixed_size_list(data_type)
        or pt.is_list_view(data_type)
        or pt.is_large_list_view(data_type)
    )


def has_views(data_type: pa.DataType) -> bool:
    """Return whether the type is, or contains, a view type of strings or bytes."""
    if isinstance(data_type, pa.BaseExtensionType):
        return has_views(data_type.storage_type)
    inner = (data_type.field(i).type for i in range(data_type.num_fields))
    return data_type in _WITHOUT_VIEWS or any(map(has_views, inner))


def drop_hidden_nulls(array: Any, data_type: pa.DataType, *, nullable: bool) -> Any:
    """Replace nulls that the type forbids by arbitrary values.

    Such nulls occur only where a parent is null, so no reader sees the values.

    Args:
        array: An array of the type. Its forbidden nulls are all below null parents.
        data_type: A type without views and dictionaries.
        nullable: Whether the array itself may have nulls.
    """
    mask = nulls_of(array) if nullable else None
    if pt.is_struct(data_type):
        members = [
            drop_hidden_nulls(member, each.type, nullable=each.nullable)
            for member, each in zip(array.flatten(), data_type, strict=True)
        ]
        return pa.StructArray.from_arrays(members, fields=list(data_type), mask=mask)
    if pt.is_map(data_type):
        lists = entries(array)
        keys, items = lists.flatten().flatten()
        keys = drop_hidden_nulls(keys, data_type.key_type, nullable=False)
        item_field = data_type.item_field
        items = drop_hidden_nulls(items, item_field.type, nullable=item_field.nullable)
        return pa.MapArray.from_arrays(offsets_of(lists), keys, items, type=data_type, mask=mask)
    if pt.is_list(data_type):
        field = data_type.value_field
        values = drop_hidden_nulls(array.flatten(), field.type, nullable=field.nullable)
        return pa.ListArray.from_arrays(offsets_of(array), values, type=data_type, mask=mask)
    if nullable or not array.null_count:
        return array
    buffers = [None, *array.buffers()[1:]]
    return pa.Array.from_buffers(data_type, len(array), buffers, offset=array.offset)


def entries(array: pa.MapArray) -> pa.ListArray:
    """Return a map as the list of its pairs, without a copy."""
    pairs = pa.StructArray.from_arrays(
        [array.keys, array.items], fields=[array.type.key_field, array.type.item_field]
    )
    validity, offsets = array.buffers()[:2]
    return pa.ListArray.from_buffers(
        pa.list_(pairs.type), len(array), [validity, offsets], offset=array.offset, children=[pairs]
    )


def _keep_dictionary(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return the array unchanged if its decoded strings fit in one array."""
    if not fit_in_array(array):
        raise pa.ArrowCapacityError("the strings are too large for one Arrow array")
    return array


def _dictionary(source: pa.DataType, target: pa.DataType, path: str, rules: Rules) -> Convert:
    value_type = _WITHOUT_VIEWS.get(source.value_type, source.value_type)
    convert = plan_conversion(value_type, target, path, rules)
    # Decode first, since an unused value of the dictionary need not fit. Arrow's take does not
    # support view types.
    return lambda array: convert(array.dictionary.cast(value_type).take(array.indices))


def _decode_runs(array: Any, value_type: pa.DataType) -> pa.Array:
    """Repeat the value of each run; Arrow does not do so for views."""
    if array.type.value_type != value_type:
        plain = pa.RunEndEncodedArray.from_arrays(array.run_ends, array.values.cast(value_type))
        array = plain.slice(array.offset, len(array))
    return pc.run_end_decode(array)


def _struct(source: pa.DataType, target: pa.DataType, path: str, rules: Rules) -> Convert:
    fields = list(target)
    members = plan_fields(list(source), fields, path, rules)

    def convert(array: pa.StructArray) -> pa.StructArray:
        # flatten() makes fields null where the struct is null: hidden values need not fit.
        arrays = members(array.flatten(), len(array))
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=nulls_of(array))

    return convert


def _list(source: pa.DataType, target: pa.DataType, path: str, rules: Rules) -> Convert:
    element = plan_conversion(source.value_type, target.value_type, f"{path}.element", rules)

    def convert(array: Any) -> pa.ListArray:
        values = element(array.flatten())
        return pa.ListArray.from_arrays(
            offsets_of(array), values, type=target, mask=nulls_of(array)
        )

    return convert


def _map(source: pa.DataType, target: pa.DataType, path: str, rules: Rules) -> Convert:
    key = plan_conversion(source.key_type, target.key_type, f"{path}.key", rules)
    item = plan_conversion(source.item_type, target.item_type, f"{path}.value", rules)

    def convert(array: pa.MapArray) -> pa.MapArray:
        lists = entries(array)
        keys, items = lists.flatten().flatten()
        return pa.MapArray.from_arrays(
            offsets_of(lists), key(keys), item(items), type=target, mask=nulls_of(array)
        )

    return convert


def nulls_of(array: pa.Array) -> pa.BooleanArray | None:
    """Return a mask of null values; None if there are none."""
    return array.is_null() if array.null_count else None


def offsets_of(array: Any) -> pa.Int32Array:
    """Return the start of each list in the flattened values.

    Raises:
        pa.ArrowInvalid: An offset needs more than 32 bits.
    """
    lengths = pc.list_value_length(array).cast(pa.int64())
    if lengths.null_count:
        lengths = pc.fill_null(lengths, scalar(0))
    ends = pc.cumulative_sum(lengths)
    return pa.concat_arrays([array_of([0], pa.int64()), ends]).cast(pa.int32())


def fill_types(source: pa.Schema, known: pa.Schema) -> pa.Schema:
    """Give columns of type null the type of the table's column with the same name."""
    names = {each.name.lower(): each.type for each in known}
    return pa.schema(
        each.with_type(_fill_type(each.type, names.get(each.name.lower()))) for each in source
    )


def _fill_type(source: pa.DataType, known: pa.DataType | None) -> pa.DataType:
    if known is None:
        return source
    if pt.is_null(source):
        return known
    if pt.is_struct(source) and pt.is_struct(known):
        return pa.struct(list(fill_types(pa.schema(list(source)), pa.schema(list(known)))))
    if is_list(source) and is_list(known):
        element = source.value_field
        return pa.list_(element.with_type(_fill_type(element.type, known.value_type)))
    if pt.is_map(source) and pt.is_map(known):
        item = source.item_field
        return pa.map_(source.key_field, item.with_type(_fill_type(item.type, known.item_type)))
    return source

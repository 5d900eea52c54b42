"""Nesting: values of one Arrow type as values of another, down to the leaves.

Fields of structs are found by name, whatever its case; one that is missing becomes null. Lists and
maps of every layout become the plain ones, dictionaries and run ends are decoded. What a leaf may
become is for the caller's rules to say: those for what is written differ from those for what is
read. Structs, lists and maps are taken apart and built anew, since Arrow's own cast takes fields of
another case for missing, and loses the values of list views.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delta_ops.arrow.coded_texts import MAX_BYTES, fit_in_array

Convert = Callable[[Any], Any]
"""From an array of the one type to an array of the other."""

_WITHOUT_VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


class Rules(NamedTuple):
    """What may become what."""

    leaf: Callable[[pa.DataType, pa.DataType, str], Convert]
    """For types that are not both nested alike; the path is for messages."""
    validate_names: Callable[[Sequence[str], Sequence[str], str], None]
    """Looks at the names of the fields that are given and wanted, at a path; "" is the row."""


def plan_conversion(source: pa.DataType, target: pa.DataType, path: str, rules: Rules) -> Convert:
    """How to make the target type of the source type.

    The target has no dictionary, but for a column of coded texts that stay so.

    What the result raises is a matter of size: `pa.ArrowInvalid` or `pa.ArrowCapacityError` where
    the values are more than one array holds; and what the leaves raise.
    """
    if pt.is_null(source):
        return lambda array: pa.nulls(len(array), target)
    if pt.is_dictionary(source):
        if source == target:
            return _keep_codes
        return _dictionary(source, target, path, rules)
    if pt.is_run_end_encoded(source):
        convert = plan_conversion(source.value_type, target, path, rules)
        return lambda array: convert(pc.run_end_decode(array))
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
    """How to make the target's columns of the source's; called with these and their length."""
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
    """What conversion makes of an array or batch, in as many pieces as sizes make necessary.

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
    """Arrow's safe cast, which refuses what would be lost.

    Raises:
        pa.ArrowException: A value does not fit, or all of them are more than an array holds.
    """
    if values.type in _WITHOUT_VIEWS:
        # Cast at once, more than 2 GiB of views become a broken array without a word.
        values = values.cast(_WITHOUT_VIEWS[values.type])
    try:
        return values.cast(target)
    except pa.ArrowInvalid:
        is_large = pt.is_large_string(values.type) or pt.is_large_binary(values.type)
        if not is_large or values.nbytes > MAX_BYTES:
            raise
    # Of a slice Arrow looks at where it ends in its buffer, not at how long it is.
    return pa.concat_arrays([values, values.slice(0, 0)]).cast(target)


def integer_to_decimal(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Whole numbers as decimals.

    Raises:
        pa.ArrowException: A number has too many digits.
    """
    # Arrow demands a precision for every number of the integer type, present or not.
    digits_of_any = 20
    return values.cast(pa.decimal256(digits_of_any + target.scale, target.scale)).cast(target)


def decimal_to_decimal(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Decimals as decimals of another precision and scale.

    Raises:
        pa.ArrowException: A number has too many digits.
    """
    fitted = values.cast(target)
    given = values.type
    if target.precision - target.scale >= given.precision - given.scale:
        return fitted
    # Arrow appends zeros without a look at whether the bits suffice; what it wrapped does not come
    # back.
    if not fitted.cast(given).equals(values):
        raise pa.ArrowInvalid(f"a number has too many digits for {target}")
    return fitted


def is_list(data_type: pa.DataType) -> bool:
    """Whether the type is one of lists, in any of Arrow's layouts."""
    return bool(
        pt.is_list(data_type)
        or pt.is_large_list(data_type)
        or pt.is_fixed_size_list(data_type)
        or pt.is_list_view(data_type)
        or pt.is_large_list_view(data_type)
    )


def has_views(data_type: pa.DataType) -> bool:
    """Whether the type is one of views of texts or bytes, or has such a one inside."""
    if isinstance(data_type, pa.BaseExtensionType):
        return has_views(data_type.storage_type)
    inner = (data_type.field(i).type for i in range(data_type.num_fields))
    return data_type in _WITHOUT_VIEWS or any(map(has_views, inner))


def drop_hidden_nulls(array: Any, data_type: pa.DataType, *, nullable: bool) -> Any:
    """Rebuild an array without the nulls that its type forbids; they may stand below null parents.

    Args:
        array: Has the type, and no null where the type and the parents forbid it.
        data_type: Has neither views nor dictionaries.
        nullable: Whether the array itself may have nulls; those it has are otherwise hidden.
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
    """A map as the list of its pairs, without a copy."""
    pairs = pa.StructArray.from_arrays(
        [array.keys, array.items], fields=[array.type.key_field, array.type.item_field]
    )
    validity, offsets = array.buffers()[:2]
    return pa.ListArray.from_buffers(
        pa.list_(pairs.type), len(array), [validity, offsets], offset=array.offset, children=[pairs]
    )


def _keep_codes(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """The array itself, if it can be decoded at once."""
    if not fit_in_array(array):
        raise pa.ArrowCapacityError("the texts are more than one array holds")
    return array


def _dictionary(source: pa.DataType, target: pa.DataType, path: str, rules: Rules) -> Convert:
    value_type = _WITHOUT_VIEWS.get(source.value_type, source.value_type)
    convert = plan_conversion(value_type, target, path, rules)
    # Decoded first, since a value of the dictionary that no row has need not fit. Arrow cannot take
    # values of an array of views.
    return lambda array: convert(array.dictionary.cast(value_type).take(array.indices))


def _struct(source: pa.DataType, target: pa.DataType, path: str, rules: Rules) -> Convert:
    fields = list(target)
    members = plan_fields(list(source), fields, path, rules)

    def convert(array: pa.StructArray) -> pa.StructArray:
        # Flattened, a field is null where the struct is: what lies hidden there need not fit.
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
    """Which values are null; None if none is."""
    return array.is_null() if array.null_count else None


def offsets_of(array: Any) -> pa.Int32Array:
    """Where each list starts in the flattened values; refused where 32 bits cannot tell."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int64())
    ends = pc.cumulative_sum(lengths)
    return pa.concat_arrays([pa.array([0], pa.int64()), ends]).cast(pa.int32())

"""Unsigned 64-bit integers: the type of a new column for values that Delta has no type for.

The column is a `long` if the data are in memory and all values fit, else a `decimal(20,0)`, which
holds every value.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

_EVERY_VALUE = pa.decimal128(20, 0)


def signed_fields(fields: Iterable[pa.Field], given: Any) -> list[pa.Field]:
    """Replace unsigned 64-bit integers in the types of new columns, at any depth.

    Args:
        given: The caller's data, which has the fields.
    """
    return [_signed_field(each, given) for each in fields]


def _signed_field(field: pa.Field, given: Any) -> pa.Field:
    long = _replace(field.type, pa.int64())
    if long == field.type:
        return field
    if isinstance(given, pa.Table | pa.RecordBatch):
        try:
            given.column(field.name).cast(long)
        except pa.ArrowInvalid:  # a value does not fit
            pass
        else:
            return field.with_type(long)
    return field.with_type(_replace(field.type, _EVERY_VALUE))


def _replace(data_type: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    if pt.is_uint64(data_type):
        return wanted
    if pt.is_dictionary(data_type) or pt.is_run_end_encoded(data_type):
        value_type = _replace(data_type.value_type, wanted)
        return data_type if value_type == data_type.value_type else value_type
    if pt.is_struct(data_type):
        return pa.struct([_replace_in(each, wanted) for each in data_type])
    if pt.is_list(data_type):
        return pa.list_(_replace_in(data_type.value_field, wanted))
    if pt.is_large_list(data_type):
        return pa.large_list(_replace_in(data_type.value_field, wanted))
    if pt.is_map(data_type):
        key, item = data_type.key_field, data_type.item_field
        return pa.map_(_replace_in(key, wanted), _replace_in(item, wanted))
    return data_type


def _replace_in(field: pa.Field, wanted: pa.DataType) -> pa.Field:
    return field.with_type(_replace(field.type, wanted))

"""Unsigned 64-bit integers: the type of a new column for values that Delta has no type for.

The column is a `long` if the data are in memory and all values fit, else a `decimal(20,0)`, which
holds every value.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from delta_ops.arrow.casting import plan_fit
from delta_ops.arrow.nesting import is_list
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema.arrow_types import LEAF_IDS

_EVERY_VALUE = pa.decimal128(20, 0)


def signed_fields(fields: Iterable[pa.Field], given: Any) -> list[pa.Field]:
    """Replace unsigned 64-bit integers in the types of new columns, at any depth.

    Args:
        given: The caller's data, which has the fields.
    """
    return [_signed_field(each, given) for each in fields]


def _signed_field(field: pa.Field, given: Any) -> pa.Field:
    if field.type.id in LEAF_IDS:
        return field
    long = _replace_in(field, pa.int64())
    if long.type == field.type or _fits(given, field, long):
        return long
    return _replace_in(field, _EVERY_VALUE)


def _fits(given: Any, field: pa.Field, wanted: pa.Field) -> bool:
    """Whether the data are in memory, and all values of the field fit another type."""
    if not isinstance(given, pa.Table | pa.RecordBatch):
        return False
    index = given.schema.get_field_index(field.name)
    if index < 0:  # the name occurs twice, which is rejected later
        return False
    fit = plan_fit(pa.schema([field]), pa.schema([wanted]), "")
    column = given.select([index])
    batches = column.to_batches() if isinstance(column, pa.Table) else [column]
    try:
        for batch in batches:
            for _ in fit(batch):
                pass
    except InvalidRequestError:
        return False
    return True


def _replace(data_type: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    if pt.is_uint64(data_type):
        return wanted
    if pt.is_dictionary(data_type) or pt.is_run_end_encoded(data_type):
        value_type = _replace(data_type.value_type, wanted)
        return data_type if value_type == data_type.value_type else value_type
    if pt.is_struct(data_type):
        return pa.struct([_replace_in(each, wanted) for each in data_type])
    if is_list(data_type):
        element = _replace_in(data_type.value_field, wanted)
        return data_type if element == data_type.value_field else pa.list_(element)
    if pt.is_map(data_type):
        key, item = data_type.key_field, data_type.item_field
        return pa.map_(_replace_in(key, wanted), _replace_in(item, wanted))
    return data_type


def _replace_in(field: pa.Field, wanted: pa.DataType) -> pa.Field:
    return field.with_type(_replace(field.type, wanted))

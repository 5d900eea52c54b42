"""CHAR columns: pad values that are read, and limit the length of values that are written.

Source: Spark's `ApplyCharTypePadding`, which also pads fields, elements, keys and values. Writers
may omit the padding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delta_ops.arrow.nesting import entries, nulls_of, offsets_of
from delta_ops.protocol.schema import StructType
from delta_ops.protocol.schema.char_types import CharLengths, char_lengths


def plan_padding(schema: StructType) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Plan how to pad batches with these columns."""
    lengths = [char_lengths(each) for each in schema.fields]
    if not any(lengths):
        return lambda batch: batch

    def pad(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = map(_pad, batch.columns, lengths)
        return pa.RecordBatch.from_arrays(list(arrays), schema=batch.schema)

    return pad


def find_longer(array: Any, limits: CharLengths, path: str) -> Iterator[tuple[str, int]]:
    """Yield the path and limit of each column or nested value with a string that is too long.

    Args:
        array: An array of any type, in Arrow's plain layouts.
        limits: The limits, from `length_limits`.
        path: The array's own path.
    """
    if isinstance(limits, int):
        longest = pc.max(pc.utf8_length(array)).as_py()
        if longest is not None and longest > limits:
            yield path, limits
        return
    if pt.is_struct(array.type):
        members = dict(zip((each.name for each in array.type), array.flatten(), strict=True))
    elif pt.is_map(array.type):
        members = dict(zip(("key", "value"), entries(array).flatten().flatten(), strict=True))
    else:
        members = {"element": array.flatten()}
    for name, inner in limits.items():
        yield from find_longer(members[name], inner, f"{path}.{name}")


def _pad(array: Any, lengths: CharLengths | None) -> Any:
    """Pad the strings of an array of any type.

    Args:
        array: An array in Arrow's plain layouts.
    """
    if lengths is None:
        return array
    if isinstance(lengths, int):
        return pc.utf8_rpad(array, lengths)
    data_type, mask = array.type, nulls_of(array)
    if pt.is_struct(data_type):
        members = [
            _pad(member, lengths.get(field.name))
            for member, field in zip(array.flatten(), data_type, strict=True)
        ]
        return pa.StructArray.from_arrays(members, fields=list(data_type), mask=mask)
    if pt.is_map(data_type):
        lists = entries(array)
        keys, items = lists.flatten().flatten()
        keys, items = _pad(keys, lengths.get("key")), _pad(items, lengths.get("value"))
        return pa.MapArray.from_arrays(offsets_of(lists), keys, items, type=data_type, mask=mask)
    elements = _pad(array.flatten(), lengths["element"])
    return pa.ListArray.from_arrays(offsets_of(array), elements, type=data_type, mask=mask)

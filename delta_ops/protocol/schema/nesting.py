"""Nesting: how deep the types of columns may be, so that every reader takes their files."""

from __future__ import annotations

from delta_ops.protocol.schema import ArrayType, DataType, MapType, StructType

MAX_LEVELS = 98
"""Arrow reads files of a hundred, with the root, and rows may come to have one struct more."""


def levels(data_type: DataType) -> int:
    """How many levels of groups, and one of values, a column has in a Parquet file."""
    most = 0
    left = [(data_type, 1)]
    while left:  # without recursion, which has an end itself
        each, depth = left.pop()
        most = max(most, depth)
        match each:
            case StructType(fields=fields):
                left += [(field.data_type, depth + 1) for field in fields]
            case ArrayType(element_type=element):
                left.append((element, depth + 2))
            case MapType(key_type=key, value_type=value):
                left += [(key, depth + 2), (value, depth + 2)]
    return most

"""Nesting: limits the depth of column types, so that every reader can read the files."""

from __future__ import annotations

from delta_ops.protocol.schema import ArrayType, DataType, MapType, StructType

MAX_LEVELS = 98
"""Arrow reads files of a hundred levels, including the root; rows may get one more struct."""


def levels(data_type: DataType) -> int:
    """Number of levels of a column in a Parquet file: its groups and its values."""
    most = 0
    left = [(data_type, 1)]
    while left:  # iterates, since recursion has a limit of its own
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

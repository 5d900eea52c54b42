"""Codec choice: which columns of a data file are worth compressing.

Numbers that look random, such as measured ones with many digits, take as much room compressed as
plain, and time whenever they are written and read.
"""

from __future__ import annotations

import pyarrow as pa

_MOST_SAMPLED = 4096
_HARDLY_SMALLER = 0.9
"""Share of its size that a sample of a column has once it is compressed, from which on that does
not pay."""
_LEAST_BITS = 32
"""Smaller numbers stand in dictionaries, or compress."""


def find_incompressible(rows: pa.Table, codec: str) -> list[int]:
    """The columns of numbers that a codec makes hardly smaller, by their places.

    Args:
        rows: The first of a file, many.
        codec: By its name for Arrow.
    """
    first = rows.slice(0, _MOST_SAMPLED)
    return [i for i, column in enumerate(first.columns) if _is_incompressible(column, codec)]


def _is_incompressible(column: pa.ChunkedArray, codec: str) -> bool:
    if not pa.types.is_primitive(column.type) or column.type.bit_width < _LEAST_BITS:
        return False
    values = pa.concat_arrays(column.drop_null().chunks or [pa.nulls(0, column.type)])
    as_bytes = values.view(pa.int64() if column.type.bit_width > _LEAST_BITS else pa.int32())
    content = as_bytes.to_numpy().tobytes()
    compressed = pa.compress(content, codec=codec, asbytes=True)
    return len(compressed) > _HARDLY_SMALLER * len(content) > 0

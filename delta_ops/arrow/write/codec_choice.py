"""Codec choice: which columns of a data file are worth compressing.

Numbers that look random, such as measured ones with many digits, take as much room compressed as
plain, and time whenever they are written and read.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

_SAMPLED_ROWS = 2048
"""Neighbours at the beginning, and as many in the middle."""
_HARDLY_SMALLER = 0.9
"""Share of its size that a sample of a column has once it is compressed, from which on that does
not pay."""
_LEAST_BITS = 32
"""Smaller numbers stand in dictionaries, or compress."""


def find_incompressible(rows: pa.Table, places: Iterable[int], codec: str) -> list[int]:
    """The columns of numbers that a codec makes hardly smaller.

    Args:
        rows: The first of a file, many.
        places: The columns to look at.
        codec: By its name for Arrow.

    Returns:
        Their places.
    """
    return [i for i in places if _is_incompressible(rows.column(i), codec)]


def _is_incompressible(column: pa.ChunkedArray, codec: str) -> bool:
    if not pa.types.is_primitive(column.type) or column.type.bit_width < _LEAST_BITS:
        return False
    samples = (column.slice(start, _SAMPLED_ROWS) for start in (0, len(column) // 2))
    chunks = [chunk for each in samples for chunk in each.drop_null().chunks]
    values = pa.concat_arrays(chunks or [pa.nulls(0, column.type)])
    as_bytes = values.view(pa.int64() if column.type.bit_width > _LEAST_BITS else pa.int32())
    content = as_bytes.to_numpy().tobytes()
    compressed = pa.compress(content, codec=codec, asbytes=True)
    return len(compressed) > _HARDLY_SMALLER * len(content) > 0

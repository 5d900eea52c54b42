"""Arrow values without pandas.

pyarrow imports pandas, if it is installed, as soon as it converts a Python value: `pa.array`,
`pa.scalar`, `Schema.empty_table`, and comparisons of a column with a Python value. The import takes
longer than opening a table.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable
from itertools import accumulate

import numpy as np
import pyarrow as pa


def empty_table(schema: pa.Schema) -> pa.Table:
    """Return a table without rows."""
    return pa.table([pa.nulls(0, each.type) for each in schema], schema=schema)


def integer_array(values: Iterable[int], data_type: pa.DataType | None = None) -> pa.Array:
    """Return integers as an array of a type with 64 bits; int64 by default."""
    numbers = array("q", values)
    buffers = [None, pa.py_buffer(numbers)]
    return pa.Array.from_buffers(data_type or pa.int64(), len(numbers), buffers)


def integer_scalar(value: int, data_type: pa.DataType | None = None) -> pa.Scalar:
    """Return an integer as a scalar of a type with 64 bits; int64 by default."""
    return integer_array([value], data_type)[0]


def text_array(texts: Collection[str | None]) -> pa.Array:
    """Return texts as an array; raises `OverflowError` if they have more than 2 GB in total."""
    encoded = [b"" if each is None else each.encode() for each in texts]
    ends = pa.py_buffer(array("i", accumulate(map(len, encoded), initial=0)))
    content = pa.py_buffer(b"".join(encoded))
    if None not in texts:
        return pa.StringArray.from_buffers(len(encoded), ends, content)
    are_valid = np.packbits([each is not None for each in texts], bitorder="little")
    return pa.StringArray.from_buffers(len(encoded), ends, content, pa.py_buffer(are_valid))

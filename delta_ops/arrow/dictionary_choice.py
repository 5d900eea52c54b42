"""Dictionary choice: which columns of a data file get a dictionary.

Arrow begins one for every column, and gives it up when it has grown too large: of values that
hardly repeat that takes time, and leaves a larger file.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_SAMPLE_ROWS = 4096
MANY_ROWS = 8 * _SAMPLE_ROWS
"""With fewer rows a dictionary takes little time, and a sample would tell little."""
_MOST_REPEATED = 0.95
"""Share of values in a sample that differ, from which on a dictionary does not pay."""


def choose_dictionaries(rows: pa.Table) -> list[int]:
    """The columns to write with a dictionary, by their places.

    Args:
        rows: The first of a file, many; no column is nested.
    """
    places = pc.multiply(pa.arange(0, _SAMPLE_ROWS), len(rows) // _SAMPLE_ROWS)
    # Of sorted rows, those that are far apart differ, and neighbours repeat.
    samples = rows.take(places), rows.slice(0, _SAMPLE_ROWS)
    return [i for i in range(rows.num_columns) if any(_repeats(each.column(i)) for each in samples)]


def _repeats(values: pa.ChunkedArray) -> bool:
    return len(pc.unique(values)) < _MOST_REPEATED * len(values)

"""Dictionary choice: which columns of a data file get a dictionary.

Arrow begins one for every column, and gives it up when it has grown too large: of values that
hardly repeat that takes time, and leaves a larger file.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arrow.coded_texts import is_coded

MANY_ROWS = 4096
"""With fewer rows a dictionary takes little time and room, and a sample would tell little."""
_SAMPLED_SHARE, _MOST_SAMPLED = 8, 4096
"""An eighth of the rows, and no more than so many."""
_MOST_REPEATED = 0.95
"""Share of values in a sample that differ, from which on a dictionary does not pay."""


def choose_dictionaries(rows: pa.Table) -> list[int]:
    """The columns to write with a dictionary, by their places.

    Args:
        rows: The first of a file, many; no column is nested. Those that are coded stay so.
    """
    num_sampled = min(len(rows) // _SAMPLED_SHARE, _MOST_SAMPLED)
    places = pc.multiply(pa.arange(0, num_sampled), len(rows) // num_sampled)
    # Of sorted rows, those that are far apart differ, and neighbours repeat.

    def pays(column: pa.ChunkedArray) -> bool:
        samples = column.take(places), column.slice(0, num_sampled)
        return is_coded(column.type) or any(map(_repeats, samples))

    return [i for i, column in enumerate(rows.columns) if pays(column)]


def _repeats(values: pa.ChunkedArray) -> bool:
    present = values.drop_null()
    return not len(present) or len(pc.unique(present)) < _MOST_REPEATED * len(present)

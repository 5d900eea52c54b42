"""Overlaps: chooses laid-out files to rewrite with new files, by one column's ranges. Pure.

Most data arrives in the order of the column, and some data arrives late. New files are laid out
among themselves, and late data then overlaps older files. At most `MOST_DEPTH` files may hold a
value. To reach this depth, a run also rewrites the files that reduce the depth most for their
bytes. These are the files with late data of earlier runs, which are few and have wide ranges. Late
data must not share a file with data that continues the table; see `RewriteGroup.separate`.

Two rules limit the bytes to rewrite; beyond the limit, the caller chooses by size:

1. The limit is `_MOST_SHARE` times the bytes of new files. Otherwise a table whose data always has
   wide ranges would be rewritten in every run.
2. It is raised to the size of two files, but to at most `_MOST_SHARE_OF_FILES` times the bytes of
   new files. Otherwise a large file of late data would overlap forever.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

MOST_DEPTH = 3
"""The most files that may hold a value after a run."""
_MOST_SHARE = 4
"""Limit for the bytes to rewrite with new files, as a factor of their bytes."""
_FEW_FILES = 2
"""Number of files of median size that raises the limit."""
_MOST_SHARE_OF_FILES = 16
"""Upper bound of the raised limit, as a factor of the bytes of new files."""
_MANY_SMALL = 16
"""Number of small files that triggers a rewrite.

Each row is rewritten about log(file size / size of an increment) times, to this base.
"""
_GROWTH = 2
_NARROW = 4
"""Factor of the median width: narrower files count as in place."""

Ints = npt.NDArray[np.int64]


class Ranges(NamedTuple):
    """The smallest and the largest value of each file, as ranks from 0 among all values."""

    lows: Ints
    highs: Ints


def choose_small(sizes: Ints, limit: int) -> list[int]:
    """Numbers of small files to combine: the smallest files, if there are many.

    Args:
        sizes: Bytes of the laid-out files.
        limit: Files of at least this many bytes are large enough.
    """
    order = [int(number) for number in np.argsort(sizes, kind="stable") if sizes[number] < limit]
    if len(order) < _MANY_SMALL:
        return []
    taken, size = order[:_MANY_SMALL], int(sizes[order[:_MANY_SMALL]].sum())
    for number in order[_MANY_SMALL:]:
        if sizes[number] > _GROWTH * size:
            break
        taken.append(number)
        size += int(sizes[number])
    return taken


def choose_overlapping(
    ranges: Ranges, sizes: Ints, is_rewritten: npt.NDArray[np.bool_]
) -> list[int] | None:
    """Select the files to rewrite together with the chosen files; None if they are too many.

    Returns the numbers of the files.

    Args:
        ranges: The value range of each file.
        sizes: Bytes of each file.
        is_rewritten: Whether each file is already chosen; at least one is.
    """
    left = _most_bytes(sizes, is_rewritten)
    # There is one place for each rank and one between two ranks. The last value of a file does not
    # count, since the next file may begin with it.
    firsts, lasts = 2 * ranges.lows, np.maximum(2 * ranges.lows, 2 * ranges.highs - 1)
    num_places = int(lasts.max()) + 1
    depth = np.zeros(num_places + 1, np.int64)
    np.add.at(depth, firsts[~is_rewritten], 1)
    np.add.at(depth, lasts[~is_rewritten] + 1, -1)
    depth = np.cumsum(depth[:-1])
    begin, end = int(firsts[is_rewritten].min()), int(lasts[is_rewritten].max()) + 1
    is_kept = ~is_rewritten
    found: list[int] = []
    while True:
        is_deep = np.zeros(num_places, bool)
        is_deep[begin:end] = depth[begin:end] >= MOST_DEPTH
        before = np.concatenate([[0], np.cumsum(is_deep)])
        helped = np.where(is_kept, before[lasts + 1] - before[firsts], 0)
        number = int(np.argmax(helped / np.maximum(sizes, 1)))
        if not helped[number]:
            return found
        left -= int(sizes[number])
        if left < 0:
            return None
        found.append(number)
        is_kept[number] = False
        first, last = int(firsts[number]), int(lasts[number])
        depth[first : last + 1] -= 1
        begin, end = min(begin, first), max(end, last + 1)


def _most_bytes(sizes: Ints, is_rewritten: npt.NDArray[np.bool_]) -> int:
    new, kept = int(sizes[is_rewritten].sum()), sizes[~is_rewritten]
    few = _FEW_FILES * int(np.median(kept)) if len(kept) else 0
    return max(_MOST_SHARE * new, min(few, _MOST_SHARE_OF_FILES * new))


def find_last_in_place(ranges: Ranges, is_kept: npt.NDArray[np.bool_]) -> int | None:
    """The kept file that ends last, without files that have wide ranges.

    A file with dates in the far future, or with late data only, does not show where new data
    begins.
    """
    numbers = np.flatnonzero(is_kept)
    if not len(numbers):
        return None
    widths = ranges.highs[numbers] - ranges.lows[numbers]
    middle = np.sort(widths)[(len(widths) - 1) // 2]
    in_place = numbers[widths <= _NARROW * middle]
    return int(in_place[np.argmax(ranges.highs[in_place])])

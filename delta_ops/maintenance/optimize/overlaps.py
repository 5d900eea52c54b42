"""Overlaps: which laid-out files to lay out again with new ones, by the ranges of one column. Pure.

Data comes in the order of the column, mostly, and some of it late. What is new is laid out for
itself; it lies beside older files where it is late. At most `MOST_DEPTH` files may hold a value:
where there would be more, those are rewritten too that are in the way of most for their bytes.
These are the late data of earlier runs, few and spread far, and not the many files that have been
in their place for long. For that, late data must not share a file with new data that continues the
table; see `RewriteGroup.apart`.

Where all data are spread everywhere, that would come to rewrite the table again and again: more
than `_MOST_SHARE` of what is new is not chosen, and the caller goes by size. Where files are many
times what is new, one of late data would be more than that, and would stay in everyone's way: two
files may be chosen, up to `_MOST_SHARE_OF_FILES` of what is new.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

MOST_DEPTH = 3
"""How many files may hold a value after a run."""
_MOST_SHARE = 4
"""Times the bytes of new files that may be rewritten with them."""
_FEW_FILES = 2
"""How many files of the middle size may be rewritten, also if they are more than that."""
_MOST_SHARE_OF_FILES = 16
"""Times the bytes of new files that these few may be."""
_MANY_SMALL = 16
"""Small files are put together when there are so many: each row is written again but for the
logarithm to this base of how much larger a file is than what comes at a time."""
_GROWTH = 2
_NARROW = 4
"""Times the width of the middle one, up to which a file counts as one in its place."""

Ints = npt.NDArray[np.int64]


class Ranges(NamedTuple):
    """The least and the greatest value of each file, as ranks among all of them from 0."""

    lows: Ints
    highs: Ints


def choose_small(sizes: Ints, limit: int) -> list[int]:
    """Numbers of small files to put together: the smallest ones, if they are many.

    Args:
        sizes: Bytes of the laid-out files.
        limit: From here on a file is large enough.
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
    """Numbers of files to rewrite with those that are rewritten anyway; None: they are too many.

    Args:
        ranges: The values of all files.
        sizes: Bytes of all files.
        is_rewritten: By file; one at least.
    """
    left = _most_bytes(sizes, is_rewritten)
    # Between two ranks lies a place of its own. The last value of a file does not count, since the
    # next file may begin with it.
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
    """The number of the file that ends last of those that stay; files spread far do not count.

    A file of the far future, or one of late data alone, would tell nothing of where new data begin.
    """
    numbers = np.flatnonzero(is_kept)
    if not len(numbers):
        return None
    widths = ranges.highs[numbers] - ranges.lows[numbers]
    middle = np.sort(widths)[(len(widths) - 1) // 2]
    in_place = numbers[widths <= _NARROW * middle]
    return int(in_place[np.argmax(ranges.highs[in_place])])

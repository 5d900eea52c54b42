"""File size histogram: the number and bytes of live files in each size range.

Source: PROTOCOL.md, "File Size Histogram Schema". The protocol allows any bins. We use the
reference's bins, since the reference treats a checksum with other bins as damaged.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_KIB = (0, *(8 << bit for bit in range(7)))
_MIB = (
    *(1, 2, 4),
    *range(8, 40, 4),
    *range(40, 120, 8),
    *range(120, 144, 4),
    *range(144, 576, 16),
    *range(576, 1408, 64),
    *range(1408, 2048, 128),
    *range(2048, 4096, 256),
    *(4096 << bit for bit in range(7)),
)
BOUNDARIES: tuple[int, ...] = (*(n << 10 for n in _KIB), *(n << 20 for n in _MIB))
"""Lower bounds of the bins, in bytes; the last bin has no upper bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSizeHistogram:
    """Files and bytes of each bin of `BOUNDARIES`."""

    file_counts: tuple[int, ...]
    total_bytes: tuple[int, ...]

    @property
    def is_possible(self) -> bool:
        """Whether the histogram is possible: no count and no total is negative."""
        return min(*self.file_counts, *self.total_bytes) >= 0


EMPTY_HISTOGRAM = FileSizeHistogram(
    file_counts=(0,) * len(BOUNDARIES), total_bytes=(0,) * len(BOUNDARIES)
)


def histogram_of_sizes(sizes: pa.Array) -> FileSizeHistogram:
    """The histogram of files of these sizes, in bytes, without nulls."""
    ordered = sizes.sort()
    starts = [bisect_left(ordered, bound, key=lambda size: size.as_py()) for bound in BOUNDARIES]
    bins = [ordered[start:end] for start, end in pairwise([*starts, len(ordered)])]
    return FileSizeHistogram(
        file_counts=tuple(len(each) for each in bins),
        total_bytes=tuple(pc.sum(each, min_count=0).as_py() for each in bins),
    )


def changed_histogram(
    histogram: FileSizeHistogram, added: Sequence[int], removed: Sequence[int]
) -> FileSizeHistogram:
    """The histogram after files were added and removed; check `is_possible`."""
    counts, totals = list(histogram.file_counts), list(histogram.total_bytes)
    for sizes, sign in ((Counter(added), 1), (Counter(removed), -1)):
        for size, number in sizes.items():
            at = bisect_right(BOUNDARIES, size) - 1
            counts[at] += sign * number
            totals[at] += sign * number * size
    return FileSizeHistogram(file_counts=tuple(counts), total_bytes=tuple(totals))


def histogram_from_json(body: Mapping[str, Any]) -> FileSizeHistogram:
    """Parse the histogram of a checksum.

    Raises:
        KeyError, TypeError, ValueError: The histogram is malformed, or has other bins.
    """
    bounds, counts, totals = (
        tuple(body[name]) for name in ("sortedBinBoundaries", "fileCounts", "totalBytes")
    )
    if bounds != BOUNDARIES or not len(counts) == len(totals) == len(bounds):
        raise ValueError("other bins")
    if any(type(number) is not int for number in (*counts, *totals)):
        raise TypeError("not whole numbers")
    return FileSizeHistogram(file_counts=counts, total_bytes=totals)


def histogram_to_json(histogram: FileSizeHistogram) -> dict[str, list[int]]:
    """Encode the histogram for a checksum."""
    return {
        "sortedBinBoundaries": list(BOUNDARIES),
        "fileCounts": list(histogram.file_counts),
        "totalBytes": list(histogram.total_bytes),
    }

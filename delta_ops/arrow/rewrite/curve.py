"""Space-filling curve: compute the place of each row on a curve through all ranks. Pure.

Z-order interleaves the bits of the ranks. Hilbert's curve first rotates and mirrors the axes at
every level, so that each step leads to a neighbour (J. Skilling, "Programming the Hilbert curve",
2004). The functions work on whole arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from delta_ops.transaction.rewrite_group import Curve

Ranks = npt.NDArray[np.uint32]
Places = npt.NDArray[np.uint64]

_KEY_BITS = 64
_ONE_AXIS_BITS = 16
_AXIS_BITS = 12
"""Enough bits to distinguish the files of any table; the lookup tables still fit the CPU caches."""


def axis_bits(num_axes: int) -> int:
    """Return the number of bits of a rank."""
    return _ONE_AXIS_BITS if num_axes == 1 else min(_AXIS_BITS, _KEY_BITS // num_axes)


def places(ranks: Sequence[Ranks], curve: Curve) -> Places:
    """Return the place of each row on the curve.

    Args:
        ranks: An array of ranks with `axis_bits` bits for each axis.
    """
    bits = axis_bits(len(ranks))
    if len(ranks) == 1:
        return ranks[0].astype(np.uint64)
    return _interleave(_along_hilbert(ranks, bits) if curve == "hilbert" else ranks, bits)


def best_cut(known: Places, wanted: int, slack: int, num_axes: int) -> int:
    """Return the best position to split sorted rows, near the wanted position.

    A split between larger cells of the curve gives narrower value ranges on both sides. With one
    axis, all positions between different places are equally good.
    """
    first = max(1, wanted - slack)
    last = min(len(known), wanted + slack + 1)
    if first >= last:
        return wanted
    steps = known[first:last] ^ known[first - 1 : last - 1]
    sizes = np.minimum(steps, 1) if num_axes == 1 else np.frexp(steps.astype(np.float64))[1]
    found = first + np.flatnonzero(sizes == sizes.max())
    return int(found[np.argmin(np.abs(found - wanted))])


def _interleave(ranks: Sequence[Ranks], bits: int) -> Places:
    spread = _spread(bits, len(ranks))
    found = np.zeros(len(ranks[0]), np.uint64)
    for place, each in enumerate(ranks):
        found |= spread[each] << np.uint64(len(ranks) - 1 - place)
    return found


@cache
def _spread(bits: int, step: int) -> Places:
    """Return each rank with its bits moved `step` positions apart."""
    ranks = np.arange(1 << bits, dtype=np.uint64)
    found = np.zeros(1 << bits, np.uint64)
    for bit in range(bits):
        found |= ((ranks >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * step)
    return found


def _along_hilbert(ranks: Sequence[Ranks], bits: int) -> Sequence[Ranks]:
    """Transform ranks so that interleaving them gives the place on Hilbert's curve."""
    axes = np.array(ranks, np.uint32)
    for bit in range(bits - 1, 0, -1):
        lower = np.uint32((1 << bit) - 1)
        for number in range(len(axes)):
            is_set = _mask(axes[number], bit)
            swapped = (axes[0] ^ axes[number]) & lower & ~is_set
            axes[0] ^= (lower & is_set) ^ swapped
            if number:
                axes[number] ^= swapped
    for number in range(1, len(axes)):
        axes[number] ^= axes[number - 1]
    turned = np.zeros_like(axes[0])
    for bit in range(bits - 1, 0, -1):
        turned ^= np.uint32((1 << bit) - 1) & _mask(axes[-1], bit)
    return list(axes ^ turned)


def _mask(axis: Ranks, bit: int) -> Any:
    """Return a mask with all bits set where this bit is set, and zero elsewhere."""
    return -((axis >> np.uint32(bit)) & np.uint32(1)).astype(np.int32).view(np.uint32)

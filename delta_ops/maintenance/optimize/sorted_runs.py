"""Sorted runs: chooses the files of a sort key to merge, by their ranges alone. Pure.

A run is a set of files that do not overlap, and the depth at a key is the number of runs that may
hold it: an ordered scan merges so many. Runs are like the levels of a log-structured merge tree:

1. Where more than `most_depth` runs may hold a key, the smallest of them are merged, and also each
   next larger one that is at most `_GROWTH` times as large as those together.
2. Small files that follow each other are merged up to the size of a file, if that makes no key
   deeper; a file joins only if it is at most `_GROWTH` times as large as the others together.

So a row is rewritten about once for each growth of its run by a factor, and large files are not
rewritten for a few rows. Each merge leaves fewer runs at a key and more at none, so repeated merges
come to rest.

The last value of a file does not count, since the next file may begin with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from delta_ops.maintenance.optimize.overlaps import Ints, Ranges

MOST_DEPTH = 3
"""The most runs that may hold a key after a merge."""
_GROWTH = 2
_LEAST_SHARE = 1024
"""Files below this part of the target size count as so large: opening them costs as much."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunFiles:
    """The files of a partition: each array has an entry for each file."""

    ranges: Ranges
    runs: Ints
    """Run numbers; -1: the file is a run by itself."""
    sizes: Ints
    """In bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeLimits:
    """Which merges are worth while."""

    target_size_bytes: int
    """The approximate size of new files."""
    small_bytes: int
    """Smaller files are merged with their neighbours."""
    min_files: int = 2
    """Merges of fewer files are left out."""
    most_depth: int = MOST_DEPTH


@dataclass(slots=True)
class Budget:
    """The bytes that may still be rewritten; None: any number."""

    left_bytes: int | None = None

    def allows(self, num_bytes: int) -> bool:
        """Whether so many bytes are left."""
        return self.left_bytes is None or num_bytes <= self.left_bytes

    def spend(self, num_bytes: int) -> None:
        """Take bytes away."""
        if self.left_bytes is not None:
            self.left_bytes -= num_bytes


def run_depth(files: RunFiles) -> int:
    """The most runs that may hold one key."""
    units = _units_of(files)
    return int(_depths(units.firsts, units.lasts).max(initial=0))


def choose_merges(files: RunFiles, limits: MergeLimits, budget: Budget) -> list[list[int]]:
    """Choose the files of each merge, by their numbers.

    Args:
        budget: The bytes of the chosen files are taken from it.
    """
    units = _units_of(files, limits.target_size_bytes // _LEAST_SHARE)
    num_units = 0
    # A merge can make further ones worth while; chosen at once, they rewrite each row only once.
    while len(units.firsts) != num_units:
        num_units = len(units.firsts)
        for chain in _chains(units):
            _merge_deep(units, chain, limits.most_depth, budget)
        _merge_small(units, limits, budget)
        units = units.remaining_units()
    chosen = [units.members[each] for each in units.merged_units()]
    return [each for each in chosen if len(each) >= limits.min_files]


@dataclass(slots=True, eq=False)
class _Units:
    """Files of a run that touch count as one unit, and so do the files of a merge."""

    firsts: Ints
    """The first place of each unit. There is one place for each rank, and one between two ranks."""
    lasts: Ints
    sizes: Ints
    least_weight: int
    """Smaller units count as so large."""
    members: list[list[int]]
    """Numbers of the files."""
    is_alive: npt.NDArray[np.bool_]
    """False: the unit was merged into another."""
    is_merged: npt.NDArray[np.bool_]
    """Whether the files of the unit will be rewritten."""
    weights: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.weights = np.maximum(self.sizes, self.least_weight)

    def remaining_units(self) -> _Units:
        """The units as they will be after the merges."""
        alive = np.flatnonzero(self.is_alive)
        return _Units(
            firsts=self.firsts[alive],
            lasts=self.lasts[alive],
            sizes=self.sizes[alive],
            least_weight=self.least_weight,
            members=[self.members[each] for each in alive],
            is_alive=np.ones(len(alive), bool),
            is_merged=self.is_merged[alive],
        )

    def merged_units(self) -> list[int]:
        """The units to rewrite, in the order of their keys."""
        found = np.flatnonzero(self.is_alive & self.is_merged)
        order: list[int] = found[np.argsort(self.firsts[found], kind="stable")].tolist()
        return order

    def new_bytes(self, numbers: Ints) -> int:
        """The bytes that a merge adds to the merges that are already chosen."""
        return int(self.sizes[numbers[~self.is_merged[numbers]]].sum())

    def merge(self, numbers: Ints) -> int:
        """Merge units into the first of them, and return it."""
        first = int(numbers[0])
        self.members[first] = [file for each in numbers for file in self.members[each]]
        self.firsts[first], self.lasts[first] = self._hull(numbers)
        self.sizes[first] = self.sizes[numbers].sum()
        self.weights[first] = self.weights[numbers].sum()
        self.is_alive[numbers[1:]] = False
        self.is_merged[first] = True
        return first

    def _hull(self, numbers: Ints) -> tuple[int, int]:
        first, last = int(self.firsts[numbers].min()), int(self.lasts[numbers].max())
        # Only a unit of one value ends with a place of a rank: elsewhere the last value is no part.
        return first, max(first, last - 1) if last % 2 == 0 else last


def _units_of(files: RunFiles, least_weight: int = 1) -> _Units:
    lows, highs = files.ranges
    firsts, lasts = 2 * lows, np.maximum(2 * lows, 2 * highs - 1)
    alone = int(files.runs.max(initial=-1)) + 1
    is_alone = files.runs < 0
    runs = np.where(is_alone, alone + np.cumsum(is_alone), files.runs)
    # Each run gets places of its own, so that one sweep finds the files of a run that touch.
    _, run_numbers = np.unique(runs, return_inverse=True)
    offsets = run_numbers * (int(lasts.max(initial=0)) + 1)
    order = np.argsort(firsts + offsets, kind="stable")
    reached = np.maximum.accumulate((lasts + offsets)[order])
    begins = np.ones(len(order), bool)
    begins[1:] = (firsts + offsets)[order][1:] > reached[:-1]
    starts = np.flatnonzero(begins)
    if not len(order):
        starts = order
    members = [each.tolist() for each in np.split(order, starts[1:])] if len(order) else []
    sizes = np.add.reduceat(files.sizes[order], starts) if len(order) else files.sizes
    return _Units(
        firsts=firsts[order][starts],
        lasts=np.maximum.reduceat(lasts[order], starts) if len(order) else lasts,
        sizes=sizes,
        least_weight=max(least_weight, 1),
        members=members,
        is_alive=np.ones(len(starts), bool),
        is_merged=np.zeros(len(starts), bool),
    )


def _depths(firsts: Ints, lasts: Ints) -> Ints:
    """The number of units at each place."""
    steps = np.zeros(int(lasts.max(initial=-1)) + 2, np.int64)
    np.add.at(steps, firsts, 1)
    np.add.at(steps, lasts + 1, -1)
    depths: Ints = np.cumsum(steps[:-1])
    return depths


def _chains(units: _Units) -> list[Ints]:
    """Units that overlap directly or through others; the deepest chains first."""
    if not len(units.firsts):
        return []
    order = np.argsort(units.firsts, kind="stable")
    reached = np.maximum.accumulate(units.lasts[order])
    begins = units.firsts[order][1:] > reached[:-1]
    chains = np.split(order, np.flatnonzero(begins) + 1)
    depths = _depths(units.firsts, units.lasts)

    def depth(chain: Ints) -> int:
        return int(depths[units.firsts[chain[0]] : units.lasts[chain].max() + 1].max())

    return sorted(chains, key=depth, reverse=True)


def _merge_deep(units: _Units, chain: Ints, most_depth: int, budget: Budget) -> None:
    """Merge units of a chain until no key is too deep, or the budget is spent."""
    start = int(units.firsts[chain].min())
    depths = _depths(units.firsts[chain] - start, units.lasts[chain] - start)
    while True:
        place = int(np.argmax(depths))
        excess = int(depths[place]) - most_depth
        if excess < 1:
            return
        at = place + start
        is_here = (units.firsts[chain] <= at) & (units.lasts[chain] >= at)
        here = chain[is_here & units.is_alive[chain]]
        here = here[np.argsort(units.weights[here], kind="stable")]
        taken = _take_smallest(units, here, excess + 1, budget)
        if taken is None:
            return
        budget.spend(units.new_bytes(taken))
        for each in taken:
            depths[units.firsts[each] - start : units.lasts[each] - start + 1] -= 1
        made = units.merge(taken)
        depths[units.firsts[made] - start : units.lasts[made] - start + 1] += 1


def _take_smallest(units: _Units, here: Ints, least: int, budget: Budget) -> Ints | None:
    """The first units, and further units that are not much larger; None: too many bytes.

    Args:
        here: Units at one place, the smallest first.
        least: The number of units to take, if the budget allows.
    """
    total = int(units.weights[here[:least]].sum())
    number = least
    while number < len(here) and units.weights[here[number]] <= _GROWTH * total:
        total += int(units.weights[here[number]])
        number += 1
    while number > 1 and not budget.allows(units.new_bytes(here[:number])):
        number -= 1
    return here[:number] if number > 1 else None


def _merge_small(units: _Units, limits: MergeLimits, budget: Budget) -> None:
    """Merge small units that follow each other."""
    alive = np.flatnonzero(units.is_alive)
    small = alive[units.sizes[alive] < limits.small_bytes]
    keys = units.sizes[small], units.lasts[small], units.firsts[small]
    small = small[np.lexsort(keys)]
    depths = _depths(units.firsts[alive], units.lasts[alive])
    for numbers in _groups(units, small.tolist(), depths, limits.target_size_bytes):
        if sum(len(units.members[each]) for each in numbers) < limits.min_files:
            continue
        taken = np.array(numbers)
        cost = units.new_bytes(taken)
        if budget.allows(cost):
            budget.spend(cost)
            units.merge(taken)


def _groups(
    units: _Units, small: Sequence[int], depths: Ints, target_size_bytes: int
) -> Iterator[Sequence[int]]:
    """Yield neighbours to merge: no unit is large for its group, and no key becomes deeper."""
    for window in _windows(units, small, depths, target_size_bytes):
        if len(window) < 2:
            continue
        weights = units.weights[list(window)]
        large = int(np.argmax(weights))
        if weights[large] <= _GROWTH * (weights.sum() - weights[large]):
            yield window
            continue
        # Without the large unit, the units on one side may be neighbours no more.
        for part in (window[:large], window[large + 1 :]):
            yield from _groups(units, part, depths, target_size_bytes)


def _windows(
    units: _Units, small: Sequence[int], depths: Ints, target_size_bytes: int
) -> Iterator[Sequence[int]]:
    """Yield neighbours that fit into one file and whose merge makes no key deeper."""
    window: list[int] = []
    size = last = deepest = 0
    for each in small:
        first, end = int(units.firsts[each]), int(units.lasts[each])
        own = int(depths[first : end + 1].max())
        between = depths[last + 1 : first]
        fits = size + units.sizes[each] <= target_size_bytes
        stays = not len(between) or int(between.max()) < max(deepest, own)
        if window and not (fits and stays):
            yield window
            window = []
        if not window:
            size = last = deepest = 0
        window.append(each)
        size += int(units.sizes[each])
        last, deepest = max(last, end), max(deepest, own)
    if window:
        yield window

"""Which laid-out files are rewritten together with new files, from ranges alone."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_ops.maintenance.optimize.overlaps import (
    MOST_DEPTH,
    Ranges,
    choose_overlapping,
    choose_small,
    find_last_in_place,
)

File = tuple[int, int, int, bool]
"""Its least and greatest value, its bytes, and whether it is rewritten in any case."""


@st.composite
def files(draw: st.DrawFn) -> list[File]:
    def file(values: tuple[int, int], size: int, is_new: bool) -> File:
        return (min(values), max(values), size, is_new)

    value = st.integers(0, 12)
    some = st.builds(file, st.tuples(value, value), st.integers(1, 60), st.booleans())
    new = file(draw(st.tuples(value, value)), 5, True)
    return [*draw(st.lists(some, max_size=12)), new]


def choose(given: Sequence[File]) -> list[int] | None:
    lows, highs, sizes, is_new = map(np.array, zip(*given, strict=True))
    return choose_overlapping(Ranges(lows, highs), sizes, is_new.astype(bool))


def most_bytes(given: Sequence[File]) -> float:
    """Four times the new bytes, or two files of medium size, up to sixteen times the new bytes."""
    new = sum(size for _, _, size, is_new in given if is_new)
    kept = [size for _, _, size, is_new in given if not is_new]
    return max(4 * new, min(2 * median(kept) if kept else 0, 16 * new))


def depths(given: Sequence[File], chosen: Sequence[int]) -> list[int]:
    """The number of files at each value, and between neighbouring values."""
    together = [file for number, file in enumerate(given) if file[3] or number in chosen]
    kept = [file for number, file in enumerate(given) if not file[3] and number not in chosen]
    first, last = min(low for low, *_ in together), max(high for _, high, *_ in together)

    def is_around(low: int, high: int, place: float) -> bool:
        # Two files that share only an end point count once there, unless a file is a single point.
        return low <= place < high or low == place == high

    places = [number / 2 for number in range(26)]
    rewritten = (first, last)
    return [
        sum(is_around(low, high, place) for low, high, *_ in kept) + is_around(*rewritten, place)
        for place in places
        if is_around(*rewritten, place)
    ]


@given(files())
def test_no_value_of_what_is_rewritten_is_in_too_many_files(given: list[File]) -> None:
    chosen = choose(given)
    if chosen is None:
        others = sum(size for _, _, size, is_new in given if not is_new)
        assert others > int(most_bytes(given))
        return
    assert sum(given[number][2] for number in chosen) <= most_bytes(given)
    assert len(set(chosen)) == len(chosen)
    assert not any(given[number][3] for number in chosen)
    assert max(depths(given, chosen), default=0) <= MOST_DEPTH


@pytest.mark.full
@given(files())
def test_nothing_is_chosen_where_nothing_is_in_the_way(given: list[File]) -> None:
    if max(depths(given, []), default=0) <= MOST_DEPTH:
        assert choose(given) == []


def test_the_file_goes_that_is_in_the_way_of_most_for_its_bytes() -> None:
    in_place = [(10 * n, 10 * n + 10, 8, False) for n in range(10)]
    spread = [(0, 100, 4, False), (1, 99, 2, False)]
    new = [(0, 110, 10, True)]
    assert choose([*in_place, *spread, *new]) == [11]


def test_files_of_one_value_are_put_together_when_they_are_many() -> None:
    alike = [(7, 7, 5, False)] * MOST_DEPTH
    assert choose([*alike[1:], (7, 7, 5, True)]) == []
    assert choose([*alike, (7, 7, 5, True)]) == [0]


def test_files_that_meet_in_a_value_do_not_overlap() -> None:
    row = [(n, n + 1, 5, False) for n in range(9)]
    assert choose([*row, *row, (0, 9, 20, True)]) == []


def test_scattered_keys_are_left_to_other_ways() -> None:
    assert choose([*[(0, 100, 50, False)] * 3, (0, 100, 3, True)]) is None
    assert choose([*[(0, 100, 50, False)] * 5, (0, 100, 10, True)]) is None


def test_two_files_may_go_that_are_many_times_what_is_new() -> None:
    large = (0, 100, 50, False)
    assert choose([*[large] * 3, (0, 100, 10, True)]) == [0]
    assert choose([*[large] * 4, (0, 100, 10, True)]) == [0, 1]


def test_small_files_wait_until_they_are_many() -> None:
    few, many = [1] * 15, [1] * 16
    assert choose_small(np.array([*few, 100]), limit=10) == []
    assert choose_small(np.array([100, *many]), limit=10) == list(range(1, 17))
    assert choose_small(np.array([9, *many]), limit=10) == [*range(1, 17), 0]
    assert choose_small(np.array([90, *many]), limit=100) == list(range(1, 17))
    assert choose_small(np.array([], np.int64), limit=10) == []


def test_new_data_begin_after_the_last_file_that_is_in_its_place() -> None:
    ranges = Ranges(np.array([0, 10, 20, 0, 25]), np.array([10, 20, 30, 51, 900]))
    assert find_last_in_place(ranges, np.array([True] * 5)) == 2
    assert find_last_in_place(ranges, np.array([True, True, False, True, True])) == 1
    assert find_last_in_place(ranges, np.array([False] * 5)) is None

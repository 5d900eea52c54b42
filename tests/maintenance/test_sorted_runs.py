"""Sorted runs: which files of a sort key are merged, judged by their ranges alone."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from delta_ops.maintenance.optimize.overlaps import Ranges
from delta_ops.maintenance.optimize.sorted_runs import (
    Budget,
    MergeLimits,
    RunFiles,
    choose_merges,
    run_depth,
)

LIMITS = MergeLimits(target_size_bytes=100, small_bytes=75)

Spans = list[tuple[int, int, int, int]]
"""The lowest and highest rank, the size and the run of each file."""


def run_files(spans: Spans) -> RunFiles:
    lows, highs, sizes, runs = (np.array(each, np.int64) for each in zip(*spans, strict=True))
    return RunFiles(ranges=Ranges(lows, highs), sizes=sizes, runs=runs)


SPANS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(1, 300), st.just(-1)).map(
        lambda each: (each[0], each[0] + each[1], each[2], each[3])
    ),
    min_size=1,
    max_size=25,
)


def depth_by_brute_force(files: RunFiles) -> int:
    """Look at each value and between each two values; the last value of a file does not count."""
    deepest = 0
    for half in range(2 * int(files.ranges.highs.max()) + 2):
        place, runs = half / 2, set()
        for number, (low, high) in enumerate(zip(*files.ranges, strict=True)):
            if low <= place < high or place == low:
                run = int(files.runs[number])
                runs.add(("file", number) if run < 0 else ("run", run))
        deepest = max(deepest, len(runs))
    return deepest


@given(SPANS, st.lists(st.integers(-1, 3), min_size=25, max_size=25))
def test_the_depth_by_sweep_is_the_depth_by_brute_force(spans: Spans, runs: list[int]) -> None:
    files = run_files([(*each[:3], run) for each, run in zip(spans, runs, strict=False)])
    assert run_depth(files) == depth_by_brute_force(files)


def merged(files: RunFiles, merges: list[list[int]]) -> RunFiles:
    """The files after each merge, as one file for each: an output covers no more keys."""
    gone = {number for each in merges for number in each}
    kept = [number for number in range(len(files.sizes)) if number not in gone]
    spans = [
        (
            int(files.ranges.lows[each].min()),
            int(files.ranges.highs[each].max()),
            int(files.sizes[each].sum()),
            -1,
        )
        for each in [*([number] for number in kept), *merges]
    ]
    return run_files(spans)


TOO_LARGE_BETWEEN_NEIGHBOURS: Spans = [
    *[(0, 0, 1, -1)] * 4,
    *[(0, 3, 1, -1), (1, 1, 1, -1), (2, 2, 75, -1), (2, 2, 75, -1), (3, 3, 1, -1)],
]
"""Without the merge of the first five, which is too large, the small files are not neighbours."""


@given(SPANS)
@example(TOO_LARGE_BETWEEN_NEIGHBOURS)
def test_a_merge_leaves_no_key_too_deep_and_makes_none_deeper(spans: Spans) -> None:
    files = run_files(spans)
    merges = choose_merges(files, LIMITS, Budget())
    numbers = [number for each in merges for number in each]
    assert len(numbers) == len(set(numbers))
    after = merged(files, merges)
    assert run_depth(after) <= min(LIMITS.most_depth, run_depth(files))


@given(SPANS)
@example(TOO_LARGE_BETWEEN_NEIGHBOURS)
def test_merges_come_to_rest(spans: Spans) -> None:
    files = merged(run_files(spans), choose_merges(run_files(spans), LIMITS, Budget()))
    assert choose_merges(files, LIMITS, Budget()) == []


@given(SPANS, st.integers(1, 2000))
def test_merges_stay_within_the_budget(spans: Spans, max_bytes: int) -> None:
    files = run_files(spans)
    while merges := choose_merges(files, LIMITS, Budget(max_bytes)):
        assert sum(int(files.sizes[each].sum()) for each in merges) <= max_bytes
        files = merged(files, merges)


@pytest.mark.parametrize(
    ("spans", "merges"),
    [
        pytest.param([(0, 9, 90, -1)] * 3, [], id="three files may hold a key"),
        pytest.param([(0, 9, 90, -1)] * 4, [[0, 1, 2, 3]], id="four files of one size are merged"),
        pytest.param(
            [(0, 9, 90_000, -1), (0, 9, 90, -1), (3, 9, 90, -1), (4, 5, 90, -1)],
            [[1, 2, 3]],
            id="a large file is not rewritten for a few rows",
        ),
        pytest.param(
            [(0, 1, 50, -1), (2, 3, 50, -1), (4, 5, 50, -1)],
            [[0, 1]],
            id="small files that follow each other are merged up to the size of a file",
        ),
        pytest.param(
            [(0, 1, 5, -1), (2, 3, 500, -1), (4, 5, 5, -1)],
            [],
            id="small files stay apart if another file is between them",
        ),
        pytest.param(
            [(0, 1, 5, -1), (0, 9, 500, -1), (4, 5, 5, -1)],
            [[0, 2]],
            id="small files over a large file are merged",
        ),
        pytest.param(
            [(0, 1, 70, -1), (2, 3, 5, -1)], [], id="a file does not join much smaller files"
        ),
        pytest.param([(4, 4, 90, 7)] * 9, [], id="files of one run touch and do not overlap"),
        pytest.param(
            [(0, 1, 90, -1), (1, 2, 90, -1), (2, 3, 90, -1), (3, 4, 90, -1)],
            [],
            id="a file may begin with the last value of another",
        ),
    ],
)
def test_merges(spans: Spans, merges: list[list[int]]) -> None:
    assert [sorted(each) for each in choose_merges(run_files(spans), LIMITS, Budget())] == merges


def test_fewer_files_than_the_minimum_stay() -> None:
    files = run_files([(0, 9, 90, -1)] * 4)
    assert choose_merges(files, replace(LIMITS, min_files=5), Budget()) == []


@settings(max_examples=20)
@given(st.randoms(use_true_random=False), st.integers(1, 40))
def test_each_row_is_rewritten_a_few_times_only(lots: Random, width: int) -> None:
    """A hundred late commits, merged after each: far fewer bytes than a rewrite each time."""
    size, rewritten = 90, 0
    spans: Spans = []
    for _ in range(100):
        low = lots.randrange(100)
        spans.append((low, low + width, size, -1))
        files = run_files(spans)
        merges = choose_merges(files, LIMITS, Budget())
        rewritten += sum(int(files.sizes[each].sum()) for each in merges)
        gone = {number for each in merges for number in each}
        after = merged(files, merges)
        kept = [spans[number] for number in range(len(spans)) if number not in gone]
        spans = kept
        for number in range(len(kept), len(after.sizes)):
            spans.append(
                (
                    int(after.ranges.lows[number]),
                    int(after.ranges.highs[number]),
                    int(after.sizes[number]),
                    -1,
                )
            )
    assert rewritten < 8 * 100 * size  # a rewrite of everything each time: 50 times

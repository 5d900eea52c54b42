"""Histograms of file sizes: the reference's bins, counted in bulk and one by one."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_ops.protocol.stats.file_size_histogram import (
    BOUNDARIES,
    EMPTY_HISTOGRAM,
    changed_histogram,
    histogram_from_json,
    histogram_of_sizes,
    histogram_to_json,
)
from tests.support.tables import SHARED, needs_shared

# So few that their sum fits in 64 bits, as in the log.
SIZES = st.lists(st.one_of(st.integers(0, 2**58), st.sampled_from(BOUNDARIES)), max_size=15)


@needs_shared
def test_the_bins_match_the_reference() -> None:
    table = SHARED / "data" / "tables" / "delta_rs" / "cdc_ict_table"
    (stored, *_) = sorted(table.glob("_delta_log/0*.crc"))
    body = json.loads(stored.read_text())["fileSizeHistogram"]
    assert tuple(body["sortedBinBoundaries"]) == BOUNDARIES


@given(SIZES, SIZES)
@settings(deadline=None)
def test_counted_one_by_one_and_at_once_it_is_the_same(kept: list[int], gone: list[int]) -> None:
    one_by_one = changed_histogram(EMPTY_HISTOGRAM, [*gone, *kept], gone)
    assert one_by_one == histogram_of_sizes(pa.array(kept, pa.int64()))
    assert sum(one_by_one.file_counts) == len(kept)
    assert sum(one_by_one.total_bytes) == sum(kept)


@pytest.mark.parametrize(
    ("size", "at"),
    [
        pytest.param(0, 0, id="no bytes"),
        pytest.param(8191, 0, id="below a boundary"),
        pytest.param(8192, 1, id="a boundary begins its bin"),
        pytest.param(2**62, len(BOUNDARIES) - 1, id="the last bin has no end"),
    ],
)
def test_the_bin_of_a_size(size: int, at: int) -> None:
    assert histogram_of_sizes(pa.array([size])).file_counts.index(1) == at


def test_fewer_files_than_none_are_not_possible() -> None:
    assert not changed_histogram(EMPTY_HISTOGRAM, [], [1]).is_possible
    assert not changed_histogram(EMPTY_HISTOGRAM, [1], [2]).is_possible
    assert EMPTY_HISTOGRAM.is_possible


def test_written_values_are_read() -> None:
    histogram = histogram_of_sizes(pa.array([1, 9000, 2**40]))
    assert histogram_from_json(json.loads(json.dumps(histogram_to_json(histogram)))) == histogram


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"sortedBinBoundaries": [0, 1]}, id="other bins"),
        pytest.param({"fileCounts": [0]}, id="too few counts"),
        pytest.param({"totalBytes": ["0"] * len(BOUNDARIES)}, id="text"),
    ],
)
def test_other_histograms_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        histogram_from_json({**histogram_to_json(EMPTY_HISTOGRAM), **changed})

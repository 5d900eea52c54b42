"""A snapshot's memory grows with the live files, not with the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.open_table import LIST_OURS, OURS, run
from benchmarks.replay_memory import make_table

pytestmark = pytest.mark.long

FILES = 400_000


def test_adding_files_ten_times_takes_little_more_memory_than_once(
    tmp_path: Path,
) -> None:
    peaks = {}
    for rounds in (1, 10):
        root = tmp_path / f"{rounds}"
        root.mkdir()
        make_table(root, FILES, rounds)
        _, peaks[rounds], num_files = run(OURS, LIST_OURS, root)
        assert num_files == FILES
    assert peaks[10] < 1.2 * peaks[1]

"""Inverted indexes of tables with a scan cache, whose hint says whether there are indexes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.log.scan_cache.hint import HINT_PATH, hint_from_text
from delta_ops.maintenance import create_index, create_scan_cache, drop_index, refresh_index
from delta_ops.storage import open_storage
from tests.support.counting_storage import CountingStorage

FILES = 12


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Twelve files with a scan cache; a value is in one file, and bounds are the same."""
    for number in range(FILES):
        da.write(tmp_path, pa.table({"id": [0, number + 1, 100]}))
    create_scan_cache(tmp_path)
    return tmp_path


def listed(root: Path) -> tuple[int, int]:
    """The files that a plan leaves, and how often it lists the indexes."""
    calls: list[str] = []

    def note(_: int, method: str, path: str, moment: str) -> None:
        if moment == "before" and method == "list_from" and path.endswith("indexes"):
            calls.append(path)

    log = DeltaLog(root, storage=CountingStorage(open_storage(root), note))
    plan = da.explain_scan(log.snapshot(), col("id") == 5)
    assert da.to_table(root, predicate=col("id") == 5).num_rows == 1
    return len(plan), len(calls)


def test_a_plan_looks_for_indexes_only_if_the_table_may_have_one(table: Path) -> None:
    assert listed(table) == (FILES, 0)
    create_index(table, "ids", "id")
    assert listed(table) == (1, 1)
    da.write(table, pa.table({"id": [0, 100]}))
    create_scan_cache(table)
    assert listed(table) == (2, 1)
    drop_index(table, "ids")
    assert listed(table) == (FILES + 1, 1)
    da.write(table, pa.table({"id": [0, 100]}))
    create_scan_cache(table)
    assert listed(table) == (FILES + 2, 0)


@pytest.mark.full
def test_a_refresh_records_an_index_that_the_hint_lacks(table: Path) -> None:
    place = table / HINT_PATH
    before = place.read_text()
    create_index(table, "ids", "id")
    last_checkpoint = table / "_delta_log" / "_last_checkpoint"
    hints = [hint_from_text(each, "_delta_log") for each in (before, place.read_text())]
    assert [each.may_have_indexes for each in hints] == [False, True]
    # A cache that was being written when the index was created replaces the hint.
    place.write_text(before)
    refresh_index(table, "ids")
    assert hint_from_text(place.read_text(), "_delta_log").may_have_indexes
    assert "mayHaveIndexes" in last_checkpoint.read_text()
    assert listed(table) == (1, 1)

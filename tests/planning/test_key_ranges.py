"""Files that a source's keys probably match, by statistics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.planning.key_ranges import MOST_RANGES, Range, find_likely_ranges
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.schema import INTEGER, LONG


def file(stats: str | None) -> AddFile:
    return AddFile(
        path="f", size=1, partition_values={}, modification_time=0, data_change=True, stats=stats
    )


def stats(num_rows: int, low: int, high: int, nulls: int = 0) -> str:
    return (
        f'{{"numRecords":{num_rows},"minValues":{{"id":{low}}},"maxValues":{{"id":{high}}},'
        f'"nullCount":{{"id":{nulls}}}}}'
    )


def find(files: list[AddFile], *keys: int, least: float) -> list[Range] | None:
    return find_likely_ranges(files, ("id",), INTEGER, np.array(keys, np.int64), least)


def test_all_keys_within_a_file_without_gaps_are_likely_to_be_met() -> None:
    files = [file(stats(100, 0, 99)), file(stats(100, 100, 199))]
    assert find(files, 150, 3, 98, 200, 100, least=2) == [(0, 199)]
    assert find(files, 150, 3, 98, 200, 100, least=2.1) is None


def test_scattered_values_match_in_proportion_to_rows() -> None:
    files = [file(stats(100, 0, 999))]
    assert find(files, *range(0, 1000, 10), least=10) == [(0, 999)]
    assert find(files, *range(0, 1000, 10), least=10.1) is None


def test_more_rows_than_values_are_met_once_by_each_key() -> None:
    files = [file(stats(100, 7, 8))]
    assert find(files, 6, 7, 8, 9, least=2) == [(7, 8)]
    assert find(files, 6, 7, 8, 9, least=2.1) is None


def test_nulls_are_not_met() -> None:
    files = [file(stats(100_000, 0, 99, nulls=99_990))]
    assert find(files, *range(100), least=10) == [(0, 99)]
    assert find(files, *range(100), least=10.1) is None


def test_ranges_that_touch_are_merged_and_others_are_not() -> None:
    ends = [(50, 59), (0, 9), (10, 19), (30, 39), (5, 7), (41, 49)]
    files = [file(stats(high - low + 1, low, high)) for low, high in ends]
    assert find(files, *range(100), least=1) == [(0, 19), (30, 39), (41, 59)]


def test_very_many_ranges_are_one() -> None:
    files = [file(stats(1, 2 * i, 2 * i)) for i in range(MOST_RANGES + 1)]
    every_range = [(2 * i, 2 * i) for i in range(MOST_RANGES)]
    assert find(files[:-1], *range(1000), least=1) == every_range
    assert find(files, *range(1000), least=1) == [(0, 2 * MOST_RANGES)]


def test_rows_that_are_deleted_are_not_met(tmp_path: Path) -> None:
    da.write(
        tmp_path,
        pa.table({"id": range(100)}),
        configuration={"delta.enableDeletionVectors": "true"},
    )
    da.delete(tmp_path, col("id") >= 50)
    files, keys = DeltaLog(tmp_path).snapshot().add_files(), np.arange(100)
    assert find_likely_ranges(files, ("id",), LONG, keys, 50) == [(0, 99)]
    assert find_likely_ranges(files, ("id",), LONG, keys, 51) is None


@pytest.mark.parametrize(
    "message",
    [
        None,
        "no JSON",
        '{"numRecords":5}',
        '{"minValues":{"id":1},"maxValues":{"id":2}}',
        stats(5, 2, 1),
        stats(5, 0, 2**31),  # no value of the type
        stats(5, -(10**30), 10**30),
    ],
)
def test_files_without_bounds_have_no_range(message: str | None) -> None:
    assert find([file(stats(100, 0, 99)), file(message)], 1, 2, 3, least=0) is None


def test_a_field_of_a_struct_has_a_range() -> None:
    reported = '{"numRecords":9,"minValues":{"s":{"id":1}},"maxValues":{"s":{"id":9}}}'
    keys = np.array([2, 3])
    assert find_likely_ranges([file(reported)], ("s", "id"), LONG, keys, 2) == [(1, 9)]

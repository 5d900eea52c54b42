"""Merges of rows so large that only few of them are taken at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import delta_ops.arrow as da
from delta_ops.arrow.dml.merge_source import rows_at_once

MiB = 1 << 20
VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}


@pytest.mark.parametrize(
    ("num_rows", "num_bytes", "expected"),
    [
        pytest.param(0, 0, 1 << 17, id="no rows"),
        pytest.param(10**7, 10**9, 1 << 17, id="small rows"),
        pytest.param(1000, 1000 * MiB, 128, id="large rows"),
        pytest.param(1, 1000 * MiB, 1, id="a row above the limit"),
    ],
)
def test_rows_that_are_taken_at_once_fit_in_an_array(
    num_rows: int, num_bytes: int, expected: int
) -> None:
    assert rows_at_once(num_rows, num_bytes) == expected


@pytest.mark.full
@pytest.mark.parametrize("properties", [{}, VECTORS, FEED], ids=["copies", "vectors", "feed"])
def test_each_row_gets_its_own_values(tmp_path: Path, properties: Mapping[str, str]) -> None:
    old = pa.table({"id": [0, 1, 2, 3, 4], "s": ["old"] * 5})
    da.write(tmp_path, old, configuration=dict(properties))
    texts = [chr(ord("a") + number) * (48 * MiB) for number in range(6)]
    source = pa.table({"id": [1, 3, 4, 7, 8, 9], "s": texts})
    merge = da.merge(tmp_path, source, "target.id = source.id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    found = da.to_table(tmp_path).sort_by("id")
    first = pc.utf8_slice_codeunits(found["s"], 0, 1).to_pylist()
    assert dict(zip(found["id"].to_pylist(), first, strict=True)) == {
        0: "o",
        2: "o",
        1: "a",
        3: "b",
        4: "c",
        7: "d",
        8: "e",
        9: "f",
    }

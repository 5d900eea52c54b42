"""Texts that are equal as numbers, and numbers of other types, in indexes, caches and merges."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.log.scan_cache_write.write import write_scan_cache
from delta_ops.maintenance import create_index
from delta_ops.protocol.predicate import Predicate

TEXTS = [
    "1",
    "01",
    "001",
    "1.0",
    " 1",
    "1 ",
    "+1",
    "1e0",
    "A",
    "a",
    "é",
    "e\u0301",
    "\x00",
    "\uff11",
]


@pytest.fixture(params=["column", "partition"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file for each text and for null, with an index and a scan cache."""
    by = ["k"] if request.param == "partition" else None
    for number, text in enumerate([*TEXTS, None]):
        values = {"k": pa.array([text], pa.string()), "n": [number]}
        da.write(tmp_path, pa.table(values), partition_by=by)
    create_index(tmp_path, "by_k", "k")
    write_scan_cache(DeltaLog(tmp_path).snapshot())
    return tmp_path


def numbers_of(table: Path, predicate: Predicate) -> list[int]:
    return sorted(da.to_table(table, ["n"], predicate)["n"].to_pylist())


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_only_itself(table: Path, text: str) -> None:
    number = TEXTS.index(text)
    assert numbers_of(table, col("k") == text) == [number]
    assert numbers_of(table, col("k").isin([text, "none"])) == [number]
    others = [each for each in range(len(TEXTS)) if each != number]
    assert numbers_of(table, col("k") != text) == others
    below = sorted(n for n, each in enumerate(TEXTS) if each.encode() < text.encode())
    assert numbers_of(table, col("k") < text) == below


def test_a_merge_meets_only_the_same_text(table: Path) -> None:
    source = pa.table({"k": ["1", "001", "1 ", "0001"], "n": [100, 101, 102, 103]})
    merge = da.merge(table, source, "target.k = source.k")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    found = da.to_table(table)
    by_text = dict(zip(found["k"].to_pylist(), found["n"].to_pylist(), strict=True))
    expected: dict[Any, int] = {text: number for number, text in enumerate([*TEXTS, None])}
    assert by_text == expected | {"1": 100, "001": 101, "1 ": 102, "0001": 103}


@pytest.mark.parametrize(
    "keys",
    [
        pa.array([1, 300], pa.int16()),
        pa.array([1.0, 300.0, 1.5]),
        pa.array([Decimal("1.00"), Decimal("300.00"), Decimal("1.50")]),
    ],
    ids=lambda keys: str(keys.type),
)
def test_a_merge_meets_equal_numbers_of_other_types(tmp_path: Path, keys: pa.Array) -> None:
    for number in range(4):
        ids = pa.array([number * 100 + 1, number * 100], pa.int64())
        da.write(tmp_path, pa.table({"id": ids, "n": [0, 0]}))
    create_index(tmp_path, "by_id", "id")
    source = pa.table({"id": keys, "n": [9] * len(keys)})
    merge = da.merge(tmp_path, source, "target.id = source.id")
    merge.when_matched_update({"n": "source.n"}).execute()
    found = da.to_table(tmp_path)
    updated = [each for each, n in zip(found["id"], found["n"], strict=True) if n.as_py() == 9]
    assert sorted(each.as_py() for each in updated) == [1, 300]

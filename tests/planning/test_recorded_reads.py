"""Reads record their predicate for layout advice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.ddl import set_properties
from delta_ops.errors import InvalidRequestError, StorageError
from delta_ops.maintenance import optimize
from delta_ops.planning.recorded_reads import (
    NUM_SLOTS,
    READS,
    RecordedRead,
    record_read,
    recorded_reads,
)
from delta_ops.protocol.predicate import Predicate, parse_predicate, resolve
from delta_ops.storage import open_storage
from tests.support.counting_storage import CountingStorage

Read = Callable[[Any, Predicate], object]
READS_OF_ROWS = [
    pytest.param(lambda table, p: da.to_table(table, predicate=p), id="to_table"),
    pytest.param(lambda table, p: list(da.to_batches(table, predicate=p)), id="to_batches"),
    pytest.param(da.count_rows, id="count_rows"),
]


@pytest.fixture
def table(tmp_path: Path) -> DeltaLog:
    root = tmp_path / "table"
    rows = pa.table({"id": [1, 2, 3], "day": ["mon", "mon", "tue"], "a.b`c": ["x", "y", None]})
    da.write(root, rows, partition_by=["day"])
    log = DeltaLog(root)
    set_properties(log, {"delta_ops.recordReads": "true"})
    return log


def recorded(log: DeltaLog) -> list[RecordedRead]:
    return recorded_reads(open_storage(log.uri))


@pytest.mark.parametrize("read", READS_OF_ROWS)
def test_a_read_leaves_its_predicate_by_one_call(table: DeltaLog, read: Read) -> None:
    calls: list[tuple[str, str]] = []
    storage = CountingStorage(
        open_storage(table.uri),
        lambda _, method, path, when: calls.append((method, path)) if when == "before" else None,
    )
    predicate = (col("id") >= 2) & (col("a.b`c") == "it's y")
    read(DeltaLog("", storage=storage), predicate)
    written = [path for method, path in calls if method == "replace"]
    assert len(written) == 1
    assert written[0].startswith(f"{READS}/")
    (found,) = recorded(table)
    schema = table.snapshot().schema
    assert resolve(parse_predicate(found.predicate), schema) == resolve(predicate, schema)


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("read", READS_OF_ROWS)
def test_reads_without_use_for_the_layout_are_not_recorded(table: DeltaLog, read: Read) -> None:
    read(table, col("day") == "mon")
    da.to_table(table)
    da.count_rows(table)
    with pytest.raises(InvalidRequestError, match="no column"):
        read(table, col("nowhere") == 1)
    read(table, col("id").isin(range(10_000)))
    assert recorded(table) == []


@pytest.mark.parametrize("value", ["false", None])
def test_a_table_without_the_property_gets_no_records(table: DeltaLog, value: Any) -> None:
    set_properties(table, {"delta_ops.recordReads": value})
    da.to_table(table, predicate=col("id") == 1)
    assert not (Path(table.uri) / "_delta_ops").exists()


def test_a_change_of_rows_is_no_recorded_read(table: DeltaLog) -> None:
    da.delete(table, col("id") == 1)
    da.update(table, {"id": 7}, col("id") == 2)
    da.write(table, pa.table({"id": [5], "day": ["mon"], "a.b`c": ["z"]}), mode="append")
    optimize(table)
    assert recorded(table) == []


@pytest.mark.full
def test_records_are_bounded_and_the_newest_stay(table: DeltaLog) -> None:
    snapshot = table.snapshot()
    for number in range(3 * NUM_SLOTS):
        record_read(snapshot, col("id") == number)
    found = recorded(table)
    assert NUM_SLOTS * 0.8 < len(found) <= NUM_SLOTS
    numbers = [int(each.predicate.rpartition(" ")[2]) for each in found]
    assert sum(number >= 2 * NUM_SLOTS for number in numbers) > NUM_SLOTS / 3


def test_a_user_with_read_permission_can_read(table: DeltaLog) -> None:
    def refuse(_number: int, method: str, path: str, _when: str) -> None:
        if method == "replace":
            raise StorageError(path, "written", "no permission")

    log = DeltaLog("", storage=CountingStorage(open_storage(table.uri), refuse))
    assert da.count_rows(log, col("id") == 1) == 1
    assert recorded(table) == []


def test_damaged_records_are_left_out(table: DeltaLog) -> None:
    da.to_table(table, predicate=col("id") == 1)
    folder = Path(table.uri) / READS
    for number, text in enumerate(["", "{", "[]", '{"predicate": 1, "time_ms": 2}', "x" * 100_000]):
        (folder / f"damaged{number}.json").write_text(text)
    (folder / "note.txt").write_text("hello")
    assert [each.predicate for each in recorded(table)] == ["`id` = 1"]

"""Writers that compact small files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin
from delta_ops.ddl import cluster_by, set_properties
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import auto_compact, optimize
from delta_ops.transaction import DEFAULT_HOOKS, CommitResult
from tests.support.tables import rows

ON = {"delta.autoOptimize.autoCompact": "true"}


def append(root: Path, number: int, day: str = "a", **options: Any) -> CommitResult:
    data = pa.table({"id": [number], "day": [day]})
    hooks = (*DEFAULT_HOOKS, auto_compact(min_files=4, **options))
    return da.write(root, data, partition_by=["day"], configuration=ON, hooks=hooks)


def files_by_day(root: Path) -> Counter[str | None]:
    adds = DeltaLog(root).snapshot().add_files()
    return Counter(add.partition_values["day"] for add in adds)


def operations(root: Path) -> list[str | None]:
    return [entry.operation for entry in DeltaLog(root).history()]


def test_writes_put_files_together_once_there_are_many(tmp_path: Path) -> None:
    most = 0
    for number in range(20):
        assert append(tmp_path, number).failed_hooks == ()
        most = max(most, files_by_day(tmp_path).total())
    assert most == 3
    assert operations(tmp_path).count("OPTIMIZE") == 6
    assert rows(da.to_table(tmp_path)) == rows(pa.table({"id": range(20), "day": ["a"] * 20}))


def test_the_commit_says_that_it_was_automatic(tmp_path: Path) -> None:
    for number in range(4):
        append(tmp_path, number)
    entry = next(DeltaLog(tmp_path).history())
    assert (entry.operation, entry.operation_parameters["auto"]) == ("OPTIMIZE", True)
    lines = (tmp_path / "_delta_log" / f"{entry.version:020d}.json").read_text().splitlines()
    actions = [json.loads(line) for line in lines]
    assert {each["add"]["dataChange"] for each in actions if "add" in each} == {False}


def test_only_partitions_that_are_written_to_are_compacted(tmp_path: Path) -> None:
    for number in range(5):
        da.write(tmp_path, pa.table({"id": [number], "day": ["a"]}), partition_by=["day"])
    for number in range(3):
        append(tmp_path, number, "b")
    set_properties(tmp_path, ON)
    append(tmp_path, 3, "b")
    assert files_by_day(tmp_path) == {"a": 5, "b": 1}


@pytest.mark.parametrize("value", [None, "false"])
def test_a_table_without_the_property_is_left(tmp_path: Path, value: str | None) -> None:
    properties = {} if value is None else {"delta.autoOptimize.autoCompact": value}
    for number in range(8):
        data = pa.table({"id": [number]})
        da.write(tmp_path, data, configuration=properties, hooks=[auto_compact(min_files=2)])
    assert DeltaLog(tmp_path).snapshot().num_files == 8


def test_a_write_pays_no_more_than_the_bound(tmp_path: Path) -> None:
    for number in range(8):
        da.write(tmp_path, pa.table({"id": [number], "day": ["a"]}), partition_by=["day"])
    set_properties(tmp_path, ON)
    (size, *_) = (add.size for add in DeltaLog(tmp_path).snapshot().add_files())
    append(tmp_path, 8, max_bytes=3 * size + 3)
    entry = next(DeltaLog(tmp_path).history())
    assert entry.operation == "OPTIMIZE"
    assert int(entry.operation_metrics["numRemovedBytes"]) <= 3 * size + 3


def test_a_rearrangement_triggers_no_compaction(tmp_path: Path) -> None:
    for number in range(5):
        da.write(tmp_path, pa.table({"id": [number], "day": ["a"]}), configuration=ON)
    log = DeltaLog(tmp_path)
    transaction = begin(log)
    transaction.set_transaction(("app", 1))
    transaction.commit(operation="NOTE", hooks=[auto_compact(min_files=2)])
    assert operations(tmp_path)[0] == "NOTE"


def test_a_clustered_table_is_left_to_optimize(tmp_path: Path) -> None:
    data = pa.table({"id": [1]})
    da.write(tmp_path, data, configuration=ON)
    cluster_by(tmp_path, ["id"])
    for _ in range(4):
        written = da.write(tmp_path, data, hooks=[auto_compact(min_files=2)])
        assert written.failed_hooks == ()
    assert "OPTIMIZE" not in operations(tmp_path)


def test_somebody_elses_compaction_is_no_failure_of_the_write(tmp_path: Path) -> None:
    def compacted_meanwhile(snapshot: Any, group: Any) -> Any:
        staged = da.rewrite(snapshot, group)
        optimize(tmp_path)
        return staged

    for number in range(3):
        append(tmp_path, number)
    assert append(tmp_path, 3, engine=compacted_meanwhile).failed_hooks == ()
    assert files_by_day(tmp_path) == {"a": 1}
    assert len(list(tmp_path.rglob("part-*.parquet"))) == 5


def test_bounds_that_are_too_small_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="max_bytes must be positive"):
        auto_compact(max_bytes=0)
    with pytest.raises(InvalidRequestError, match="min_files must be at least 2"):
        auto_compact(min_files=1)

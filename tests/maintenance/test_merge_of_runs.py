"""Merges of a table with a sort key: files that overlap become sorted files, and no row changes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.arrow.rewrite.rewrite import rewrite
from delta_ops.ddl import set_properties
from delta_ops.errors import (
    CommitStateUnknownError,
    DataFileError,
    InvalidRequestError,
    StorageError,
)
from delta_ops.maintenance import health, optimize, plan_maintenance, purge
from delta_ops.maintenance.optimize.clustering import load_clustering
from delta_ops.protocol.sort_key import SORTED_BY
from delta_ops.transaction import KeyOrder, RewriteGroup
from tests.support.counting_storage import CountingStorage
from tests.support.faulty_storage import WRITES

KEY = "delta_ops.sortKey"
SMALL = {"delta.targetFileSize": "20000"}


def write_late(table: Path, commits: int, **settings: str) -> DeltaLog:
    """Commits whose keys overlap those of five neighbours."""
    lots = Random(1)
    for number in range(commits):
        keys = [lots.randrange(number * 10, number * 10 + 60) for _ in range(200)]
        rows = pa.table({"id": keys, "note": [str(lots.random()) for _ in keys]})
        da.write(table, rows, configuration={KEY: "id", **SMALL, **settings})
    return DeltaLog(table)


def rows_of(table: Path | DeltaLog) -> list[str]:
    return sorted(map(repr, da.to_table(table).to_pylist()))


def are_sorted(log: DeltaLog, names: Sequence[str]) -> bool:
    """Whether each file that states an order has it."""
    for add in log.snapshot().add_files():
        rows = pq.read_table(Path(log.uri, add.path)).to_pylist()
        keys = [[(row[name] is not None, row[name]) for name in names] for row in rows]
        if SORTED_BY in (add.tags or {}) and keys != sorted(keys, key=repr_of_nulls):
            return False
    return True


def repr_of_nulls(key: Any) -> Any:
    return [(there, value if there else 0) for there, value in key]


def test_overlapping_files_are_merged_until_three_runs_hold_a_key(tmp_path: Path) -> None:
    log = write_late(tmp_path, 20, **{"delta.enableChangeDataFeed": "true"})
    rows, before = rows_of(log), log.snapshot()
    assert load_clustering(before).depth == 6

    result = optimize(log)

    after = log.snapshot()
    assert result.files_removed == 20
    assert result.files_added < 6
    assert load_clustering(after).depth <= 3
    assert rows_of(log) == rows
    assert are_sorted(log, ["id"])
    entry = next(iter(log.history(1)))
    assert entry.operation_parameters["sortBy"] == '["id"]'
    assert not any(add.data_change for add in after.add_files())
    assert da.read_changes(log, after.version).read_all().num_rows == 0


def test_a_second_run_has_nothing_to_do(tmp_path: Path) -> None:
    log = write_late(tmp_path, 12)
    optimize(log)
    assert optimize(log).version is None
    assert "optimize" not in plan_maintenance(log).operations


def test_health_reports_the_depth_and_that_a_merge_is_due(tmp_path: Path) -> None:
    log = write_late(tmp_path, 12)
    findings = {each.measure: each for each in health(log).findings}
    depth = findings["clustering_depth"]
    assert (depth.value, depth.verdict, depth.operation) == (6, "due", "optimize")
    optimize(log)
    findings = {each.measure: each for each in health(log).findings}
    assert findings["clustering_depth"].verdict == "ok"


def test_a_dry_run_expects_the_depth(tmp_path: Path) -> None:
    log = write_late(tmp_path, 12)
    expected = optimize(log, dry_run=True).expected
    assert expected is not None
    assert expected.depth is not None
    optimize(log)
    assert load_clustering(log.snapshot()).depth <= expected.depth <= 3


def test_a_full_run_makes_one_run_of_each_partition(tmp_path: Path) -> None:
    log = write_late(tmp_path, 12)
    optimize(log, full=True)
    assert load_clustering(log.snapshot()).depth == 1
    assert len(log.snapshot().add_files()) > 1
    assert optimize(log, full=True).version is None


def test_a_budget_bounds_a_run_and_the_next_goes_on(tmp_path: Path) -> None:
    log = write_late(tmp_path, 20)
    rows = rows_of(log)
    while (result := optimize(log, max_bytes=30_000)).version is not None:
        assert result.bytes_removed <= 30_000
        if result.files_removed < 2:
            break
    assert load_clustering(log.snapshot()).depth <= 3
    assert rows_of(log) == rows


def test_a_budget_below_the_smallest_merge_is_refused(tmp_path: Path) -> None:
    log = write_late(tmp_path, 6)
    with pytest.raises(InvalidRequestError, match="less than the smallest group"):
        optimize(log, max_bytes=10)


def test_options_without_a_meaning_are_refused(tmp_path: Path) -> None:
    log = write_late(tmp_path, 2)
    with pytest.raises(InvalidRequestError, match="the order decides how files are split"):
        optimize(log, max_size=1 << 30)


def test_a_purge_keeps_files_sorted_and_as_narrow_as_they_are(tmp_path: Path) -> None:
    log = write_late(tmp_path, 12, **{"delta.enableDeletionVectors": "true"})
    optimize(log, full=True)
    da.delete(log, "id % 10 = 0")
    purge(log)
    adds = log.snapshot().add_files()
    assert len(adds) > 1
    assert all(add.tags and SORTED_BY in add.tags for add in adds)
    assert are_sorted(log, ["id"])
    assert load_clustering(log.snapshot()).depth == 1


def test_a_rewrite_in_another_order_drops_the_tags_of_the_order(tmp_path: Path) -> None:
    log = write_late(tmp_path, 6)
    optimize(log)
    set_properties(log, {KEY: None})
    da.write(log, pa.table({"id": [1], "note": ["late"]}))
    optimize(log, target_size=1 << 20)
    assert [add.tags for add in log.snapshot().add_files()] == [None]


def test_a_file_that_states_a_wrong_order_fails_an_ordered_scan(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [3, 1, 2]}))
    path = tmp_path / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            line["add"]["tags"] = {SORTED_BY: '["id"]'}
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    with pytest.raises(DataFileError, match="states that its rows are sorted by id"):
        list(da.to_batches(tmp_path, order_by=["id"]))


def test_large_files_without_an_order_are_sorted_in_parts(tmp_path: Path) -> None:
    number = 300_000
    keys = [(each * 7919) % number for each in range(number)]
    da.write(tmp_path, pa.table({"id": keys, "other": keys[::-1]}))
    set_properties(tmp_path, {KEY: "id"})
    snapshot = DeltaLog(tmp_path).snapshot()
    group = RewriteGroup(
        files=tuple(snapshot.add_files()),
        target_size_bytes=1 << 19,
        order=KeyOrder(columns=(("id",),)),
    )
    staged = rewrite(snapshot, group, memory_bytes=1 << 20)
    assert len(staged.adds) > 1
    found = [
        each for add in staged.adds for each in pq.read_table(tmp_path / add.path)["id"].to_pylist()
    ]
    assert found == list(range(number))


def test_a_merge_of_many_files_with_little_memory_is_in_order(tmp_path: Path) -> None:
    snapshot = write_late(tmp_path, 20).snapshot()
    group = RewriteGroup(
        files=tuple(snapshot.add_files()),
        target_size_bytes=1 << 14,
        order=KeyOrder(columns=(("id",),)),
    )
    staged = rewrite(snapshot, group, memory_bytes=4096)
    found = [
        each for add in staged.adds for each in pq.read_table(tmp_path / add.path)["id"].to_pylist()
    ]
    assert found == sorted(found)
    assert len(found) == 20 * 200


VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    "a": st.none() | st.integers(-5, 5),
    "b": st.none() | st.sampled_from(["", "a", "é", "z" * 40, "z" * 41]),
    "p": st.sampled_from(["x", "y"]),
}
SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), ("p", pa.string())])
ROWS = st.lists(st.fixed_dictionaries(dict(VALUES)), min_size=1, max_size=6)


@pytest.mark.full
@settings(max_examples=25)
@given(
    writes=st.lists(st.tuples(ROWS, st.sampled_from(["a", "b, a", ""])), min_size=2, max_size=9),
    key=st.sampled_from(["a", "b", "a, b", "b, a"]),
    deleted=st.integers(-6, 6),
    full=st.booleans(),
)
def test_merges_change_no_row_and_come_to_rest(
    tmp_path_factory: pytest.TempPathFactory,
    writes: list[tuple[list[dict[str, Any]], str]],
    key: str,
    deleted: int,
    full: bool,
) -> None:
    table = tmp_path_factory.mktemp("runs") / "t"
    properties = {"delta.enableDeletionVectors": "true"}
    for written, sort_key in writes:
        data = pa.Table.from_pylist(written, SCHEMA)
        da.write(table, data, partition_by=["p"], configuration=properties)
        set_properties(table, {KEY: sort_key or None})
    da.delete(table, f"a = {deleted}")
    set_properties(table, {KEY: key})
    rows = rows_of(table)
    log, names = DeltaLog(table), key.split(", ")
    optimize(log, full=full)
    assert rows_of(log) == rows
    assert are_sorted(log, names)
    assert load_clustering(log.snapshot()).depth <= (1 if full else 3)
    for _ in range(3):
        if optimize(log, full=full).version is None:
            break
    assert optimize(log, full=full).version is None
    found = [row for batch in da.to_batches(log, order_by=names) for row in batch.to_pylist()]
    assert sorted(map(repr, found)) == rows
    keys = [repr_of_nulls([(row[name] is not None, row[name]) for name in names]) for row in found]
    assert keys == sorted(keys)


def disturbed(log: DeltaLog, act: Any) -> DeltaLog:
    """The table; `act` runs before the first commit of this handle."""
    left = [act]

    def on_call(_number: int, method: str, path: str, when: Literal["before", "after"]) -> None:
        if method == "create" and path.endswith(".json") and when == "before" and left:
            left.pop()()

    return DeltaLog(log.uri, storage=CountingStorage(log.storage, on_call))


def test_of_two_merges_at_once_one_commits(tmp_path: Path) -> None:
    log = write_late(tmp_path, 8)
    rows = rows_of(log)
    result = optimize(disturbed(log, lambda: optimize(log)))
    assert result.already_committed
    assert rows_of(log) == rows
    assert [entry.operation for entry in log.history(2)] == ["OPTIMIZE", "WRITE"]
    on_disk = {path.name for path in tmp_path.glob("*.parquet")}
    assert on_disk == {add.path for each in (7, 8) for add in log.snapshot(each).add_files()}


def test_an_append_beside_a_merge_is_no_conflict(tmp_path: Path) -> None:
    log = write_late(tmp_path, 8)
    late = pa.table({"id": [1], "note": ["late"]})
    assert optimize(disturbed(log, lambda: da.write(log, late))).version == 9
    assert da.count_rows(log) == 8 * 200 + 1


@pytest.mark.full
def test_a_lost_answer_of_any_call_loses_no_row(tmp_path: Path) -> None:
    number = 0
    while True:
        number += 1
        log = write_late(tmp_path / str(number), 5)
        rows, is_lost = rows_of(log), False

        def lose(
            call: int,
            method: str,
            path: str,
            when: Literal["before", "after"],
            number: int = number,
        ) -> None:
            nonlocal is_lost
            if (call, when) == (number, "after") and method in WRITES:
                is_lost = True
                raise StorageError(path, "reached", "the connection was reset")

        counting = CountingStorage(log.storage, lose)
        try:
            optimize(DeltaLog(log.uri, storage=counting))
        except (StorageError, CommitStateUnknownError):
            assert is_lost
        assert rows_of(log) == rows
        optimize(log)
        assert rows_of(log) == rows
        assert load_clustering(log.snapshot()).depth <= 3
        assert optimize(log).version is None
        if counting.num_calls < number:
            return

"""Rows laid out in an order, on real tables."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, Snapshot, col
from delta_ops.ddl import cluster_by, set_properties
from delta_ops.errors import CommitConflictError, InvalidRequestError
from delta_ops.maintenance import optimize, purge
from delta_ops.transaction import RewriteGroup, Staged
from tests.support.tables import live_paths, rows, rows_by_deltalake

FILE = 4_000


def scattered(root: Path, commits: int = 6, **options: Any) -> DeltaLog:
    """Files with values from the whole range."""
    numbers = random.Random(1).sample(range(1_000 * commits), 1_000 * commits)
    for part in range(commits):
        ids = numbers[part::commits]
        data = pa.table({"id": ids, "x": [-n for n in ids], "p": ["ab"[part % 2]] * 1_000})
        da.write(root, data, **options)
    return DeltaLog(root)


def info_of(log: DeltaLog, version: int) -> dict[str, Any]:
    text = (Path(log.uri) / "_delta_log" / f"{version:020d}.json").read_text()
    (info,) = [line for line in map(json.loads, text.splitlines()) if "commitInfo" in line]
    found: dict[str, Any] = info["commitInfo"]
    return found


def test_the_rows_stay_and_reads_open_fewer_files(tmp_path: Path) -> None:
    log = scattered(tmp_path)
    before = rows(da.to_table(log))
    result = optimize(log, zorder_by=["id", "x"], target_size=FILE)
    assert result.version == 6
    assert (result.files_removed, result.files_added > 3) == (6, True)
    assert rows(da.to_table(log)) == before == rows_by_deltalake(tmp_path)
    assert len(log.snapshot().add_files(col("id") == 77)) == 1
    assert live_paths(log)


@pytest.mark.parametrize("full", [False, True])
def test_a_second_run_has_nothing_to_do(tmp_path: Path, full: bool) -> None:
    log = scattered(tmp_path, partition_by=["p"])
    optimize(log, zorder_by=["id"], target_size=FILE, full=full)
    again = optimize(log, zorder_by=["id"], target_size=FILE, full=full)
    assert (again.plan.has_work, again.version) == (False, None)


def test_the_commit_has_the_metrics_of_the_reference(tmp_path: Path) -> None:
    log = scattered(tmp_path)
    optimize(log, zorder_by=["id", "x"], target_size=FILE)
    info = info_of(log, 6)
    parameters, metrics = info["operationParameters"], info["operationMetrics"]
    assert info["operation"] == "OPTIMIZE"
    assert (parameters["zOrderBy"], parameters["clusterBy"]) == ('["id","x"]', "[]")
    assert int(metrics["minFileSize"]) <= int(metrics["p50FileSize"]) <= int(metrics["maxFileSize"])
    assert {add.data_change for add in log.snapshot().add_files()} == {False}


def test_new_files_are_laid_out_and_large_cubes_left(tmp_path: Path) -> None:
    log = scattered(tmp_path, commits=20)
    optimize(log, zorder_by=["id"], target_size=FILE)
    cube = set(live_paths(log))
    for _ in range(2):
        da.write(tmp_path, pa.table({"id": [1, 2], "x": [3, 4], "p": ["a", "b"]}))
    result = optimize(log, zorder_by=["id"], target_size=FILE)
    assert (result.files_removed, result.files_added) == (2, 1)
    assert cube < set(live_paths(log))
    assert not optimize(log, zorder_by=["id"], target_size=FILE).plan.has_work


def test_a_clustered_table_is_laid_out_by_its_columns(tmp_path: Path) -> None:
    log = scattered(tmp_path)
    cluster_by(tmp_path, ["id"])
    result = optimize(log, target_size=FILE)
    adds = log.snapshot().add_files()
    assert {add.clustering_provider for add in adds} == {"liquid"}
    assert len(log.snapshot().add_files(col("id") == 77)) == 1
    assert result.version is not None
    assert info_of(log, result.version)["operationParameters"]["clusterBy"] == '["id"]'
    assert not optimize(log, target_size=FILE).plan.has_work
    assert not optimize(log, target_size=FILE, full=True).plan.has_work


def test_a_run_of_many_bytes_commits_as_it_goes(tmp_path: Path) -> None:
    log = scattered(tmp_path, partition_by=["p"])
    before = rows(da.to_table(log))
    result = optimize(log, zorder_by=["id"], target_size=FILE, commit_bytes=1)
    assert (result.num_commits, result.version, result.files_removed) == (2, 7, 6)
    assert rows(da.to_table(log)) == before


def test_small_files_are_put_together_in_several_commits(tmp_path: Path) -> None:
    log = scattered(tmp_path, partition_by=["p"])
    before = rows(da.to_table(log))
    result = optimize(log, commit_bytes=1)
    assert (result.num_commits, result.files_removed, result.files_added) == (2, 6, 2)
    assert rows(da.to_table(log)) == before


def test_a_conflict_loses_only_its_part(tmp_path: Path) -> None:
    log = scattered(tmp_path, partition_by=["p"])
    todo = [lambda: da.write(
        tmp_path, pa.table({"id": [9], "x": [9], "p": ["a"]}), "overwrite",
        replace_where=col("p") == "a",
    )]  # fmt: skip

    def engine(snapshot: Snapshot, group: RewriteGroup) -> Staged:
        staged = da.rewrite(snapshot, group)
        if todo:
            todo.pop()()
        return staged

    result = optimize(log, zorder_by=["id"], target_size=FILE, commit_bytes=1, engine=engine)
    assert (result.num_commits, result.files_removed) == (1, 3)
    assert da.count_rows(log, col("p") == "a") == 1


def test_all_that_is_lost_to_others_is_an_error(tmp_path: Path) -> None:
    log = scattered(tmp_path)

    def engine(snapshot: Snapshot, group: RewriteGroup) -> Staged:
        staged = da.rewrite(snapshot, group)
        da.write(tmp_path, pa.table({"id": [9], "x": [9], "p": ["a"]}), "overwrite")
        return staged

    with pytest.raises(CommitConflictError):
        optimize(log, zorder_by=["id"], engine=engine)
    assert da.count_rows(log) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"zorder_by": ["p"]}, "is a partition column", id="a partition column"),
        pytest.param({"zorder_by": ["l"]}, "has no order", id="a list"),
        pytest.param({"zorder_by": ["z"]}, "z", id="a column that is not there"),
        pytest.param({"zorder_by": []}, "one to 8 columns", id="no column"),
        pytest.param({"zorder_by": ["id", "ID"]}, "each named once", id="a column twice"),
        pytest.param({"zorder_by": ["late"]}, "dataSkippingStatsColumns", id="no statistics"),
        pytest.param({"zorder_by": ["id"], "curve": "peano"}, "no curve", id="no such curve"),
        pytest.param({"zorder_by": ["id"], "target_size": 0}, "positive", id="no size"),
        pytest.param({"zorder_by": ["id"], "predicate": col("id") == 1}, "partition", id="rows"),
    ],
)
def test_invalid_arguments_are_refused_before_a_file_is_read(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    data = pa.table({"id": [1, 2], "p": ["a", "b"], "l": [[1], [2]], "late": [1, 2]})
    properties = {"delta.dataSkippingNumIndexedCols": "1"}
    da.write(tmp_path, data, partition_by=["p"], configuration=properties)
    for path in tmp_path.rglob("*.parquet"):
        path.unlink()
    with pytest.raises(InvalidRequestError, match=message):
        optimize(tmp_path, **options)


def test_a_clustered_table_has_no_other_order(tmp_path: Path) -> None:
    log = scattered(tmp_path, commits=2)
    cluster_by(tmp_path, ["id"])
    with pytest.raises(InvalidRequestError, match="is clustered"):
        optimize(log, zorder_by=["x"])


def test_an_engine_that_cannot_order_rows_fails_before_the_first_file(tmp_path: Path) -> None:
    log = scattered(tmp_path, commits=2)

    def engine(_: Snapshot, group: RewriteGroup) -> Staged:
        assert group.order is not None
        raise InvalidRequestError("it does not sort")

    files = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidRequestError, match="does not sort"):
        optimize(log, zorder_by=["x"], engine=engine)
    assert sorted(tmp_path.rglob("*")) == files


def test_change_data_survives_a_rewrite(tmp_path: Path) -> None:
    log = scattered(tmp_path, commits=2)
    set_properties(tmp_path, {"delta.enableChangeDataFeed": "true"})
    version = optimize(log, zorder_by=["id"]).version
    assert version is not None
    assert sum(map(len, da.read_changes(log, version))) == 0


def test_a_run_keeps_to_its_budget_and_the_next_goes_on(tmp_path: Path) -> None:
    log = scattered(tmp_path)
    size = log.snapshot().size_bytes
    first = optimize(log, zorder_by=["id"], max_bytes=size // 2, target_size=FILE)
    assert (first.files_removed >= 2, first.bytes_removed <= size // 2) == (True, True)
    optimize(log, zorder_by=["id"], max_bytes=size, target_size=FILE)
    assert not optimize(log, zorder_by=["id"], target_size=FILE).plan.has_work


@pytest.mark.parametrize(
    "options", [{}, {"zorder_by": ["id"], "full": True}], ids=["small files", "a full layout"]
)
def test_a_budget_below_one_group_is_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    log = scattered(tmp_path)
    with pytest.raises(InvalidRequestError, match="less than the smallest group") as refused:
        optimize(log, max_bytes=10, **options)
    assert str(tmp_path) in str(refused.value)
    (least,) = re.findall(r"files, (\d+) bytes", str(refused.value))
    assert optimize(log, max_bytes=int(least), **options).version is not None


def test_a_budget_below_the_target_is_used_up_again_and_again(tmp_path: Path) -> None:
    log = scattered(tmp_path, commits=10)
    size = max(add.size for add in log.snapshot().add_files())
    budget, most = 3 * size, 0
    while (result := optimize(log, target_size=budget + 2, max_bytes=budget)).version is not None:
        most = max(most, result.bytes_removed)
    assert 0 < most <= budget
    assert not optimize(log, target_size=budget).plan.has_work


def test_a_purge_keeps_to_a_budget_below_its_target(tmp_path: Path) -> None:
    log = scattered(tmp_path, configuration={"delta.enableDeletionVectors": "true"})
    da.delete(log, col("id").isin(list(range(0, 6_000, 2))))
    budget = 2 * max(add.size for add in log.snapshot().add_files())
    result = purge(log, max_bytes=budget)
    assert (result.files_removed, result.bytes_removed <= budget) == (2, True)
    with pytest.raises(InvalidRequestError, match="smallest group of files, "):
        purge(log, max_bytes=10)


@pytest.mark.parametrize("act", [optimize, purge])
@pytest.mark.parametrize(
    "bounds", [{"max_bytes": 0}, {"max_bytes": -1}, {"commit_bytes": 0}], ids=str
)
def test_bounds_that_mean_nothing_are_refused_where_nothing_is_to_do(
    tmp_path: Path, act: Callable[..., Any], bounds: dict[str, int]
) -> None:
    da.write(tmp_path, pa.table({"id": [1]}))
    with pytest.raises(InvalidRequestError, match="must be positive"):
        act(tmp_path, **bounds)


def test_a_least_size_below_0_is_refused(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1]}))
    with pytest.raises(InvalidRequestError, match="0 or more"):
        optimize(tmp_path, min_size=-5)


def test_only_files_below_the_least_size_are_put_together(tmp_path: Path) -> None:
    log = scattered(tmp_path, commits=3)
    da.write(tmp_path, pa.table({"id": [1], "x": [1], "p": ["a"]}))
    da.write(tmp_path, pa.table({"id": [1], "x": [1], "p": ["a"]}))
    assert optimize(log, min_size=2_000).files_removed == 2
    assert not optimize(log, min_size=2_000).plan.has_work

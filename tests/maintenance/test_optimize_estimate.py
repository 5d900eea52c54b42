"""The estimate of a dry run, compared with the real run."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.clock import Clock
from delta_ops.ddl import cluster_by
from delta_ops.maintenance import health, optimize, purge
from delta_ops.maintenance.optimize.clustering import load_clustering
from delta_ops.maintenance.optimize.estimate import estimate
from delta_ops.maintenance.optimize.plan import OptimizePlan, Planned
from delta_ops.transaction import RewriteGroup

VECTORS = {"delta.enableDeletionVectors": "true"}


def scattered(root: Path, commits: int, **options: Any) -> DeltaLog:
    numbers = random.Random(1).sample(range(1_000 * commits), 1_000 * commits)
    for part in range(commits):
        da.write(root, pa.table({"id": numbers[part::commits]}), **options)
    return DeltaLog(root)


def ticking() -> Clock:
    """A clock that advances by ten seconds with each reading."""
    times = iter(range(1_700_000_000_000, 2_000_000_000_000, 10_000))
    return lambda: next(times)


def test_expected_orders_occur(tmp_path: Path) -> None:
    log = scattered(tmp_path, 6)
    cluster_by(log, ["id"])
    found = load_clustering(log.snapshot())
    assert (found.depth, found.loose_files, found.next_depth) == (6, 6, 1)
    (finding,) = [f for f in health(log).findings if f.measure == "clustering_depth"]
    assert finding.verdict == "due"
    assert finding.advice.endswith("the next run is expected to leave a depth of 1")
    expected = optimize(log, target_size=4_000, dry_run=True).expected
    assert expected
    result = optimize(log, target_size=4_000)
    assert expected.depth == load_clustering(log.snapshot()).depth == 1
    assert abs(expected.num_files - result.files_added) <= 1 + result.files_added // 2
    assert 0.5 < expected.size_bytes / result.bytes_added < 2
    assert expected.seconds is None


def test_files_that_stay_count_for_the_depth(tmp_path: Path) -> None:
    log = scattered(tmp_path, 6)
    cluster_by(log, ["id"])
    optimize(log, target_size=4_000)
    for _ in range(2):
        da.write(log, pa.table({"id": [1, 5_000]}))
    expected = optimize(log, target_size=4_000, dry_run=True).expected
    assert expected
    assert expected.depth == 2
    optimize(log, target_size=4_000)
    found = load_clustering(log.snapshot())
    assert (found.depth, found.loose_files, found.next_depth) == (2, 0, 2)


def test_seconds_and_bytes_go_by_the_rate_of_runs_of_the_kind(tmp_path: Path) -> None:
    log = scattered(tmp_path, 4)
    first = optimize(log, clock=ticking())
    metrics = next(log.history()).operation_metrics
    for number in range(3):
        da.write(log, pa.table({"id": range(number, number + 1_000)}))
    plain = optimize(log, dry_run=True)
    assert plain.expected
    assert plain.expected.seconds
    rate = int(metrics["executionTimeMs"]) / 1_000 / first.bytes_removed
    assert abs(plain.expected.seconds - rate * plain.plan.size_bytes) < 1e-6
    assert plain.expected.size_bytes < plain.plan.size_bytes
    assert plain.expected.num_files == 1
    ordered = optimize(log, zorder_by=["id"], dry_run=True)
    assert ordered.expected
    assert ordered.expected.seconds is None


def test_a_purge_estimates_from_deletion_vectors(tmp_path: Path) -> None:
    log = scattered(tmp_path, 4, configuration=VECTORS)
    da.delete(log, col("id") >= 1_000)
    expected = purge(log, dry_run=True).expected
    assert expected
    result = purge(log)
    assert 0.5 < expected.size_bytes / result.bytes_added < 2
    assert result.bytes_added < result.bytes_removed / 2
    assert expected.num_files == result.files_added == 1


def test_files_without_remaining_rows_are_dropped(tmp_path: Path) -> None:
    log = scattered(tmp_path, 1, configuration=VECTORS)
    da.delete(log, col("id") < 999)
    (add,) = log.snapshot().add_files()
    assert add.deletion_vector
    vector = replace(add.deletion_vector, cardinality=1_000)
    gone = replace(add, deletion_vector=vector)
    plan = OptimizePlan(
        target_size_bytes=10_000, groups=(RewriteGroup(files=(gone,), target_size_bytes=10_000),)
    )
    expected = estimate(log.snapshot(), Planned(plan=plan), "REORG", ())
    assert (expected.num_files, expected.size_bytes) == (0, 0)


def test_a_purged_file_of_one_byte_is_no_work_for_a_compaction(tmp_path: Path) -> None:
    log = scattered(tmp_path, 4, configuration=VECTORS)
    da.delete(log, col("id") >= 100)
    purge(log)
    da.write(log, pa.table({"id": random.Random(2).sample(range(9_999), 1_000)}))
    da.write(log, pa.table({"id": random.Random(3).sample(range(9_999), 1_000)}))
    dry = optimize(log, dry_run=True)
    assert dry.expected
    assert (dry.expected.size_bytes, dry.expected.seconds) == (dry.plan.size_bytes, None)


def test_rows_that_are_laid_out_save_nothing_once_more(tmp_path: Path) -> None:
    numbers = random.Random(1)
    for _ in range(6):
        da.write(tmp_path, pa.table({"id": [numbers.randrange(200) for _ in range(20_000)]}))
    size = DeltaLog(tmp_path).snapshot().size_bytes
    first = optimize(tmp_path, zorder_by=["id"], target_size=size // 3)
    assert first.bytes_added < first.bytes_removed / 2
    anew: dict[str, Any] = {"curve": "hilbert", "full": True, "target_size": size // 3}
    again = optimize(tmp_path, zorder_by=["id"], dry_run=True, **anew)
    assert again.expected
    result = optimize(tmp_path, zorder_by=["id"], **anew)
    assert 0.5 < again.expected.size_bytes / result.bytes_added < 2


@pytest.mark.full
def test_estimates_include_compaction_in_rounds(tmp_path: Path) -> None:
    def write(first: int) -> None:
        for number in range(first, first + 24):
            da.write(tmp_path, pa.table({"id": [number]}))

    write(0)
    log = DeltaLog(tmp_path)
    target = log.snapshot().size_bytes // 4
    optimize(log, target_size=target)
    write(24)
    dry = optimize(log, target_size=target, dry_run=True)
    assert dry.expected
    result = optimize(log, target_size=target)
    assert dry.expected.num_files == result.files_added < len(dry.plan.groups)


def test_nothing_is_expected_where_nothing_is_to_do(tmp_path: Path) -> None:
    log = scattered(tmp_path, 1)
    assert optimize(log, dry_run=True).expected is None
    assert purge(log, dry_run=True).expected is None
    assert optimize(log).expected is None

"""What a dry run expects, beside what a run comes to."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.clock import Clock
from delta_ops.maintenance import optimize, purge
from delta_ops.maintenance.optimize.depth import load_clustering
from delta_ops.transaction import cluster_by


def scattered(root: Path, commits: int) -> DeltaLog:
    numbers = random.Random(1).sample(range(1_000 * commits), 1_000 * commits)
    for part in range(commits):
        da.write(root, pa.table({"id": numbers[part::commits]}))
    return DeltaLog(root)


def ticking() -> Clock:
    """A clock on which ten seconds go by from one look to the next."""
    times = iter(range(1_700_000_000_000, 2_000_000_000_000, 10_000))
    return lambda: next(times)


def test_what_is_expected_of_an_order_comes_about(tmp_path: Path) -> None:
    log = scattered(tmp_path, 6)
    cluster_by(log, ["id"])
    assert load_clustering(log.snapshot()).depth == 6
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
    assert load_clustering(log.snapshot()).depth == 2


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


def test_nothing_is_expected_where_nothing_is_to_do(tmp_path: Path) -> None:
    log = scattered(tmp_path, 1)
    assert optimize(log, dry_run=True).expected is None
    assert purge(log, dry_run=True).expected is None
    assert optimize(log).expected is None

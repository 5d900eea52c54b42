"""Optimize in several commits: the first plan is completed despite other commits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, Snapshot, begin, col
from delta_ops.ddl import set_properties
from delta_ops.events import Event, Progress
from delta_ops.maintenance import optimize, purge
from delta_ops.transaction import RewriteGroup, Staged
from tests.support.built_once import built_once
from tests.support.tables import live_paths, rows


def reopened(built: tuple[DeltaLog, int], root: Path) -> tuple[DeltaLog, int]:
    return DeltaLog(root), built[1]


@built_once(reopened)
def of_small_files(root: Path, /, num_files: int = 24, **options: Any) -> tuple[DeltaLog, int]:
    """A table, and a target size that fits six of its files."""
    for number in range(num_files):
        da.write(root, pa.table({"id": range(number * 50, number * 50 + 50)}), **options)
    log = DeltaLog(root)
    return log, max(add.size for add in log.snapshot().add_files()) * 6 + 10


def before_group(number: int, act: Callable[[], object]) -> Callable[..., Staged]:
    """An engine, and an action of another writer before one of its groups."""
    groups: list[RewriteGroup] = []

    def engine(snapshot: Snapshot, group: RewriteGroup) -> Staged:
        groups.append(group)
        if len(groups) == number:
            act()
        return da.rewrite(snapshot, group)

    return engine


def test_one_run_does_the_work_of_its_first_plan(tmp_path: Path) -> None:
    log, target = of_small_files(tmp_path, 36)
    before, planned = rows(da.to_table(log)), set(live_paths(log))
    result = optimize(log, target_size=target, commit_bytes=1)
    assert (result.plan.num_files, result.num_commits >= 6) == (36, True)
    assert planned.isdisjoint(live_paths(log))
    assert rows(da.to_table(log)) == before
    assert not optimize(log, target_size=target, commit_bytes=1).plan.has_work


def test_as_many_files_stay_as_after_a_run_of_one_commit(tmp_path: Path) -> None:
    numbers = []
    for name, commit_bytes in (("one", 1 << 30), ("many", 1)):
        log, target = of_small_files(tmp_path / name)
        optimize(log, target_size=target, commit_bytes=commit_bytes)
        numbers.append(log.snapshot().num_files)
    assert numbers[0] == numbers[1]


def test_what_comes_in_between_is_for_another_run(tmp_path: Path) -> None:
    log, target = of_small_files(tmp_path)
    planned = set(live_paths(log))
    come: set[str] = set()

    def append() -> None:
        before = set(live_paths(log))
        da.write(tmp_path, pa.table({"id": [-1]}))
        come.update(set(live_paths(log)) - before)

    engine = before_group(2, append)
    optimize(log, target_size=target, commit_bytes=1, engine=engine)
    assert planned.isdisjoint(live_paths(log))
    assert come < set(live_paths(log))


def test_a_file_that_got_a_vector_before_its_turn_is_rewritten_without_these_rows(
    tmp_path: Path,
) -> None:
    vectors = {"delta.enableDeletionVectors": "true"}
    log, target = of_small_files(tmp_path, configuration=vectors)
    planned = set(live_paths(log))
    engine = before_group(1, lambda: da.delete(tmp_path, col("id") == 24 * 50 - 1))
    result = optimize(log, target_size=target, commit_bytes=1, engine=engine)
    assert result.files_removed >= len(planned) - 6
    assert sorted(row["id"] for row in rows(da.to_table(log))) == list(range(24 * 50 - 1))


def test_a_property_that_is_set_in_between_costs_a_part_at_most(tmp_path: Path) -> None:
    log, target = of_small_files(tmp_path)
    engine = before_group(2, lambda: set_properties(tmp_path, {"owner": "a team"}))
    result = optimize(log, target_size=target, commit_bytes=1, engine=engine)
    second = result.plan.groups[1].files
    assert result.files_left_to_others == len(second)
    assert {add.path for add in second} == set(live_paths(log)) & {
        add.path for add in result.plan.files
    }


def test_files_that_are_gone_before_their_turn_are_reported(tmp_path: Path) -> None:
    log, target = of_small_files(tmp_path)
    plan = optimize(log, target_size=target, dry_run=True).plan
    gone = plan.groups[-1].files[1:]

    def remove() -> None:
        transaction = begin(log)
        transaction.remove(gone)
        transaction.commit(operation="DELETE")

    engine = before_group(1, remove)
    result = optimize(log, target_size=target, commit_bytes=1, engine=engine)
    assert result.files_left_to_others == len(gone)


def test_a_run_after_a_crash_does_the_rest(tmp_path: Path) -> None:
    log, target = of_small_files(tmp_path)
    before, planned = rows(da.to_table(log)), set(live_paths(log))

    def crash() -> None:
        raise RuntimeError("no power")

    with pytest.raises(RuntimeError, match="no power"):
        optimize(log, target_size=target, commit_bytes=1, engine=before_group(3, crash))
    assert log.snapshot().version == 24 + 2 - 1
    optimize(log, target_size=target, commit_bytes=1)
    assert planned.isdisjoint(live_paths(log))
    assert rows(da.to_table(log)) == before
    assert not optimize(log, target_size=target).plan.has_work


def test_a_budget_bounds_all_commits_together(tmp_path: Path) -> None:
    log, target = of_small_files(tmp_path)
    result = optimize(log, target_size=target, commit_bytes=1, max_bytes=3 * target)
    assert result.num_commits > 1
    assert result.bytes_removed <= 3 * target


def test_a_purge_of_several_commits_does_what_was_planned(tmp_path: Path) -> None:
    vectors = {"delta.enableDeletionVectors": "true"}
    log, target = of_small_files(tmp_path, configuration=vectors)
    da.delete(tmp_path, col("id").isin(list(range(0, 24 * 50, 50))))
    before = rows(da.to_table(log))
    engine = before_group(2, lambda: da.write(tmp_path, pa.table({"id": [-1]})))
    result = purge(log, target_size=target, commit_bytes=1, engine=engine)
    assert (result.files_removed, result.num_commits > 1) == (24, True)
    assert len(rows(da.to_table(log))) == len(before) + 1
    assert not purge(log, target_size=target).plan.has_work


def test_progress_counts_through_all_commits(tmp_path: Path) -> None:
    log, target = of_small_files(tmp_path)
    events: list[Event] = []
    result = optimize(log, target_size=target, commit_bytes=1, on_event=events.append)
    reported_events = [(each.done, each.total) for each in events if isinstance(each, Progress)]
    planned = len(result.plan.groups)
    assert reported_events[:planned] == [(number + 1, planned) for number in range(planned)]
    assert [done for done, _ in reported_events] == list(range(1, len(reported_events) + 1))

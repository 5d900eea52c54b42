"""Backfills whose runs are killed around a commit, and executed again by hand.

Each partition must hold its row once, with the number 1: a repeated append would leave two rows, a
repeated counting merge the number 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from tests.orchestration import killed_reruns
from tests.orchestration.killed_reruns import (
    AFTER,
    BEFORE,
    BETWEEN,
    IN_PROCESS,
    IN_PROCESSES,
    PARTITIONED_WAYS,
)
from tests.support.tables import rows_by_deltalake

pytestmark = pytest.mark.filterwarnings("ignore:Parameter `backfill_policy`")

DAYS = ("1", "2", "3")
REGIONS = ("1|be", "1|nl", "2|be", "2|nl")
JOBS: Mapping[str, tuple[Callable[[], dg.JobDefinition], Sequence[str]]] = {
    "days": (killed_reruns.write_days, DAYS),
    "days and regions": (killed_reruns.write_regions, REGIONS),
}
BACKFILL = {"dagster/backfill": "earlier"}
BACKFILL_AGAIN = {
    "dagster/backfill": "later",
    "dagster/parent_backfill_id": "earlier",
    "dagster/root_backfill_id": "earlier",
}


def tags_of(keys: Sequence[str]) -> dict[str, str]:
    """The tags that name the partitions of a run."""
    if len(keys) > 1:
        return {
            "dagster/asset_partition_range_start": keys[0],
            "dagster/asset_partition_range_end": keys[-1],
        }
    (key,) = keys
    names = dict(zip(("day", "region"), key.split("|"), strict=False)) if "|" in key else {}
    return {"dagster/partition": key, **{f"dagster/partition/{n}": v for n, v in names.items()}}


class Lake:
    """Runs of a job over partitions of its assets."""

    def __init__(self, root: Path, instance: dg.DagsterInstance, kind: str) -> None:
        self.root, self.instance = root, instance
        self.job, self.keys = JOBS[kind]
        self.executor: dict[str, Any] = IN_PROCESS

    def run(
        self,
        keys: Sequence[str],
        kill_at: str = "",
        tags: Mapping[str, str] = BACKFILL,
        again: dg.ReexecutionOptions | None = None,
    ) -> tuple[str, bool]:
        """Write partitions; each asset dies once if the test wants it to."""
        for marker in self.root.glob("*.killed"):
            marker.unlink()
        config = {"lake": str(self.root), "code": "any", "kill_at": kill_at}
        with dg.execute_job(
            dg.reconstructable(self.job),
            instance=self.instance,
            run_config={
                "execution": {"config": self.executor},
                "resources": {"io_manager": {"config": {"root": str(self.root)}}},
            },
            tags={**{f"test/{n}": v for n, v in config.items()}, **tags_of(keys), **tags},
            reexecution_options=again,
        ) as result:
            return result.run_id, result.success

    def rows(self, way: str) -> list[tuple[str, str, int]]:
        found = rows_by_deltalake(self.root / way)
        return sorted((row["day"], row["region"], row["n"]) for row in found)

    def check(self) -> None:
        """Each partition has its row once."""
        once = sorted((key.split("|")[0], key.split("|")[-1], 1) for key in self.keys)
        assert {way: self.rows(way) for way in PARTITIONED_WAYS} == dict.fromkeys(
            PARTITIONED_WAYS, once
        )


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "rerun"),
    [
        pytest.param("days and regions", "backfill", id="the backfill, by its id"),
        pytest.param(
            "days",
            "from failure",
            id="days, each run from its failure",
            marks=pytest.mark.full,
        ),
        *(
            pytest.param(kind, rerun, marks=pytest.mark.full)
            for kind in JOBS
            for rerun in ("from failure", "all", "backfill")
        ),
    ],
)
def test_a_backfill_of_runs_that_were_killed_writes_each_partition_once(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    kind: str,
    rerun: str,
) -> None:
    check_runs(Lake(tmp_path, instance, kind), rerun)


@pytest.mark.long
@pytest.mark.parametrize("rerun", ["from failure", "all", "backfill"])
def test_a_backfill_of_processes_that_were_killed_writes_each_partition_once(
    tmp_path: Path, instance_on_disk: dg.DagsterInstance, rerun: str
) -> None:
    lake = Lake(tmp_path, instance_on_disk, "days and regions")
    lake.executor = IN_PROCESSES
    check_runs(lake, rerun)


def check_runs(lake: Lake, rerun: str) -> None:
    """Kill runs of single partitions, run them again, and check the rows."""
    points = dict(zip(lake.keys, (BETWEEN, BEFORE, "", AFTER), strict=False))
    killed = {}
    for key in lake.keys:
        run_id, succeeded = lake.run([key], kill_at=points.get(key, ""))
        assert succeeded is not bool(points.get(key))
        if not succeeded:
            killed[key] = run_id
    assert killed
    for key, run_id in killed.items():
        match rerun:
            case "from failure":
                again = dg.ReexecutionOptions.from_failure(run_id, lake.instance)
                assert lake.run([key], again=again)[1]
            case "all":
                assert lake.run([key], again=dg.ReexecutionOptions(run_id))[1]
            case _:
                assert lake.run([key], tags=BACKFILL_AGAIN)[1]
    lake.check()


@pytest.mark.full
@pytest.mark.parametrize("rerun", [pytest.param("all", marks=pytest.mark.full), "backfill"])
@pytest.mark.parametrize(
    ("kind", "point"),
    [
        pytest.param("days and regions", BETWEEN, id="days and regions, between"),
        pytest.param("days", BETWEEN, id="days, between", marks=pytest.mark.full),
        pytest.param("days and regions", BEFORE, id="before", marks=pytest.mark.full),
        pytest.param("days and regions", AFTER, id="after", marks=pytest.mark.full),
    ],
)
def test_a_run_over_several_partitions_that_was_killed_writes_each_once(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    kind: str,
    point: str,
    rerun: str,
) -> None:
    lake = Lake(tmp_path, instance, kind)
    run_id, succeeded = lake.run(lake.keys, kill_at=point)
    assert not succeeded
    if rerun == "all":
        assert lake.run(lake.keys, again=dg.ReexecutionOptions(run_id))[1]
    else:
        assert lake.run(lake.keys, tags=BACKFILL_AGAIN)[1]
    lake.check()


def test_a_merge_that_counts_counts_again_where_that_is_wanted(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    lake = Lake(tmp_path, instance, "days and regions")
    key = lake.keys[0]
    run_id, _ = lake.run([key])
    forced = {"delta_ops/idempotency": "force"}
    assert lake.run([key], tags=forced, again=dg.ReexecutionOptions(run_id))[1]
    assert lake.rows("counting_merge") == [("1", "be", 2)]
    assert lake.rows("merge") == [("1", "be", 1)]

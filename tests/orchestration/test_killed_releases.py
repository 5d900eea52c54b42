"""Steps of a release that are killed, and run again: readers of the set see both tables or none."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.log.refs.refs import refs_journal
from delta_ops.versioning import list_releases, open_release
from tests.orchestration import killed_releases
from tests.orchestration.killed_releases import POINTS
from tests.orchestration.killed_reruns import IN_PROCESS

PROCESSES: dict[str, Any] = {
    "multiprocess": {
        "max_concurrent": 1,
        "start_method": {"forkserver": {"preload_modules": [killed_releases.__name__]}},
    }
}


def execute(
    instance: dg.DagsterInstance,
    lake: Path,
    code: str,
    executor: Mapping[str, Any],
    *,
    kill_at: str = "",
    again: dg.ReexecutionOptions | None = None,
) -> tuple[str, bool]:
    """Run the job; return the run id and whether it succeeded."""
    job = dg.build_reconstructable_job(
        killed_releases.__name__, "write_shop", reconstructable_args=(str(lake / "releases"),)
    )
    with dg.execute_job(
        job,
        instance=instance,
        run_config={
            "execution": {"config": executor},
            "resources": {"io_manager": {"config": {"root": str(lake)}}},
        },
        tags={"test/lake": str(lake), "test/code": code, "test/kill_at": kill_at},
        reexecution_options=again,
    ) as result:
        return result.run_id, result.success


def check_rerun(
    lake: Path, instance: dg.DagsterInstance, point: str, executor: Mapping[str, Any]
) -> None:
    assert execute(instance, lake, "first", executor)[1]
    killed_id, succeeded = execute(instance, lake, "second", executor, kill_at=point)
    assert (succeeded, (lake / "orders.killed").exists()) == (False, True)
    assert codes_of_release(lake) in (["first", "first"], ["second", "second"])
    again = dg.ReexecutionOptions.from_failure(killed_id, instance)
    assert execute(instance, lake, "third", executor, again=again)[1]
    assert codes_of_release(lake) == ["second", "second"]
    assert [each.number for each in list_releases(lake / "releases")] == [1, 2]
    # A killed release may leave holds, which maintenance drops after a day.
    for table in ("a", "b"):
        holds = refs_journal(DeltaLog(lake / table).storage).load().state.holds
        assert 2 <= len(holds) <= 3


def codes_of_release(lake: Path) -> list[str]:
    opened = open_release(lake / "releases").values()
    return [da.to_table(each)["code"].to_pylist()[0] for each in opened]


@pytest.mark.full
@pytest.mark.parametrize("point", POINTS)
def test_a_failed_step_of_a_release_is_run_again(
    tmp_path: Path, instance: dg.DagsterInstance, point: str
) -> None:
    check_rerun(tmp_path, instance, point, IN_PROCESS)


@pytest.mark.full
@pytest.mark.parametrize(
    "point",
    [pytest.param(each, marks=pytest.mark.long if n else ()) for n, each in enumerate(POINTS)],
)
def test_a_killed_step_of_a_release_is_run_again(
    tmp_path: Path, instance_on_disk: dg.DagsterInstance, point: str
) -> None:
    check_rerun(tmp_path, instance_on_disk, point, PROCESSES)

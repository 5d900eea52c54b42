"""Steps of a reproduction that are killed, and run again: main stays, and the rows are compared."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from delta_ops.versioning import list_branches
from tests.orchestration.killed_reproductions import POINTS, write_totals
from tests.orchestration.killed_reruns import IN_PROCESS
from tests.orchestration.test_killed_reruns import execute
from tests.support.tables import rows_by_deltalake

PROCESSES: dict[str, Any] = {
    "multiprocess": {
        "max_concurrent": 1,
        "start_method": {
            "forkserver": {"preload_modules": ["tests.orchestration.killed_reproductions"]}
        },
    }
}


def check_rerun(
    lake: Path, instance: dg.DagsterInstance, point: str, executor: Mapping[str, Any]
) -> None:
    options: dict[str, Any] = {"executor": executor, "job": write_totals}
    named_id, _ = execute(instance, lake, "first", **options)
    assert execute(instance, lake, "second", **options)[1]
    assert codes_of(lake) == ["first", "second"]
    tags = {"delta_ops/reproduce": named_id}
    killed_id, succeeded = execute(instance, lake, "first", kill_at=point, tags=tags, **options)
    assert (succeeded, (lake / "orders.killed").exists()) == (False, True)
    again = dg.ReexecutionOptions.from_failure(killed_id, instance)
    again_id, succeeded = execute(instance, lake, "first", again=again, tags=tags, **options)
    assert succeeded
    (event,) = (
        record.asset_materialization
        for record in instance.fetch_materializations(
            dg.AssetRecordsFilter(asset_key=dg.AssetKey("totals")), limit=1
        ).records
    )
    assert event is not None
    assert event.metadata["delta/reproduction"].value == "equal"
    assert event.metadata["delta/reproduced_run"].value == named_id
    assert codes_of(lake) == ["first", "second"]
    names = {each.name for each in list_branches(lake / "totals")}
    assert f"reproduce/totals/{again_id}" in names
    assert names <= {f"reproduce/totals/{each}" for each in (killed_id, again_id)}


def codes_of(lake: Path) -> list[str]:
    return sorted(row["code"] for row in rows_by_deltalake(lake / "totals"))


@pytest.mark.full
@pytest.mark.parametrize("point", POINTS)
def test_a_failed_step_of_a_reproduction_is_run_again(
    tmp_path: Path, instance: dg.DagsterInstance, point: str
) -> None:
    check_rerun(tmp_path, instance, point, IN_PROCESS)


@pytest.mark.full
@pytest.mark.parametrize(
    "point",
    [pytest.param(each, marks=pytest.mark.long if n else ()) for n, each in enumerate(POINTS)],
)
def test_a_killed_step_of_a_reproduction_is_run_again(
    tmp_path: Path, instance_on_disk: dg.DagsterInstance, point: str
) -> None:
    check_rerun(tmp_path, instance_on_disk, point, PROCESSES)

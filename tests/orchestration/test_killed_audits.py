"""Steps of an audit that are killed, and run again: the rows are on main once, after their check.

The asset appends, so a repeated publication would leave a row too many.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops.versioning import list_branches
from tests.orchestration.killed_audits import POINTS, write_orders
from tests.orchestration.killed_reruns import IN_PROCESS
from tests.orchestration.test_killed_reruns import NO_TAGS, execute
from tests.support.tables import rows_by_deltalake

RERUNS = ("from failure", "all", "run retry")
PROCESSES: dict[str, Any] = {
    "multiprocess": {
        "max_concurrent": 1,
        "start_method": {"forkserver": {"preload_modules": ["tests.orchestration.killed_audits"]}},
    }
}


def check_rerun(
    lake: Path,
    instance: dg.DagsterInstance,
    point: str,
    rerun: str,
    executor: Mapping[str, Any],
) -> None:
    da.write(lake / "orders", pa.table({"code": ["old"]}))
    options: dict[str, Any] = {"executor": executor, "job": write_orders}
    killed_id, succeeded = execute(instance, lake, "first", kill_at=point, **options)
    assert (succeeded, (lake / "orders.killed").exists()) == (False, True)
    assert codes(lake) in (["old"], ["first", "old"])
    match rerun:
        case "from failure":
            again, tags = dg.ReexecutionOptions.from_failure(killed_id, instance), NO_TAGS
        case "all":
            again, tags = dg.ReexecutionOptions(killed_id), NO_TAGS
        case _:
            again = dg.ReexecutionOptions(killed_id)
            tags = {"dagster/retry_number": "1"}
    on_main = "first" in codes(lake)
    assert execute(instance, lake, "second", again=again, tags=tags, **options)[1]
    (new,) = set(codes(lake)) - {"old"}
    assert codes(lake) == sorted([new, "old"])
    if on_main:
        assert new == "first"
    published = instance.get_latest_materialization_event(dg.AssetKey("orders"))
    assert published is not None
    waiting = {branch.name for branch in list_branches(lake / "orders")}
    assert waiting <= {f"audit/new_orders/{killed_id}"}


def codes(lake: Path) -> list[str]:
    return sorted(row["code"] for row in rows_by_deltalake(lake / "orders"))


QUICK = [("when the rows are on main", "from failure"), ("when the branch is deleted", "all")]
CELLS = [(point, rerun) for point in POINTS for rerun in RERUNS]


@pytest.mark.parametrize(
    ("point", "rerun"),
    [pytest.param(*each, marks=() if each in QUICK else pytest.mark.full) for each in CELLS],
)
def test_a_failed_step_that_is_run_again_publishes_once(
    tmp_path: Path, instance: dg.DagsterInstance, point: str, rerun: str
) -> None:
    check_rerun(tmp_path, instance, point, rerun, IN_PROCESS)


@pytest.mark.full
@pytest.mark.parametrize(
    ("point", "rerun"),
    [pytest.param(*each, marks=() if each == QUICK[0] else pytest.mark.long) for each in CELLS],
)
def test_a_killed_step_that_is_run_again_publishes_once(
    tmp_path: Path, instance_on_disk: dg.DagsterInstance, point: str, rerun: str
) -> None:
    check_rerun(tmp_path, instance_on_disk, point, rerun, PROCESSES)

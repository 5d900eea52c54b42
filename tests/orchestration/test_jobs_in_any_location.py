"""Our jobs run in any location: none of their ops touches the location's IO manager."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.orchestration import (
    DeltaIOManager,
    TableRef,
    build_fleet_maintenance_job,
    build_maintenance_job,
    build_repair_job,
    build_restore_job,
    build_revert_job,
    fleet_config,
    maintenance_config,
)
from delta_ops.orchestration.maintenance.restore_jobs import REPAIR_OP, RESTORE_OP, REVERT_OP
from tests.orchestration.jobs_of_processes import fleet_in_processes


class BrokenIOManager(dg.ConfigurableIOManager):
    """Fails on every call."""

    why: str = "it is no business of this job"

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        raise AssertionError(self.why)

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        raise AssertionError(self.why)

    def load_input(self, context: dg.InputContext) -> Any:
        raise AssertionError(self.why)


FAILS = "an IO manager that fails"
RESOURCES: dict[str, Callable[[Path], Mapping[str, Any]]] = {
    "our IO manager": lambda root: {"io_manager": DeltaIOManager(root=str(root))},
    FAILS: lambda _: {"io_manager": BrokenIOManager()},
    "none": lambda _: {},
}


def table(root: Path) -> TableRef:
    for _ in range(4):
        da.write(root / "t", pa.table({"x": [1, 2, 3]}))
    return TableRef(asset_key=dg.AssetKey("t"), uri=str(root / "t"))


def acts_on_t(op: str, **settings: Any) -> dict[str, Any]:
    return {"ops": {op: {"config": {"table": "t", "dry_run": False, **settings}}}}


def jobs(root: Path) -> dict[str, tuple[dg.JobDefinition, dict[str, Any]]]:
    tables = [table(root)]
    return {
        "fleet": (build_fleet_maintenance_job(), fleet_config([str(root)], small_files=2)),
        "maintenance": (build_maintenance_job(tables), maintenance_config([])),
        "restore": (build_restore_job(tables), acts_on_t(RESTORE_OP, version=1)),
        "revert": (build_revert_job(tables), acts_on_t(REVERT_OP, version=2)),
        "repair": (build_repair_job(tables), acts_on_t(REPAIR_OP)),
    }


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("name", "resources"),
    [
        *((name, FAILS) for name in ("fleet", "maintenance", "restore", "revert", "repair")),
        ("fleet", "our IO manager"),
        ("fleet", "none"),
    ],
)
def test_a_job_runs_beside_any_io_manager(
    tmp_path: Path, instance: dg.DagsterInstance, name: str, resources: str
) -> None:
    job, config = jobs(tmp_path)[name]
    defs = dg.Definitions(jobs=[job], resources=RESOURCES[resources](tmp_path))
    resolved = defs.resolve_job_def(job.name)
    assert resolved.execute_in_process(instance=instance, run_config=config).success
    if name != "repair":  # nothing is wrong with the table
        assert DeltaLog(tmp_path / "t").snapshot().num_files in (1, 2, 3)


@pytest.mark.full
def test_batches_in_processes_of_their_own_hand_their_counts_over(
    tmp_path: Path, instance_on_disk: dg.DagsterInstance
) -> None:
    table(tmp_path)
    job = dg.reconstructable(fleet_in_processes)
    config = fleet_config([str(tmp_path)], small_files=2)
    with dg.execute_job(job, instance=instance_on_disk, run_config=config) as result:
        assert result.success
    assert DeltaLog(tmp_path / "t").snapshot().num_files == 1


def test_the_fleets_own_io_manager_can_be_chosen(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    chosen = dg.FilesystemIOManager(base_dir=str(tmp_path / "given"))
    job = build_fleet_maintenance_job(io_manager=chosen)
    table(tmp_path)
    result = job.execute_in_process(instance=instance, run_config=fleet_config([str(tmp_path)]))
    assert result.success
    assert list((tmp_path / "given").rglob("batch_0"))

"""Checks of a table's health: one for each measure, with its figure and its limit."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops.maintenance import HealthThresholds
from delta_ops.maintenance.due import Measure
from delta_ops.orchestration import TableRef, build_health_checks, external_table
from tests.lost_commits import replace_commit

MEASURES = get_args(Measure)


def table(root: Path, files: int) -> TableRef:
    for _ in range(files):
        da.write(root / "t", pa.table({"x": [1, 2, 3]}))
    return TableRef(asset_key=dg.AssetKey(["lake", "t"]), uri=str(root / "t"))


def evaluations(
    instance: dg.DagsterInstance, ref: TableRef, *names: str
) -> dict[str, dg.AssetCheckEvaluation]:
    """What the checks came to, by name; those that are named, or all."""
    checks = build_health_checks([ref], thresholds=HealthThresholds(small_files=2))
    keys = [dg.AssetCheckKey(ref.asset_key, name) for name in names or MEASURES]
    job = dg.define_asset_job("look", selection=dg.AssetSelection.checks(*keys))
    defs = dg.Definitions(assets=[external_table(ref)], asset_checks=checks, jobs=[job])
    result = defs.resolve_job_def("look").execute_in_process(instance=instance)
    return {each.check_name: each for each in result.get_asset_check_evaluations()}


@pytest.mark.parametrize(
    ("files", "passed"),
    [pytest.param(1, True, id="a table that is well"), pytest.param(4, False, id="small files")],
)
def test_each_measure_is_a_check_with_its_figure_and_limit(
    tmp_path: Path, instance: dg.DagsterInstance, files: int, passed: bool
) -> None:
    found = evaluations(instance, table(tmp_path, files))
    assert sorted(found) == sorted(MEASURES)
    small = found.pop("small_files")
    assert small.passed is passed
    assert small.severity == dg.AssetCheckSeverity.WARN
    assert small.metadata["delta/value"].value == (0 if passed else 4)
    assert small.metadata["delta/limit"].value == 2
    assert small.metadata["delta/cured_by"].value == "optimize"
    assert all(each.passed for each in found.values())


def test_a_commit_that_was_lost_is_an_error(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    ref = table(tmp_path, 4)
    replace_commit(ref.log(), 2)
    lost = evaluations(instance, ref)["lost_commits"]
    assert (lost.passed, lost.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert lost.metadata["delta/value"].value == "2"
    assert "run again what committed version 2" in (lost.description or "")


def test_one_check_can_run_alone(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    found = evaluations(instance, table(tmp_path, 4), "small_files")
    assert list(found) == ["small_files"]


def test_of_a_table_that_cannot_be_read_every_check_is_an_error(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    ref = TableRef(asset_key=dg.AssetKey("t"), uri=str(tmp_path / "t"))
    found = evaluations(instance, ref)
    assert sorted(found) == sorted(MEASURES)
    for each in found.values():
        assert (each.passed, each.severity) == (False, dg.AssetCheckSeverity.ERROR)
        assert "no Delta table" in (each.description or "")

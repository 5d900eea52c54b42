"""Checks of a table's health: one per measure, with its figure and its limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args
from urllib.parse import parse_qs, urlsplit

import dagster as dg
import pyarrow as pa
import pytest
import yaml
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run

import delta_ops.arrow as da
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import HealthThresholds
from delta_ops.maintenance.thresholds import Measure
from delta_ops.orchestration import (
    DeltaIOManager,
    TableRef,
    build_health_checks,
    build_maintenance_job,
    build_table_checks,
    external_table,
)
from delta_ops.orchestration.dagster_versions import AssetCheckEvaluation
from tests.orchestration.rendered_markdown import links, plain_words, tokens
from tests.support.dagster_origins import RegisteredCodeLocationOrigin, RemoteRepositoryOrigin
from tests.support.lost_commits import replace_commit

MEASURES = get_args(Measure)


def table(root: Path, files: int) -> TableRef:
    for _ in range(files):
        da.write(root / "t", pa.table({"x": [1, 2, 3]}))
    return TableRef(asset_key=dg.AssetKey(["lake", "t"]), uri=str(root / "t"))


def location(ref: TableRef, **options: Any) -> dg.Definitions:
    """The checks of a table beside the maintenance job and our IO manager."""
    limits = HealthThresholds(small_files=2)
    checks = [
        *build_health_checks([ref], thresholds=limits, **options),
        *build_table_checks([ref]),
    ]
    return dg.Definitions(
        assets=[external_table(ref)],
        asset_checks=checks,
        jobs=[build_maintenance_job([ref])],
        resources={"io_manager": DeltaIOManager(root="nowhere")},
        executor=dg.in_process_executor,
    )


def evaluations(
    instance: dg.DagsterInstance, ref: TableRef, *names: str, **options: Any
) -> dict[str, AssetCheckEvaluation]:
    """Evaluations by name, of the named checks or of all health checks."""
    keys = [dg.AssetCheckKey(ref.asset_key, name) for name in names or MEASURES]
    look = dg.define_asset_job("look", selection=dg.AssetSelection.checks(*keys))
    job = dg.Definitions.merge(location(ref, **options), dg.Definitions(jobs=[look]))
    result = job.resolve_job_def("look").execute_in_process(instance=instance)
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
    assert "rerun the operation that committed version 2" in (lost.description or "")


def test_one_check_can_run_alone(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    found = evaluations(instance, table(tmp_path, 4), "small_files")
    assert list(found) == ["small_files"]


def test_every_check_of_an_unreadable_table_is_an_error(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    ref = TableRef(asset_key=dg.AssetKey("t"), uri=str(tmp_path / "t"))
    found = evaluations(instance, ref)
    assert sorted(found) == sorted(MEASURES)
    for each in found.values():
        assert (each.passed, each.severity) == (False, dg.AssetCheckSeverity.ERROR)
        assert "not a Delta table" in (each.description or "")


def linked(evaluation: AssetCheckEvaluation) -> tuple[str, Any]:
    """The target of a check's only link: its path, and the config that it fills in."""
    (link,) = links(str(evaluation.description))
    parts = urlsplit(link)
    return parts.path, yaml.safe_load(parse_qs(parts.query)["config"][0])


def test_a_failure_links_to_the_launchpad_filled_in_with_what_cures_it(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    ref = table(tmp_path, 14)
    found = evaluations(instance, ref)
    failed = {name: each for name, each in found.items() if not each.passed}
    assert sorted(failed) == ["small_files"]
    path, config = linked(failed["small_files"])
    assert path == "/guess/delta_maintenance/playground/setup"
    assert config == {
        "ops": {"maintain_tables": {"config": {"tables": ["lake/t"], "operations": ["optimize"]}}}
    }
    job = location(ref).resolve_job_def("delta_maintenance")
    assert job.execute_in_process(instance=instance, run_config=config).success
    assert all(each.passed for each in evaluations(instance, ref).values())
    assert links(str(evaluations(instance, ref, "small_files")["small_files"].description)) == []


def test_the_link_names_the_code_location_of_the_run(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    ref = table(tmp_path, 4)
    job = location(ref).resolve_implicit_global_asset_job_def()
    # As the web server creates a run before the launch.
    place = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("my lake"), "__repository__")
    run = instance.create_run_for_job(job, remote_job_origin=place.get_job_origin(job.name))
    assert execute_run(InMemoryJob(job), run, instance).success
    kind = dg.DagsterEventType.ASSET_CHECK_EVALUATION
    events = [entry.dagster_event for entry in instance.all_logs(run.run_id, of_type=kind)]
    found = [each.asset_check_evaluation_data for each in events if each is not None]
    failed = [each for each in found if not each.passed]
    assert {each.check_name for each in failed} == {"small_files", "maintenance_is_not_overdue"}
    for each in failed:
        path, _ = linked(each)
        assert path == "/locations/my%20lake/jobs/delta_maintenance/playground/setup"


def test_overdue_maintenance_links_to_what_is_due_and_shows_the_card(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    ref = table(tmp_path, 4)
    (found,) = evaluations(instance, ref, "maintenance_is_not_overdue").values()
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    _, config = linked(found)
    assert config == {"ops": {"maintain_tables": {"config": {"tables": ["lake/t"]}}}}
    assert "version **3**" in str(found.metadata["delta/card"].value)
    job = location(ref).resolve_job_def("delta_maintenance")
    assert job.execute_in_process(instance=instance, run_config=config).success
    (found,) = evaluations(instance, ref, "maintenance_is_not_overdue").values()
    assert (found.passed, found.description) == (True, "nothing is due")


def test_which_measures_are_errors_is_a_choice(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    found = evaluations(instance, table(tmp_path, 4), errors=["small_files"])
    errors = [n for n, each in found.items() if each.severity == dg.AssetCheckSeverity.ERROR]
    assert errors == ["small_files"]
    with pytest.raises(InvalidRequestError, match="there is no measure 'small_file'"):
        build_health_checks([], errors=["small_file"])  # type: ignore[list-item]


def test_another_job_may_be_the_cure(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    ref = table(tmp_path, 4)
    for job in ("upkeep", build_maintenance_job([ref], name="upkeep")):
        found = evaluations(instance, ref, "small_files", job=job)["small_files"]
        assert linked(found)[0] == "/guess/upkeep/playground/setup"


def test_no_run_is_offered_that_would_not_be_admitted(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    ref = table(tmp_path, 4)
    of_ours = Path(ref.uri) / "_delta_ops"
    of_ours.mkdir(exist_ok=True)
    (of_ours / "format.json").write_text('{"version": 2}')
    found = evaluations(instance, ref, "small_files")["small_files"]
    assert not found.passed
    assert links(str(found.description)) == []
    assert "does not support version 2 of _delta_ops/format.json" in str(
        plain_words(str(found.description))
    )


@pytest.mark.parametrize("name", ["a|b `c` [d](javascript:e)", "<script>x</script>", "_delta_"])
def test_the_text_of_an_error_is_no_markup(
    tmp_path: Path, instance: dg.DagsterInstance, name: str
) -> None:
    ref = TableRef(asset_key=dg.AssetKey("t"), uri=str(tmp_path / name.replace("/", "")))
    (found,) = evaluations(instance, ref, "log_is_readable").values()
    assert not found.passed
    kinds = {each.type for each in tokens(str(found.description)) if each.children is None}
    assert kinds <= {"paragraph_open", "paragraph_close", "text", "text_special"}

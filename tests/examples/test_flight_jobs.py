"""Messages of the flights' sensors, and the files that the demo leaves, without a JVM."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from delta_ops.maintenance import plan_maintenance
from examples.flights import assets, demo, jobs
from examples.flights.generate import generate_month
from examples.flights.settings import first_day, generated_first_day
from examples.flights.sources import InputError, list_inputs
from examples.flights.weather import HOURS, append_hours
from tests.examples.flights_location import evaluate, load_definitions
from tests.support.instances import new_instance


@pytest.fixture
def location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    generate_month(tmp_path / "in", date(2026, 1, 1), days=2, flights_per_day=5)
    return load_definitions(monkeypatch, tmp_path / "in", str(tmp_path / "lake"), "2026-01-01")


@pytest.mark.parametrize(
    ("status", "message"),
    [
        pytest.param(
            dg.DagsterRunStatus.STARTED, "run {id} of ingest_flights is under way", id="under way"
        ),
        pytest.param(
            dg.DagsterRunStatus.FAILURE,
            "run {id} of ingest_flights ended with FAILURE; re-execute it",
            id="failed",
        ),
    ],
)
def test_files_are_requested_once_and_the_outcome_is_explained(
    location: Any, status: dg.DagsterRunStatus, message: str
) -> None:
    with new_instance() as instance:
        ((request,), _, _) = evaluate(location, instance, "arrivals")
        assert request.tags["dagster/asset_partition_range_start"] == "2026-01-02"
        assert request.tags["dagster/asset_partition_range_end"] == "2026-01-03"
        run = instance.add_run(
            dg.DagsterRun(
                job_name="ingest_flights",
                status=status,
                tags={**request.tags, "dagster/run_key": str(request.run_key)},
            )
        )
        expected = message.format(id=run.run_id[:8])
        days = "2026-01-02 ... 2026-01-03"
        requested, reason, _ = evaluate(location, instance, "arrivals")
        assert (requested, reason) == ([], f"files of {days}: {expected}")


def test_late_records_waits_for_the_ingestion(location: Any) -> None:
    with new_instance() as instance:
        assert evaluate(location, instance, "late_records")[:2] == ([], "no day is late")
        run = dg.DagsterRun(job_name="ingest_flights", status=dg.DagsterRunStatus.STARTED)
        instance.add_run(run)
        reported = f"run {run.run_id[:8]} of ingest_flights is under way"
        assert evaluate(location, instance, "late_records")[:2] == ([], reported)


def test_a_file_from_before_the_first_day_is_a_sentence(location: Any, tmp_path: Path) -> None:
    old = tmp_path / "in" / "old.csv"
    old.write_text("date,delay,distance,origin,destination\n")
    os.utime(old, (0, 0))
    with pytest.raises(InputError, match=r"old\.csv was last modified on 1970-01-01.* touch it"):
        jobs.ingest_runs(list_inputs(tmp_path / "in"))


def test_partitions_begin_with_the_data(location: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert assets.days.get_first_partition_key() == "2026-01-01"
    monkeypatch.delenv("FIRST_DAY")
    assert first_day() == date(1987, 10, 1)
    monkeypatch.delenv("FLIGHTS")
    assert first_day() == generated_first_day()
    monkeypatch.setenv("FIRST_DAY", "soon")
    with pytest.raises(InputError, match="FIRST_DAY is 'soon': give a date"):
        first_day()


def test_the_demo_says_where_things_are_and_which_table_needs_care(
    location: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    append_hours(location.WEATHER.uri, HOURS)
    assert plan_maintenance(location.WEATHER.log()).operations == ("optimize", "checkpoint")
    demo.show_next_steps(location)
    shown = capsys.readouterr().out
    assert f"Input folder: {tmp_path / 'in'}\n" in shown
    assert f"Tables: {tmp_path / 'lake'}\n" in shown
    assert "left in need of: optimize, checkpoint" in shown


def test_fleet_restore_and_repair_jobs_are_there(location: Any) -> None:
    names = {job.name for job in location.defs.resolve_all_job_defs()}
    wanted = {"delta_fleet_maintenance", "delta_restore", "delta_revert", "delta_repair"}
    assert wanted < names

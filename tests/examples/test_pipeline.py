"""The pipeline on a small month, through Dagster and Spark, checked by independent readers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from examples.flights import demo
from examples.flights.accounting import account
from examples.flights.generate import generate_month
from tests.examples.flights_location import evaluate, load_definitions
from tests.support.tables import SHARED, needs_shared, rows, rows_by_deltalake, rows_by_polars

pytestmark = pytest.mark.spark

TABLES = ["flights_raw", "flights", "delay_by_origin", "flights_quarantine"]


class Pipeline:
    """The code location of the example, with its own input and lake."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, inputs: Path, lake: Path, first_day: str = ""
    ) -> None:
        loaded = load_definitions(monkeypatch, inputs, str(lake), first_day)
        self.definitions = SimpleNamespace(**vars(loaded))
        self.lake, self.inputs = lake, inputs
        lake.mkdir(parents=True, exist_ok=True)

    def run(self) -> int:
        """Run until no work is left; return the number of runs."""
        return demo.run_pipeline(self.definitions)

    def log(self, table: str) -> DeltaLog:
        return DeltaLog(self.lake / table)

    def versions(self) -> dict[str, int]:
        return {name: self.log(name).snapshot().version for name in TABLES}

    def records(self) -> list[dict[str, Any]]:
        return rows(da.to_table(self.log("flights")))


def lineage(asset: str) -> dict[str, set[str]]:
    """The input columns of each column of an asset, as Dagster shows them."""
    with dg.DagsterInstance.get() as instance:
        event = instance.get_latest_materialization_event(dg.AssetKey(asset))
    assert event is not None
    assert event.asset_materialization is not None
    shown: Any = event.asset_materialization.metadata["dagster/column_lineage"].value
    return {
        column: {f"{each.asset_key.to_user_string()}.{each.column_name}" for each in deps}
        for column, deps in shown.deps_by_column.items()
    }


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> Iterator[None]:
    """A Dagster home; the tests' own Spark session, in the pipeline's time zone."""
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    yield
    spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.fixture
def month(tmp_path: Path) -> Path:
    generate_month(tmp_path / "in", date(2026, 1, 1), days=6, flights_per_day=40)
    return tmp_path / "in"


@pytest.mark.usefixtures("home")
def test_a_small_month_is_accounted_for_and_read_alike_by_all(
    tmp_path: Path, month: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    pipeline = Pipeline(monkeypatch, month, tmp_path / "lake")
    assert pipeline.run() > 0
    result = account(month, pipeline.lake)
    assert result.balanced, result.problems
    assert min(result.total.duplicates, result.total.quarantine_rows) > 0
    for name in TABLES:
        ours = rows(da.to_table(pipeline.log(name)))
        assert ours == rows(ds.read(spark, pipeline.log(name)).toArrow())
        assert ours == rows_by_deltalake(pipeline.lake / name)
        assert ours == rows_by_polars(pipeline.lake / name)

    before = pipeline.versions()
    assert pipeline.run() == 0
    assert pipeline.versions() == before

    assert lineage("delay_by_origin") == {
        "flight_day": {"flights.flight_day"},
        "origin": {"flights.origin"},
        "mean_delay_minutes": {"flights.delay_minutes"},
        "max_delay_minutes": {"flights.delay_minutes"},
        "delayed_over_15": {"flights.delay_minutes"},
    }
    assert lineage("flights")["delay_minutes"] == {"flights_raw.delay"}
    assert lineage("flights_quarantine")["record"] == {"flights_raw.record"}


@pytest.mark.usefixtures("home")
@pytest.mark.long
def test_late_and_corrected_files_in_any_order_come_to_the_same_rows(
    tmp_path: Path, month: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = sorted(month.iterdir())
    late = tmp_path / "late"
    late.mkdir()
    for file in files[:2]:
        shutil.move(file, late / file.name)
    spoilt = files[3].read_bytes()
    times = files[3].stat()
    files[3].write_bytes(spoilt[: len(spoilt) // 2])
    os.utime(files[3], ns=(times.st_atime_ns, times.st_mtime_ns))

    pipeline = Pipeline(monkeypatch, month, tmp_path / "lake")
    pipeline.run()
    assert account(month, pipeline.lake).balanced

    for file in files[:2]:
        shutil.move(late / file.name, file)
    files[3].write_bytes(spoilt)
    os.utime(files[3], ns=(times.st_atime_ns, times.st_mtime_ns + 86_400_000_000_000))
    pipeline.run()
    result = account(month, pipeline.lake)
    assert result.balanced, result.problems

    other = Pipeline(monkeypatch, month, tmp_path / "other")
    other.run()
    assert pipeline.records() == other.records()


@pytest.mark.usefixtures("home")
@pytest.mark.long
def test_a_day_materialised_twice_holds_the_same_rows(
    tmp_path: Path, month: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = Pipeline(monkeypatch, month, tmp_path / "lake", first_day="2026-01-02")
    pipeline.run()
    result = account(month, pipeline.lake, date(2026, 1, 2))
    assert result.balanced, result.problems
    before = pipeline.records()
    job = pipeline.definitions.defs.resolve_job_def("refresh_flights")
    with dg.DagsterInstance.get() as instance:
        for _ in range(2):
            assert job.execute_in_process(partition_key="2026-01-03", instance=instance).success
    assert pipeline.records() == before
    assert pipeline.log("flights").snapshot().version > 0


class Sensors:
    """The sensors of the pipeline; their runs are executed here."""

    def __init__(self, pipeline: Pipeline, instance: dg.DagsterInstance) -> None:
        self.pipeline, self.instance = pipeline, instance
        self.cursors: dict[str, str | None] = {}

    def tick(self, name: str) -> list[str]:
        """Evaluate a sensor and run its requests: a line for each run, or the skip reason."""
        requests, reason, self.cursors[name] = evaluate(
            self.pipeline.definitions, self.instance, name, self.cursors.get(name)
        )
        return [self._run(request) for request in requests] or [str(reason)]

    def _run(self, request: dg.RunRequest) -> str:
        name = request.job_name or "ingest_flights"
        job = self.pipeline.definitions.defs.resolve_job_def(name)
        tags = {**request.tags, "dagster/run_key": str(request.run_key)}
        assert job.execute_in_process(instance=self.instance, tags=tags).success
        start, end = (request.tags[f"dagster/asset_partition_range_{e}"] for e in ("start", "end"))
        return f"{name} {start} {end}"


@pytest.mark.usefixtures("home")
@pytest.mark.long
def test_a_file_of_three_lines_is_one_small_run_and_one_for_the_days_that_it_changed(
    tmp_path: Path, month: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = Pipeline(monkeypatch, month, tmp_path / "lake")
    pipeline.run()
    with dg.DagsterInstance.get() as instance:
        sensors = Sensors(pipeline, instance)
        assert sensors.tick("late_records") == ["no day is late"]
        assert sensors.tick("arrivals") == ["flights_raw holds every file"]

        late = month / "late.csv"
        late.write_text(
            "date,delay,distance,origin,destination\n"
            "2026/01/02 10:00,1,300,ATL,BNA\n"
            "2026/01/03 10:00,1,300,ATL,BNA\n"
            "not a flight\n"
        )
        today = datetime.fromtimestamp(late.stat().st_mtime, UTC).date()
        assert sensors.tick("late_records") == ["no day is late"]
        assert sensors.tick("arrivals") == [f"ingest_flights {today} {today}"]
        assert sensors.tick("arrivals") == ["flights_raw holds every file"]
        assert sensors.tick("late_records") == ["refresh_flights 2026-01-02 2026-01-03"]
        assert sensors.tick("late_records") == ["no day is late"]
    result = account(month, pipeline.lake)
    assert result.balanced, result.problems
    assert pipeline.run() == 0


@pytest.mark.usefixtures("home")
@needs_shared
@pytest.mark.long
def test_twenty_thousand_real_flights_are_accounted_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = SHARED / "data" / "flights" / "flights-20k.json"
    pipeline = Pipeline(monkeypatch, inputs, tmp_path / "lake")
    pipeline.run()
    result = account(inputs, pipeline.lake)
    assert result.balanced, result.problems
    assert result.total.records == 20_000
    assert len(result.days) == 90
    days = {row["flight_day"] for row in rows_by_deltalake(pipeline.lake / "flights")}
    assert (min(days), max(days)) == (date(2001, 1, 1), date(2001, 3, 31))

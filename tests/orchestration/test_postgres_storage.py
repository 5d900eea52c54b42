"""The instance of docs/production.md: runs, events and ticks in Postgres, a queue, pools."""

from __future__ import annotations

import importlib
import json
import zlib
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.orchestration import maintenance_config
from tests.orchestration import postgres_location
from tests.orchestration.daemon_home import DaemonHome
from tests.orchestration.postgres_location import KILLED, LAKE, MARKER, RUN, STEP
from tests.orchestration.test_instance_settings import PRODUCTION_SETTINGS
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.s3 import ACCESS_KEY, SECRET_KEY, S3Server

ORDERS, RETURNS = dg.AssetKey("orders"), dg.AssetKey("returns")
ROWS = pa.table({"run": ["of another writer"]})


@pytest.fixture
def database(postgres_server: PostgresServer) -> str:
    return postgres_server.new_database()


@pytest.fixture
def settings(postgres_server: PostgresServer, database: str) -> str:
    """The settings of the docs, with the test's own port and database, and shorter timeouts."""
    text = str(PRODUCTION_SETTINGS)
    for documented, ours in (
        ("port: 5432", f"port: {postgres_server.port}"),
        ("db_name: dagster", f"db_name: {database}"),
        ("run_end_seconds: 300", "run_end_seconds: 1\n  poll_interval_seconds: 1"),
    ):
        assert documented in text
        text = text.replace(documented, ours)
    return text


def reported(instance: dg.DagsterInstance, key: dg.AssetKey) -> list[tuple[str, int]]:
    """The events of a table, oldest first: the kind and the version of each."""
    records = [
        record
        for fetch in (instance.fetch_materializations, instance.fetch_observations)
        for record in fetch(key, limit=100).records
    ]
    found = []
    for record in sorted(records, key=lambda record: record.storage_id):
        entry = record.event_log_entry
        event: Any = entry.asset_materialization or entry.asset_observation
        adopted = event.metadata.get("delta/already_committed")
        kind = "found" if adopted and adopted.value else type(event).__name__
        found.append((kind, int(event.metadata["delta/version"].value)))
    return found


def stored_values(server: PostgresServer, database: str) -> dict[str, list[Any]]:
    """All values in each nonempty table of Dagster."""
    names = server.query(
        database, "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
    )
    rows = {name: server.query(database, f'SELECT * FROM "{name}"') for (name,) in names}
    return {
        name: [value for row in found for value in row] for name, found in rows.items() if found
    }


def spans(instance: dg.DagsterInstance, run_id: str) -> dict[str, tuple[float, float]]:
    """When each step of a run began and ended."""
    ends = {dg.DagsterEventType.STEP_SUCCESS, dg.DagsterEventType.STEP_FAILURE}
    found: dict[str, list[float]] = {}
    for kinds, place in (({dg.DagsterEventType.STEP_START}, 0), (ends, 1)):
        for entry in instance.all_logs(run_id, of_type=kinds):
            found.setdefault(str(entry.step_key), [0.0, 0.0])[place] = entry.timestamp
    return {step: (start, end) for step, (start, end) in found.items()}


def overlap(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


@pytest.mark.parametrize(
    "executor", ["in_process", pytest.param("multiprocess", marks=pytest.mark.full)]
)
def test_reruns_sensor_and_maintenance_go_by_what_postgres_keeps(
    tmp_path: Path,
    executor: str,
    settings: str,
    database: str,
    postgres_server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake, home = tmp_path / "lake", tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text(settings)
    variables = {LAKE: str(lake), MARKER: str(tmp_path / "killed"), KILLED: STEP}
    for name, value in {**postgres_server.environment, **variables}.items():
        monkeypatch.setenv(name, value)
    location = importlib.reload(postgres_location)
    job = dg.build_reconstructable_job(postgres_location.__name__, "write_all")
    with dg.DagsterInstance.from_config(str(home)) as instance:
        first: dict[str, Any] = {"execution": {"config": {executor: {}}}}
        with dg.execute_job(job, instance=instance, run_config=first) as killed:
            assert not killed.success
        steps = spans(instance, killed.run_id)
        assert not overlap(steps["orders"], steps["returns"])  # they are of one pool
        assert reported(instance, ORDERS) == []
        assert reported(instance, RETURNS) == [("AssetMaterialization", 0)]
        again = dg.ReexecutionOptions.from_failure(killed.run_id, instance)
        here: dict[str, Any] = {"execution": {"config": {"in_process": {}}}}
        with dg.execute_job(
            job, instance=instance, reexecution_options=again, run_config=here
        ) as rerun:
            assert rerun.success
        assert reported(instance, ORDERS) == [("found", 0)]
        assert da.to_table(lake / "orders").to_pydict() == {"run": [killed.run_id]}

        sensor = location.defs.resolve_sensor_def("delta_commit_sensor")
        da.write(lake / "orders", ROWS)
        events = sensor.evaluate_tick(dg.build_sensor_context(instance)).asset_events
        for event in events:
            instance.report_runless_asset_event(event)
        assert reported(instance, ORDERS)[1:] == [("AssetMaterialization", 1)]
        # Its cursor was lost, and the events hold the same information.
        assert not sensor.evaluate_tick(dg.build_sensor_context(instance)).asset_events

        maintenance = location.defs.resolve_job_def("delta_maintenance")
        config = maintenance_config(["orders"], operations=["optimize"])
        assert maintenance.execute_in_process(instance=instance, run_config=config).success
        assert reported(instance, ORDERS)[2:] == [("AssetObservation", 2)]
        assert not sensor.evaluate_tick(dg.build_sensor_context(instance)).asset_events
    assert DeltaLog(lake / "orders").snapshot().num_files == 1
    kept = stored_values(postgres_server, database)
    assert kept.keys() >= {"runs", "run_tags", "event_logs", "asset_keys", "concurrency_slots"}
    assert not list(home.rglob("*.db"))


@pytest.mark.long
def test_the_daemon_queues_retries_and_reports_as_the_docs_configure_it(
    tmp_path: Path,
    settings: str,
    database: str,
    postgres_server: PostgresServer,
    s3_server: S3Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = f"s3://{s3_server.new_bucket()}/lake"
    variables = {
        **postgres_server.environment,
        LAKE: lake,
        MARKER: str(tmp_path / "killed"),
        KILLED: RUN,
        "TEST_S3_KEY": ACCESS_KEY,
        "TEST_S3_SECRET": SECRET_KEY,
        "TEST_S3_URL": s3_server.url,
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    definitions = Path(postgres_location.__file__).read_text()
    home = DaemonHome(tmp_path / "home", definitions, settings, {})

    def launch(job: str, **tags: str) -> None:
        config = {} if job == "write_all" else maintenance_config(["orders"], operations=["vacuum"])
        options = ["--tags", json.dumps(tags), "--config-json", json.dumps(config)]
        home.run("job", "launch", "-j", job, *options)

    launch("write_all")
    for _ in range(2):
        launch("delta_maintenance", **{"delta_ops/table": "orders"})
    with dg.DagsterInstance.from_config(str(home.root)) as instance:

        def runs(job: str) -> list[dg.RunRecord]:
            return list(instance.get_run_records(dg.RunsFilter(job_name=job), ascending=True))

        def have_ended(job: str, number: int) -> bool:
            found = [record.dagster_run.is_finished for record in runs(job)]
            return len(found) == number and all(found)

        assert [record.dagster_run.status.value for record in runs("write_all")] == ["QUEUED"]
        with home.daemon():
            # The process of the first run is killed with the step, and the daemon tries again.
            home.wait_until(lambda: have_ended("write_all", 2))
            home.wait_until(lambda: have_ended("delta_maintenance", 2))
            home.run("sensor", "start", "delta_commit_sensor")
            storage_options = s3_server.storage_options
            before = reported(instance, ORDERS)
            da.write(DeltaLog(f"{lake}/orders", storage_options=storage_options), ROWS)
            home.wait_until(lambda: len(reported(instance, ORDERS)) > len(before))
        killed, retry = runs("write_all")
        assert (killed.dagster_run.is_failure, retry.dagster_run.is_success) == (True, True)
        assert retry.dagster_run.tags["dagster/retry_number"] == "1"
        assert [
            event for event in reported(instance, ORDERS) if event[0] != "AssetObservation"
        ] == [
            ("found", 0),
            ("AssetMaterialization", 1),
        ]
        steps = spans(instance, retry.dagster_run.run_id)
        assert not overlap(steps["orders"], steps["returns"])
        one, other = (
            (float(record.start_time or 0), float(record.end_time or 0))
            for record in runs("delta_maintenance")
        )
        assert not overlap(one, other)  # they have the tag of one table
    kept = stored_values(postgres_server, database)
    assert kept.keys() >= {"runs", "event_logs", "job_ticks", "instigators", "snapshots"}
    texts = [plain_text(value) for values in kept.values() for value in values]
    assert any(lake in text for text in texts)
    for secret in (ACCESS_KEY, SECRET_KEY, postgres_server.password):
        assert not any(secret in text for text in texts)


def plain_text(value: object) -> str:
    if not isinstance(value, (bytes, memoryview)):
        return str(value)
    return zlib.decompress(value).decode()

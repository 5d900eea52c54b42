"""Scripts in their own processes write a run's tables once, and report their commits."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import TableRef, build_commit_sensor, pipes_extras
from delta_ops.orchestration.metadata import data_version
from delta_ops.pipes import write_asset
from tests.orchestration import pipes_location
from tests.orchestration.pipes_location import LAKE, both, daily, resources, write_by_script
from tests.support.tables import rows_by_deltalake

# By Dagster's own Pipes.
pytestmark = [
    pytest.mark.filterwarnings("ignore:AssetExecutionContext.run_id is deprecated"),
    pytest.mark.filterwarnings("ignore:Function `PipesMessageReader.expected_writer_count`"),
]
KEYS = ("2026-01-01", "2026-01-02")
HERE = str(Path(__file__).resolve().parents[2])


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", HERE)
    monkeypatch.setenv(LAKE, str(tmp_path / "lake"))
    (tmp_path / "lake").mkdir()
    return tmp_path / "lake"


def materialized(instance: dg.DagsterInstance, key: str) -> dg.AssetMaterialization:
    event = instance.get_latest_materialization_event(dg.AssetKey(key))
    assert event is not None
    assert event.asset_materialization is not None
    return event.asset_materialization


def computed(lake: Path) -> list[str]:
    return (lake / "computed").read_text().split()


@pytest.mark.full
def test_a_script_that_is_killed_after_its_commit_is_adopted_by_the_rerun(
    lake: Path, instance: dg.DagsterInstance
) -> None:
    here: dict[str, Any] = {"execution": {"config": {"in_process": {}}}}
    table = DeltaLog(lake / "appended")
    da.write(table, pa.table({"key": ["before"], "run": ["none"]}))
    _, cursor = look_for_commits(instance, table, None)
    (lake / "marker").touch()
    job = dg.reconstructable(write_by_script)
    with dg.execute_job(job, instance=instance, run_config=here) as killed:
        assert not killed.success
    assert instance.get_latest_materialization_event(dg.AssetKey("appended")) is None
    assert table.snapshot().version == 1
    da.write(table, pa.table({"key": ["meanwhile"], "run": ["none"]}))
    again = dg.ReexecutionOptions.from_failure(killed.run_id, instance)
    with dg.execute_job(
        job, instance=instance, reexecution_options=again, run_config=here
    ) as rerun:
        assert rerun.success
    assert computed(lake) == ["all"], "nothing is computed again"
    rows = rows_by_deltalake(lake / "appended")
    assert sorted(row["key"] for row in rows) == ["all", "before", "meanwhile"]
    shown = materialized(instance, "appended")
    assert shown.metadata["delta/version"].value == 1
    assert shown.metadata["delta/adopted"].value is True
    assert shown.metadata["where"].value == "far away"
    assert shown.metadata["dagster/uri"].value == table.uri
    assert (shown.tags or {})["dagster/data_version"] == data_version(table.snapshot(1))
    # Reads use the version that the script reported.
    assert len(rows_by_deltalake(lake / "public/follower")) == 2
    # The killed run's commit has an event; the other writer's commit has none yet.
    assert look_for_commits(instance, table, cursor)[0] == [2]


def look_for_commits(
    instance: dg.DagsterInstance, table: DeltaLog, cursor: str | None
) -> tuple[list[object], str | None]:
    """The versions that a tick of the commit sensor reports, and its cursor."""
    ref = TableRef(asset_key=dg.AssetKey("appended"), uri=table.uri)
    context = dg.build_sensor_context(instance=instance, cursor=cursor)
    tick = build_commit_sensor([ref]).evaluate_tick(context)
    return [each.metadata["delta/version"].value for each in tick.asset_events], tick.cursor


def test_each_partition_and_each_asset_of_a_step_has_its_own_write(
    lake: Path, instance: dg.DagsterInstance
) -> None:
    data: dict[str, Any] = {"resources": resources(str(lake)), "instance": instance}
    da.write(lake / "daily", pa.table({"key": list(KEYS), "run": ["before", "before"]}))
    ran = dg.materialize([daily], partition_key=KEYS[0], **data)
    assert ran.success
    found = {row["key"]: row["run"] for row in rows_by_deltalake(lake / "daily")}
    assert found == {KEYS[0]: ran.run_id, KEYS[1]: "before"}
    assert materialized(instance, "daily").partition == KEYS[0]
    for name in ("left", "right"):
        da.write(lake / name, pa.table({"key": ["all"], "run": ["before"]}))
    assert dg.materialize([both], **data).success
    assert len(rows_by_deltalake(lake / "left")) == 1
    assert len(rows_by_deltalake(lake / "right")) == 2
    (commit,) = DeltaLog(lake / "left").commits(1, 1)
    assert commit.info is not None
    recorded = json.loads(commit.info.values["userMetadata"])
    event = instance.get_latest_materialization_event(dg.AssetKey("left"))
    assert event is not None
    assert (recorded["dagster/asset"], recorded["dagster/run_id"]) == ("left", event.run_id)


class Reported(SimpleNamespace):
    """Stands for a session, without a process: the messages it sends and receives."""

    def report_asset_materialization(self, **reported: Any) -> None:
        self.reported = reported


def session_of(
    instance: dg.DagsterInstance, metadata: dict[str, Any], *tables: TableRef, **partitions: Any
) -> Reported:
    """The session of a step that materialises the asset `t`."""
    sent: list[dict[str, Any]] = []

    @dg.asset(metadata=metadata, partitions_def=partitions.get("partitions_def"))
    def t(context: dg.AssetExecutionContext) -> None:
        sent.append(pipes_extras(context, *tables))

    dg.materialize([t], instance=instance, partition_key=partitions.get("partition_key"))
    return Reported(extras=json.loads(json.dumps(sent[0])))


def table_at(uri: object, **more: Any) -> TableRef:
    return TableRef(asset_key=dg.AssetKey("t"), uri=str(uri), **more)


def test_a_secret_stays_the_name_of_a_variable_until_the_script_needs_it(
    tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"key": "K", "secret": dg.EnvVar("FAR_SECRET"), "use_ssl": False}
    ref = table_at("s3://b/t", storage_options=options | {"key": dg.EnvVar("FAR_KEY")})
    monkeypatch.setenv("FAR_KEY", "in the environment")
    pipes = session_of(instance, {}, ref)
    assert "in the environment" not in json.dumps(pipes.extras)
    with pytest.raises(InvalidRequestError, match=r"secret .*FAR_SECRET, which is not set"):
        write_asset(pipes, pa.table({"x": [1]}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("metadata", "more", "message"),
    [
        ({"delta/mod": "append"}, {}, "the closest key is 'delta/mode'"),
        ({"delta/idempotency": "source"}, {}, "choose run or partition"),
        ({"delta/mode": "merge", "delta/merge_keys": "x"}, {}, "appends or overwrites"),
        ({}, {"storage_options": {"secret": "very secret"}}, "a literal secret"),
        ({}, {"lock": lambda _uri: None}, "needs a lock"),
        ({}, {"uri": "http://me:very secret@host/t"}, "contains a password"),
        ({}, {"asset_key": dg.AssetKey("other")}, "which materializes t"),
    ],
)
def test_values_that_cannot_be_sent_are_refused(
    tmp_path: Path,
    instance: dg.DagsterInstance,
    metadata: dict[str, Any],
    more: dict[str, Any],
    message: str,
) -> None:
    data = {"asset_key": dg.AssetKey("t"), "uri": str(tmp_path), **more}
    with pytest.raises(InvalidRequestError, match=message) as refused:
        session_of(instance, metadata, TableRef(**data))
    assert "very secret" not in str(refused.value)


def test_an_overwrite_of_a_partition_says_which_rows_it_replaces(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    pipes = session_of(
        instance,
        {},
        table_at(tmp_path / "t"),
        partitions_def=pipes_location.DAYS,
        partition_key="2026-01-01",
    )
    with pytest.raises(InvalidRequestError, match="give replace_where"):
        write_asset(pipes, pa.table({"x": [1]}))  # type: ignore[arg-type]
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("extras", "message"),
    [
        (object(), "Dagster did not start this script"),
        ({}, "writes no asset"),
        ({"delta_ops": {"a": {}, "b": {}}}, "writes a, b and not an unnamed asset"),
    ],
)
def test_a_script_without_a_write_gets_an_error(extras: object, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        write_asset(Reported(extras=extras), pa.table({"x": [1]}))  # type: ignore[arg-type]


def test_a_rerun_does_not_take_readers_back_to_an_older_version(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    pipes = session_of(instance, {"delta/mode": "append"}, table_at(tmp_path / "t"))
    write_asset(pipes, pa.table({"x": [1]}))  # type: ignore[arg-type]
    first = pipes.reported["data_version"]
    assert first == data_version(DeltaLog(tmp_path / "t").snapshot(0))
    newer = f"{first.partition('@')[0]}@7"
    pipes.extras["delta_ops"]["t"]["data_versions"] = [newer, "othertab@9", first]
    result = write_asset(pipes, lambda: pytest.fail("computed again"))  # type: ignore[arg-type]
    assert (result.already_committed, result.version) == (True, 0)
    assert pipes.reported["data_version"] == newer
    assert pipes.reported["metadata"]["delta/version"] == 0


@pytest.mark.parametrize(("kind", "newer"), [("partition", 0), ("table", 2)])
def test_a_data_version_may_be_of_the_partition_alone(
    tmp_path: Path, instance: dg.DagsterInstance, kind: str, newer: int
) -> None:
    day, rows = col("day") == "2026-01-01", pa.table({"day": pa.array([], pa.string())})
    reported_values: list[str] = []
    for _ in range(2):
        pipes = session_of(
            instance,
            {"delta/data_version": kind},
            table_at(tmp_path / "t"),
            partitions_def=pipes_location.DAYS,
            partition_key="2026-01-01",
        )
        pipes.extras["delta_ops"]["t"]["data_versions"] = list(reported_values)
        write_asset(pipes, rows, replace_where=day)  # type: ignore[arg-type]
        reported_values.append(pipes.reported["data_version"])
        da.write(tmp_path / "t", pa.table({"day": ["2026-01-02"]}))
    assert [int(each.partition("@")[2]) for each in reported_values] == [0, newer]


def test_the_page_about_pipes_runs_as_printed(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance
) -> None:
    page = (Path(HERE) / "docs" / "pipes.md").read_text()
    definitions, script = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("clicks.py").write_text(script)
    scope: dict[str, Any] = {"__name__": "definitions"}
    exec(compile(definitions, "docs/pipes.md", "exec"), scope)
    job = scope["defs"].resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(instance=instance, partition_key="2026-01-02").success
    found = sorted(row["page"] for row in rows_by_deltalake(lake / "clicks"))
    assert found == ["help", "home"]

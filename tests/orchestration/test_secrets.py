"""Secrets of stores: taken from the environment at any depth, and shown nowhere."""

from __future__ import annotations

import importlib
import sqlite3
import subprocess
import sys
import traceback
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import (
    DeltaIOManager,
    DeltaLogResource,
    TableRef,
    build_fleet_maintenance_job,
    fleet_config,
)
from tests.support.servers.s3 import ACCESS_KEY, SECRET_KEY, S3Server

TOKEN = "token-of-the-test"
SECRETS = (ACCESS_KEY, SECRET_KEY, TOKEN)
LITERAL = "hunter2-hunter2"
QUERY = """{ repositoriesOrError { ... on RepositoryConnection { nodes {
    allTopLevelResourceDetails {
        name description resourceType
        configFields { name description defaultValueAsJson }
        configuredValues { key value type }
        nestedResources { name type }
    }
    assetNodes { assetKey { path } metadataEntries { label ... on TextMetadataEntry { text } } }
} } }
runsOrError { ... on Runs { results {
    runConfigYaml
    eventConnection { events { __typename ... on MessageEvent { message }
        ... on ExecutionStepFailureEvent { error { message stack causes { message stack } } } } }
} } } }"""


@pytest.fixture
def location(monkeypatch: pytest.MonkeyPatch, s3_server: S3Server) -> Iterator[Any]:
    """The module of the code location, imported with its variables set."""
    variables = {
        "TEST_LAKE": f"s3://{s3_server.new_bucket()}/lake",
        "TEST_S3_KEY": ACCESS_KEY,
        "TEST_S3_SECRET": SECRET_KEY,
        "TEST_S3_TOKEN": TOKEN,
        "TEST_S3_URL": s3_server.url,
        "TEST_S3_POOL": "7",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    name = "tests.orchestration.secret_keeping"
    yield importlib.import_module(name)
    del sys.modules[name]


def stored_texts(folder: Path) -> Iterator[bytes]:
    """Everything that an instance stores on disk, with compressed data unpacked."""
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        yield path.read_bytes()
        if path.suffix == ".db":
            with sqlite3.connect(path) as connection:
                names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
                for (name,) in names.fetchall():
                    for row in connection.execute(f'SELECT * FROM "{name}"'):
                        yield from map(plain_bytes, row)
            connection.close()


def plain_bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        return str(value).encode()
    try:
        return zlib.decompress(value)
    except zlib.error:
        return value


# Dagster warns about its own parameter.
@pytest.mark.filterwarnings("ignore:Parameter `owners`")
def test_secrets_stay_out_of_all_that_dagster_keeps_and_shows(
    location: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    with dg.DagsterInstance.get() as instance:
        everything = dg.build_reconstructable_job(location.__name__, "everything")
        ran = dg.execute_job(everything, instance=instance)
        outcomes = {event.step_key: event.event_type_value for event in ran.all_events}
        checks = ("log_is_readable", "maintenance_is_not_overdue", "health")
        succeeded = {step for step, last in outcomes.items() if last == "STEP_SUCCESS"}
        assert succeeded >= {"follower", *(f"numbers_{check}" for check in checks)}
        assert outcomes["lost"] == "STEP_FAILURE"
        in_a_process = dg.build_reconstructable_job(location.__name__, "lost_in_a_process")
        assert not dg.execute_job(in_a_process, instance=instance).success
        upkeep = location.defs.resolve_job_def("delta_maintenance")
        assert upkeep.execute_in_process(instance=instance).success
        ticks = [
            sensor(dg.build_sensor_context(instance=instance, cursor=None))
            for sensor in (location.commits, location.upkeep)
        ]
    answer = tmp_path / "answer.json"
    program = "from dagster_graphql.cli import main; main()"
    command = [sys.executable, "-c", program, "-m", location.__name__]
    output = subprocess.run(
        [*command, "-t", QUERY, "-o", str(answer)], capture_output=True, text=True, check=False
    )
    assert output.returncode == 0, output.stderr
    shown = {
        "answers": answer.read_text(),
        "printed": output.stdout + output.stderr,
        "ticks": repr(ticks),
        "home": b"\n".join(stored_texts(home)).decode(errors="replace"),
    }
    # These texts cover the places where secrets could appear.
    assert "TEST_S3_SECRET" in shown["answers"]
    assert "there-is-no-such-bucket" in shown["answers"]
    assert "TEST_S3_TOKEN" in shown["home"]
    assert "this process 2 rows" in shown["home"]
    for secret in SECRETS:
        assert [where for where, text in shown.items() if secret in text] == []


def test_environment_variables_are_read_when_a_table_is_opened(
    monkeypatch: pytest.MonkeyPatch, s3_server: S3Server
) -> None:
    root = f"s3://{s3_server.new_bucket()}/lake"
    options = {
        "secret": dg.EnvVar("TEST_S3_SECRET"),
        "client_kwargs": {"endpoint_url": dg.EnvVar("TEST_S3_URL")},
    }
    resource = DeltaLogResource(root=root, storage_options={"key": "", **options})
    table = TableRef(
        asset_key=dg.AssetKey("t"),
        uri=f"{root}/t",
        storage_options={"key": ACCESS_KEY, **options},
    )
    monkeypatch.delenv("TEST_S3_SECRET", raising=False)
    for log in (table.log, lambda: resource.log("t")):
        with pytest.raises(InvalidRequestError) as refused:
            log()
        assert str(refused.value) == (
            "secret comes from the environment variable TEST_S3_SECRET, which is not set in this "
            "process; set it where Dagster's code servers and runs start"
        )
    monkeypatch.setenv("TEST_S3_SECRET", SECRET_KEY)
    monkeypatch.setenv("TEST_S3_URL", s3_server.url)
    da.write(table.log(), pa.table({"id": [1]}))
    assert da.count_rows(table.log()) == 1
    config = fleet_config([root])
    fleet = build_fleet_maintenance_job(storage_options={"key": ACCESS_KEY, **options})
    assert fleet.execute_in_process(run_config=config).success


@pytest.mark.parametrize(
    ("options", "name"),
    [
        pytest.param({"secret": LITERAL}, "secret", id="of S3"),
        pytest.param({"AWS_SECRET_ACCESS_KEY": LITERAL}, "AWS_SECRET_ACCESS_KEY", id="by capitals"),
        pytest.param({"accountKey": LITERAL}, "accountKey", id="by another spelling"),
        pytest.param({"sas_token": LITERAL}, "sas_token", id="of Azure"),
        pytest.param({"connection_string": LITERAL}, "connection_string", id="a connection"),
        pytest.param({"password": 12345678901}, "password", id="a number"),
        pytest.param({"client_kwargs": {"token": LITERAL}}, "client_kwargs.token", id="nested"),
        pytest.param(
            {"token": {"client_email": LITERAL}}, "token.client_email", id="below a secret"
        ),
        pytest.param({"auth": ["user", LITERAL]}, "auth", id="in a list"),
        pytest.param({"a": f"https://u:{LITERAL}@host"}, "a", id="in an address"),
        pytest.param({"a": f"AccountName=a;AccountKey={LITERAL}"}, "a", id="in a text"),
    ],
)
def test_a_secret_that_is_written_out_is_refused(options: dict[str, Any], name: str) -> None:
    makers: list[Any] = [DeltaLogResource, DeltaIOManager]
    for attempt in (*makers, *(make.configure_at_launch for make in makers)):
        with pytest.raises(InvalidRequestError) as refused:
            attempt(root="s3://bucket", storage_options=options)
        assert str(refused.value) == (
            f"the storage option {name} is a literal secret, which Dagster's UI would show; give "
            'dg.EnvVar("NAME"), the name of an environment variable with the secret'
        )
        output = "".join(traceback.format_exception(refused.value))
        assert LITERAL not in output
        assert "12345678901" not in output


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"root": f"s3://u:{LITERAL}@bucket"}, "root contains a password or a signature"),
        ({"root": "b", "storage_options": LITERAL}, "storage_options are of type str; give a map"),
        (
            {"root": "b", "storage_options": {1: LITERAL}},
            "have a name of type int; give strings as names",
        ),
        ({"root": "b", "storage_options": {"a": {2}}}, "a is of type set, which Dagster's config"),
    ],
)
def test_settings_that_config_cannot_hold_are_refused(
    argument: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        DeltaLogResource(**argument)
    assert message in str(refused.value)
    assert LITERAL not in str(refused.value)


def test_a_secret_in_the_config_of_a_run_is_refused_and_not_repeated(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    @dg.asset
    def numbers() -> pa.Table:
        return pa.table({"id": [1]})

    config = {"root": str(tmp_path), "storage_options": {"secret": LITERAL}}
    ran = dg.materialize(
        [numbers],
        instance=instance,
        resources={"io_manager": DeltaIOManager.configure_at_launch()},
        run_config={"resources": {"io_manager": {"config": config}}},
        raise_on_error=False,
    )
    assert not ran.success
    messages = "".join(map(repr, instance.all_logs(ran.run_id)))
    assert "the storage option secret is a literal secret" in messages
    assert LITERAL not in messages


def test_the_config_of_a_run_names_variables(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, s3_server: S3Server
) -> None:
    monkeypatch.setenv("TEST_S3_SECRET", SECRET_KEY)
    monkeypatch.setenv("TEST_S3_KEY", ACCESS_KEY)
    root = f"s3://{s3_server.new_bucket()}"

    @dg.asset
    def numbers() -> pa.Table:
        return pa.table({"id": [1]})

    options = {
        "key": {"env": "TEST_S3_KEY"},
        "secret": {"env": "TEST_S3_SECRET"},
        "endpoint_url": s3_server.url,
    }
    config = {"root": root, "storage_options": options}
    ran = dg.materialize(
        [numbers],
        instance=instance,
        resources={"io_manager": DeltaIOManager.configure_at_launch()},
        run_config={"resources": {"io_manager": {"config": config}}},
    )
    assert ran.success
    assert DeltaLog(f"{root}/numbers", s3_server.storage_options).snapshot().version == 0


def test_the_root_of_an_io_manager_may_be_a_variable(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    @dg.asset
    def numbers() -> pa.Table:
        return pa.table({"id": [1]})

    manager = DeltaIOManager(root=dg.EnvVar("TEST_LAKE"))
    monkeypatch.setenv("TEST_LAKE", str(tmp_path))
    assert dg.materialize([numbers], instance=instance, resources={"io_manager": manager}).success
    assert DeltaLog(tmp_path / "numbers").exists()
    assert manager.log(numbers.key).exists()


def test_a_shared_resource_may_be_configured_at_launch(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    seen: list[int] = []

    @dg.asset
    def numbers() -> pa.Table:
        return pa.table({"id": [1]})

    @dg.asset(deps=[numbers])
    def follower(lake: DeltaLogResource) -> None:
        seen.append(lake.snapshot("numbers").version)

    lake = DeltaLogResource.configure_at_launch()
    ran = dg.materialize(
        [numbers, follower],
        instance=instance,
        resources={"io_manager": DeltaIOManager(lake=lake), "lake": lake},
        run_config={"resources": {"lake": {"config": {"root": str(tmp_path)}}}},
    )
    assert ran.success
    assert seen == [0]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"anon": True}, id="a flag"),
        pytest.param({"token": "anon"}, id="a word in the place of a token"),
        pytest.param({"token": "/etc/keys/robot.json"}, id="a file with a key"),
        pytest.param({"config_kwargs": {"signature_version": "s3v4"}}, id="a version"),
        pytest.param({"s3_additional_kwargs": {"SSEKMSKeyId": "arn:aws:kms:a"}}, id="a key's name"),
        pytest.param({"aws_skip_signature": "true"}, id="a flag as text"),
        pytest.param({"client_kwargs": {"verify": None, "hosts": ["a", "b"]}}, id="nested values"),
        pytest.param({"endpoint_url": "http://host:9000/a@b"}, id="an address with a port"),
    ],
)
def test_options_that_are_no_secret_are_kept_unchanged(options: dict[str, Any]) -> None:
    resource = DeltaLogResource(root="abfss://container@account/lake", storage_options=options)
    assert resource.storage_options == options


def test_a_whole_number_comes_from_the_environment_as_one(
    monkeypatch: pytest.MonkeyPatch, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    seen: list[Any] = []

    @dg.asset
    def requests_secret(lake: DeltaLogResource) -> None:
        lake.log("t")
        seen.append(lake.storage_options)

    options = {"a": [{"b": dg.EnvVar.int("TEST_NUMBER")}]}
    lake = DeltaLogResource(root=str(tmp_path), storage_options=options)
    monkeypatch.setenv("TEST_NUMBER", "many")
    with pytest.raises(InvalidRequestError) as refused:
        dg.materialize([requests_secret], instance=instance, resources={"lake": lake})
    assert "a.b is a whole number from the environment variable TEST_NUMBER" in str(refused.value)
    assert "many" not in str(refused.value)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({}, "has no location for its tables; give root, or lake"),
        ({"lake": True, "root": "a"}, "has lake and root; set root only in the DeltaLogResource"),
        (
            {"lake": True, "storage_options": {"anon": True}},
            "has lake and storage_options; set storage_options",
        ),
    ],
)
def test_an_io_manager_has_one_place(argument: dict[str, Any], message: str) -> None:
    if "lake" in argument:
        argument = {**argument, "lake": DeltaLogResource(root="lake")}
    with pytest.raises(InvalidRequestError) as refused:
        DeltaIOManager(**argument)
    assert message in str(refused.value)

"""Credentials in the address of a store's service: how they are sent, and where they appear."""

from __future__ import annotations

import logging
import pickle
import traceback
from base64 import b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from click.testing import CliRunner

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.cli.main import cli
from delta_ops.errors import InvalidRequestError, StorageError
from delta_ops.storage import open_storage
from delta_ops.storage.backends import backend_of
from delta_ops.storage.backends.endpoints import split_user_info
from tests.support.servers.azure import AzureServer
from tests.support.servers.gcs import GcsServer
from tests.support.servers.s3 import S3Server

USER, PASSWORD = "a-user", "pass word@1"
USER_INFO = "a-user:pass%20word%401"
BASIC = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
FORMS = (PASSWORD, "pass%20word", BASIC)
"""All forms that the password can take."""
SIGNED = {"key": "some-access-key", "secret": "some-secret-key"}


class Everything(logging.Handler):
    """Keeps all records of all loggers."""

    def __init__(self) -> None:
        super().__init__(level=1)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(f"{record.name}: {self.format(record)} {record.args!r}")

    def of(self, name: str) -> list[str]:
        return [text for text in self.texts if text.startswith(f"{name}: ")]


@pytest.fixture
def logged() -> Iterator[Everything]:
    handler, root = Everything(), logging.getLogger()
    level = root.level
    root.setLevel(1)
    root.addHandler(handler)
    yield handler
    root.removeHandler(handler)
    root.setLevel(level)


def with_password(address: str) -> str:
    return address.replace("http://", f"http://{USER_INFO}@")


def settings_with(*texts: str) -> list[str]:
    """The texts that contain the password in any form."""
    return [text for text in texts if any(form in text for form in FORMS)]


def write_and_read(uri: str, options: Mapping[str, Any]) -> list[str]:
    """Write and read a table by separate handles; return every text that may show the options."""
    written = DeltaLog(uri, options)
    assert da.write(written, pa.table({"a": [1]})).version == 0
    read = DeltaLog(uri, options)
    assert da.to_table(read).to_pylist() == [{"a": 1}]
    commit = read.storage.read(f"_delta_log/{0:020}.json").decode()
    handles = (written, read, read.storage, read.snapshot())
    return [commit, *map(repr, handles), *(repr(vars(each)) for each in handles[:3])]


SETTINGS = """
[default]
endpoint_url = {default}
[profile mine]
services = ours
[services ours]
s3 =
  endpoint_url = {of_service}
"""


def as_option(address: str, *_: Any) -> dict[str, Any]:
    return {"endpoint_url": address}


def of_client(address: str, *_: Any) -> dict[str, Any]:
    return {"client_kwargs": {"endpoint_url": address}}


def as_both(address: str, *_: Any) -> dict[str, Any]:
    return {"endpoint_url": address, "client_kwargs": {"endpoint_url": address}}


def by_environment(address: str, patch: pytest.MonkeyPatch, _: Path) -> dict[str, Any]:
    patch.setenv("AWS_ENDPOINT_URL", address)
    return {}


def by_environment_of_s3(address: str, patch: pytest.MonkeyPatch, _: Path) -> dict[str, Any]:
    patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    patch.setenv("AWS_ENDPOINT_URL_S3", address)
    return {}


def by_file(address: str, patch: pytest.MonkeyPatch, folder: Path) -> dict[str, Any]:
    settings = SETTINGS.format(default=address, of_service="http://127.0.0.1:9")
    (folder / "config").write_text(settings)
    patch.setenv("AWS_CONFIG_FILE", str(folder / "config"))
    return {}


def by_service_of_profile(address: str, patch: pytest.MonkeyPatch, folder: Path) -> dict[str, Any]:
    settings = SETTINGS.format(default="http://127.0.0.1:9", of_service=address)
    (folder / "config").write_text(settings)
    patch.setenv("AWS_CONFIG_FILE", str(folder / "config"))
    return {"profile": "mine"}


def by_credentials_file(address: str, patch: pytest.MonkeyPatch, folder: Path) -> dict[str, Any]:
    (folder / "credentials").write_text(f"[default]\nendpoint_url = {address}\n")
    patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "credentials"))
    return {}


def by_fsspec(address: str, patch: pytest.MonkeyPatch, _: Path) -> dict[str, Any]:
    patch.setitem(fsspec.config.conf, "s3", {"endpoint_url": address})
    return {}


WAYS_TO_CONFIGURE = (
    as_option,
    of_client,
    as_both,
    by_environment,
    by_environment_of_s3,
    by_file,
    by_service_of_profile,
    by_credentials_file,
    by_fsspec,
)


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("say", "is_signed"),
    [
        *(
            pytest.param(
                say,
                True,
                id=f"{say.__name__}, signed",
                marks=() if say in (as_option, by_file) else pytest.mark.full,
            )
            for say in WAYS_TO_CONFIGURE
        ),
        pytest.param(as_option, False, id="as_option, not signed"),
        pytest.param(by_file, False, id="by_file, not signed"),
        *(
            pytest.param(say, False, id=f"{say.__name__}, not signed", marks=pytest.mark.full)
            for say in WAYS_TO_CONFIGURE
            if say not in (as_option, by_file)
        ),
    ],
)
def test_a_password_in_the_endpoint_of_s3_is_shown_nowhere(
    s3_server: S3Server,
    logged: Everything,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    say: Any,
    is_signed: bool,
) -> None:
    uri = f"s3://{s3_server.new_bucket()}/t"
    reported = say(with_password(s3_server.url), monkeypatch, tmp_path)
    options = {**reported, **(SIGNED if is_signed else {"anon": True})}
    with s3_server.recording() as requests:
        shown = write_and_read(uri, options)
    assert logged.of("botocore.endpoint")
    assert settings_with(*logged.texts, *shown) == []
    sent = {request.authorization.partition(" ")[0] for request in requests}
    assert sent == {"AWS4-HMAC-SHA256" if is_signed else "Basic"}
    if not is_signed:
        assert {request.authorization for request in requests} == {f"Basic {BASIC}"}


def test_that_a_password_is_left_out_is_said_once_of_an_endpoint(
    s3_server: S3Server, logged: Everything
) -> None:
    options = {**SIGNED, "endpoint_url": with_password(s3_server.url) + "/"}
    for _ in range(2):
        open_storage("s3://bucket/t", options)
    (warning,) = logged.of("delta_ops.storage.backends.endpoints")
    assert f"S3 endpoint {s3_server.url}/ are not used" in warning


def test_an_endpoint_that_settings_say_is_ignored_is_ignored(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", with_password(s3_server.url))
    assert "endpoint_url" in backend_of("s3").drop_credentials(SIGNED)
    monkeypatch.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
    assert backend_of("s3").drop_credentials(SIGNED) == SIGNED


def test_a_storage_with_a_password_in_its_endpoint_pickles(s3_server: S3Server) -> None:
    options = {"anon": True, "endpoint_url": with_password(s3_server.url)}
    storage = open_storage(f"s3://{s3_server.new_bucket()}/t", options)
    storage.create("a", b"1")
    copy = pickle.loads(pickle.dumps(storage))
    with s3_server.recording() as requests:
        assert copy.read("a") == b"1"
    assert [request.authorization for request in requests] == [f"Basic {BASIC}"]


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"endpoint_url": f"http://{USER_INFO}@127.0.0.1:9"}, id="a server"),
        pytest.param({"endpoint_url": f"{USER_INFO}@127.0.0.1:9"}, id="no scheme"),
        pytest.param(
            {
                "endpoint_url": "http://127.0.0.1:9",
                "config_kwargs": {"proxies": {"http": f"http://{USER_INFO}@127.0.0.1:9"}},
            },
            id="a proxy",
        ),
    ],
)
def test_an_error_shows_no_password_of_a_server_that_cannot_be_reached(
    logged: Everything, options: dict[str, Any]
) -> None:
    quickly = {"retries": {"max_attempts": 0}, **options.get("config_kwargs", {})}
    with pytest.raises(StorageError) as caught:
        open_storage("s3://bucket/t", {**SIGNED, **options, "config_kwargs": quickly}).read("a")
    shown = traceback.format_exception(caught.value)
    assert settings_with(*logged.texts, *shown, repr(caught.value)) == []


def test_the_command_shows_no_password(s3_server: S3Server, logged: Everything) -> None:
    uri = f"s3://{s3_server.new_bucket()}/t"
    da.write(uri, pa.table({"a": [1]}), storage_options=s3_server.storage_options)
    data = {**SIGNED, "endpoint_url": with_password(s3_server.url)}
    options = [f"--storage-option={name}={value}" for name, value in data.items()]
    for command in ("show", "head", "health"):
        result = CliRunner().invoke(cli, [command, uri, *options])
        assert result.exit_code == 0
        assert settings_with(*logged.texts, result.output) == []


@pytest.mark.parametrize("in_environment", [False, True], ids=["option", "environment"])
def test_a_password_in_the_endpoint_of_gcs_is_shown_nowhere(
    gcs_server: GcsServer,
    logged: Everything,
    monkeypatch: pytest.MonkeyPatch,
    in_environment: bool,
) -> None:
    address = with_password(gcs_server.url)
    options = {**gcs_server.storage_options, "endpoint_url": address}
    if in_environment:
        del options["endpoint_url"]
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
    shown = write_and_read(f"gs://{gcs_server.new_bucket()}/t", options)
    assert logged.of("gcsfs")
    assert settings_with(*logged.texts, *shown) == []


def test_unsigned_requests_to_gcs_use_the_password() -> None:
    opened = backend_of("gs").drop_credentials(
        {"token": "anon", "endpoint_url": f"http://{USER_INFO}@h"}
    )
    assert opened["endpoint_url"] == "http://h"
    assert opened["session_kwargs"] == {"headers": {"Authorization": f"Basic {BASIC}"}}
    assert "session_kwargs" not in backend_of("gs").drop_credentials(
        {"token": "a.json", "endpoint_url": f"http://{USER_INFO}@h"}
    )


@pytest.mark.parametrize("in_environment", [False, True], ids=["option", "environment"])
def test_a_password_in_the_endpoint_of_azure_is_shown_nowhere(
    azure_server: AzureServer,
    logged: Everything,
    monkeypatch: pytest.MonkeyPatch,
    in_environment: bool,
) -> None:
    connection = with_password(azure_server.storage_options["connection_string"])
    options = {"connection_string": connection}
    if in_environment:
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", options.pop("connection_string"))
    shown = write_and_read(f"abfs://{azure_server.new_container()}/t", options)
    assert logged.of("azure.core.pipeline.policies.http_logging_policy")
    assert settings_with(*logged.texts, *shown) == []


def test_a_host_of_azure_is_named_without_a_password() -> None:
    options = {"account_name": "a", "account_key": "k", "account_host": f"{USER_INFO}@host:1/a"}
    assert backend_of("abfs").drop_credentials(options) == {**options, "account_host": "host:1/a"}


@pytest.mark.parametrize(
    ("address", "without", "user_info"),
    [
        ("http://host:9000/x", "http://host:9000/x", None),
        ("http://u:p@host:9000/x?y", "http://host:9000/x?y", "u:p"),
        ("HTTPS://token@[::1]:9", "HTTPS://[::1]:9", "token"),
        ("http://u@domain:p@host", "http://host", "u@domain:p"),
        ("u:p@host:9000", "host:9000", "u:p"),
        ("", "", None),
    ],
)
def test_user_info_is_the_text_before_the_host(
    address: str, without: str, user_info: str | None
) -> None:
    assert split_user_info(address) == (without, user_info)


@pytest.mark.parametrize("password", ["p/q", "p?q", "p#q", "p\\q"])
def test_an_endpoint_whose_password_may_go_on_behind_its_host_is_refused(password: str) -> None:
    options = {**SIGNED, "endpoint_url": f"http://user:{password}@127.0.0.1:9"}
    with pytest.raises(InvalidRequestError, match="%2F") as caught:
        open_storage("s3://bucket/t", options)
    assert password not in "".join(traceback.format_exception(caught.value))

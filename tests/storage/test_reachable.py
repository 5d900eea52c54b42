"""The error for an unreachable store names it within seconds."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import DeltaOpsError, StorageError
from delta_ops.storage import open_storage
from delta_ops.storage.backends import backend_of
from delta_ops.storage.remote.reachable import unreachable_reason
from tests.support.tables import add, write_log

GOOGLE = "https://storage.googleapis.com"
PROXIES = ("http_proxy", "https_proxy", "all_proxy")


@pytest.fixture(autouse=True)
def no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*PROXIES, *map(str.upper, PROXIES), "STORAGE_EMULATOR_HOST"):
        monkeypatch.delenv(name, raising=False)


@contextmanager
def unused_port() -> Iterator[int]:
    """A port without a listener; no other process gets it meanwhile."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        yield kept.getsockname()[1]


def options_of(store: str, port: int) -> dict[str, Any]:
    if store == "gs":
        return {"token": "anon", "endpoint_url": f"http://127.0.0.1:{port}"}
    account = f"http://127.0.0.1:{port}/account"
    return {"connection_string": f"BlobEndpoint={account};AccountName=account;AccountKey=a2V5;"}


@pytest.mark.parametrize("store", ["gs", "abfss"])
@pytest.mark.parametrize("call", ["stat", "read", "list_from", "create", "find"])
def test_each_call_names_a_store_that_cannot_be_reached(store: str, call: str) -> None:
    arguments: dict[str, tuple[Any, ...]] = {
        "list_from": ("d", ""),
        "create": ("a", b"x"),
        "find": (["a"],),
    }
    begun = time.monotonic()
    with unused_port() as port:
        storage = open_storage(f"{store}://place/t", options_of(store, port))
        named = rf"{store}://place/t\S* could not be .*no server answers at 127\.0\.0\.1:{port} "
        with pytest.raises(StorageError, match=named):
            list(getattr(storage, call)(*arguments.get(call, ("a",))) or ())
    assert time.monotonic() - begun < 20  # the clients take more than 30 s on an idle machine


def test_a_read_does_not_wait_for_a_store_that_the_log_names(tmp_path: Path) -> None:
    write_log(tmp_path, [[add("gs://other/a.parquet", size=1_000)]])
    with unused_port() as port:
        outside = {"gs://other/": options_of("gs", port)}
        with pytest.raises(DeltaOpsError, match=rf"gs://other.*127\.0\.0\.1:{port}"):
            da.to_table(DeltaLog(tmp_path, outside=outside))


def test_an_address_that_answered_is_not_probed_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/account"
        assert unreachable_reason(address, {}) is None
    assert unreachable_reason(address, {}) is None


@pytest.mark.parametrize(
    ("proxy", "options"),
    [
        pytest.param("https_proxy", {}, id="a proxy of the machine"),
        pytest.param("", {"proxies": {"https": "http://proxy"}}, id="a proxy of the client"),
        pytest.param("", {"session_kwargs": {"trust_env": True}}, id="a session of the user's"),
    ],
)
def test_behind_a_proxy_the_address_is_not_probed(
    monkeypatch: pytest.MonkeyPatch, proxy: str, options: dict[str, Any]
) -> None:
    with unused_port() as port:
        address = f"http://127.0.0.1:{port}"
        assert "Connection refused" in (unreachable_reason(address, {}) or "")
        if proxy:
            monkeypatch.setenv(proxy, "http://proxy")
        assert unreachable_reason(address, options) is None


@pytest.mark.parametrize("address", ["", "no address", "http://[::1", "http://host:port/"])
def test_an_address_that_is_none_is_left_to_the_client(address: str) -> None:
    assert unreachable_reason(address, {}) is None


@pytest.mark.parametrize(
    ("scheme", "options", "address"),
    [
        pytest.param("gs", {}, GOOGLE, id="it looks for credentials"),
        pytest.param(
            "gcs", {"token": "cloud"}, GOOGLE, id="it uses the credentials of the machine"
        ),
        pytest.param("gs", {"token": "anon"}, None, id="it needs none"),
        pytest.param("gs", {"token": "/key.json"}, None, id="it was given some"),
        pytest.param("gs", {"endpoint_url": "http://own"}, None, id="it goes to another store"),
        pytest.param("abfss", {}, None, id="Azure's goes nowhere"),
    ],
)
def test_which_client_goes_to_the_network_while_it_is_opened(
    scheme: str, options: dict[str, Any], address: str | None
) -> None:
    assert backend_of(scheme).address_while_opening(options) == address

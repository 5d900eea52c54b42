"""An unreachable S3: reported soon, by name, after few connection attempts."""

from __future__ import annotations

import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError, StorageError
from delta_ops.storage import open_storage
from tests.support.gate import PATIENCE_S
from tests.support.servers.s3 import Failure, S3Server

KEYS = {"key": "access", "secret": "of-the-test"}


class Listener:
    """A port of this machine without a store; counts connections."""

    def __init__(self, *, answers: bool) -> None:
        self._attempts = 0
        self._changes = threading.Condition()
        self._answers = answers
        self._kept: list[socket.socket] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                with self._changes:
                    self._attempts += 1
                    self._changes.notify_all()
                if self._answers:
                    connection.close()
                else:
                    self._kept.append(connection)

    def wait_for_attempts(self, number: int) -> int:
        """Wait for this many connections; return their number."""
        with self._changes:
            self._changes.wait_for(lambda: self._attempts >= number, PATIENCE_S)
            return self._attempts

    def close(self) -> None:
        self._socket.close()
        for connection in self._kept:
            connection.close()


@contextmanager
def listener(*, answers: bool) -> Iterator[Listener]:
    found = Listener(answers=answers)
    try:
        yield found
    finally:
        found.close()


def read(options: dict[str, Any]) -> None:
    """Make one request."""
    open_storage("s3://bucket/t", {**KEYS, **options}).stat("a")


@pytest.fixture(autouse=True)
def no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_MAX_ATTEMPTS", "AWS_RETRY_MODE", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("answers", "others", "attempts"),
    [
        pytest.param(True, {}, 2, id="who answers is no store"),
        pytest.param(False, {"config_kwargs": {"connect_timeout": 0.2}}, 2, id="nobody answers"),
        pytest.param(
            True,
            {"config_kwargs": {"retries": {"total_max_attempts": 3}}},
            3,
            id="as configured",
        ),
    ],
)
def test_few_attempts_are_made_to_reach_a_store(
    answers: bool, others: dict[str, Any], attempts: int
) -> None:
    named = pytest.raises(StorageError, match=r"s3://bucket/t/a .*https://127\.0\.0\.1")
    with listener(answers=answers) as nobody:
        with named:
            read({"endpoint_url": nobody.url, **others})
        assert nobody.wait_for_attempts(attempts) == attempts


def test_the_environment_says_how_often_to_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "3")
    with listener(answers=True) as nobody:
        with pytest.raises(StorageError):
            read({"endpoint_url": nobody.url})
        assert nobody.wait_for_attempts(3) == 3


def test_nobody_waits_long_for_a_store_that_does_not_answer() -> None:
    with listener(answers=False) as nobody:
        begun = time.monotonic()
        with pytest.raises(StorageError):
            read({"endpoint_url": nobody.url})
        passed = time.monotonic() - begun
        # Two attempts of two seconds each, and the pause. The limit allows for a busy machine.
        assert (nobody.wait_for_attempts(2), passed < 45) == (2, True)


def test_a_port_where_nobody_listens_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    uri, options = "s3://bucket/t", {**KEYS, "endpoint_url": f"http://127.0.0.1:{port}"}
    with pytest.raises(StorageError, match=f"http://127.0.0.1:{port}.*check its address"):
        DeltaLog(uri, options).snapshot()


@pytest.mark.full
def test_a_store_that_has_answered_is_tried_as_often_as_the_client_does(
    s3_server: S3Server,
) -> None:
    storage = open_storage(f"s3://{s3_server.new_bucket()}/t", s3_server.storage_options)
    failure = Failure(500, "InternalError")
    with s3_server.failing(failure, failure, failure):
        storage.create("a", b"x")
    assert storage.read("a") == b"x"


@pytest.mark.parametrize(
    ("options", "tries"),
    [
        pytest.param({"config_kwargs": {"retries": {"total_max_attempts": 2}}}, 2, id="two tries"),
        pytest.param({}, 5, id="the client's own tries", marks=pytest.mark.full),
    ],
)
def test_a_store_that_takes_no_data_file_is_an_error_and_nothing_is_left(
    s3_server: S3Server, options: dict[str, Any], tries: int
) -> None:
    uri = f"s3://{s3_server.new_bucket()}/t"
    log = DeltaLog(uri, {**s3_server.storage_options, **options})
    da.write(log, pa.table({"id": [1, 2], "v": [1.0, 2.0]}))
    before = {file.path for file in log.storage.list_tree("")}
    source = pa.table({"id": [1, 9], "v": [5.0, 5.0]})
    changes: list[Callable[[], object]] = [
        lambda: da.write(log, source),
        lambda: da.update(log, {"v": "v + 1"}),
        lambda: da.merge(log, source, "target.id = source.id").when_matched_update_all().execute(),
    ]
    for change in changes:
        with (
            s3_server.failing(*[Failure(500, "InternalError", of=".parquet")] * 100),
            s3_server.recording() as requests,
            pytest.raises(StorageError, match=r"s3://bucket.*\.parquet could not be created"),
        ):
            change()
        assert sum(".parquet" in each.path for each in requests if each.kind == "PUT") == tries
        assert {file.path for file in log.storage.list_tree("")} == before
    assert da.write(log, source).version == 1


def test_an_option_that_there_is_not_is_still_an_error() -> None:
    with pytest.raises(InvalidRequestError, match=r"endpiont_url .* endpoint_url"):
        DeltaLog("s3://bucket/t", {**KEYS, "endpiont_url": "http://127.0.0.1:9"})


def test_a_handle_with_such_a_session_pickles(s3_server: S3Server) -> None:
    uri = f"s3://{s3_server.new_bucket()}/t"
    storage = pickle.loads(pickle.dumps(open_storage(uri, s3_server.storage_options)))
    storage.create("a", b"x")
    assert storage.read("a") == b"x"

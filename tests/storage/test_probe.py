"""The probe: an unknown store is tested once for conditional writes."""

from __future__ import annotations

import multiprocessing
import threading
import uuid
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from types import SimpleNamespace
from typing import IO

import pytest

from delta_ops.errors import StorageError, UnsupportedStorageError
from delta_ops.storage import Storage, open_storage
from delta_ops.storage.backends.azure.create import EXCLUSIVE_CREATE as AZURE
from delta_ops.storage.backends.gcs import EXCLUSIVE_CREATE as GCS
from delta_ops.storage.backends.s3.create import EXCLUSIVE_CREATE as S3
from delta_ops.storage.exclusive_create import PART_BYTES, Endpoint, ExclusiveCreate
from delta_ops.storage.remote.exclusive import honours_put
from tests.support.forked import call_in_child, needs_fork
from tests.support.gate import PATIENCE_S, Gate, call_in_thread
from tests.support.servers.s3 import ACCESS_KEY, SECRET_KEY, Failure, S3Server, kinds

PATH = "_delta_log/a"
PUT_TWICE = 2


def write_large(stream: IO[bytes]) -> None:
    stream.write(bytes(2 * PART_BYTES))


def opened(server: S3Server, prefix: str = "") -> Storage:
    return open_storage(f"s3://{server.new_bucket(prefix)}/t", server.storage_options)


def paths(storage: Storage) -> list[str]:
    return sorted(info.path for info in storage.list_tree(""))


def test_an_unknown_store_is_probed_once_and_nothing_is_left(s3_server: S3Server) -> None:
    storage = opened(s3_server)
    counts = []
    for path in ("a", "b"):
        with s3_server.recording() as requests:
            storage.create(path, b"")
        counts.append(kinds(requests))
    with s3_server.recording() as requests:
        open_storage(f"{storage.uri}/another", s3_server.storage_options).create("c", b"")
    assert [*counts, kinds(requests)] == [
        {"PUT": PUT_TWICE + 1, "DELETE": 1},
        {"PUT": 1},
        {"PUT": 1},
    ]
    assert paths(storage) == ["a", "another/c", "b"]


def test_uploads_in_parts_are_probed_separately(s3_server: S3Server) -> None:
    storage = opened(s3_server)
    storage.create("a", b"")
    counts = []
    for path in ("b", "c"):
        with s3_server.recording() as requests:
            storage.create_from_stream(path, write_large)
        counts.append(kinds(requests))
    file = Counter({"POST": 2, "PUT": 2, "HEAD": 1})
    probe = Counter({"POST": 4, "PUT": 2, "DELETE": 2})
    assert counts == [file + probe, file]
    assert paths(storage) == ["a", "b", "c"]


def test_the_probe_is_among_what_is_ours_and_hidden(s3_server: S3Server) -> None:
    storage = opened(s3_server)
    with s3_server.recording() as requests:
        storage.create(PATH, b"")
    place = storage.uri.removeprefix("s3://")
    probes = {request.path for request in requests} - {f"{place}/{PATH}"}
    assert len(probes) == 1
    assert probes.pop().startswith(f"{place}/_delta_ops/.staged-")


def test_a_store_that_ignores_the_condition_is_refused_before_anything_is_committed(
    s3_server: S3Server,
) -> None:
    storage = opened(s3_server, "careless-")
    for _ in range(2):
        with pytest.raises(UnsupportedStorageError) as caught:
            storage.create(PATH, b"")
    with pytest.raises(UnsupportedStorageError):
        storage.create_from_stream(PATH, lambda _: pytest.fail("a refused store was written to"))
    assert str(caught.value).startswith(f"{storage.uri} cannot be committed to: ")
    assert s3_server.url.removeprefix("http://") in str(caught.value)
    assert "lock=..." in str(caught.value)
    assert not {ACCESS_KEY, SECRET_KEY} & set(str(caught.value).split())
    assert paths(storage) == []


def test_a_store_that_does_not_know_the_condition_is_refused(s3_server: S3Server) -> None:
    storage = opened(s3_server)
    with (
        s3_server.failing(Failure(501, "NotImplemented")),
        pytest.raises(UnsupportedStorageError),
    ):
        storage.create(PATH, b"")


@pytest.mark.full
def test_a_store_that_ignores_the_condition_of_parts_gets_a_file_by_one_request(
    s3_server: S3Server,
) -> None:
    storage = opened(s3_server, "half-careless-")
    storage.create_from_stream("first", write_large)
    with s3_server.recording() as requests:
        storage.create_from_stream(PATH, write_large)
    assert kinds(requests) == {"PUT": 1, "HEAD": 1}
    with pytest.raises(FileExistsError):
        storage.create_from_stream(PATH, write_large)
    assert paths(storage) == [PATH, "first"]


def test_a_failed_probe_decides_nothing(s3_server: S3Server) -> None:
    options = {**s3_server.storage_options, "config_kwargs": {"retries": {"max_attempts": 0}}}
    storage = open_storage(f"s3://{s3_server.new_bucket()}/t", options)
    failures = [Failure(503, "ServiceUnavailable")] * 5
    with (
        s3_server.failing(*failures),
        pytest.raises(StorageError, match="_delta_ops could not be probed"),
    ):
        storage.create(PATH, b"")
    storage.create(PATH, b"")
    assert paths(storage) == [PATH]


def test_a_probe_whose_answer_was_lost_is_a_probe_all_the_same(s3_server: S3Server) -> None:
    """The client repeats the request, and the store reports an existing file."""
    storage = opened(s3_server)
    with s3_server.failing(Failure(500, "InternalError", lands=True)):
        storage.create(PATH, b"")
    assert paths(storage) == [PATH]


def test_threads_that_begin_together_probe_once(s3_server: S3Server) -> None:
    storage, callers = opened(s3_server), 8
    barrier = threading.Barrier(callers)

    def create(number: int) -> None:
        barrier.wait()
        storage.create(f"{number}", b"")

    with s3_server.recording() as requests, ThreadPoolExecutor(callers) as pool:
        list(pool.map(create, range(callers)))
    assert kinds(requests) == {"PUT": PUT_TWICE + callers, "DELETE": 1}


def exclusive_create(address: str, gate: Gate) -> ExclusiveCreate:
    """Creates files exclusively, in a set, after the gate opens."""
    there: set[str] = set()

    def put(fs: object, path: str, data: bytes, mark: str) -> None:
        gate.pass_by()
        if path in there:
            raise FileExistsError(path)
        there.add(path)

    return ExclusiveCreate(
        put=put, look=lambda fs, path: None, endpoint_of=lambda fs: Endpoint(address, False)
    )


@pytest.mark.parametrize(
    "other_root",
    [
        pytest.param("bucket/other", id="of the same bucket"),
        pytest.param("another/other", id="of another bucket"),
    ],
)
def test_a_store_that_does_not_answer_the_question_holds_up_no_other_table(other_root: str) -> None:
    gate, address = Gate(), f"https://{uuid.uuid4().hex}"
    fs = SimpleNamespace(rm_file=lambda path: None)
    with gate.holding([lambda: honours_put(exclusive_create(address, gate), fs, "bucket/slow")]):
        other = exclusive_create(address, Gate())
        requested = call_in_thread(lambda: honours_put(other, fs, other_root))
        assert requested.result(PATIENCE_S / 2)


@needs_fork
def test_a_child_forked_during_a_probe_probes_the_store_itself() -> None:
    gate, address = Gate(), f"https://{uuid.uuid4().hex}"
    fs = SimpleNamespace(rm_file=lambda path: None)
    exclusive = exclusive_create(address, gate)
    with gate.holding([lambda: honours_put(exclusive, fs, "bucket/slow")]):
        assert call_in_child(lambda: honours_put(exclusive, fs, "bucket/slow"))


def create(storage: Storage, number: int) -> None:
    storage.create(f"{number}", b"")


@pytest.mark.full
def test_processes_that_begin_together_do_not_disturb_each_other(s3_server: S3Server) -> None:
    storage, callers = opened(s3_server), 2
    context = multiprocessing.get_context("spawn")
    with s3_server.recording() as requests, ProcessPoolExecutor(callers, context) as pool:
        list(pool.map(create, [storage] * callers, range(callers)))
    assert paths(storage) == [f"{number}" for number in range(callers)]
    assert 1 <= kinds(requests)["DELETE"] <= callers


@pytest.mark.parametrize(
    ("endpoint", "is_known"),
    [
        ("https://s3.amazonaws.com", True),
        ("https://s3.eu-central-1.amazonaws.com", True),
        ("https://s3-fips.us-gov-west-1.amazonaws.com", True),
        ("https://s3.dualstack.us-east-1.amazonaws.com", True),
        ("https://s3.cn-north-1.amazonaws.com.cn", True),
        ("https://s3-outposts.us-east-1.amazonaws.com", False),
        ("https://s3.amazonaws.com.example.org", False),
        ("https://minio.example.org:9000", False),
        ("http://127.0.0.1:9000", False),
    ],
)
def test_the_hosts_of_s3_are_known(endpoint: str, is_known: bool) -> None:
    fs = SimpleNamespace(s3=SimpleNamespace(meta=SimpleNamespace(endpoint_url=endpoint)))
    assert S3.endpoint_of is not None
    assert S3.endpoint_of(fs).is_known is is_known


@pytest.mark.parametrize(
    ("endpoint", "is_known"),
    [
        ("https://storage.googleapis.com", True),
        ("https://storage.googleapis.com.example.org", False),
        ("http://127.0.0.1:4443", False),
    ],
)
def test_the_hosts_of_gcs_are_known(endpoint: str, is_known: bool) -> None:
    assert GCS.endpoint_of is not None
    assert GCS.endpoint_of(SimpleNamespace(base=f"{endpoint}/storage/v1/")).is_known is is_known


@pytest.mark.parametrize(
    ("endpoint", "is_known"),
    [
        ("https://account.blob.core.windows.net/", True),
        ("https://account.dfs.core.windows.net/", True),
        ("https://account.blob.core.windows.net.example.org/", False),
        ("http://127.0.0.1:10000/devstoreaccount1", False),
    ],
)
def test_the_hosts_of_azure_are_known(endpoint: str, is_known: bool) -> None:
    fs = SimpleNamespace(service_client=SimpleNamespace(primary_endpoint=endpoint))
    assert AZURE.endpoint_of is not None
    assert AZURE.endpoint_of(fs).is_known is is_known

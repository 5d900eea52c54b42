"""Listings that begin at a name, as each object store receives them."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Set
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import fsspec
import pytest

from delta_ops.errors import StorageError
from delta_ops.storage import Storage, open_storage
from delta_ops.storage.backends.s3 import S3
from tests.support.servers.gcs import GcsServer
from tests.support.servers.s3 import S3Server, kinds

NAMES = ["!", "-", "0", "00", "01", "09~", "0é", "1", "10", "A", "a b", "a~", "~", "é", "漢"]
STARTS = [*NAMES, " ", "0/", "0~", "2", "a", "a ", "ê", "\u0080", "~~", "\U0001f600"]


@pytest.fixture(params=["s3", "gcs"])
def storage(request: pytest.FixtureRequest, s3_server: S3Server, gcs_server: GcsServer) -> Storage:
    if request.param == "s3":
        return open_storage(f"s3://{s3_server.new_bucket()}/t", s3_server.storage_options)
    return open_storage(f"gs://{gcs_server.new_bucket()}/t", gcs_server.storage_options)


def test_a_listing_from_a_name_on_lacks_nothing_that_comes_after_it(storage: Storage) -> None:
    for name in NAMES:
        storage.replace(f"d/{name}", b"")
    listed = {start: [info.path[2:] for info in storage.list_from("d", start)] for start in STARTS}
    assert listed == {start: [name for name in NAMES if name >= start] for start in STARTS}


def test_the_root_of_a_bucket_is_listed(s3_server: S3Server, gcs_server: GcsServer) -> None:
    for address, options in [
        (f"s3://{s3_server.new_bucket()}", s3_server.storage_options),
        (f"gs://{gcs_server.new_bucket()}", gcs_server.storage_options),
    ]:
        storage = open_storage(address, options)
        for path in ["a", "b", "c/d"]:
            storage.replace(path, b"")
        assert [info.path for info in storage.list_from("", "b")] == ["b"]


def test_s3_is_listed_a_page_at_a_time_from_the_name_on(s3_server: S3Server) -> None:
    bucket = s3_server.new_bucket()
    s3_server.put(bucket, {f"t/d/{number:05}": b"" for number in range(3_000)})
    storage = open_storage(f"s3://{bucket}/t", s3_server.storage_options)
    requests = {}
    for start in ["02990", "01000", ""]:
        with s3_server.recording() as recorded:
            assert len(list(storage.list_from("d", start))) == 3_000 - int(start or 0)
        requests[start] = kinds(recorded)
    assert requests == {"02990": {"LIST": 1}, "01000": {"LIST": 2}, "": {"LIST": 3}}


def test_gcs_is_listed_from_the_name_on(
    gcs_server: GcsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = gcs_server.new_bucket()
    options = gcs_server.storage_options
    storage = open_storage(f"gs://{bucket}/t", options)
    storage.replace("d/1", b"")
    fs = fsspec.filesystem("gs", **options, use_listings_cache=False)  # the same object
    call, requests = fs.call, []

    def recorded(*args: object, **request: object) -> object:
        requests.append((args[2], request["prefix"], request["startOffset"]))
        return call(*args, **request)

    monkeypatch.setattr(fs, "call", recorded)
    assert [info.path for info in storage.list_from("d", "1")] == ["d/1"]
    assert requests == [(bucket, "t/d/", "t/d/1")]


def test_only_a_client_that_reads_parts_in_parallel_gets_an_option_for_it() -> None:
    class Old:
        def _cat_file(self, path: str, start: int | None = None) -> None: ...

    class New:
        def _cat_file(self, path: str, max_concurrency: int | None = None) -> None: ...

    assert S3.read_options(Old) == {}
    assert S3.read_options(New) == {"max_concurrency": 1}


def test_ranges_are_read_at_the_same_time(s3_server: S3Server) -> None:
    bucket = s3_server.new_bucket()
    s3_server.put(bucket, {"t/a": bytes(range(40))})
    storage = open_storage(f"s3://{bucket}/t", s3_server.storage_options)
    with s3_server.holding(until=16):
        parts = storage.read_ranges("a", [(start, start + 1) for start in range(40)])
        assert s3_server.most_held == 16
    assert b"".join(parts) == bytes(range(40))


def test_the_requests_of_a_table_keep_none_of_another_waiting(s3_server: S3Server) -> None:
    """Tables with the same options share one client of the store, and so its connections."""
    tables, each = 2, 16

    def read(number: int) -> bytes:
        bucket = s3_server.new_bucket()
        s3_server.put(bucket, {"t/a": bytes(range(each))})
        storage = open_storage(f"s3://{bucket}/t", s3_server.storage_options)
        begun.wait()
        return b"".join(storage.read_ranges("a", [(i, i + 1) for i in range(each)]))

    begun = threading.Barrier(tables)
    with s3_server.holding(until=tables * each), ThreadPoolExecutor(tables) as pool:
        assert list(pool.map(read, range(tables))) == [bytes(range(each))] * tables
        assert s3_server.most_held == tables * each


def test_a_store_that_cannot_be_reached_is_an_error_without_credentials(
    s3_server: S3Server,
) -> None:
    options = {
        **s3_server.storage_options,
        "endpoint_url": "http://127.0.0.1:9",  # of a service that does not exist
        "config_kwargs": {"retries": {"max_attempts": 0}},
    }
    storage = open_storage("s3://bucket/t", options)
    for call in (lambda: storage.list_from("d", ""), lambda: storage.read("a")):
        with pytest.raises(StorageError, match=r"http://127\.0\.0\.1:9") as caught:
            call()
        shown = "".join(traceback.format_exception(caught.value)) + repr(storage)
        assert options["key"] not in shown
        assert options["secret"] not in shown


def test_s3_deletes_a_thousand_objects_by_one_request(s3_server: S3Server) -> None:
    bucket = s3_server.new_bucket()
    paths = [f"d/{number}" for number in range(2_001)]
    s3_server.put(bucket, {f"t/{path}": b"" for path in [*paths, "kept"]})
    storage = open_storage(f"s3://{bucket}/t", s3_server.storage_options)
    with s3_server.recording() as recorded:
        assert storage.delete_many(iter(paths)) == []
    a_thousand_each, the_last = 2, 1
    assert kinds(recorded) == {"BUCKET POST": a_thousand_each, "DELETE": the_last}
    assert [info.path for info in storage.list_tree("")] == ["kept"]


class Refusing:
    """An S3 client whose store fails to delete some keys."""

    def __init__(self, fs: Any, in_bulk: Set[str], alone: Set[str]) -> None:
        self._call, self._in_bulk, self._alone = fs.call_s3, in_bulk, alone

    def call_s3(self, method: str, *args: Any, **request: Any) -> Any:
        if method == "delete_objects":
            if "*" in self._in_bulk:
                raise OSError("MissingContentMD5")
            keys = {each["Key"] for each in request["Delete"]["Objects"]}
            refused = [{"Key": key, "Code": "AccessDenied"} for key in keys & self._in_bulk]
            left = [{"Key": key} for key in keys - self._in_bulk]
            self._call(method, *args, **{**request, "Delete": {"Objects": left, "Quiet": True}})
            return {"Errors": refused}
        return self._call(method, *args, **request)

    def rm_file(self, path: str) -> None:
        if path.partition("/")[2] in self._alone:
            raise PermissionError(path)
        bucket, _, key = path.partition("/")
        self._call("delete_object", Bucket=bucket, Key=key)


@pytest.mark.parametrize(
    ("in_bulk", "alone", "kept"),
    [
        pytest.param({"t/b"}, {"t/b"}, ["b"], id="a refused file is reported"),
        pytest.param({"t/b"}, set(), [], id="a refused file is deleted by itself"),
        pytest.param({"*"}, set(), [], id="a store without the request deletes one by one"),
    ],
)
def test_failed_entries_of_a_bulk_delete_do_not_count_as_deleted(
    s3_server: S3Server,
    monkeypatch: pytest.MonkeyPatch,
    in_bulk: set[str],
    alone: set[str],
    kept: list[str],
) -> None:
    storage = open_storage(f"s3://{s3_server.new_bucket()}/t", s3_server.storage_options)
    for path in "abc":
        storage.replace(path, b"")
    fs = fsspec.filesystem("s3", **opened_with(s3_server))
    refusing = Refusing(fs, in_bulk, alone)
    with monkeypatch.context() as patch:
        patch.setattr(fs, "call_s3", refusing.call_s3)
        patch.setattr(fs, "rm_file", refusing.rm_file)
        assert storage.delete_many(["a", "b", "c"]) == kept
    assert [info.path for info in storage.list_tree("")] == kept


def opened_with(server: S3Server) -> dict[str, Any]:
    """Options that make fsspec return a storage's own file system."""
    file_system = fsspec.get_filesystem_class("s3")
    options = S3.options_to_open(server.storage_options, file_system)
    return {**options, "use_listings_cache": False}


@pytest.mark.parametrize("name", ["a\rb", "a\nb", "a\x01b", "a\u2028b"])
def test_a_name_that_xml_changes_is_deleted_alone(s3_server: S3Server, name: str) -> None:
    storage = open_storage(f"s3://{s3_server.new_bucket()}/t", s3_server.storage_options)
    with s3_server.recording() as recorded:
        storage.delete_many([name, "b", "c"])
    assert kinds(recorded) == {"BUCKET POST": 1, "DELETE": 1}


def test_credentials_that_the_environment_gets_later_are_taken(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"s3://{s3_server.new_bucket()}/t"
    keys = []
    for key in ("first-key", "second-key"):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.url)
        with s3_server.recording() as requests:
            assert not list(open_storage(address).list_tree(""))
        keys += [key for each in requests for key in [each.authorization] if "Credential=" in key]
    assert "first-key" in keys[0]
    assert "second-key" in keys[-1]

"""A cached checkpoint is not requested again by the next process, if the cache is on.

Requests are counted at the store's server, or as calls of the store's client.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from delta_ops import DeltaLog, RangeCache
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.file_names import checkpoint_name
from delta_ops.storage import FileInfo, open_storage
from tests.log.test_v2_checkpoints import (
    classic_name_with_sidecars,
    json_alone,
    json_with_sidecars,
    parquet_with_sidecars,
    table,
)
from tests.support.counting_storage import CountingStorage
from tests.support.servers.azure import AzureServer
from tests.support.servers.gcs import GcsServer
from tests.support.servers.s3 import Request, S3Server, kinds
from tests.support.tables import add, live_paths, write_log

LOG = "_delta_log"
NUM_FILES = 3_000


@pytest.fixture
def cache(tmp_path: Path) -> RangeCache:
    return RangeCache(tmp_path / "cache", 64 << 20)


def entries(cache: RangeCache) -> list[Path]:
    return sorted(Path(cache.directory).glob("*.range"))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose checkpoint takes several ranges, and one later commit."""
    root = tmp_path_factory.mktemp("large")
    adds = [add(f"{i}-{os.urandom(40).hex()}", stats='{"numRecords":1}') for i in range(NUM_FILES)]
    log = write_log(root, [adds])
    write_checkpoint(log.snapshot(), now_ms=0)
    path = root / LOG / checkpoint_name(0)
    pq.write_table(pq.read_table(path), path, row_group_size=1_000)
    create_commit(log.storage, log.log_directory, 1, [add("later")])
    return root


def uploaded(server: S3Server, root: Path) -> str:
    """The address of an uploaded copy of a table."""
    bucket = server.new_bucket()
    files = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".crc")
    server.put(bucket, {f"t/{path.relative_to(root)}": path.read_bytes() for path in files})
    return f"s3://{bucket}/t"


def of_checkpoint(requests: Sequence[Request]) -> list[Request]:
    return [each for each in requests if "checkpoint." in each.path or "_sidecars" in each.path]


def test_the_second_to_open_a_table_reads_no_byte_of_the_checkpoint(
    s3_server: S3Server, large: Path, cache: RangeCache
) -> None:
    uri = uploaded(s3_server, large)
    with s3_server.recording() as first:
        live = live_paths(DeltaLog(uri, s3_server.storage_options, cache=cache))
    with s3_server.recording() as second:
        again = live_paths(DeltaLog(uri, s3_server.storage_options, cache=cache))
    assert again == live
    assert len(live) == NUM_FILES + 1
    assert len(of_checkpoint(first)) > 2
    hint, commit = 1, 1
    assert kinds(second) == {"GET": hint + commit, "LIST": 1}
    assert of_checkpoint(second) == []


@pytest.mark.full
def test_another_process_reads_none_either(
    s3_server: S3Server, large: Path, cache: RangeCache
) -> None:
    log = DeltaLog(uploaded(s3_server, large), s3_server.storage_options, cache=cache)
    log.snapshot().files(["path"])
    program = """
import pickle, sys
print(pickle.load(sys.stdin.buffer).snapshot().files(["path"]).num_rows)
"""
    with s3_server.recording() as requests:
        done = subprocess.run(
            [sys.executable, "-c", program],
            input=pickle.dumps(log),
            check=True,
            capture_output=True,
            timeout=300,
        )
    assert int(done.stdout) == NUM_FILES + 1
    assert kinds(requests) == {"GET": 2, "LIST": 1}


def in_parts(root: Path) -> None:
    """The checkpoint of version 1, in two parts."""
    whole = root / LOG / checkpoint_name(1)
    rows = pq.read_table(whole)
    for number, part in enumerate([rows.slice(0, 3), rows.slice(3)], start=1):
        name = f"{1:020d}.checkpoint.{number:010d}.{2:010d}.parquet"
        pq.write_table(part, root / LOG / name)
    whole.unlink()


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("make", "num_files"),
    [
        pytest.param(lambda root: None, 1, id="classic"),
        pytest.param(in_parts, 2, id="in parts"),
        pytest.param(json_alone, 1, id="V2, JSON"),
        pytest.param(json_with_sidecars, 3, id="V2, JSON and sidecars"),
        pytest.param(parquet_with_sidecars, 3, id="V2, Parquet and sidecars"),
        pytest.param(classic_name_with_sidecars, 3, id="V2 by a classic name, and sidecars"),
    ],
)
def test_files_of_every_kind_of_checkpoint_are_kept_and_nothing_else(
    s3_server: S3Server, tmp_path: Path, cache: RangeCache, make: object, num_files: int
) -> None:
    root = tmp_path / "t"
    expected = live_paths(table(root))
    assert callable(make)
    make(root)
    uri = uploaded(s3_server, root)
    for _ in range(2):
        with s3_server.recording() as requests:
            log = DeltaLog(uri, s3_server.storage_options, cache=cache)
            assert live_paths(log) == expected
            assert log.snapshot().transactions()["a"].version == 3
    assert of_checkpoint(requests) == []
    assert len({entry.name.partition("-")[0] for entry in entries(cache)}) == num_files


@pytest.fixture(params=["s3", "gcs", "azure"])
def place(
    request: pytest.FixtureRequest,
    s3_server: S3Server,
    gcs_server: GcsServer,
) -> tuple[str, dict[str, object]]:
    """An empty place in each store."""
    if request.param == "s3":
        return f"s3://{s3_server.new_bucket()}/t", s3_server.storage_options
    if request.param == "gcs":
        return f"gs://{gcs_server.new_bucket()}/t", gcs_server.storage_options
    azure: AzureServer = request.getfixturevalue("azure_server")
    return f"az://{azure.new_container()}/t", azure.storage_options


def calls_to_list(uri: str, options: dict[str, object], cache: RangeCache) -> tuple[int, list[str]]:
    """The number of files in the table, and the store calls needed to list them."""
    calls: list[str] = []
    inner = open_storage(uri, options, cache=cache)
    storage = CountingStorage(
        inner, lambda _, method, path, moment: calls.append(method) if moment == "before" else None
    )
    return DeltaLog("", storage=storage).snapshot().files().num_rows, sorted(calls)


@pytest.mark.some_cases(2)
def test_every_store_reports_what_it_needs(
    place: tuple[str, dict[str, object]], large: Path, cache: RangeCache
) -> None:
    storage = open_storage(*place)
    for name in os.listdir(large / LOG):
        storage.replace(f"{LOG}/{name}", (large / LOG / name).read_bytes())
    first, second = (calls_to_list(*place, cache) for _ in range(2))
    assert "read_ranges" in first[1]
    assert second == (NUM_FILES + 1, ["list_from", "read", "read"])


def test_a_checkpoint_that_was_replaced_under_its_name_is_read_anew(
    s3_server: S3Server, tmp_path: Path, cache: RangeCache
) -> None:
    one, another = (write_log(tmp_path / name, [[add(name)]]) for name in ("one", "two"))
    uri = uploaded(s3_server, tmp_path / "one")
    bucket = uri.split("/")[2]
    for log in (one, another):
        write_checkpoint(log.snapshot(), now_ms=0)
        checkpoint = tmp_path / log.uri / LOG / checkpoint_name(0)
        s3_server.put(bucket, {f"t/{LOG}/{checkpoint_name(0)}": checkpoint.read_bytes()})
        opened = DeltaLog(uri, s3_server.storage_options, cache=cache)
        assert live_paths(opened) == live_paths(log)
    sizes = {(tmp_path / n / LOG / checkpoint_name(0)).stat().st_size for n in ("one", "two")}
    assert len(sizes) == 1


def test_another_store_with_files_of_the_same_names_is_another(
    s3_server: S3Server, large: Path, cache: RangeCache
) -> None:
    uri, options = uploaded(s3_server, large), s3_server.storage_options
    DeltaLog(uri, options, cache=cache).snapshot().files()
    elsewhere = {**options, "endpoint_url": s3_server.url.replace("127.0.0.1", "localhost")}
    with s3_server.recording() as requests:
        DeltaLog(uri, elsewhere, cache=cache).snapshot()
    assert of_checkpoint(requests) != []


def test_damaged_entries_are_read_anew(s3_server: S3Server, large: Path, cache: RangeCache) -> None:
    uri = uploaded(s3_server, large)
    live = live_paths(DeltaLog(uri, s3_server.storage_options, cache=cache))
    for number, entry in enumerate(entries(cache)):
        content = bytearray(entry.read_bytes())
        content[-1 - number % 50] ^= 1
        entry.write_bytes(content)
    with s3_server.recording() as requests:
        assert live_paths(DeltaLog(uri, s3_server.storage_options, cache=cache)) == live
    assert of_checkpoint(requests) != []
    with s3_server.recording() as requests:
        assert live_paths(DeltaLog(uri, s3_server.storage_options, cache=cache)) == live
    assert of_checkpoint(requests) == []


@pytest.mark.parametrize("make", [None, json_alone], ids=["Parquet", "JSON"])
def test_undecodable_data_are_not_cached(
    s3_server: S3Server, tmp_path: Path, cache: RangeCache, make: object
) -> None:
    """The cache may hold a damaged range, as a store may once have sent one."""
    root = tmp_path / "t"
    live = live_paths(table(root))
    if callable(make):
        make(root)
    uri = uploaded(s3_server, root)
    log = DeltaLog(uri, s3_server.storage_options, cache=cache)
    snapshot = log.snapshot()
    assert snapshot.checkpoint is not None
    (top,) = snapshot.checkpoint.parts
    kept = log.storage.kept_ranges(top)
    assert kept is not None
    kept.forget()
    kept.keep({(0, top.size): bytes(top.size)})
    damaged = DeltaLog(uri, s3_server.storage_options, cache=cache).snapshot()
    assert [each.version for each in damaged.damaged_checkpoints] == [snapshot.checkpoint.version]
    again = DeltaLog(uri, s3_server.storage_options, cache=cache).snapshot()
    assert not again.damaged_checkpoints
    assert live_paths(DeltaLog(uri, s3_server.storage_options, cache=cache)) == live


def test_a_cache_that_cannot_be_used_changes_nothing(
    s3_server: S3Server, large: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"")
    uri = uploaded(s3_server, large)
    live = live_paths(DeltaLog(uri, s3_server.storage_options))
    cache = RangeCache(tmp_path / "file")
    for _ in range(2):
        assert live_paths(DeltaLog(uri, s3_server.storage_options, cache=cache)) == live


def test_a_cache_smaller_than_the_checkpoint_changes_no_answer(
    s3_server: S3Server, large: Path, tmp_path: Path
) -> None:
    uri = uploaded(s3_server, large)
    cache = RangeCache(tmp_path / "cache", 100_000)
    for _ in range(2):
        log = DeltaLog(uri, s3_server.storage_options, cache=cache)
        assert len(live_paths(log)) == NUM_FILES + 1
    assert 0 < sum(entry.stat().st_size for entry in entries(cache)) < 100_000


def test_a_log_without_checkpoint_leaves_nothing(
    s3_server: S3Server, tmp_path: Path, cache: RangeCache
) -> None:
    write_log(tmp_path / "t", [[add("a")], [add("b")]])
    uri = uploaded(s3_server, tmp_path / "t")
    assert live_paths(DeltaLog(uri, s3_server.storage_options, cache=cache)) == {"a", "b"}
    assert not Path(cache.directory).exists()


@pytest.mark.parametrize(
    ("info", "is_kept"),
    [
        pytest.param(FileInfo("a", 1, 0, "etag"), True, id="an etag"),
        pytest.param(FileInfo("a", 1, 1), True, id="a time in its place"),
        pytest.param(FileInfo("a", 1, 0), False, id="neither"),
        pytest.param(FileInfo("..", 1, 1), True, id="a name that cannot be read is no error yet"),
    ],
)
def test_a_file_is_kept_if_its_content_has_a_name(
    s3_server: S3Server, cache: RangeCache, info: FileInfo, is_kept: bool
) -> None:
    storage = open_storage("s3://bucket/t", s3_server.storage_options, cache=cache)
    assert (storage.kept_ranges(info) is not None) == is_kept
    plain = open_storage("s3://bucket/t", s3_server.storage_options)
    assert plain.kept_ranges(info) is None


@pytest.fixture
def in_memory(large: Path, tmp_path: Path) -> Iterator[str]:
    storage = open_storage(uri := f"memory://{tmp_path.name}/t")
    for name in os.listdir(large / LOG):
        storage.replace(f"{LOG}/{name}", (large / LOG / name).read_bytes())
    yield uri
    storage.delete_many([info.path for info in storage.list_tree("")])


def test_a_table_that_is_no_further_than_the_cache_does_not_use_it(
    large: Path, in_memory: str, cache: RangeCache
) -> None:
    for uri in (str(large), in_memory):
        assert len(live_paths(DeltaLog(uri, cache=cache))) == NUM_FILES + 1
    assert not Path(cache.directory).exists()


def test_no_credential_is_kept(s3_server: S3Server, large: Path, cache: RangeCache) -> None:
    options = s3_server.storage_options
    log = DeltaLog(uploaded(s3_server, large), options, cache=cache)
    log.snapshot()
    kept = b"".join(entry.name.encode() + entry.read_bytes() for entry in entries(cache))
    for secret in (options["key"], options["secret"]):
        assert secret.encode() not in kept
        assert secret not in repr(cache) + repr(log.storage)

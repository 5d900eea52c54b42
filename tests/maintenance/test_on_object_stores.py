"""A table's life on object stores: written, read, kept in shape, and continued by deltalake."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin
from delta_ops.errors import TableReplacedError, UnsupportedStorageError
from delta_ops.maintenance import clean_up_log, create_checkpoint, optimize, vacuum
from tests.support.file_lock import FileLock
from tests.support.servers.azure import AzureServer
from tests.support.servers.gcs import GcsServer
from tests.support.servers.s3 import ACCESS_KEY, SECRET_KEY, Failure, S3Server, kinds

AN_HOUR_MS = 3_600_000


@pytest.fixture(params=["s3", "gcs", "azure"])
def log(request: pytest.FixtureRequest) -> DeltaLog:
    return log_on(request, request.param)


@pytest.fixture(
    params=["s3", *(pytest.param(kind, marks=pytest.mark.full) for kind in ("gcs", "azure"))]
)
def log_mostly_on_s3(request: pytest.FixtureRequest) -> DeltaLog:
    return log_on(request, request.param)


def log_on(request: pytest.FixtureRequest, kind: str) -> DeltaLog:
    server: S3Server | GcsServer | AzureServer
    server = request.getfixturevalue(f"{kind}_server")
    match server:
        case S3Server():
            address = f"s3://{server.new_bucket()}/t"
        case GcsServer():
            address = f"gs://{server.new_bucket()}/t"
        case AzureServer():
            address = f"az://{server.new_container()}/t"
    return DeltaLog(address, server.storage_options)


@pytest.fixture
def on_s3(s3_server: S3Server) -> DeltaLog:
    return DeltaLog(f"s3://{s3_server.new_bucket()}/t", s3_server.storage_options)


def rows(first: int, num: int = 3) -> pa.Table:
    ids = list(range(first, first + num))
    return pa.table({"id": pa.array(ids, pa.int64()), "p": [f"p{i % 2}" for i in ids]})


def ids(log: DeltaLog) -> list[int]:
    return sorted(da.to_table(log).column("id").to_pylist())


def theirs(server: S3Server) -> dict[str, str]:
    """The server's options for deltalake."""
    return {
        "AWS_ENDPOINT_URL": server.url,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "aws_conditional_put": "etag",
    }


def test_a_table_is_written_read_and_kept_in_shape(log: DeltaLog) -> None:
    for first in (0, 3, 6):
        da.write(log, rows(first), partition_by=["p"])
    create_checkpoint(log)
    assert optimize(log).version == 3
    da.write(log, rows(9))
    assert ids(log) == list(range(12))
    assert log.snapshot().num_files == 4
    orphan = "p=p0/orphan.parquet"
    log.storage.create(orphan, b"")

    later_ms = time.time_ns() // 1_000_000 + 9 * 24 * AN_HOUR_MS
    result = vacuum(log, retention=timedelta(days=8), clock=lambda: later_ms)
    assert (result.deleted_files, result.failures) == (6 + 1, ())
    assert ids(log) == list(range(12))
    data = [info.path for info in log.storage.list_tree("") if info.path.startswith("p=")]
    assert len(data) == 4
    refs = {info.path for info in log.storage.list_tree("_delta_ops")}
    assert refs == {f"_delta_ops/refs/{number:020}.json" for number in (1, 2)}


def test_deltalake_reads_and_continues_a_table_on_s3_and_we_continue_theirs(
    on_s3: DeltaLog, s3_server: S3Server
) -> None:
    for first in (0, 3):
        da.write(on_s3, rows(first), partition_by=["p"])
    create_checkpoint(on_s3)
    optimize(on_s3)
    options = theirs(s3_server)
    table = DeltaTable(on_s3.uri, storage_options=options)
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == [*range(6)]
    write_deltalake(on_s3.uri, rows(6), mode="append", storage_options=options)
    da.write(on_s3, rows(9))
    table = DeltaTable(on_s3.uri, storage_options=options)
    assert table.version() == on_s3.snapshot().version == 4
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == ids(on_s3) == [*range(12)]


def test_an_append_takes_nine_requests_at_version_two(on_s3: DeltaLog, s3_server: S3Server) -> None:
    for first in (0, 3):
        da.write(on_s3, rows(first), hooks=())
    with s3_server.recording() as requests:
        da.write(on_s3, rows(6), hooks=())
    hint, commits, data_and_commit, data, is_same_table = 1, 2, 2, 1, 2
    assert kinds(requests) == {
        "GET": hint + commits,
        "LIST": 1,
        "PUT": data_and_commit,
        "HEAD": data + is_same_table,
    }


@pytest.mark.parametrize("lost", [1, pytest.param(5, marks=pytest.mark.full)])
def test_a_commit_whose_answers_were_lost_is_there_once(
    on_s3: DeltaLog, s3_server: S3Server, lost: int
) -> None:
    da.write(on_s3, rows(0))
    failures = [Failure(500, "InternalError", lands=True)] * lost
    with s3_server.failing(*failures):
        version = da.write(on_s3, rows(3)).version
    assert (version, on_s3.snapshot().version, ids(on_s3)) == (1, 1, [*range(6)])


def test_a_store_that_ignores_conditions_is_refused_before_a_file_is_written(
    s3_server: S3Server,
) -> None:
    log = DeltaLog(f"s3://{s3_server.new_bucket('careless-')}/t", s3_server.storage_options)
    with pytest.raises(UnsupportedStorageError, match="does not support creating an object"):
        da.write(log, rows(0))
    assert list(log.storage.list_tree("")) == []


@pytest.mark.full
def test_processes_append_to_a_table_on_a_store_that_ignores_conditions_within_a_lock(
    s3_server: S3Server, tmp_path: Path, pool: ProcessPoolExecutor
) -> None:
    address = f"s3://{s3_server.new_bucket('careless-')}/t"
    lock = FileLock(str(tmp_path / "lock"))
    log = DeltaLog(address, s3_server.storage_options, lock=lock)
    assert_appends_of_processes_add_up(log, pool)


def append(log: DeltaLog, writer: int, num: int) -> list[int]:
    """The versions that were committed."""
    found = []
    for number in range(num):
        version = da.write(log, rows(100 * writer + number, 1)).version
        assert version is not None
        found.append(version)
    return found


WRITERS = 2


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(WRITERS, multiprocessing.get_context("spawn")) as pool:
        yield pool


def test_several_processes_append_to_one_table_and_nothing_is_lost(
    log_mostly_on_s3: DeltaLog, pool: ProcessPoolExecutor
) -> None:
    assert_appends_of_processes_add_up(log_mostly_on_s3, pool)


def assert_appends_of_processes_add_up(log: DeltaLog, pool: ProcessPoolExecutor) -> None:
    writers, num = WRITERS, 5
    da.write(log, rows(0, 1))
    racing = [pool.submit(append, log, writer, num) for writer in range(1, writers + 1)]
    versions = [version for race in racing for version in race.result()]
    assert sorted(versions) == list(range(1, writers * num + 1))
    expected = [100 * writer + number for writer in range(1, writers + 1) for number in range(num)]
    assert ids(log) == [0, *expected]


def test_a_log_is_cleaned_up_on_every_store(log_mostly_on_s3: DeltaLog) -> None:
    log = log_mostly_on_s3
    for first in (0, 3, 6):
        da.write(log, rows(first), configuration={"delta.checkpointInterval": "2"})
    later_ms = time.time_ns() // 1_000_000 + 40 * 24 * AN_HOUR_MS
    result = clean_up_log(log, clock=lambda: later_ms)
    assert (result.plan.boundary_version, result.failures) == (2, ())
    assert result.deleted_files == len(result.plan.files) == 4  # two commits, two checksums
    assert ids(log) == [*range(9)]
    assert not clean_up_log(log, clock=lambda: later_ms).plan.has_work


def test_commits_are_deleted_by_one_request_for_many(on_s3: DeltaLog, s3_server: S3Server) -> None:
    for first in range(8):
        da.write(on_s3, rows(first, 1), hooks=())
    create_checkpoint(on_s3)
    later_ms = time.time_ns() // 1_000_000 + 40 * 24 * AN_HOUR_MS
    with s3_server.recording() as requests:
        assert clean_up_log(on_s3, clock=lambda: later_ms).deleted_files == 7
    the_oldest, the_others = 1, 1
    found = kinds(requests)
    assert found["DELETE"] + found["BUCKET POST"] == the_oldest + the_others


def test_a_table_that_was_deleted_and_created_again_is_recognized_as_new(
    log_mostly_on_s3: DeltaLog,
) -> None:
    log = log_mostly_on_s3
    da.write(log, rows(0), partition_by=["p"])
    snapshot, transaction = log.snapshot(), begin(log)
    transaction.stage(da.stage_write(transaction, rows(3)))
    log.storage.delete_many([info.path for info in log.storage.list_tree("")])
    da.write(log, rows(0), partition_by=["p"])  # in the same second, of the same size

    with pytest.raises(TableReplacedError, match="id was"):
        transaction.commit(operation="WRITE")
    with pytest.raises(TableReplacedError, match="id was"):
        snapshot.refresh()

    assert ids(log) == [0, 1, 2]

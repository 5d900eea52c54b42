"""Vacuum of tables by other writers, and on an object store."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.clock import DAY_MS
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import vacuum
from tests.support.servers.s3 import Request, S3Server, kinds
from tests.support.tables import PROTOCOL, SHARED, add, metadata, needs_shared, rows

TABLES = SHARED / "data" / "tables"
YEARS_LATER_MS = 2_000_000_000_000


@pytest.mark.some_cases(4)
@needs_shared
@pytest.mark.parametrize(
    "name",
    [
        "delta_rs/table-with-dv-small",
        "delta_rs/delta-0.8.0-special-partition",
        "delta_rs/cdc_ict_table",
        "golden/dv-partitioned-with-checkpoint",
        "golden/v2-checkpoint-json",
        "kernel/cdf-table-with-cdc-and-dvs",
        "kernel/partition_cm",
        "kernel/v2-checkpoints-json-with-sidecars",
        "kernel/v2-checkpoints-parquet-with-sidecars",
        "kernel/with-short-dv",
    ],
)
def test_all_rows_are_there_afterwards(tmp_path: Path, name: str) -> None:
    roots = [path.parent for path in (TABLES / name).rglob("_delta_log")]
    root = Path(shutil.copytree(roots[0], tmp_path / "t"))
    for place in [root, *root.rglob("*")]:
        os.chmod(place, 0o755 if place.is_dir() else 0o644)
    log = DeltaLog(root)
    before = rows(da.to_table(log))
    orphan = root / "orphan.parquet"
    orphan.write_bytes(b"")
    sidecars = sorted((root / "_delta_log").rglob("*.parquet"))
    result = vacuum(log, clock=lambda: YEARS_LATER_MS)
    assert not orphan.exists()
    assert result.deleted_files >= 1
    assert rows(da.to_table(log)) == before
    assert set(sidecars) <= set((root / "_delta_log").rglob("*.parquet"))


@pytest.fixture(scope="module")
def of_many_folders(s3_server: S3Server) -> DeltaLog:
    return log_of_folders(s3_server, files=60)


def log_of_folders(s3_server: S3Server, *, files: int) -> DeltaLog:
    bucket = s3_server.new_bucket()
    log = DeltaLog(f"s3://{bucket}/t", s3_server.storage_options)
    keys = [f"t/p={n:02d}/x{i}" for n in range(40) for i in range(files)]
    s3_server.put(bucket, dict.fromkeys(keys, b""))
    return write_log_to(log)


def write_log_to(log: DeltaLog) -> DeltaLog:
    live = [add(f"p={n:02d}/x0") for n in range(40)]
    create_commit(log.storage, log.log_directory, 0, [PROTOCOL, metadata(), *live])
    return log


def listings_in(requests: list[Request]) -> set[str]:
    """The listings among the requests, without repeats: clients retry when a server is busy."""
    return {request.query for request in requests if request.kind == "LIST"}


def days_later(days: float) -> int:
    return time.time_ns() // 1_000_000 + int(days * DAY_MS)


@pytest.mark.full
def test_directories_of_an_object_store_are_listed_several_at_a_time(
    s3_server: S3Server,
) -> None:
    log = log_of_folders(s3_server, files=200)
    with s3_server.recording() as requests, s3_server.holding(8, lists=True):
        result = vacuum(log, dry_run=True, clock=lambda: days_later(8))
        most = s3_server.most_held
    assert len(result.plan.files) == 40 * 199
    assert most >= 8
    assert len(listings_in(requests)) <= 8 + 10
    assert not {"PUT", "POST", "DELETE"} & set(kinds(requests))


@pytest.mark.full
def test_a_table_of_small_folders_is_listed_by_few_requests(
    s3_server: S3Server, of_many_folders: DeltaLog
) -> None:
    with s3_server.recording() as requests:
        result = vacuum(of_many_folders, dry_run=True, clock=lambda: days_later(8))
    assert len(result.plan.files) == 40 * 59
    of_the_log, of_the_tree = 2, 4
    assert len(listings_in(requests)) <= of_the_log + of_the_tree


def test_objects_are_deleted_many_at_a_time(s3_server: S3Server) -> None:
    of_many_folders = log_of_folders(s3_server, files=60)
    with s3_server.recording() as requests:
        result = vacuum(of_many_folders, clock=lambda: days_later(8), log_commits=False)
    assert (result.deleted_files, result.failures) == (40 * 59, ())
    assert kinds(requests)["POST"] + kinds(requests)["BUCKET POST"] == 3
    data = [i.path for i in of_many_folders.storage.list_tree("") if i.path.startswith("p=")]
    assert sorted(data) == [f"p={n:02d}/x0" for n in range(40)]


@pytest.mark.full
def test_the_clock_of_an_object_store_is_used(
    s3_server: S3Server, of_many_folders: DeltaLog
) -> None:
    with s3_server.recording() as requests:
        assert not vacuum(of_many_folders).plan.has_work
    writes = [r for r in requests if r.kind in ("PUT", "DELETE")]
    assert [r.kind for r in writes if "_delta_ops/" in r.path] == ["PUT", "DELETE"]
    assert list(of_many_folders.storage.list_tree("_delta_ops")) == []


def test_the_names_of_an_object_store_are_their_own(s3_server: S3Server) -> None:
    bucket = s3_server.new_bucket()
    log = write_log_to(DeltaLog(f"s3://{bucket}/t", s3_server.storage_options))
    odd = ["a b/ü%20+x", "a//b", "a/../b", "é/", "a&b<c>/x"]
    s3_server.put(bucket, {f"t/{name}": b"" for name in odd} | {"t2/x": b"", "x": b""})
    result = vacuum(log, clock=lambda: days_later(8), log_commits=False)
    assert {info.path for info in result.plan.files} == {"a b/ü%20+x", "a&b<c>/x"}
    assert result.deleted_files == 2
    others = DeltaLog(f"s3://{bucket}", s3_server.storage_options).storage
    assert {"t2/x", "x"} <= {info.path for info in others.list_tree("")}

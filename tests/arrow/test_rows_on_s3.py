"""Requests that reading rows sends to an object store, as its server records them."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, Snapshot, col
from tests.support.servers.s3 import Request, S3Server

ROWS = 20_000


@pytest.fixture(scope="module")
def log(s3_server: S3Server) -> DeltaLog:
    """Two files with a small column and an incompressible column of 2 MB."""
    log = DeltaLog(f"s3://{s3_server.new_bucket()}/t", s3_server.storage_options)
    for first in (0, ROWS):
        ids = pa.array(range(first, first + ROWS), pa.int64())
        noise = pa.array([os.urandom(100) for _ in range(ROWS)])
        da.write(log, pa.table({"id": ids, "noise": noise}))
    return log


@pytest.fixture
def snapshot(log: DeltaLog) -> Snapshot:
    return log.snapshot()


def bytes_of(requests: list[Request]) -> int:
    """The number of bytes that the requests cover; every request has a range."""
    bounds = [request.byte_range.removeprefix("bytes=").split("-") for request in requests]
    return sum(int(last) - int(first) + 1 for first, last in bounds)


def test_each_file_is_read_by_its_footer_and_then_its_wanted_parts(
    snapshot: Snapshot, s3_server: S3Server
) -> None:
    with s3_server.recording() as requests:
        assert da.to_table(snapshot).num_rows == 2 * ROWS
    assert {request.kind for request in requests} == {"GET"}
    assert bytes_of(requests) < snapshot.size_bytes * 1.1
    with s3_server.recording() as requests:
        ids = da.to_table(snapshot, columns=["id"])["id"].to_pylist()
    assert sorted(ids) == [*range(2 * ROWS)]
    assert bytes_of(requests) < snapshot.size_bytes * 0.1
    footer, column = 1, 1
    assert len(requests) == 2 * (footer + column)


def test_a_file_without_a_matching_row_is_not_read(snapshot: Snapshot, s3_server: S3Server) -> None:
    with s3_server.recording() as requests:
        found = da.to_table(snapshot, columns=["id"], predicate=col("id") == ROWS + 5)
    assert found["id"].to_pylist() == [ROWS + 5]
    assert len({request.path for request in requests}) == 1


def test_counting_reads_no_column(snapshot: Snapshot, s3_server: S3Server) -> None:
    with s3_server.recording() as requests:
        assert da.count_rows(snapshot) == 2 * ROWS
    assert requests == []

"""Refs on an S3 server: writers in processes, and lost answers."""

from __future__ import annotations

import multiprocessing
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.versioning import (
    ReleaseSet,
    begin_session,
    create_branch,
    create_release,
    create_tag,
    join_session,
    list_releases,
    list_sessions,
    list_tags,
    open_branch,
    open_session,
    publish,
    rebase_branch,
)
from tests.support.servers.s3 import Failure, S3Server

LOST = (500, "InternalError")
"""The answer to a write that happens."""


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids_of(source: Any) -> list[int]:
    return sorted(da.to_table(source)["id"].to_pylist())


@pytest.fixture
def log(s3_server: S3Server) -> DeltaLog:
    """Row 1; version 0."""
    log = DeltaLog(f"s3://{s3_server.new_bucket()}/t", s3_server.storage_options)
    da.write(log, rows_of(1))
    return log


def stage(uri: str, options: dict[str, Any], number: int) -> None:
    """Write as a step of its own."""
    session = join_session(DeltaLog(uri, options), "nightly")
    da.write(session.fork(f"part {number}"), rows_of(number))


@pytest.mark.full
def test_two_processes_stage_rows_of_one_commit(log: DeltaLog, s3_server: S3Server) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=stage, args=(log.uri, s3_server.storage_options, number))
        for number in (10, 11)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert ids_of(log) == [1]
    (session,) = list_sessions(log)
    result = open_session(log, session.id).commit(expected_steps=["part 10", "part 11"])
    assert (result.version, ids_of(log), list_sessions(log)) == (1, [1, 10, 11], [])


@pytest.mark.full
@pytest.mark.parametrize(
    "of",
    [
        "_delta_ops/refs/",
        ".fork.json",
        "/logs/",
        "end.json",
        "sealed.json",
        "_delta_log/00000000000000000001.json",
    ],
)
def test_a_lost_answer_to_a_session_neither_loses_nor_doubles_rows(
    log: DeltaLog, s3_server: S3Server, of: str
) -> None:
    with s3_server.failing(Failure(*LOST, lands=True, of=of)):
        session = begin_session(log)
        da.write(session.fork("load"), rows_of(2))
        result = session.commit(expected_steps=["load"])
    assert (result.version, ids_of(log), list_sessions(log)) == (1, [1, 2], [])


@pytest.mark.full
@pytest.mark.parametrize("of", ["t/_delta_ops/refs/", "releases/"])
def test_a_lost_answer_to_a_release_makes_one_release(
    log: DeltaLog, s3_server: S3Server, of: str
) -> None:
    releases = ReleaseSet(log.uri.removesuffix("/t") + "/releases", s3_server.storage_options)
    with s3_server.failing(Failure(*LOST, lands=True, of=of)):
        release = create_release(releases, {"t": log})
    assert [each.number for each in list_releases(releases)] == [release.number] == [1]


@pytest.mark.full
def test_a_lost_answer_to_a_tag_creates_one_tag(log: DeltaLog, s3_server: S3Server) -> None:
    with s3_server.failing(Failure(*LOST, lands=True, of="_delta_ops/refs/")):
        create_tag(log, "first")
    assert [each.name for each in list_tags(log)] == ["first"]


@pytest.mark.full
@pytest.mark.parametrize(
    "of", ["_delta_ops/refs/", "_delta_ops/branches/", "_delta_log/00000000000000000002.json"]
)
def test_a_lost_answer_to_a_branch_neither_loses_nor_doubles_rows(
    log: DeltaLog, s3_server: S3Server, of: str
) -> None:
    with s3_server.failing(Failure(*LOST, lands=True, of=of)):
        create_branch(log, "x")
        da.write(open_branch(log, "x"), rows_of(2))
        da.write(log, rows_of(3))
        rebase_branch(log, "x")
        result = publish(log, "x", expected_branch_version=2)
    assert (result.version, ids_of(log)) == (2, [1, 2, 3])

"""Checkpoints of many files on S3, the clean-up of such logs, and a killed vacuum."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.clock import DAY_MS
from delta_ops.log.checkpoint_write import v2
from delta_ops.maintenance import clean_up_log, create_checkpoint, vacuum
from tests.maintenance.test_on_object_stores import theirs
from tests.support.faulty_storage import Killed, MortalStorage
from tests.support.servers.s3 import S3Server, kinds

V2 = {"delta.checkpointPolicy": "v2"}


def later_ms(days: int = 40) -> int:
    return time.time_ns() // 1_000_000 + days * DAY_MS


@pytest.fixture
def log(s3_server: S3Server) -> DeltaLog:
    return DeltaLog(f"s3://{s3_server.new_bucket()}/t", s3_server.storage_options)


def write(log: DeltaLog, number: int, **options: Any) -> None:
    da.write(log, pa.table({"id": pa.array([number], pa.int64())}), hooks=(), **options)


def ids(log: DeltaLog) -> list[int]:
    return sorted(da.to_table(log).column("id").to_pylist())


def ids_by_deltalake(log: DeltaLog, server: S3Server) -> list[int]:
    from deltalake import DeltaTable, QueryBuilder

    query = QueryBuilder().register("t", DeltaTable(log.uri, storage_options=theirs(server)))
    return sorted(pa.table(query.execute("SELECT id FROM t"))["id"].to_pylist())


def named(log: DeltaLog, text: str) -> set[str]:
    return {info.path for info in log.storage.list_tree("_delta_log") if text in info.path}


@pytest.mark.full
def test_sidecars_are_reused_and_go_when_no_checkpoint_names_them(
    log: DeltaLog, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(v2, "SIDECAR_ROWS", 2)
    for number in range(4):
        write(log, number, configuration=V2)
    create_checkpoint(log)
    first = named(log, "_sidecars/")
    assert len(first) == 2
    write(log, 4)
    with s3_server.recording() as requests:
        written = create_checkpoint(log).written
    assert written is not None
    assert written.num_reused == 2
    new_sidecar, top, hint = 1, 1, 1
    assert kinds(requests)["PUT"] == new_sidecar + top + hint

    write(log, 9, mode="overwrite")
    create_checkpoint(log, clock=later_ms)  # the tombstones have expired
    result = clean_up_log(log, clock=later_ms)
    assert (result.plan.boundary_version, result.failures) == (5, ())
    assert not first & named(log, "_sidecars/")
    assert ids(log) == ids_by_deltalake(log, s3_server) == [9]


def test_a_checkpoint_with_a_part_missing_is_no_base_for_a_clean_up(
    log: DeltaLog, s3_server: S3Server
) -> None:
    for number in range(3):
        write(log, number)
    create_checkpoint(log, part_rows=1)
    parts = sorted(named(log, ".checkpoint."))
    assert len(parts) == 3
    log.storage.delete(parts[1])
    log.storage.delete("_delta_log/_last_checkpoint")  # which is written at the end
    plan = clean_up_log(log, clock=later_ms).plan
    assert (plan.boundary_version, len(plan.files)) == (None, 2)
    assert not named(log, ".checkpoint.")
    assert ids(log) == ids_by_deltalake(log, s3_server) == [0, 1, 2]

    create_checkpoint(log, part_rows=1)
    assert sorted(named(log, ".checkpoint.")) == parts
    assert clean_up_log(log, clock=later_ms).plan.boundary_version == 2
    assert ids(log) == ids_by_deltalake(log, s3_server) == [0, 1, 2]


@pytest.mark.full
def test_a_vacuum_that_was_killed_is_finished_by_the_next_one(log: DeltaLog) -> None:
    for number in range(4):
        write(log, number, mode="overwrite")
    deaths = 0
    for call in range(1, 200, 4):
        left = {info.path for info in log.storage.list_tree("") if info.path.endswith("parquet")}
        if len(left) == 1:
            break
        mortal = MortalStorage(log.storage, call, "after")
        with suppress(Killed):
            vacuum(DeltaLog("", storage=mortal), batch_files=1, clock=later_ms)
        deaths += mortal.is_dead
        assert ids(log) == [3]
    assert deaths > 1
    assert not vacuum(log, clock=later_ms).plan.has_work
    assert len(left) == 1

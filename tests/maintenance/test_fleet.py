"""Fleets: discovery and maintenance of tables, with some broken tables."""

from __future__ import annotations

import os
import shutil
import sys
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import fsspec
import pytest

from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError, StorageError
from delta_ops.events import Event, Progress
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import (
    HealthThresholds,
    TableHealth,
    find_tables,
    fleet_health,
    maintain,
    maintain_fleet,
    plan_maintenance,
)
from delta_ops.maintenance.fleet.find import find_tables_in
from delta_ops.protocol.actions import Protocol
from delta_ops.storage import open_storage
from tests.maintenance.aged_tables import Table, fragmented, overwritten, undescribed
from tests.support.counting_storage import CountingStorage
from tests.support.servers.s3 import S3Server
from tests.support.tables import PROTOCOL, add, clean_up, metadata, write_log

SMALL = HealthThresholds(small_files=2)


def table_at(place: Path) -> DeltaLog:
    return write_log(place, [[add("a/part-0.parquet")]])


def found_below(root: Path, *, nested: bool = False) -> list[str]:
    return [str(Path(t).relative_to(root)) for t in find_tables(str(root), nested=nested).tables]


def test_tables_are_found_at_every_depth(tmp_path: Path) -> None:
    for name in ("a", "zone/b", "zone/deep/er/c", "zone/with space=1/d"):
        table_at(tmp_path / name)
    (tmp_path / "empty" / "folder").mkdir(parents=True)
    (tmp_path / "file").write_text("")
    assert found_below(tmp_path) == ["a", "zone/b", "zone/deep/er/c", "zone/with space=1/d"]


@pytest.mark.parametrize("name", ["a:b", "A:", "c:\\d", "50%", "a b", "ä", "x=1", "'", "$(y)"])
def test_any_name_may_be_on_the_way_to_a_table(tmp_path: Path, name: str) -> None:
    table_at(tmp_path / name / "t")
    table_at(tmp_path / "u" / name)
    found = find_tables(tmp_path)
    assert set(found.tables) == {str(tmp_path / name / "t"), str(tmp_path / "u" / name)}
    assert not found.failures
    rows = list(maintain_fleet(found.tables, dry_run=True))
    assert [row.failure for row in rows] == [None, None]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
@pytest.mark.parametrize("name", [b"\xff", b"a\\..\\b"])
def test_a_name_that_no_path_can_have_is_reported(tmp_path: Path, name: bytes) -> None:
    table_at(tmp_path / "t")
    os.makedirs(os.path.join(os.fsencode(tmp_path), name, b"_delta_log"))
    found = find_tables(tmp_path)
    assert found.tables == (str(tmp_path / "t"),)
    ((place, failure),) = found.failures.items()
    assert place.encode() == os.path.join(os.fsencode(tmp_path), name.replace(b"\xff", b"\\udcff"))
    assert failure.kind == "InvalidRequestError"


def test_a_prefix_that_is_a_table_is_a_fleet_of_one(tmp_path: Path) -> None:
    table_at(tmp_path)
    assert find_tables(str(tmp_path)).tables == (str(tmp_path),)


def test_a_prefix_without_tables_or_that_is_not_there_has_none(tmp_path: Path) -> None:
    assert find_tables(str(tmp_path)).tables == ()
    assert find_tables(str(tmp_path / "absent")).tables == ()


def test_a_nested_table_is_found_on_request(tmp_path: Path) -> None:
    table_at(tmp_path / "outer")
    table_at(tmp_path / "outer" / "inner")
    assert found_below(tmp_path) == ["outer"]
    assert found_below(tmp_path, nested=True) == ["outer", "outer/inner"]


def test_hidden_folders_and_links_are_left_out(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    table_at(lake / "t")
    for hidden in ("_trash/t", ".snapshots/t", "zone/_delta_ops/t"):
        table_at(lake / hidden)
    elsewhere = table_at(tmp_path / "elsewhere")
    (lake / "linked").symlink_to(elsewhere.uri)
    (lake / "loop").symlink_to(lake)
    (lake / "half").mkdir()
    (lake / "half" / "_delta_log").symlink_to(Path(elsewhere.uri) / "_delta_log")
    assert found_below(lake) == ["t"]


def test_a_prefix_that_is_a_link_is_followed(tmp_path: Path) -> None:
    table_at(tmp_path / "lake" / "t")
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    assert find_tables(str(tmp_path / "link")).tables == (str(tmp_path / "link" / "t"),)


def test_data_directories_are_not_listed(tmp_path: Path) -> None:
    for number in range(3):
        table_at(tmp_path / "zone" / f"t{number}")
        (tmp_path / "zone" / f"t{number}" / "p=1").mkdir()
    calls: list[tuple[str, str]] = []

    def on_call(_number: int, method: str, path: str, when: str) -> None:
        if when == "before":
            calls.append((method, path))

    storage = CountingStorage(open_storage(tmp_path), on_call)
    assert len(find_tables_in(storage, nested=False).tables) == 3
    listed = sorted(path for method, path in calls if method == "list_directories")
    assert listed == ["", "zone"]
    requests = [path for method, path in calls if method == "is_directory"]
    assert len(requests) == len(calls) - 2 == 5


def test_a_folder_that_cannot_be_listed_is_reported_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table_at(tmp_path / "a")
    table_at(tmp_path / "closed" / "b")
    denied = str(tmp_path / "closed")
    _deny(monkeypatch, denied)
    found = find_tables(str(tmp_path))
    assert found.tables == (str(tmp_path / "a"),)
    (failure,) = found.failures.values()
    assert list(found.failures) == [denied]
    assert failure.kind == "StorageError"
    assert "ermission" in failure.message


def _deny(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Deny access to a directory by patches, because tests may run as root."""
    for name in ("scandir", "listdir", "open"):
        real = getattr(os, name)

        monkeypatch.setattr(os, name, partial(_denied, place, real))


def _denied(
    place: str, real: Callable[..., object], path: object, *args: object, **options: object
) -> object:
    if str(path).startswith(place):
        raise PermissionError(13, os.strerror(13), path)
    return real(path, *args, **options)


@pytest.mark.parametrize("kind", ["memory", "s3"])
def test_tables_are_found_in_object_stores(kind: str, request: pytest.FixtureRequest) -> None:
    options = None
    prefix = f"memory://{uuid.uuid4().hex}/lake"
    if kind == "s3":
        server: S3Server = request.getfixturevalue("s3_server")
        prefix, options = f"s3://{server.new_bucket()}/lake", server.storage_options
    for name in ("a", "zone/b", "_hidden/c", "a/inner", "z:9/d"):
        log = DeltaLog(f"{prefix}/{name}", options)
        create_commit(log.storage, log.log_directory, 0, [PROTOCOL, metadata(), add("x=1/f")])
        log.storage.create("x=1/f", b"data")
    found = find_tables(prefix, options)
    assert found.tables == (f"{prefix}/a", f"{prefix}/z:9/d", f"{prefix}/zone/b")
    nested = find_tables(prefix, options, nested=True)
    assert nested.tables == (found.tables[0], f"{prefix}/a/inner", *found.tables[1:])
    rows = list(fleet_health(found.tables, options))
    assert [row.failure for row in rows] == [None, None, None]


def test_a_table_below_a_directory_without_a_name_is_reported(s3_server: S3Server) -> None:
    bucket, options = s3_server.new_bucket(), s3_server.storage_options
    prefix, commit = f"s3://{bucket}/lake", f"_delta_log/{0:020}.json"
    files = fsspec.filesystem("s3", **options)
    for table in ("a//b", "/c", "plain"):
        files.pipe(f"{bucket}/lake/{table}/{commit}", b"{}")
    for other in ("raw//x.csv", "marked/", "marked/x.csv"):
        files.pipe(f"{bucket}/lake/{other}", b"1")
    found = find_tables(prefix, options)
    assert found.tables == (f"{prefix}/plain",)
    assert set(found.failures) == {f"{prefix}//", f"{prefix}/a/"}
    assert "has an empty part" in found.failures[f"{prefix}/a/"].message


def broken_tables(root: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Tables that cannot be examined, each for another reason, with a word of the message."""
    damaged = table_at(root / "damaged")
    commit = Path(damaged.uri) / "_delta_log" / f"{0:020d}.json"
    commit.write_text('{"add":')
    unsupported = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=("tomorrow",),
        writer_features=("tomorrow",),
    )
    write_log(root / "unsupported", [[unsupported]])
    holed = table_at(root / "holed")
    create_commit(holed.storage, holed.log_directory, 2, [])
    table_at(root / "closed")
    table_at(root / "gone")
    parquet = table_at(root / "half_checkpoint")
    (Path(parquet.uri) / "_delta_log" / f"{0:020d}.checkpoint.parquet").write_bytes(b"PAR1")
    clean_up(parquet)
    write_log(root / "unclear", [[metadata(configuration={"delta.logRetentionDuration": "long"})]])
    _deny(monkeypatch, str(root / "closed"))
    return {
        "damaged": "line 1",
        "unsupported": "tomorrow",
        "holed": "version 1 is missing",
        "closed": "ermission",
        "gone": "not a Delta table",
        "half_checkpoint": "checkpoint cannot be read",
        "unclear": "delta.logRetentionDuration",
    }


def test_broken_tables_do_not_stop_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported = broken_tables(tmp_path, monkeypatch)
    table_at(tmp_path / "a_whole_one")
    table_at(tmp_path / "z_whole_one")
    tables = [str(tmp_path / name) for name in ("a_whole_one", *reported, "z_whole_one")]
    shutil.rmtree(tmp_path / "gone")
    rows = list(fleet_health(tables))
    assert [row.table for row in rows] == tables
    assert rows[0].report is not None
    assert rows[-1].report is not None
    for (name, word), row in zip(reported.items(), rows[1:-1], strict=True):
        assert row.report is None, name
        assert row.failure is not None
        assert word in row.failure.message


def test_an_address_that_is_none_is_a_row(tmp_path: Path) -> None:
    table_at(tmp_path / "t")
    (bad, good) = fleet_health(["nothing://at/all", str(tmp_path / "t")])
    assert bad.failure is not None
    assert bad.failure.kind == InvalidRequestError.__name__
    assert good.report is not None


def test_an_error_that_nobody_expects_is_a_row_that_shows_no_secret(tmp_path: Path) -> None:
    log = table_at(tmp_path / "t")

    def fail(*_: object) -> None:
        raise ZeroDivisionError("secret=hunter2")

    broken = DeltaLog(log.uri, storage=CountingStorage(log.storage, fail))
    (row,) = fleet_health([broken])
    assert row.failure is not None
    assert row.failure.kind == "ZeroDivisionError"
    assert "hunter2" not in row.failure.message


def test_credentials_are_never_shown() -> None:
    secret = "hunter2"
    options = {
        "key": "me",
        "secret": secret,
        "endpoint_url": "http://127.0.0.1:9",
        "config_kwargs": {"retries": {"max_attempts": 0}, "connect_timeout": 1},
    }
    (row,) = fleet_health([f"s3://me:{secret}@bucket/t"], options)
    assert row.failure is not None
    assert secret not in repr(row)
    with pytest.raises(StorageError) as raised:
        find_tables("s3://bucket/lake", options)
    assert secret not in str(raised.value)


@pytest.mark.parametrize("max_concurrency", [1, 16])
def test_rows_come_in_the_order_of_the_tables(tmp_path: Path, max_concurrency: int) -> None:
    logs = [table_at(tmp_path / f"t{number}") for number in range(10)]
    events: list[Event] = []
    rows = list(fleet_health(logs, max_concurrency=max_concurrency, on_event=events.append))
    assert [row.table for row in rows] == [log.uri for log in logs]
    assert [(e.done, e.total) for e in events if isinstance(e, Progress)] == [
        (n, 10) for n in range(1, 11)
    ]
    assert all(isinstance(row, TableHealth) and row.report for row in rows)


def test_maintenance_does_what_health_recommends(tmp_path: Path) -> None:
    busy, idle = fragmented(tmp_path / "busy"), Table(tmp_path / "idle")
    idle.write([1])
    before = {name: (tmp_path / name / "_delta_log").stat().st_mtime_ns for name in ("idle",)}
    rows = list(maintain_fleet([busy.log, idle.log], thresholds=SMALL))
    assert rows[0].report is not None
    assert rows[0].report.operations == ("optimize",)
    assert rows[0].result is not None
    assert rows[0].result.figures["compacted_files"] == 6
    assert rows[0].saved["live_files"] == 4
    assert (rows[1].result, rows[1].failure) == (None, None)
    assert busy.log.snapshot().num_files == 2
    assert before["idle"] == (tmp_path / "idle" / "_delta_log").stat().st_mtime_ns
    again = list(maintain_fleet([busy.log, idle.log], thresholds=SMALL))
    assert [row.result for row in again] == [None, None]


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    table = fragmented(tmp_path / "t")
    before = table.files()
    (row,) = maintain_fleet([table.log], thresholds=SMALL, dry_run=True)
    assert row.result is not None
    assert row.result.dry_run
    assert row.result.planned["compaction_files_planned"] == 6
    assert row.saved == {"bytes": 0, "live_files": 0, "commits_to_replay": 0}
    assert table.files() == before


def test_a_table_that_cannot_be_written_is_skipped_with_what_was_due(tmp_path: Path) -> None:
    protocol = Protocol(
        min_reader_version=1, min_writer_version=7, writer_features=("inCommitTimestamp-preview",)
    )
    log = write_log(tmp_path, [[protocol, *(add(f"f{i}") for i in range(20))]])
    (row,) = maintain_fleet([log])
    assert (row.result, row.failure) == (None, None)
    assert row.skipped == ("small_files", "stats_coverage")
    assert [sentence.partition(":")[0] for sentence in row.left] == [*row.skipped, "features"]


def test_files_that_are_gone_are_left_for_a_person(tmp_path: Path) -> None:
    table = undescribed(tmp_path)
    version = table.log.snapshot().version
    bare, other = sorted(table.log.snapshot().add_files(), key=lambda add: add.stats is not None)
    (tmp_path / other.path).unlink()
    (row,) = maintain_fleet([table.log])
    assert row.failure is None
    assert row.result is not None
    assert row.result.figures["described_files"] == 1
    assert [other.path in sentence for sentence in row.left] == [True]
    left = table.log.snapshot()
    assert left.version == version + 1
    assert {add.path for add in left.add_files()} == {bare.path, other.path}


def test_work_done_before_a_failure_is_reported(tmp_path: Path) -> None:
    table = overwritten(tmp_path)
    table.write([4], "c")
    for add_file in table.log.snapshot().add_files():
        (tmp_path / add_file.path).unlink()
    (row,) = maintain_fleet([table.log], thresholds=SMALL, clock=table.clock)
    assert row.failure is not None
    assert row.failure.kind == "DataFileError"
    assert row.result is not None
    assert row.result.figures["vacuumed_files"] == 2
    assert row.saved["bytes"] > 0


def test_a_table_is_looked_at_once_before_it_is_maintained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = fragmented(tmp_path)
    expected = plan_maintenance(table.log)
    monkeypatch.setattr(sys.modules[maintain.__module__], "plan_maintenance", None)
    (row,) = maintain_fleet([table.log], thresholds=SMALL)
    assert row.result is not None
    assert row.result.plan == expected
    assert row.result.operations == ("optimize",)


def test_maintenance_that_fails_is_a_row(tmp_path: Path) -> None:
    lost = fragmented(tmp_path / "lost")
    for place in lost.root.rglob("*.parquet"):
        place.unlink()
    whole = fragmented(tmp_path / "whole")
    rows = list(maintain_fleet([lost.log, whole.log], thresholds=SMALL))
    assert rows[0].failure is not None
    assert rows[0].report is not None
    assert rows[1].failure is None
    assert whole.log.snapshot().num_files == 2


def test_a_table_that_fails_late_reports_what_was_done_before(tmp_path: Path) -> None:
    table = fragmented(tmp_path)

    def fail(_number: int, method: str, path: str, _when: str) -> None:
        if method == "create_from_stream" and "checkpoint" in path:
            raise StorageError(path, "created", "the disk is full")

    log = DeltaLog("", storage=CountingStorage(table.log.storage, fail))
    thresholds = HealthThresholds(small_files=2, commits_since_checkpoint=1)
    (row,) = maintain_fleet([log], thresholds=thresholds)
    assert row.failure is not None
    assert row.failure.kind == "StorageError"
    assert row.result is not None
    assert row.result.figures["compacted_files"] == row.saved["live_files"] + 2 == 6


def test_a_table_of_a_format_of_the_future_is_skipped(tmp_path: Path) -> None:
    table = fragmented(tmp_path)
    table.put("_delta_ops/format.json", b'{"version": 2}')
    (row,) = maintain_fleet([table.log], thresholds=SMALL)
    assert (row.failure, row.result, row.skipped) == (None, None, ("small_files",))
    assert row.report is not None
    assert row.report.figures.unsupported == ("version 2 of _delta_ops/format.json",)

"""Health: for each verdict, a table that causes it and a table that does not."""

from __future__ import annotations

import json
import math
import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.clock import DAY_MS
from delta_ops.errors import (
    InvalidRequestError,
    LogCorruptError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import (
    Finding,
    HealthReport,
    HealthThresholds,
    clean_up_log,
    create_checkpoint,
    health,
    health_json,
    maintain,
    maintain_fleet,
    plan_maintenance,
)
from delta_ops.maintenance.registry import Operation
from delta_ops.maintenance.thresholds import Measure
from delta_ops.protocol.actions import Action, DeletionVector, Protocol
from delta_ops.protocol.file_names import checksum_name, commit_name
from delta_ops.protocol.stats.file_stats import num_records, parse_stats
from delta_ops.storage import FileInfo
from tests.maintenance.aged_tables import NOW, Table, fragmented, overwritten, undescribed
from tests.support.counting_storage import CountingStorage
from tests.support.lost_commits import append, commit_to_be_lost, replace_commit
from tests.support.tables import add, metadata, remove, write_log

LOG = "_delta_log/"

STATS = '{"numRecords":10}'
MIB = 1 << 20


def looked_at(log: DeltaLog, now_ms: int = NOW, **limits: Any) -> HealthReport:
    return health(log, thresholds=HealthThresholds(**limits), clock=lambda: now_ms)


def finding(log: DeltaLog, measure: Measure, now_ms: int = NOW, **limits: Any) -> Finding:
    return next(f for f in looked_at(log, now_ms, **limits).findings if f.measure == measure)


def calls_of(log: DeltaLog) -> list[tuple[str, str]]:
    """Method and path of each store call of a health check."""
    calls: list[tuple[str, str]] = []

    def on_call(_number: int, method: str, path: str, when: str) -> None:
        if when == "before":
            calls.append((method, path))

    looked_at(DeltaLog(log.uri, storage=CountingStorage(log.storage, on_call)))
    return calls


def of_files(root: Path, *adds: Action, **changes: Any) -> DeltaLog:
    """A table of these actions, with this metadata."""
    protocol = Protocol(min_reader_version=1, min_writer_version=2)
    log = DeltaLog(root)
    create_commit(log.storage, log.log_directory, 0, [protocol, metadata(**changes), *adds])
    return log


def test_a_table_that_is_well_has_nothing_due(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.write([1, 2])
    report = looked_at(table.log)
    assert (report.verdict, report.operations) == ("ok", ())
    assert {f.verdict for f in report.findings} == {"ok"}
    assert not any(f.advice for f in report.findings)


@pytest.mark.parametrize(
    ("make", "measure", "operation"),
    [
        pytest.param(fragmented, "small_files", "optimize", id="small files"),
        pytest.param(fragmented, "commits_since_checkpoint", "checkpoint", id="commits"),
        pytest.param(fragmented, "commit_bytes_since_checkpoint", "checkpoint", id="bytes"),
        pytest.param(overwritten, "expired_tombstones", "vacuum", id="removed files"),
        pytest.param(undescribed, "stats_coverage", "repair", id="files without statistics"),
    ],
)
def test_an_operation_cures_what_is_due(
    tmp_path: Path, make: Callable[[Path], Table], measure: Measure, operation: Operation
) -> None:
    table = make(tmp_path)
    limits = {
        "small_files": 6,
        "commits_since_checkpoint": 6,
        "commit_bytes_since_checkpoint": 1000,
    }
    found = finding(table.log, measure, table.now_ms, **limits)
    assert (found.verdict, found.operation) == ("due", operation)
    assert operation in looked_at(table.log, table.now_ms, **limits).operations
    maintain(table.log, operations=[operation], clock=table.clock)
    assert finding(table.log, measure, table.now_ms, **limits).verdict == "ok"


@pytest.mark.parametrize("measure", ["small_files", "commits_since_checkpoint"])
def test_measures_below_their_threshold_are_not_due(tmp_path: Path, measure: Measure) -> None:
    table = fragmented(tmp_path)
    value = finding(table.log, measure).value
    assert isinstance(value, int)
    assert finding(table.log, measure, **{measure: value}).verdict == "due"
    assert finding(table.log, measure, **{measure: value + 1}).verdict == "ok"


def test_the_interval_of_the_table_is_the_threshold_of_commits(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.write([1], configuration={"delta.checkpointInterval": "3"})
    assert finding(table.log, "commits_since_checkpoint").threshold == 3


def test_a_small_file_that_is_alone_in_its_partition_is_not_due(tmp_path: Path) -> None:
    table = Table(tmp_path)
    for number in range(12):
        table.write([number], f"p{number}", partition_by=["p"])
    report = looked_at(table.log)
    assert (report.figures.small_files, report.figures.mergeable_files) == (12, 0)
    assert "optimize" not in report.operations


def test_expired_log_files_are_due_unless_clean_up_is_switched_off(tmp_path: Path) -> None:
    for enabled in ("true", "false"):
        table = Table(tmp_path / enabled)
        table.write([1], configuration={"delta.enableExpiredLogCleanup": enabled})
        table.write([2])
        create_checkpoint(table.log, clock=table.clock)
        table.date()
        table.pass_time(days=40)
        found = finding(table.log, "expired_log_files", table.now_ms)
        assert found.verdict == ("due" if enabled == "true" else "ok")
        assert (
            looked_at(table.log, table.now_ms).figures.deletable_log_files == 2
        )  # a commit and its checksum


def test_all_that_was_due_has_run_and_nothing_is_due(tmp_path: Path) -> None:
    table = fragmented(tmp_path, commits=12)
    table.write([1], mode="overwrite")
    table.write([2])
    table.pass_time(days=40)
    limits = {"small_files": 2, "commits_since_checkpoint": 1}
    first = looked_at(table.log, table.now_ms, **limits)
    assert set(first.operations) >= {"vacuum", "optimize", "checkpoint"}
    for _ in range(2):
        due = looked_at(table.log, table.now_ms, **limits).operations
        maintain(table.log, operations=due, clock=table.clock)
        table.date()
    assert looked_at(table.log, table.now_ms, **limits).operations == ()


def test_deleted_rows_are_their_share_of_all_rows(tmp_path: Path) -> None:
    vector = DeletionVector(
        storage_type="i", path_or_inline_dv="x", size_in_bytes=1, cardinality=4, offset=None
    )
    files = [add("a", stats=STATS, deletion_vector=vector), add("b", stats=STATS)]
    log = of_files(tmp_path, *files)
    found = finding(log, "deleted_rows")
    assert (found.value, found.verdict, found.operation) == (0.2, "due", "purge")
    assert finding(log, "deleted_rows", deleted_rows=0.3).verdict == "ok"
    assert looked_at(log).figures.files_with_vectors == 1


def test_rows_deleted_of_files_outside_the_table_are_not_purged(tmp_path: Path) -> None:
    vector = DeletionVector(
        storage_type="i", path_or_inline_dv="x", size_in_bytes=1, cardinality=4, offset=None
    )
    log = of_files(tmp_path, add("file:///elsewhere/a", stats=STATS, deletion_vector=vector))
    found = finding(log, "deleted_rows")
    assert (found.value, found.verdict) == (0, "ok")
    assert looked_at(log).figures.deleted_rows == 4


@pytest.mark.parametrize("deleted_share", [0.0, 0.3])
def test_a_purge_that_was_due_leaves_nothing_due(tmp_path: Path, deleted_share: float) -> None:
    table = Table(tmp_path / "t")
    options = {"delta.enableDeletionVectors": "true"}
    for first in (0, 10, 20):
        table.write(range(first, first + 10), configuration=options)
    da.delete(table.log, "id IN (1, 2, 3, 11, 12, 13, 14, 21, 22)")
    limits = {"deleted_rows": 0.3, "small_files": 100}
    before = sorted(row["id"] for row in table.rows())
    assert looked_at(table.log, table.now_ms, **limits).operations == ("purge",)
    done = maintain(
        table.log,
        operations=["purge"],
        options={"purge": {"deleted_share": deleted_share}},
        clock=table.clock,
    )
    assert done.figures["purged_files"] == (2 if deleted_share else 3)
    assert done.saved["live_files"] == (1 if deleted_share else 2)
    assert looked_at(table.log, table.now_ms, **limits).operations == ()
    assert sorted(row["id"] for row in table.rows()) == before


def test_statistics_cover_the_files_that_say_how_many_rows_they_have(tmp_path: Path) -> None:
    files = [add("a", stats=STATS), add("b"), add("c", stats="{}"), add("d", stats="junk")]
    log = of_files(tmp_path, *files)
    assert finding(log, "stats_coverage").value == 0.25
    assert finding(log, "stats_coverage").verdict == "due"
    assert finding(log, "stats_coverage", stats_coverage=0.25).verdict == "ok"


def test_files_outside_the_table_wait_for_no_statistics(tmp_path: Path) -> None:
    log = of_files(tmp_path, add("a", stats=STATS), add("file:///elsewhere/b"))
    assert looked_at(log).figures.files_with_stats == 1
    assert finding(log, "stats_coverage").verdict == "ok"


@pytest.mark.parametrize(
    ("sizes", "verdict"),
    [
        pytest.param([100, *[1] * 19], "ok", id="all of it would fit into one file"),
        pytest.param([500 * MIB, *[MIB] * 19], "look", id="one partition has nearly all bytes"),
        pytest.param([500 * MIB] * 20, "ok", id="partitions are even"),
    ],
)
def test_partition_skew(tmp_path: Path, sizes: list[int], verdict: str) -> None:
    files = [
        add(f"f{i}", size=size, stats=STATS, partition_values={"p": str(i)})
        for i, size in enumerate(sizes)
    ]
    log = of_files(tmp_path, *files, partition_columns=("p",))
    assert finding(log, "partition_skew").verdict == verdict


def test_a_file_of_many_times_the_target_is_skewed(tmp_path: Path) -> None:
    log = of_files(tmp_path, add("a", size=2000 * MIB, stats=STATS))
    found = finding(log, "file_size_skew")
    assert (found.value, found.verdict) == (2000 / 128, "look")
    assert finding(log, "file_size_skew", file_size_skew=20.0).verdict == "ok"


@pytest.mark.parametrize(
    ("log_days", "file_days", "measure", "verdict"),
    [
        pytest.param(30, 7, "promised_time_travel", "ok", id="the defaults"),
        pytest.param(2, 7, "promised_time_travel", "look", id="the log is kept for less"),
        pytest.param(30, 2, "promised_time_travel", "look", id="removed files are kept for less"),
        pytest.param(30, 7, "unreachable_files", "ok", id="files go before the log does"),
        pytest.param(7, 30, "unreachable_files", "look", id="files outlast the log"),
    ],
)
def test_retention(
    tmp_path: Path, log_days: int, file_days: int, measure: Measure, verdict: str
) -> None:
    retention = {
        "delta.logRetentionDuration": f"interval {log_days} days",
        "delta.deletedFileRetentionDuration": f"interval {file_days} days",
    }
    log = of_files(tmp_path, configuration=retention)
    assert finding(log, measure).verdict == verdict
    promised = looked_at(log).figures.promised_ms
    assert promised == min(log_days, file_days) * DAY_MS


@pytest.mark.parametrize(
    ("age_days", "verdict"),
    [
        pytest.param(3, "look", id="cleaned up to three days ago"),
        pytest.param(8, "ok", id="cleaned up to eight days ago"),
    ],
)
def test_versions_that_are_promised_and_gone(tmp_path: Path, age_days: int, verdict: str) -> None:
    table = Table(tmp_path)
    table.write([1])
    table.write([2])
    create_checkpoint(table.log, clock=table.clock)
    table.date()
    (tmp_path / "_delta_log" / f"{0:020d}.json").unlink()
    table.pass_time(days=age_days)
    report = looked_at(table.log, table.now_ms)
    assert report.figures.earliest_version == 1
    assert report.figures.readable_ms == age_days * DAY_MS
    assert finding(table.log, "readable_time_travel", table.now_ms).verdict == verdict


def test_a_feature_that_we_cannot_write_keeps_operations_away(tmp_path: Path) -> None:
    protocol = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=("deletionVectors",),
        writer_features=("deletionVectors", "inCommitTimestamp-preview"),
    )
    log = write_log(tmp_path, [[add(f"f{i}") for i in range(20)], [protocol]])
    report = looked_at(log)
    assert finding(log, "features").value == ("inCommitTimestamp-preview",)
    assert finding(log, "small_files").verdict == "due"
    assert (report.verdict, report.operations) == ("due", ())


def test_figures_follow_replay_over_a_checkpoint(tmp_path: Path) -> None:
    first = [add("a", size=5, stats=STATS), add("b", size=7, stats=STATS)]
    log = write_log(tmp_path, [first, [remove("a", size=5)], [add("c", size=1)]])
    write_checkpoint(log.snapshot(1), now_ms=2)
    figures = looked_at(log, 2 + DAY_MS).figures
    assert (figures.num_files, figures.size_bytes, figures.num_rows) == (2, 8, 10)
    assert (figures.tombstones, figures.tombstone_bytes) == (1, 5)
    assert (figures.checkpoint_version, figures.commits_since_checkpoint) == (1, 1)
    last = tmp_path / "_delta_log" / f"{2:020d}.json"
    assert figures.commit_bytes_since_checkpoint == last.stat().st_size
    names = [p for p in (tmp_path / "_delta_log").iterdir() if not p.name.startswith(".")]
    assert figures.log_files == len(names)
    assert figures.log_bytes == sum(p.stat().st_size for p in names)


def test_one_pass_over_the_log_and_no_listing_of_data(tmp_path: Path) -> None:
    table = fragmented(tmp_path)
    create_checkpoint(table.log, clock=table.clock)
    table.write([7], "a")
    for version in range(6):
        (tmp_path / "_delta_log" / checksum_name(version)).unlink()
    table.date()
    calls = calls_of(table.log)
    assert [call for call in calls if call[0].startswith("list")] == [
        ("list_from", "_delta_log"),
        ("list_from", "_delta_ops/indexes"),
        ("list_from", "_delta_ops/refs"),
    ]
    assert {path for _, path in calls if not path.startswith("_delta_log")} == {
        "_delta_ops/format.json",
        "_delta_ops/indexes",
        "_delta_ops/planning/hint.json",
        "_delta_ops/refs",
        f"_delta_ops/refs/{1:020}.json",  # a listing may show it late
    }
    assert [path.rpartition(".")[2] for method, path in calls if method == "read"] == [
        "json",
        "crc",
        "parquet",
        "json",  # of the format
        "json",  # of the refs
        "json",  # of the scan cache
    ]
    assert len(calls) == 9


def test_on_a_disk_commits_before_the_checkpoint_are_compared_with_their_checksums(
    tmp_path: Path,
) -> None:
    table = fragmented(tmp_path)
    create_checkpoint(table.log, clock=table.clock)
    table.write([7], "a")
    read = [path.removeprefix(LOG) for method, path in calls_of(table.log) if method == "read"]
    named = [name(version) for version in range(7) for name in (commit_name, checksum_name)]
    assert sorted(n for n in read if n in named) == sorted(named)


def test_in_a_store_only_commits_since_the_checkpoint_are_compared() -> None:
    log = DeltaLog(f"memory://{uuid.uuid4()}")
    for number in range(3):
        da.write(log, pa.table({"id": [number]}))
    create_checkpoint(log)
    da.write(log, pa.table({"id": [3]}))
    read = {path.removeprefix(LOG) for _, path in calls_of(log)}
    before = {name(version) for version in range(3) for name in (commit_name, checksum_name)}
    assert not read & before
    assert {commit_name(3), checksum_name(3)} <= read


@pytest.mark.parametrize("place", ["the last", "since the checkpoint", "before the checkpoint"])
def test_a_lost_commit_is_for_a_person_until_its_checksum_is_gone(
    tmp_path: Path, place: str
) -> None:
    log = of_files(tmp_path)
    version = commit_to_be_lost(log)
    replace_commit(log, version, add("theirs", size=3, stats=STATS))
    if place != "the last":
        append(log, "later")
    if place == "before the checkpoint":
        create_checkpoint(log)
    found = finding(log, "lost_commits")
    assert (found.value, found.verdict, found.operation) == (("1",), "look", None)
    assert f"delete {checksum_name(1)}" in found.advice
    parsed = json.loads(json.dumps(health_json(looked_at(log))))
    assert [lost["version"] for lost in parsed["figures"]["lost_commits"]] == [1]

    (tmp_path / "_delta_log" / checksum_name(1)).unlink()
    assert finding(log, "lost_commits").verdict == "ok"
    assert finding(log, "lost_commits").advice == ""


def test_maintenance_leaves_a_lost_commit_to_a_person(tmp_path: Path) -> None:
    log = of_files(tmp_path)
    replace_commit(log, commit_to_be_lost(log))
    (row,) = maintain_fleet([log])
    assert [each for each in row.left if "rerun the operation that committed version 1" in each]


def test_few_of_the_removed_files_are_looked_for_by_name(tmp_path: Path) -> None:
    removed = [remove(f"f{i}", deletion_timestamp=1) for i in range(1000)]
    log = write_log(tmp_path, [[], removed])
    assert finding(log, "expired_tombstones").verdict == "ok"
    assert looked_at(log).figures.expired_tombstones == 1000
    requests: list[str] = []

    class CountingReads(CountingStorage):
        def find(self, paths: Iterable[str]) -> Iterator[FileInfo]:
            requests.extend(paths)
            return super().find(requests)

    looked_at(DeltaLog("", storage=CountingReads(log.storage, lambda *_: None)))
    assert 1 <= len(requests) <= 16


OLD_VECTOR = DeletionVector(
    storage_type="u",
    path_or_inline_dv="ab^-aqEH.-t@S}K{vb[*k^",
    offset=1,
    size_in_bytes=36,
    cardinality=1,
)
OLD_VECTOR_PATH = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


def with_new_vector(root: Path, **of_new: Any) -> DeltaLog:
    """A file with no deletion vector, then a vector, then another vector, long ago."""
    removed = {"deletion_timestamp": 1}
    new = replace(OLD_VECTOR, **of_new)
    log = write_log(
        root,
        [
            [add("f")],
            [remove("f", **removed), add("f", deletion_vector=OLD_VECTOR)],
            [
                remove("f", deletion_vector=OLD_VECTOR, **removed),
                add("f", deletion_vector=new),
            ],
        ],
    )
    for place in (root / "_delta_log").iterdir():
        os.utime(place, (1, 1))
    return log


def put_old(root: Path, path: str) -> None:
    place = root / path
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(b"old")
    os.utime(place, (1, 1))


def test_a_file_that_lives_on_with_another_deletion_vector_is_not_waiting(tmp_path: Path) -> None:
    log = with_new_vector(tmp_path, path_or_inline_dv="cd^-aqEH.-t@S}K{vb[*k^")
    put_old(tmp_path, "f")
    assert looked_at(log).figures.expired_tombstones == 2
    assert finding(log, "expired_tombstones").verdict == "ok"
    assert "vacuum" not in plan_maintenance(log, clock=lambda: NOW).operations
    put_old(tmp_path, OLD_VECTOR_PATH)
    assert finding(log, "expired_tombstones").verdict == "due"
    assert "vacuum" in plan_maintenance(log, clock=lambda: NOW).operations


def test_a_file_of_vectors_with_one_needed_vector_is_not_waiting(tmp_path: Path) -> None:
    log = with_new_vector(tmp_path, offset=50)
    put_old(tmp_path, "f")
    put_old(tmp_path, OLD_VECTOR_PATH)
    assert finding(log, "expired_tombstones").verdict == "ok"


def test_log_files_that_clean_up_would_leave_are_not_due(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.write([1], configuration={"delta.enableInCommitTimestamps": "true"})
    table.write([2])
    create_checkpoint(table.log, clock=table.clock)
    for place in (tmp_path / "_delta_log").iterdir():
        os.utime(place, (1, 1))  # times as in a copy of the table; the commits have the real times
    table.pass_time(days=20)
    assert clean_up_log(table.log, dry_run=True, clock=table.clock).plan.files == ()
    assert finding(table.log, "expired_log_files", table.now_ms).verdict == "ok"
    table.pass_time(days=20)
    planned = clean_up_log(table.log, dry_run=True, clock=table.clock).plan.files
    assert finding(table.log, "expired_log_files", table.now_ms).value == len(planned) > 0


@pytest.mark.parametrize(
    ("break_it", "error"),
    [
        pytest.param(lambda log: log.unlink(), TableNotFoundError, id="its log is gone"),
        pytest.param(lambda log: log.write_text("{"), LogCorruptError, id="its log is corrupt"),
    ],
)
def test_a_broken_table_is_an_error(
    tmp_path: Path, break_it: Callable[[Path], None], error: type[Exception]
) -> None:
    log = of_files(tmp_path)
    break_it(tmp_path / "_delta_log" / f"{0:020d}.json")
    with pytest.raises(error):
        health(log)


def test_a_retention_that_cannot_be_read_is_an_error_and_no_default(tmp_path: Path) -> None:
    log = of_files(tmp_path, configuration={"delta.deletedFileRetentionDuration": "a while"})
    with pytest.raises(InvalidRequestError, match="deletedFileRetentionDuration"):
        health(log)


def test_a_feature_that_we_cannot_open_is_an_error(tmp_path: Path) -> None:
    protocol = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=("catalogManaged",),
        writer_features=("catalogManaged",),
    )
    log = write_log(tmp_path, [[protocol]])
    with pytest.raises(UnsupportedFeatureError, match="catalogManaged"):
        health(log)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("small_files", -1),
        ("small_files", 1.5),
        ("deleted_rows", "a"),
        ("deleted_rows", None),
        ("partition_skew", math.inf),  # JSON cannot hold it
    ],
)
def test_a_threshold_that_is_none_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidRequestError, match=f"threshold {name} must be"):
        HealthThresholds(**{name: value})


def test_findings_are_shown_in_the_order_of_their_measures(tmp_path: Path) -> None:
    report = looked_at(of_files(tmp_path))
    assert tuple(f.measure for f in report.findings) == get_args(Measure)


def test_json_says_all_that_the_report_does(tmp_path: Path) -> None:
    table = fragmented(tmp_path)
    report = looked_at(table.log, small_files=2)
    parsed = json.loads(json.dumps(health_json(report)))
    assert (parsed["table"], parsed["version"]) == (str(tmp_path), 5)
    assert (parsed["verdict"], parsed["operations"]) == ("due", ["optimize"])
    assert [f["measure"] for f in parsed["findings"]] == [f.measure for f in report.findings]
    assert parsed["figures"]["protocol"]["min_writer_version"] == 2


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{}",
        "junk",
        '"text"',
        '{"numRecords":3}',
        '{"minValues":{"numRecords":5}}',
        '{"numRecords":-1}',
        '{"numRecords":1.5}',
        '{"numRecords":true}',
        '{"numRecords":null}',
        '{"numRecords":9223372036854775808}',
        '{"numRecords":7,"maxValues":{"a":{"b":[1]}}}',
    ],
)
def test_num_records_is_what_the_statistics_say(text: str | None) -> None:
    parsed = parse_stats(text)
    assert num_records(text) == (parsed.num_records if parsed else None)

"""Scan cache: stale, damaged, half written or of another table, it costs time and never a file."""

from __future__ import annotations

import json
import pickle
import shutil
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.ddl import NewColumn, add_columns
from delta_ops.log import plan_scan
from delta_ops.log.commit_file import create_commit
from delta_ops.log.last_checkpoint import load_hints, tag_scan_cache
from delta_ops.log.scan_cache.hint import HINT_PATH, PLANNING_DIRECTORY, digest, load_cache_hint
from delta_ops.log.scan_cache_write.write import write_scan_cache
from delta_ops.maintenance import clean_up_log, create_checkpoint, vacuum
from delta_ops.protocol.file_names import LAST_CHECKPOINT, commit_name
from delta_ops.protocol.schema import LONG, STRING, StructField, StructType
from delta_ops.storage import Storage, open_storage
from tests.arrow.foreign_table import create
from tests.log.test_scan_cache import (
    CONDITIONS,
    append,
    cache,
    file_of,
    files_in,
    log,
    template,
    uncached,
    uses_cache,
    validate_equal,
    without_tag,
)
from tests.support.counting_storage import CountingStorage
from tests.support.crash_states import crash_states
from tests.support.mutations import flip, truncate
from tests.support.tables import write_log
from tests.support.tiers import seeded

__all__ = ["log", "template"]  # fixtures

HINT = f"_delta_log/{LAST_CHECKPOINT}"
DAY_MS = 86_400_000


def cache_path(log: DeltaLog) -> str:
    hint = load_cache_hint(log.storage, log.log_directory)
    assert hint is not None
    return hint.path


def drop_tag(log: DeltaLog) -> None:
    log.storage.replace(HINT, without_tag(log.storage.read(HINT)))


def replace_by(log: DeltaLog, path: str, change: Callable[[bytes], bytes]) -> None:
    content = log.storage.read(path)
    log.storage.delete(path)
    log.storage.create(path, change(content))


def _gone(log: DeltaLog) -> None:
    log.storage.delete(cache_path(log))


def _cut_off(log: DeltaLog) -> None:
    replace_by(log, cache_path(log), lambda content: content[:100])


def _empty(log: DeltaLog) -> None:
    replace_by(log, cache_path(log), lambda _: b"")


def _damaged_footer(log: DeltaLog) -> None:
    path = f"{cache_path(log)}.footer.zst"
    replace_by(log, path, lambda content: content[:-60] + b"\0" + content[-59:])


def _damaged_groups(log: DeltaLog) -> None:
    replace_by(log, cache_path(log), lambda content: b"\0" * len(content))


def _footer_gone(log: DeltaLog) -> None:
    log.storage.delete(f"{cache_path(log)}.footer.zst")


def _half_footer(log: DeltaLog) -> None:
    path = f"{cache_path(log)}.footer.zst"
    replace_by(log, path, lambda content: content[: len(content) // 2])


def _damaged_hint(log: DeltaLog) -> None:
    drop_tag(log)
    replace_by(log, HINT_PATH, lambda content: content.replace(b'"version":1', b'"version":0'))


def _unknown_format(log: DeltaLog) -> None:
    drop_tag(log)
    replace_by(log, HINT_PATH, lambda content: content.replace(b'"format":1', b'"format":2'))


def _half_hint(log: DeltaLog) -> None:
    drop_tag(log)
    replace_by(log, HINT_PATH, lambda content: content[: len(content) // 2])


def _other_commit(log: DeltaLog) -> None:
    """The log was set back, and another commit has the cached version."""
    files = [file_of(f"p=k05/{n}.parquet", "k05", n) for n in range(40, 45)]
    log.storage.delete(f"_delta_log/{commit_name(1)}")
    create_commit(log.storage, log.log_directory, 1, files)


def _lost_commit(log: DeltaLog) -> None:
    append(log, "p=k03/new.parquet")
    create_checkpoint(log)
    log.storage.delete(f"_delta_log/{commit_name(1)}")


def _other_columns(log: DeltaLog) -> None:
    add_columns(log, [NewColumn(name="more", data_type="long")])


def _other_table(log: DeltaLog) -> None:
    lines = map(json.loads, log.storage.read(f"_delta_log/{commit_name(0)}").splitlines())
    stored = next(line for line in lines if "metaData" in line)
    stored["metaData"]["id"] = "1" * 36
    version = log.snapshot().version + 1
    line = json.dumps(stored).encode() + b"\n"
    log.storage.create(f"_delta_log/{commit_name(version)}", line)


FAULTS = [
    pytest.param(_gone, "its file is gone", id="the file is gone"),
    pytest.param(_cut_off, "its file cannot be read", id="the file is cut off"),
    pytest.param(_empty, "its file cannot be read", id="the file is empty"),
    pytest.param(_footer_gone, "its file is gone", id="the footer is gone"),
    pytest.param(_half_footer, "its footer is damaged", id="the footer is half"),
    pytest.param(_damaged_footer, "its footer is damaged", id="the footer is damaged"),
    pytest.param(_damaged_groups, "its file is damaged", id="the groups are damaged"),
    pytest.param(_damaged_hint, "its hint is damaged", id="the hint is damaged"),
    pytest.param(_unknown_format, "its hint is damaged", id="the format is unknown"),
    pytest.param(_half_hint, "its hint is damaged", id="the hint is half"),
    pytest.param(_other_commit, "does not have the commit", id="the log was set back"),
    pytest.param(_lost_commit, "does not have the commit", id="the commit was cleaned up"),
    pytest.param(_other_columns, "columns have changed", id="other columns"),
    pytest.param(_other_table, "another table", id="another table id"),
]


@pytest.mark.parametrize(("break_it", "reason"), FAULTS)
def test_a_cache_that_cannot_be_used_is_reported_and_the_log_is_read(
    log: DeltaLog, break_it: Callable[[DeltaLog], None], reason: str
) -> None:
    break_it(log)
    for predicate in CONDITIONS:
        plan = plan_scan(log.snapshot(), predicate)
        assert files_in(plan) == files_in(uncached(log.snapshot(), predicate))
        assert not uses_cache(plan)
        (problem,) = plan.problems
        assert reason in problem
        assert "operation scan_cache" in problem
        assert problem in str(plan)


def test_a_cache_of_a_table_that_was_created_again_is_not_used(
    log: DeltaLog, tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / "table" / "_delta_log")
    files = [file_of(f"p=k03/{n}.parquet", "k03", n) for n in range(3)]
    again = write_log(tmp_path / "table", [[each] for each in files])
    create_checkpoint(again)
    for predicate in (col("id") >= 15, col("id") < 5):
        validate_equal(again.snapshot(), predicate, is_used=False)


def test_without_the_hint_there_is_no_cache_and_no_note(log: DeltaLog) -> None:
    drop_tag(log)
    log.storage.delete(HINT_PATH)
    plan = plan_scan(log.snapshot(), CONDITIONS[0])
    assert (uses_cache(plan), plan.problems) == (False, ())


@pytest.mark.parametrize("place", ["file", "footer", "hint", "tag"])
def test_a_byte_that_changed_anywhere_never_changes_a_plan(
    log: DeltaLog, place: Literal["file", "footer", "hint", "tag"]
) -> None:
    _mutate_often(log, place, 4)


@pytest.mark.long
@pytest.mark.parametrize("place", ["file", "footer", "hint", "tag"])
def test_many_bytes_that_changed_anywhere_never_change_a_plan(
    log: DeltaLog, place: Literal["file", "footer", "hint", "tag"]
) -> None:
    _mutate_often(log, place, 3000)


def _mutate_often(log: DeltaLog, place: str, times: int) -> None:
    append(log, "p=k03/new.parquet")
    checked = CONDITIONS[:2]
    expected = [files_in(uncached(log.snapshot(), each)) for each in checked]
    file = cache_path(log)
    path = {"file": file, "footer": f"{file}.footer.zst", "hint": HINT_PATH, "tag": HINT}[place]
    if place == "hint":
        drop_tag(log)
    content = log.storage.read(path)
    random, reported = seeded(7), 0
    for number in range(times):
        changed = (truncate if number % 4 == 3 else flip)(content, random)
        replace_by(log, path, lambda _, changed=changed: changed)  # type: ignore[misc]
        for predicate, files in zip(checked, expected, strict=True):
            plan = plan_scan(log.snapshot(), predicate)
            assert files_in(plan) == files, changed
            reported += bool(plan.problems)
    # A damaged tag is no tag: then the hint is looked up.
    assert reported or place == "tag"


@pytest.mark.full
def test_a_writer_that_dies_leaves_a_table_with_equal_plans_and_a_rerun_finishes(
    log: DeltaLog, tmp_path: Path
) -> None:
    append(log, "p=k03/new.parquet")
    create_checkpoint(log)
    predicate = CONDITIONS[0]
    expected = files_in(uncached(log.snapshot(), predicate))
    numbers = count()

    def fresh() -> Storage:
        return DeltaLog(shutil.copytree(log.uri, tmp_path / f"run{next(numbers)}")).storage

    def run(storage: Storage) -> None:
        write_scan_cache(DeltaLog("", storage=storage).snapshot(), group_rows=4)

    states = 0
    for where, storage in crash_states(fresh, run):
        states += 1
        left = DeltaLog("", storage=storage)
        plan = plan_scan(left.snapshot(), predicate)
        # By the old cache or the new cache.
        assert (files_in(plan), uses_cache(plan)) == (expected, True), where
        run(storage)
        hint = load_cache_hint(left.storage, left.log_directory)
        assert hint is not None
        assert hint.version == 2, where
        plan = plan_scan(left.snapshot(), predicate)
        assert (files_in(plan), uses_cache(plan)) == (expected, True), where
    assert states >= 4  # nothing, the file, its footer, the tag


def test_a_writer_that_dies_between_the_hint_and_its_tag_leaves_two_usable_caches(
    log: DeltaLog,
) -> None:
    append(log, "p=k03/new.parquet")
    create_checkpoint(log)
    tag = log.storage.read(HINT)
    write_scan_cache(log.snapshot(), group_rows=4)
    for content in (log.storage.read(HINT), tag, without_tag(tag)):
        log.storage.replace(HINT, content)
        for predicate in CONDITIONS:
            validate_equal(log.snapshot(), predicate, is_used=True)


def test_two_writers_at_a_time_leave_a_cache_that_is_used(log: DeltaLog) -> None:
    append(log, "p=k03/new.parquet")
    create_checkpoint(log)
    snapshots = [log.snapshot() for _ in range(3)]
    threads = [
        threading.Thread(target=write_scan_cache, args=[each], kwargs={"group_rows": 4})
        for each in snapshots
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for predicate in CONDITIONS:
        validate_equal(log.snapshot(), predicate, is_used=True)


def test_a_slow_writer_does_not_replace_the_cache_of_a_later_version(log: DeltaLog) -> None:
    slow = log.snapshot()
    append(log, "p=k03/new.parquet")
    cache(log)
    write_scan_cache(slow, group_rows=4)
    hint = load_cache_hint(log.storage, log.log_directory)
    assert hint is not None
    assert hint.version == 2
    validate_equal(log.snapshot(), CONDITIONS[0], is_used=True)


@pytest.mark.some_cases(4)
@pytest.mark.parametrize(
    "change",
    [
        {"version": -1},
        {"version": "x"},
        {"size": 5},
        {"size": 1 << 60},
        {"footerSize": -7},
        {"footerSize": 1 << 60},
        {"file": "../../../etc/passwd"},
        {"file": "hint.json"},
        {"commitSize": None},
        {"footerDigest": digest(b"")},
    ],
    ids=str,
)
@pytest.mark.parametrize("place", ["hint", "tag"])
def test_a_hint_that_was_made_up_is_not_believed(
    log: DeltaLog, change: dict[str, object], place: str
) -> None:
    body = json.loads(log.storage.read(HINT_PATH))
    del body["digest"]
    body |= change
    body["digest"] = digest(json.dumps(body, sort_keys=True).encode())
    text = json.dumps(body)
    drop_tag(log)
    log.storage.replace(HINT_PATH, text.encode())
    if place == "tag":
        tag_scan_cache(log.storage, log.log_directory, text)
    validate_equal(log.snapshot(), CONDITIONS[0], is_used=False)


def test_a_snapshot_with_an_opened_cache_can_be_pickled(log: DeltaLog) -> None:
    snapshot = pickle.loads(pickle.dumps(log.snapshot()))
    validate_equal(snapshot, CONDITIONS[0], is_used=True)


def test_a_checkpoint_keeps_the_tag(log: DeltaLog) -> None:
    append(log, "p=k03/new.parquet")
    create_checkpoint(log)
    hints = load_hints(log.storage, log.log_directory)
    assert hints is not None
    assert hints.version == 2
    assert hints.scan_cache == load_cache_hint(log.storage, log.log_directory)


def test_vacuum_and_log_clean_up_leave_the_cache_and_are_not_misled_by_it(tmp_path: Path) -> None:
    properties = {"delta.logRetentionDuration": "interval 0 days"}
    for number in range(4):
        rows = pa.table({"id": [number, number + 10], "p": ["a", "b"]})
        da.write(tmp_path, rows, partition_by=["p"], configuration=properties)
    log = DeltaLog(tmp_path)
    cache(log, group_rows=2)
    da.delete(log, col("id") == 1)
    create_checkpoint(log)
    removed = [each.path for each in log.snapshot(3).add_files()]
    later_ms = log.storage.stat(HINT_PATH).modified_ms + 30 * DAY_MS
    vacuum(log, clock=lambda: later_ms)
    assert not all((tmp_path / path).exists() for path in removed)
    validate_equal(log.snapshot(), col("p") == "a", is_used=True)
    clean_up_log(log, clock=lambda: later_ms)
    assert not (tmp_path / "_delta_log" / commit_name(3)).exists()  # the cached version
    plan = plan_scan(log.snapshot(), col("p") == "a")
    assert files_in(plan) == files_in(uncached(log.snapshot(), col("p") == "a"))
    assert (tmp_path / cache_path(log)).exists()
    assert da.to_table(log, predicate="p = 'b'").num_rows == 4


Call = tuple[str, str]


def calls_of_a_plan(root: Path, wait: Callable[[str, str], None] | None = None) -> list[Call]:
    """The calls that open a table and plan a condition, with the bytes of ranges."""
    calls: list[Call] = []

    def on_call(_: int, method: str, path: str, moment: str) -> None:
        if moment == "before":
            calls.append((method, path.partition("/")[0]))
            if wait is not None:
                wait(method, path)

    storage = CountingStorage(open_storage(root), on_call)
    plan = plan_scan(DeltaLog(root, storage=storage).snapshot(), col("p") == "k03")
    assert uses_cache(plan)
    assert len(plan) == 10  # enough to look for indexes
    return calls


def table_of(root: Path, *, files: int, versions: int) -> DeltaLog:
    """Partitions of ten files, the last ones added in commits of their own."""
    adds = [
        file_of(f"p=k{number // 10:02}/{number}.parquet", f"k{number // 10:02}", number % 97)
        for number in range(files)
    ]
    first = files - versions + 1
    schema = StructType((StructField("id", LONG), StructField("p", STRING)))
    log = create(root, schema, adds[:first], partition_by=("p",), features=())
    for version, each in enumerate(adds[first:], 1):
        create_commit(log.storage, log.log_directory, version, [each])
    cache(log, group_rows=1024)
    return log


@pytest.mark.parametrize(
    ("files", "versions"),
    [
        pytest.param(3000, 10, id="few"),
        pytest.param(3000, 150, id="many versions"),
        pytest.param(12_000, 10, id="many files"),
        pytest.param(12_000, 10_000, id="10,000 versions", marks=pytest.mark.full),
        pytest.param(200_000, 10, id="200,000 files", marks=pytest.mark.long),
    ],
)
def test_a_plan_at_the_cached_version_takes_four_calls_in_three_rounds(
    tmp_path: Path, files: int, versions: int
) -> None:
    table_of(tmp_path, files=files, versions=versions)
    assert sorted(calls_of_a_plan(tmp_path)) == [
        ("list_from", "_delta_log"),
        ("read", "_delta_log"),
        ("read", "_delta_ops"),
        ("read_ranges", "_delta_ops"),
    ]
    together = threading.Barrier(2, timeout=60)

    def wait(method: str, path: str) -> None:
        # The listing and the footer are read at the same time; the row groups afterwards.
        if method == "list_from" or (method == "read" and path.startswith(PLANNING_DIRECTORY)):
            together.wait()

    assert len(calls_of_a_plan(tmp_path, wait)) == 4


def test_a_table_without_a_cache_makes_no_call_for_it(tmp_path: Path) -> None:
    log = write_log(tmp_path, [[file_of(f"{n}", "a", n)] for n in range(3)])
    create_checkpoint(log)
    paths: list[str] = []
    storage = CountingStorage(open_storage(tmp_path), lambda _n, _m, path, _t: paths.append(path))
    plan_scan(DeltaLog(tmp_path, storage=storage).snapshot(), col("id") > 25)
    assert paths
    assert not [path for path in paths if path.startswith(PLANNING_DIRECTORY)]

"""Sidecars: which sidecars a new checkpoint keeps, and whether they are still right."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow.parquet as pq
import pytest

from delta_ops import DeltaLog
from delta_ops.log.checkpoint_write import v2
from delta_ops.log.checkpoint_write.v2 import KEY_HASH, KnownSidecar, fold
from delta_ops.log.checkpoint_write.write import WrittenCheckpoint, write_checkpoint
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.actions import DeletionVector
from delta_ops.storage import FileInfo
from tests.log.test_checkpoint_kinds import DAY, SIDECARS, by_deltalake, state, table
from tests.support.counting_storage import CountingStorage
from tests.support.gate import PATIENCE_S
from tests.support.tables import add, live_paths, metadata, remove

ROWS = 10
VECTOR = DeletionVector(
    storage_type="u", path_or_inline_dv="ab^-aqEH.-t@S}K{vb[*k^", size_in_bytes=4, cardinality=1
)


@pytest.fixture(autouse=True)
def small_sidecars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(v2, "SIDECAR_ROWS", ROWS)


def files(first: int, count: int, **changes: Any) -> list[Any]:
    return [
        add(f"p=a%20b/{i}.parquet", partition_values={"p": "a b"}, **changes)
        for i in range(first, first + count)
    ]


def checkpointed(root: Path, commits: list[list[Any]], **properties: str) -> DeltaLog:
    """A table and its V2 checkpoint."""
    log = table(root, commits, SIDECARS, **properties)
    write_checkpoint(log.snapshot(), now_ms=0)
    return log


def again(
    log: DeltaLog, actions: Sequence[Any], *, now_ms: int = 0, compare_deltalake: bool = True
) -> tuple[WrittenCheckpoint, set[str], set[str]]:
    """One more commit and its checkpoint, equal to the replay; sidecars before and after.

    Args:
        ask_deltalake: Not where one file has two spellings, which are two files to it.
    """
    before = log.snapshot()
    create_commit(log.storage, log.log_directory, before.version + 1, actions)
    expected = state(log.snapshot())
    foreign = by_deltalake(Path(log.uri)) if compare_deltalake else None
    written = write_checkpoint(log.snapshot(), now_ms=now_ms)
    assert written is not None
    after = log.snapshot()
    assert after.commits_since_checkpoint == 0
    if not now_ms:
        assert state(after) == expected
    if compare_deltalake:
        assert by_deltalake(Path(log.uri)) == foreign
    return written, named(before), named(after)


def named(snapshot: Any) -> set[str]:
    """The sidecars of a version's checkpoint."""
    assert snapshot.opened_checkpoint is not None
    return {info.path.rpartition("/")[2] for info in snapshot.opened_checkpoint.files}


def rows_of(log: DeltaLog, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(
        Path(log.uri) / "_delta_log" / "_sidecars" / name
    ).to_pylist()
    return rows


def test_new_files_leave_full_sidecars_as_they_are(tmp_path: Path) -> None:
    log = checkpointed(tmp_path, [files(0, 40)])
    written, before, after = again(log, files(100, 3))
    assert len(before) == 4
    assert before < after
    assert (written.num_reused, written.num_files, written.num_add_files) == (4, 6, 43)
    (new,) = after - before
    assert len(rows_of(log, new)) == 3


def test_only_hashes_of_remaining_files_are_read(tmp_path: Path) -> None:
    log = checkpointed(tmp_path, [files(0, 40)])
    create_commit(log.storage, log.log_directory, 1, files(100, 3))
    calls: list[tuple[str, str]] = []

    def on_call(_number: int, method: str, path: str, moment: str) -> None:
        if moment == "before" and "_sidecars" in path:
            calls.append((method, path))

    counted = DeltaLog("", storage=CountingStorage(log.storage, on_call))
    write_checkpoint(counted.snapshot(), now_ms=0)
    per_sidecar = sorted(method for method, path in calls if path == calls[0][1])
    assert per_sidecar == ["open_input", "read_ranges", "stat"]  # footer, hashes, still there
    assert len(calls) == 4 * 3 + 1


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    "change",
    [
        pytest.param([remove("p=a%20b/12.parquet", deletion_timestamp=1)], id="a file is removed"),
        pytest.param(
            [remove("p=a b/12.parquet", deletion_timestamp=1)], id="it is spelt otherwise"
        ),
        pytest.param(files(12, 1, stats='{"numRecords":7}'), id="it gets other statistics"),
        pytest.param(
            [
                remove("p=a%20b/12.parquet", deletion_timestamp=1),
                *files(12, 1, deletion_vector=VECTOR),
            ],
            id="it gets a deletion vector",
        ),
    ],
)
def test_a_sidecar_is_written_anew_if_one_of_its_files_changes(
    tmp_path: Path, change: list[Any]
) -> None:
    log = checkpointed(tmp_path, [files(0, 40)])
    written, before, after = again(
        log, change, compare_deltalake=change[0].path != "p=a b/12.parquet"
    )
    assert len(before & after) == written.num_reused == 3
    (gone,) = before - after
    assert "p=a%20b/12.parquet" in {row["add"]["path"] for row in rows_of(log, gone)}


def test_a_file_that_comes_back_leaves_its_tombstone(tmp_path: Path) -> None:
    gone = [remove(f"p=a%20b/{i}.parquet", deletion_timestamp=1) for i in (3, 4)]
    log = checkpointed(tmp_path, [files(0, 10), gone])
    assert len(log.snapshot().tombstones()) == 2
    again(log, files(3, 1))
    assert log.snapshot().tombstones()["path"].to_pylist() == ["p=a%20b/4.parquet"]


def test_expired_tombstones_go_and_the_others_stay(tmp_path: Path) -> None:
    log = checkpointed(
        tmp_path,
        [
            files(0, 10),
            [remove(f"p=a%20b/{i}.parquet", deletion_timestamp=i * DAY) for i in (1, 5)],
        ],
    )
    _, before, _ = again(log, [], now_ms=7 * DAY)
    assert len(log.snapshot().tombstones()) == 2
    written, before, after = again(log, [], now_ms=9 * DAY)
    assert log.snapshot().tombstones()["path"].to_pylist() == ["p=a%20b/5.parquet"]
    assert (written.expired_tombstones, len(before & after)) == (1, 1)
    again(log, [], now_ms=13 * DAY)
    assert len(log.snapshot().tombstones()) == 0


@pytest.mark.full
def test_small_sidecars_are_folded_so_that_they_stay_few(tmp_path: Path) -> None:
    log = checkpointed(tmp_path, [files(0, 1)])
    num_files, counts = 24, []
    for number in range(1, num_files):
        _, _, after = again(log, files(number, 1))
        counts.append(len(after))
    sizes = [len(rows_of(log, name)) for name in named(log.snapshot())]
    assert sum(sizes) == num_files
    assert max(sizes) <= ROWS
    assert max(counts) <= num_files // (ROWS // 2) + 4


@pytest.mark.parametrize(
    ("sizes", "num_new", "stay"),
    [
        pytest.param([10, 10], 3, [10, 10], id="full sidecars stay"),
        pytest.param([4, 2, 1], 1, [], id="one after the other is not larger than what is new"),
        pytest.param([4, 3], 2, [3, 4], id="larger sidecars stay"),
        pytest.param([5], 9, [5], id="half full is full"),
        pytest.param([1, 1], 0, [1, 1], id="nothing is written where nothing is new"),
    ],
)
def test_fold(sizes: list[int], num_new: int, stay: list[int]) -> None:
    sidecars = [KnownSidecar(FileInfo(str(n), 1, 1), "add", n, None) for n in sizes]
    assert [each.num_rows for each in fold(sidecars, num_new)] == stay


def test_other_columns_are_written_for_all_files(tmp_path: Path) -> None:
    log = checkpointed(tmp_path, [files(0, 20, stats='{"numRecords":1}')])
    requested = {"delta.checkpointPolicy": "v2", "delta.checkpoint.writeStatsAsStruct": "true"}
    changed = metadata(configuration=requested, partition_columns=("p",))
    written, before, after = again(log, [changed])
    assert (written.num_reused, before & after) == (0, set())
    rows = [row["add"] for name in after for row in rows_of(log, name)]
    assert [row["stats_parsed"]["numRecords"] for row in rows] == [1] * 20


def test_a_copy_of_the_table_goes_on_from_its_sidecars(tmp_path: Path) -> None:
    checkpointed(tmp_path / "t", [files(0, 40)])
    shutil.copytree(tmp_path / "t", tmp_path / "copy")
    log = DeltaLog(tmp_path / "copy")
    gone = remove(f"{tmp_path}/copy/p=a b/12.parquet", deletion_timestamp=1)
    written, _, _ = again(log, [gone], compare_deltalake=False)
    assert (written.num_reused, written.num_add_files) == (3, 39)


def test_files_that_are_named_by_their_place_are_looked_at_each_time(tmp_path: Path) -> None:
    here = [add(f"{tmp_path}/t/{i}.parquet", partition_values={"p": None}) for i in range(10)]
    log = checkpointed(tmp_path / "t", [here])
    written, _, _ = again(log, files(100, 1), compare_deltalake=False)
    assert written.num_reused == 0
    shutil.move(tmp_path / "t", tmp_path / "moved")
    moved = DeltaLog(tmp_path / "moved")
    gone = remove(f"{tmp_path}/t/3.parquet", deletion_timestamp=1)
    again(moved, [gone], compare_deltalake=False)
    assert moved.snapshot().num_files == 10


def without_hashes(rows: Any) -> Any:
    return rows.drop_columns([KEY_HASH])


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(without_hashes, id="it has no hashes"),
        pytest.param(lambda rows: rows.replace_schema_metadata(None), id="it says nothing"),
    ],
)
def test_a_sidecar_of_another_writer_is_read_and_written_anew(tmp_path: Path, change: Any) -> None:
    log = checkpointed(tmp_path, [files(0, 10)])
    (path,) = (tmp_path / "_delta_log" / "_sidecars").iterdir()
    pq.write_table(change(pq.read_table(path)), path)
    (top,) = (tmp_path / "_delta_log").glob("*.checkpoint.*.json")
    lines = [json.loads(line) for line in top.read_text().splitlines()]
    for line in lines:
        if "sidecar" in line:
            line["sidecar"]["sizeInBytes"] = path.stat().st_size
    top.write_text("".join(json.dumps(line) + "\n" for line in lines))
    written, _, _ = again(log, [remove("p=a%20b/1.parquet", deletion_timestamp=1)])
    assert (written.num_reused, written.num_add_files) == (0, 9)


def test_a_checkpoint_that_lost_a_sidecar_meanwhile_is_written_without_it(tmp_path: Path) -> None:
    log = checkpointed(tmp_path, [files(0, 20)])
    create_commit(log.storage, log.log_directory, 1, files(100, 1))
    victim = sorted((tmp_path / "_delta_log" / "_sidecars").iterdir())[0]

    def on_call(_number: int, method: str, path: str, moment: str) -> None:
        if (method, moment) == ("create", "before") and path.endswith(".json"):
            victim.unlink(missing_ok=True)

    cleaned = DeltaLog("", storage=CountingStorage(log.storage, on_call))
    live = live_paths(log)
    assert write_checkpoint(cleaned.snapshot(), now_ms=0)
    assert len(list((tmp_path / "_delta_log").glob(f"{1:020d}.checkpoint*"))) == 1
    assert (live_paths(log), log.snapshot().damaged_checkpoints) == (live, ())


def test_new_sidecars_are_written_several_at_a_time(tmp_path: Path) -> None:
    log = table(tmp_path, [files(0, 8 * ROWS)], SIDECARS)
    meet = Barrier(4, timeout=PATIENCE_S)

    def on_call(_number: int, method: str, path: str, moment: str) -> None:
        if (method, moment) == ("create_from_stream", "before") and "_sidecars" in path:
            meet.wait()  # breaks unless four are under way

    counted = DeltaLog("", storage=CountingStorage(log.storage, on_call))
    written = write_checkpoint(counted.snapshot(), now_ms=0)
    assert written is not None
    assert (written.num_files, written.num_add_files) == (1 + 8, 8 * ROWS)
    assert state(log.snapshot(0)) == state(counted.snapshot())

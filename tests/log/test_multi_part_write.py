"""Multi-part checkpoints: the same parts in every attempt, no mixture of two writers' parts, and a
whole file beside them until all parts exist."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_ops import DeltaLog
from delta_ops.log.checkpoint_write.multi_part import part_of
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.protocol.file_names import checkpoint_name
from tests.log.test_checkpoint_kinds import PARTS, busy, by_deltalake, state
from tests.support.counting_storage import CountingStorage, OnCall

PART_ROWS = 2


def written(root: Path, *, base: int | None = None) -> dict[str, bytes]:
    """The parts of the latest version's checkpoint, by name."""
    log = busy(PARTS, root)
    if base is not None:
        write_checkpoint(log.snapshot(base), now_ms=0)
    write_checkpoint(log.snapshot(), now_ms=0, part_rows=PART_ROWS)
    return parts(root)


def watched(log: DeltaLog, on_call: OnCall) -> DeltaLog:
    return DeltaLog("", storage=CountingStorage(log.storage, on_call))


def hint(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / "_delta_log" / "_last_checkpoint").read_text())
    return found


def parts(root: Path) -> dict[str, bytes]:
    found = (root / "_delta_log").glob(f"{5:020d}.checkpoint.*.parquet")
    return {path.name: path.read_bytes() for path in found}


@pytest.mark.parametrize("base", [None, 0, 3])
def test_two_runs_write_the_same_bytes_whatever_they_began_from(
    tmp_path: Path, base: int | None
) -> None:
    first = written(tmp_path / "a")
    assert len(first) == 3
    assert written(tmp_path / "b", base=base) == first


def test_a_file_is_in_the_part_that_its_path_says(tmp_path: Path) -> None:
    assert part_of(pa.array(["a.parquet", "p=1/b", "ü"]), 7).to_pylist() == [6, 1, 4]
    written(tmp_path)
    for number, name in enumerate(sorted(parts(tmp_path))):
        rows = pq.read_table(tmp_path / "_delta_log" / name).to_pylist()
        paths = [
            (row["add"] or row["remove"])["path"] for row in rows if row["add"] or row["remove"]
        ]
        assert set(part_of(pa.array(paths, pa.string()), 3).to_pylist()) <= {number}
        is_state = any(row["protocol"] or row["metaData"] or row["txn"] for row in rows)
        assert is_state == (number == 0)


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("numbers", [(1,), (3,), (1, 2)], ids=str)
def test_parts_that_are_there_are_left_alone_and_there_is_one_part_more(
    tmp_path: Path, numbers: tuple[int, ...]
) -> None:
    """A writer that clusters differently has other files in its parts."""
    whole = written(tmp_path)
    log = DeltaLog(tmp_path)
    expected, foreign = state(log.snapshot()), by_deltalake(tmp_path)
    names = sorted(whole)
    others = {names[number - 1]: whole[names[number % 3]] for number in numbers}
    for name in names:
        (tmp_path / "_delta_log" / name).unlink()
    for name, content in others.items():
        (tmp_path / "_delta_log" / name).write_bytes(content)
    assert log.snapshot().commits_since_checkpoint == 6  # some parts are no checkpoint
    result = write_checkpoint(log.snapshot(), now_ms=0, part_rows=PART_ROWS)
    assert result is not None
    assert (result.num_files, log.snapshot().commits_since_checkpoint) == (4, 0)
    assert others.items() <= parts(tmp_path).items()
    assert state(log.snapshot()) == expected
    assert by_deltalake(tmp_path) == foreign


def test_the_whole_file_stays_until_all_parts_exist(tmp_path: Path) -> None:
    log = busy(PARTS, tmp_path)
    place = tmp_path / "_delta_log" / checkpoint_name(5)
    seen: list[tuple[int, bool]] = []

    def look(_number: int, method: str, path: str, when: str) -> None:
        if (method, when) == ("create_from_stream", "after") and path != f"_delta_log/{place.name}":
            seen.append((len(parts(tmp_path)), place.exists()))

    write_checkpoint(watched(log, look).snapshot(), now_ms=0, part_rows=PART_ROWS)
    assert seen == [(1, True), (2, True), (3, True)]
    assert not place.exists()


@pytest.mark.parametrize(
    "is_there",
    [
        pytest.param(True, id="another writer's part comes first"),
        pytest.param(False, id="a part is lost"),
    ],
)
def test_the_whole_file_stays_if_a_part_is_not_ours_or_gone(tmp_path: Path, is_there: bool) -> None:
    contents = written(tmp_path / "template")
    first, second, _ = sorted(contents)
    log = busy(PARTS, tmp_path / "t")
    expected, foreign = state(log.snapshot()), by_deltalake(tmp_path / "t")
    directory = tmp_path / "t" / "_delta_log"

    def disturb(_number: int, method: str, path: str, when: str) -> None:
        if (method, when, path) == ("create_from_stream", "before", f"_delta_log/{second}"):
            if is_there:
                (directory / second).write_bytes(contents[first])
            else:
                (directory / first).unlink()

    result = write_checkpoint(watched(log, disturb).snapshot(), now_ms=0, part_rows=PART_ROWS)
    assert result is not None
    assert (result.kind, result.num_files) == ("classic", 1)
    assert (directory / checkpoint_name(5)).exists()
    assert "parts" not in hint(tmp_path / "t")
    assert log.snapshot().commits_since_checkpoint == 0
    assert state(log.snapshot()) == expected
    assert by_deltalake(tmp_path / "t") == foreign


def test_the_hint_names_the_parts_though_another_writer_found_the_whole_file(
    tmp_path: Path,
) -> None:
    log = busy(PARTS, tmp_path)
    named: list[dict[str, Any]] = []

    def disturb(_number: int, method: str, path: str, when: str) -> None:
        if (method, when) == ("create_from_stream", "after") and ".0000000002." in path:
            assert write_checkpoint(DeltaLog(tmp_path).snapshot(), now_ms=0) is None
            named.append(hint(tmp_path))

    write_checkpoint(watched(log, disturb).snapshot(), now_ms=0, part_rows=PART_ROWS)
    assert [(each["version"], each.get("parts")) for each in named] == [(5, None)]
    assert (hint(tmp_path)["version"], hint(tmp_path)["parts"]) == (5, 3)


def test_who_comes_second_finds_nothing_to_do_when_parts_take_the_place_of_the_whole_file(
    tmp_path: Path,
) -> None:
    contents = written(tmp_path / "template")
    log = busy(PARTS, tmp_path / "t")
    directory = tmp_path / "t" / "_delta_log"
    place = directory / checkpoint_name(5)

    def disturb(_number: int, method: str, path: str, when: str) -> None:
        if path != f"_delta_log/{place.name}" or when == "after":
            return
        if method == "create_from_stream":
            write_checkpoint(log.snapshot(), now_ms=0)
        elif method == "stat" and place.exists():
            for name, content in contents.items():
                (directory / name).write_bytes(content)
            place.unlink()

    snapshot = watched(log, disturb).snapshot()
    assert write_checkpoint(snapshot, now_ms=0) is None
    assert not place.exists()
    assert state(log.snapshot()) == state(snapshot)


@pytest.mark.parametrize("content", [b"", b"PAR1 damaged"], ids=["empty", "damaged"])
def test_a_part_that_is_none_does_no_harm(tmp_path: Path, content: bytes) -> None:
    whole = written(tmp_path)
    expected = state(DeltaLog(tmp_path).snapshot())
    for name in sorted(whole)[1:]:
        (tmp_path / "_delta_log" / name).unlink()
    (tmp_path / "_delta_log" / min(whole)).write_bytes(content)
    log = DeltaLog(tmp_path)
    assert write_checkpoint(log.snapshot(), now_ms=0, part_rows=PART_ROWS) is not None
    assert log.snapshot().commits_since_checkpoint == 0
    assert state(log.snapshot()) == expected


def test_a_table_of_few_files_gets_one_file(tmp_path: Path) -> None:
    log = busy(PARTS, tmp_path)
    result = write_checkpoint(log.snapshot(), now_ms=0, part_rows=7)
    assert result is not None
    assert (result.kind, result.num_files) == ("classic", 1)

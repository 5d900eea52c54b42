"""Multi-part checkpoints: equal parts in every attempt, and never a mixture of two writers'."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from delta_ops import DeltaLog
from delta_ops.log.checkpoint_write import write_checkpoint
from delta_ops.log.multi_part_write import part_of
from tests.log.test_checkpoint_kinds import DAY, PARTS, busy, by_deltalake, state

PART_ROWS = 2


def written(root: Path, *, now_ms: int = 0, base: int | None = None) -> dict[str, bytes]:
    """The parts of the latest version's checkpoint, by name."""
    log = busy(PARTS, root)
    if base is not None:
        write_checkpoint(log.snapshot(base), now_ms=0)
    write_checkpoint(log.snapshot(), now_ms=now_ms, part_rows=PART_ROWS)
    return parts(root)


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


@pytest.mark.parametrize("num_kept", range(3))
def test_an_attempt_that_died_is_finished_by_the_next_one(tmp_path: Path, num_kept: int) -> None:
    whole = written(tmp_path)
    log = DeltaLog(tmp_path)
    expected = state(log.snapshot())
    kept = sorted(whole)[:num_kept]
    for name in set(whole) - set(kept):
        (tmp_path / "_delta_log" / name).unlink()
    assert log.snapshot().commits_since_checkpoint == 6  # part of one is none
    write_checkpoint(log.snapshot(), now_ms=0, part_rows=PART_ROWS)
    assert parts(tmp_path) == whole
    assert state(log.snapshot()) == expected


def test_an_attempt_of_another_day_is_finished_without_a_loss(tmp_path: Path) -> None:
    whole = written(tmp_path)
    log = DeltaLog(tmp_path)
    expected = state(log.snapshot())
    for name in sorted(whole)[1:]:
        (tmp_path / "_delta_log" / name).unlink()
    write_checkpoint(log.snapshot(), now_ms=100 * DAY, part_rows=PART_ROWS)
    assert set(parts(tmp_path)) == set(whole)
    assert state(log.snapshot())["files"] == expected["files"]


def test_with_a_part_of_another_writer_there_is_one_part_more(tmp_path: Path) -> None:
    whole = written(tmp_path)
    log = DeltaLog(tmp_path)
    expected, foreign = state(log.snapshot()), by_deltalake(tmp_path)
    first, second, *others = (tmp_path / "_delta_log" / name for name in sorted(whole))
    shutil.copy(second, first)  # whoever clusters otherwise has other files in it
    for path in (second, *others):
        path.unlink()
    result = write_checkpoint(log.snapshot(), now_ms=0, part_rows=PART_ROWS)
    assert result is not None
    assert (result.num_files, log.snapshot().commits_since_checkpoint) == (4, 0)
    assert state(log.snapshot()) == expected
    assert by_deltalake(tmp_path) == foreign


@pytest.mark.parametrize(
    ("number", "differs_in"),
    [
        pytest.param(0, "protocol", id="it lacks the protocol"),
        pytest.param(1, "protocol", id="it has the protocol, which is in another part of ours"),
        pytest.param(1, "remove", id="it lacks tombstones"),
    ],
)
def test_a_part_of_another_writer_that_has_the_same_live_files_is_not_ours(
    tmp_path: Path, number: int, differs_in: str
) -> None:
    whole = written(tmp_path)
    log = DeltaLog(tmp_path)
    expected = state(log.snapshot())
    places = [tmp_path / "_delta_log" / name for name in sorted(whole)]
    first = pq.read_table(places[0])
    part = pq.read_table(places[number])
    if differs_in == "remove":
        part = part.filter(pc.is_null(part["remove"]))
    elif number == 0:
        part = part.filter(pc.is_null(part["protocol"]))
    else:
        part = pa.concat_tables([part, first.filter(pc.is_valid(first["protocol"]))])
    assert part != pq.read_table(places[number])
    for place in places:
        place.unlink()
    pq.write_table(part, places[number])
    assert write_checkpoint(log.snapshot(), now_ms=0, part_rows=PART_ROWS) is not None
    assert log.snapshot().commits_since_checkpoint == 0
    assert state(log.snapshot()) == expected


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

"""Log clean-up with V2 checkpoints: sidecars, and the view of older readers."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from delta_ops import DeltaLog
from delta_ops.errors import LogCorruptError, VersionNotFoundError
from delta_ops.maintenance import clean_up_log
from delta_ops.protocol.file_names import checkpoint_name, commit_name
from tests.maintenance.v2_logs import DAY_ZERO, V2Log, daily
from tests.support.counting_storage import CountingStorage
from tests.support.crash_states import crash_states

SHARED = {"shared0.parquet", "shared1.parquet"}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> V2Log:
    return daily(tmp_path_factory.mktemp("template") / "t")


@pytest.fixture
def old(template: V2Log, tmp_path: Path) -> V2Log:
    shutil.copytree(template.root, tmp_path / "t")
    return V2Log(tmp_path / "t", day=template.day)


def own(first: int, last: int) -> set[str]:
    return {f"own{version}.parquet" for version in range(first, last + 1)}


def test_sidecars_go_with_the_last_checkpoint_that_names_them(old: V2Log) -> None:
    before = {version: old.live(version) for version in range(4, 10)}
    result = clean_up_log(old.log, clock=old.clock)
    assert (result.plan.earliest_before, result.earliest_version) == (0, 4)
    assert old.versions("*.checkpoint.*") == old.versions("*.json") == list(range(4, 10))
    assert old.sidecars() == SHARED | own(4, 9)
    assert {version: old.live(version) for version in range(4, 10)} == before

    old.day = 11
    clean_up_log(old.log, clock=old.clock)
    assert old.sidecars() == SHARED | own(5, 9)

    old.day = 13
    old.checkpointed(10)
    clean_up_log(old.log, clock=old.clock)
    assert old.versions("*.checkpoint.*") == list(range(7, 11))
    assert old.sidecars() == SHARED | own(7, 10)


def test_the_newest_checkpoint_gets_a_twin_for_who_knows_no_v2_checkpoints(old: V2Log) -> None:
    result = clean_up_log(old.log, clock=old.clock)
    assert result.plan.compatible_version == 9
    twin = old.place / checkpoint_name(9)
    rows = pq.read_table(twin)
    assert {s["path"] for s in rows["sidecar"].to_pylist() if s} == {
        "shared1.parquet",
        "own9.parquet",
    }
    (protocol,) = [p for p in rows["protocol"].to_pylist() if p]
    assert protocol["readerFeatures"] == ["v2Checkpoint"]
    (old.place / f"{9:020d}.checkpoint.00000009-0000-0000-0000-000000000000.json").unlink()
    assert old.live(9) == {f"{v}.parquet" for v in range(10)}
    assert len(DeltaTable(old.root).file_uris()) == 10


def test_the_copy_is_of_a_complete_checkpoint_of_the_version(old: V2Log) -> None:
    whole = old.place / f"{9:020d}.checkpoint.00000009-0000-0000-0000-000000000000.json"
    lacking = old.place / f"{9:020d}.checkpoint.00000000-0000-0000-0000-000000000000.json"
    lacking.write_text(whole.read_text().replace("own9", "gone"))
    old.date()
    clean_up_log(old.log, clock=old.clock)
    assert old.live(9) == {f"{v}.parquet" for v in range(10)}


def test_a_newest_checkpoint_without_all_its_sidecars_gets_no_twin(old: V2Log) -> None:
    (old.place / "_sidecars" / "own9.parquet").unlink()
    before = sorted(old.place.iterdir())
    with pytest.raises(LogCorruptError, match=r"own9\.parquet"):
        clean_up_log(old.log, clock=old.clock)
    assert sorted(old.place.iterdir()) == before


def test_nothing_is_written_where_nothing_goes(old: V2Log) -> None:
    old.day = 1
    assert clean_up_log(old.log, clock=old.clock).plan.compatible_version is None
    assert not (old.place / checkpoint_name(9)).exists()


def test_an_orphan_goes_when_it_is_older_than_the_cutoff(old: V2Log) -> None:
    clean_up_log(old.log, clock=old.clock)
    young, aged = (old.sidecar(f"orphan{day}.parquet", 0) for day in (4, 3))
    for name, day in ((young, 4), (aged, 3)):
        seconds = DAY_ZERO / 1000 + day * 86_400
        os.utime(old.place / "_sidecars" / name, (seconds, seconds))
    result = clean_up_log(old.log, clock=old.clock)
    assert [info.path for info in result.plan.files] == [f"_delta_log/_sidecars/{aged}"]
    assert old.sidecars() == SHARED | own(4, 9) | {young}


def test_a_sidecar_stays_that_a_checkpoint_comes_to_name_meanwhile(old: V2Log) -> None:
    def write_checkpoint(_number: int, method: str, _path: str, when: str) -> None:
        if (method, when) == ("delete_many", "before") and not old.versions("*10.checkpoint*"):
            old.commit(10)
            old.checkpoint(10, "own3.parquet")

    log = DeltaLog("", storage=CountingStorage(old.log.storage, write_checkpoint))
    result = clean_up_log(log, clock=old.clock)
    assert (result.needed_after_all, result.failures) == (1, ())
    assert old.sidecars() == SHARED | own(3, 9)
    assert old.live(10) == {f"{v}.parquet" for v in range(1, 4)}


@pytest.mark.parametrize("damage", [Path.unlink, lambda p: p.write_bytes(p.read_bytes()[:-9])])
def test_a_boundary_without_all_its_sidecars_keeps_every_commit(old: V2Log, damage: object) -> None:
    damage(old.place / "_sidecars" / "own4.parquet")  # type: ignore[operator]
    before = sorted(old.place.iterdir())
    with pytest.raises(LogCorruptError, match=r"own4\.parquet"):
        clean_up_log(old.log, clock=old.clock)
    assert sorted(old.place.iterdir()) == before


def test_a_kept_checkpoint_that_cannot_be_read_keeps_all_sidecars(old: V2Log) -> None:
    top = next(old.place.glob(f"{6:020d}.checkpoint.*"))
    top.write_text("{")
    old.date()
    with pytest.raises(LogCorruptError, match=top.name):
        clean_up_log(old.log, clock=old.clock)
    assert len(old.sidecars()) == 10


def as_deltalake_reads(root: Path, version: int) -> int | None:
    try:
        return len(DeltaTable(root, version=version).file_uris())
    except (DeltaError, FileNotFoundError):
        return None


@pytest.mark.full
def test_killed_at_any_call_every_engine_reads_what_stays_and_nothing_else_wrongly(
    template: V2Log, tmp_path: Path
) -> None:
    copies: list[V2Log] = []

    def fresh() -> object:
        copies.append(V2Log(tmp_path / str(len(copies)), day=template.day))
        shutil.copytree(template.root, copies[-1].root)
        return copies[-1].log.storage

    def run(storage: object) -> object:
        return clean_up_log(DeltaLog("", storage=storage), clock=template.clock)  # type: ignore[arg-type]

    points = 0
    for where, _ in crash_states(fresh, run):  # type: ignore[arg-type]
        left = copies[-1]
        for version in (0, 1, 3, 4, 6, 9):
            right = {f"{v}.parquet" for v in range(version + 1)}
            counted = as_deltalake_reads(left.root, version)
            if version >= 4:
                assert (left.live(version), counted) == (right, len(right)), where
            else:
                assert counted in (None, len(right)), where
                with contextlib.suppress(VersionNotFoundError, LogCorruptError):
                    assert left.live(version) == right, where
        clean_up_log(left.log, clock=left.clock)
        assert left.sidecars() == SHARED | own(4, 9), where
        assert left.versions("*.json") == list(range(4, 10)), where
        assert (left.place / checkpoint_name(9)).exists(), where
        assert not clean_up_log(left.log, clock=left.clock, dry_run=True).plan.has_work, where
        shutil.rmtree(left.root)
        points += 1
    assert points >= 5
    assert not (copies[-1].place / commit_name(3)).exists()

"""A log that goes on from a version of another one."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from delta_ops import DeltaLog, begin
from delta_ops.errors import LogCorruptError, VersionNotFoundError
from delta_ops.log.checkpoint_write import write_checkpoint
from delta_ops.protocol.actions import SetTransaction
from tests.tables import add, live_paths, remove, staged, write_log


@pytest.fixture(params=[False, True], ids=["base of commits", "base of a checkpoint"])
def branch(tmp_path: Path, request: pytest.FixtureRequest) -> DeltaLog:
    """It goes on after version 2 of four."""
    txn = SetTransaction(app_id="a", version=1, last_updated=1)
    main = write_log(
        tmp_path,
        [
            [add("0"), add("1"), txn],
            [add("2")],
            [remove("0", deletion_timestamp=2**42)],
            [add("x")],
        ],
    )
    if request.param:
        write_checkpoint(main.snapshot(2), now_ms=0)
    return DeltaLog(tmp_path, log_directory="_delta_ops/b/_delta_log", base=main.snapshot(2))


def commit(log: DeltaLog, path: str, *removed: str) -> int | None:
    txn = begin(log)
    txn.remove([each for each in log.snapshot().add_files() if each.path in removed])
    txn.stage(staged(add(path)))
    return txn.commit(operation="WRITE").version


def test_without_a_commit_it_is_its_base(branch: DeltaLog) -> None:
    assert branch.exists()
    assert branch.snapshot().version == 2
    assert live_paths(branch) == {"1", "2"}


def test_versions_count_on_and_the_base_stays_as_it_was(branch: DeltaLog, tmp_path: Path) -> None:
    assert commit(branch, "b3") == 3
    assert commit(branch, "b4", "1") == 4
    assert live_paths(branch) == {"2", "b3", "b4"}
    assert live_paths(branch, 3) == {"1", "2", "b3"}
    assert set(branch.snapshot().tombstones()["path"].to_pylist()) == {"0", "1"}
    assert branch.snapshot().transactions()["a"].version == 1
    assert live_paths(DeltaLog(tmp_path)) == {"1", "2", "x"}


def test_a_snapshot_is_refreshed(branch: DeltaLog) -> None:
    old = branch.snapshot()
    commit(branch, "b3", "2")
    refreshed = old.refresh()
    assert (refreshed.version, refreshed.num_files) == (3, 2)


def test_a_checkpoint_of_its_own_takes_the_place_of_the_base(branch: DeltaLog) -> None:
    commit(branch, "b3", "1")
    write_checkpoint(branch.snapshot(), now_ms=0)
    commit(branch, "b4")
    assert branch.snapshot().checkpoint is not None
    assert live_paths(branch) == {"2", "b3", "b4"}
    alone = DeltaLog(branch.uri, log_directory=branch.log_directory)
    assert live_paths(alone) == {"2", "b3", "b4"}


def test_versions_below_the_base_are_for_its_own_log(branch: DeltaLog) -> None:
    commit(branch, "b3")
    with pytest.raises(VersionNotFoundError, match="begins after version 2"):
        branch.snapshot(1)


def test_a_hole_after_the_base_is_an_error(branch: DeltaLog) -> None:
    commit(branch, "b3")
    commit(branch, "b4")
    (Path(branch.uri) / branch.log_directory / f"{3:020d}.json").unlink()
    with pytest.raises(LogCorruptError, match="version 3 is missing"):
        branch.snapshot()


def test_it_pickles(branch: DeltaLog) -> None:
    commit(branch, "b3")
    assert live_paths(pickle.loads(pickle.dumps(branch))) == {"1", "2", "b3"}

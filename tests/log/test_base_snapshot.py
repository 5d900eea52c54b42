"""A log that continues from a version of another log."""

from __future__ import annotations

import os
import pickle
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin
from delta_ops.errors import InvalidRequestError, LogCorruptError, VersionNotFoundError
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.transaction_identifiers import version_of_transaction
from delta_ops.maintenance import vacuum
from delta_ops.protocol.actions import SetTransaction
from tests.support.tables import add, live_paths, remove, stage_files, write_log

IN_COMMIT = "delta.enableInCommitTimestamps"


@pytest.fixture(params=[False, True], ids=["base of commits", "base of a checkpoint"])
def branch(tmp_path: Path, request: pytest.FixtureRequest) -> DeltaLog:
    """A log that continues after version 2 of four."""
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
    txn.stage(stage_files(add(path)))
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


def test_it_cannot_be_vacuumed_since_the_other_log_needs_files_too(branch: DeltaLog) -> None:
    with pytest.raises(InvalidRequestError, match="continues from version 2 of another log"):
        vacuum(branch)


def test_it_cannot_be_vacuumed_alone_either(branch: DeltaLog) -> None:
    commit(branch, "b3", "1")
    write_checkpoint(branch.snapshot(), now_ms=0)
    alone = DeltaLog(branch.uri, log_directory=branch.log_directory)
    needed_by_main = Path(branch.uri) / "x"
    needed_by_main.touch()
    os.utime(needed_by_main, (0, 0))
    for dry_run in (True, False):
        with pytest.raises(InvalidRequestError, match="_delta_ops/b/_delta_log is not the table's"):
            vacuum(alone, dry_run=dry_run)
    assert needed_by_main.exists()


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


def test_versions_below_the_base_are_read_from_its_log(branch: DeltaLog) -> None:
    commit(branch, "b3")
    assert live_paths(branch, 1) == {"0", "1", "2"}
    assert live_paths(branch, 2) == {"1", "2"}


def at(root: Path, branch: DeltaLog, *seconds: int) -> None:
    """Set the commit times of main, then of the branch."""
    places = sorted((root / "_delta_log").glob("*.json"))
    places += sorted((root / branch.log_directory).glob("*.json"))
    for place, each in zip(places, seconds, strict=True):
        os.utime(place, (each, each))


def time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


@pytest.mark.some_cases(6)
@pytest.mark.parametrize(
    ("seconds", "version"),
    [
        pytest.param(10, 0, id="the first of the base's log"),
        pytest.param(25, 1, id="between two of the base's log"),
        pytest.param(30, 2, id="the base"),
        pytest.param(45, 2, id="when the base's log has gone on"),
        pytest.param(50, 3, id="the first of its own"),
        pytest.param(60, 4, id="the last of its own"),
    ],
)
def test_a_time_selects_a_version_of_the_base_or_of_the_clone(
    branch: DeltaLog, tmp_path: Path, seconds: int, version: int
) -> None:
    commit(branch, "b3")
    commit(branch, "b4")
    at(tmp_path, branch, 10, 20, 30, 40, 50, 60)
    opened = branch.snapshot(timestamp=time(seconds))
    assert opened.version == version
    assert opened.num_files == branch.snapshot(version).num_files


def test_times_outside_of_both_logs_are_errors(branch: DeltaLog, tmp_path: Path) -> None:
    commit(branch, "b3")
    at(tmp_path, branch, 10, 20, 30, 40, 50)
    with pytest.raises(VersionNotFoundError, match="earliest version that can be read is 0"):
        branch.snapshot(timestamp=time(9))
    with pytest.raises(VersionNotFoundError, match="after its latest version 3"):
        branch.snapshot(timestamp=time(51))


def test_without_a_commit_the_times_match_the_base(branch: DeltaLog, tmp_path: Path) -> None:
    at(tmp_path, branch, 10, 20, 30, 40)
    assert branch.snapshot(timestamp=time(29)).version == 1
    assert branch.snapshot(timestamp=time(30)).version == 2
    with pytest.raises(VersionNotFoundError, match="after its latest version 2"):
        branch.snapshot(timestamp=time(40))


def test_times_grow_from_the_base_on(branch: DeltaLog, tmp_path: Path) -> None:
    commit(branch, "b3")
    at(tmp_path, branch, 10, 20, 30, 40, 5)
    assert [e.timestamp_ms for e in branch.history(2)] == [30_001, 30_000]
    assert branch.snapshot(timestamp=time(30)).version == 2


def test_the_first_commit_comes_after_the_time_that_the_base_carries(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1]}), configuration={IN_COMMIT: "true"})
    main = DeltaLog(tmp_path).snapshot()
    (before,) = [entry.timestamp_ms for entry in DeltaLog(tmp_path).history()]
    branch = DeltaLog(tmp_path, log_directory="_delta_ops/b/_delta_log", base=main)
    twig = DeltaLog(tmp_path, log_directory="_delta_ops/c/_delta_log", base=branch.snapshot())
    for log in (branch, twig):
        txn = begin(log, clock=lambda: before - 5)
        txn.stage(da.stage_write(txn, pa.table({"id": [2]})))
        assert txn.commit(operation="WRITE").version == 1
        assert [entry.timestamp_ms for entry in log.history()] == [before + 1, before]


def test_a_first_commit_that_begins_with_times_comes_after_the_file_of_the_base(
    tmp_path: Path,
) -> None:
    da.write(tmp_path, pa.table({"id": [1]}))
    (before,) = [entry.timestamp_ms for entry in DeltaLog(tmp_path).history()]
    main = DeltaLog(tmp_path).snapshot()
    branch = DeltaLog(tmp_path, log_directory="_delta_ops/b/_delta_log", base=main)
    twig = DeltaLog(tmp_path, log_directory="_delta_ops/c/_delta_log", base=branch.snapshot())
    for log in (branch, twig):
        txn = begin(log, clock=lambda: before - 5)
        txn.set_properties({IN_COMMIT: "true"})
        assert txn.commit(operation="SET TBLPROPERTIES").version == 1
        assert [entry.timestamp_ms for entry in log.history()] == [before + 1, before]


def test_a_txn_of_the_base_is_found_with_its_version(branch: DeltaLog) -> None:
    commit(branch, "b3")
    txn = begin(branch)
    txn.set_transaction(("a", 1))
    done = txn.done_before()
    assert done is not None
    assert (done.version, done.already_committed) == (0, True)


def test_a_txn_that_the_log_of_the_base_got_later_is_not_in_the_branch(
    branch: DeltaLog, tmp_path: Path
) -> None:
    main = begin(DeltaLog(tmp_path))
    main.set_transaction(("b", 1))
    main.stage(stage_files(add("y")))
    main.commit(operation="WRITE")
    txn = begin(branch)
    txn.set_transaction(("b", 1))
    assert txn.done_before() is None
    assert (
        version_of_transaction(branch.storage, branch.log_directory, "b", 1, base=branch.base)
        is None
    )


def test_the_history_goes_on_into_the_base_and_not_beside_it(branch: DeltaLog) -> None:
    assert [e.version for e in branch.history()] == [2, 1, 0]
    commit(branch, "b3")
    assert [e.version for e in branch.history()] == [3, 2, 1, 0]
    assert [e.version for e in branch.history(limit=2)] == [3, 2]
    assert next(branch.history()).operation == "WRITE"


def test_a_branch_of_a_branch_has_the_history_of_all(branch: DeltaLog, tmp_path: Path) -> None:
    commit(branch, "b3")
    twig = DeltaLog(tmp_path, log_directory="_delta_ops/c/_delta_log", base=branch.snapshot(3))
    commit(branch, "b4")
    commit(twig, "c4")
    at(tmp_path, branch, 10, 20, 30, 40, 50, 60)
    os.utime(tmp_path / twig.log_directory / f"{4:020d}.json", (70, 70))
    assert [e.timestamp_ms // 1000 for e in twig.history()] == [70, 50, 30, 20, 10]
    assert [twig.snapshot(timestamp=time(t)).version for t in (15, 45, 65, 70)] == [0, 2, 3, 4]
    assert live_paths(twig, 3) == {"1", "2", "b3"}


def test_where_the_branch_was_cleaned_up_its_own_earliest_is_named(
    branch: DeltaLog, tmp_path: Path
) -> None:
    commit(branch, "b3")
    commit(branch, "b4")
    write_checkpoint(branch.snapshot(4), now_ms=0)
    at(tmp_path, branch, 10, 20, 30, 40, 50, 60)
    (tmp_path / branch.log_directory / f"{3:020d}.json").unlink()
    assert branch.snapshot(timestamp=time(60)).version == 4
    with pytest.raises(VersionNotFoundError, match="earliest version that can be read is 4"):
        branch.snapshot(timestamp=time(55))


def test_a_hole_after_the_base_is_an_error(branch: DeltaLog) -> None:
    commit(branch, "b3")
    commit(branch, "b4")
    (Path(branch.uri) / branch.log_directory / f"{3:020d}.json").unlink()
    with pytest.raises(LogCorruptError, match="version 3 is missing"):
        branch.snapshot()


def test_it_pickles(branch: DeltaLog) -> None:
    commit(branch, "b3")
    assert live_paths(pickle.loads(pickle.dumps(branch))) == {"1", "2", "b3"}


def test_a_base_of_another_table_is_rejected(tmp_path: Path) -> None:
    other = write_log(tmp_path / "other", [[]]).snapshot()
    with pytest.raises(InvalidRequestError, match="the base is a snapshot of another table"):
        DeltaLog(tmp_path / "t", log_directory="_delta_ops/b/_delta_log", base=other)

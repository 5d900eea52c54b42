"""Readers during a clean-up of the log by another process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from delta_ops import DeltaLog
from delta_ops.errors import LogCorruptError
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.transaction_identifiers import version_of_transaction
from delta_ops.protocol.actions import SetTransaction
from delta_ops.storage import open_storage
from tests.support.counting_storage import CountingStorage
from tests.support.tables import add, live_paths, write_log


def commit_file(root: Path, version: int) -> Path:
    return root / "_delta_log" / f"{version:020d}.json"


def log_of(root: Path, versions: int = 6) -> DeltaLog:
    return write_log(
        root,
        [
            [add(f"{v}.parquet"), SetTransaction(app_id="a", version=v, last_updated=v)]
            for v in range(versions)
        ],
    )


def disturbed(root: Path, after_listing: Callable[[int], None]) -> DeltaLog:
    """The log; `after_listing` runs after each listing and gets its number."""
    listings = 0

    def on_call(_number: int, method: str, _path: str, moment: str) -> None:
        nonlocal listings
        if method == "list_from" and moment == "after":
            listings += 1
            after_listing(listings)

    return DeltaLog("", storage=CountingStorage(open_storage(root), on_call))


def clean_up(root: Path, version: int) -> None:
    """A checkpoint, without the commits below it."""
    write_checkpoint(DeltaLog(root).snapshot(version), now_ms=0)
    for each in range(version):
        commit_file(root, each).unlink(missing_ok=True)


def test_a_table_that_is_cleaned_up_while_it_is_opened_is_opened(tmp_path: Path) -> None:
    log_of(tmp_path)
    log = disturbed(tmp_path, lambda number: clean_up(tmp_path, 4) if number == 1 else None)
    snapshot = log.snapshot()
    assert (snapshot.version, snapshot.num_files) == (5, 6)


def test_files_that_are_listed_and_never_there_are_an_error(tmp_path: Path) -> None:
    log_of(tmp_path)
    content = commit_file(tmp_path, 2).read_bytes()

    def on_call(_number: int, method: str, _path: str, moment: str) -> None:
        if method != "list_from":
            return
        if moment == "before":
            commit_file(tmp_path, 2).write_bytes(content)
        else:
            commit_file(tmp_path, 2).unlink()

    log = DeltaLog("", storage=CountingStorage(open_storage(tmp_path), on_call))
    with pytest.raises(LogCorruptError, match="listed files are missing when they are read"):
        log.snapshot()


def test_an_old_snapshot_is_refreshed_though_commits_since_are_gone(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    old = log.snapshot(0)
    clean_up(tmp_path, 4)
    refreshed = old.refresh()
    assert (refreshed.version, refreshed.num_files) == (5, 6)


def test_a_commit_that_is_gone_carries_no_txn(tmp_path: Path) -> None:
    log_of(tmp_path)
    log = disturbed(tmp_path, lambda _: commit_file(tmp_path, 3).unlink(missing_ok=True))
    where = [version_of_transaction(log.storage, log.log_directory, "a", v) for v in (3, 2)]
    assert where == [None, 2]


def test_history_goes_on_below_a_commit_that_is_gone(tmp_path: Path) -> None:
    log_of(tmp_path)
    write_checkpoint(DeltaLog(tmp_path).snapshot(4), now_ms=0)
    log = disturbed(tmp_path, lambda _: commit_file(tmp_path, 0).unlink(missing_ok=True))
    assert [entry.version for entry in log.history()][:3] == [5, 4, 3]
    assert live_paths(log) == {f"{v}.parquet" for v in range(6)}


def test_history_shows_all_commits_except_a_missing_commit(tmp_path: Path) -> None:
    log_of(tmp_path)
    log = disturbed(tmp_path, lambda _: commit_file(tmp_path, 1).unlink(missing_ok=True))
    assert [entry.version for entry in log.history()] == [5, 4, 3, 2, 0]


def test_history_shows_all_commits_above_a_damaged_commit(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    commit_file(tmp_path, 1).write_text("{")
    entries = log.history()
    assert [next(entries).version for _ in range(4)] == [5, 4, 3, 2]
    with pytest.raises(LogCorruptError, match=f"{1:020d}.json"):
        next(entries)


def test_the_newest_commit_is_returned_before_others_are_read(tmp_path: Path) -> None:
    log_of(tmp_path)
    read: list[str] = []

    def on_call(_number: int, method: str, path: str, moment: str) -> None:
        if (method, moment) == ("read", "before"):
            read.append(path)

    log = DeltaLog("", storage=CountingStorage(open_storage(tmp_path), on_call))
    next(log.history())
    assert read == [f"_delta_log/{5:020d}.json"]

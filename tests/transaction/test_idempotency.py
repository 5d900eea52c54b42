"""Commits of several txns: all of them are done, or none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from delta_ops import DeltaLog, Transaction, begin
from delta_ops.errors import InvalidRequestError, StaleRunError
from delta_ops.log.transaction_identifiers import version_of_transaction
from delta_ops.maintenance import create_checkpoint
from delta_ops.transaction import Txn
from tests.support.counting_storage import CountingStorage
from tests.support.tables import add, live_paths, stage_files, write_log


def with_txns(log: DeltaLog, *txns: Txn | tuple[str, int]) -> Transaction:
    txn = begin(log)
    for each in txns:
        txn.set_transaction(each)
    return txn


def day(name: str, run: int) -> Txn:
    """An overwrite of a day, identified by a run."""
    return Txn(app_id=name, version=run, newer_is_stale=True)


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    log = write_log(tmp_path, [[add("old.parquet")]])
    with_txns(log, ("A", 5), day("monday", 7)).commit(operation="WRITE")
    return log


def versions(log: DeltaLog) -> dict[str, int]:
    return {name: txn.version for name, txn in log.snapshot().transactions().items()}


def test_a_commit_that_is_partly_there_is_refused_and_no_txn_goes_back(log: DeltaLog) -> None:
    with pytest.raises(InvalidRequestError, match=r"part of this commit is in the table.*\(A\)"):
        with_txns(log, ("A", 3), ("B", 1)).commit(operation="WRITE")
    assert versions(log) == {"A": 5, "monday": 7}


def test_a_commit_that_is_partly_committed_meanwhile_is_refused(log: DeltaLog) -> None:
    late = with_txns(log, ("B", 1), ("C", 1))
    late.stage(stage_files(add("new.parquet")))
    with_txns(log, ("C", 1)).commit(operation="WRITE")
    with pytest.raises(InvalidRequestError, match=r"part of this commit is in the table.*\(C\)"):
        late.commit(operation="WRITE")
    assert not late.may_be_committed
    assert live_paths(log) == {"old.parquet"}


def test_a_commit_that_is_fully_there_is_done(log: DeltaLog) -> None:
    with_txns(log, ("A2", 0)).commit(operation="WRITE")
    result = with_txns(log, ("A", 4), ("A2", 0)).done_before()
    assert result is not None
    assert result.already_committed


def test_days_that_the_same_run_partly_wrote_are_overwritten_again(
    log: DeltaLog,
) -> None:
    both = with_txns(log, day("monday", 7), day("tuesday", 7))
    both.stage(stage_files(add("days.parquet")))
    assert both.commit(operation="WRITE").version == 2
    assert versions(log) == {"A": 5, "monday": 7, "tuesday": 7}


def test_a_day_that_goes_with_what_must_not_be_doubled_is_refused(log: DeltaLog) -> None:
    with pytest.raises(InvalidRequestError, match=r"part of this commit is in the table.*\(A\)"):
        with_txns(log, ("A", 5), day("tuesday", 7)).commit(operation="WRITE")


def test_days_with_one_day_of_a_newer_run_are_not_overwritten(log: DeltaLog) -> None:
    with pytest.raises(StaleRunError, match="newer run"):
        with_txns(log, day("monday", 6), day("tuesday", 6)).commit(operation="WRITE")


def test_the_commit_that_carries_a_txn_is_found_however_far_back(tmp_path: Path) -> None:
    log = write_log(tmp_path, [[]])
    for number in range(80):
        with_txns(log, ("A" if number == 2 else "B", number)).commit(operation="WRITE", hooks=[])
    for app_id, version, expected in (("A", 2, 3), ("B", 79, 80)):
        done = with_txns(log, (app_id, version)).done_before()
        assert done is not None
        assert done.version == expected
    (tmp_path / "_delta_log" / f"{3:020d}.json").unlink()
    assert version_of_transaction(log.storage, log.log_directory, "A", 2) is None


def test_a_damaged_commit_that_nobody_needs_hides_no_txn(tmp_path: Path) -> None:
    log = write_log(tmp_path, [[]])
    with_txns(log, ("A", 1)).commit(operation="WRITE", hooks=[])
    with_txns(log, ("B", 1)).commit(operation="WRITE", hooks=[])
    create_checkpoint(log)
    (tmp_path / "_delta_log" / f"{2:020d}.json").write_text("{")
    for app_id, expected in (("A", 1), ("B", None)):
        done = with_txns(log, (app_id, 1)).done_before()
        assert done is not None
        assert (done.version, done.already_committed) == (expected, True)


def test_a_txn_in_the_newest_commit_needs_one_commit_read(log: DeltaLog) -> None:
    calls: list[str] = []

    def note(_number: int, method: str, _path: str, moment: str) -> None:
        calls.extend([method] if moment == "before" else [])

    counted = CountingStorage(log.storage, note)
    assert version_of_transaction(counted, log.log_directory, "A", 5) == 1
    assert calls == ["list_from", "read"]


@pytest.mark.parametrize(
    "pair", [("a", True), ("a", 1.0), ("a", "1"), (5, 1), ("", 1), ("a", 2**63), ("a", 1, 2), "ab"]
)
def test_values_that_are_no_txn_never_reach_the_log(log: DeltaLog, pair: Any) -> None:
    """An unreadable txn would make the whole table unreadable."""
    with pytest.raises(InvalidRequestError, match="is not a txn"):
        begin(log).set_transaction(pair)


def test_an_application_has_one_txn_in_a_commit(log: DeltaLog) -> None:
    with pytest.raises(InvalidRequestError, match="B is in the commit twice"):
        with_txns(log, ("B", 1), ("B", 2))

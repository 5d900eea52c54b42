"""A write: its files after a failure half-way, and the facts in its result."""

from __future__ import annotations

import dataclasses
import pickle
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col
from delta_ops.clock import system_clock
from delta_ops.errors import CommitConflictError, InvalidRequestError, TableReplacedError
from delta_ops.events import ignore
from delta_ops.maintenance import create_checkpoint
from delta_ops.protocol.file_names import commit_name
from delta_ops.transaction import Staged, Transaction
from tests.support.counting_storage import CountingStorage
from tests.support.tables import rows


class Interrupted(Transaction):
    """A transaction that is interrupted when it gets the files of the surviving rows."""

    num_staged = 0

    def stage(self, staged: Staged) -> None:
        self.num_staged += 1
        if self.num_staged == 2:
            raise KeyboardInterrupt
        super().stage(staged)


def test_a_replacement_that_is_interrupted_leaves_no_file_behind(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1, 2]}))
    before = sorted(tmp_path.rglob("*"))
    log = DeltaLog(tmp_path)
    transaction = Interrupted(
        log, log.snapshot(), begun_ms=system_clock(), clock=system_clock, on_event=ignore
    )
    with pytest.raises(KeyboardInterrupt):
        da.write(transaction, pa.table({"id": [1]}), "overwrite", replace_where=col("id") == 1)
    assert transaction.num_staged == 2
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_result_knows_the_table_after_the_commit_for_one_read(tmp_path: Path, mode: Any) -> None:
    da.write(tmp_path, pa.table({"id": [1]}))
    calls: list[str] = []

    def note(_number: int, method: str, _path: str, when: str) -> None:
        calls.extend([method] if when == "before" else [])

    storage = CountingStorage(DeltaLog(tmp_path).storage, note)
    result = da.write(begin(DeltaLog("", storage=storage)), pa.table({"id": [2]}), mode)
    calls.clear()
    snapshot = result.snapshot
    assert snapshot is not None
    assert calls == ["stat", "read"]
    assert snapshot.version == result.version == 1
    assert rows(da.to_table(snapshot)) == rows(da.to_table(DeltaLog(tmp_path)))


def test_the_first_commit_and_one_beside_others_know_the_table_too(tmp_path: Path) -> None:
    first = da.write(tmp_path, pa.table({"id": [1]}))
    assert first.snapshot is not None
    assert first.snapshot.num_files == 1
    slow = begin(DeltaLog(tmp_path))
    da.write(tmp_path, pa.table({"id": [2]}))
    result = da.write(slow, pa.table({"id": [3]}))
    assert result.snapshot is not None
    assert (result.snapshot.version, result.snapshot.num_files) == (2, 3)


def test_an_operation_that_was_already_done_has_no_own_table(tmp_path: Path) -> None:
    for _ in range(2):
        result = da.write(tmp_path, pa.table({"id": [1]}), txn=("app", 1))
    assert result.already_committed
    assert result.snapshot is None


def test_a_table_that_replaced_another_is_not_written_by_the_result_of_a_commit(
    tmp_path: Path,
) -> None:
    da.write(tmp_path / "t", pa.table({"id": [0]}))
    known = da.write(tmp_path / "t", pa.table({"id": [1]})).snapshot
    shutil.rmtree(tmp_path / "t")
    da.write(tmp_path / "t", pa.table({"id": [100]}))
    with pytest.raises(TableReplacedError):
        da.write(begin(tmp_path / "t", snapshot=known), pa.table({"id": [7]}))
    assert rows(da.to_table(tmp_path / "t")) == [{"id": 100}]


def test_the_snapshot_of_a_result_is_never_of_another_table(tmp_path: Path) -> None:
    da.write(tmp_path / "t", pa.table({"id": [0]}))
    result = da.write(tmp_path / "t", pa.table({"id": [1]}))
    shutil.rmtree(tmp_path / "t")
    for value in (100, 101):
        da.write(tmp_path / "t", pa.table({"id": [value]}))
    with pytest.raises(TableReplacedError, match="a different commit as version 1"):
        _ = result.snapshot


def test_a_snapshot_from_before_a_clean_up_commits_nothing_below_it(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [0]}))
    old = DeltaLog(tmp_path).snapshot()
    for value in range(1, 6):
        da.write(tmp_path, pa.table({"id": [value]}))
    create_checkpoint(tmp_path)
    for version in range(5):
        (tmp_path / "_delta_log" / commit_name(version)).unlink()
    with pytest.raises(CommitConflictError, match="cleaned up"):
        da.write(begin(tmp_path, snapshot=old), pa.table({"id": [99]}))
    assert da.count_rows(tmp_path) == 6


def test_a_snapshot_of_another_table_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        da.write(tmp_path / name, pa.table({"id": [0]}))
    with pytest.raises(InvalidRequestError, match="give a snapshot of this log"):
        begin(tmp_path / "a", snapshot=DeltaLog(tmp_path / "b").snapshot())


def test_a_result_goes_to_another_process_without_its_table(tmp_path: Path) -> None:
    result = da.write(DeltaLog(tmp_path, {"timeout": "60 seconds"}), pa.table({"id": [0]}))
    assert result.snapshot is not None
    sent = pickle.dumps(result)
    assert b"60 seconds" not in sent
    copy = pickle.loads(sent)
    assert copy == result
    assert copy.snapshot is None
    assert set(dataclasses.asdict(result)) == {
        "version",
        "already_committed",
        "attempts",
        "metrics",
        "ignored",
        "failed_hooks",
    }

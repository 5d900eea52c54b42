"""A table that is deleted, and perhaps created again, under an open handle."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from itertools import chain, repeat
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, Transaction, begin
from delta_ops.clock import MINUTE_MS
from delta_ops.errors import StorageError, TableReplacedError
from delta_ops.maintenance import create_checkpoint
from delta_ops.protocol.file_names import commit_name
from delta_ops.protocol.predicate import TRUE
from delta_ops.transaction.commit.hooks import CommittedVersion
from tests.support.counting_storage import CountingStorage
from tests.support.tables import rows, rows_by_deltalake

OLD, NEW = pa.table({"id": [1]}), pa.table({"name": ["a"]})

Act = Callable[[DeltaLog], object]


def drop(log: DeltaLog) -> None:
    shutil.rmtree(log.uri)


def replace_by(*tables: pa.Table) -> Act:
    def act(log: DeltaLog) -> None:
        drop(log)
        for table in tables:
            da.write(log.uri, table)

    return act


def staged_append(transaction: Transaction) -> None:
    transaction.stage(da.stage_write(transaction, pa.table({"id": [2]})))


def staged_overwrite(transaction: Transaction) -> None:
    transaction.read(TRUE)
    assert transaction.snapshot
    transaction.remove(transaction.snapshot.add_files())
    staged_append(transaction)


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    da.write(tmp_path / "t", OLD)
    return DeltaLog(tmp_path / "t")


@pytest.mark.parametrize("versions", [1, 2, 3], ids=lambda n: f"of {n} versions")
@pytest.mark.parametrize("stage", [staged_append, staged_overwrite], ids=["append", "overwrite"])
def test_a_commit_begun_on_a_table_does_not_reach_its_replacement(
    log: DeltaLog, stage: Callable[[Transaction], None], versions: int
) -> None:
    da.write(log, OLD)  # so that the new table may have fewer versions, equally many, or more
    transaction = begin(log)
    replace_by(*[NEW] * versions)(log)
    stage(transaction)

    with pytest.raises(TableReplacedError, match=r"id was .* Nothing was changed") as raised:
        transaction.commit(operation="WRITE")

    assert (
        rows(da.to_table(log))
        == rows_by_deltalake(Path(log.uri))
        == rows(pa.concat_tables([NEW] * versions))
    )
    assert not transaction.may_be_committed
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_a_commit_to_a_table_that_was_deleted_leaves_nothing(log: DeltaLog) -> None:
    transaction = begin(log)
    staged_append(transaction)
    drop(log)

    with pytest.raises(TableReplacedError, match="has been deleted"):
        transaction.commit(operation="WRITE")

    assert not log.exists()


@pytest.mark.parametrize(
    ("moment", "consequence"),
    [
        pytest.param("before", "Version 1 of the current table is this commit", id="before"),
        pytest.param("after", "commit of version 1 was deleted with it", id="after"),
    ],
)
def test_a_table_replaced_at_the_moment_of_a_commit_is_reported(
    log: DeltaLog, moment: Literal["before", "after"], consequence: str
) -> None:
    done: list[str] = []

    def on_call(_number: int, method: str, path: str, when: Literal["before", "after"]) -> None:
        if method == "create" and path.endswith("1.json") and when == moment and not done:
            done.append(path)
            replace_by(NEW)(log)

    transaction = begin(DeltaLog(log.uri, storage=CountingStorage(log.storage, on_call)))
    staged_append(transaction)

    with pytest.raises(TableReplacedError, match=consequence):
        transaction.commit(operation="WRITE")

    assert done
    assert transaction.may_be_committed  # so that no files are deleted that a version may name


def test_a_slow_commit_checks_the_table_after_it_has_listed_the_log(log: DeltaLog) -> None:
    """A transaction of over a minute looks for a clean-up of the log before it commits."""
    done: list[str] = []

    def on_call(_number: int, method: str, path: str, when: Literal["before", "after"]) -> None:
        if method == "list_from" and when == "before" and is_committing and not done:
            done.append(path)
            replace_by(NEW)(log)

    is_committing = False
    times = chain([0], repeat(2 * MINUTE_MS))
    storage = CountingStorage(log.storage, on_call)
    transaction = begin(DeltaLog(log.uri, storage=storage), clock=lambda: next(times))
    staged_append(transaction)
    is_committing = True

    with pytest.raises(TableReplacedError, match="Nothing was changed"):
        transaction.commit(operation="WRITE")

    assert done
    assert rows(da.to_table(log)) == rows_by_deltalake(Path(log.uri)) == rows(NEW)


@pytest.mark.parametrize("versions", [1, 2, 3], ids=lambda n: f"of {n} versions")
def test_a_snapshot_is_not_refreshed_with_another_table(log: DeltaLog, versions: int) -> None:
    da.write(log, OLD)
    snapshot = log.snapshot()
    replace_by(*[NEW] * versions)(log)

    with pytest.raises(TableReplacedError, match="id was"):
        snapshot.refresh()


def test_a_snapshot_of_a_deleted_table_is_not_refreshed(log: DeltaLog) -> None:
    snapshot = log.snapshot()
    drop(log)

    with pytest.raises(TableReplacedError, match="has been deleted"):
        snapshot.refresh()


def test_a_snapshot_knows_a_table_that_was_put_back_to_an_older_state(log: DeltaLog) -> None:
    shutil.copytree(log.uri, f"{log.uri}-backup")
    da.write(log, OLD)
    snapshot = log.snapshot()
    drop(log)
    shutil.copytree(f"{log.uri}-backup", log.uri)

    with pytest.raises(TableReplacedError, match=r"was at version 1, and .* ends at version 0"):
        snapshot.refresh()


def test_a_commit_rests_on_the_commit_that_was_read_of_its_version(log: DeltaLog) -> None:
    shutil.copytree(log.uri, f"{log.uri}-backup")
    da.write(log, pa.table({"id": [2]}))
    transaction = begin(log)
    drop(log)
    shutil.copytree(f"{log.uri}-backup", log.uri)
    da.write(log, pa.table({"id": [3]}))
    staged_append(transaction)

    with pytest.raises(TableReplacedError, match="a different commit as version 1"):
        transaction.commit(operation="WRITE")


def test_a_table_whose_files_were_copied_back_is_the_same(log: DeltaLog) -> None:
    transaction, snapshot = begin(log), log.snapshot()
    shutil.copytree(log.uri, f"{log.uri}-copy", copy_function=shutil.copyfile)
    drop(log)
    shutil.copytree(f"{log.uri}-copy", log.uri, copy_function=shutil.copyfile)
    staged_append(transaction)

    assert transaction.commit(operation="WRITE").version == 1
    assert snapshot.refresh().version == 1


def test_a_commit_checks_twice_that_the_table_is_the_same(log: DeltaLog) -> None:
    requests: list[str] = []

    def on_call(_number: int, method: str, path: str, when: Literal["before", "after"]) -> None:
        if method == "stat" and when == "before":
            requests.append(path)

    transaction = begin(DeltaLog(log.uri, storage=CountingStorage(log.storage, on_call)))
    staged_append(transaction)
    requests.clear()
    transaction.commit(operation="WRITE")

    assert requests == ["_delta_log/00000000000000000000.json"] * 2


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(StorageError("x", "read", "the connection was reset"), id="a failing store"),
        pytest.param(OSError("broken"), id="an error of the system"),
        pytest.param(MemoryError(), id="no memory"),
    ],
)
def test_a_commit_is_kept_if_the_store_does_not_answer(log: DeltaLog, error: Exception) -> None:
    transaction = begin(_failing_after_commit(log, error))
    staged_append(transaction)

    assert transaction.commit(operation="WRITE").version == 1


def test_an_interrupt_after_a_commit_says_that_it_succeeded(log: DeltaLog) -> None:
    transaction = begin(_failing_after_commit(log, KeyboardInterrupt()))
    staged_append(transaction)

    with pytest.raises(KeyboardInterrupt) as raised:
        transaction.commit(operation="WRITE")

    assert "version 1 was committed" in "".join(raised.value.__notes__)
    assert transaction.may_be_committed


def _failing_after_commit(log: DeltaLog, error: BaseException) -> DeltaLog:
    """The table; every check for a file fails once version 1 exists."""
    commits: list[str] = []

    def on_call(_number: int, method: str, path: str, when: Literal["before", "after"]) -> None:
        if method == "create" and path.endswith("1.json"):
            commits.append(path)
        elif method == "stat" and when == "before" and commits:
            raise error

    return DeltaLog(log.uri, storage=CountingStorage(log.storage, on_call))


def test_a_first_commit_that_was_cleaned_up_meanwhile_is_kept(tmp_path: Path) -> None:
    def go_on(committed: CommittedVersion) -> None:
        da.write(tmp_path, pa.table({"id": [2]}))
        create_checkpoint(DeltaLog(tmp_path))
        (tmp_path / "_delta_log" / commit_name(0)).unlink()

    assert da.write(tmp_path, pa.table({"id": [1]}), hooks=[go_on]).version == 0
    assert sorted(da.to_table(tmp_path)["id"].to_pylist()) == [1, 2]


def test_a_hook_after_a_table_was_replaced_learns_which_version_was_committed(
    log: DeltaLog,
) -> None:
    opened = []

    def open_again(committed: CommittedVersion) -> None:
        replace_by(NEW, NEW)(log)
        create_checkpoint(DeltaLog(log.uri))
        (Path(log.uri) / "_delta_log" / commit_name(committed.version)).unlink()
        with pytest.raises(TableReplacedError, match="Version 1 was committed before"):
            committed.open_snapshot()

        opened.append(committed)

    with pytest.raises(TableReplacedError, match="id was"):
        da.write(log, OLD, hooks=[open_again])
    assert opened


def test_a_table_that_is_replaced_just_after_its_first_commit_is_reported(tmp_path: Path) -> None:
    def make_again(committed: CommittedVersion) -> None:
        shutil.rmtree(tmp_path)
        da.write(tmp_path, pa.table({"other": ["x"]}))

    with pytest.raises(TableReplacedError, match="was deleted or replaced since then"):
        da.write(tmp_path, pa.table({"id": [1]}), hooks=[make_again])
    assert da.to_table(tmp_path).to_pylist() == [{"other": "x"}]

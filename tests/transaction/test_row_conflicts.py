"""Two commits that delete rows of one file by deletion vectors."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest
from pyroaring import BitMap64

from delta_ops import DeltaLog, begin, col
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.errors import CommitConflictError
from delta_ops.log.deletion_vectors import load_deletion_vector, write_deletion_vectors
from delta_ops.protocol.actions import AddFile, Protocol
from delta_ops.protocol.predicate import TRUE, Predicate
from delta_ops.transaction import Transaction
from tests.support.tables import add, live_paths, stage_files, write_log

VECTORS = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=("deletionVectors",),
    writer_features=("deletionVectors",),
)
HUNDRED = '{"numRecords":100,"minValues":{"id":0},"maxValues":{"id":99},"nullCount":{"id":0}}'


def table(root: Path, *names: str) -> DeltaLog:
    return write_log(root, [[add(name, stats=HUNDRED) for name in names], [VECTORS]])


def deleting(
    log: DeltaLog, name: str, rows: Collection[int], read: Predicate = TRUE, *, all_changed: bool
) -> Transaction:
    """A transaction that deletes rows of a file in addition to its deleted rows."""
    txn = begin(log, operation="restore")
    assert txn.snapshot
    file = next(file for file in txn.snapshot.add_files() if file.path == name)
    (vector,) = write_deletion_vectors(log.storage, [deleted(log, file) | BitMap64(rows)])
    txn.replace_vector(file, vector)
    txn.read(read, changes_rows=all_changed)
    return txn


def deleted(log: DeltaLog, file: AddFile) -> BitMap64:
    if file.deletion_vector is None:
        return BitMap64()
    snapshot = log.snapshot()
    return load_deletion_vector(snapshot.table_files, 0, file.path, file.deletion_vector)


def deleted_rows(log: DeltaLog) -> dict[str, list[int]]:
    return {file.path: list(deleted(log, file)) for file in log.snapshot().add_files()}


def test_rows_that_differ_are_deleted_by_both(tmp_path: Path) -> None:
    log = table(tmp_path, "a", "b")
    deleting(log, "a", {1, 2}, all_changed=True).commit(operation="DELETE")
    first = deleting(log, "a", {3}, all_changed=True)
    second = deleting(log, "a", {4, 5}, all_changed=True)
    third = deleting(log, "a", {6}, all_changed=True)
    versions = [txn.commit(operation="DELETE").version for txn in (second, third, first)]
    assert versions == [3, 4, 5]
    assert deleted_rows(log) == {"a": [1, 2, 3, 4, 5, 6], "b": []}
    assert live_paths(log) == {"a", "b"}
    # Each commit removes the file in the state that the previous commit left.
    gone = {str(each["deletionVector"]) for each in log.snapshot().tombstones().to_pylist()}
    assert len(gone) == 4


def test_the_later_action_for_a_file_wins(tmp_path: Path) -> None:
    log = table(tmp_path, "a")
    later = deleting(log, "a", {3}, all_changed=True)
    deleting(log, "a", {4}, all_changed=True).commit(operation="DELETE")
    later.commit(operation="DELETE")
    (file,) = log.snapshot().add_files()
    assert file.deletion_vector is not None
    assert file.deletion_vector.cardinality == 2
    assert file.stats is not None
    assert '"tightBounds":false' in file.stats


def test_a_row_that_both_delete_is_a_conflict(tmp_path: Path) -> None:
    log = table(tmp_path, "a")
    later = deleting(log, "a", {3, 4}, all_changed=True)
    deleting(log, "a", {4, 5}, all_changed=True).commit(operation="DELETE")
    with pytest.raises(CommitConflictError, match="changed 1 of the rows") as raised:
        later.commit(operation="DELETE")
    assert raised.value.kind == "delete delete"
    assert deleted_rows(log) == {"a": [4, 5]}


def test_a_change_that_reads_other_rows_is_rerun(tmp_path: Path) -> None:
    log = table(tmp_path, "a")
    later = deleting(log, "a", {3}, all_changed=False)
    deleting(log, "a", {4}, all_changed=True).commit(operation="DELETE")
    with pytest.raises(CommitConflictError):
        later.commit(operation="DELETE")


def test_one_other_read_is_enough(tmp_path: Path) -> None:
    log = table(tmp_path, "a")
    later = deleting(log, "a", {3}, all_changed=True)
    later.read(col("id") == 7)
    deleting(log, "a", {4}, all_changed=True).commit(operation="DELETE")
    with pytest.raises(CommitConflictError):
        later.commit(operation="DELETE")


def test_rows_that_were_deleted_in_other_files_are_no_conflict(tmp_path: Path) -> None:
    log = table(tmp_path, "a", "b")
    later = deleting(log, "a", {3}, all_changed=True)
    deleting(log, "b", {3}, all_changed=True).commit(operation="DELETE")
    later.commit(operation="DELETE")
    assert deleted_rows(log) == {"a": [3], "b": [3]}


def test_rows_that_came_back_are_a_conflict(tmp_path: Path) -> None:
    log = table(tmp_path, "a")
    deleting(log, "a", {1, 2}, all_changed=True).commit(operation="DELETE")
    later = deleting(log, "a", {3}, all_changed=True)
    undo = begin(log, operation="restore")
    assert undo.snapshot
    undo.replace_vector(undo.snapshot.add_files()[0], None)
    undo.commit(operation="RESTORE")
    with pytest.raises(CommitConflictError):
        later.commit(operation="DELETE")
    assert deleted_rows(log) == {"a": []}


def test_a_file_that_was_removed_is_a_conflict(tmp_path: Path) -> None:
    log = table(tmp_path, "a")
    later = deleting(log, "a", {3}, all_changed=True)
    gone = begin(log, operation="restore")
    assert gone.snapshot
    gone.remove(gone.snapshot.add_files())
    gone.commit(operation="DELETE")
    with pytest.raises(CommitConflictError):
        later.commit(operation="DELETE")


def test_a_file_that_ours_rewrites_is_a_conflict(tmp_path: Path) -> None:
    log = table(tmp_path, "a")
    later = begin(log, operation="restore")
    assert later.snapshot
    later.read(TRUE, changes_rows=True)
    later.remove(later.snapshot.add_files())
    deleting(log, "a", {4}, all_changed=True).commit(operation="DELETE")
    with pytest.raises(CommitConflictError):
        later.commit(operation="DELETE")


def test_a_vector_that_a_vacuum_took_before_its_commit_is_not_named(tmp_path: Path) -> None:
    log = table(tmp_path, "a")
    (tmp_path / "a").touch()
    days = 0
    txn = begin(log, operation="restore", clock=lambda: system_clock() + days * DAY_MS)
    assert txn.snapshot
    (vector,) = write_deletion_vectors(log.storage, [BitMap64([1])])
    txn.replace_vector(txn.snapshot.add_files()[0], vector)
    (file,) = tmp_path.glob("deletion_vector_*.bin")
    file.unlink()
    days = 8
    with pytest.raises(CommitConflictError, match="a vacuum has deleted 1 of the files") as raised:
        txn.commit(operation="DELETE")
    assert raised.value.kind == "vacuum"
    assert deleted_rows(log) == {"a": []}


def test_rows_that_the_winner_added_count_as_ever(tmp_path: Path) -> None:
    log = table(tmp_path, "a")
    later = deleting(log, "a", {3}, col("id") == 3, all_changed=True)
    update = deleting(log, "a", {4}, all_changed=True)
    update.stage(stage_files(add("new", stats=HUNDRED)))
    update.commit(operation="UPDATE")
    with pytest.raises(CommitConflictError, match="added rows"):
        later.commit(operation="DELETE")

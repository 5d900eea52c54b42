"""Rebase of a branch: its changes follow the latest version of main."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.ddl import NewColumn, add_columns
from delta_ops.errors import (
    DeltaOpsError,
    InvalidRequestError,
    PublishConflictError,
    TableBusyError,
    TableReplacedError,
    VersionNotFoundError,
)
from delta_ops.log.refs.refs import refs_journal
from delta_ops.maintenance import clean_up_log, create_checkpoint, optimize, vacuum
from delta_ops.storage import open_storage
from delta_ops.versioning import (
    create_anchor,
    create_branch,
    create_tag,
    delete_branch,
    list_branches,
    open_branch,
    publish,
    rebase_branch,
    rename_branch,
    verify_refs,
)
from tests.support.counting_storage import CountingStorage
from tests.support.faulty_storage import Killed, copies_of, crashes
from tests.support.tables import rows_by_deltalake


def rows_of(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64())})


def ids(source: Any, **options: Any) -> list[int]:
    return sorted(da.to_table(source, **options)["id"].to_pylist())


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    return table_with_branch(tmp_path / "t")


def table_with_branch(root: Path) -> DeltaLog:
    """Rows 1 to 3, and a branch that deletes 1 and has appended 10; main has got 20 since."""
    da.write(root, rows_of(1, 2, 3))
    create_branch(root, "x")
    branch = open_branch(root, "x")
    da.delete(branch, "id = 1")
    da.write(branch, rows_of(10))
    da.write(root, rows_of(20))
    return DeltaLog(root)


def test_a_rebased_branch_has_the_rows_of_main_with_its_changes(log: DeltaLog) -> None:
    with pytest.raises(PublishConflictError):
        publish(log, "x")
    branch = rebase_branch(log, "x")
    assert (branch.name, branch.base_version) == ("x", 1)
    assert ids(log, ref="branch:x") == [2, 3, 10, 20]
    assert ids(log) == [1, 2, 3, 20]
    (entry, *_) = open_branch(log, "x").history()
    assert (entry.version, entry.operation) == (2, "REBASE BRANCH")
    assert publish(log, "x", expected_branch_version=2).version == 2
    assert sorted(row["id"] for row in rows_by_deltalake(Path(log.uri))) == [2, 3, 10, 20]


def test_main_that_has_not_moved_changes_nothing(tmp_path: Path) -> None:
    da.write(tmp_path / "t", rows_of(1))
    create_branch(tmp_path / "t", "x")
    handle = open_branch(tmp_path / "t", "x")
    da.write(handle, rows_of(2))
    before = list_branches(tmp_path / "t")
    assert [rebase_branch(tmp_path / "t", "x")] == before
    da.write(handle, rows_of(3))
    assert ids(handle) == [1, 2, 3]


def test_a_branch_without_commits_gets_the_latest_version(tmp_path: Path) -> None:
    da.write(tmp_path / "t", rows_of(1))
    create_branch(tmp_path / "t", "x")
    handle = open_branch(tmp_path / "t", "x")
    da.write(tmp_path / "t", rows_of(2))
    rebase_branch(tmp_path / "t", "x")
    assert ids(tmp_path / "t", ref="branch:x") == [1, 2]
    with pytest.raises(TableReplacedError, match="was rebased and must be opened again"):
        da.write(handle, rows_of(3))


def test_a_branch_is_rebased_several_times(log: DeltaLog) -> None:
    for number in (30, 40):
        rebase_branch(log, "x")
        da.write(open_branch(log, "x"), rows_of(number + 1))
        da.write(log, rows_of(number))
    rebase_branch(log, "x")
    assert ids(log, ref="branch:x") == [2, 3, 10, 20, 30, 31, 40, 41]
    publish(log, "x")
    assert ids(log) == [2, 3, 10, 20, 30, 31, 40, 41]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda log: da.delete(log, "id = 1"), id="the same row was deleted"),
        pytest.param(lambda log: da.write(log, rows_of(1)), id="a row was added that it reads"),
        pytest.param(optimize, id="its file was compacted"),
        pytest.param(
            lambda log: add_columns(log, [NewColumn(name="note", data_type="string")]),
            id="a column was added",
        ),
    ],
)
def test_a_commit_that_contradicts_the_branch_leaves_it_as_it_was(
    log: DeltaLog, change: Callable[[DeltaLog], Any]
) -> None:
    handle = open_branch(log, "x")
    change(log)
    before = refs_journal(log.storage).load().state
    with pytest.raises(PublishConflictError, match=r"cannot be rebased, .* Create another"):
        rebase_branch(log, "x")
    assert refs_journal(log.storage).load().state == before
    da.write(handle, rows_of(11))
    assert ids(log, ref="branch:x") == [2, 3, 10, 11]


def test_a_branch_whose_commits_of_main_are_gone_is_not_rebased(log: DeltaLog) -> None:
    create_tag(log, "old", 0)
    create_anchor(log, "tag:old")
    da.write(log, rows_of(30))
    create_checkpoint(log)
    for version in (0, 1):  # as another engine cleans up
        Path(log.uri, f"_delta_log/{version:020}.json").unlink()
    with pytest.raises(PublishConflictError, match="their changes are unknown"):
        rebase_branch(log, "x")
    assert ids(log, ref="branch:x") == [2, 3, 10]


def test_the_reads_of_a_branch_count_after_a_rebase(log: DeltaLog) -> None:
    rebase_branch(log, "x")
    da.write(log, rows_of(1))  # a row that the branch would have deleted
    with pytest.raises(PublishConflictError):
        publish(log, "x", rebase=True)


def test_columns_of_the_branch_stay(tmp_path: Path) -> None:
    da.write(tmp_path / "t", rows_of(1))
    create_branch(tmp_path / "t", "x")
    branch = open_branch(tmp_path / "t", "x")
    add_columns(branch, [NewColumn(name="note", data_type="string")])
    da.write(branch, pa.table({"id": [2], "note": ["a"]}))
    vacuum(tmp_path / "t")  # commits a version without changes
    da.write(tmp_path / "t", rows_of(3))
    with pytest.raises(PublishConflictError):  # conditions may name the new column
        rebase_branch(tmp_path / "t", "x")


def test_a_published_branch_is_not_rebased(log: DeltaLog) -> None:
    publish(log, "x", rebase=True)
    with pytest.raises(InvalidRequestError, match="was published as version 2"):
        rebase_branch(log, "x")


def test_a_branch_whose_publication_was_killed_is_not_rebased(log: DeltaLog) -> None:
    with pytest.raises(Killed):
        publish(dying_after(log, "close branch"), "x", rebase=True)
    with pytest.raises(TableBusyError, match="Publish the branch again"):
        rebase_branch(log, "x")
    publish(log, "x", rebase=True)
    assert ids(log) == [2, 3, 10, 20]


def dying_after(log: DeltaLog, change: str) -> DeltaLog:
    """A handle whose process dies after the journal entry whose description begins like this."""

    def on_call(_number: int, method: str, path: str, when: str) -> None:
        is_entry = method == "create" and path.startswith("_delta_ops/refs/") and when == "after"
        if is_entry and refs_journal(log.storage).load().change.startswith(change):
            raise Killed

    return log.over(CountingStorage(log.storage, on_call))


def test_a_missing_branch_is_named(log: DeltaLog) -> None:
    with pytest.raises(VersionNotFoundError, match="branch y"):
        rebase_branch(log, "y")


def test_a_killed_rebase_is_finished_by_the_next_rebase_or_publication(tmp_path: Path) -> None:
    table_with_branch(tmp_path / "t")
    fresh = copies_of(tmp_path / "t", tmp_path / "copies")
    places = 0
    for place, storage in crashes(fresh, lambda s: rebase_branch(DeltaLog("", storage=s), "x")):
        log = DeltaLog("", storage=storage)
        assert [each.name for each in list_branches(log)] == ["x"], place
        assert all(each.is_readable for each in verify_refs(log)), place
        vacuum(log, retention=timedelta(0), enforce_retention=False)
        assert ids(log, ref="branch:x") in ([2, 3, 10], [2, 3, 10, 20]), place
        if places % 2:
            rebase_branch(log, "x")
            assert ids(log, ref="branch:x") == [2, 3, 10, 20], place
        publish(log, "x", rebase=True)
        assert ids(log) == [2, 3, 10, 20], place
        delete_branch(log, "x")
        assert not refs_journal(storage).load().state.branches, place
        places += 1
    assert places > 10


def each_call(tmp_path: Path, meanwhile: Callable[[Path], object]) -> Any:
    """Rebase with something else at each call; yields the root, and the error or None."""
    for chosen in count():
        root = tmp_path / str(chosen)
        table_with_branch(root)
        happened: list[int] = []

        def on_call(number: int, _method: str, _path: str, when: str, root: Path = root) -> None:
            if number == chosen and when == "before" and not happened:  # noqa: B023
                happened.append(number)  # noqa: B023
                meanwhile(root)

        storage = CountingStorage(open_storage(root), on_call)
        error = None
        try:
            rebase_branch(DeltaLog(root, storage=storage), "x")
        except DeltaOpsError as found:
            error = found
        if not happened:
            return
        yield root, error


@pytest.mark.full
def test_a_commit_at_any_call_is_in_the_branch_or_its_writer_gets_an_error(tmp_path: Path) -> None:
    acknowledged: list[Path] = []

    def write(root: Path) -> None:
        try:
            da.write(open_branch(root, "x"), rows_of(11))
        except DeltaOpsError:
            return
        acknowledged.append(root)

    for root, error in each_call(tmp_path, write):
        found = ids(root, ref="branch:x")
        assert (root in acknowledged) <= (11 in found), (root, error)
        assert 10 in found


@pytest.mark.full
@pytest.mark.parametrize("rebase", [False, True])
def test_a_publication_at_any_call_publishes_once(tmp_path: Path, rebase: bool) -> None:
    published: list[Path] = []

    def publish_now(root: Path) -> None:
        try:
            publish(root, "x", rebase=rebase)
        except DeltaOpsError:
            return
        published.append(root)

    for root, error in each_call(tmp_path, publish_now):
        if root in published:
            assert ids(root) == [2, 3, 10, 20], (root, error)
        else:
            assert ids(root) == [1, 2, 3, 20], (root, error)
            publish(root, "x", rebase=True)
            assert ids(root) == [2, 3, 10, 20], (root, error)


@pytest.mark.full
def test_another_rebase_at_any_call_leaves_one_branch(tmp_path: Path) -> None:
    def rebase_now(root: Path) -> None:
        rebase_branch(root, "x")

    for root, error in each_call(tmp_path, rebase_now):
        assert ids(root, ref="branch:x") == [2, 3, 10, 20], (root, error)
        assert len(refs_journal(open_storage(root)).load().state.branches) == 1, (root, error)


@pytest.mark.full
def test_a_vacuum_at_any_call_leaves_a_branch_that_can_be_read(tmp_path: Path) -> None:
    def clean(root: Path) -> None:
        vacuum(root, retention=timedelta(0), enforce_retention=False)
        clean_up_log(root)

    for root, error in each_call(tmp_path, clean):
        assert error is None, root
        assert ids(root, ref="branch:x") == [2, 3, 10, 20]


@pytest.mark.full
def test_a_deletion_or_a_new_name_at_any_call_counts(tmp_path: Path) -> None:
    for root, error in each_call(tmp_path / "d", lambda root: delete_branch(root, "x")):
        assert not refs_journal(open_storage(root)).load().state.branches, (root, error)
        assert error is not None
    for root, error in each_call(tmp_path / "r", lambda root: rename_branch(root, "x", "y")):
        assert error is None, root
        assert ids(root, ref="branch:y") == [2, 3, 10, 20]

"""Publishing a branch: one commit on main, or nothing."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.ddl import drop_table
from delta_ops.errors import (
    DeletedMeanwhileError,
    DeltaOpsError,
    InvalidRequestError,
    PublishConflictError,
    TableReplacedError,
)
from delta_ops.log.refs.branches import find_branch
from delta_ops.log.refs.refs import refs_journal
from delta_ops.maintenance import backfill_statistics, optimize, vacuum
from delta_ops.storage import open_storage
from delta_ops.versioning import (
    create_branch,
    delete_branch,
    diff_branch,
    list_branches,
    open_branch,
    publish,
)
from tests.maintenance.aged_tables import Table, overwritten
from tests.support.counting_storage import CountingStorage
from tests.support.faulty_storage import Killed, copies_of, crashes
from tests.support.tables import rows_by_deltalake

FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}


def made(root: Path, *ids: int, **configuration: str) -> DeltaLog:
    """A table with a file for each row."""
    for number in ids:
        da.write(root, rows_of(number), configuration=configuration or None)
    return DeltaLog(root)


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def branch_of(log: DeltaLog, name: str = "x") -> DeltaLog:
    create_branch(log, name)
    return open_branch(log, name)


def ids_of(source: Any, **options: Any) -> list[int]:
    return sorted(da.to_table(source, **options)["id"].to_pylist())


def validate_in_deltalake(log: DeltaLog) -> None:
    """Compare with deltalake, which does not read deletion vectors."""
    if not log.snapshot().definition.has("deletionVectors"):
        assert sorted(row["id"] for row in rows_by_deltalake(Path(log.uri))) == ids_of(log)


@pytest.fixture(params=[{}, VECTORS], ids=["files", "deletion vectors"])
def log(tmp_path: Path, request: pytest.FixtureRequest) -> DeltaLog:
    """Rows 1 to 3, in two files of one row and one file of two rows."""
    root = tmp_path / "t"
    da.write(root, rows_of(1, 2), configuration=request.param or None)
    da.write(root, rows_of(3))
    return DeltaLog(root)


def test_the_changes_of_all_commits_are_published_as_one(log: DeltaLog) -> None:
    branch = branch_of(log)
    da.delete(branch, "id = 1")
    da.write(branch, rows_of(4))
    da.update(branch, {"id": "id + 10"}, "id > 2")
    da.write(branch, rows_of(5))
    da.delete(branch, "id = 5")
    expected = ids_of(branch)
    result = publish(log, "x", expected_branch_version=6)
    assert (result.version, result.branch_version, result.already_published) == (2, 6, False)
    assert ids_of(log) == expected == [2, 13, 14]
    assert log.snapshot().version == 2
    validate_in_deltalake(log)


def test_files_that_were_added_and_removed_on_the_branch_vanish(log: DeltaLog) -> None:
    branch = branch_of(log)
    da.write(branch, rows_of(4))
    da.write(branch, rows_of(5), mode="overwrite")
    publish(log, "x")
    (commit,) = log.commits(2)
    assert (len(commit.adds), len(commit.removes)) == (1, 2)
    assert ids_of(log) == [5]


def test_removed_files_stay_for_the_retention_after_the_publication(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    create_branch(table.log, "x", clock=table.clock)
    branch = open_branch(table.log, "x")
    data = pa.table({"id": [9], "p": ["a"]})
    da.write(begin(branch, clock=table.clock), data, mode="overwrite")
    table.pass_time(days=5)
    publish(table.log, "x", clock=table.clock)
    (commit,) = table.log.commits(3)
    assert commit.removes["deletionTimestamp"].to_pylist() == [table.now_ms]


def test_a_second_publication_does_nothing(log: DeltaLog) -> None:
    branch = branch_of(log)
    da.write(branch, rows_of(4))
    first = publish(log, "x")
    da.write(log, rows_of(5))
    second = publish(log, "x")
    assert (second.version, second.already_published) == (first.version, True)
    assert ids_of(log) == [1, 2, 3, 4, 5]
    assert ids_of(log, ref="branch:x") == [1, 2, 3, 4]


def test_a_published_branch_takes_no_more_commits(log: DeltaLog) -> None:
    branch = branch_of(log)
    da.write(branch, rows_of(4))
    publish(log, "x")
    with pytest.raises(TableReplacedError, match="was published as version 2; create another"):
        da.write(branch, rows_of(5))


def test_an_empty_branch_publishes_nothing_and_stays_open(log: DeltaLog) -> None:
    branch = branch_of(log)
    assert publish(log, "x").version is None
    da.write(branch, rows_of(4))
    assert publish(log, "x").version == 2


def test_only_the_expected_version_is_published(log: DeltaLog) -> None:
    branch = branch_of(log)
    da.write(branch, rows_of(4))
    da.write(branch, rows_of(5))
    with pytest.raises(InvalidRequestError, match="at version 3, and version 2 was expected"):
        publish(log, "x", expected_branch_version=2)
    da.write(branch, rows_of(6))
    assert publish(log, "x", expected_branch_version=4).version == 2
    with pytest.raises(InvalidRequestError, match="at version 4, and version 3 was expected"):
        publish(log, "x", expected_branch_version=3)


@pytest.mark.some_cases(4)
@pytest.mark.parametrize(
    ("on_branch", "on_main", "ids"),
    [
        pytest.param(
            lambda log: da.write(log, rows_of(4)),
            lambda log: da.write(log, rows_of(9)),
            [1, 2, 3, 4, 9],
            id="an append beside an append",
        ),
        pytest.param(
            lambda log: da.delete(log, "id = 3"),
            lambda log: da.delete(log, "id = 1"),
            [2],
            id="deletions from different files",
        ),
        pytest.param(
            lambda log: da.delete(log, "id = 3"),
            lambda log: da.write(log, rows_of(9)),
            [1, 2, 9],
            id="a deletion beside rows that it does not match",
        ),
        pytest.param(
            lambda log: da.delete(log, "id = 3"),
            lambda log: da.write(log, rows_of(3)),
            None,
            id="a deletion beside rows that it matches",
        ),
        pytest.param(
            lambda log: da.write(log, rows_of(4), mode="overwrite"),
            lambda log: da.write(log, rows_of(9)),
            None,
            id="an overwrite beside an append",
        ),
        pytest.param(
            lambda log: da.delete(log, "id = 3"),
            lambda log: da.update(log, {"id": "id + 20"}, "id = 3"),
            None,
            id="two changes of a row",
        ),
        pytest.param(
            lambda log: da.write(log, rows_of(4)),
            optimize,
            [1, 2, 3, 4],
            id="an append beside a compaction",
        ),
        pytest.param(
            lambda log: da.delete(log, "id = 3"),
            optimize,
            None,
            id="a deletion beside a compaction of its file",
        ),
        pytest.param(
            lambda log: da.write(log, rows_of(4)),
            lambda log: da.write(log, pa.table({"id": [9], "note": ["a"]}), merge_schema=True),
            None,
            id="an append beside a change of columns",
        ),
        pytest.param(
            lambda log: da.write(log, rows_of(4), txn=("app", 1)),
            lambda log: da.write(log, rows_of(4), txn=("app", 1)),
            None,
            id="one txn on both sides",
        ),
    ],
)
def test_a_rebase_publishes_beside_commits_that_the_branch_does_not_depend_on(
    log: DeltaLog,
    on_branch: Callable[[DeltaLog], object],
    on_main: Callable[[DeltaLog], object],
    ids: list[int] | None,
) -> None:
    branch = branch_of(log)
    on_branch(branch)
    on_main(log)
    before = log.snapshot().version
    if ids is None:
        with pytest.raises(PublishConflictError, match="branch 'x' cannot be published"):
            publish(log, "x", rebase=True)
        assert log.snapshot().version == before
        da.write(branch, rows_of(30))  # the branch is open again
        return
    assert publish(log, "x", rebase=True).version == before + 1
    assert ids_of(log) == ids
    validate_in_deltalake(log)


def test_main_that_has_moved_is_an_error_by_default(log: DeltaLog) -> None:
    branch = branch_of(log)
    da.write(branch, rows_of(4))
    da.write(log, rows_of(9))
    with pytest.raises(
        PublishConflictError, match=r"version 2 .* Publish it with rebase=True"
    ) as e:
        publish(log, "x")
    assert pickle.loads(pickle.dumps(e.value)).branch == "x"
    assert ids_of(log) == [1, 2, 3, 9]
    assert publish(log, "x", rebase=True).version == 3


def test_vacuums_and_compactions_of_main_do_not_count_as_moves(log: DeltaLog) -> None:
    branch = branch_of(log)
    da.write(branch, rows_of(4))
    optimize(log)
    transaction = begin(log)
    transaction.set_transaction(("nightly", 1))
    transaction.commit(operation="WRITE")
    publish(log, "x")
    assert ids_of(log) == [1, 2, 3, 4]


def test_row_changes_of_different_rows_of_a_file_are_united(tmp_path: Path) -> None:
    log = made(tmp_path / "t")
    da.write(tmp_path / "t", rows_of(1, 2, 3), configuration=VECTORS)
    branch = branch_of(DeltaLog(tmp_path / "t"))
    da.delete(branch, "id = 1")
    da.delete(log, "id = 2")
    assert publish(log, "x", rebase=True).version == 2
    assert ids_of(log) == [3]


def test_columns_properties_and_txns_are_published(log: DeltaLog) -> None:
    branch = branch_of(log)
    da.write(branch, pa.table({"id": [4], "note": ["a"]}), merge_schema=True, txn=("app", 7))
    transaction = begin(branch)
    transaction.set_properties({"delta.checkpointInterval": "20"})
    transaction.commit(operation="SET TBLPROPERTIES")
    publish(log, "x")
    latest = log.snapshot()
    assert latest.arrow_schema.names == ["id", "note"]
    assert latest.properties.checkpoint_interval == 20
    assert latest.transactions()["app"].version == 7
    assert da.write(log, rows_of(4), txn=("app", 7)).already_committed


def test_in_commit_timestamps_that_begin_on_the_branch_begin_on_main(log: DeltaLog) -> None:
    branch = branch_of(log)
    da.write(branch, rows_of(4))
    transaction = begin(branch)
    transaction.set_properties({"delta.enableInCommitTimestamps": "true"})
    transaction.commit(operation="SET TBLPROPERTIES")
    publish(log, "x")
    configuration = log.snapshot().metadata.configuration
    assert configuration["delta.inCommitTimestampEnablementVersion"] == "2"
    da.write(log, rows_of(5))
    assert [entry.version for entry in log.history(2)] == [3, 2]


def test_new_statistics_of_an_old_file_are_published_as_such(tmp_path: Path) -> None:
    root = tmp_path / "t"
    da.write(root, rows_of(1), configuration={"delta.dataSkippingNumIndexedCols": "0"})
    log = DeltaLog(root)
    branch = branch_of(log)
    transaction = begin(branch)
    transaction.set_properties({"delta.dataSkippingNumIndexedCols": "1"})
    transaction.commit(operation="SET TBLPROPERTIES")
    backfill_statistics(branch)
    publish(log, "x")
    (add,) = log.snapshot().add_files()
    assert add.stats is not None
    assert '"minValues":{"id":1}' in add.stats
    (commit,) = log.commits(1)
    assert commit.adds["dataChange"].to_pylist() == [False]


def test_a_branch_of_one_change_keeps_its_change_files(tmp_path: Path) -> None:
    log = made(tmp_path / "t", 1, 2, **FEED)
    branch = branch_of(log)
    da.update(branch, {"id": "id + 10"}, "id = 1")
    publish(log, "x")
    changes = da.read_changes(log, 2).read_all().to_pylist()
    found = sorted((each["_change_type"], each["id"]) for each in changes)
    assert found == [("update_postimage", 11), ("update_preimage", 1)]


def test_appends_and_overwrites_are_published_to_a_change_feed(tmp_path: Path) -> None:
    log = made(tmp_path / "t", 1, 2, **FEED)
    branch = branch_of(log)
    da.write(branch, rows_of(3))
    da.write(branch, rows_of(4), mode="overwrite")
    publish(log, "x")
    changes = da.read_changes(log, 2).read_all().to_pylist()
    found = sorted((each["_change_type"], each["id"]) for each in changes)
    assert found == [("delete", 1), ("delete", 2), ("insert", 4)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda log: da.update(log, {"id": "id + 10"}, "id = 1"), "needs the changed rows of one"),
        (optimize, "has compacted files"),
    ],
    ids=["an update", "a compaction"],
)
def test_what_a_change_feed_cannot_show_is_rejected(
    tmp_path: Path, change: Callable[[DeltaLog], object], message: str
) -> None:
    log = made(tmp_path / "t", 1, 2, **FEED)
    branch = branch_of(log)
    da.write(branch, rows_of(3))
    change(branch)
    with pytest.raises(InvalidRequestError, match=message):
        publish(log, "x")
    assert find_branch(log.storage, "x").last_version is None
    assert log.snapshot().version == 1


def test_a_killed_publication_is_finished_by_the_next(tmp_path: Path) -> None:
    log = made(tmp_path / "t", 1)
    da.write(branch_of(log), rows_of(2))
    fresh = copies_of(tmp_path / "t", tmp_path / "copies")
    found = set()
    for place, storage in crashes(fresh, lambda s: publish(DeltaLog("", storage=s), "x")):
        copy = DeltaLog("", storage=storage)
        found.add(tuple(ids_of(copy)))
        result = publish(copy, "x")
        assert (result.version, copy.snapshot().version) == (1, 1), place
        assert ids_of(copy) == [1, 2], place
        assert find_branch(storage, "x").published_version == 1, place
    assert found == {(1,), (1, 2)}


def test_a_publication_whose_answer_was_lost_is_not_repeated(tmp_path: Path) -> None:
    log = made(tmp_path / "t", 1)
    da.write(branch_of(log), rows_of(2))
    lost: list[str] = []

    def lose(_number: int, method: str, path: str, when: str) -> None:
        if (method, when) == ("create", "after") and path not in lost:
            lost.append(path)
            raise FileExistsError(path)

    storage = CountingStorage(open_storage(tmp_path / "t"), lose)
    assert publish(DeltaLog(tmp_path / "t", storage=storage), "x").version == 1
    assert any(path.startswith("_delta_log/") for path in lost)
    assert (ids_of(log), log.snapshot().version) == ([1, 2], 1)


def at_entry(
    log: DeltaLog, change: str, moment: str, act: Callable[[], object], path: str = ""
) -> DeltaLog:
    """A handle that acts once, before or after a journal entry or another file is created.

    Args:
        change: The journal entry, by its text.
        path: The other file, by its start.
    """
    done: list[str] = []

    def on_call(_number: int, method: str, created: str, when: str) -> None:
        is_entry = change and created.startswith("_delta_ops/refs/")
        if method != "create" or not (is_entry or (path and created.startswith(path))):
            return
        if is_entry and moment == "after" and change not in refs_journal(log.storage).load().change:
            return
        if when == moment and not done:
            done.append(created)
            act()

    return log.over(CountingStorage(log.storage, on_call))


def die() -> None:
    raise Killed


def test_a_commit_that_a_killed_publication_has_not_seen_is_published(tmp_path: Path) -> None:
    log = with_a_commit(tmp_path)
    late = partial(da.write, open_branch(log, "x"), rows_of(3))
    with pytest.raises(Killed):
        publish(at_entry(at_entry(log, "close", "before", late), "close", "after", die), "x")
    result = publish(log, "x")
    assert (result.branch_version, ids_of(log)) == (2, [1, 2, 3])


def test_a_branch_that_a_paused_publication_may_publish_takes_no_commits(tmp_path: Path) -> None:
    log = with_a_commit(tmp_path)

    def publish_strictly() -> None:
        da.write(log, rows_of(9))
        with pytest.raises(PublishConflictError):
            publish(log, "x")
        with pytest.raises(TableReplacedError, match="is being published"):
            da.write(open_branch(log, "x"), rows_of(3))

    paused = at_entry(log, "", "before", publish_strictly, "_delta_log/")
    assert publish(paused, "x", rebase=True).version == 2
    assert ids_of(log) == [1, 2, 9]
    assert find_branch(log.storage, "x").published_version == 2


def at_each_call(
    root: Path, act: Callable[[DeltaLog], object], make: Callable[[Path], DeltaLog]
) -> Any:
    """Publish a branch, with another action at each call of it; yields the log and any error."""
    for call in count(1):
        log = make(root / str(call))
        seen = 0

        def interrupt(number: int, _method: str, _path: str, when: str) -> None:
            nonlocal seen
            seen = number
            if (number, when) == (call, "before"):  # noqa: B023  # called within the turn
                act(log)  # noqa: B023

        storage = CountingStorage(open_storage(root / str(call)), interrupt)
        error: DeltaOpsError | None = None
        try:
            publish(DeltaLog(root / str(call), storage=storage), "x")
        except DeltaOpsError as raised:
            error = raised
        yield log, error
        if call > seen:
            return


def with_a_commit(root: Path) -> DeltaLog:
    log = made(root, 1)
    da.write(branch_of(log), rows_of(2))
    return log


@pytest.mark.full
def test_a_commit_to_the_branch_at_any_call_is_published_or_rejected(
    tmp_path: Path,
) -> None:
    refused: list[bool] = []

    def append(log: DeltaLog) -> None:
        try:
            da.write(open_branch(log, "x"), rows_of(3))
            refused.append(False)
        except TableReplacedError:
            refused.append(True)

    outcomes = set()
    for log, error in at_each_call(tmp_path, append, with_a_commit):
        assert error is None
        is_refused = refused[-1] if refused else True
        assert ids_of(log) == ([1, 2] if is_refused else [1, 2, 3])
        outcomes.add(is_refused)
        refused.clear()
    assert outcomes == {True, False}


@pytest.mark.full
def test_a_second_publication_at_any_call_of_the_first_changes_nothing(tmp_path: Path) -> None:
    versions = []
    act: Callable[[DeltaLog], object] = lambda log: versions.append(publish(log, "x").version)  # noqa: E731
    for log, error in at_each_call(tmp_path, act, with_a_commit):
        assert error is None
        assert (ids_of(log), log.snapshot().version) == ([1, 2], 1)
    assert set(versions) == {1}


@pytest.mark.full
def test_an_append_to_main_at_any_call_of_a_publication_comes_after_it_or_stops_it(
    tmp_path: Path,
) -> None:
    found = set()
    act: Callable[[DeltaLog], object] = lambda log: da.write(log, rows_of(9))  # noqa: E731
    for log, error in at_each_call(tmp_path, act, with_a_commit):
        assert error is None or isinstance(error, PublishConflictError)
        ids = ids_of(log)
        found.add(tuple(ids))
        assert (2 in ids) is (error is None)
    assert {(1, 9), (1, 2, 9)} <= found


def test_a_deletion_and_a_vacuum_at_any_call_of_a_publication_lose_no_acknowledged_row(
    tmp_path: Path,
) -> None:
    clock = [0]

    def delete(log: DeltaLog) -> None:
        delete_branch(log, "x")
        vacuum(log, clock=lambda: clock[0])

    def old(root: Path) -> DeltaLog:
        table = Table(root)
        table.write([1], configuration={"delta.deletedFileRetentionDuration": "interval 30 days"})
        create_branch(table.log, "x")
        data = pa.table({"id": pa.array([2], pa.int64()), "p": ["a"]})
        da.write(open_branch(table.log, "x"), data)
        table.date()
        clock[0] = table.now_ms + 31 * DAY_MS
        return table.log

    errors = set()
    for log, error in at_each_call(tmp_path, delete, old):
        errors.add(type(error))
        if isinstance(error, DeletedMeanwhileError):
            continue
        assert ids_of(log) == ([1, 2] if error is None else [1])
    assert {type(None), TableReplacedError, DeletedMeanwhileError} <= errors


def test_a_table_named_by_a_branch_handle_is_the_table(log: DeltaLog) -> None:
    branch = branch_of(log)
    da.write(branch, rows_of(4))
    assert publish(branch, "x").version == 2
    assert list_branches(branch)[0].published_version == 2


def test_a_published_branch_does_not_stop_a_drop(tmp_path: Path) -> None:
    log = with_a_commit(tmp_path / "t")
    publish(log, "x")
    drop_table(log, "t")
    assert not log.exists()


def test_a_diff_names_what_a_publication_commits(log: DeltaLog) -> None:
    branch = branch_of(log)
    da.write(branch, pa.table({"id": [4], "note": ["a"]}), merge_schema=True)
    da.write(branch, rows_of(5), mode="overwrite")
    transaction = begin(branch)
    transaction.set_properties({"delta.checkpointInterval": "20"})
    transaction.commit(operation="SET TBLPROPERTIES")
    da.write(log, rows_of(9))
    diff = diff_branch(log, "x")
    assert (diff.base_version, diff.branch_version, diff.main_version) == (1, 4, 2)
    assert (len(diff.added), len(diff.removed)) == (1, 2)
    assert diff.columns == ("added note string",)
    assert diff.properties == ("delta.checkpointInterval",)


@pytest.mark.parametrize("num_commits", [0, 3])
def test_a_publication_reads_each_commit_of_main_once(tmp_path: Path, num_commits: int) -> None:
    log = made(tmp_path / "t", 1)
    da.write(branch_of(log), rows_of(2))
    for number in range(num_commits):
        da.write(log, rows_of(10 + number))
    calls: list[tuple[str, str]] = []

    def note(_number: int, method: str, path: str, when: str) -> None:
        if when == "before" and path.startswith("_delta_log"):
            calls.append((method, path))

    counted = DeltaLog(tmp_path / "t", storage=CountingStorage(open_storage(tmp_path / "t"), note))
    assert publish(counted, "x", rebase=True).version == num_commits + 1
    reads = [path for method, path in calls if method == "read"]
    commits = [path for path in reads if path.endswith(".json") and "00.json" not in path]
    assert len(commits) == len(set(commits)) == num_commits
    # One listing opens the base version; the commit loop lists before each attempt.
    assert sum(method == "list_from" for method, _ in calls) == 1 + num_commits + 1


@pytest.mark.parametrize("is_lost", [False, True], ids=["all files are there", "a file is gone"])
def test_an_expired_branch_is_published_if_its_files_are_there(
    tmp_path: Path, is_lost: bool
) -> None:
    log = made(tmp_path / "t", 1)
    da.write(branch_of(log), rows_of(2))
    if is_lost:
        (path,) = diff_branch(log, "x").added
        (tmp_path / "t" / path).unlink()
        later = open_storage(tmp_path / "t")
        with pytest.raises(
            InvalidRequestError, match=r"has expired, and 1 file of it were? deleted"
        ):
            publish(DeltaLog(tmp_path / "t", storage=later), "x", clock=in_a_week)
        assert ids_of(log) == [1]
        assert list_branches(log)[0].last_version is None
    else:
        assert publish(log, "x", clock=in_a_week).version == 1
        assert ids_of(log) == [1, 2]


def in_a_week() -> int:
    return system_clock() + 7 * DAY_MS

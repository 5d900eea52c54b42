"""Branches: versions with commits of their own, which main does not see."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.ddl import drop_table, generate_manifest, set_properties
from delta_ops.errors import (
    DeltaOpsError,
    InvalidRequestError,
    LogCorruptError,
    TableBusyError,
    TableNotFoundError,
    TableReplacedError,
    VersionNotFoundError,
)
from delta_ops.log.refs.branches import branch_log_directory
from delta_ops.maintenance import clean_up_log, create_checkpoint, health, restore, vacuum
from delta_ops.maintenance.vacuum import request
from delta_ops.maintenance.vacuum.candidates import VacuumMode
from delta_ops.option_words import Surface, speaking
from delta_ops.storage import open_storage
from delta_ops.versioning import (
    Branch,
    create_anchor,
    create_branch,
    create_tag,
    delete_branch,
    delete_tag,
    diff_branch,
    list_branches,
    open_branch,
    publish,
    rebase_branch,
    rename_branch,
)
from tests.maintenance.aged_tables import Table, overwritten
from tests.support.counting_storage import CountingStorage, recording
from tests.support.faulty_storage import copies_of, crashes
from tests.support.tables import rows, rows_by_deltalake

FORCED: dict[str, Any] = {"expires_in": timedelta(days=400), "enforce_retention": False}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Rows 1 and 2 at version 1, and 3 at version 2, whose old files may be deleted."""
    return overwritten(tmp_path / "t")


def branch_of(table: Table, name: str = "x", **options: Any) -> DeltaLog:
    create_branch(table.log, name, clock=table.clock, **{**FORCED, **options})
    return open_branch(table.log, name)


def write(table: Table, log: DeltaLog, *ids: int, **options: Any) -> int | None:
    data = pa.table({"id": pa.array(ids, pa.int64()), "p": ["b"] * len(ids)})
    written = da.write(begin(log, clock=table.clock), data, **options)
    table.date()
    return written.version


def ids_of(source: Any, **options: Any) -> list[int]:
    return sorted(da.to_table(source, **options)["id"].to_pylist())


def files_of_main(table: Table) -> dict[str, bytes]:
    return {
        path: (table.root / path).read_bytes()
        for path in table.files()
        if path.startswith("_delta_log/")
    }


def test_commits_to_a_branch_are_not_on_main(table: Table) -> None:
    before = files_of_main(table)
    log = branch_of(table)
    assert ids_of(log) == [3]
    assert write(table, log, 10, 11) == 3
    da.delete(log, "id = 10")
    da.update(log, {"id": "id + 1"}, "id = 3")
    merge = da.merge(log, pa.table({"id": [11, 12], "p": ["z", "z"]}), "source.id = target.id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert log.snapshot().version == 6
    found = {(row["id"], row["p"]) for row in rows(da.to_table(log))}
    assert found == {(4, "c"), (11, "z"), (12, "z")}
    assert ids_of(log.snapshot(3)) == [3, 10, 11]
    assert files_of_main(table) == before
    assert table.rows() == rows_by_deltalake(table.root) == [{"id": 3, "p": "c"}]


def test_reads_take_a_branch_as_ref(table: Table) -> None:
    log = branch_of(table)
    write(table, log, 4, 5)
    assert ids_of(table.root, ref="branch:x") == [3, 4, 5]
    assert sum(batch.num_rows for batch in da.to_batches(table.root, ref="branch:x")) == 3
    assert da.count_rows(table.root, ref="branch:x") == 3
    assert table.log.snapshot(ref="branch:x").version == 3
    with pytest.raises(VersionNotFoundError, match="branch y: there is no such branch"):
        table.log.snapshot(ref="branch:y")


def test_a_tag_that_is_read_through_a_branch_is_a_version_of_main(table: Table) -> None:
    log = branch_of(table)
    write(table, log, 4)
    table.write([9])
    create_tag(table.log, "a")
    assert ids_of(log.snapshot(ref="tag:a")) == [3, 9]


def test_a_branch_begins_at_a_version_a_time_or_a_tag(table: Table) -> None:
    times = {entry.version: entry.timestamp_ms for entry in table.log.history()}
    create_tag(table.log, "one", version=1)
    begins: tuple[dict[str, Any], ...] = (
        {"version": 1},
        {"timestamp": datetime.fromtimestamp(times[1] / 1000, UTC)},
        {"ref": "tag:one"},
    )
    for number, begin_with in enumerate(begins):
        assert ids_of(branch_of(table, str(number), **begin_with)) == [1, 2]


def test_branches_are_apart_from_each_other(table: Table) -> None:
    one, two = branch_of(table, "one"), branch_of(table, "two")
    write(table, one, 4)
    write(table, two, 5)
    assert (ids_of(one), ids_of(two)) == ([3, 4], [3, 5])


def test_a_name_can_be_used_again_for_another_branch(table: Table) -> None:
    old = branch_of(table)
    write(table, old, 4)
    delete_branch(table.log, "x")
    assert ids_of(branch_of(table)) == [3]
    with pytest.raises(TableReplacedError, match="is a branch that was deleted"):
        write(table, old, 5)
    assert ids_of(table.log, ref="branch:x") == [3]


def test_a_renamed_branch_keeps_its_commits_and_its_handles(table: Table) -> None:
    log = branch_of(table)
    write(table, log, 4)
    assert rename_branch(table.log, "x", "y").name == "y"
    write(table, log, 5)
    assert ids_of(table.log, ref="branch:y") == [3, 4, 5]
    create_branch(table.log, "x")
    with pytest.raises(InvalidRequestError, match="there is a branch 'x'"):
        rename_branch(table.log, "y", "x")


def test_a_handle_pickles(table: Table) -> None:
    log = branch_of(table)
    write(table, log, 4)
    assert ids_of(pickle.loads(pickle.dumps(log))) == [3, 4]


def test_a_schema_change_stays_on_the_branch(table: Table) -> None:
    log = branch_of(table)
    data = pa.table({"id": [4], "p": ["d"], "note": ["new"]})
    da.write(log, data, merge_schema=True)
    assert log.snapshot().arrow_schema.names == ["id", "p", "note"]
    assert table.log.snapshot().arrow_schema.names == ["id", "p"]


def test_creating_a_branch_takes_four_calls_more_than_opening(table: Table) -> None:
    create_checkpoint(table.log)
    branch_of(table)
    calls: list[str] = []
    log = DeltaLog(table.root, storage=CountingStorage(open_storage(table.root), recording(calls)))
    log.snapshot()
    opening = list(calls)
    calls.clear()
    create_branch(log, "y", clock=table.clock)
    assert calls[len(opening) :] == ["list_from", "read", "stat", "create"]


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("mode", ["full", "lite"])
@pytest.mark.parametrize("version", [1, 2], ids=["an old base", "the latest base"])
def test_vacuum_keeps_the_files_of_a_branch_until_it_is_deleted(
    table: Table, mode: VacuumMode, version: int
) -> None:
    log = branch_of(table, version=version)
    write(table, log, 4)
    da.delete(begin(log, clock=table.clock), "id < 4")
    write(table, log, 5)
    table.date()
    by_version = {each: ids_of(log.snapshot(each)) for each in range(version, version + 4)}
    table.write([9], mode="overwrite")
    table.pass_time(days=30)
    table.put("orphan.parquet")
    table.pass_time(days=8)
    vacuum(table.log, clock=table.clock, mode=mode)
    log = open_branch(table.log, "x")
    assert {each: ids_of(log.snapshot(each)) for each in by_version} == by_version
    delete_branch(table.log, "x")
    vacuum(table.log, clock=table.clock)
    assert len(table.data_files()) == 1
    assert not any("/branches/" in path for path in table.files())
    assert table.rows() == rows_by_deltalake(table.root) == [{"id": 9, "p": "a"}]


def test_the_log_of_a_deleted_branch_stays_while_it_is_young(table: Table) -> None:
    log = branch_of(table)
    write(table, log, 4)
    delete_branch(table.log, "x")
    vacuum(table.log, clock=table.clock)
    assert list((table.root / log.log_directory).glob("*.json"))


def test_a_branch_makes_no_vacuum_due_until_it_has_expired(table: Table) -> None:
    def is_due() -> bool:
        return health(table.log, clock=table.clock).figures.expired_file_is_there

    assert is_due()
    branch_of(table, version=1, expires_in=timedelta(days=20))
    assert not is_due()
    table.pass_time(days=20.5)
    assert not is_due()
    table.pass_time(days=1)
    assert is_due()  # the vacuum deletes the expired branch
    assert vacuum(table.log, clock=table.clock).expired_branches == ("x",)
    assert not is_due()


def test_log_clean_up_keeps_the_base_version(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    for number in range(9):
        table.write([number], configuration={"delta.checkpointInterval": "3"})
        table.pass_time(days=5)
    log = branch_of(table, version=4)
    write(table, log, 10)
    table.pass_time(days=40)
    assert clean_up_log(table.log, clock=table.clock).plan.boundary_version == 3
    assert ids_of(table.log, ref="branch:x") == [0, 1, 2, 3, 4, 10]
    delete_branch(table.log, "x")
    assert clean_up_log(table.log, clock=table.clock).plan.boundary_version == 6


def test_a_branch_lives_a_day_less_than_removed_files(table: Table) -> None:
    branch = create_branch(table.log, "x", clock=table.clock)
    assert branch.expires_ms - branch.created_ms == 6 * DAY_MS
    with pytest.raises(InvalidRequestError, match=r"at version 2 is safe .* for at most 6 days"):
        create_branch(table.log, "y", expires_in=timedelta(days=7), clock=table.clock)
    with pytest.raises(InvalidRequestError, match=r"version 1 is not safe .* Choose a later"):
        create_branch(table.log, "y", version=1, clock=table.clock)
    for brief in (timedelta(0), timedelta(milliseconds=9)):
        with pytest.raises(InvalidRequestError, match="at least 1 minute"):
            create_branch(table.log, "y", expires_in=brief, enforce_retention=False)
    assert list_branches(table.log) == [branch]


@pytest.mark.parametrize("days", [0, 8, 60], ids=lambda days: f"after {days} days")
def test_a_branch_of_an_old_version_lives_until_its_first_removed_file_may_be_deleted(
    tmp_path: Path, days: int
) -> None:
    table = Table(tmp_path / "t")
    table.write([1], configuration={"delta.checkpointInterval": "3"})
    create_tag(table.log, "first", clock=table.clock)
    table.pass_time(days=1)
    for number in range(2, 8):
        table.write([number])
    table.pass_time(days=days)
    if days == 60:
        assert clean_up_log(table.log, clock=table.clock).plan.boundary_version == 6
    branch = create_branch(table.log, "x", ref="tag:first", clock=table.clock)
    assert branch.expires_ms - branch.created_ms == 6 * DAY_MS  # main has all files of the tag

    table.write([8], mode="overwrite")
    table.pass_time(days=2)
    branch = create_branch(table.log, "y", ref="tag:first", clock=table.clock)
    assert branch.expires_ms - branch.created_ms == 4 * DAY_MS
    table.pass_time(days=4)
    with pytest.raises(InvalidRequestError, match=r"version 0 is not safe .* Choose a later"):
        create_branch(table.log, "z", ref="tag:first", clock=table.clock)


def test_a_vacuum_deletes_a_branch_a_day_after_its_expiry(table: Table) -> None:
    create_branch(table.log, "x", clock=table.clock)
    write(table, open_branch(table.log, "x"), 4)
    table.pass_time(days=6.5)
    assert vacuum(table.log, clock=table.clock).expired_branches == ()
    assert ids_of(table.log, ref="branch:x") == [3, 4]
    table.pass_time(days=1)
    assert vacuum(table.log, clock=table.clock, dry_run=True).expired_branches == ()
    assert vacuum(table.log, clock=table.clock).expired_branches == ("x",)
    assert list_branches(table.log) == []


def test_a_wrong_clock_of_the_machine_ends_no_branch(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_branch(table.log, "x")
    monkeypatch.setattr(request, "system_clock", lambda: system_clock() + 365 * DAY_MS)
    assert vacuum(table.log).expired_branches == ()
    assert [branch.name for branch in list_branches(table.log)] == ["x"]


@pytest.mark.parametrize("name", ["", "a..b", "/a", "-a", "a b", "a.lock", "a.", "a:b", "x" * 201])
def test_a_bad_name_is_rejected_before_anything_is_written(table: Table, name: str) -> None:
    create_branch(table.log, "x")
    before = table.files()
    with pytest.raises(InvalidRequestError, match="cannot name a branch"):
        create_branch(table.log, name)
    with pytest.raises(InvalidRequestError, match="cannot name a branch"):
        rename_branch(table.log, "x", name)
    assert table.files() == before


@pytest.mark.parametrize(
    ("create", "error", "message"),
    [
        pytest.param(
            lambda log: create_branch(log, "x"),
            InvalidRequestError,
            "there is a branch 'x'",
            id="a name that is taken",
        ),
        pytest.param(
            lambda log: create_branch(log, "y", ref="branch:x"),
            InvalidRequestError,
            "a branch of a branch is not supported",
            id="a branch of a branch",
        ),
        pytest.param(
            lambda log: create_branch(open_branch(log, "x"), "y", **FORCED),
            InvalidRequestError,
            "publish the branch, then branch from a version of main",
            id="a branch of the handle of a branch",
        ),
        pytest.param(
            lambda log: create_tag(open_branch(log, "x"), "y"),
            InvalidRequestError,
            "publish the branch, then tag a version of main",
            id="a tag of a branch",
        ),
        pytest.param(
            lambda log: create_branch(log, "y", version=9),
            VersionNotFoundError,
            "its latest version is 2",
            id="a version that does not exist",
        ),
        pytest.param(
            lambda log: create_branch(log, "y", version=1, ref="tag:a"),
            InvalidRequestError,
            "not several of them",
            id="a version and a tag",
        ),
        pytest.param(
            lambda log: create_branch(log, "y", ref="tag:a"),
            VersionNotFoundError,
            "there is no such tag",
            id="an unknown tag",
        ),
        pytest.param(
            lambda log: delete_branch(log, "y"),
            InvalidRequestError,
            "there is no branch 'y'",
            id="deleting an unknown branch",
        ),
    ],
)
def test_an_impossible_request_is_rejected_before_anything_is_written(
    table: Table, create: Callable[[DeltaLog], object], error: type[DeltaOpsError], message: str
) -> None:
    create_branch(table.log, "x")
    before = table.files()
    with pytest.raises(error, match=message):
        create(table.log)
    assert table.files() == before


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ({"delta.enableRowTracking": "true"}, "the feature rowTracking cannot have branches"),
        ({"delta.feature.identityColumns": "supported"}, None),
    ],
    ids=["row tracking", "the feature of identity columns without such a column"],
)
def test_a_table_whose_rows_are_numbered_has_no_branches(
    tmp_path: Path, configuration: dict[str, str], message: str | None
) -> None:
    da.write(tmp_path / "t", pa.table({"id": [1]}), configuration=configuration)
    if message is None:
        create_branch(tmp_path / "t", "x")
        return
    with pytest.raises(InvalidRequestError, match=message):
        create_branch(tmp_path / "t", "x")
    assert not (tmp_path / "t/_delta_ops").exists()


def test_a_branch_cannot_begin_to_track_rows(table: Table) -> None:
    log = branch_of(table)
    transaction = begin(log)
    transaction.set_properties({"delta.feature.rowTracking": "supported"})
    with pytest.raises(InvalidRequestError, match="the feature rowTracking cannot have branches"):
        transaction.commit(operation="SET TBLPROPERTIES")


@pytest.mark.parametrize(
    ("operate", "message"),
    [
        pytest.param(vacuum, "cannot be vacuumed", id="vacuum"),
        pytest.param(clean_up_log, "belongs to a branch", id="log clean-up"),
        pytest.param(lambda log: drop_table(log, "t"), "cannot be vacuumed", id="drop"),
        pytest.param(generate_manifest, "one set of manifests", id="manifest"),
        pytest.param(
            lambda log: vacuum(DeltaLog(log.uri, log_directory=log.log_directory)),
            "cannot be vacuumed by itself",
            id="vacuum by the directory of the log",
        ),
        pytest.param(
            lambda log: clean_up_log(DeltaLog(log.uri, log_directory=log.log_directory)),
            "belongs to a branch",
            id="log clean-up by the directory of the log",
        ),
    ],
)
def test_operations_on_files_of_main_reject_a_branch(
    table: Table, operate: Callable[[DeltaLog], object], message: str
) -> None:
    log = branch_of(table)
    write(table, log, 4)
    create_checkpoint(log)
    before = table.files()
    with pytest.raises(InvalidRequestError, match=message):
        operate(log)
    assert table.files() == before


def test_a_table_with_a_branch_is_not_dropped(table: Table) -> None:
    branch_of(table)
    with pytest.raises(InvalidRequestError, match=r"branches that are not published \(x\)"):
        drop_table(table.log, "t")
    delete_branch(table.log, "x")
    drop_table(table.log, "t")
    table.write([9])
    assert list_branches(table.log) == []


def test_a_branch_is_restored_to_its_own_versions_only(table: Table) -> None:
    log = branch_of(table)
    write(table, log, 4)
    write(table, log, 5, mode="overwrite")
    restore(log, version=3)
    assert ids_of(log) == [3, 4]
    restore(log, version=2)
    assert ids_of(log) == [3]
    with pytest.raises(InvalidRequestError, match="files from before its base version, 2,"):
        restore(log, version=1)
    assert ids_of(log) == [3]


def test_a_branch_of_a_table_that_was_replaced_from_outside_is_an_error(table: Table) -> None:
    branch_of(table)
    for place in (table.root / "_delta_log").iterdir():
        place.unlink()
    for number in range(3):
        table.write([number])
    with pytest.raises(VersionNotFoundError, match="another table was created here"):
        open_branch(table.log, "x")


def test_a_branch_whose_commit_is_missing_stops_a_vacuum_by_name(table: Table) -> None:
    log = branch_of(table)
    write(table, log, 4)
    write(table, log, 5)
    (table.root / log.log_directory / f"{3:020}.json").unlink()
    before = table.data_files()
    with pytest.raises(LogCorruptError, match=r"of branch x is missing.*delete the branch"):
        vacuum(table.log, clock=table.clock)
    assert table.data_files() == before
    (reason,) = health(table.log, clock=table.clock).figures.refused["vacuum"]
    assert reason.endswith(f"{3:020}.json, which is missing")


def test_a_branch_whose_base_is_lost_stops_a_vacuum_by_name(table: Table) -> None:
    branch_of(table, version=1)
    create_checkpoint(table.log)
    for version in range(2):
        (table.root / "_delta_log" / f"{version:020}.json").unlink()
    with pytest.raises(VersionNotFoundError, match=r"\(branch x\): .*delete the branch"):
        vacuum(table.log, clock=table.clock)


def test_a_commit_that_meets_the_deletion_of_its_branch_is_an_error(table: Table) -> None:
    """At each call, the commit either comes first and succeeds, or raises an error."""
    outcomes = set()
    for call in count(1):
        name = f"x{call}"
        create_branch(table.log, name)
        seen = 0

        def delete(number: int, _method: str, _path: str, when: str) -> None:
            nonlocal seen
            seen = number
            if (number, when) == (call, "before"):  # noqa: B023  # called within the turn
                delete_branch(table.log, name)  # noqa: B023

        log = open_branch(table.log, name)
        log = log.over(CountingStorage(log.storage, delete))
        try:
            da.write(begin(log), pa.table({"id": [call], "p": ["c"]}))
            outcomes.add("committed")
        except TableReplacedError as error:
            outcomes.add("after" if "will not be published" in str(error) else "before")
        if call > seen:
            break
    assert outcomes == {"committed", "before", "after"}


@pytest.mark.some_cases(1)
@pytest.mark.parametrize(
    "operate",
    [
        pytest.param(lambda t, log: vacuum(log, clock=t.clock, batch_files=1), id="vacuum"),
        pytest.param(
            lambda t, log: clean_up_log(log, clock=t.clock),
            marks=pytest.mark.full,
            id="log clean-up",
        ),
    ],
)
def test_a_branch_that_is_created_at_any_call_of_a_deletion_can_be_read(
    tmp_path: Path, operate: Callable[[Table, DeltaLog], object]
) -> None:
    template = overwritten(tmp_path / "template")
    create_checkpoint(template.log, clock=template.clock)
    template.date()
    template.pass_time(days=40)
    outcomes = set()
    for call in count(1):
        table = template.copy(tmp_path / str(call))
        seen = 0

        def create(number: int, _method: str, _path: str, when: str) -> None:
            nonlocal seen
            seen = number
            if (number, when) == (call, "before"):  # noqa: B023  # called within the turn
                try:
                    create_branch(table.log, "x", version=1, **FORCED)  # noqa: B023
                    outcomes.add("created")
                except (TableBusyError, VersionNotFoundError) as error:
                    outcomes.add(type(error).__name__)

        storage = CountingStorage(open_storage(table.root), create)
        operate(table, DeltaLog(table.root, storage=storage))
        for branch in list_branches(table.log):
            assert ids_of(table.log, ref=f"branch:{branch.name}") == [1, 2], call
        if call > seen:
            break
    assert outcomes == {"created", "TableBusyError", "VersionNotFoundError"}


def test_a_vacuum_at_any_call_of_a_commit_leaves_a_branch_that_can_be_read(
    tmp_path: Path,
) -> None:
    template = overwritten(tmp_path / "template")
    branch_of(template, version=1)
    template.pass_time(days=8)
    for call in count(1):
        table = template.copy(tmp_path / str(call))
        seen = 0

        def act(number: int, _method: str, _path: str, when: str) -> None:
            nonlocal seen
            seen = number
            if (number, when) == (call, "before"):  # noqa: B023  # called within the turn
                vacuum(table.log, clock=table.clock)  # noqa: B023

        log = open_branch(table.log, "x")
        log = log.over(CountingStorage(log.storage, act))
        da.delete(begin(log, clock=table.clock), "id = 1")
        assert ids_of(table.log, ref="branch:x") == [2], call
        if call > seen:
            break


@pytest.mark.full
def test_a_killed_creation_leaves_a_branch_or_none(table: Table, tmp_path: Path) -> None:
    fresh = copies_of(table.root, tmp_path / "copies")
    found = set()
    for place, storage in crashes(fresh, lambda s: create_branch(DeltaLog("", storage=s), "x")):
        log = DeltaLog("", storage=storage)
        branches: list[Branch] = list_branches(log)
        found.add(len(branches))
        if not branches:
            create_branch(log, "x")
        assert ids_of(log, ref="branch:x") == [3], place
    assert found == {0, 1}


@pytest.mark.full
def test_a_killed_commit_leaves_the_branch_before_or_after_it(table: Table, tmp_path: Path) -> None:
    create_branch(table.log, "x")
    fresh = copies_of(table.root, tmp_path / "copies")

    def append(storage: Any) -> None:
        da.write(open_branch(DeltaLog("", storage=storage), "x"), pa.table({"id": [4], "p": ["d"]}))

    found = set()
    for place, storage in crashes(fresh, append):
        log = DeltaLog("", storage=storage)
        found.add(tuple(ids_of(log, ref="branch:x")))
        assert ids_of(log) == [3], place
    assert found == {(3,), (3, 4)}


def test_a_lost_answer_of_a_commit_to_a_branch_doubles_nothing(table: Table) -> None:
    create_branch(table.log, "x")
    lost: list[str] = []

    def lose(_number: int, method: str, path: str, when: str) -> None:
        if (method, when) == ("create", "after") and "/branches/" in path and not lost:
            lost.append(path)
            raise FileExistsError(path)

    log = open_branch(table.log, "x")
    log = log.over(CountingStorage(log.storage, lose))
    assert write(table, log, 4) == 3
    assert len(lost) == 1
    assert ids_of(table.log, ref="branch:x") == [3, 4]


def test_the_log_of_a_branch_is_in_no_directory_that_other_engines_delete(table: Table) -> None:
    log = branch_of(table)
    write(table, log, 4)
    (branch,) = list_branches(table.log)
    assert log.log_directory == branch_log_directory(branch.id)
    assert log.log_directory.startswith("_delta_ops/")
    assert "_delta_log" not in log.log_directory


# --- a location without a table ----------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda place: open_branch(place, "x"), id="open a branch"),
        pytest.param(lambda place: publish(place, "x"), id="publish"),
        pytest.param(lambda place: rebase_branch(place, "x"), id="rebase"),
        pytest.param(lambda place: diff_branch(place, "x"), id="compare"),
        pytest.param(lambda place: rename_branch(place, "x", "y"), id="rename"),
        pytest.param(lambda place: delete_branch(place, "x"), id="delete a branch"),
        pytest.param(lambda place: delete_tag(place, "x"), id="delete a tag"),
        pytest.param(lambda place: create_anchor(place, "tag:x"), id="anchor a tag"),
        pytest.param(lambda place: da.to_table(place, ref="tag:x"), id="read a tag"),
    ],
)
def test_a_misspelt_location_is_named_rather_than_the_ref(
    tmp_path: Path, call: Callable[[Path], object]
) -> None:
    with pytest.raises(TableNotFoundError, match="ordres is not a Delta table"):
        call(tmp_path / "ordres")
    assert not (tmp_path / "ordres").exists()


def test_a_table_that_keeps_removed_files_for_a_day_has_no_safe_branch(table: Table) -> None:
    log = table.log
    set_properties(log, {"delta.deletedFileRetentionDuration": "interval 1 day"})
    cure = "Raise that property above a day"
    with pytest.raises(InvalidRequestError, match=f"{cure}, or if only delta_ops vacuums"):
        create_branch(log, "audit")
    with (
        speaking(Surface.ASSET),  # an audited asset begins its branch itself
        pytest.raises(InvalidRequestError, match=f"{cure}$"),
    ):
        create_branch(log, "audit")
    assert list_branches(log) == []

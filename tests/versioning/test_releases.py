"""Releases: versions of several tables that readers see together."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.ddl import drop_table
from delta_ops.errors import (
    DeltaOpsError,
    InvalidRequestError,
    ReleaseConflictError,
    StorageError,
    TableBusyError,
    TableNotFoundError,
    VersionNotFoundError,
)
from delta_ops.log.refs.refs import refs_journal
from delta_ops.maintenance import clean_up_log, vacuum
from delta_ops.storage import Storage, open_storage
from delta_ops.versioning import (
    Release,
    ReleaseSet,
    create_branch,
    create_release,
    delete_holds,
    delete_releases,
    diff_releases,
    find_release,
    list_releases,
    open_branch,
    open_release,
    roll_back_release,
    verify_refs,
)
from delta_ops.versioning.releases.release_set import releases_journal
from tests.maintenance.aged_tables import Table, overwritten
from tests.support.counting_storage import CountingStorage
from tests.support.faulty_storage import crashes
from tests.support.tables import rows, rows_by_deltalake


class Lake:
    """Two tables and a release set in one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.releases = ReleaseSet(root / "releases")
        self.tables = {name: DeltaLog(root / name) for name in ("items", "orders")}

    def write(self, *ids: int) -> None:
        for log in self.tables.values():
            da.write(log, rows_of(*ids), mode="overwrite")

    def release(self, **options: Any) -> Release:
        return create_release(self.releases, self.tables, **options)

    def made(self) -> list[Release]:
        """The releases; none if the first release failed."""
        return list_releases(self.releases) if self.releases.exists() else []

    def holds(self) -> list[int]:
        """The number of holds of each table."""
        return [len(refs_journal(log.storage).load().state.holds) for log in self.tables.values()]


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def released_ids(releases: ReleaseSet, number: int | None = None) -> dict[str, list[int]]:
    opened = open_release(releases, number)
    return {name: sorted(da.to_table(each)["id"].to_pylist()) for name, each in opened.items()}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path)
    lake.write(1)
    return lake


def test_readers_of_the_set_see_all_tables_advance_together(lake: Lake) -> None:
    first = lake.release()
    lake.write(2)
    assert released_ids(lake.releases) == {"items": [1], "orders": [1]}
    assert lake.release(message="second").number == first.number + 1 == 2
    assert released_ids(lake.releases) == {"items": [2], "orders": [2]}
    assert released_ids(lake.releases, 1) == {"items": [1], "orders": [1]}


def test_any_engine_reads_the_versions_that_a_release_names(lake: Lake) -> None:
    lake.release()
    lake.write(2)
    for table in find_release(lake.releases).tables.values():
        assert rows_by_deltalake(Path(table.uri), table.version) == [{"id": 1}]


def test_chosen_versions_and_snapshots_are_released(lake: Lake) -> None:
    lake.write(2)
    tables: dict[str, Any] = {
        "items": lake.tables["items"].snapshot(0),
        "orders": lake.tables["orders"].uri,
    }
    release = create_release(lake.releases, tables, versions={"orders": 0})
    assert [table.version for table in release.tables.values()] == [0, 0]


def test_the_same_release_twice_is_one_release(lake: Lake) -> None:
    first = lake.release(message="a")
    assert lake.release(message="a") == first
    assert lake.holds() == [1, 1]
    assert lake.release(message="b").number == 2


@pytest.mark.parametrize(
    ("tables", "options", "error", "message"),
    [
        pytest.param({}, {}, InvalidRequestError, "at least one table", id="no table"),
        pytest.param(
            {"a": "orders", "b": "orders/"},
            {},
            InvalidRequestError,
            "a and b are the same table",
            id="a table twice",
        ),
        pytest.param(
            {"a": "orders", "b": "link"},
            {},
            InvalidRequestError,
            "a and b are the same table",
            id="a table and a link to it",
        ),
        pytest.param(
            {"a": "orders", "b": "gone"}, {}, TableNotFoundError, "gone", id="a table that is gone"
        ),
        pytest.param(
            {"a": "orders"},
            {"versions": {"a": 9}},
            VersionNotFoundError,
            "version 9",
            id="a version that does not exist",
        ),
        pytest.param(
            {"a": "orders"},
            {"versions": {"b": 0}},
            InvalidRequestError,
            "versions names b, which tables does not",
            id="a version of no table",
        ),
        pytest.param(
            {"..": "orders"}, {}, InvalidRequestError, "cannot name a table", id="a wrong name"
        ),
        pytest.param(
            {"a": "orders"},
            {"expected": 3},
            ReleaseConflictError,
            "the current release is no release, and 3 was expected",
            id="another release than expected",
        ),
        pytest.param(
            {"a": "orders"},
            {"message": "x" * 1001},
            InvalidRequestError,
            "at most 1,000",
            id="a long message",
        ),
    ],
)
def test_a_wrong_release_is_rejected_before_anything_is_written(
    lake: Lake,
    tables: dict[str, str],
    options: dict[str, Any],
    error: type[DeltaOpsError],
    message: str,
) -> None:
    (lake.root / "link").symlink_to(lake.root / "orders")
    before = sorted(lake.root.rglob("*"))
    named = {name: f"{lake.root}/{table}" for name, table in tables.items()}
    with pytest.raises(error, match=message):
        create_release(lake.releases, named, **options)
    assert sorted(lake.root.rglob("*")) == before


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(list_releases, id="list"),
        pytest.param(lambda place: delete_releases(place, keep_last=1), id="delete"),
        pytest.param(lambda place: delete_releases(place, keep_last=1, dry_run=True), id="dry run"),
    ],
)
def test_a_place_without_a_release_set_is_rejected(
    tmp_path: Path, call: Callable[[Path], object]
) -> None:
    with pytest.raises(InvalidRequestError, match="is no release set; check the location"):
        call(tmp_path / "relaeses")
    assert list(tmp_path.iterdir()) == []


def test_a_version_of_a_branch_is_rejected(lake: Lake) -> None:
    create_branch(lake.tables["orders"], "x")
    branch = open_branch(lake.tables["orders"], "x")
    da.write(branch, rows_of(5))
    for table in (branch, branch.snapshot()):
        with pytest.raises(
            InvalidRequestError, match="publish the branch, then release a version of main"
        ):
            create_release(lake.releases, {"orders": table})
    assert not lake.releases.exists()


def test_a_version_that_lost_files_is_rejected_before_the_other_table_gets_a_hold(
    tmp_path: Path,
) -> None:
    lake = Lake(tmp_path)
    lake.write(1)
    old = overwritten(tmp_path / "old")
    vacuum(old.log, clock=old.clock)
    before = sorted(lake.root.rglob("*"))
    tables = {"a": lake.tables["orders"], "old": old.log}
    with pytest.raises(VersionNotFoundError, match="files of this version were deleted"):
        create_release(lake.releases, tables, versions={"old": 1})
    assert sorted(lake.root.rglob("*")) == before


def test_a_release_does_not_go_back_unless_the_caller_says_so(lake: Lake) -> None:
    lake.write(2)
    lake.release()
    with pytest.raises(InvalidRequestError, match=r"has version 1 of orders, and .* version 0"):
        lake.release(versions={"orders": 0})
    assert lake.release(versions={"orders": 0}, allow_older=True).number == 2


def test_only_the_release_after_the_expected_release_is_made(lake: Lake) -> None:
    lake.release(expected=0)
    lake.write(2)
    with pytest.raises(ReleaseConflictError, match="is release 1, and 0 was expected") as error:
        lake.release(expected=0)
    assert pickle.loads(pickle.dumps(error.value)).reason == error.value.reason
    assert lake.holds() == [1, 1]
    assert lake.release(expected=1).number == 2


def test_a_rollback_is_a_new_release_of_the_old_versions(lake: Lake) -> None:
    lake.release()
    lake.write(2)
    lake.release()
    back = roll_back_release(lake.releases, to=1)
    assert (back.number, back.rolled_back_to) == (3, 1)
    assert released_ids(lake.releases) == {"items": [1], "orders": [1]}
    assert roll_back_release(lake.releases, to=1) == back
    delete_releases(lake.releases, [1])
    assert lake.holds() == [2, 2]
    lake.write(3)
    assert lake.release().number == 4


def test_a_diff_names_the_tables_that_moved(lake: Lake) -> None:
    lake.release()
    da.write(lake.tables["orders"], rows_of(2))
    shutil.rmtree(lake.root / "items" / "_delta_log")
    da.write(lake.tables["items"], rows_of(1))
    da.write(lake.root / "new", rows_of(1))
    create_release(lake.releases, {**lake.tables, "new": lake.root / "new"})
    create_release(lake.releases, {"new": lake.root / "new"})
    found = [
        [(each.table, each.change, each.old_version, each.new_version) for each in diff]
        for diff in (diff_releases(lake.releases, 1, 2), diff_releases(lake.releases, 2))
    ]
    assert found == [
        [("items", "replaced", 0, 0), ("new", "added", None, 0), ("orders", "moved", 0, 1)],
        [("items", "removed", 0, None), ("new", "same", 0, 0), ("orders", "removed", 1, None)],
    ]


def test_a_table_that_was_replaced_after_the_release_is_an_error(lake: Lake) -> None:
    lake.release()
    shutil.rmtree(lake.root / "items" / "_delta_log")
    da.write(lake.tables["items"], rows_of(1))
    with pytest.raises(VersionNotFoundError, match="another table was created here after"):
        open_release(lake.releases)


def test_a_moved_table_is_found_by_its_handle(lake: Lake) -> None:
    lake.release()
    (lake.root / "items").rename(lake.root / "moved")
    with pytest.raises(TableNotFoundError):
        open_release(lake.releases)
    releases = ReleaseSet(lake.root / "releases", tables={"items": lake.root / "moved"})
    assert released_ids(releases) == {"items": [1], "orders": [1]}


def test_releases_are_deleted_by_number_and_by_rule(lake: Lake) -> None:
    now_ms = system_clock()
    for number in range(1, 6):
        lake.write(number)
        lake.release(clock=lambda number=number: now_ms + number * DAY_MS)
    planned = delete_releases(
        lake.releases,
        keep_last=2,
        older_than=timedelta(days=3),
        dry_run=True,
        clock=lambda: now_ms + 5 * DAY_MS,
    )
    assert ([each.number for each in planned.releases], lake.holds()) == ([1], [5, 5])
    done = delete_releases(lake.releases, keep_last=2)
    assert ([each.number for each in done.releases], done.tables_left) == ([1, 2, 3], ())
    assert lake.holds() == [2, 2]
    delete_releases(lake.releases, [4])
    with pytest.raises(InvalidRequestError, match="release 5 is the current release"):
        delete_releases(lake.releases, [5])
    with pytest.raises(VersionNotFoundError, match="release 4: it was deleted"):
        open_release(lake.releases, 4)
    with pytest.raises(VersionNotFoundError, match="list_releases shows the numbers"):
        open_release(lake.releases, 6)
    lake.write(9)
    assert lake.release().number == 6


@pytest.mark.parametrize("options", [{}, {"numbers": [1], "keep_last": 1}, {"keep_last": 0}])
def test_a_deletion_without_a_clear_choice_is_rejected(lake: Lake, options: dict[str, Any]) -> None:
    lake.release()
    with pytest.raises(InvalidRequestError, match="give"):
        delete_releases(lake.releases, **options)


def test_vacuum_and_log_clean_up_keep_a_release_until_it_is_deleted(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    releases = ReleaseSet(tmp_path / "releases")
    held = table.rows(1)
    create_release(releases, {"t": table.log}, versions={"t": 1}, clock=table.clock)
    table.pass_time(days=60)
    vacuum(table.log, clock=table.clock)
    clean_up_log(table.log, clock=table.clock)
    assert rows(da.to_table(open_release(releases)["t"])) == held
    create_release(releases, {"t": table.log})
    assert [each.is_readable for each in verify_refs(table.log)] == [True, True]
    delete_releases(releases, keep_last=1)
    assert vacuum(table.log, clock=table.clock).deleted_files == 2


def test_verify_refs_names_the_missing_files_of_a_release(lake: Lake) -> None:
    lake.release()
    lake.write(2)
    log = lake.tables["items"]
    (add,) = log.snapshot(0).add_files()
    (lake.root / "items" / add.path).unlink()
    (found,) = verify_refs(log)
    assert (found.ref, found.version, found.missing_files) == (
        f"release of {lake.releases.uri}",
        0,
        (add.path,),
    )


def test_a_table_with_releases_is_not_dropped(lake: Lake) -> None:
    lake.release()
    with pytest.raises(InvalidRequestError, match=r"releases of .*delete_releases, then drop"):
        drop_table(lake.tables["items"], "items")
    create_release(lake.releases, {"orders": lake.tables["orders"]})
    delete_releases(lake.releases, [1])
    drop_table(lake.tables["items"], "items")


def test_holds_of_a_set_that_is_gone_are_dropped_on_request_only(lake: Lake) -> None:
    lake.release()
    log, place = lake.tables["items"], lake.releases.uri
    with pytest.raises(InvalidRequestError, match=r"release 1 of .*delete it with delete_releases"):
        delete_holds(log, place)
    shutil.move(lake.root / "releases", lake.root / "moved")
    late = system_clock() + 3 * DAY_MS
    assert vacuum(log, clock=lambda: late).lost_holds == 0
    with pytest.raises(InvalidRequestError, match=f"it has versions in {place}"):
        delete_holds(log, "/elsewhere")
    assert len(delete_holds(log, place)) == 1
    assert lake.holds() == [0, 1]


def test_another_set_in_the_place_of_a_set_ends_no_release(lake: Lake) -> None:
    lake.release()
    shutil.rmtree(lake.root / "releases")
    lake.write(2)
    lake.release()
    late = system_clock() + 3 * DAY_MS
    assert vacuum(lake.tables["items"], clock=lambda: late).lost_holds == 0
    assert lake.holds() == [2, 2]


class Killable:
    """A lake whose every store can die; for `crashes`, which kills one storage."""

    def __init__(self, root: Path, storage: Storage) -> None:
        inner = {name: _Below(storage, name) for name in ("releases", "items", "orders")}
        self.releases = ReleaseSet(root / "releases", storage=inner["releases"])
        self.tables = {
            name: DeltaLog(root / name, storage=inner[name]) for name in ("items", "orders")
        }


class _Below(CountingStorage):
    """The storage of a directory, with the calls of the storage above it."""

    def __init__(self, above: Storage, name: str) -> None:
        assert isinstance(above, CountingStorage)
        super().__init__(open_storage(f"{above.uri}/{name}"), above.on_call)
        self._above = above

    @property
    def num_calls(self) -> int:
        return self._above.num_calls

    @num_calls.setter
    def num_calls(self, value: int) -> None:
        if hasattr(self, "_above"):
            self._above.num_calls = value


def _lakes(template: Path, folder: Path) -> Callable[[], Storage]:
    numbers = count()

    def fresh() -> Storage:
        return open_storage(shutil.copytree(template, folder / str(next(numbers))))

    return fresh


def late_vacuums(lake: Lake) -> None:
    late = system_clock() + 3 * DAY_MS
    for log in lake.tables.values():
        vacuum(log, clock=lambda: late)


@pytest.mark.full
def test_a_killed_creation_is_a_release_or_leaves_holds_that_maintenance_drops(
    tmp_path: Path,
) -> None:
    template = Lake(tmp_path / "template")
    template.write(1)
    found = set()
    fresh = _lakes(template.root, tmp_path / "copies")

    def create(storage: Storage) -> None:
        killable = Killable(Path(storage.uri), storage)
        create_release(killable.releases, killable.tables)

    for place, storage in crashes(fresh, create):
        lake = Lake(Path(storage.uri))
        made, holds = lake.made(), lake.holds()
        found.add((len(made), *holds))
        if made:
            assert holds == [1, 1], place
        late_vacuums(lake)
        assert lake.holds() == [len(made)] * 2, place
        assert lake.release().number == 1, place
        assert released_ids(lake.releases) == {"items": [1], "orders": [1]}, place
    assert found == {(0, 0, 0), (0, 1, 0), (0, 1, 1), (1, 1, 1)}


@pytest.mark.full
def test_a_killed_deletion_is_finished_by_maintenance(tmp_path: Path) -> None:
    template = Lake(tmp_path / "template")
    template.write(1)
    template.release()
    template.write(2)
    template.release()
    found = set()
    fresh = _lakes(template.root, tmp_path / "copies")

    def delete(storage: Storage) -> None:
        killable = Killable(Path(storage.uri), storage)
        releases = ReleaseSet(
            f"{storage.uri}/releases", storage=killable.releases.storage, tables=killable.tables
        )
        delete_releases(releases, [1])

    for place, storage in crashes(fresh, delete):
        root = Path(storage.uri)
        releases = ReleaseSet(root / "releases", tables={n: root / n for n in ("items", "orders")})
        lake = Lake(root)
        left = [each.number for each in list_releases(releases)]
        found.add((tuple(left), *lake.holds()))
        assert released_ids(releases, 2) == {"items": [2], "orders": [2]}, place
        if 1 in left:
            assert lake.holds() == [2, 2], place
    assert found == {((1, 2), 2, 2), ((2,), 2, 2), ((2,), 1, 2), ((2,), 1, 1)}


def test_maintenance_after_a_killed_deletion_drops_the_holds(lake: Lake) -> None:
    lake.release()
    lake.write(2)
    lake.release()
    journal = releases_journal(lake.releases.storage)
    state = journal.load().state
    from delta_ops.log.refs.journal import Change

    journal.append(
        lambda _: Change(
            state=type(state)(id=state.id, releases=state.releases[1:], last_number=2), text=""
        ),
        system_clock,
    )
    late = system_clock() + 3 * DAY_MS
    assert vacuum(lake.tables["items"], clock=lambda: late).lost_holds == 1
    clean_up_log(lake.tables["orders"], clock=lambda: late)
    assert lake.holds() == [1, 1]


def at_each_call(
    tmp_path: Path,
    act: Callable[[Lake], object],
    make: Callable[[Lake], object] = lambda lake: lake.write(1),
    **options: Any,
) -> Any:
    """Create a release with another action at each call; yields the lake and any error."""
    for call in count(1):
        lake = Lake(tmp_path / str(call))
        make(lake)
        done: list[int] = []

        def interrupt(number: int, _method: str, _path: str, when: str) -> None:
            if (number, when) == (call, "before"):  # noqa: B023  # called within the turn
                done.append(number)  # noqa: B023
                act(lake)  # noqa: B023

        storage = CountingStorage(open_storage(lake.root), interrupt)
        killable = Killable(lake.root, storage)
        error: DeltaOpsError | None = None
        try:
            create_release(killable.releases, killable.tables, **options)
        except DeltaOpsError as raised:
            error = raised
        yield lake, error
        if not done:
            return


@pytest.mark.full
def test_a_late_vacuum_at_any_call_gives_up_the_release_or_keeps_its_versions(
    tmp_path: Path,
) -> None:
    """The vacuums believe that the holds are old, so that only the order of entries decides."""
    outcomes = set()
    for lake, error in at_each_call(tmp_path, late_vacuums):
        outcomes.add(type(error))
        if error is None:
            assert lake.holds() == [1, 1]
            assert released_ids(lake.releases) == {"items": [1], "orders": [1]}
        else:
            assert lake.holds() == [0, 0]
            assert list_releases(lake.releases) == []
    assert {type(None), ReleaseConflictError} <= outcomes


@pytest.mark.full
def test_a_vacuum_at_any_call_leaves_released_versions_that_can_be_read(tmp_path: Path) -> None:
    clock = [0]

    def make(lake: Lake) -> None:
        for name, log in lake.tables.items():
            table = Table(lake.root / name)
            table.write([1])
            table.write([2], mode="overwrite")
            table.pass_time(days=30)
            clock[0] = table.now_ms
            assert log.snapshot().version == 1

    def collect(lake: Lake) -> None:
        for log in lake.tables.values():
            vacuum(log, clock=lambda: clock[0])

    outcomes = set()
    options = {"versions": {"items": 0, "orders": 0}, "clock": lambda: clock[0]}
    for lake, error in at_each_call(tmp_path, collect, make, **options):
        outcomes.add(type(error))
        if error is None:
            assert released_ids(lake.releases) == {"items": [1], "orders": [1]}
        else:
            assert lake.made() == []
            assert lake.holds() == [0, 0]
    assert outcomes == {type(None), VersionNotFoundError}


@pytest.mark.full
def test_a_newer_release_at_any_call_is_never_followed_by_older_versions(tmp_path: Path) -> None:
    def other(lake: Lake) -> None:
        lake.write(2)
        lake.release()

    for lake, error in at_each_call(tmp_path, other):
        assert error is None or isinstance(error, InvalidRequestError)
        assert len(list_releases(lake.releases)) == 1
        assert len({table.version for table in find_release(lake.releases).tables.values()}) == 1
        assert lake.holds() == [1, 1]


@pytest.mark.full
def test_another_release_at_any_call_comes_before(tmp_path: Path) -> None:
    numbers = set()
    for lake, error in at_each_call(tmp_path, lambda lake: lake.release(message="other")):
        made = list_releases(lake.releases)
        numbers.add(tuple((release.number, release.message) for release in made))
        assert (error, lake.holds()) == (None, [len(made)] * 2)
    assert numbers == {((1, "other"), (2, "")), ((1, ""),)}


def test_a_lost_answer_makes_one_release(lake: Lake) -> None:
    lost: list[str] = []

    def lose(_number: int, method: str, path: str, when: str) -> None:
        if (method, when) == ("create", "after") and path not in lost:
            lost.append(path)
            raise FileExistsError(path)

    storage = CountingStorage(open_storage(lake.root), lose)
    killable = Killable(lake.root, storage)
    assert create_release(killable.releases, killable.tables).number == 1
    assert len(lost) >= 3
    assert (len(list_releases(lake.releases)), lake.holds()) == (1, [1, 1])


@pytest.mark.full
def test_an_entry_whose_outcome_is_unknown_keeps_its_holds(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)

    def fail(_number: int, method: str, path: str, when: str) -> None:
        if (method, when) == ("create", "before") and path.endswith(f"{2:020}.json"):
            raise StorageError(path, "written", "the store is down")

    storage = CountingStorage(open_storage(lake.root / "releases"), fail)
    releases = ReleaseSet(lake.root / "releases", storage=storage)
    with pytest.raises(StorageError):
        create_release(releases, lake.tables)
    assert lake.holds() == [1, 1]
    late_vacuums(lake)
    assert lake.holds() == [0, 0]


def test_a_running_vacuum_blocks_a_release_of_an_older_version(lake: Lake) -> None:
    from delta_ops.log.refs.refs import begin_deletion

    lake.write(2)
    begin_deletion(lake.tables["items"].storage, 1, system_clock)
    with pytest.raises(TableBusyError, match="release version 1 or a later one"):
        lake.release(versions={"items": 0})
    assert lake.holds() == [0, 0]


def test_a_set_at_the_location_of_a_table_is_rejected(tmp_path: Path) -> None:
    da.write(tmp_path / "t", pa.table({"id": [1]}))
    with pytest.raises(InvalidRequestError, match="give the set a location of its own"):
        create_release(tmp_path / "t", {"t": tmp_path / "t"})
    assert not (tmp_path / "t" / "_delta_ops").exists()

"""A dropped table loses all its files, and a half dropped table is not a table."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin
from delta_ops.ddl import DropResult, drop_table
from delta_ops.ddl.running_drops import DROPS
from delta_ops.errors import (
    CommitConflictError,
    DeltaOpsError,
    InvalidRequestError,
    LogCorruptError,
    StorageError,
    TableBusyError,
    TableNotFoundError,
    TableReplacedError,
)
from delta_ops.maintenance import create_checkpoint
from delta_ops.storage import Storage, open_storage
from tests.support.counting_storage import CountingStorage
from tests.support.faulty_storage import crashes
from tests.support.tables import rows_by_deltalake
from tests.support.tiers import seeded

ROW = pa.table({"id": [9], "p": [1]})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A table with a checkpoint, later commits, partitions and a file of no version."""
    place = tmp_path / "lake" / "orders"
    for number in range(4):
        da.write(place, pa.table({"id": [number], "p": [number % 2]}), partition_by=["p"])
        if number == 2:
            create_checkpoint(place)
    (place / "p=0" / "orphan.parquet").write_bytes(b"x")
    (place / "_delta_ops").mkdir()
    (place / "_delta_ops" / "note").write_bytes(b"x")
    (place.parent / "beside").write_bytes(b"x")
    return place


def is_refused(call: Callable[[], object]) -> bool:
    """Whether a foreign engine rejects the table, with any error."""
    try:
        call()
    except Exception:
        return True
    return False


def files(root: Path) -> list[Path]:
    return [each for each in root.rglob("*") if each.is_file()]


def test_a_table_goes_with_all_of_its_files(root: Path) -> None:
    num_files = len(files(root))
    looked = drop_table(root, "orders", dry_run=True)
    assert (looked.num_files, looked.dry_run) == (num_files, True)
    assert len(files(root)) == num_files
    done = drop_table(root, "orders")
    assert (done.num_files, done.failures, done.resumed) == (num_files, (), False)
    assert done.size_bytes == looked.size_bytes > 0
    assert list(root.rglob("*")) == []
    assert (root.parent / "beside").exists()
    with pytest.raises(TableNotFoundError):
        drop_table(root, "orders")
    da.write(root, pa.table({"other": ["a"]}))
    assert rows_by_deltalake(root) == [{"other": "a"}]


def test_the_name_must_be_the_tables(root: Path) -> None:
    for name in ("", "order", "lake/orders", "ORDERS", "orders/"):
        with pytest.raises(InvalidRequestError, match="give its name, 'orders'"):
            drop_table(root, name)
    assert DeltaLog(root).snapshot().version == 3


def test_directories_that_are_no_table_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(TableNotFoundError):
        drop_table(tmp_path, tmp_path.name)
    assert (tmp_path / "file").exists()


def test_another_table_below_the_root_is_not_deleted(root: Path) -> None:
    da.write(root / "archive" / "old", pa.table({"id": [1]}))
    with pytest.raises(InvalidRequestError, match="another table, in archive/old"):
        drop_table(root, "orders")
    assert DeltaLog(root).snapshot().version == 3


def test_a_link_and_what_it_leads_to_stay(root: Path) -> None:
    (root / "link").symlink_to(root.parent / "beside")
    (root / "p=0" / "directory").symlink_to(root.parent, target_is_directory=True)
    assert drop_table(root, "orders").failures == ()
    assert (root.parent / "beside").read_bytes() == b"x"
    assert files(root) == [root / "link"]


def test_a_table_that_keeps_what_we_do_not_know_is_refused(root: Path) -> None:
    (root / "_delta_ops" / "format.json").write_text('{"version": 99}')
    with pytest.raises(DeltaOpsError, match="version 99"):
        drop_table(root, "orders")
    assert DeltaLog(root).snapshot().version == 3


def test_a_directory_in_place_of_the_next_commit_stops_a_drop(root: Path) -> None:
    latest = DeltaLog(root).snapshot().version
    (root / "_delta_log" / f"{latest + 1:020}.json").mkdir()
    with pytest.raises(LogCorruptError, match="is not a commit file"):
        drop_table(root, root.name)
    assert DeltaLog(root).snapshot().version == latest


def test_a_concurrent_writer_is_refused(root: Path) -> None:
    behind = begin(DeltaLog(root))
    storage = open_storage(root)
    state = next(left for where, left in crashes(lambda: storage, drop_again) if is_marked(left))
    assert state is storage
    with pytest.raises(CommitConflictError):
        da.write(behind, ROW)
    with pytest.raises(DeltaOpsError, match="dropped-by-delta_ops"):
        da.write(root, ROW)
    with pytest.raises(Exception, match="dropped-by-delta_ops"):
        write_deltalake(root, ROW, mode="append")
    assert drop_table(root, "orders", resume=True).resumed


def drop_by(storage: Storage, *, resume: bool = False) -> DropResult:
    log = DeltaLog("", storage=storage)
    return drop_table(log, log.uri.rpartition("/")[2], resume=resume)


def drop_again(storage: Storage) -> None:
    drop_by(storage, resume=True)


def is_marked(storage: Storage) -> bool:
    latest = max(info.path for info in storage.list_from("_delta_log", "") if "json" in info.path)
    return b"dropped-by-delta_ops" in storage.read(latest)


def test_a_kill_leaves_the_table_as_it_was_or_none_that_can_be_opened(
    root: Path, tmp_path: Path
) -> None:
    number = count()
    whole = sorted(row["id"] for row in rows_by_deltalake(root))

    def fresh() -> Storage:
        place = tmp_path / str(next(number)) / "orders"
        shutil.copytree(root, place)
        return open_storage(place)

    seen, searched = set(), set()
    for where, left in crashes(fresh, drop_by):
        place = Path(left.uri)
        names = frozenset(str(each.relative_to(place)) for each in place.rglob("*"))
        if names in searched:
            continue
        searched.add(names)
        log = DeltaLog("", storage=left)
        try:
            ours: list[int] | None = sorted(da.to_table(log)["id"].to_pylist())
        except DeltaOpsError:
            ours = None
        try:
            theirs: list[int] | None = sorted(row["id"] for row in rows_by_deltalake(place))
        except Exception:  # of any class
            theirs = None
        assert ours in (whole, None), where
        assert theirs in (whole, None), where
        seen.add(ours is None)
        if ours is None and files(place / "_delta_log"):
            # No table can be created over the leftover files either.
            with pytest.raises(DeltaOpsError):
                da.write(log, ROW)
            assert is_refused(partial(write_deltalake, place, ROW, mode="append")), where
        if ours is None and files(place / "_delta_log"):
            with pytest.raises(TableBusyError, match="resume=True"):
                drop_by(left)
        try:
            drop_by(left, resume=True)
        except TableNotFoundError:
            # At most the claim is left. It does not affect another table.
            assert {each.parent.name for each in files(place)} <= {"drops"}, where
            da.write(log, ROW)
            drop_by(left)
        assert files(place) == [], where
        shutil.rmtree(place.parent)
    assert seen == {True, False}


def calls_of_a_drop(root: Path, tmp_path: Path) -> dict[int, str]:
    """Number and method of each call of a drop after it opened the table."""
    calls: dict[int, str] = {}

    def note(number: int, method: str, _path: str, when: str) -> None:
        if when == "before" and (calls or method == "list_tree"):
            calls[number] = method

    place = shutil.copytree(root, tmp_path / "counted" / "orders")
    drop_by(CountingStorage(open_storage(place), note))
    return calls


def drop_beside(place: Path, number: int, act: Callable[[], None]) -> str:
    """Drop a table with an action before a call; return "dropped" or the error's type."""

    def on_call(called: int, _method: str, _path: str, when: str) -> None:
        if (called, when) == (number, "before"):
            act()

    try:
        drop_by(CountingStorage(open_storage(place), on_call))
    except (TableBusyError, TableNotFoundError, TableReplacedError) as error:
        return type(error).__name__
    return "dropped"


@pytest.mark.full
def test_one_of_two_concurrent_drops_stops_and_no_new_table_loses_a_file(
    root: Path, tmp_path: Path
) -> None:
    """The second drop runs before each call of the first drop, and creates a new table."""
    outcomes = set()
    for number in calls_of_a_drop(root, tmp_path):
        place = shutil.copytree(root, tmp_path / str(number) / "orders")
        second: list[str] = []

        def drop_and_create(place: Path = place, second: list[str] = second) -> None:
            try:
                drop_by(open_storage(place))
            except (TableBusyError, TableNotFoundError) as error:
                second.append(type(error).__name__)
            else:
                second.append("dropped")
            if not files(place / "_delta_log"):
                da.write(place, pa.table({"new": [1]}))

        first = drop_beside(place, number, drop_and_create)
        if (place / "_delta_log").exists():
            assert rows_by_deltalake(place) == [{"new": 1}], number
        outcomes.add((first, *second))
    assert outcomes == {
        ("dropped", "TableBusyError"),  # the first drop has its claim
        ("TableReplacedError", "dropped"),  # the second drop was quicker
        ("dropped", "TableNotFoundError"),  # the first drop has only its claim to release
    }


@pytest.mark.full
def test_a_drop_that_was_taken_over_stops(root: Path, tmp_path: Path) -> None:
    """The user wrongly believed that a slow drop's process had ended."""
    firsts = []
    for number, method in calls_of_a_drop(root, tmp_path).items():
        if method.startswith("delete"):
            continue  # no check is possible between its last check and a deletion
        place = shutil.copytree(root, tmp_path / str(number) / "orders")

        def drop_and_create(place: Path = place) -> None:
            with suppress(TableNotFoundError):
                drop_by(open_storage(place), resume=True)
            da.write(place, pa.table({"new": [1]}))

        firsts.append(drop_beside(place, number, drop_and_create))
        assert rows_by_deltalake(place) == [{"new": 1}], number
    assert {"TableBusyError", "TableReplacedError"} <= set(firsts)


def test_a_table_that_was_replaced_since_the_drop_began_is_not_deleted(root: Path) -> None:
    def on_call(_number: int, method: str, path: str, when: str) -> None:
        if (method, when) == ("create", "after") and path.startswith(DROPS):
            shutil.rmtree(root / "_delta_log")
            da.write(root, pa.table({"new": [1]}))

    with pytest.raises(TableReplacedError, match="was replaced by another table"):
        drop_by(CountingStorage(open_storage(root), on_call))
    assert rows_by_deltalake(root) == [{"new": 1}]


def test_a_claim_that_cannot_be_read_stops_a_drop(root: Path) -> None:
    (root / DROPS).mkdir()
    (root / DROPS / f"{1:020}.json").write_bytes(b"{")
    with pytest.raises(TableBusyError, match=rf"unknown, see {DROPS}/0+1\.json"):
        drop_table(root, "orders")
    assert DeltaLog(root).snapshot().version == 3
    drop_table(root, "orders", resume=True)
    assert files(root) == []


def test_the_claim_of_a_drop_that_the_store_made_fail_stays(root: Path) -> None:
    """A deletion without an answer may still be carried out."""

    def fail(_number: int, method: str, _path: str, when: str) -> None:
        if (method, when) == ("delete_many", "after"):
            raise StorageError("orders", "deleted", "the connection was reset")

    with pytest.raises(StorageError):
        drop_by(CountingStorage(open_storage(root), fail))
    with pytest.raises(TableBusyError, match="run the drop again with resume=True"):
        drop_table(root, "orders")
    assert drop_table(root, "orders", resume=True).resumed
    assert files(root) == []


def test_a_file_that_cannot_be_deleted_is_reported_and_the_next_call_continues(root: Path) -> None:
    class Stubborn:
        def __init__(self, inner: Storage) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> object:
            return getattr(self.inner, name)

        def delete_many(self, paths: object) -> list[str]:
            return [path for path in paths if path.endswith(".parquet")][:1]  # type: ignore[attr-defined]

    storage = open_storage(root)
    result = drop_table(DeltaLog("", storage=Stubborn(storage)), "orders")  # type: ignore[arg-type]
    assert len(result.failures) == 1
    with pytest.raises(DeltaOpsError):
        DeltaLog(root).snapshot()
    assert is_refused(lambda: DeltaTable(root))
    assert drop_table(root, "orders").resumed
    assert files(root) == []


def test_a_log_with_a_gap_before_its_last_commit_cannot_be_opened(
    root: Path, tmp_path: Path
) -> None:
    storage = open_storage(root)
    next(left for _, left in crashes(lambda: storage, drop_again) if is_marked(left))
    chance = seeded(1)
    log_files = sorted(each.name for each in files(root / "_delta_log"))
    (mark,) = [name for name in log_files if name.startswith(f"{4:020}")]
    for number in range(20):
        place = tmp_path / str(number) / "orders"
        shutil.copytree(root, place)
        share = chance.random()
        for name in log_files:
            if name != mark and chance.random() < share:
                (place / "_delta_log" / name).unlink()
        with pytest.raises(DeltaOpsError):
            DeltaLog(place).snapshot()
        assert is_refused(partial(rows_by_deltalake, place))

"""Links within a table: a linked file in the log keeps its target file too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from delta_ops.events import Committed, Event
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import health, repair, vacuum
from delta_ops.storage import open_storage
from tests.maintenance.aged_tables import Table
from tests.support.tables import add, remove

Move = Callable[[Path], None]


def partition(root: Path) -> None:
    (root / "archive").mkdir()
    (root / "p=a").rename(root / "archive" / "p=a")
    (root / "p=a").symlink_to("archive/p=a")


def partition_by_two_links(root: Path) -> None:
    partition(root)
    (root / "p=a").unlink()
    (root / "old").symlink_to("archive")
    (root / "p=a").symlink_to("old/p=a")


def file(root: Path) -> None:
    (place,) = (root / "p=a").iterdir()
    place.rename(root / "moved")
    place.symlink_to(root / "moved")


def below_a_link_to_the_root(root: Path) -> None:
    (root / "here").symlink_to(".")
    (root / "p=a").rename(root / "real")
    (root / "p=a").symlink_to("here/real")


MOVES = [
    pytest.param(partition, id="a partition"),
    pytest.param(partition_by_two_links, id="a partition, by two links"),
    pytest.param(file, id="a file"),
    pytest.param(below_a_link_to_the_root, id="below a link to the root"),
]


def table_of(root: Path, move: Move) -> Table:
    table = Table(root)
    table.write([1], "a", partition_by=["p"])
    table.write([2], "b", partition_by=["p"])
    move(root)
    table.pass_time(days=30)
    return table


def inventory_of(table: Table) -> pa.Table:
    paths = [path for path in table.files() if path[0] != "_"]
    return pa.table(
        {
            "path": paths,
            "length": [1] * len(paths),
            "isDir": [False] * len(paths),
            "modificationTime": [0] * len(paths),
        }
    )


@pytest.mark.parametrize("move", MOVES)
def test_vacuum_deletes_no_live_file(tmp_path: Path, move: Move) -> None:
    table = table_of(tmp_path, move)
    before = table.rows()
    orphan = table.put("archive/p=a/orphan")
    table.pass_time(days=30)
    assert vacuum(table.log, clock=table.clock).deleted_files == 1
    assert (table.rows(), orphan.exists()) == (before, False)


@pytest.mark.parametrize("name", ["log", "p=a/log"])
@pytest.mark.parametrize("is_by_inventory", [False, True])
def test_vacuum_deletes_no_log_behind_a_link(
    tmp_path: Path, name: str, is_by_inventory: bool
) -> None:
    table = table_of(tmp_path, lambda root: None)
    (table.root / "_delta_log").rename(table.root / name)
    (table.root / "_delta_log").symlink_to(name)
    before = table.rows()
    orphan = table.put("orphan")
    table.pass_time(days=30)
    inventory = inventory_of(table) if is_by_inventory else None
    assert vacuum(table.log, inventory=inventory, clock=table.clock).deleted_files == 1
    assert (table.rows(), orphan.exists()) == (before, False)
    assert repair(table.log, dry_run=True, clock=table.clock).plan.orphans == ()


def test_a_table_inside_the_table_stays_whole_though_its_log_is_a_link(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", lambda root: None)
    inner = Table(table.root / "inner")
    inner.write([1])
    (inner.root / "_delta_log").rename(tmp_path / "log")
    (inner.root / "_delta_log").symlink_to(tmp_path / "log")
    before = inner.rows()
    vacuum(table.log, clock=table.clock)
    assert inner.rows() == before


def test_vacuum_by_an_inventory_deletes_no_live_file(tmp_path: Path) -> None:
    table = table_of(tmp_path, partition)
    vacuum(table.log, inventory=inventory_of(table), clock=table.clock)
    assert len(table.rows()) == 2


@pytest.mark.parametrize("move", MOVES)
def test_a_lite_vacuum_deletes_no_live_file(tmp_path: Path, move: Move) -> None:
    table = table_of(tmp_path, move)
    gone = table.put("gone")
    snapshot = table.log.snapshot()
    named = set(snapshot.files(["path"])["path"].to_pylist())
    others = {path for path in table.files() - named if path[0] != "_"}
    removes = [remove(path) for path in sorted(others)]
    create_commit(table.log.storage, table.log.log_directory, snapshot.version + 1, removes)
    table.date()
    table.pass_time(days=30)
    before = table.rows()
    assert vacuum(table.log, mode="lite", clock=table.clock).deleted_files == 1
    assert (table.rows(), gone.exists()) == (before, False)


def test_a_file_that_is_committed_meanwhile_stays(tmp_path: Path) -> None:
    table = table_of(tmp_path, partition)
    table.put("archive/p=a/late")
    table.put("orphan")
    table.pass_time(days=30)
    events: list[Event] = []

    def commit_late(event: Event) -> None:
        if isinstance(event, Committed) and not events:  # VACUUM START: files are chosen
            events.append(event)
            late = add("p=a/late", partition_values={"p": "a"})
            create_commit(table.log.storage, table.log.log_directory, event.version + 1, [late])

    result = vacuum(table.log, clock=table.clock, on_event=commit_late)
    assert (result.deleted_files, result.needed_after_all) == (1, 1)
    assert "archive/p=a/late" in table.files()


@pytest.mark.parametrize("kept", ["p=a/orphan", "p=a", "archive"])
def test_paths_to_keep_may_go_through_a_link(tmp_path: Path, kept: str) -> None:
    table = table_of(tmp_path, partition)
    table.put("archive/p=a/orphan")
    table.pass_time(days=30)
    assert vacuum(table.log, keep=[kept], clock=table.clock).deleted_files == 0


@pytest.mark.parametrize("move", MOVES)
def test_repair_reports_no_live_file_as_an_orphan(tmp_path: Path, move: Move) -> None:
    table = table_of(tmp_path, move)
    assert repair(table.log, dry_run=True, clock=table.clock).plan.orphans == ()


def test_a_removed_file_behind_a_link_does_not_make_a_vacuum_due_for_ever(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    table = Table(tmp_path / "t")
    table.write([1], "a", partition_by=["p"])
    (table.root / "p=a").rename(outside / "p=a")
    (table.root / "p=a").symlink_to(outside / "p=a")
    table.write([2], "b", mode="overwrite")
    table.pass_time(days=30)
    vacuum(table.log, clock=table.clock)
    assert "vacuum" not in health(table.log, clock=table.clock).operations


def test_a_listing_reports_links_and_their_targets(
    tmp_path: Path,
) -> None:
    root = tmp_path / "t"
    (root / "d").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    for name, target in {
        "out": tmp_path / "outside",
        "to_root": root,
        "d/to_d": root / "d",
        "to_to_d": Path("d/to_d"),
        "nowhere": tmp_path / "gone",
    }.items():
        (root / name).symlink_to(target)
    recorded: dict[str, str | None] = {}
    assert list(open_storage(root).list_tree("", on_link=recorded.__setitem__)) == []
    assert recorded == {
        "out": None,
        "to_root": "",
        "d/to_d": "d",
        "to_to_d": "d",
        "nowhere": None,
    }

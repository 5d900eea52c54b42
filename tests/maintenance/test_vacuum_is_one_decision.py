"""One decision selects deletable files for vacuum, the maintenance plan and repair."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from delta_ops import DeltaLog
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import create_checkpoint, plan_maintenance, vacuum
from delta_ops.maintenance.repair.act import load_repair_plan
from delta_ops.protocol.actions import Action, Metadata, Protocol
from delta_ops.storage.paths import staged_name
from tests.maintenance.aged_tables import Table, overwritten
from tests.support.counting_storage import CountingStorage
from tests.support.tables import PROTOCOL, add, metadata, remove

Build = Callable[[Path], Table]

MAPPED_SCHEMA = (
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":'
    '{"delta.columnMapping.id":1,"delta.columnMapping.physicalName":"i"}},'
    '{"name":"p","type":"string","nullable":true,"metadata":'
    '{"delta.columnMapping.id":2,"delta.columnMapping.physicalName":"_q"}}]}'
)


def table_of(
    root: Path,
    *commits: list[Action],
    files: tuple[str, ...] = (),
    defined: Metadata | None = None,
    days: float = 30,
) -> Table:
    """A table with commits and files of this age in days."""
    table = Table(root)
    first: list[Action] = [PROTOCOL, defined or metadata(partition_columns=("p",))]
    for version, actions in enumerate([first, *commits]):
        create_commit(table.log.storage, table.log.log_directory, version, actions)
    for path in files:
        table.put(path)
    table.date()
    table.pass_time(days=days)
    return table


def live(path: str) -> Action:
    return add(path, partition_values={"p": "a"})


def gone(path: str) -> Action:
    return remove(path, deletion_timestamp=1)


def removed(root: Path, path: str, **options: Any) -> Table:
    """A table with one file that was removed long ago and still exists."""
    return table_of(root, [live(path)], [gone(path)], files=(path,), **options)


def behind_a_link(root: Path) -> Table:
    table = table_of(root, [live("p=a/x"), gone("archive/x")], files=("archive/x",))
    (root / "p=a").symlink_to("archive")
    return table


def behind_a_link_by_other_letters(root: Path) -> Table:
    table = table_of(root, [live("P=A/x"), gone("archive/x")], files=("archive/x",))
    (root / "p=a").symlink_to("archive")
    return table


def behind_a_hidden_link(root: Path) -> Table:
    table = removed(root, "d/x")
    (root / "_ours").symlink_to("d")
    return table


def of_another_table(root: Path) -> Table:
    table = removed(root, "inner/d/x")
    Table(root / "inner").write([1])
    table.date()
    table.pass_time(days=30)
    return table


def by_other_letters(root: Path) -> Table:
    return table_of(root, [live("p=A/x"), gone("p=a/x")], files=("p=a/x",))


def by_accents_separately(root: Path) -> Table:
    return table_of(root, [live("%C3%BC"), gone("u%CC%88")], files=("u\u0308",))


def shared_with_iceberg(root: Path) -> Table:
    configuration = {"delta.universalFormat.enabledFormats": "iceberg"}
    return removed(root, "metadata/x", defined=metadata(configuration=configuration))


def removed_by_a_clock_behind(root: Path) -> Table:
    table = removed(root, "x", days=1)
    os.utime(root / "x", (0, 0))
    return table


def mapped(root: Path, *commits: list[Action]) -> Table:
    """A table whose partition column has the physical name _q, and a file of a partition."""
    defined = metadata(
        schema_string=MAPPED_SCHEMA,
        partition_columns=("p",),
        configuration={"delta.columnMapping.mode": "name"},
    )
    protocol = Protocol(min_reader_version=2, min_writer_version=5)
    return table_of(root, [protocol], *commits, files=("_q=a/x",), defined=defined)


def of_a_physical_name(root: Path) -> Table:
    return mapped(root, [live("_q=a/x")], [gone("_q=a/x")])


STAYING = [
    pytest.param(behind_a_link, id="a live file by way of a link"),
    pytest.param(behind_a_link_by_other_letters, id="by way of a link in other letters"),
    pytest.param(behind_a_hidden_link, id="what a hidden link leads to"),
    pytest.param(of_another_table, id="a file of another table"),
    pytest.param(by_other_letters, id="a live file by other letters"),
    pytest.param(by_accents_separately, id="a live file by an accent apart"),
    pytest.param(shared_with_iceberg, id="metadata of Iceberg"),
    pytest.param(removed_by_a_clock_behind, id="removed this week by a clock that is behind"),
]
GOING = [
    pytest.param(of_a_physical_name, id="a partition by its physical name"),
    pytest.param(lambda root: removed(root, "x"), id="a removed file"),
]


def is_due(table: Table) -> bool:
    return "vacuum" in plan_maintenance(table.log, clock=table.clock).operations


@pytest.mark.parametrize("mode", ["full", "lite"])
@pytest.mark.parametrize("build", STAYING)
def test_files_that_vacuum_keeps_do_not_make_it_due(
    tmp_path: Path, build: Build, mode: Any
) -> None:
    table = build(tmp_path / "t")
    assert not is_due(table)
    assert not vacuum(table.log, mode=mode, clock=table.clock, dry_run=True).plan.has_work


@pytest.mark.parametrize("mode", ["full", "lite"])
@pytest.mark.parametrize("build", GOING)
def test_files_that_vacuum_deletes_make_it_due(tmp_path: Path, build: Build, mode: Any) -> None:
    table = build(tmp_path / "t")
    assert is_due(table)
    result = vacuum(table.log, mode=mode, clock=table.clock, log_commits=False)
    assert result.deleted_files == 1
    assert not is_due(table)


def test_a_removed_file_of_a_name_that_no_store_has_does_not_make_it_due(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", [live("a%5C..%5Cb")], [gone("a%5C..%5Cb")])
    assert not is_due(table)


def stray_of(root: Path, path: str, **options: Any) -> Table:
    """A table of one live file, and one file outside the log."""
    return table_of(root, [live("live")], files=("live", path), **options)


def stray_by_other_letters(root: Path) -> Table:
    return stray_of(root, "LIVE")


def stray_by_another_address(root: Path) -> Table:
    return table_of(root, [live(f"/mnt/elsewhere/{root.name}/x")], files=("x",))


def stray_not_encoded(root: Path) -> Table:
    return table_of(root, [live("a%20b")], files=("a%20b", "a b"))


def stray_shared_with_iceberg(root: Path) -> Table:
    configuration = {"delta.universalFormat.enabledFormats": "iceberg"}
    return stray_of(root, "metadata/x", defined=metadata(configuration=configuration))


def forgotten_by_a_checkpoint(root: Path) -> Table:
    """A checkpoint, written with a clock far ahead, lacks the tombstone."""
    table = table_of(root, [live("x"), live("live")], [gone("x")], files=("live", "x"), days=1)
    create_checkpoint(table.log, clock=lambda: table.now_ms + 10**11)
    table.date()
    return table


@pytest.mark.parametrize(
    ("build", "strays"),
    [
        pytest.param(lambda root: stray_of(root, "x"), ["x"], id="a stray file"),
        pytest.param(mapped, ["_q=a/x"], id="a partition by its physical name"),
        pytest.param(stray_by_other_letters, [], id="other letters"),
        pytest.param(stray_by_another_address, [], id="another address of the table"),
        pytest.param(stray_not_encoded, [], id="a name that was not encoded"),
        pytest.param(stray_shared_with_iceberg, [], id="metadata of Iceberg"),
        pytest.param(behind_a_link_by_other_letters, [], id="a link in other letters"),
    ],
)
def test_repair_calls_an_orphan_what_vacuum_deletes(
    tmp_path: Path, build: Build, strays: list[str]
) -> None:
    table = build(tmp_path / "t")
    orphans = load_repair_plan(table.log.snapshot(), now_ms=table.now_ms).orphans
    assert [info.path for info in orphans] == strays
    planned = vacuum(table.log, dry_run=True, clock=table.clock).plan.files
    assert [info.path for info in planned] == strays


def test_recently_removed_files_are_no_orphans_even_if_a_checkpoint_dropped_them(
    tmp_path: Path,
) -> None:
    table = forgotten_by_a_checkpoint(tmp_path / "t")
    os.utime(table.root / "x", (0, 0))
    assert len(table.log.snapshot().tombstones()) == 0
    assert load_repair_plan(table.log.snapshot(), now_ms=table.now_ms).orphans == ()
    assert vacuum(table.log, dry_run=True, clock=table.clock).plan.files == ()


@pytest.mark.parametrize("kept", ["P=A", "old", "OLD"])
def test_a_directory_is_kept_by_any_of_its_names(tmp_path: Path, kept: str) -> None:
    table = stray_of(tmp_path / "t", "p=a/x")
    (table.root / "old").symlink_to("p=a")
    assert vacuum(table.log, keep=[kept], clock=table.clock).plan.kept["on request"] == 1
    assert vacuum(table.log, clock=table.clock).deleted_files == 1


def test_an_unfinished_file_is_kept_on_request(tmp_path: Path) -> None:
    name = staged_name()
    table = stray_of(tmp_path / "t", name)
    kept = vacuum(table.log, keep=[name], clock=table.clock)
    assert (kept.plan.leftovers, kept.plan.kept["on request"]) == ((), 1)
    assert len(vacuum(table.log, clock=table.clock).plan.leftovers) == 1


def test_an_empty_directory_that_is_kept_meanwhile_stays(tmp_path: Path) -> None:
    table = stray_of(tmp_path / "t", "x")
    place = table.root / "p=b"
    place.mkdir()
    os.utime(place, (0, 0))
    keep: set[str] = set()

    def meddle(_number: int, method: str, _path: str, when: str) -> None:
        if (method, when) == ("list_tree", "after"):
            keep.add("p=b")

    log = DeltaLog("", storage=CountingStorage(table.log.storage, meddle))
    result = vacuum(log, keep=keep, clock=table.clock)
    assert (result.plan.directories, result.deleted_directories) == (("p=b/",), 0)
    assert place.exists()


def test_a_disk_is_listed_for_links_only_where_a_vacuum_seems_due(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    calls: list[str] = []
    storage = CountingStorage(
        table.log.storage,
        lambda _n, method, _path, when: calls.append(method) if when == "before" else None,
    )
    assert plan_maintenance(DeltaLog("", storage=storage), clock=table.clock).has_work
    assert calls.count("list_tree") == 1
    vacuum(table.log, clock=table.clock, log_commits=False)
    calls.clear()
    plan_maintenance(DeltaLog("", storage=storage), clock=table.clock)
    assert "list_tree" not in calls

"""Sources of a vacuum: the log (lite) or an inventory; and versions kept on request."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.errors import DataFileError, InvalidRequestError, VersionNotFoundError
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import create_checkpoint, vacuum
from delta_ops.maintenance.vacuum.inventory import load_inventory
from delta_ops.protocol.actions import AddCdcFile
from delta_ops.storage import FileInfo
from tests.maintenance.aged_tables import NOW, Table, overwritten, reopened
from tests.support.built_once import built_once
from tests.support.counting_storage import CountingStorage
from tests.support.tables import add, remove, write_log

OLD = NOW - 30 * DAY_MS


def aged(place: Path, ms: int = OLD) -> Path:
    os.utime(place, (ms / 1000, ms / 1000))
    return place


def commit_file(table: Table, version: int) -> Path:
    return table.root / "_delta_log" / f"{version:020d}.json"


def noted(table: Table) -> object:
    info = json.loads((table.root / "_delta_log" / "_last_vacuum_info").read_text())
    return info["latestCommitVersionOutsideOfRetentionWindow"]


def vacuum_lite(table: Table, **options: Any) -> int:
    return vacuum(table.log, mode="lite", clock=table.clock, **options).deleted_files


def test_a_lite_vacuum_lists_no_data_of_a_store() -> None:
    log = DeltaLog(f"memory://{uuid.uuid4().hex}/t")
    for number in range(3):
        da.write(begin(log), pa.table({"id": [number]}), "overwrite")
    calls: list[str] = []
    counting = CountingStorage(log.storage, lambda _n, method, *_: calls.append(method))
    in_a_month = system_clock() + 30 * DAY_MS
    result = vacuum(DeltaLog("", storage=counting), mode="lite", clock=lambda: in_a_month)
    assert result.deleted_files == 2
    assert "list_tree" not in calls


def test_a_lite_vacuum_lists_a_disk_only_for_links_and_if_there_is_something_to_delete(
    tmp_path: Path,
) -> None:
    table = overwritten(tmp_path / "t")
    listings = 0

    def count(_number: int, method: str, _path: str, moment: str) -> None:
        nonlocal listings
        listings += (method, moment) == ("list_tree", "before")

    log = DeltaLog("", storage=CountingStorage(table.log.storage, count))
    assert [vacuum(log, mode="lite", clock=table.clock).deleted_files, listings] == [2, 1]
    assert [vacuum(log, mode="lite", clock=table.clock).deleted_files, listings] == [0, 1]


def test_a_lite_vacuum_goes_on_where_the_last_one_was(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    assert vacuum_lite(table, dry_run=True) == 0
    assert vacuum_lite(table, log_commits=False) == 2
    assert noted(table) == 2
    table.write([4], "d", mode="overwrite")
    table.pass_time(days=8)
    create_checkpoint(table.log, clock=table.clock)
    commit_file(table, 0).unlink()
    commit_file(table, 1).unlink()
    assert vacuum_lite(table, log_commits=False) == 1
    assert noted(table) == 3
    assert vacuum_lite(table) == 0


def test_a_full_vacuum_lets_a_lite_one_go_on(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    vacuum(table.log, clock=table.clock, log_commits=False)
    create_checkpoint(table.log, clock=table.clock)
    commit_file(table, 0).unlink()
    table.pass_time(days=1)
    assert vacuum_lite(table) == 0


@pytest.mark.parametrize(
    ("info", "missing", "message"),
    [
        pytest.param(
            None,
            [0],
            "needs the commits from version 0 on, and the log begins with 1",
            id="commit 0 is gone",
        ),
        pytest.param(
            '{"latestCommitVersionOutsideOfRetentionWindow":0}',
            [0, 1],
            "from version 1 on, and the log begins with 2",
            id="commits since the last vacuum are missing",
        ),
        pytest.param(
            "no JSON", [0], "from version 0 on", id="nobody knows how far the last vacuum came"
        ),
        pytest.param(
            None,
            [1],
            "commits between the versions 0 and 2 are missing",
            id="a commit in between is gone",
        ),
    ],
)
def test_a_lite_vacuum_that_could_not_find_all_is_refused(
    tmp_path: Path, info: str | None, missing: list[int], message: str
) -> None:
    table = overwritten(tmp_path / "t")
    create_checkpoint(table.log, clock=table.clock)
    if info is not None:
        (table.root / "_delta_log" / "_last_vacuum_info").write_text(info)
    for version in missing:
        commit_file(table, version).unlink()
    before = table.files()
    with pytest.raises(InvalidRequestError, match=message):
        vacuum_lite(table)
    assert table.files() == before
    vacuum(table.log, clock=table.clock)


def test_how_far_a_vacuum_came_is_not_noted_if_it_left_something(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    kept = min(path for path in table.data_files() if path.startswith("p=a"))
    assert vacuum_lite(table, keep=[kept], log_commits=False) == 1
    assert vacuum_lite(table, log_commits=False) == 1


def test_nothing_is_old_enough_for_a_lite_vacuum(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    table.pass_time(days=-8)
    assert vacuum_lite(table) == 0


def inventory_of(table: Table, *more: tuple[str, int], **changes: pa.Array) -> pa.Table:
    found = [(str(table.root / path), OLD) for path in sorted(table.files())]
    paths, times = zip(*found, *more, strict=True)
    columns = {
        "path": pa.array(paths, pa.string()),
        "length": pa.array([1] * len(paths), pa.int64()),
        "isDir": pa.array([False] * len(paths)),
        "modificationTime": pa.array(times, pa.int64()),
    }
    return pa.table({**columns, **changes})


def test_an_inventory_replaces_the_listing(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    listed_later = table.put("unlisted.parquet")
    aged(listed_later)
    inventory = inventory_of(table).filter(
        pa.array(["unlisted" not in path for path in sorted(table.files())])
    )
    result = vacuum(table.log, inventory=inventory, clock=table.clock)
    assert (result.deleted_files, listed_later.exists()) == (2, True)


def test_files_count_as_young_by_the_inventory_and_by_the_store(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    young = table.put("young_in_store")
    inventory = inventory_of(table, ("young_in_inventory", table.now_ms))
    plan = vacuum(table.log, inventory=inventory, clock=table.clock, dry_run=True).plan
    assert (young.exists(), plan.kept["young"]) == (True, 2)


def test_an_inventory_is_not_trusted_about_other_places_and_ages(
    tmp_path: Path,
) -> None:
    table = overwritten(tmp_path / "t")
    outside = tmp_path / "x"
    outside.write_bytes(b"theirs")
    aged(outside)
    nested = table.put("copy/x.parquet")
    table.put("copy/_delta_log/00000000000000000000.json")
    young = table.put("young.parquet")
    aged(nested)
    (table.root / "link").symlink_to(tmp_path)
    (table.root / "alias").symlink_to(table.root)
    (live,) = table.log.snapshot().files(["path"])["path"].to_pylist()
    reported = [
        str(outside),
        f"{table.root}/../x",
        "../x",
        f"{table.root}2/x",
        "link/x",
        f"alias/{live}",
        live,
        "copy/x.parquet",
        "young.parquet",
        "absent.parquet",
        "",
    ]
    inventory = inventory_of(table, *((path, OLD) for path in reported))
    only = inventory.slice(len(inventory) - len(reported))
    result = vacuum(table.log, inventory=only, clock=table.clock)
    assert (result.deleted_files, result.failures) == (0, ())
    assert all(place.exists() for place in (outside, nested, young, table.root / live))


@pytest.mark.parametrize(
    "inventory",
    [
        pytest.param(pa.table({"path": ["a"]}), id="columns are missing"),
        pytest.param(
            pa.table({"path": ["a"], "length": ["1"], "isDir": [False], "modificationTime": [1]}),
            id="a column has another type",
        ),
    ],
)
def test_a_table_that_is_no_inventory_is_refused(tmp_path: Path, inventory: pa.Table) -> None:
    table = overwritten(tmp_path / "t")
    with pytest.raises(InvalidRequestError, match="the inventory has no column"):
        vacuum(table.log, inventory=inventory, clock=table.clock)


def test_an_inventory_is_loaded_from_files_and_tables(tmp_path: Path) -> None:
    import delta_ops.arrow as da

    inventory = inventory_of(overwritten(tmp_path / "t"))
    pq.write_table(inventory, tmp_path / "i.parquet")
    pa.csv.write_csv(inventory, tmp_path / "i.csv")
    da.write(tmp_path / "i", inventory)
    for name in ("i.parquet", "i.csv", "i"):
        assert (
            load_inventory(str(tmp_path / name)).sort_by("path").equals(inventory.sort_by("path"))
        )
    with pytest.raises(InvalidRequestError, match=r"absent\.csv cannot be read \(there is no such"):
        load_inventory(str(tmp_path / "absent.csv"))
    with pytest.raises(InvalidRequestError, match=r"s3://bucket/i\.csv is not a local file"):
        load_inventory("s3://key:hush@bucket/i.csv")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "light"}, "no vacuum of mode 'light'"),
        ({"mode": "lite", "inventory": pa.table({})}, "uses the log instead of an inventory"),
        ({"keep_last": -1}, "keep_last is -1"),
        ({"batch_files": 0}, "batch_files is 0"),
    ],
)
def test_requests_that_make_no_sense(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    table = overwritten(tmp_path / "t")
    with pytest.raises(InvalidRequestError, match=message):
        vacuum(table.log, clock=table.clock, **options)


@pytest.mark.parametrize("log_path", ["link/x", "x-link", "alias/live"])
def test_a_lite_vacuum_follows_no_link(tmp_path: Path, log_path: str) -> None:
    table = Table(tmp_path / "t")
    outside = tmp_path / "outside" / "x"
    outside.parent.mkdir()
    outside.write_bytes(b"theirs")
    aged(outside)
    write_log(table.root, [[add("live"), add(log_path)], [remove(log_path, deletion_timestamp=1)]])
    live = table.put("live")
    for place in (live, commit_file(table, 0), commit_file(table, 1)):
        aged(place)
    (table.root / "link").symlink_to(outside.parent)
    (table.root / "x-link").symlink_to(outside)
    (table.root / "alias").symlink_to(table.root)
    assert vacuum_lite(table) == 0
    assert live.exists()
    assert outside.exists()
    assert (table.root / "x-link").is_symlink()


@built_once(reopened)
def overwrites(root: Path, /, number: int = 5) -> Table:
    table = Table(root)
    for each in range(number):
        table.write([each], mode="overwrite")
    table.pass_time(days=30)
    return table


@pytest.mark.some_cases(6)
@pytest.mark.parametrize(
    ("options", "readable"),
    [
        pytest.param({}, {4}, id="none"),
        pytest.param({"keep_last": 1}, {4}, id="the last file, which is live"),
        pytest.param({"keep_last": 3}, {2, 3, 4}, id="the last three"),
        pytest.param({"keep_last": 99}, {0, 1, 2, 3, 4}, id="more than there are"),
        pytest.param({"keep_versions": [1, 3]}, {1, 3, 4}, id="two of them"),
    ],
)
@pytest.mark.parametrize("mode", ["full", "lite"])
def test_versions_are_kept(
    tmp_path: Path, options: dict[str, Any], readable: set[int], mode: Any
) -> None:
    table = overwrites(tmp_path / "t")
    vacuum(table.log, clock=table.clock, mode=mode, log_commits=False, **options)
    for version in range(5):
        if version in readable:
            assert [row["id"] for row in table.rows(version)] == [version]
        else:
            with pytest.raises(DataFileError):
                table.rows(version)


def test_versions_of_vacuums_do_not_count_among_the_last_versions(tmp_path: Path) -> None:
    table = overwrites(tmp_path / "t")
    for _ in range(3):
        vacuum(table.log, clock=table.clock, keep_last=2)
    assert table.log.snapshot().version > 5
    for version in (3, 4):
        assert [row["id"] for row in table.rows(version)] == [version]
    assert len(table.data_files()) == 2


def test_the_last_versions_are_kept_as_far_as_they_can_be_read(tmp_path: Path) -> None:
    table = overwrites(tmp_path / "t")
    commit_file(table, 4).rename(tmp_path / "4")
    create_checkpoint(table.log, clock=table.clock)
    (tmp_path / "4").rename(commit_file(table, 4))
    for version in (0, 1, 2):
        commit_file(table, version).unlink()
    vacuum(table.log, clock=table.clock, keep_last=99, log_commits=False)
    assert [row["id"] for row in table.rows(3)] == [3]
    assert len(table.data_files()) == 2


def test_a_version_that_cannot_be_kept_is_an_error(tmp_path: Path) -> None:
    table = overwrites(tmp_path / "t")
    before = table.files()
    with pytest.raises(VersionNotFoundError):
        vacuum(table.log, clock=table.clock, keep_versions=[7])
    assert table.files() == before


def test_the_change_data_of_kept_versions_stays(tmp_path: Path) -> None:
    table = overwrites(tmp_path / "t", 2)
    change = aged(table.put("_change_data/c"))
    cdc = AddCdcFile(path="_change_data/c", size=1, partition_values={})
    create_commit(table.log.storage, table.log.log_directory, 2, [cdc])
    vacuum(table.log, clock=table.clock, keep_last=1, log_commits=False)
    assert change.exists()
    vacuum(table.log, clock=table.clock)
    assert not change.exists()


def test_keep_sets_are_looked_into_again_before_files_go(tmp_path: Path) -> None:
    table = overwrites(tmp_path / "t")
    orphan = aged(table.put("orphan"))
    keep: set[str] = set()
    keep_versions: set[int] = set()

    def meddle(_number: int, method: str, _path: str, when: str) -> None:
        if (method, when) == ("list_tree", "after"):
            keep.add("orphan")
            keep_versions.add(2)

    log = DeltaLog("", storage=CountingStorage(table.log.storage, meddle))
    result = vacuum(log, clock=table.clock, keep=keep, keep_versions=keep_versions)
    assert orphan.exists()
    assert [row["id"] for row in table.rows(2)] == [2]
    assert (result.deleted_files, result.needed_after_all) == (3, 1)


class BehindStorage(CountingStorage):
    """A store whose clock is behind this machine's."""

    behind_ms = 365 * DAY_MS

    def stat(self, path: str) -> FileInfo:
        info = super().stat(path)
        return info._replace(modified_ms=info.modified_ms - self.behind_ms)


def test_ages_are_by_the_clock_of_the_store(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    orphan = table.put("orphan")
    by_store_ms = int(orphan.stat().st_mtime * 1000)
    assert vacuum(table.log, dry_run=True).plan.has_work
    log = DeltaLog("", storage=BehindStorage(table.log.storage, lambda *_: None))
    BehindStorage.behind_ms = system_clock() - by_store_ms - DAY_MS
    vacuum(log)
    assert orphan.exists()
    vacuum(table.log)
    assert not orphan.exists()
    assert not any("staged" in path for path in table.files())


@pytest.mark.parametrize(
    ("path", "days", "goes"),
    [
        pytest.param("ghi", 8, True, id="an old file"),
        pytest.param("ghi", 6, False, id="one that a writer may have made"),
        pytest.param("abc/def/ghi", 8, True, id="several levels"),
        pytest.param("_hidden/ghi", 8, False, id="in a hidden one"),
        pytest.param("_delta_log/ghi", 8, False, id="in the log"),
        pytest.param("p=z", 8, True, id="of a partition"),
    ],
)
def test_empty_directories(tmp_path: Path, path: str, days: float, goes: bool) -> None:
    table = overwritten(tmp_path / "t")
    table.pass_time(days=30)
    place = table.root / path
    place.mkdir(parents=True)
    for each in [place, *place.parents][:3]:
        aged(each, table.now_ms - int(days * DAY_MS))
    result = vacuum(table.log, clock=table.clock)
    assert place.exists() is not goes
    assert (table.root / path.partition("/")[0]).exists() is not goes
    assert result.deleted_directories == (len(path.split("/")) if goes else 0)
    assert table.root.exists()


def test_a_directory_that_was_emptied_goes_when_no_writer_can_know_it(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    vacuum(table.log, clock=table.clock)
    emptied = table.root / "p=a"
    aged(emptied, table.now_ms)
    assert vacuum(table.log, clock=table.clock).deleted_directories == 0
    table.pass_time(days=8)
    assert vacuum(table.log, clock=table.clock, dry_run=True).plan.directories == ("p=a/",)
    assert vacuum(table.log, clock=table.clock).deleted_directories >= 1
    assert not emptied.exists()


def test_a_link_to_an_empty_directory_stays(tmp_path: Path) -> None:
    table = overwritten(tmp_path / "t")
    outside = tmp_path / "outside"
    outside.mkdir()
    aged(outside)
    (table.root / "link").symlink_to(outside)
    vacuum(table.log, clock=table.clock)
    assert outside.exists()
    assert (table.root / "link").is_symlink()


def test_a_clean_up_while_the_times_of_commits_are_read_is_no_error(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    timed = {"delta.enableInCommitTimestamps": "true", "delta.checkpointInterval": "3"}
    for number in range(5):
        table.write([number], mode="overwrite", configuration=timed)
        table.pass_time(days=3)

    def clean_up(_number: int, method: str, _path: str, when: str) -> None:
        if (method, when) == ("read_ranges", "before"):
            for version in range(3):
                commit_file(table, version).unlink(missing_ok=True)

    log = DeltaLog("", storage=CountingStorage(table.log.storage, clean_up))
    assert vacuum(log, clock=table.clock).deleted_files == 2

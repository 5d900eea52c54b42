"""Anchors: versions of refs that stay readable after the log has lost them."""

from __future__ import annotations

import os
import shutil
import uuid
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError, LogCorruptError, VersionNotFoundError
from delta_ops.log.commit_file import create_commit
from delta_ops.log.refs.anchors import anchor_path, list_anchors
from delta_ops.maintenance import clean_up_log, create_checkpoint, health, restore, vacuum
from delta_ops.storage import Storage
from delta_ops.versioning import (
    create_anchor,
    create_branch,
    create_release,
    create_tag,
    delete_tag,
    open_branch,
    open_release,
    verify_refs,
)
from tests.maintenance.aged_tables import Table
from tests.support.counting_storage import CountingStorage
from tests.support.faulty_storage import copies_of, crashes
from tests.support.tables import rows


def table_at(root: Path) -> Table:
    """Versions 0 to 4; version 1 has the rows 0 and 1, in two partitions."""
    table = Table(root)
    table.write([0], configuration={"delta.checkpointInterval": "100"})
    table.write([1], "b")
    for number in (2, 3, 4):
        table.write([number], mode="overwrite")
    return table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return table_at(tmp_path / "t")


def lose_log(table: Table, before: int = 4) -> None:
    """Delete the commits of old versions, as the clean-up of another engine does."""
    create_checkpoint(table.log)
    for version in range(before):
        (table.root / "_delta_log" / f"{version:020}.json").unlink()
    table.date()


def test_an_anchored_tag_is_read_after_the_log_has_lost_it(table: Table) -> None:
    create_tag(table.log, "kept", version=1)
    kept = table.rows(1)
    create_tag(table.log, "other", version=2)
    assert (create_anchor(table.log, "tag:kept").is_new, table.rows(1)) == (True, kept)
    lose_log(table)
    assert rows(da.to_table(table.root, ref="tag:kept")) == kept
    assert rows(da.to_table(table.root, version=1)) == kept
    with pytest.raises(VersionNotFoundError, match="earliest version that can be read is 4"):
        da.to_table(table.root, ref="tag:other")
    states = {each.ref: each.is_readable for each in verify_refs(table.log)}
    assert states == {"tag:kept": True, "tag:other": False}


def test_vacuum_and_log_clean_up_go_on_and_keep_the_files(table: Table) -> None:
    create_tag(table.log, "kept", version=1)
    kept = table.rows(1)
    create_anchor(table.log, "tag:kept")
    lose_log(table)
    table.write([9], mode="overwrite")
    table.pass_time(days=60)
    assert health(table.log, clock=table.clock).figures.refused == {}
    assert vacuum(table.log, clock=table.clock).deleted_files == 3
    clean_up_log(table.log, clock=table.clock)
    assert rows(da.to_table(table.root, ref="tag:kept")) == kept
    restore(table.log, version=1)
    assert table.rows() == kept


def expire_log(table: Table) -> None:
    """Let everything but the latest version be past its retention."""
    create_checkpoint(table.log, clock=table.clock)
    table.date()
    table.pass_time(days=60)


def anchored(table: Table) -> list[int]:
    return [version for version, _ in list_anchors(table.log.storage)]


def test_log_clean_up_anchors_versions_of_tags_and_releases(table: Table, tmp_path: Path) -> None:
    kept = table.rows(1)
    create_tag(table.log, "kept", version=1)
    create_release(tmp_path / "releases", {"t": table.log}, versions={"t": 2})
    expire_log(table)
    assert "clean_up_log" in health(table.log, clock=table.clock).operations
    result = clean_up_log(table.log, clock=table.clock)
    assert (result.plan.anchored, anchored(table), result.earliest_version) == ((1, 2), [1, 2], 4)
    vacuum(table.log, clock=table.clock)
    assert rows(da.to_table(table.root, ref="tag:kept")) == kept
    assert da.count_rows(open_release(tmp_path / "releases")["t"]) == 1
    assert [each.is_readable for each in verify_refs(table.log)] == [True, True]
    assert not clean_up_log(table.log, clock=table.clock).plan.has_work


@pytest.mark.parametrize("keep", ["branch", "caller"])
def test_log_clean_up_keeps_the_commits_since_a_branch_or_a_version_to_keep(
    table: Table, keep: str
) -> None:
    create_tag(table.log, "kept", version=1)
    if keep == "branch":
        create_branch(
            table.log, "x", version=1, expires_in=timedelta(days=6), enforce_retention=False
        )
    expire_log(table)
    versions = [1] if keep == "caller" else []
    plan = clean_up_log(table.log, clock=table.clock, keep_versions=versions).plan
    assert (plan.boundary_version, anchored(table)) == (None, [])


def test_log_clean_up_deletes_anchors_that_no_ref_needs(table: Table) -> None:
    for name, version in (("a", 1), ("b", 1), ("c", 2)):
        create_tag(table.log, name, version=version)
    expire_log(table)
    clean_up_log(table.log, clock=table.clock)
    for name in ("a", "c"):
        delete_tag(table.log, name)
    table.write([5], mode="overwrite")
    expire_log(table)
    clean_up_log(table.log, clock=table.clock)
    assert anchored(table) == [1]
    assert da.count_rows(table.root, ref="tag:b") == 2


def test_a_version_of_an_earlier_table_stays_in_the_log(table: Table) -> None:
    create_tag(table.log, "kept", version=1)
    kept = table.rows(1)
    latest = table.log.snapshot()
    metadata = replace(latest.metadata, id=str(uuid.uuid4()))
    create_commit(table.log.storage, table.log.log_directory, latest.version + 1, [metadata])
    expire_log(table)
    plan = clean_up_log(table.log, clock=table.clock).plan
    assert (plan.boundary_version, anchored(table)) == (None, [])
    assert rows(da.to_table(table.root, ref="tag:kept")) == kept


@pytest.mark.full
def test_a_killed_clean_up_keeps_a_tag_and_is_finished_by_the_next(tmp_path: Path) -> None:
    table = table_at(tmp_path / "t")
    create_tag(table.log, "kept", version=1)
    create_tag(table.log, "gone", version=2)
    kept = table.rows(1)
    create_anchor(table.log, "tag:gone")
    delete_tag(table.log, "gone")
    expire_log(table)
    fresh = copies_of(table.root, tmp_path / "copies")
    places = []

    def run(storage: Storage) -> None:
        clean_up_log(DeltaLog("", storage=storage), clock=table.clock)

    for place, storage in crashes(fresh, run):
        copy = Table(Path(storage.uri), now_ms=table.now_ms)
        assert rows(da.to_table(copy.root, ref="tag:kept")) == kept, place
        assert clean_up_log(copy.log, clock=copy.clock).earliest_version == 4, place
        assert rows(da.to_table(copy.root, ref="tag:kept")) == kept, place
        places.append(place)
    assert len(places) > 20


def test_the_base_of_a_branch_is_anchored(table: Table) -> None:
    create_branch(table.log, "x", version=1, expires_in=timedelta(days=6), enforce_retention=False)
    da.delete(open_branch(table.log, "x"), "id = 0")
    anchor = create_anchor(table.log, "branch:x")
    lose_log(table)
    assert (anchor.version, da.to_table(table.root, ref="branch:x")["id"].to_pylist()) == (1, [1])
    data = pa.table({"id": pa.array([7], pa.int64()), "p": ["a"]})
    da.write(open_branch(table.log, "x"), data)
    assert da.count_rows(table.root, ref="branch:x") == 2


def test_a_release_is_read_by_the_anchor_of_a_tag(table: Table, tmp_path: Path) -> None:
    create_release(tmp_path / "releases", {"t": table.log}, versions={"t": 1})
    create_tag(table.log, "kept", version=1)
    create_anchor(table.log, "tag:kept")
    lose_log(table)
    assert da.count_rows(open_release(tmp_path / "releases")["t"]) == 2


def test_a_second_anchor_is_the_first(table: Table) -> None:
    create_tag(table.log, "a", version=1)
    create_tag(table.log, "b", version=1)
    first = create_anchor(table.log, "tag:a")
    assert (create_anchor(table.log, "tag:b").path, first.is_new) == (first.path, True)
    assert not create_anchor(table.log, "tag:b").is_new


def test_the_anchor_of_an_earlier_table_is_replaced_and_never_read(table: Table) -> None:
    create_tag(table.log, "a", version=1)
    create_anchor(table.log, "tag:a")
    shutil.rmtree(table.root / "_delta_log")
    shutil.rmtree(table.root / "_delta_ops" / "refs")
    for number in range(5):
        table.write([10 + number], mode="overwrite")
    lose_log(table, before=3)
    with pytest.raises((VersionNotFoundError, LogCorruptError)):
        table.log.snapshot(1)
    create_tag(table.log, "c", version=4)
    assert create_anchor(table.log, "tag:c").is_new


def test_an_anchor_is_replaced_in_one_step(table: Table) -> None:
    create_tag(table.log, "kept", version=1)
    path = Path(table.root, create_anchor(table.log, "tag:kept").path)
    right = path.read_bytes()
    path.write_bytes(b"damaged")
    missing: list[str] = []

    def look(_number: int, method: str, _path: str, _moment: str) -> None:
        missing.extend([] if path.exists() else [method])

    log = DeltaLog(table.root, storage=CountingStorage(table.log.storage, look))
    assert (create_anchor(log, "tag:kept").is_new, missing) == (True, [])
    assert len(path.read_bytes()) == len(right)
    assert not create_anchor(log, "tag:kept").is_new


def test_an_anchor_that_another_process_has_written_stays(table: Table) -> None:
    create_tag(table.log, "kept", version=1)
    path = Path(table.root, anchor_path(1))

    def write_first(_number: int, method: str, _path: str, moment: str) -> None:
        if (method, moment) == ("create_from_stream", "before"):
            create_anchor(table.log, "tag:kept")
            written.append(path.stat())

    written: list[os.stat_result] = []
    log = DeltaLog(table.root, storage=CountingStorage(table.log.storage, write_first))
    assert create_anchor(log, "tag:kept").is_new
    assert [each.st_ino for each in written] == [path.stat().st_ino]


@pytest.mark.parametrize(
    ("ref", "error"),
    [("kept", InvalidRequestError), ("tag:no", VersionNotFoundError)],
    ids=["no ref", "an unknown tag"],
)
def test_a_wrong_ref_is_rejected(table: Table, ref: str, error: type[Exception]) -> None:
    create_tag(table.log, "kept", version=1)
    with pytest.raises(error):
        create_anchor(table.log, ref)
    assert not (table.root / "_delta_ops" / "anchors").exists()


def test_a_killed_creation_leaves_a_whole_anchor_or_none(tmp_path: Path) -> None:
    table = table_at(tmp_path / "t")
    create_tag(table.log, "kept", version=1)
    kept = table.rows(1)
    found = set()
    fresh = copies_of(table.root, tmp_path / "copies")
    for place, storage in crashes(
        fresh, lambda each: create_anchor(DeltaLog("", storage=each), "tag:kept")
    ):
        copy = Table(Path(storage.uri), now_ms=table.now_ms)
        lose_log(copy)
        try:
            assert rows(da.to_table(copy.root, ref="tag:kept")) == kept, place
            found.add("read")
        except VersionNotFoundError:
            found.add("lost")
    assert found == {"read", "lost"}

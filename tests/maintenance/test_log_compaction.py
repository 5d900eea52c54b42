"""Log compaction files: their content, and that each is written once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from delta_ops import DeltaLog
from delta_ops.errors import (
    InvalidRequestError,
    LogCorruptError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import compact_log
from delta_ops.protocol.actions import (
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Protocol,
    SetTransaction,
)
from delta_ops.protocol.file_names import commit_name, compaction_name
from tests.support.crash_states import crash_states
from tests.support.faulty_storage import copies_of
from tests.support.tables import add, live_paths, metadata, remove, write_log

VECTOR = DeletionVector(
    storage_type="i", path_or_inline_dv="x" * 20, size_in_bytes=8, cardinality=1
)


def domain(name: str, *, removed: bool = False) -> DomainMetadata:
    return DomainMetadata(domain=name, configuration="{}", removed=removed)


def a_log(root: Path) -> DeltaLog:
    """Six versions; a checkpoint holds the first two."""
    log = write_log(
        root,
        [
            [add("a"), add("b"), add("c"), SetTransaction(app_id="x", version=1)],
            [add("d"), domain("gone")],
            [remove("a", deletion_timestamp=None), add("e"), CommitInfo(values={"n": 1})],
            [remove("b"), remove("e"), SetTransaction(app_id="x", version=2)],
            [add("f"), domain("gone", removed=True), domain("kept")],
            [remove("c"), add("c", deletion_vector=VECTOR), metadata(name="new")],
        ],
    )
    write_checkpoint(log.snapshot(1), now_ms=0)
    return log


def written(log: DeltaLog, name: str) -> list[tuple[str, dict[str, Any]]]:
    lines = log.storage.read(f"_delta_log/{name}").decode().splitlines()
    return [item for line in lines for item in json.loads(line).items()]


def test_it_holds_what_counts_and_every_remove_however_old(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    result = compact_log(log)
    assert (result.plan.start_version, result.plan.end_version) == (2, 5)
    actions = written(log, compaction_name(2, 5))
    assert result.num_actions == len(actions)
    removes = {body["path"]: body for name, body in actions if name == "remove"}
    assert set(removes) == {"a", "b", "c", "e"}
    assert "deletionTimestamp" not in removes["a"]
    assert {body["path"] for name, body in actions if name == "add"} == {"c", "f"}
    assert [body["name"] for name, body in actions if name == "metaData"] == ["new"]
    assert [body["version"] for name, body in actions if name == "txn"] == [2]
    domains = {b["domain"]: b["removed"] for name, b in actions if name == "domainMetadata"}
    assert domains == {"gone": True, "kept": False}
    assert not {"commitInfo", "protocol"} & {name for name, _ in actions}


def test_it_comes_to_the_same_as_its_commits(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t")
    compact_log(log, 2, 4)
    other = a_log(tmp_path / "other")
    place = other.log_directory
    for version in (2, 3, 4):
        other.storage.delete(f"{place}/{commit_name(version)}")
        create_commit(other.storage, place, version, [])
    other.storage.replace(
        f"{place}/{commit_name(4)}", log.storage.read(f"{place}/{compaction_name(2, 4)}")
    )
    assert live_paths(other) == live_paths(log) == {"c", "d", "f"}
    assert other.snapshot().state == log.snapshot().state
    paths = [set(each.snapshot().tombstones()["path"].to_pylist()) for each in (log, other)]
    assert paths[0] == paths[1] == {"a", "b", "c", "e"}


def test_one_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    assert compact_log(log).written
    before = log.storage.read(f"_delta_log/{compaction_name(2, 5)}")
    again = compact_log(log)
    assert (again.written, again.size_bytes) == (False, 0)
    assert not compact_log(log, dry_run=True).plan.has_work
    assert log.storage.read(f"_delta_log/{compaction_name(2, 5)}") == before


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    result = compact_log(log, dry_run=True)
    assert (result.plan.has_work, result.plan.file_name) == (True, compaction_name(2, 5))
    assert not (tmp_path / "_delta_log" / compaction_name(2, 5)).exists()


@pytest.mark.parametrize("argument", [(5, None), (3, 3)])
def test_a_single_version_is_not_put_together(tmp_path: Path, argument: tuple[int, None]) -> None:
    result = compact_log(a_log(tmp_path), *argument)
    assert (result.plan.has_work, result.written) == (False, False)


@pytest.mark.parametrize(
    ("argument", "error", "message"),
    [
        pytest.param((-1, 3), InvalidRequestError, "the range of versions from -1 to 3", id="low"),
        pytest.param((4, 2), InvalidRequestError, "the range of versions from 4 to 2", id="back"),
        pytest.param((2, 9), VersionNotFoundError, "its latest version is 5", id="after the last"),
        pytest.param((0, 3), LogCorruptError, "version 1 is missing", id="a hole"),
    ],
)
def test_ranges_that_are_refused(
    tmp_path: Path, argument: tuple[int, int], error: type[Exception], message: str
) -> None:
    log = a_log(tmp_path)
    (tmp_path / "_delta_log" / commit_name(1)).unlink()
    with pytest.raises(error, match=message):
        compact_log(log, *argument)


def test_a_feature_that_we_have_never_heard_of_is_refused(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    unknown = Protocol(min_reader_version=1, min_writer_version=7, writer_features=("invented",))
    create_commit(log.storage, log.log_directory, 6, [unknown])
    with pytest.raises(UnsupportedFeatureError, match="invented"):
        compact_log(log, 2, 5)


@pytest.mark.full
def test_killed_at_any_call_and_run_again_it_is_the_same(tmp_path: Path) -> None:
    template = a_log(tmp_path / "template")
    fresh = copies_of(Path(template.uri), tmp_path)
    whole = DeltaLog("", storage=fresh())
    compact_log(whole)
    expected = whole.storage.read(f"_delta_log/{compaction_name(2, 5)}")
    for where, storage in crash_states(fresh, lambda s: compact_log(DeltaLog("", storage=s))):
        log = DeltaLog("", storage=storage)
        assert live_paths(log) == {"c", "d", "f"}, where
        compact_log(log)
        assert storage.read(f"_delta_log/{compaction_name(2, 5)}") == expected, where
        assert not compact_log(log).written, where


def test_we_read_none_ourselves(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    (tmp_path / "_delta_log" / compaction_name(2, 5)).write_text('{"add":{"path":"lie"}}')
    assert live_paths(log) == {"c", "d", "f"}

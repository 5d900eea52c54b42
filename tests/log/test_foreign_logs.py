"""Log directories of other writers, copies and accidents: opened right, or rejected."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from delta_ops import DeltaLog
from delta_ops.errors import LogCorruptError, TableNotFoundError, VersionNotFoundError
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.protocol.json.codec import json_body
from tests.support.tables import PROTOCOL, add, live_paths, metadata, remove, write_log

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"
VERSIONS = 6
LIVE = {"1", "2", "3", "4", "5"}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The log of six versions that each add a file; the fourth removes the first file."""
    commits = [[add(str(version))] for version in range(VERSIONS)]
    log = write_log(tmp_path, [*commits[:3], [*commits[3], remove("0")], *commits[4:]])
    for version in (2, 4):
        write_checkpoint(log.snapshot(version), now_ms=0)
    return tmp_path / "_delta_log"


def open_live(directory: Path) -> set[str]:
    return live_paths(DeltaLog(directory.parent))


def name(version: int, suffix: str) -> str:
    return f"{version:020d}.{suffix}"


def drop(directory: Path, *suffixes: str, versions: range = range(VERSIONS)) -> None:
    for version in versions:
        for suffix in suffixes:
            (directory / name(version, suffix)).unlink(missing_ok=True)


def point(directory: Path, **hint: Any) -> None:
    (directory / "_last_checkpoint").write_text(json.dumps({"size": 1, **hint}))


Change = Callable[[Path], object]


@pytest.mark.some_cases(7)
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda d: point(d, version=5), id="a hint without its checkpoint"),
        pytest.param(lambda d: point(d, version=2), id="a hint at an older checkpoint"),
        pytest.param(lambda d: point(d, version=3), id="a hint between checkpoints"),
        pytest.param(lambda d: point(d, version=4, parts=7), id="a hint of other parts"),
        pytest.param(
            lambda d: point(
                d, version=4, v2Checkpoint={"path": name(4, f"checkpoint.{UUID}.json")}
            ),
            id="a hint at a V2 checkpoint that is not there",
        ),
        pytest.param(lambda d: (d / "_last_checkpoint").unlink(), id="no hint"),
        pytest.param(
            lambda d: ((d / "_last_checkpoint").unlink(), (d / "_last_checkpoint").mkdir()),
            id="a directory in the place of the hint",
        ),
        pytest.param(
            lambda d: drop(d, "json", versions=range(4)), id="commits before a checkpoint gone"
        ),
        pytest.param(
            lambda d: drop(d, "json", versions=range(5)), id="the checkpoint's commit gone as well"
        ),
        pytest.param(
            lambda d: (d / name(4, "checkpoint.parquet")).write_bytes(b""), id="an empty checkpoint"
        ),
        pytest.param(
            lambda d: shutil.copy(
                d / name(4, "checkpoint.parquet"),
                d / name(4, "checkpoint.0000000001.0000000002.parquet"),
            ),
            id="one of two parts beside a whole checkpoint",
        ),
        pytest.param(
            lambda d: (d / name(5, "checkpoint.0000000001.9999999999.parquet")).write_bytes(b"x"),
            id="one part of thousands of millions",
        ),
        pytest.param(
            lambda d: (d / name(5, "checkpoint.0000000000.0000000001.parquet")).write_bytes(b"x"),
            id="a part that is not counted from 1",
        ),
        pytest.param(
            lambda d: (d / name(5, f"checkpoint.{UUID}.parquet")).write_bytes(b""),
            id="an empty V2 checkpoint",
        ),
        pytest.param(
            lambda d: (d / f"{1:020d}.{5:020d}.compacted.json").write_text('{"add":{"path":"x"}}'),
            id="a compaction beside its commits",
        ),
        pytest.param(
            lambda d: (d / f"{1:020d}.{9:020d}.compacted.json").write_bytes(b""),
            id="an empty compaction of versions to come",
        ),
        pytest.param(lambda d: (d / name(9, "crc")).write_text("{"), id="a checksum to come"),
        pytest.param(lambda d: (d / name(5, "crc")).write_bytes(b""), id="an empty checksum"),
        pytest.param(
            lambda d: [(d / f"{version:020d}.txt").touch() for version in range(9)],
            id="files of an unknown kind",
        ),
        pytest.param(
            lambda d: [
                (d / odd).write_text("no JSON")
                for odd in (
                    f"{6:019d}.json",
                    f"{6:021d}.json",
                    f"{6:020d}.JSON",
                    f"{6:020d}.json.tmp",
                    f".{6:020d}.json.tmp",
                    f".{6:020d}.json.crc",
                    f"_{6:020d}.json",
                    f"{6:020d}.{UUID}.json",
                    f"{6:020d}.json.bak",
                    f"-{6:019d}.json",
                    f"{6:020d} .json",
                    f"{6:020d}.checkpoint.parquet.tmp",
                    f"{6:020d}.checkpoint.1.2.parquet",
                    f"{6:020d}.checkpoint.json",
                    f"{6:020d}.checkpoint.{UUID}.crc",
                    "6.json",
                    "\u0660" * 19 + "\u0666.json",
                    f"{2**63}".zfill(20) + ".json",
                    f"{10**20 - 1}.json",
                    f"{10**20 - 1}.checkpoint.parquet",
                )
            ],
            id="names that are almost right",
        ),
        pytest.param(
            lambda d: (
                (d / "_staged_commits").mkdir(),
                (d / "_staged_commits" / name(6, f"{UUID}.json")).write_text("no JSON"),
                (d / "_commits").mkdir(),
                (d / "_commits" / name(6, "json")).write_text("no JSON"),
            ),
            id="staged commits",
        ),
        pytest.param(lambda d: (d / name(6, "json")).mkdir(), id="a directory named as a commit"),
        pytest.param(
            lambda d: (d / name(5, "checkpoint.parquet")).mkdir(),
            id="a directory named as a checkpoint",
        ),
        pytest.param(
            lambda d: (
                (d / "_sidecars").mkdir(),
                shutil.copy(d / name(4, "checkpoint.parquet"), d / "_sidecars" / f"{UUID}.parquet"),
            ),
            id="a sidecar that nothing names",
        ),
        pytest.param(
            lambda d: (d / name(6, "json")).write_bytes(b""), id="a commit of no bytes at the end"
        ),
        pytest.param(
            lambda d: (d / name(6, "json")).write_bytes(b"\n\n\r\n \n"),
            id="a commit of blank lines",
        ),
    ],
)
def test_unknown_files_in_the_log_change_nothing(directory: Path, change: Change) -> None:
    change(directory)
    assert open_live(directory) == LIVE
    assert DeltaLog(directory.parent).snapshot().num_files == len(LIVE)


@pytest.mark.parametrize(
    "number", [10**18, 2**63 - 1], ids=["a version far away", "the last of all versions"]
)
@pytest.mark.parametrize("suffix", ["json", "checkpoint.0000000001.0000000001.parquet"])
def test_a_version_after_a_hole_is_an_error_at_once(
    directory: Path, number: int, suffix: str
) -> None:
    snapshot = DeltaLog(directory.parent).snapshot()
    (directory / name(number, suffix)).write_bytes(b'{"commitInfo":{}}')
    for read in (DeltaLog(directory.parent).snapshot, snapshot.refresh):
        with pytest.raises(
            LogCorruptError, match=r"version 6 is missing|checkpoint cannot be read"
        ):
            read()
    assert live_paths(DeltaLog(directory.parent), 5) == LIVE


def test_parts_of_two_counts_are_not_mixed(directory: Path) -> None:
    whole = directory / name(4, "checkpoint.parquet")
    rows = pq.read_table(whole)
    whole.unlink()
    for count in (2, 3):
        for part in range(count):
            if (count, part) != (2, 1):
                place = directory / name(4, f"checkpoint.{part + 1:010d}.{count:010d}.parquet")
                size = -(-len(rows) // count)
                pq.write_table(rows.slice(part * size, size), place)
    snapshot = DeltaLog(directory.parent).snapshot()
    assert snapshot.checkpoint is not None
    assert (snapshot.checkpoint.version, len(snapshot.checkpoint.parts)) == (4, 3)
    assert open_live(directory) == LIVE


def test_a_version_can_be_read_from_its_checkpoint_alone(directory: Path) -> None:
    drop(directory, "json")
    log = DeltaLog(directory.parent)
    assert log.snapshot().version == 4
    assert live_paths(log) == LIVE - {"5"}
    assert live_paths(log, 2) == {"0", "1", "2"}
    assert list(log.history()) == []
    with pytest.raises(VersionNotFoundError, match="latest version is 4"):
        log.snapshot(5)
    with pytest.raises(VersionNotFoundError, match="earliest version that can be read is 4"):
        log.snapshot(3)


def test_a_checkpoint_newer_than_the_last_commit_is_the_latest_version(directory: Path) -> None:
    drop(directory, "json", versions=range(3, VERSIONS))
    assert DeltaLog(directory.parent).snapshot().version == 4
    assert open_live(directory) == LIVE - {"5"}


def test_a_hole_above_the_checkpoint_is_named_and_below_it_does_no_harm(directory: Path) -> None:
    (directory / name(1, "json")).unlink()
    assert open_live(directory) == LIVE
    write_checkpoint(DeltaLog(directory.parent).snapshot(5), now_ms=0)
    (directory / name(4, "checkpoint.parquet")).unlink()
    (directory / name(4, "json")).unlink()
    assert open_live(directory) == LIVE
    (directory / name(5, "checkpoint.parquet")).unlink()
    with pytest.raises(LogCorruptError, match=f"{name(4, 'json')}: version 4 is missing"):
        DeltaLog(directory.parent).snapshot()


def test_commits_without_the_first_and_without_a_checkpoint_are_an_error(directory: Path) -> None:
    drop(directory, "checkpoint.parquet")
    (directory / name(0, "json")).unlink()
    with pytest.raises(LogCorruptError, match="version 0 is missing"):
        DeltaLog(directory.parent).snapshot()


def test_an_empty_log_directory_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / "_last_checkpoint").write_text('{"version":3}')
    (tmp_path / "_delta_log" / name(3, "checkpoint.parquet")).write_bytes(b"")
    assert not DeltaLog(tmp_path).exists()
    with pytest.raises(TableNotFoundError):
        DeltaLog(tmp_path).snapshot()


def test_a_first_commit_of_no_bytes_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / name(0, "json")).write_bytes(b"")
    with pytest.raises(LogCorruptError, match="version 0: there is no protocol"):
        DeltaLog(tmp_path).snapshot()


def test_a_log_of_the_first_release_is_read(tmp_path: Path) -> None:
    """No commitInfo, no statistics, no configuration; a hint of two fields."""
    (tmp_path / "_delta_log").mkdir()
    body = json_body(metadata())
    kept = ("id", "format", "schemaString", "partitionColumns")
    first = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 1}},
        {"metaData": {key: body[key] for key in kept} | {"format": {"provider": "parquet"}}},
        {"add": {"path": "a", "partitionValues": {}, "size": 1, "modificationTime": 1}},
        {"txn": {"appId": "q", "version": 0}},
    ]
    second = [
        {"remove": {"path": "a", "timestamp": 1, "dataChange": True}},
        {"add": {"path": "b", "partitionValues": {}, "size": 2, "modificationTime": 1}},
    ]
    for version, actions in enumerate((first, second)):
        lines = "\n".join(map(json.dumps, actions))
        (tmp_path / "_delta_log" / name(version, "json")).write_text(lines)
    log = DeltaLog(tmp_path)
    assert live_paths(log) == {"b"}
    assert log.snapshot().transactions()["q"].version == 0
    assert [entry.operation for entry in log.history()] == [None, None]
    write_checkpoint(log.snapshot(), now_ms=0)
    (tmp_path / "_delta_log" / name(0, "json")).unlink()
    (tmp_path / "_delta_log" / "_last_checkpoint").write_text('{"version":1,"size":4}')
    assert live_paths(DeltaLog(tmp_path)) == {"b"}
    assert (
        DeltaLog(tmp_path).snapshot().protocol.min_writer_version == PROTOCOL.min_writer_version - 1
    )

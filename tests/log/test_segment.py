"""The files of the log that make up a version."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from delta_ops import DeltaLog
from delta_ops.errors import (
    LogCorruptError,
    TableNotFoundError,
    VersionNotFoundError,
)
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.protocol.file_names import commit_name
from delta_ops.storage import FileInfo, Storage
from tests.support.tables import add, clean_up, live_paths, write_log


def log_of(root: Path, versions: int = 6) -> DeltaLog:
    return write_log(root, [[add(f"{v}.parquet")] for v in range(versions)])


def paths_to(version: int) -> set[str]:
    return {f"{v}.parquet" for v in range(version + 1)}


def commit_file(root: Path, version: int) -> Path:
    return root / "_delta_log" / f"{version:020d}.json"


def hint(root: Path) -> Path:
    return root / "_delta_log" / "_last_checkpoint"


def test_a_folder_without_a_log_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError, match="is not a Delta table"):
        DeltaLog(tmp_path).snapshot()


def test_a_missing_version_is_named(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    commit_file(tmp_path, 3).unlink()
    with pytest.raises(LogCorruptError, match="version 3 is missing"):
        log.snapshot()


class TornListing:
    """A storage whose next listing misses versions that are written meanwhile."""

    def __init__(self, inner: Storage, versions: Sequence[int]) -> None:
        self._inner, self._versions = inner, set(versions)

    def list_from(self, directory: str, start: str) -> Iterator[FileInfo]:
        passed, self._versions = self._versions, set()
        names = {commit_name(version) for version in passed}
        for info in self._inner.list_from(directory, start):
            if info.path.rpartition("/")[2] not in names:
                yield info

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.mark.parametrize("missed", [[0], [3], [4], [2, 4]])
def test_a_version_that_a_listing_passed_by_is_looked_for_again(
    tmp_path: Path, missed: list[int]
) -> None:
    def log() -> DeltaLog:
        return DeltaLog("", storage=cast(Storage, TornListing(inner, missed)))

    inner = log_of(tmp_path).storage
    assert live_paths(log()) == paths_to(5)
    assert [commit.version for commit in log().commits(min(missed))] == list(range(min(missed), 6))
    write_checkpoint(DeltaLog(tmp_path).snapshot(1), now_ms=0)
    assert live_paths(log()) == paths_to(5)


def test_a_gap_below_a_checkpoint_does_no_harm(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    write_checkpoint(log.snapshot(4), now_ms=0)
    commit_file(tmp_path, 3).unlink()
    assert live_paths(log) == paths_to(5)


def test_a_version_before_the_clean_up_names_the_earliest_that_is_left(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    write_checkpoint(log.snapshot(4), now_ms=0)
    for version in range(4):
        commit_file(tmp_path, version).unlink()
    with pytest.raises(VersionNotFoundError, match="earliest version that can be read is 4"):
        log.snapshot(2)


def test_a_version_of_the_future_names_the_latest(tmp_path: Path) -> None:
    with pytest.raises(VersionNotFoundError, match="latest version is 5"):
        log_of(tmp_path).snapshot(99)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{not json", id="malformed"),
        pytest.param(b"[]", id="of another shape"),
        pytest.param(b'{"size":3}', id="without a version"),
        pytest.param(b'{"version":2,"size":3}', id="dangling"),
        pytest.param(b'{"version":77,"size":3}', id="of the future"),
        pytest.param(b'{"version":1%s}' % (b"0" * 30), id="beyond 20 digits"),
        pytest.param(b'{"version":-1}', id="negative"),
        pytest.param(b'{"version":4.0}', id="a fraction"),
        pytest.param(b'{"version":' + b"[" * 100_000, id="nested beyond all measure"),
        pytest.param(b"\xff\x00", id="no text"),
    ],
)
def test_a_hint_is_only_a_hint(tmp_path: Path, content: bytes) -> None:
    log = log_of(tmp_path)
    write_checkpoint(log.snapshot(4), now_ms=0)
    hint(tmp_path).write_bytes(content)
    assert live_paths(log) == paths_to(5)


def test_without_a_hint_the_checkpoint_is_found(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    write_checkpoint(log.snapshot(4), now_ms=0)
    hint(tmp_path).unlink()
    snapshot = log.snapshot()
    assert snapshot.checkpoint is not None
    assert snapshot.checkpoint.version == 4


def test_an_empty_checkpoint_file_is_no_checkpoint(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    (tmp_path / "_delta_log" / f"{4:020d}.checkpoint.parquet").write_bytes(b"")
    assert live_paths(log) == paths_to(5)


def test_a_checkpoint_with_a_missing_part_is_no_checkpoint(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    write_checkpoint(log.snapshot(4), now_ms=0)
    directory = tmp_path / "_delta_log"
    whole = directory / f"{4:020d}.checkpoint.parquet"
    whole.rename(directory / f"{4:020d}.checkpoint.0000000001.0000000002.parquet")
    hint(tmp_path).unlink()
    assert log.snapshot().checkpoint is None
    assert live_paths(log) == paths_to(5)


def test_a_checkpoint_in_parts_is_read(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    write_checkpoint(log.snapshot(4), now_ms=0)
    write_checkpoint(log.snapshot(3), now_ms=0)
    directory = tmp_path / "_delta_log"
    # Two overlapping parts repeat the same files; paths show whether both were read.
    (directory / f"{4:020d}.checkpoint.parquet").rename(
        directory / f"{5:020d}.checkpoint.0000000001.0000000002.parquet"
    )
    (directory / f"{3:020d}.checkpoint.parquet").rename(
        directory / f"{5:020d}.checkpoint.0000000002.0000000002.parquet"
    )
    hint(tmp_path).unlink()
    assert live_paths(log) == paths_to(4)


@pytest.mark.parametrize("missing", ["protocol", "metaData"])
def test_missing_protocol_and_metadata_are_reported(tmp_path: Path, missing: str) -> None:
    log = log_of(tmp_path, 1)
    lines = commit_file(tmp_path, 0).read_text().splitlines()
    commit_file(tmp_path, 0).write_text(
        "\n".join(line for line in lines if missing not in json.loads(line))
    )
    with pytest.raises(LogCorruptError, match=f"there is no {missing}"):
        log.snapshot()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        pytest.param('{"add":{"path":"x"', "not valid JSON", id="a truncated line"),
        pytest.param('["add"]', "Expected `object`", id="no object"),
        pytest.param('{"add":{"size":1}}', "missing required field `path`", id="no path"),
        pytest.param('{"add":{"path":"x","size":"1"}}', "`int`, got `str`.*size", id="a size"),
        pytest.param(
            '{"add":{"path":"x","size":1,"partitionValues":{"p":{}}}}',
            "malformed: whilst .*'partitionValues': expected string got {}",
            id="a map",
        ),
        pytest.param('{"txn":{"appId":"a"}}', "txn is malformed", id="a txn without a version"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: str, reason: str) -> None:
    log = log_of(tmp_path, 2)
    with commit_file(tmp_path, 1).open("a") as file:
        file.write(f"\n{line}\n")
    with pytest.raises(LogCorruptError, match=rf"{1:020d}.json, line 3: .*{reason}"):
        log.snapshot()


def test_unknown_actions_and_fields_and_blank_lines_are_left_out(tmp_path: Path) -> None:
    log = log_of(tmp_path, 2)
    content = commit_file(tmp_path, 1).read_bytes()
    unknown = b'\n\n{"novelty":{"x":1}}\n{"txn":{"appId":"a","version":1,"novelty":[1]}}\n\n'
    commit_file(tmp_path, 1).write_bytes(b"\xef\xbb\xbf" + content + unknown)
    assert live_paths(log) == paths_to(1)
    assert log.snapshot().transactions()["a"].version == 1


def test_an_unreadable_checkpoint_is_an_error_that_names_it(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    write_checkpoint(log.snapshot(4), now_ms=0)
    checkpoint = tmp_path / "_delta_log" / f"{4:020d}.checkpoint.parquet"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-20])
    clean_up(log)
    with pytest.raises(LogCorruptError, match="the checkpoint cannot be read"):
        log.snapshot()

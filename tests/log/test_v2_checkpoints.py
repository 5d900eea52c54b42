"""V2 checkpoints: a top-level file, JSON or Parquet, and file actions there or in sidecars."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_ops import DeltaLog
from delta_ops.errors import LogCorruptError
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.actions import Protocol, SetTransaction
from tests.support.tables import add, clean_up, live_paths, metadata, remove

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"
V2 = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=("v2Checkpoint",),
    writer_features=("v2Checkpoint",),
)
FILE_ACTIONS = ("add", "remove")
Make = Callable[[Path], Path]


def table(root: Path) -> DeltaLog:
    """Four files, one of them removed; the checkpoint of version 1 is classic."""
    log = DeltaLog(root)
    txn = SetTransaction(app_id="a", version=3, last_updated=1)
    adds = [add(f"{i}.parquet", stats='{"numRecords":1}') for i in range(4)]
    create_commit(log.storage, log.log_directory, 0, [V2, metadata(), txn, *adds[:3]])
    gone = remove("0.parquet", deletion_timestamp=2**42)
    create_commit(log.storage, log.log_directory, 1, [adds[3], gone])
    create_commit(log.storage, log.log_directory, 2, [remove("1.parquet")])
    write_checkpoint(log.snapshot(1), now_ms=0)
    return log


def classic(root: Path) -> Path:
    return root / "_delta_log" / f"{1:020d}.checkpoint.parquet"


def sidecars(root: Path, rows: pa.Table) -> list[dict[str, Any]]:
    """The file actions in two sidecars; returns the sidecar actions for the top-level file."""
    directory = root / "_delta_log" / "_sidecars"
    directory.mkdir()
    parts = [rows.slice(0, 2), rows.slice(2)]
    for i, part in enumerate(parts):
        pq.write_table(part, directory / f"{i}.parquet")
    return [
        {
            "path": f"{i}.parquet",
            "sizeInBytes": (directory / f"{i}.parquet").stat().st_size,
            "modificationTime": 1,
        }
        for i in range(len(parts))
    ]


def split(root: Path) -> tuple[pa.Table, pa.Table]:
    """The classic checkpoint's file rows, and its other rows; deletes the checkpoint."""
    rows = pq.read_table(classic(root))
    classic(root).unlink()
    is_file = pa.compute.or_(rows["add"].is_valid(), rows["remove"].is_valid())
    others = rows.filter(pa.compute.invert(is_file)).drop_columns(list(FILE_ACTIONS))
    return rows.filter(is_file).select(list(FILE_ACTIONS)), others


def json_lines(rows: pa.Table, extra: Sequence[dict[str, Any]] = ()) -> str:
    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items() if v is not None}
        return value

    lines = [
        {name: plain(body)}
        for row in rows.to_pylist(maps_as_pydicts="strict")
        for name, body in row.items()
        if body is not None
    ]
    return "".join(json.dumps(line) + "\n" for line in [*extra, *lines])


def json_with_sidecars(root: Path) -> Path:
    files, others = split(root)
    listed = [{"sidecar": each} for each in sidecars(root, files)]
    top = root / "_delta_log" / f"{1:020d}.checkpoint.{UUID}.json"
    top.write_text(json_lines(others, [{"checkpointMetadata": {"version": 1}}, *listed]))
    return top


def json_alone(root: Path) -> Path:
    rows = pq.read_table(classic(root))
    classic(root).unlink()
    top = root / "_delta_log" / f"{1:020d}.checkpoint.{UUID}.json"
    top.write_text(json_lines(rows, [{"checkpointMetadata": {"version": 1}}]))
    return top


def parquet_with_sidecars(root: Path, name: str = f"{1:020d}.checkpoint.{UUID}.parquet") -> Path:
    files, others = split(root)
    listed = pa.array(
        [None] * len(others) + sidecars(root, files),
        pa.struct(
            [("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())]
        ),
    )
    empty = pa.Table.from_pylist([{}] * 2, schema=others.schema)
    top = root / "_delta_log" / name
    pq.write_table(pa.concat_tables([others, empty]).append_column("sidecar", listed), top)
    return top


def classic_name_with_sidecars(root: Path) -> Path:
    return parquet_with_sidecars(root, classic(root).name)


KINDS = pytest.mark.parametrize(
    "make", [json_with_sidecars, json_alone, parquet_with_sidecars, classic_name_with_sidecars]
)


@pytest.mark.some_cases(5)
@KINDS
@pytest.mark.parametrize("has_commits", [True, False])
def test_every_kind_is_read(tmp_path: Path, make: Make, has_commits: bool) -> None:
    before = table(tmp_path)
    make(tmp_path)
    (tmp_path / "_delta_log" / "_last_checkpoint").unlink()
    for version in (0, 1) if not has_commits else ():
        (tmp_path / "_delta_log" / f"{version:020d}.json").unlink()
    snapshot = DeltaLog(tmp_path).snapshot()
    assert snapshot.checkpoint is not None
    assert live_paths(before) == {"2.parquet", "3.parquet"}
    assert live_paths(before, 1) == {"1.parquet", "2.parquet", "3.parquet"}
    assert snapshot.files(["num_records"])["num_records"].to_pylist() == [1, 1]
    assert set(snapshot.tombstones()["path"].to_pylist()) == {"0.parquet", "1.parquet"}
    assert snapshot.transactions()["a"].version == 3
    assert (snapshot.protocol, snapshot.metadata) == (V2, metadata())


@KINDS
def test_a_hint_may_point_at_any_kind(tmp_path: Path, make: Make) -> None:
    log = table(tmp_path)
    make(tmp_path)
    assert log.snapshot().commits_since_checkpoint == 1


def test_an_empty_top_level_file_is_no_checkpoint(tmp_path: Path) -> None:
    log = table(tmp_path)
    json_with_sidecars(tmp_path).write_bytes(b"")
    assert log.snapshot().checkpoint is None
    assert live_paths(log) == {"2.parquet", "3.parquet"}


@pytest.mark.parametrize("make", [json_with_sidecars, parquet_with_sidecars])
def test_a_top_level_file_that_cannot_be_read_is_named(tmp_path: Path, make: Make) -> None:
    log = table(tmp_path)
    top = make(tmp_path)
    top.write_bytes(top.read_bytes()[:-30])
    clean_up(log)
    with pytest.raises(LogCorruptError, match=top.name):
        log.snapshot()


def test_a_sidecar_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    log = table(tmp_path)
    top = json_with_sidecars(tmp_path)
    named = [line for line in top.read_text().splitlines() if "sidecar" in line]
    top.write_text(top.read_text() + named[0].replace('"path": "', '"path": "_sidecars/') + "\n")
    assert log.snapshot().num_files == 2


def test_a_sidecar_is_looked_for_in_its_directory_only(tmp_path: Path) -> None:
    log = table(tmp_path)
    top = json_with_sidecars(tmp_path)
    top.write_text(top.read_text().replace('"path": "0.parquet"', '"path": "../../0.parquet"', 1))
    assert live_paths(log) == {"2.parquet", "3.parquet"}


def test_a_sidecar_that_is_gone_is_an_error_and_loses_no_file_silently(tmp_path: Path) -> None:
    log = table(tmp_path)
    json_with_sidecars(tmp_path)
    (tmp_path / "_delta_log" / "_sidecars" / "1.parquet").unlink()
    clean_up(log)
    with pytest.raises(LogCorruptError, match=r"_sidecars/1.parquet: .* is missing"):
        log.snapshot().files(["path"])

"""A damaged checkpoint: the table is read from an older checkpoint and later commits."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.errors import DeltaOpsError, LogCorruptError
from delta_ops.events import CheckpointDamaged
from delta_ops.maintenance import clean_up_log, create_checkpoint, health
from tests.support.commands import age_log
from tests.support.tables import live_paths, rows_by_deltalake

Damage = Callable[[bytes], bytes]


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def overwrite_pages(data: bytes) -> bytes:
    """The footer stays right."""
    return data[:4] + bytes(len(data) // 3) + data[4 + len(data) // 3 :]


every_damage = pytest.mark.parametrize("damage", [cut, overwrite_pages])


def write(root: Path, number: int) -> None:
    da.write(root, pa.table({"id": [number], "p": [number % 2]}), partition_by=["p"])


@pytest.fixture(params=["classic", "v2"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Seven commits of a row each, and checkpoints of the versions 2 and 5."""
    root = tmp_path / "t"
    da.write(
        root,
        pa.table({"id": [0], "p": [0]}),
        partition_by=["p"],
        configuration={
            "delta.checkpointPolicy": request.param,
            "delta.checkpointInterval": "100",
        },
    )
    for number in range(1, 7):
        write(root, number)
        if number in (2, 5):
            create_checkpoint(root)
    return root


def damage_checkpoints(root: Path, version: int, damage: Damage) -> None:
    """Damage the Parquet files of a checkpoint, or its top-level file."""
    log = root / "_delta_log"
    (top,) = log.glob(f"{version:020}.checkpoint*")
    top.write_bytes(damage(top.read_bytes()))


def ids(root: Path) -> list[int]:
    return sorted(da.to_table(root)["id"].to_pylist())


@pytest.mark.some_cases(3)
@every_damage
@pytest.mark.parametrize("has_checksums", [True, False])
def test_a_table_is_read_from_the_checkpoint_before(
    root: Path, damage: Damage, has_checksums: bool, caplog: pytest.LogCaptureFixture
) -> None:
    damage_checkpoints(root, 5, damage)
    if not has_checksums:
        for each in (root / "_delta_log").glob("*.crc"):
            each.unlink()
    with caplog.at_level(logging.WARNING):
        assert ids(root) == list(range(7))
    assert "the checkpoint of version 5 cannot be read" in caplog.text
    snapshot = DeltaLog(root).snapshot()
    assert snapshot.num_files == 7
    assert len(snapshot.tombstones()) == 0
    assert dict(snapshot.transactions()) == {}


@every_damage
def test_a_table_is_read_from_its_commits_where_each_checkpoint_is_damaged(
    root: Path, damage: Damage
) -> None:
    for version in (2, 5):
        damage_checkpoints(root, version, damage)
    assert ids(root) == list(range(7))
    damaged = health(DeltaLog(root)).figures.damaged_checkpoints
    assert [each.version for each in damaged] == [5, 2]


@every_damage
def test_a_damaged_checkpoint_without_an_alternative_is_an_error(
    root: Path, damage: Damage
) -> None:
    damage_checkpoints(root, 5, damage)
    damage_checkpoints(root, 2, damage)
    (root / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(LogCorruptError, match=f"{2:020}|{5:020}"):
        ids(root)


@pytest.mark.some_cases(2)
@every_damage
def test_changes_go_on_and_the_next_checkpoint_mends_it(root: Path, damage: Damage) -> None:
    damage_checkpoints(root, 5, damage)
    events: list[object] = []
    da.delete(root, col("id") == 3, on_event=events.append)
    write(root, 7)
    assert [each.version for each in events if isinstance(each, CheckpointDamaged)] == [5]
    create_checkpoint(root)
    log = DeltaLog(root)
    checkpoint = log.snapshot().checkpoint
    assert checkpoint
    assert checkpoint.version == 8
    assert not health(log).figures.damaged_checkpoints
    assert ids(root) == [0, 1, 2, 4, 5, 6, 7]
    if not log.snapshot().definition.has("v2Checkpoint"):  # which deltalake does not read
        assert sorted(row["id"] for row in rows_by_deltalake(root)) == [0, 1, 2, 4, 5, 6, 7]


def test_a_checkpoint_of_the_same_version_is_written_anew(root: Path) -> None:
    create_checkpoint(root)
    damage_checkpoints(root, 6, cut)
    for each in (root / "_delta_log").glob("*.crc"):
        each.unlink()  # so that opening the table reads the checkpoint
    assert create_checkpoint(root).written
    assert not health(DeltaLog(root)).figures.damaged_checkpoints
    assert ids(root) == list(range(7))


@every_damage
def test_health_reports_it(root: Path, damage: Damage) -> None:
    damage_checkpoints(root, 5, damage)
    report = health(DeltaLog(root))
    (found,) = [each for each in report.findings if each.measure == "damaged_checkpoints"]
    assert (found.verdict, found.value) == ("look", ("5",))
    assert "create a checkpoint of a later version" in found.advice


@pytest.mark.some_cases(2)
@every_damage
def test_a_clean_up_of_the_log_deletes_nothing_that_readers_fell_back_to(
    root: Path, damage: Damage
) -> None:
    age_log(DeltaLog(root), 60)
    write(root, 7)
    damage_checkpoints(root, 5, damage)
    age_log(DeltaLog(root), 60)
    with suppress(DeltaOpsError):
        clean_up_log(root)
    assert ids(root) == list(range(8))


def test_no_file_is_listed_twice_where_a_later_part_is_damaged(tmp_path: Path) -> None:
    for number in range(12):
        write(tmp_path, number)
    create_checkpoint(tmp_path, part_rows=2)
    parts = sorted((tmp_path / "_delta_log").glob("*.checkpoint.*.parquet"))
    assert len(parts) > 3
    parts[-2].write_bytes(overwrite_pages(parts[-2].read_bytes()))
    snapshot = DeltaLog(tmp_path).snapshot()
    assert sorted(snapshot.files(["num_records", "path"])["path"].to_pylist()) == sorted(
        live_paths(DeltaLog(tmp_path))
    )
    assert snapshot.num_files == 12
    assert [each.version for each in snapshot.damaged_checkpoints] == [11]
    assert ids(tmp_path) == list(range(12))


def test_a_missing_sidecar_is_such_a_damage(tmp_path: Path) -> None:
    configuration = {"delta.checkpointPolicy": "v2"}
    da.write(tmp_path, pa.table({"id": [0]}), configuration=configuration)
    da.write(tmp_path, pa.table({"id": [1]}))
    create_checkpoint(tmp_path)
    for each in (tmp_path / "_delta_log" / "_sidecars").iterdir():
        each.unlink()
    assert ids(tmp_path) == [0, 1]
    assert len(live_paths(DeltaLog(tmp_path))) == 2

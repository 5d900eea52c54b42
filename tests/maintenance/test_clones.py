"""Maintenance of shallow clones: files outside of the table are read and never changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from _pytest.mark import ParameterSet

from delta_ops import DeltaLog, begin, col
from delta_ops.errors import DataFileError, InvalidRequestError, OutsideFileError
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.maintenance import (
    clean_up_log,
    create_checkpoint,
    health,
    maintain,
    optimize,
    repair,
    restore,
    revert,
    vacuum,
)
from delta_ops.protocol.actions import AddFile
from delta_ops.transaction.changes import tombstone
from tests.arrow.foreign_table import data_file
from tests.maintenance.restored_tables import commit, ids, make_with_vectors, write
from tests.support.clones import content_of, prefix_naming, shallow_clone
from tests.support.file_lock import FileLock
from tests.support.tables import stage_files

NOW: dict[str, Any] = {"retention": timedelta(0), "enforce_retention": False}
Naming = Callable[[Path], Callable[[str], str]]


def absolute(root: Path) -> Callable[[str], str]:
    return prefix_naming(f"file:{root}/source")


def by_steps(_root: Path) -> Callable[[str], str]:
    return prefix_naming("../source")


NAMINGS = pytest.mark.parametrize(
    "naming", [pytest.param(absolute, id="absolute"), pytest.param(by_steps, id="by steps up")]
)


def put(log: DeltaLog, *values: int) -> AddFile:
    """Write a file of these ids as another engine might, for a commit."""
    rows = pa.table({"id": pa.array(values, pa.int64()), "p": ["a"] * len(values)})
    stats = f'{{"numRecords":{len(values)}}}'
    return data_file(Path(log.uri), f"of-{values[0]}.parquet", rows, stats=stats)


def make_clone(root: Path, naming: Naming = absolute, *, vectors: bool = True) -> DeltaLog:
    """A clone of 2, 3, 4, 6, 7, 8 and 9 (with a vector), of 20 and of 21, with its own 30."""
    source = DeltaLog(root / "source")
    if vectors:
        make_with_vectors(root / "source")
    else:
        write(source, [2, 3, 4, 6, 7, 8, 9])
    commit(source, put(source, 20), put(source, 21))
    clone = shallow_clone(source.snapshot(), DeltaLog(root / "clone"), naming(root))
    commit(clone, put(clone, 30))
    return clone


LIVE = [2, 3, 4, 6, 7, 8, 9, 20, 21, 30]


def overwrite(log: DeltaLog) -> int:
    """Version 2 of the clone: nothing but 1."""
    live = log.snapshot().add_files()
    return commit(log, *(tombstone(add, 1, data_change=True) for add in live), put(log, 1))


def delete_20(log: DeltaLog) -> int:
    """Version 2 of the clone: without 20."""
    (add,) = (add for add in log.snapshot().add_files() if "of-20" in add.path)
    return commit(log, tombstone(add, 1, data_change=True))


OF_EVERY_TABLE = [
    pytest.param(lambda log: vacuum(log, **NOW), id="vacuum"),
    pytest.param(lambda log: vacuum(log, mode="lite", **NOW), id="vacuum lite"),
    pytest.param(lambda log: (overwrite(log), vacuum(log, **NOW)), id="vacuum of what went"),
    pytest.param(
        lambda log: (overwrite(log), vacuum(log, mode="lite", **NOW)), id="vacuum lite of what went"
    ),
    pytest.param(lambda log: repair(log, remove_missing=True), id="repair"),
    pytest.param(lambda log: (overwrite(log), restore(log, version=1)), id="restore"),
    pytest.param(lambda log: (delete_20(log), revert(log, version=2)), id="revert"),
    pytest.param(health, id="health"),
]
OF_TABLES_WITHOUT_VECTORS = [
    pytest.param(lambda log: optimize(log, target_size=1 << 20), id="optimize"),
    pytest.param(maintain, id="maintain"),
    pytest.param(lambda log: (create_checkpoint(log), clean_up_log(log)), id="checkpoint"),
    pytest.param(lambda log: write(log, [5], mode="overwrite"), id="overwrite"),
    pytest.param(
        lambda log: write(log, [7], mode="overwrite", replace_where=col("id") == 7),
        id="overwrite of a part",
    ),
]


def with_namings(acts: Sequence[ParameterSet]) -> Iterator[ParameterSet]:
    """Each act with the two namings in turn; `make test-all` also runs the other combinations."""
    namings = [("absolute", absolute), ("by steps up", by_steps)]
    for number, act in enumerate(acts):
        for turn, (name, naming) in enumerate(namings):
            marks = [] if (number + turn) % 2 == 0 else [pytest.mark.full]
            yield pytest.param(*act.values, naming, marks=marks, id=f"{act.id}-{name}")


def assert_source_stays(root: Path, act: Callable[[DeltaLog], object]) -> None:
    for place in (root / "source").rglob("*"):
        os.utime(place, (0, 0))
    before = content_of(root / "source")
    act(DeltaLog(root / "clone"))
    assert content_of(root / "source") == before
    assert ids(DeltaLog(root / "source")) == LIVE[:-1]


@pytest.mark.parametrize(("act", "naming"), list(with_namings(OF_EVERY_TABLE)))
def test_files_and_vectors_outside_stay_as_they_are(
    tmp_path: Path, act: Callable[[DeltaLog], object], naming: Naming
) -> None:
    make_clone(tmp_path, naming)
    assert_source_stays(tmp_path, act)


@pytest.mark.parametrize(("act", "naming"), list(with_namings(OF_TABLES_WITHOUT_VECTORS)))
def test_files_outside_stay_as_they_are(
    tmp_path: Path, act: Callable[[DeltaLog], object], naming: Naming
) -> None:
    make_clone(tmp_path, naming, vectors=False)
    assert_source_stays(tmp_path, act)


@NAMINGS
def test_vacuum_keeps_every_row_of_a_clone(tmp_path: Path, naming: Naming) -> None:
    clone = make_clone(tmp_path, naming)
    vacuum(clone, **NOW)
    assert ids(clone) == LIVE


@NAMINGS
def test_a_vacuum_keeps_a_file_of_the_table_that_a_clone_of_steps_may_mean(
    tmp_path: Path, naming: Naming
) -> None:
    """Through a link beside the table, a path that leads out of it leads back into it."""
    table = DeltaLog(tmp_path / "t")
    write(table, [1])
    (add,) = table.snapshot().add_files()
    (tmp_path / "source").symlink_to(tmp_path / "t")
    overwrite(table)
    commit(table, replace(add, path=naming(tmp_path)(add.path)))
    os.utime(tmp_path / "t" / add.path, (0, 0))
    vacuum(table, **NOW)
    assert ids(table) == [1, 1]


def test_optimize_leaves_files_of_others_to_them(tmp_path: Path) -> None:
    clone = make_clone(tmp_path, vectors=False)
    write(clone, [31])
    assert optimize(clone).files_removed == 2
    paths = clone.snapshot().files()["path"].to_pylist()
    assert sum(path.startswith(f"{tmp_path}/source/") for path in paths) == 3
    assert ids(clone) == [*LIVE, 31]


@NAMINGS
@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_a_restore_brings_files_outside_back(
    tmp_path: Path, naming: Naming, has_checkpoint: bool
) -> None:
    clone = make_clone(tmp_path, naming)
    if has_checkpoint:
        write_checkpoint(clone.snapshot(), now_ms=0)
    overwrite(clone)
    assert ids(clone) == [1]
    assert restore(clone, version=1).version == 3
    assert ids(clone) == LIVE


def test_a_revert_brings_files_outside_back(tmp_path: Path) -> None:
    clone = make_clone(tmp_path)
    version = delete_20(clone)
    assert revert(clone, version=version).version == version + 1
    assert ids(clone) == LIVE


@pytest.mark.parametrize("kind", ["*.parquet", "*.bin"])
def test_a_restore_refuses_what_is_gone_outside(tmp_path: Path, kind: str) -> None:
    clone = make_clone(tmp_path)
    overwrite(clone)
    for place in (tmp_path / "source").glob(kind):
        place.unlink()
    with pytest.raises(DataFileError, match="or its deletion vector is missing"):
        restore(clone, version=1)
    result = restore(clone, version=1, ignore_missing_files=True)
    assert len(result.missing) == (3 if kind == "*.parquet" else 1)
    assert ids(clone) == ([30] if kind == "*.parquet" else [20, 21, 30])


def test_a_restore_that_would_have_to_look_outside_is_refused_there(tmp_path: Path) -> None:
    clone = make_clone(tmp_path)
    overwrite(clone)
    refusing = DeltaLog(clone.uri, outside="refuse")
    with pytest.raises(OutsideFileError, match='outside="read"'):
        restore(refusing, version=1)
    assert ids(refusing) == [1]


def test_a_restore_within_the_lock_of_writers_keeps_the_rule(tmp_path: Path) -> None:
    overwrite(make_clone(tmp_path))
    lock = FileLock(str(tmp_path / "lock"))
    refusing = DeltaLog(tmp_path / "clone", lock=lock, outside="refuse")
    with pytest.raises(OutsideFileError):
        restore(refusing, version=1, hold_writers=True)
    reading = DeltaLog(tmp_path / "clone", lock=lock)
    assert restore(reading, version=1, hold_writers=True).version == 3


def test_no_new_file_may_lie_outside(tmp_path: Path) -> None:
    clone = make_clone(tmp_path, vectors=False)
    (add, *_) = (add for add in clone.snapshot().add_files() if "of-20" in add.path)
    for path in (add.path, "../source/another.parquet"):
        transaction = begin(clone)
        transaction.stage(stage_files(replace(add, path=path)))
        with pytest.raises(InvalidRequestError, match="lies outside the table"):
            transaction.commit(operation="WRITE")


def test_repair_finds_what_is_gone_outside_and_takes_it_out_on_request(tmp_path: Path) -> None:
    clone = make_clone(tmp_path)
    assert (found := repair(clone).plan).is_healthy
    assert (found.num_files, found.outside) == (4, 0)
    gone = tmp_path / "source" / "of-20.parquet"
    gone.unlink()
    plan = repair(clone).plan
    assert [Path(add.path.removeprefix("file:")) for add in plan.missing] == [gone]
    result = repair(clone, remove_missing=True)
    assert (result.removed_files, ids(clone)) == (1, [i for i in LIVE if i != 20])
    (removed,) = (c for c in clone.commits(result.version or 0))
    assert removed.removes["path"].to_pylist() == [f"file:{gone}"]


def test_repair_reports_a_vector_that_is_gone_outside(tmp_path: Path) -> None:
    clone = make_clone(tmp_path)
    for place in (tmp_path / "source").glob("*.bin"):
        place.unlink()
    plan = repair(clone, remove_missing=True).plan
    assert (len(plan.missing), len(plan.missing_vectors)) == (0, 1)


def test_a_source_that_is_not_mounted_is_not_taken_for_lost_files(tmp_path: Path) -> None:
    clone = make_clone(tmp_path)
    (tmp_path / "source").rename(tmp_path / "unmounted")
    assert len(repair(clone).plan.missing) == 3
    with pytest.raises(
        InvalidRequestError, match=r"all 3 files of the table in /.*source are missing"
    ):
        repair(clone, remove_missing=True)
    (tmp_path / "unmounted").rename(tmp_path / "source")
    assert ids(clone) == LIVE


def test_files_outside_do_not_hide_that_all_files_of_the_table_are_gone(tmp_path: Path) -> None:
    clone = make_clone(tmp_path)
    version = clone.snapshot().version
    for path in Path(clone.uri).glob("*.parquet"):
        path.unlink()
    with pytest.raises(InvalidRequestError, match="in its own directory are missing"):
        repair(clone, remove_missing=True)
    assert clone.snapshot().version == version


def test_repair_opens_nothing_outside_where_that_is_refused(tmp_path: Path) -> None:
    clone = make_clone(tmp_path)
    (tmp_path / "source").rename(tmp_path / "elsewhere")
    plan = repair(DeltaLog(clone.uri, outside="refuse"), remove_missing=True).plan
    assert (plan.outside, plan.num_files, plan.missing, plan.missing_vectors) == (3, 1, (), ())
    assert vacuum(DeltaLog(clone.uri, outside="refuse"), **NOW).deleted_files == 0


def test_statistics_of_files_outside_are_their_owners(tmp_path: Path) -> None:
    source = DeltaLog(tmp_path / "source")
    write(source, [1])
    snapshot = source.snapshot()
    clone = shallow_clone(snapshot, DeltaLog(tmp_path / "clone"), absolute(tmp_path))
    bare = [replace(add, stats=None) for add in clone.snapshot().add_files()]
    commit(clone, *bare)
    result = repair(clone)
    assert (result.described_files, result.plan.is_healthy, result.version) == (0, True, None)


def test_a_file_outside_is_removed_by_the_name_that_the_log_has(tmp_path: Path) -> None:
    clone = make_clone(tmp_path, lambda _: prefix_naming("../source"), vectors=False)
    live = {add.path for add in clone.snapshot().add_files()}
    write(clone, [1], mode="overwrite")
    (latest,) = clone.commits(2)
    assert set(latest.removes["path"].to_pylist()) == live

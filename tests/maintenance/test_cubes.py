"""Files that were laid out together, and how their tags name columns."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.ddl import cluster_by, rename_column
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import optimize, purge
from delta_ops.protocol.actions import CommitInfo
from tests.support.built_once import built_once
from tests.support.tables import rows

MAPPED = {"delta.columnMapping.mode": "name"}
FILE = 3_000


@built_once(lambda _, root: DeltaLog(root))
def of_two_columns(root: Path, /, **options: Any) -> DeltaLog:
    numbers = random.Random(1).sample(range(4_000), 4_000)
    for part in range(4):
        ids = numbers[part::4]
        da.write(root, pa.table({"a": ids, "b": ids[::-1]}), **options)
    return DeltaLog(root)


def tags_of(log: DeltaLog) -> dict[str, Any]:
    (tags,) = {json.dumps(add.tags, sort_keys=True) for add in log.snapshot().add_files()}
    found: dict[str, Any] = json.loads(tags)
    return found


def test_a_column_that_got_the_name_of_another_is_not_that_one(tmp_path: Path) -> None:
    log = of_two_columns(tmp_path, configuration=MAPPED)
    optimize(log, zorder_by=["a"], target_size=FILE)
    rename_column(log, "a", "c")
    rename_column(log, "b", "a")
    assert optimize(log, zorder_by=["a"], target_size=FILE).plan.num_files
    assert not optimize(log, zorder_by=["a"], target_size=FILE).plan.has_work


@pytest.mark.parametrize("is_clustered", [False, True], ids=["by zorder_by", "clustered"])
def test_a_column_that_was_renamed_is_the_same_one(tmp_path: Path, is_clustered: bool) -> None:
    log = of_two_columns(tmp_path, configuration=MAPPED)
    if is_clustered:
        cluster_by(log, ["a"])
    optimize(log, zorder_by=None if is_clustered else ["a"], target_size=FILE)
    rename_column(log, "a", "c")
    again = optimize(log, zorder_by=None if is_clustered else ["c"], target_size=FILE)
    assert not again.plan.has_work


def test_the_reference_finds_the_names_that_users_see(tmp_path: Path) -> None:
    log = of_two_columns(tmp_path, configuration=MAPPED)
    cluster_by(log, ["a"])
    optimize(log)
    tags = tags_of(log)
    (stored,) = json.loads(tags["delta_ops.zorderBy"])
    assert (tags["ZCUBE_ZORDER_BY"], tags["ZCUBE_ZORDER_CURVE"]) == ('["a"]', "hilbert")
    assert stored != "a"


def test_files_that_the_reference_clustered_stay(tmp_path: Path) -> None:
    log = of_two_columns(tmp_path, configuration=MAPPED)
    cluster_by(log, ["a"])
    adds = log.snapshot().add_files()
    cube = {"ZCUBE_ID": "1", "ZCUBE_ZORDER_BY": '["a"]', "ZCUBE_ZORDER_CURVE": "hilbert"}
    laid_out = [replace(add, tags=cube, clustering_provider="liquid") for add in adds]
    version = log.snapshot().version + 1
    create_commit(log.storage, log.log_directory, version, [CommitInfo(values={}), *laid_out])
    assert not optimize(log).plan.has_work


def test_a_purge_leaves_a_cube_and_who_clustered_it(tmp_path: Path) -> None:
    vectors = {"delta.enableDeletionVectors": "true"}
    log = of_two_columns(tmp_path, configuration=vectors)
    cluster_by(log, ["a"])
    optimize(log, target_size=FILE)
    cube = tags_of(log)
    da.delete(log, col("a").isin(list(range(0, 4_000, 2))))
    before = rows(da.to_table(log))
    assert purge(log, target_size=FILE).files_added
    adds = log.snapshot().add_files()
    assert {add.clustering_provider for add in adds} == {"liquid"}
    assert tags_of(log) == cube
    assert rows(da.to_table(log)) == before

"""Shallow clones made by delta-spark, and our clones read by delta-spark."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, Snapshot
from delta_ops.maintenance import restore, vacuum
from tests.peers.delta_spark import DeltaSpark
from tests.support.clones import content_of, prefix_naming, shallow_clone
from tests.support.tables import rows


def make_source(delta_spark: DeltaSpark, table: Path) -> None:
    for statement in (
        "CREATE TABLE {t} (id BIGINT, p STRING) USING delta PARTITIONED BY (p) TBLPROPERTIES "
        "('delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true')",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, IF(id % 2 = 0, 'x y', '50% é') "
        "FROM range(10)",
        "DELETE FROM {t} WHERE id IN (1, 4)",
    ):
        delta_spark.sql(statement.replace("{t}", f"delta.`{table}`"))


@pytest.mark.full
def test_a_clone_by_delta_spark_has_the_same_rows_in_every_version(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    source, clone = tmp_path / "a b", tmp_path / "clone"
    make_source(delta_spark, source)
    delta_spark.sql(f"CREATE TABLE delta.`{clone}` SHALLOW CLONE delta.`{source}`")
    delta_spark.sql(f"INSERT INTO delta.`{clone}` VALUES (100, 'x y')")
    delta_spark.sql(f"DELETE FROM delta.`{clone}` WHERE id IN (5, 6)")
    log, before = DeltaLog(clone), content_of(source)
    assert "p" in kinds_of_vectors(log.snapshot(0))
    for version in range(3):
        expected = rows(delta_spark.read(clone, version))
        assert rows(da.to_table(log.snapshot(version))) == expected
    theirs = delta_spark.changes(clone, startingVersion="1")
    ours = da.read_changes(log, 1).read_all()
    assert feed(ours.to_pylist()) == feed(theirs.to_pylist())

    steps = shallow_clone(
        DeltaLog(source).snapshot(), DeltaLog(tmp_path / "steps"), prefix_naming("../a%20b")
    )
    assert rows(da.to_table(steps)) == rows(da.to_table(DeltaLog(source)))
    vacuum(log)
    restore(log, version=0)
    assert (
        rows(delta_spark.read(clone))
        == rows(da.to_table(log))
        == rows(da.to_table(DeltaLog(source)))
    )
    assert content_of(source) == before


@pytest.mark.full
def test_delta_spark_takes_steps_up_from_the_root_of_the_table_too(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    source, clone = tmp_path / "a b", tmp_path / "clone"
    da.write(source, pa.table({"id": range(4), "p": ["x y", "50% é"] * 2}), partition_by=["p"])
    log = shallow_clone(DeltaLog(source).snapshot(), DeltaLog(clone), prefix_naming("../a%20b"))
    expected = rows(da.to_table(DeltaLog(source)))
    assert rows(da.to_table(log)) == expected
    assert rows(delta_spark.read(clone)) == expected


def kinds_of_vectors(snapshot: Snapshot) -> set[str]:
    found = (add.deletion_vector for add in snapshot.add_files())
    return {vector.storage_type for vector in found if vector}


def feed(changes: list[dict[str, object]]) -> list[str]:
    names = ("id", "p", "_change_type", "_commit_version")
    return sorted(json.dumps([row[name] for name in names]) for row in changes)

"""Deletion vectors written by us and by delta-spark: field by field, and in turns."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col, parse_expression, parse_predicate
from delta_ops.log import Snapshot
from delta_ops.log.deletion_vectors import load_deletion_vector
from tests.peers.delta_spark import DeltaSpark
from tests.support.tables import rows

pytestmark = pytest.mark.full

ENABLED = "TBLPROPERTIES ('delta.enableDeletionVectors'='true')"
SAME_METRICS = (
    "numRemovedFiles",
    "numDeletedRows",
    "numUpdatedRows",
    "numDeletionVectorsAdded",
    "numDeletionVectorsRemoved",
    "numDeletionVectorsUpdated",
)


@pytest.fixture(scope="module")
def by_spark(delta_spark: DeltaSpark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of a hundred rows."""
    table = tmp_path_factory.mktemp("vectors") / "t"
    name = f"delta.`{table}`"
    delta_spark.sql(f"CREATE TABLE {name} (id bigint, v double) USING delta {ENABLED}")
    for first in (0, 100):
        delta_spark.sql(
            f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id, id / 10d "
            f"FROM range({first}, {first + 100})"
        )
    return table


def deleted_rows(snapshot: Snapshot) -> dict[str, list[int]]:
    found = {}
    for add in snapshot.add_files():
        if add.deletion_vector:
            vector = add.deletion_vector
            files, path = snapshot.table_files, add.path
            found[path] = list(load_deletion_vector(files, snapshot.version, path, vector))
    return found


def stats_of(snapshot: Snapshot) -> dict[str, dict[str, Any]]:
    return {add.path: json.loads(add.stats or "{}") for add in snapshot.add_files()}


def info_of(log: DeltaLog) -> dict[str, Any]:
    return dict(next(iter(log.history(limit=1))).commit_info)


@pytest.mark.parametrize(
    "condition",
    ["id % 2 = 0", "id >= 95 AND id < 105", "id < 100", "v > 3.05D AND id < 150"],
)
def test_a_delete_says_what_the_reference_says(
    delta_spark: DeltaSpark, by_spark: Path, tmp_path: Path, condition: str
) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for place in (theirs, ours):
        shutil.copytree(by_spark, place)
    delta_spark.sql(f"DELETE FROM delta.`{theirs}` WHERE {condition}")
    da.delete(ours, parse_expression(condition))
    mine, other = DeltaLog(ours).snapshot(), DeltaLog(theirs).snapshot()
    assert deleted_rows(mine) == deleted_rows(other)
    assert stats_of(mine) == stats_of(other)
    assert mine.protocol == other.protocol
    reported, expected = info_of(DeltaLog(ours)), info_of(DeltaLog(theirs))
    assert reported["operation"] == expected["operation"]
    metrics, known = reported["operationMetrics"], expected["operationMetrics"]
    assert {name: metrics.get(name) for name in SAME_METRICS if name in known} == {
        name: known[name] for name in SAME_METRICS if name in known
    }
    assert rows(delta_spark.read(ours)) == rows(da.to_table(ours))


@pytest.mark.parametrize("clause", ["", "AND target.id <> 7"])
def test_a_merge_says_what_the_reference_says(
    delta_spark: DeltaSpark, by_spark: Path, tmp_path: Path, clause: str
) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for place in (theirs, ours):
        shutil.copytree(by_spark, place)
        da.delete(place, col("id") == 5)
    delta_spark.sql(
        f"MERGE INTO delta.`{theirs}` AS target "
        "USING (SELECT * FROM VALUES (5L, 1d), (7L, 2d), (150L, -1d), (999L, 3d) AS s(id, v)) "
        f"AS source ON target.id = source.id WHEN MATCHED AND source.v < 0 THEN DELETE "
        f"WHEN MATCHED {clause} THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    source = pa.table({"id": [5, 7, 150, 999], "v": [1.0, 2.0, -1.0, 3.0]})
    merge = da.merge(ours, source, "target.id = source.id").when_matched_delete("source.v < 0.0D")
    merge = merge.when_matched_update_all(clause.removeprefix("AND ") or None)
    merge.when_not_matched_insert_all().execute()
    mine, other = DeltaLog(ours).snapshot(), DeltaLog(theirs).snapshot()
    assert deleted_rows(mine) == deleted_rows(other)
    kept = set(deleted_rows(mine))
    assert {p: stats_of(mine)[p] for p in kept} == {p: stats_of(other)[p] for p in kept}
    reported, known = (info_of(DeltaLog(each))["operationMetrics"] for each in (ours, theirs))
    compared = [name for name in known if name.startswith("num") and "Bytes" not in name]
    written = ("numTargetFilesAdded",)  # it writes new and changed rows together
    assert {name: reported.get(name) for name in compared if name not in written} == {
        name: known[name] for name in compared if name not in written
    }
    assert rows(delta_spark.read(ours)) == rows(da.to_table(theirs))


def test_by_turns_each_goes_on_from_the_other(
    delta_spark: DeltaSpark, by_spark: Path, tmp_path: Path
) -> None:
    place = tmp_path / "t"
    shutil.copytree(by_spark, place)
    name, log = f"delta.`{place}`", DeltaLog(place)
    model = {i: i / 10 for i in range(200)}
    for turn in range(2):
        low = 30 * turn
        da.delete(log, (col("id") >= low) & (col("id") < low + 3))
        delta_spark.sql(f"DELETE FROM {name} WHERE id >= {low + 3} AND id < {low + 6}")
        da.update(log, {"v": -1.0}, parse_predicate(f"id = {low + 7}"))
        delta_spark.sql(f"UPDATE {name} SET v = -2 WHERE id = {low + 8}")
        model = {i: v for i, v in model.items() if not low <= i < low + 6}
        model |= {low + 7: -1.0, low + 8: -2.0}
    expected = rows(pa.table({"id": list(model), "v": list(model.values())}))
    assert rows(da.to_table(log)) == expected
    assert rows(delta_spark.read(place)) == expected


def test_the_reference_reads_vectors_of_two_commits_that_were_united(
    delta_spark: DeltaSpark, by_spark: Path, tmp_path: Path
) -> None:
    place = tmp_path / "t"
    shutil.copytree(by_spark, place)
    log = DeltaLog(place)
    later = begin(log)
    delta_spark.sql(f"DELETE FROM delta.`{place}` WHERE id = 5")
    da.delete(later, col("id") == 6)
    expected = [i for i in range(200) if i not in (5, 6)]
    assert sorted(delta_spark.read(place)["id"].to_pylist()) == expected
    assert sorted(da.to_table(log)["id"].to_pylist()) == expected

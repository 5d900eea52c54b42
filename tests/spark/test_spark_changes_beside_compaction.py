"""Row changes by Spark that conflict with a compaction: they rerun on the new files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, col
from delta_ops.events import OnEvent
from delta_ops.maintenance import OptimizeResult, optimize
from delta_ops.transaction import CommitResult

pytestmark = pytest.mark.spark


def delete(spark: SparkSession, root: Path, on_event: OnEvent) -> CommitResult:
    return ds.delete(spark, root, "id = 2", on_event=on_event)


def update(spark: SparkSession, root: Path, on_event: OnEvent) -> CommitResult:
    return ds.update(spark, root, {"v": "'b2'"}, "id = 2", on_event=on_event)


def merge(spark: SparkSession, root: Path, on_event: OnEvent) -> CommitResult:
    # A nondeterministic source is computed once, however often the merge runs.
    source = spark.sql(
        "SELECT id, concat('x', string(rand() < 2)) AS v FROM VALUES (2L), (9L) AS t(id)"
    )
    builder = ds.merge(root, source, "target.id = source.id", on_event=on_event)
    return builder.when_matched_update_all().when_not_matched_insert_all().execute()


def replace_where(spark: SparkSession, root: Path, on_event: OnEvent) -> CommitResult:
    rows = spark.sql("SELECT * FROM VALUES (2L, 'b2'), (9L, 'i') AS t(id, v)")
    matched = col("id").isin([2, 9])
    return ds.write(rows, root, "overwrite", replace_where=matched, on_event=on_event)


CHANGES = {
    delete: {1: "a", 3: "c"},
    update: {1: "a", 2: "b2", 3: "c"},
    merge: {1: "a", 2: "xtrue", 3: "c", 9: "xtrue"},
    replace_where: {1: "a", 2: "b2", 3: "c", 9: "i"},
}


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(each, id=each.__name__, marks=() if each is merge else pytest.mark.full)
        for each in CHANGES
    ],
)
@pytest.mark.parametrize("vectors", ["false", pytest.param("true", marks=pytest.mark.full)])
def test_a_change_is_made_on_the_files_of_a_compaction(
    spark: SparkSession, tmp_path: Path, change: object, vectors: str
) -> None:
    for number, letter in enumerate("abc", 1):
        rows = pa.table({"id": [number], "v": [letter]})
        da.write(tmp_path, rows, configuration={"delta.enableDeletionVectors": vectors})
    compactions: list[OptimizeResult] = []

    def compact(event: object) -> None:
        if type(event).__name__ == "DataFilesStaged" and len(compactions) < 2:
            da.write(tmp_path, pa.table({"id": [77], "v": ["x"]}))
            compactions.append(optimize(tmp_path))

    result = change(spark, tmp_path, compact)  # type: ignore[operator]
    assert (result.version, len(compactions)) == (7, 2)
    assert all(each.files_removed > 1 for each in compactions)
    found = {row["id"]: row["v"] for row in da.to_table(tmp_path).to_pylist()}
    assert found == {**CHANGES[change], 77: "x"}  # type: ignore[index]
    named = {
        str(each.path)
        for version in range(8)
        for each in DeltaLog(tmp_path).snapshot(version=version).add_files()
    }
    assert {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("[!_]*.parquet")} <= named

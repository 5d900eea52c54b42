"""Spark writes values of the old type while a column's type is widened, and the reverse.

`tests/interleaving` has the orders of both operations by the Arrow engine.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.ddl import change_type
from delta_ops.errors import CommitConflictError
from delta_ops.events import OnEvent
from delta_ops.protocol.schema import LONG
from delta_ops.storage import open_storage
from delta_ops.transaction import CommitResult
from tests.spark.frames import rows_of
from tests.support.counting_storage import CountingStorage

pytestmark = pytest.mark.spark

Change = Callable[[SparkSession, Path, OnEvent], CommitResult]


def append(spark: SparkSession, root: Path, on_event: OnEvent) -> CommitResult:
    return ds.write(spark.sql("SELECT 9 AS id, 90 AS n"), root, on_event=on_event)


def delete(spark: SparkSession, root: Path, on_event: OnEvent) -> CommitResult:
    return ds.delete(spark, root, "id = 1", on_event=on_event)


def update(spark: SparkSession, root: Path, on_event: OnEvent) -> CommitResult:
    return ds.update(spark, root, {"n": "n + 1"}, "id = 1", on_event=on_event)


def merge(spark: SparkSession, root: Path, on_event: OnEvent) -> CommitResult:
    source = spark.sql("SELECT * FROM VALUES (1, 11), (9, 90) AS t(id, n)")
    builder = ds.merge(root, source, "target.id = source.id", on_event=on_event)
    return builder.when_matched_update_all().when_not_matched_insert_all().execute()


CHANGES: dict[Change, dict[int, int]] = {
    append: {1: 10, 2: 20, 9: 90},
    delete: {2: 20},
    update: {1: 11, 2: 20},
    merge: {1: 11, 2: 20, 9: 90},
}
CASES = [
    pytest.param(change, vectors, id=f"{change.__name__}, vectors {vectors}", marks=marks)
    for change in CHANGES
    for vectors, marks in (
        ("false", () if change in (append, merge) else pytest.mark.full),
        ("true", pytest.mark.full),
    )
]
BIG = 2**40


def table(root: Path, vectors: str) -> None:
    rows = pa.table({"id": pa.array([1, 2], pa.int32()), "n": pa.array([10, 20], pa.int32())})
    properties = {"delta.enableTypeWidening": "true", "delta.enableDeletionVectors": vectors}
    da.write(root, rows, configuration=properties)


def check(spark: SparkSession, root: Path, expected: dict[int, int]) -> None:
    """Both engines read the rows, the columns are wide, and no file is left over."""
    ds.write(spark.sql(f"SELECT 7 AS id, {BIG} AS n"), root)
    expected = {**expected, 7: BIG}
    snapshot = DeltaLog(root).snapshot()
    for found in (da.to_table(snapshot).to_pylist(), rows_of(ds.read(spark, root))):
        assert {row["id"]: row["n"] for row in found} == expected
        assert len(found) == len(expected)
    assert snapshot.schema.fields[1].data_type == LONG
    named = {
        str(each.path)
        for version in range(snapshot.version + 1)
        for each in DeltaLog(root).snapshot(version=version).add_files()
    }
    assert {str(path.relative_to(root)) for path in root.rglob("[!_]*.parquet")} <= named


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(("change", "vectors"), CASES)
def test_a_change_that_was_staged_before_the_type_was_widened_is_run_again(
    spark: SparkSession, tmp_path: Path, change: Change, vectors: str
) -> None:
    table(tmp_path, vectors)

    def widen(event: object) -> None:
        if type(event).__name__ == "DataFilesStaged":
            change_type(tmp_path, "n", "bigint")

    with pytest.raises(CommitConflictError, match=r"version 1.* changed the schema"):
        change(spark, tmp_path, widen)
    assert DeltaLog(tmp_path).snapshot().version == 1
    assert change(spark, tmp_path, lambda _: None).version == 2
    check(spark, tmp_path, CHANGES[change])


@pytest.mark.full
@pytest.mark.parametrize(("change", "vectors"), CASES)
def test_a_type_is_widened_after_values_of_the_old_type_were_committed(
    spark: SparkSession, tmp_path: Path, change: Change, vectors: str
) -> None:
    table(tmp_path, vectors)
    changed: list[CommitResult] = []

    def commit_first(
        _number: int, method: str, path: str, moment: Literal["before", "after"]
    ) -> None:
        if (method, moment) == ("create", "before") and "_delta_log/" in path and not changed:
            changed.append(change(spark, tmp_path, lambda _: None))

    storage = CountingStorage(open_storage(tmp_path), commit_first)
    assert change_type(DeltaLog("", storage=storage), "n", "bigint").version == 2
    assert [each.version for each in changed] == [1]
    check(spark, tmp_path, CHANGES[change])

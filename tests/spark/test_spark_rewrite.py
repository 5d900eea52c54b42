"""Rewriting files on Spark keeps the rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, begin
from delta_ops.errors import InvalidRequestError
from delta_ops.transaction import RewriteGroup
from tests.spark.frames import files_under, rows_of
from tests.tables import by_deltalake, rows

pytestmark = pytest.mark.spark

MEGABYTE = 1024 * 1024


def write_small_files(root: Path, value: str | None) -> pa.Table:
    tables = [pa.table({"id": [i, i + 100], "p": [value, value]}) for i in range(6)]
    for table in tables:
        da.write(root, table.cast(pa.schema([("id", pa.int64()), ("p", pa.string())])),
                 partition_by=["p"])  # fmt: skip
    return pa.concat_tables(tables, promote_options="permissive")


@pytest.mark.parametrize("value", ["plain", "a/b %25=é", None])
def test_a_rewrite_makes_one_file_of_small_ones_and_keeps_rows_and_partition(
    tmp_path: Path, spark: SparkSession, value: str | None
) -> None:
    expected = write_small_files(tmp_path, value)
    log = DeltaLog(tmp_path)
    snapshot = log.snapshot()
    group = RewriteGroup(files=tuple(snapshot.add_files()), target_size_bytes=MEGABYTE)
    staged = ds.rewrite(spark)(snapshot, group)
    transaction = begin(log)
    transaction.stage(staged)
    transaction.remove(group.files, data_change=False)
    transaction.commit(operation="OPTIMIZE")
    (add,) = log.snapshot().add_files()
    assert (add.partition_values, add.data_change) == ({"p": value}, False)
    assert by_deltalake(tmp_path) == rows(expected) == rows_of(ds.read(spark, tmp_path))


def test_a_rewrite_reads_only_the_files_of_its_group(tmp_path: Path, spark: SparkSession) -> None:
    write_small_files(tmp_path, "a")
    snapshot = DeltaLog(tmp_path).snapshot()
    group = RewriteGroup(files=tuple(snapshot.add_files()[:2]), target_size_bytes=MEGABYTE)
    staged = ds.rewrite(spark)(snapshot, group)
    assert (len(staged.adds), staged.num_rows) == (1, 4)


def test_a_rewrite_makes_about_as_many_files_as_the_target_size_asks(
    tmp_path: Path, spark: SparkSession
) -> None:
    ds.write(spark.range(0, 400_000, 1, 8).selectExpr("id", "rand(1) AS x"), tmp_path)
    snapshot = DeltaLog(tmp_path).snapshot()
    target = snapshot.size_bytes // 4
    group = RewriteGroup(files=tuple(snapshot.add_files()), target_size_bytes=target)
    staged = ds.rewrite(spark)(snapshot, group)
    assert (len(staged.adds), staged.num_rows) == (4, 400_000)
    assert all(add.size < 2 * target for add in staged.adds)


def test_a_rewrite_whose_input_is_gone_leaves_nothing(tmp_path: Path, spark: SparkSession) -> None:
    write_small_files(tmp_path, "a")
    snapshot = DeltaLog(tmp_path).snapshot()
    (tmp_path / snapshot.add_files()[0].path).unlink()
    before = files_under(tmp_path)
    group = RewriteGroup(files=tuple(snapshot.add_files()), target_size_bytes=MEGABYTE)
    with pytest.raises(InvalidRequestError, match="does not exist"):
        ds.rewrite(spark)(snapshot, group)
    assert files_under(tmp_path) == before

"""Unusual names of tables and values of partitions, through each way that Spark has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops.errors import InvalidRequestError
from delta_ops.tables import DeltaTable
from tests.support.tables import rows

pytestmark = [pytest.mark.spark, pytest.mark.full]


@pytest.fixture
def delta(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose `delta` format is ours."""
    ds.register(spark)
    yield spark.newSession()
    ds.unregister(spark)


def test_a_table_of_the_catalog_has_the_name_of_a_keyword(
    delta: SparkSession, tmp_path: Path
) -> None:
    database, name = "`d`", "`select`"
    delta.sql(f"CREATE DATABASE {database} LOCATION '{tmp_path}/d'")
    full = f"{database}.{name}"
    try:
        place = str(tmp_path / "t")
        delta.range(3).write.format("delta").option("path", place).saveAsTable(full)
        delta.range(2).write.format("delta").mode("append").saveAsTable(full)
        delta.sql(f"DELETE FROM {full} WHERE id = 1")
        assert DeltaTable.forName(delta, full).toDF().count() == delta.table(full).count() == 3
        assert delta.sql(f"SELECT * FROM {full} VERSION AS OF 0").count() == 3
    finally:
        delta.sql(f"DROP DATABASE {database} CASCADE")


@pytest.mark.parametrize("engine", ["arrow", "spark"])
def test_an_empty_text_of_a_partition_replaces_nulls_and_adds_no_row(
    spark: SparkSession, tmp_path: Path, engine: str
) -> None:
    data = pa.table({"id": [1, 2], "p": ["", "a"]})
    da.write(tmp_path, data, partition_by=["p"])

    def replace(condition: str) -> None:
        new = data.slice(0, 1)
        if engine == "arrow":
            da.write(tmp_path, new, "overwrite", replace_where=condition)
        else:
            ds.write(spark.createDataFrame(new), tmp_path, "overwrite", replace_where=condition)

    for _ in range(3):
        replace("p IS NULL")
        with pytest.raises(InvalidRequestError, match="'p' is null"):
            replace("p = ''")
    assert rows(da.to_table(tmp_path)) == [{"id": 1, "p": None}, {"id": 2, "p": "a"}]

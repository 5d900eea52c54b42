"""File statistics computed from rows by Spark, where footers have no bounds."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, col
from delta_ops.ddl import set_properties
from delta_ops.maintenance import backfill_statistics
from tests.support.tables import rows

pytestmark = pytest.mark.spark

ROWS = """
SELECT id, timestamp_seconds(id * 86400) AS at, IF(id = 3, double('nan'), id / 2D) AS x,
  named_struct('d', date_from_unix_date(int(id)), 's', repeat(char(int(97 + id)), 40)) AS s,
  CAST(id AS DECIMAL(20, 2)) AS m, IF(id = 0, NULL, id > 2) AS b, array(id) AS l
FROM range(6)
"""


def stats_of(place: Path) -> list[dict[str, Any]]:
    adds = DeltaLog(place).snapshot().add_files()
    found = [json.loads(add.stats or "{}", parse_float=str) for add in adds]
    return sorted(found, key=lambda each: each["minValues"]["id"])


@pytest.fixture
def converted(spark: SparkSession, tmp_path: Path) -> Path:
    """Two files with INT96 times, so their footers have no bounds."""
    writer = spark.sql(ROWS).repartitionByRange(2, "id").write
    writer.option("spark.sql.parquet.outputTimestampType", "INT96").parquet(str(tmp_path / "t"))
    da.convert(tmp_path / "t")
    return tmp_path / "t"


@pytest.mark.full
def test_bounds_are_found_that_footers_do_not_have(spark: SparkSession, converted: Path) -> None:
    before = rows(da.to_table(converted, columns=["id", "at", "s"]))
    assert not any("at" in each["maxValues"] for each in stats_of(converted))
    result = backfill_statistics(converted, engine=ds.file_statistics(spark))
    assert (result.version, result.described_files) == (1, 2)
    first, second = stats_of(converted)
    assert (first["minValues"]["at"], first["maxValues"]["at"]) == (
        "1970-01-01T00:00:00.000Z",
        "1970-01-03T00:00:00.000Z",
    )
    assert (first["maxValues"]["x"], second["minValues"]["x"]) == ("1.0", "2.0")
    assert "x" not in second["maxValues"]  # NaN is among them
    assert first["maxValues"]["s"]["d"] == "1970-01-03"
    assert first["nullCount"]["b"] == 1
    assert rows(da.to_table(converted, columns=["id", "at", "s"])) == before
    at = ds.read(spark, converted, predicate=col("at") > datetime(1970, 1, 5, tzinfo=UTC))
    assert [row.id for row in at.collect()] == [5]


def test_rows_and_footers_give_the_same_statistics(spark: SparkSession, tmp_path: Path) -> None:
    properties = {"delta.columnMapping.mode": "name", "delta.dataSkippingNumIndexedCols": "0"}
    stats = []
    for engine in (None, ds.file_statistics(spark)):
        place = tmp_path / str(engine is None)
        ds.write(spark.sql(ROWS).where("id < 3").coalesce(1), place, configuration=properties)
        set_properties(place, {"delta.dataSkippingNumIndexedCols": "-1"})
        backfill_statistics(place, engine=engine)
        (add,) = DeltaLog(place).snapshot().add_files()
        schema = DeltaLog(place).snapshot().definition.physical_schema
        text = add.stats or ""
        for number, name in enumerate(_names(schema)):
            text = text.replace(name, str(number))
        stats.append(json.loads(text))
    for part in ("maxValues", "minValues"):
        for each in stats:  # Spark's Parquet footers have no bounds for NaN
            each[part].pop("2", None)
    assert stats[0] == stats[1]


def _names(schema: Any) -> list[str]:
    found = []
    for field in schema.fields:
        found.append(field.name)
        if hasattr(field.data_type, "fields"):
            found += _names(field.data_type)
    return found


@pytest.mark.full
def test_deleted_rows_are_counted_and_bounds_are_wide(spark: SparkSession, tmp_path: Path) -> None:
    properties = {"delta.enableDeletionVectors": "true", "delta.dataSkippingNumIndexedCols": "0"}
    ds.write(spark.range(10).coalesce(1), tmp_path, configuration=properties)
    ds.delete(spark, tmp_path, "id > 7")
    set_properties(tmp_path, {"delta.dataSkippingNumIndexedCols": "-1"})
    backfill_statistics(tmp_path, engine=ds.file_statistics(spark))
    (found,) = stats_of(tmp_path)
    assert (found["numRecords"], found["maxValues"]["id"], found["tightBounds"]) == (10, 7, False)
    assert ds.read(spark, tmp_path, predicate=col("id") > 6).count() == 1
    again = backfill_statistics(tmp_path, engine=ds.file_statistics(spark))
    assert (again.lacking_files, again.version) == (0, None)

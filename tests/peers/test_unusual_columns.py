"""Columns and histories that are easily read differently than delta-spark reads them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.predicate import parse_predicate
from tests.peers.delta_spark import DeltaSpark
from tests.peers.test_rows_it_wrote import assert_same_rows, run
from tests.support.tables import rows

pytestmark = pytest.mark.full

REBASE = "spark.sql.parquet.datetimeRebaseModeInWrite"
REBASE_96 = "spark.sql.parquet.int96RebaseModeInWrite"
TYPE_CHECK = "spark.databricks.delta.schema.typeCheck.enabled"
"""Without this setting delta-spark rejects tables with collations."""
TIMESTAMPS_AS = "spark.sql.parquet.outputTimestampType"


def assert_same_ids(delta_spark: DeltaSpark, table: Path, *conditions: str) -> None:
    """Rows that each condition selects; both engines parse the condition's text."""
    for condition in conditions:
        theirs = delta_spark.sql(f"SELECT id FROM delta.`{table}` WHERE {condition}")
        found = da.to_table(DeltaLog(table), ["id"], parse_predicate(condition))
        assert sorted(found["id"].to_pylist()) == sorted(row["id"] for row in theirs), condition


def test_char_columns_have_their_padding(
    delta_spark: DeltaSpark, spark: SparkSession, tmp_path: Path
) -> None:
    table = tmp_path / "t"
    run(
        delta_spark,
        table,
        "CREATE TABLE {t} (id INT, c CHAR(3), v VARCHAR(3), s STRUCT<f: CHAR(2)>, p CHAR(4)) "
        "USING delta PARTITIONED BY (p)",
        "INSERT INTO {t} VALUES (1, 'a', 'a', named_struct('f', 'x'), 'nl'), "
        "(2, NULL, NULL, NULL, NULL), (3, 'abc', 'a  ', named_struct('f', NULL), 'be')",
    )
    assert_same_rows(delta_spark, spark, table, 1)
    assert_same_ids(
        delta_spark,
        table,
        "c = 'a'",
        "c > 'a'",
        "c IN ('a', 'abc')",
        "p = 'nl'",
        "v = 'a'",
        "s.f = 'x'",
        "s.f = 'x '",
        "s.f IN ('x ', 'x  ')",
    )


def test_a_collation_is_read_and_never_compared_by_bytes(
    delta_spark: DeltaSpark, spark: SparkSession, tmp_path: Path
) -> None:
    table = tmp_path / "t"
    try:
        delta_spark.sql(f"SET {TYPE_CHECK} = false")
        run(
            delta_spark,
            table,
            "CREATE TABLE {t} (id INT, c STRING COLLATE UTF8_LCASE) USING delta",
            "INSERT INTO {t} VALUES (1, 'b'), (2, 'B')",
            "INSERT INTO {t} VALUES (3, 'c')",
        )
        assert_same_rows(delta_spark, spark, table, 2)
        assert len(delta_spark.sql(f"SELECT id FROM delta.`{table}` WHERE c = 'B'")) == 2
    finally:
        delta_spark.sql(f"RESET {TYPE_CHECK}")
    with pytest.raises(InvalidRequestError, match="collation"):
        da.to_table(DeltaLog(table), predicate=parse_predicate("c = 'B'"))


@pytest.mark.parametrize("physical", ["TIMESTAMP_MICROS", "TIMESTAMP_MILLIS", "INT96"])
def test_old_days_of_the_legacy_calendar_are_the_same(
    delta_spark: DeltaSpark, spark: SparkSession, tmp_path: Path, physical: str
) -> None:
    table = tmp_path / "t"
    settings = {REBASE: "LEGACY", REBASE_96: "LEGACY", TIMESTAMPS_AS: physical}
    try:
        for name, value in settings.items():
            delta_spark.sql(f"SET {name} = {value}")
        run(
            delta_spark,
            table,
            "CREATE TABLE {t} (id INT, d DATE, t TIMESTAMP) USING delta",
            "INSERT INTO {t} VALUES (1, DATE'0001-01-01', TIMESTAMP'0001-01-01 00:00:00Z'), "
            "(2, DATE'1200-02-29', TIMESTAMP'1582-10-04 23:59:59.123Z'), "
            "(3, DATE'1582-10-15', TIMESTAMP'1582-10-15 00:00:00Z'), "
            "(4, DATE'2024-02-29', NULL), (5, NULL, TIMESTAMP'1969-12-31 23:59:59.999Z')",
        )
    finally:
        for name in settings:
            delta_spark.sql(f"RESET {name}")
    assert_same_rows(delta_spark, spark, table, 1)
    assert_same_ids(
        delta_spark,
        table,
        "d < DATE'1300-01-01'",
        "d = DATE'1200-02-29'",
        "t < TIMESTAMP'1582-10-10 00:00:00Z'",
    )


def test_a_date_is_compared_with_a_timestamp(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    table = tmp_path / "t"
    days = ", ".join(f"({n}, DATE'2024-01-0{n}')" for n in range(1, 6))
    run(
        delta_spark,
        table,
        "CREATE TABLE {t} (id INT, d DATE) USING delta",
        f"INSERT INTO {{t}} VALUES {days}, (9, NULL)",
    )
    assert_same_ids(
        delta_spark,
        table,
        "d > TIMESTAMP'2024-01-03 00:00:00Z'",
        "d >= TIMESTAMP'2024-01-03 00:00:00.000001Z'",
        "d = TIMESTAMP'2024-01-03 00:00:00Z'",
        "d <= TIMESTAMP_NTZ'2024-01-02 12:00:00'",
    )


def test_times_of_a_table_that_dropped_its_own_are_the_same(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    table = tmp_path / "t"
    run(
        delta_spark,
        table,
        "CREATE TABLE {t} (id INT) USING delta "
        "TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
        "INSERT INTO {t} VALUES (1)",
        "INSERT INTO {t} VALUES (2)",
        "ALTER TABLE {t} DROP FEATURE inCommitTimestamp",
        "INSERT INTO {t} VALUES (3)",
    )
    theirs = delta_spark.history(table)
    found = {entry.version: entry.timestamp_ms for entry in DeltaLog(table).history()}
    assert found == {row["version"]: milliseconds(row["timestamp"]) for row in theirs}
    for version in (1, 2):
        moment = datetime.fromtimestamp(found[version] / 1000, UTC)
        snapshot = DeltaLog(table).snapshot(timestamp=moment)
        assert snapshot.version == version


def milliseconds(text: str) -> int:
    moment = datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def test_changes_of_before_a_field_was_added_have_it_as_null(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    table = tmp_path / "t"
    run(
        delta_spark,
        table,
        "CREATE TABLE {t} (id INT, s STRUCT<a: INT>) USING delta "
        "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
        "INSERT INTO {t} VALUES (1, named_struct('a', 1)), (2, NULL)",
        "UPDATE {t} SET s.a = 5 WHERE id = 1",
        "ALTER TABLE {t} ADD COLUMNS (s.b STRING, c INT)",
        "INSERT INTO {t} VALUES (3, named_struct('a', 3, 'b', 'x'), 3)",
    )
    log = DeltaLog(table)
    of_all, of_first = da.read_changes(log, 0, 4), da.read_changes(log, 0, 2, schema="latest")
    for last, changes in ((4, of_all), (2, of_first)):
        theirs = delta_spark.changes(table, startingVersion="0", endingVersion=str(last))
        found = changes.read_all()
        assert found.column_names == theirs.column_names
        assert rows(found) == rows(theirs)


def test_an_empty_partition_value_is_null_but_where_deltalake_wrote_it(
    delta_spark: DeltaSpark, spark: SparkSession, tmp_path: Path
) -> None:
    """delta-spark writes null, and shows the log's text where the protocol says null."""
    data = pa.table({"id": [1, 2], "p": ["", "a"]})
    delta_spark.write(tmp_path / "t", data, partition_by=["p"])
    assert_same_rows(delta_spark, spark, tmp_path / "t", 0)
    assert rows(da.to_table(tmp_path / "t"))[0] == {"id": 1, "p": None}
    write_deltalake(tmp_path / "d", data, partition_by=["p"])
    assert rows(delta_spark.read(tmp_path / "d"))[0] == {"id": 1, "p": ""}
    for found in (da.to_table(tmp_path / "d"), ds.read(spark, tmp_path / "d").toArrow()):
        assert rows(found)[0] == {"id": 1, "p": None}

"""Rows that delta-spark wrote, at every version, compared with its own read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.protocol.predicate import parse_predicate
from tests.peers.delta_spark import DeltaSpark
from tests.spark.frames import rows_of
from tests.support.tables import rows
from tests.support.variants import decode

VECTORS = "'delta.enableDeletionVectors' = 'true'"
ROWS_OF_A_GROUP = "parquet.block.row.count.limit"
ZONE = "spark.sql.session.timeZone"
WIDTHS = ((1, 0), (4, 4), (9, 2), (10, 0), (18, 9), (19, 0), (28, 14), (38, 0), (38, 38))
"""Precisions and scales of decimals, on both sides of where their encoding changes."""


def run(delta_spark: DeltaSpark, table: Path, *statements: str) -> None:
    for statement in statements:
        delta_spark.sql(statement.replace("{t}", f"delta.`{table}`"))


def assert_same_rows(
    delta_spark: DeltaSpark, spark: SparkSession, table: Path, *versions: int
) -> None:
    for version in versions:
        theirs = delta_spark.read(table, version)
        snapshot = DeltaLog(table).snapshot(version)
        found, by_spark = da.to_table(snapshot), ds.read(spark, snapshot)
        assert found.column_names == by_spark.columns == theirs.column_names
        # As text, because NaN is not equal to itself.
        expected = [*map(repr, rows(theirs))]
        assert [*map(repr, rows(found))] == expected
        assert [*map(repr, rows_of(by_spark))] == expected


@pytest.mark.long
@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_nested_rows_of_every_type_are_the_same_in_every_version(
    delta_spark: DeltaSpark, spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    table = tmp_path / "t"
    decimals = ", ".join(f"d{p}_{s} DECIMAL({p}, {s})" for p, s in WIDTHS)
    largest = ", ".join(f"{'9' * (p - s)}.{'9' * s}BD" for p, s in WIDTHS)
    leaves = "x: TIMESTAMP, y: DOUBLE, z: STRUCT<w: DECIMAL(20, 5)>"
    day, zoned, local = (
        "DATE'0001-01-01'",
        "TIMESTAMP'9999-12-31 23:59:59.999999Z'",
        "TIMESTAMP_NTZ",
    )
    run(
        delta_spark,
        table,
        f"CREATE TABLE {{t}} (id BIGINT, {decimals}, day DATE, zoned TIMESTAMP, local {local}, "
        f"f FLOAT, b BINARY, s STRUCT<{leaves}>, l ARRAY<STRUCT<{leaves}>>, "
        f"m MAP<STRING, STRUCT<{leaves}>>) USING delta TBLPROPERTIES "
        f"({VECTORS}, 'delta.columnMapping.mode' = '{mode}')",
        "INSERT INTO {t} WITH v AS (SELECT id, named_struct('x', timestamp_seconds(id), 'y', "
        "IF(id = 1, DOUBLE('NaN'), id / 3), 'z', named_struct('w', DECIMAL(id))) AS v "
        f"FROM range(0, 20, 1, 1)) SELECT id, {largest}, {day}, {zoned}, "
        f"{local}'0001-01-01 00:00:00.000001', FLOAT(id) / 7, X'00FF', IF(id = 2, NULL, v), "
        "array(v, NULL, v), map(STRING(id), v) FROM v",
        f"INSERT INTO {{t}} (id, zoned, local) VALUES "
        f"(100, TIMESTAMP'0001-01-01 00:00:00Z', {local}'9999-12-31 23:59:59.999999')",
        "DELETE FROM {t} WHERE id IN (0, 7, 19)",
        "UPDATE {t} SET s.z.w = -1, d9_2 = -d9_2 WHERE id IN (3, 4)",
    )
    assert_same_rows(delta_spark, spark, table, 1, 4)
    assert da.count_rows(DeltaLog(table)) == 18
    if mode != "none":
        run(
            delta_spark,
            table,
            "ALTER TABLE {t} RENAME COLUMN s.z TO deep",
            "ALTER TABLE {t} DROP COLUMN s.y",
            "ALTER TABLE {t} RENAME COLUMN id TO s_y",
            "ALTER TABLE {t} ADD COLUMNS (id STRING AFTER s_y, s.y STRING)",
            "INSERT INTO {t} (s_y, id, s) VALUES (200, 'x', named_struct('x', NULL, 'deep', "
            "named_struct('w', 5), 'y', 'new'))",
        )
        assert_same_rows(delta_spark, spark, table, 9)


@pytest.mark.full
def test_partition_values_without_a_zone_are_of_the_requested_zone(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    table, utc_text = tmp_path / "t", "spark.databricks.delta.write.utcTimestampPartitionValues"
    moments = ("2024-01-01 00:00:00", "2024-07-01 12:00:00.123456", "1883-11-18 12:00:00")
    try:
        delta_spark.sql(f"SET {ZONE} = America/New_York")
        run(
            delta_spark,
            table,
            "CREATE TABLE {t} (id INT, t TIMESTAMP, n TIMESTAMP_NTZ) USING delta "
            "PARTITIONED BY (t, n)",
        )
        for utc in ("true", "false"):
            delta_spark.sql(f"SET {utc_text} = {utc}")
            values = ", ".join(f"(1, TIMESTAMP'{each}', TIMESTAMP_NTZ'{each}')" for each in moments)
            run(delta_spark, table, f"INSERT INTO {{t}} VALUES {values}, (2, NULL, NULL)")
        in_log = [
            json.loads(line)["add"]["partitionValues"]["t"]
            for commit in sorted((table / "_delta_log").glob("*.json"))[1:]
            for line in commit.read_text().splitlines()
            if '"add"' in line
        ]
        assert "2024-01-01T05:00:00.000000Z" in in_log
        assert "2024-01-01 00:00:00" in in_log
        for zone in ("America/New_York", "+05:30"):
            delta_spark.sql(f"SET {ZONE} = {zone}")
            theirs = delta_spark.read(table)
            assert rows(da.to_table(DeltaLog(table), partition_time_zone=zone)) == rows(theirs)
            (found,) = delta_spark.sql(
                f"SELECT count(*) AS n FROM delta.`{table}` "
                "WHERE t = TIMESTAMP'2024-01-01 05:00:00Z'"
            )
            then = parse_predicate("t = TIMESTAMP'2024-01-01 05:00:00Z'")
            assert da.count_rows(DeltaLog(table), then, partition_time_zone=zone) == found["n"]
    finally:
        delta_spark.sql(f"SET {ZONE} = UTC")
        delta_spark.sql(f"RESET {utc_text}")


@pytest.mark.long
def test_widened_types_are_the_same(
    delta_spark: DeltaSpark, spark: SparkSession, tmp_path: Path
) -> None:
    table = tmp_path / "t"
    changes = {
        "b": ("TINYINT", "-128", "INT"),
        "s": ("SMALLINT", "32767", "BIGINT"),
        "i": ("INT", "-2147483648", "DOUBLE"),
        "f": ("FLOAT", "0.1", "DOUBLE"),
        "d": ("DECIMAL(5, 2)", "-999.99", "DECIMAL(12, 4)"),
        "n": ("INT", "7", "DECIMAL(12, 2)"),
        "l": ("BIGINT", "9223372036854775807", "DECIMAL(20, 0)"),
        "day": ("DATE", "DATE'0001-01-01'", "TIMESTAMP_NTZ"),
        "st.a": ("INT", "5", "BIGINT"),
        "ar.element": ("SMALLINT", "6", "INT"),
        "ma.value": ("FLOAT", "0.1", "DOUBLE"),
    }
    plain = [name for name in changes if "." not in name]
    columns = ", ".join(f"{name} {changes[name][0]}" for name in plain)
    values = ", ".join(changes[name][1] for name in plain)
    run(
        delta_spark,
        table,
        f"CREATE TABLE {{t}} ({columns}, st STRUCT<a: INT>, ar ARRAY<SMALLINT>, "
        f"ma MAP<STRING, FLOAT>) USING delta TBLPROPERTIES ({VECTORS}, "
        "'delta.enableTypeWidening' = 'true', 'delta.feature.timestampNtz' = 'supported')",
        f"INSERT INTO {{t}} SELECT {values}, named_struct('a', 5), array(6), map('k', 0.1)",
        *(f"ALTER TABLE {{t}} CHANGE COLUMN {c} TYPE {t}" for c, (_, _, t) in changes.items()),
        "INSERT INTO {t} SELECT * FROM {t}",
    )
    last = 2 + len(changes)
    assert_same_rows(delta_spark, spark, table, 1 + len(changes), last)
    assert da.to_table(DeltaLog(table)).num_rows == 2


@pytest.mark.full
def test_variants_and_columns_of_no_type_are_the_same(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    table = tmp_path / "t"
    texts = ['{"a": [1, null, "x"], "b": {"c": 1.25}}', "null", "[true, 12345678901]", '"text"']
    values = ", ".join(f"({i}, '{text}')" for i, text in enumerate(texts))
    run(
        delta_spark,
        table,
        "CREATE TABLE {t} (id INT, v VARIANT, s STRUCT<w: VARIANT>, nothing VOID) USING delta",
        "INSERT INTO {t} SELECT id, parse_json(text), named_struct('w', parse_json(text)), NULL "
        f"FROM VALUES {values}, (9, NULL) AS given(id, text)",
    )
    wanted = delta_spark.sql(
        f"SELECT id, to_json(v) AS v, to_json(s.w) AS w, nothing FROM delta.`{table}`"
    )
    found = da.to_table(DeltaLog(table)).to_pylist()
    assert sorted(map(_comparable, found), key=str) == sorted(map(_parsed, wanted), key=str)
    assert len(found) == len(texts) + 1


def _comparable(row: dict[str, Any]) -> tuple[Any, ...]:
    variants = (row["v"], row["s"]["w"])
    return (
        row["id"],
        row["nothing"],
        *(v and decode(v["value"], v["metadata"]) for v in variants),
    )


def _parsed(row: dict[str, Any]) -> tuple[Any, ...]:
    texts = (row["v"], row["w"])
    recorded = (text and json.loads(text, parse_float=_decimal) for text in texts)
    return (row["id"], row["nothing"], *recorded)


def _decimal(text: str) -> tuple[int, bytes]:
    """A decimal of at most 9 digits as in `decode`: its header, its scale, and its digits."""
    whole, _, fraction = text.partition(".")
    return 8, bytes([len(fraction)]) + int(whole + fraction).to_bytes(4, "little", signed=True)


CONDITIONS = (
    "f = double('NaN')",
    "f > 1e300",
    "f >= 3.5 AND id < 60",
    "f = 0.0",
    "NOT (f < 3)",
    "d >= 10.25 AND d < 12",
    "d = 0",
    "p = 'b' AND id > 20",
    "p IS NULL OR id = 7",
    "p IN ('a', 'c') AND s.x = 5",
    "NOT (p = 'a')",
    "s.x IS NULL",
    "w > 'v2' AND w <= 'v31'",
    "id >= 0 OR p = 'z'",
)


@pytest.mark.full
@pytest.mark.parametrize("mode", [pytest.param("none", marks=pytest.mark.long), "name"])
def test_conditions_choose_the_same_rows(
    delta_spark: DeltaSpark, tmp_path: Path, mode: str
) -> None:
    """Through renamed columns, small row groups, deletion vectors and partitions."""
    table = tmp_path / "t"
    try:
        delta_spark.sql(f"SET {ROWS_OF_A_GROUP} = 7")
        run(
            delta_spark,
            table,
            "CREATE TABLE {t} (id BIGINT, f DOUBLE, d DECIMAL(10, 2), v STRING, "
            "s STRUCT<x: INT>, p STRING) USING delta PARTITIONED BY (p) TBLPROPERTIES "
            f"({VECTORS}, 'delta.columnMapping.mode' = '{mode}')",
            "INSERT INTO {t} SELECT id, CASE WHEN id % 10 = 3 THEN DOUBLE('NaN') "
            "WHEN id % 10 = 4 THEN NULL WHEN id % 10 = 5 THEN DOUBLE('-0.0') ELSE id / 2 END, "
            "id / 4, 'v' || id, IF(id % 4 = 0, NULL, named_struct('x', INT(id % 8))), "
            "element_at(array('a', 'b', NULL), INT(id % 3) + 1) FROM range(0, 120, 1, 1)",
            "DELETE FROM {t} WHERE id % 11 = 5",
        )
        if mode == "name":
            run(delta_spark, table, "ALTER TABLE {t} RENAME COLUMN v TO w")
    finally:
        delta_spark.sql(f"RESET {ROWS_OF_A_GROUP}")
    assert all(pq.read_metadata(file).num_row_groups > 2 for file in table.rglob("*.parquet"))
    conditions = CONDITIONS if mode == "name" else [c.replace("w ", "v ") for c in CONDITIONS]
    counted = ", ".join(
        f"sort_array(collect_list(id) FILTER (WHERE {condition})) AS c{number}"
        for number, condition in enumerate(conditions)
    )
    (wanted,) = delta_spark.sql(f"SELECT {counted} FROM delta.`{table}`")
    log = DeltaLog(table)
    for number, condition in enumerate(conditions):
        predicate = parse_predicate(condition)
        found = da.to_table(log, ["id"], predicate)["id"].to_pylist()
        assert sorted(found) == wanted[f"c{number}"], condition
        assert da.count_rows(log, predicate) == len(found)

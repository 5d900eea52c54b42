"""Random DML by SQL: the same statements leave the same rows here and in delta-spark."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from tests.peers.delta_spark import DeltaSpark
from tests.support.tables import rows
from tests.support.tiers import seeded

pytestmark = [pytest.mark.spark, pytest.mark.full]

NUM_STATEMENTS = 25
TABLE = (
    "CREATE TABLE delta.`{}` (k INT, n DECIMAL(9,2), t STRING, d TIMESTAMP_NTZ, "
    "s STRUCT<a: BIGINT, b: ARRAY<STRING>>, p STRING) USING delta PARTITIONED BY (p)"
)
FIRST = (
    "INSERT INTO delta.`{}` SELECT CAST(id AS INT), id / 4, concat('t', id % 3), "
    "TIMESTAMP_NTZ'2026-01-01 10:00:00', named_struct('a', id, 'b', array('x')), "
    "CASE WHEN id % 4 = 0 THEN NULL ELSE concat('p', id % 2) END FROM range(12)"
)
CONDITIONS = (
    "k = {i}",
    "k > {i} AND p = 'p1'",
    "p IS NULL",
    "n < {i} OR t = 't1'",
    "s.a % 3 = 1",
    "NOT (t <=> 't2')",
    "k IN ({i}, 3, NULL)",
)
VALUES = {
    "k": ("'{i}'", "{i}L", "{i}.0D", "k + 1", "NULL", "true"),
    "n": ("'{i}.25'", "{i}", "0.5D", "n + 1"),
    "t": ("{i}", "1.50BD", "false", "DATE'2026-11-{i}0'", "concat(t, p)", "k", "'a\\'b'"),
    "d": ("'2026-11-{i}0 10:20:30'", "DATE'2026-11-{i}0'", "NULL", "d + INTERVAL 1 DAY"),
    "s.a": ("'{i}'", "{i}S", "k", "NULL"),
    "s": ("named_struct('a', '{i}', 'b', array({i}, 2))", "NULL"),
    "p": ("{i}", "'p1'", "NULL", "concat('q', k)"),
}
SOURCE = (
    "(SELECT CAST(id AS STRING) AS k, id + 0.5BD AS n, id AS t, DATE'2026-05-01' AS d, "
    "named_struct('a', CAST(id AS STRING), 'b', array(id)) AS s, concat('p', id % 2) AS p "
    "FROM range({i}, {i} + 4)) AS u"
)
MATCH = ("WHEN MATCHED THEN UPDATE SET *", "WHEN MATCHED AND u.n > {i} THEN DELETE", "")
MISS = ("WHEN NOT MATCHED THEN INSERT *", "WHEN NOT MATCHED THEN INSERT (k, t) VALUES (u.k, u.n)")
REST = ("", "WHEN NOT MATCHED BY SOURCE AND x.k > {i} THEN UPDATE SET t = {i}")


def assignments(choose: random.Random) -> str:
    names = choose.sample([name for name in VALUES if name != "s.a"], 2)
    if "s" not in names and choose.random() < 0.3:
        names.append("s.a")
    return ", ".join(f"{name} = {choose.choice(VALUES[name])}" for name in names)


def statements(choose: random.Random) -> Iterator[str]:
    """Statements with {} for the table."""
    for _ in range(NUM_STATEMENTS):
        condition = choose.choice(CONDITIONS)
        text = choose.choice(
            (
                f"DELETE FROM delta.`{{table}}` WHERE {condition} AND k > 9",
                f"UPDATE delta.`{{table}}` SET {assignments(choose)} WHERE {condition}",
                "INSERT INTO delta.`{table}` VALUES ('{i}', {i}, {i}, DATE'2026-01-01', NULL, {i})",
                "INSERT INTO delta.`{table}` (t, k) SELECT n, k FROM " + SOURCE,
                "INSERT INTO delta.`{table}` BY NAME SELECT * FROM " + SOURCE,
                f"MERGE INTO delta.`{{table}}` AS x USING {SOURCE} ON x.k = u.k AND x.p = 'p1' "
                f"{choose.choice(MATCH)} {choose.choice(MISS)} {choose.choice(REST)}",
            )
        )
        yield text.replace("{i}", str(choose.randrange(1, 3)))


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(8))])
def test_random_statements_leave_the_rows_of_delta_spark(
    spark: SparkSession, delta_spark: DeltaSpark, tmp_path: Path, seed: int
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ds.register(spark)
    try:
        for text in (TABLE, FIRST):
            spark.sql(text.format(ours))
            delta_spark.sql(text.format(theirs))
        for text in statements(seeded(seed)):
            spark.sql(text.replace("{table}", str(ours)))
            delta_spark.sql(text.replace("{table}", str(theirs)))
            assert rows(da.to_table(ours)) == rows(da.to_table(theirs)), text
    finally:
        ds.unregister(spark)

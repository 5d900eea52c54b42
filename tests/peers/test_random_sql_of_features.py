"""Random SQL on a table with many features: the same rows and changes here and in delta-spark.

The table has column mapping, deletion vectors, the change data feed, VARCHAR columns, and columns
that are generated or have identities or defaults. Identities may differ, but are unique. Some
statements are left out: delta-spark fails to MERGE into tables with CHAR columns, and to UPDATE
this table with DEFAULT or with NULL for a struct.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import delta_ops.spark as ds
from delta_ops import DeltaLog
from tests.peers.delta_spark import DeltaSpark, DeltaSparkError
from tests.support.tiers import seeded

pytestmark = [pytest.mark.spark, pytest.mark.full]

NUM_STATEMENTS = 20
FEED = ("_commit_version", "_commit_timestamp")
PREPARE = (
    "CREATE TABLE delta.`{table}` (k INT NOT NULL, old INT, c VARCHAR(3), v VARCHAR(5), "
    "s STRUCT<c: VARCHAR(2), l: ARRAY<VARCHAR(3)>>, p STRING DEFAULT 'd', "
    "g INT GENERATED ALWAYS AS (k * 2), i BIGINT GENERATED ALWAYS AS IDENTITY) "
    "USING delta PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
    "'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true', "
    "'delta.feature.allowColumnDefaults' = 'supported')",
    "INSERT INTO delta.`{table}` (k, old, c, v, s, p) SELECT CAST(id AS INT), CAST(id AS INT), "
    "'c', concat('v', id % 3), named_struct('c', 'x', 'l', array('a')), concat('p', id % 2) "
    "FROM range(10)",
    "ALTER TABLE delta.`{table}` RENAME COLUMN old TO n",
    "ALTER TABLE delta.`{table}` ALTER COLUMN v TYPE VARCHAR(6)",
    "ALTER TABLE delta.`{table}` ADD CONSTRAINT few CHECK (n IS NULL OR n < 90)",
)
CONDITIONS = (
    "k = {i}",
    "k % 3 = {i} AND p = 'p1'",
    "g > {i} * 6",
    "v IN ('v1', 'new', NULL)",
    "s.l[0] = 'a' AND n < {i} * 3",
    "p <=> NULL OR k > 11",
    "c = 'c'",
    "length(v) > 2",
)
ASSIGNMENTS = (
    "n = n + {i}",
    "n = {i} * 40",  # breaks the constraint if it is 3
    "k = k + 20",
    "c = 'n{i}'",
    "v = repeat('v', {i} * 2 + 2)",  # 8 characters are too many
    "s.c = 'z'",
    "s.l = array('b', 'ab')",
    "p = 'd'",
    "p = NULL",
    "p = concat(p, k % 2)",
)
SOURCE = (
    "(SELECT CAST(id AS INT) AS k, id + 7 AS n, 'm' AS c, concat('m', id) AS v, "
    "named_struct('c', 'm', 'l', array('q')) AS s, concat('p', id % 3) AS p {extra} "
    "FROM range({i} * 2, {i} * 2 + 7)) AS u"
)
MATCHED = (
    "",
    "WHEN MATCHED AND u.n % 2 = 0 THEN DELETE WHEN MATCHED AND x.n > {i} THEN UPDATE SET "
    "n = u.n + x.n, s.c = 'w' WHEN MATCHED THEN UPDATE SET v = u.v, x.p = u.p",
    "WHEN MATCHED AND x.c = 'c' THEN UPDATE SET *",
    "WHEN MATCHED THEN UPDATE SET *",
)
NOT_MATCHED = (
    "WHEN NOT MATCHED THEN INSERT *",
    "WHEN NOT MATCHED AND u.k > 8 THEN INSERT (k, v) VALUES (u.k, 'ins') "
    "WHEN NOT MATCHED THEN INSERT (n, k, s) VALUES (u.n, u.k, u.s)",
)
NOT_BY_SOURCE = (
    "",
    "WHEN NOT MATCHED BY SOURCE AND x.k % 4 = {i} THEN DELETE "
    "WHEN NOT MATCHED BY SOURCE AND x.k < 3 THEN UPDATE SET n = x.n + 1, p = 'left'",
)


def statements(choose: random.Random) -> Iterator[str]:
    """Statements with {table} for the path of the table."""
    for number in range(NUM_STATEMENTS):
        condition = choose.choice(CONDITIONS)
        changes = ", ".join(choose.sample(ASSIGNMENTS[:7], 1) + choose.sample(ASSIGNMENTS[7:], 1))
        evolves = choose.random() < 0.3
        extra = f", id AS e{number % 3}, named_struct('x', id) AS f{number % 2}" if evolves else ""
        merge = " ".join(map(choose.choice, (MATCHED, NOT_MATCHED, NOT_BY_SOURCE)))
        source = SOURCE.replace("{extra}", extra)
        text = choose.choice(
            (
                f"DELETE FROM delta.`{{table}}` WHERE {condition} AND k > 5",
                f"UPDATE delta.`{{table}}` SET {changes} WHERE {condition}",
                "INSERT INTO delta.`{table}` (k, v, p) VALUES ({i} + 30, 'ins{i}', DEFAULT)",
                "INSERT INTO delta.`{table}` BY NAME SELECT k, c, n FROM "
                + SOURCE.replace("{extra}", ""),
                *(
                    f"MERGE {'WITH SCHEMA EVOLUTION ' if evolves else ''}INTO delta.`{{table}}` "
                    f"AS x USING {source} ON x.k = u.k {merge}",
                )
                * 3,
            )
        )
        yield text.replace("{i}", str(choose.randrange(1, 4)))


def as_dict(value: Any) -> Any:
    """A value of Spark or of JSON, without a difference between rows and dictionaries."""
    if hasattr(value, "asDict"):
        value = value.asDict()
    if isinstance(value, dict):
        return {name: as_dict(each) for name, each in sorted(value.items())}
    return [as_dict(each) for each in value] if isinstance(value, list) else value


def counted(found: list[dict[str, Any]]) -> Counter[str]:
    """Rows without their identities, which must be unique among the rows that remain."""
    return Counter(
        repr({name: as_dict(row[name]) for name in sorted(row) if name not in ("i", *FEED)})
        for row in found
    )


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 9))]
)
def test_random_statements_leave_the_rows_and_changes_of_delta_spark(
    spark: SparkSession, delta_spark: DeltaSpark, tmp_path: Path, seed: int
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ds.register(spark)
    try:
        for text in PREPARE:
            spark.sql(text.replace("{table}", str(ours)))
            delta_spark.sql(text.replace("{table}", str(theirs)))
        for text in statements(seeded(seed)):
            versions = [DeltaLog(each).snapshot().version for each in (ours, theirs)]
            by_us, by_them = error_here(spark, text, ours), error_there(delta_spark, text, theirs)
            assert (by_us == "") == (by_them == ""), (text, by_us, by_them)
            query = "SELECT * FROM delta.`{}`"
            found = rows_here(spark, query.format(ours))
            assert counted(found) == counted(delta_spark.sql(query.format(theirs))), text
            assert len({row["i"] for row in found}) == len(found), text
            changes = changes_since(partial(rows_here, spark), ours, versions[0])
            expected = changes_since(delta_spark.sql, theirs, versions[1])
            assert counted(changes) == counted(expected), text
    finally:
        ds.unregister(spark)


def rows_here(spark: SparkSession, text: str) -> list[dict[str, Any]]:
    return [row.asDict() for row in spark.sql(text).collect()]


def changes_since(
    sql: Callable[[str], list[dict[str, Any]]], table: Path, version: int
) -> list[dict[str, Any]]:
    """The changed rows after a version."""
    newest = DeltaLog(table).snapshot().version
    if newest == version:
        return []
    return sql(f"SELECT * FROM table_changes_by_path('{table}', {version + 1}, {newest})")


def error_here(spark: SparkSession, text: str, table: Path) -> str:
    """The error of a statement; empty if it succeeds."""
    try:
        spark.sql(text.replace("{table}", str(table)))
    except PySparkException as error:
        return str(error)
    return ""


def error_there(delta_spark: DeltaSpark, text: str, table: Path) -> str:
    """The error of a statement in delta-spark; empty if it succeeds."""
    try:
        delta_spark.sql(text.replace("{table}", str(table)))
    except DeltaSparkError as error:
        return str(error)
    return ""

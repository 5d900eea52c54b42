"""The change data feed, row by row as delta-spark reads it from its own tables.

In tables without column mapping, delta-spark gives a range the columns of the latest version. We
give it the columns of the last version of the range, as both do in tables with mapping.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.errors import DeltaOpsError, InvalidRequestError, VersionNotFoundError
from tests.peers.delta_spark import DeltaSpark, DeltaSparkError
from tests.spark.frames import rows_of
from tests.support.tables import rows

FEED = "'delta.enableChangeDataFeed' = 'true'"
VECTORS = "'delta.enableDeletionVectors' = 'true'"
CHANGED = "_commit_version"


def ours(table: Path, *args: Any, **options: Any) -> pa.Table:
    return da.read_changes(DeltaLog(table), *args, **options).read_all()


def by_spark(spark: SparkSession, table: Path, *args: Any, **options: Any) -> list[dict[str, Any]]:
    return rows_of(ds.read_changes(spark, DeltaLog(table), *args, **options))


def by_version(found: pa.Table) -> Mapping[int, list[dict[str, Any]]]:
    of_version: dict[int, list[dict[str, Any]]] = {}
    for row in rows(found):
        of_version.setdefault(row[CHANGED], []).append(row)
    return of_version


def run(delta_spark: DeltaSpark, table: Path, *statements: str) -> None:
    for statement in statements:
        delta_spark.sql(statement.replace("{t}", f"delta.`{table}`"))


@pytest.mark.long
@pytest.mark.parametrize(
    "properties",
    [
        pytest.param("'delta.enableDeletionVectors' = 'false'", id="files are rewritten"),
        pytest.param(
            f"{VECTORS}, 'delta.columnMapping.mode' = 'name', "
            "'delta.enableInCommitTimestamps' = 'true'",
            id="vectors, by name, times in commits",
        ),
        pytest.param(
            f"{VECTORS}, 'delta.columnMapping.mode' = 'id'",
            id="vectors, by id",
        ),
    ],
)
def test_every_operation_has_the_same_changes(
    delta_spark: DeltaSpark, spark: SparkSession, tmp_path: Path, properties: str
) -> None:
    table = tmp_path / "t"
    run(
        delta_spark,
        table,
        "CREATE TABLE {t} (id BIGINT, s STRUCT<a: INT, l: ARRAY<STRUCT<x: STRING>>>, p STRING) "
        f"USING delta PARTITIONED BY (p) TBLPROPERTIES ({FEED}, {properties})",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, named_struct('a', INT(id), 'l', "
        "array(named_struct('x', STRING(id)))), nullif(STRING(id % 3), '2') FROM range(12)",
        "UPDATE {t} SET s.a = 100 + s.a WHERE id IN (1, 2)",
        "DELETE FROM {t} WHERE id IN (3, 4)",
        "MERGE INTO {t} t USING (SELECT 5L AS id UNION SELECT 6 UNION SELECT 60) s ON t.id = s.id "
        "WHEN MATCHED AND s.id = 5 THEN DELETE WHEN MATCHED THEN UPDATE SET p = 'moved' "
        "WHEN NOT MATCHED THEN INSERT (id, p) VALUES (s.id, 'new')",
        "DELETE FROM {t} WHERE id IN (7, 8)",
        "RESTORE {t} TO VERSION AS OF 3",
        "OPTIMIZE {t}",
        "ALTER TABLE {t} ADD COLUMNS (n INT)",
        "INSERT OVERWRITE {t} VALUES (70, NULL, '0', 7), (71, NULL, 'c', 8)",
    )
    replacing = pa.table({"id": [0, 9], "p": ["0", "0"]})
    delta_spark.write(table, replacing, "overwrite", replaceWhere="p = '0'")

    found, wanted = ours(table, 0), delta_spark.changes(table, startingVersion="0")
    assert found.column_names == wanted.column_names
    assert rows(found) == rows(wanted) == by_spark(spark, table, 0)
    kinds = set(found["_change_type"].to_pylist())
    assert kinds == {"insert", "delete", "update_preimage", "update_postimage"}

    wanted_of = by_version(wanted)
    for version in range(DeltaLog(table).snapshot().version + 1):
        single = ours(table, version, version)
        known = [
            {name: value for name, value in row.items() if name in single.column_names}
            for row in wanted_of.get(version, [])
        ]
        assert rows(single) == known == by_spark(spark, table, version, version)
    part = delta_spark.changes(table, startingVersion="2", endingVersion="5")
    assert rows(ours(table, 2, 5)) == rows(part.select(ours(table, 2, 5).column_names))


@pytest.mark.full
def test_times_choose_the_same_commits(
    delta_spark: DeltaSpark, spark: SparkSession, tmp_path: Path
) -> None:
    table = tmp_path / "t"
    run(delta_spark, table, f"CREATE TABLE {{t}} (id BIGINT) USING delta TBLPROPERTIES ({FEED})")
    for number in range(3):
        delta_spark.write(table, pa.table({"id": [number]}))
    # In the past, but recent enough for delta-spark; the third is as old as the second.
    start = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
    for version, seconds in enumerate((0, 10, 20, 20)):
        moment = start.timestamp() + seconds
        os.utime(table / "_delta_log" / f"{version:020}.json", (moment, moment))

    def at(seconds: float) -> datetime:
        return start + timedelta(seconds=seconds)

    for first, last in ((5, 15), (10, 10), (-9, 11), (12, 18), (20, 20.001)):
        begin, end = at(first), at(last)
        wanted = delta_spark.changes(
            table,
            startingTimestamp=begin.strftime("%Y-%m-%d %H:%M:%S.%f"),
            endingTimestamp=end.strftime("%Y-%m-%d %H:%M:%S.%f"),
        )
        chosen = {"start_timestamp": begin, "end_timestamp": end}
        found = by_spark(spark, table, **chosen)
        assert rows(ours(table, **chosen)) == rows(wanted) == found


REFUSED: list[tuple[dict[str, str], str, dict[str, Any], type[DeltaOpsError]]] = [
    (
        {"startingVersion": "0"},
        "DELTA_MISSING_CHANGE_DATA",
        {"start_version": 0},
        InvalidRequestError,
    ),
    (
        {"startingVersion": "2", "endingVersion": "6"},
        "DELTA_MISSING_CHANGE_DATA",
        {"start_version": 2, "end_version": 6},
        InvalidRequestError,
    ),
    (
        {"startingVersion": "2", "endingVersion": "4"},
        "DELTA_MISSING_CHANGE_DATA",
        {"start_version": 2, "end_version": 4},
        InvalidRequestError,
    ),
    (
        {"startingVersion": "7"},
        "DELTA_CDC_START_VERSION_AFTER_LATEST",
        {"start_version": 7},
        VersionNotFoundError,
    ),
    (
        {"startingVersion": "3", "endingVersion": "2"},
        "DELTA_INVALID_CDC_RANGE",
        {"start_version": 3, "end_version": 2},
        InvalidRequestError,
    ),
    (
        {"startingVersion": "-1"},
        "DELTA_LOG_FILE_NOT_FOUND",
        {"start_version": -1},
        VersionNotFoundError,
    ),
    (
        {"startingTimestamp": "2999-01-01"},
        "DELTA_TIMESTAMP_GREATER_THAN_COMMIT",
        {"start_timestamp": "2999-01-01"},
        VersionNotFoundError,
    ),
    (
        {"startingVersion": "5", "endingTimestamp": "2999-01-01"},
        "DELTA_TIMESTAMP_GREATER_THAN_COMMIT",
        {"start_version": 5, "end_timestamp": "2999-01-01"},
        VersionNotFoundError,
    ),
    (
        {"startingTimestamp": "1999-01-01", "endingTimestamp": "2000-01-01"},
        "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION",
        {"start_timestamp": "1999-01-01", "end_timestamp": "2000-01-01"},
        VersionNotFoundError,
    ),
]


@pytest.mark.long
def test_requests_that_it_refuses_are_refused(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    table = tmp_path / "t"
    on, off = (f"'delta.enableChangeDataFeed' = '{text}'" for text in ("true", "false"))
    run(
        delta_spark,
        table,
        "CREATE TABLE {t} (id BIGINT) USING delta",
        "INSERT INTO {t} VALUES (1)",
        f"ALTER TABLE {{t}} SET TBLPROPERTIES ({on})",
        "INSERT INTO {t} VALUES (3)",
        f"ALTER TABLE {{t}} SET TBLPROPERTIES ({off})",
        f"ALTER TABLE {{t}} SET TBLPROPERTIES ({on})",
        "INSERT INTO {t} VALUES (6)",
    )
    for requested, reported, options, error in REFUSED:
        with pytest.raises(DeltaSparkError, match=reported):
            delta_spark.changes(table, **requested)
        with pytest.raises(error):
            ours(table, **options)
    for first, last in ((2, 3), (5, 6), (6, 99)):
        wanted = delta_spark.changes(table, startingVersion=str(first), endingVersion=str(last))
        assert rows(ours(table, first, last)) == rows(wanted)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["name", "id"])
def test_changes_pass_through_renamed_and_dropped_columns(
    delta_spark: DeltaSpark, spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    """delta-spark rejects ranges with a renamed or dropped column."""
    table = tmp_path / "t"
    properties = f"{FEED}, {VECTORS}, 'delta.columnMapping.mode' = '{mode}'"
    run(
        delta_spark,
        table,
        "CREATE TABLE {t} (id BIGINT, v INT, s STRUCT<a: INT, b: INT>, p STRING) USING delta "
        f"PARTITIONED BY (p) TBLPROPERTIES ({properties})",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, INT(id), named_struct('a', 1, 'b', 2), 'x' "
        "FROM range(4)",
        "DELETE FROM {t} WHERE id = 0",
        "ALTER TABLE {t} RENAME COLUMN v TO w",
        "ALTER TABLE {t} RENAME COLUMN p TO place",
        "ALTER TABLE {t} RENAME COLUMN s.a TO c",
        "ALTER TABLE {t} DROP COLUMN s.b",
        "UPDATE {t} SET w = 10 WHERE id = 1",
        "ALTER TABLE {t} ADD COLUMN z INT",
        "INSERT INTO {t} VALUES (5, 5, named_struct('c', 5), 'y', 5)",
    )
    with pytest.raises(DeltaSparkError, match=r"INCOMPATIBLE_(DATA_SCHEMA|SCHEMA_CHANGE)"):
        delta_spark.changes(table, startingVersion="0")
    before = delta_spark.changes(table, startingVersion="0", endingVersion="2")
    after = delta_spark.changes(table, startingVersion="6")
    assert rows(ours(table, 0, 2)) == rows(before)
    assert rows(ours(table, 6)) == rows(after)

    def under_later_names(row: dict[str, Any]) -> dict[str, Any]:
        changed = {"id": row["id"], "w": row["v"], "s": {"c": row["s"]["a"]}, "place": row["p"]}
        return {**changed, "z": None, **{name: row[name] for name in row if name[0] == "_"}}

    through = [*map(under_later_names, before.to_pylist()), *after.to_pylist()]
    found = ours(table, 0)
    assert rows(found) == rows(pa.Table.from_pylist(through, found.schema))
    assert by_spark(spark, table, 0) == rows(found)


@pytest.mark.long
def test_types_that_grew_and_types_that_became_others(
    delta_spark: DeltaSpark, spark: SparkSession, tmp_path: Path
) -> None:
    table = tmp_path / "t"
    run(
        delta_spark,
        table,
        "CREATE TABLE {t} (id INT, d DECIMAL(5, 2), s STRUCT<f: FLOAT>) USING delta "
        f"TBLPROPERTIES ({FEED}, {VECTORS}, 'delta.enableTypeWidening' = 'true')",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ INT(id), 1.25, named_struct('f', FLOAT(0.1)) "
        "FROM range(3)",
        "ALTER TABLE {t} CHANGE COLUMN id TYPE BIGINT",
        "ALTER TABLE {t} CHANGE COLUMN d TYPE DECIMAL(12, 4)",
        "ALTER TABLE {t} CHANGE COLUMN s.f TYPE DOUBLE",
        "DELETE FROM {t} WHERE id = 1",
        "UPDATE {t} SET id = 5000000000 WHERE id = 2",
    )
    with pytest.raises(DeltaSparkError, match="INCOMPATIBLE_SCHEMA_CHANGE"):
        delta_spark.changes(table, startingVersion="0")
    assert rows(ours(table, 4)) == rows(delta_spark.changes(table, startingVersion="4"))
    found = ours(table, 0)
    assert by_spark(spark, table, 0) == rows(found)
    inserted = found.filter(pc.field("_commit_version") == 1).select(["id", "d", "s"])
    assert inserted.to_pylist() == [
        {"id": number, "d": Decimal("1.2500"), "s": {"f": 0.10000000149011612}}
        for number in range(3)
    ]

    other = pa.table({"id": ["a"]})
    delta_spark.write(table, other, "overwrite", overwriteSchema="true")
    with pytest.raises(DeltaSparkError, match="INCOMPATIBLE_SCHEMA_CHANGE"):
        delta_spark.changes(table, startingVersion="0")
    with pytest.raises(InvalidRequestError, match="column id was integer and became string"):
        ours(table, 0)
    assert ours(table, 0, 6).equals(found)

"""Statements in the documentation of Delta Lake are read, or refused with a reason. No JVM."""

from __future__ import annotations

import pytest

from delta_ops.spark.statements import nodes
from delta_ops.spark.statements.cursor import Quotes
from delta_ops.spark.statements.parse import parse
from delta_ops.spark.statements.refusals import refusal_of
from delta_ops.spark.statements.table_changes import ChangesAt, pin_changes
from delta_ops.spark.statements.time_travel import Travel, pin_versions

PEOPLE = "(id INT, firstName STRING, birthDate TIMESTAMP, ssn STRING, salary INT)"

READ: dict[str, type[nodes.Statement]] = {
    # quick start
    "CREATE TABLE delta.`/t` USING DELTA AS SELECT col1 as id FROM VALUES 0,1,2": nodes.CreateTable,
    "INSERT OVERWRITE delta.`/t` SELECT col1 as id FROM VALUES 5,6,7,8,9": nodes.Insert,
    "UPDATE delta.`/t` SET id = id + 100 WHERE id % 2 == 0": nodes.Update,
    "DELETE FROM delta.`/t` WHERE id % 2 == 0": nodes.Delete,
    "MERGE INTO delta.`/t` AS oldData USING newData ON oldData.id = newData.id WHEN MATCHED THEN "
    "UPDATE SET id = newData.id WHEN NOT MATCHED THEN INSERT (id) VALUES (newData.id)": (
        nodes.MergeInto
    ),
    # batch
    f"CREATE TABLE IF NOT EXISTS default.people10m {PEOPLE} USING DELTA": nodes.CreateTable,
    f"CREATE OR REPLACE TABLE delta.`/t` {PEOPLE} USING DELTA": nodes.CreateTable,
    f"CREATE TABLE default.people10m {PEOPLE} USING DELTA PARTITIONED BY (ssn)": nodes.CreateTable,
    "CREATE TABLE default.people10m USING DELTA LOCATION '/tmp/delta/people10m'": nodes.CreateTable,
    "INSERT INTO default.people10m SELECT * FROM morePeople": nodes.Insert,
    "INSERT OVERWRITE TABLE default.people10m SELECT * FROM morePeople": nodes.Insert,
    "INSERT INTO TABLE events REPLACE WHERE start_date >= '2017-01-01' AND end_date <= "
    "'2017-01-31' SELECT * FROM replace_data": nodes.Insert,
    "ALTER TABLE boxes ADD COLUMNS (colB.nested STRING AFTER field1)": nodes.AddColumns,
    "ALTER TABLE boxes CHANGE COLUMN colB.field2 field2 STRING FIRST": nodes.AlterColumns,
    "ALTER TABLE boxes REPLACE COLUMNS (colC STRING, colB STRUCT<field2:STRING, nested:STRING, "
    "field1:STRING>, colA STRING)": nodes.ReplaceColumns,
    "ALTER TABLE boxes RENAME COLUMN colB.field1 TO field001": nodes.RenameColumn,
    "ALTER TABLE table_name DROP COLUMNS (col_name_1, col_name_2)": nodes.DropColumns,
    "SHOW TBLPROPERTIES default.people10m": nodes.Show,
    # updates
    "DELETE FROM people10m WHERE birthDate < '1955-01-01'": nodes.Delete,
    "UPDATE people10m SET gender = 'Female' WHERE gender = 'F';": nodes.Update,
    "MERGE INTO target USING source ON source.key = target.key WHEN MATCHED THEN UPDATE SET "
    "target.lastSeen = current_timestamp() WHEN NOT MATCHED THEN INSERT (key, lastSeen, status) "
    "VALUES (source.key,  current_timestamp(), 'active') WHEN NOT MATCHED BY SOURCE AND "
    "target.lastSeen >= (current_date() - INTERVAL '5' DAY) THEN UPDATE SET target.status = "
    "'inactive'": nodes.MergeInto,
    "MERGE WITH SCHEMA EVOLUTION INTO target USING source ON source.key = target.key WHEN MATCHED "
    "THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE": (
        nodes.MergeInto
    ),
    # utility commands
    "VACUUM eventsTable": nodes.Vacuum,
    "VACUUM eventsTable LITE": nodes.Vacuum,
    "VACUUM '/data/events'": nodes.Vacuum,
    "VACUUM delta.`/data/events/` RETAIN 100 HOURS  -- more than 100 hours old": nodes.Vacuum,
    "VACUUM eventsTable DRY RUN": nodes.Vacuum,
    "VACUUM eventsTable USING INVENTORY inventoryTable": nodes.Vacuum,
    "VACUUM eventsTable USING INVENTORY (select * from inventoryTable)": nodes.Vacuum,
    "DESCRIBE HISTORY '/data/events/' LIMIT 1": nodes.DescribeHistory,
    "DESCRIBE HISTORY eventsTable": nodes.DescribeHistory,
    "DESCRIBE DETAIL '/data/events/'": nodes.DescribeDetail,
    "GENERATE symlink_format_manifest FOR TABLE delta.`/t`": nodes.Generate,
    "CONVERT TO DELTA parquet.`/t`": nodes.ConvertToDelta,
    "CONVERT TO DELTA parquet.`/t` PARTITIONED BY (part int, part2 int)": nodes.ConvertToDelta,
    "RESTORE TABLE db.target_table TO VERSION AS OF 3": nodes.Restore,
    "RESTORE TABLE delta.`/data/target/` TO TIMESTAMP AS OF '2026-01-31'": nodes.Restore,
    "CREATE TABLE delta.`/data/target/` SHALLOW CLONE delta.`/data/source/`": nodes.ShallowClone,
    "CREATE OR REPLACE TABLE db.t SHALLOW CLONE db.s": nodes.ShallowClone,
    "CREATE TABLE IF NOT EXISTS delta.`/t/` SHALLOW CLONE db.s": nodes.ShallowClone,
    "CREATE TABLE db.t SHALLOW CLONE delta.`/s` VERSION AS OF 15": nodes.ShallowClone,
    "CREATE OR REPLACE TABLE archive.t SHALLOW CLONE prod.t TBLPROPERTIES ("
    "delta.logRetentionDuration = '3650 days')": nodes.ShallowClone,
    # constraints
    "ALTER TABLE people10m CHANGE COLUMN middleName DROP NOT NULL": nodes.AlterColumns,
    "ALTER TABLE people10m ADD CONSTRAINT dateWithinRange CHECK (birthDate > '1900-01-01')": (
        nodes.AddConstraint
    ),
    "ALTER TABLE people10m DROP CONSTRAINT dateWithinRange": nodes.DropConstraint,
    # properties of features
    "ALTER TABLE t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')": nodes.SetProperties,
    "ALTER TABLE t SET TBLPROPERTIES ('delta.enableDeletionVectors' = true);": nodes.SetProperties,
    "ALTER TABLE t SET TBLPROPERTIES (delta.enableChangeDataFeed = true)": nodes.SetProperties,
    # clustering
    "CREATE TABLE table1(col0 INT, col1 string) USING DELTA CLUSTER BY (col0);": nodes.CreateTable,
    "CREATE TABLE t2 USING DELTA CLUSTER BY (col0) AS SELECT * FROM t1": nodes.CreateTable,
    "ALTER TABLE table_name CLUSTER BY (new_column1, new_column2)": nodes.ClusterBy,
    "ALTER TABLE table_name CLUSTER BY NONE": nodes.ClusterBy,
    "OPTIMIZE table_name FULL": nodes.Optimize,
    # deletion vectors
    "REORG TABLE events APPLY (PURGE)": nodes.Reorg,
    "REORG TABLE events WHERE date >= '2022-01-01' APPLY (PURGE)": nodes.Reorg,
    # default columns
    "CREATE TABLE t (a INT, b INT DEFAULT 42) USING DELTA "
    "TBLPROPERTIES('delta.feature.allowColumnDefaults' = 'supported')": nodes.CreateTable,
    "INSERT INTO t VALUES (1, DEFAULT)": nodes.Insert,
    "ALTER TABLE t ALTER COLUMN a SET DEFAULT 5": nodes.AlterColumns,
    # type widening, and features
    "ALTER TABLE t ALTER COLUMN a TYPE BIGINT": nodes.AlterColumns,
    "ALTER TABLE t DROP FEATURE 'typeWidening' TRUNCATE HISTORY": nodes.DropFeature,
    # optimizations
    "OPTIMIZE '/path/to/delta/table'": nodes.Optimize,
    "OPTIMIZE events WHERE date >= '2017-01-01'": nodes.Optimize,
    "OPTIMIZE events WHERE date >= current_timestamp() - INTERVAL 1 day ZORDER BY (eventType)": (
        nodes.Optimize
    ),
}

REFUSED = {
    "CONVERT TO DELTA parquet.`/t` NO STATISTICS": "always collects statistics",
    "CONVERT TO DELTA iceberg.`/t`": "a directory of Parquet files",
    "ALTER TABLE t ALTER COLUMN id SYNC IDENTITY": "SYNC IDENTITY is not supported",
    "REORG TABLE t APPLY (UPGRADE UNIFORM(ICEBERG_COMPAT_VERSION=2))": "UniForm is not supported",
}

PINNED = {
    "SELECT * FROM people10m TIMESTAMP AS OF '2018-10-18T22:15:12.013Z'": 1,
    "SELECT * FROM delta.`/tmp/delta/people10m` VERSION AS OF 123": 1,
    "SELECT * FROM t TIMESTAMP AS OF cast('2018-10-18 13:36:32 CEST' as timestamp)": 1,
    "SELECT * FROM t TIMESTAMP AS OF current_timestamp() - interval 12 hours": 1,
    "SELECT * FROM t TIMESTAMP AS OF date_sub(current_date(), 1)": 1,
    "SELECT * FROM people10m@v123": 1,
    "SELECT * FROM people10m@20190101000000000": 1,
    "SELECT count(*) - (SELECT count(*) FROM t TIMESTAMP AS OF date_sub(current_date(), 7)) "
    "FROM t VERSION AS OF 3": 2,
    "SELECT * FROM table_changes('tableName', 0, 10)": 1,
    "SELECT * FROM table_changes('db.t', '2021-04-21 05:45:46', '2021-05-21 12:00:00')": 1,
    "SELECT * FROM table_changes_by_path('/path', '2021-04-21 05:45:46')": 1,
}


@pytest.mark.parametrize(("text", "kind"), READ.items())
def test_a_documented_statement_is_read(text: str, kind: type[nodes.Statement]) -> None:
    assert type(parse(text, Quotes())) is kind


@pytest.mark.parametrize(("text", "reason"), REFUSED.items())
def test_a_documented_statement_is_refused_with_its_reason(text: str, reason: str) -> None:
    found = refusal_of(text, Quotes(), lambda _: True, is_syntax_error=True)
    assert found is not None
    assert reason in found


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE clone (a INT",
        "CREATE TABLE IF NOT EXISTS clone (a INT",
        "CREATE TABLE db.clone (a INT",
        "CREATE TABLE t (a INT, clone INT",
        "CREATE TABLE t AS clone SELECT",
    ],
)
def test_clone_as_a_name_is_left_to_spark(text: str) -> None:
    assert refusal_of(text, Quotes(), lambda _: True, is_syntax_error=True) is None


@pytest.mark.parametrize(("text", "number"), PINNED.items())
def test_a_documented_query_names_a_version(text: str, number: int) -> None:
    found: list[Travel | ChangesAt] = []

    def path_of(read: Travel | ChangesAt) -> str:
        found.append(read)
        return "/t"

    pinned = pin_changes(pin_versions(text, Quotes(), path_of), Quotes(), path_of)
    assert len(found) == number
    assert pinned.count("delta.`/t`") == number

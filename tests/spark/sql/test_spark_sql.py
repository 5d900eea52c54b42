"""`spark.sql` with Delta's statements: the same as the Python API, or Spark's own."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, ddl
from delta_ops.ddl import NewColumn
from delta_ops.maintenance import restore
from delta_ops.spark.statements.parameters import literal_of
from delta_ops.spark.versions import error_condition
from delta_ops.tables import DeltaTable
from tests.support.tables import rows

pytestmark = pytest.mark.spark

ITEMS = pa.table({"id": [1, 2, 3, 4], "name": ["a", "b", None, "d"], "price": [1.0, 2.0, 3.0, 4.0]})
PROPERTIES = {
    "delta.columnMapping.mode": "name",
    "delta.enableTypeWidening": "true",
    "delta.feature.allowColumnDefaults": "supported",
}
FULL = pytest.mark.full


@pytest.fixture(scope="module")
def delta(spark: SparkSession) -> Iterator[SparkSession]:
    """A session of its own, whose SQL is routed."""
    ds.register(spark)
    session = spark.newSession()
    yield session
    for name in ("items", "plain", "made"):
        session.sql(f"DROP TABLE IF EXISTS {name}")
    ds.unregister(spark)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("original") / "t"
    da.write(root, ITEMS, configuration=PROPERTIES)
    da.write(root, pa.table({"id": [5], "name": ["e"], "price": [5.0]}))
    return root


@pytest.fixture
def table(original: Path, tmp_path: Path) -> Path:
    return shutil.copytree(original, tmp_path / "t")


@pytest.fixture
def twin(original: Path, tmp_path: Path) -> Path:
    """A copy of the same table, for the Python API."""
    return shutil.copytree(original, tmp_path / "twin")


def last_commit(path: Path) -> str:
    """The record of the last commit, without the random names of new columns in files."""
    entry = next(DeltaLog(path).history(1))
    recorded = (entry.version, entry.operation, dict(entry.operation_parameters))
    return re.sub(r"col-[0-9a-f-]{36}", "col", repr(recorded))


SOURCE = "SELECT 2L AS id, 'two' AS name, 20D AS price UNION ALL SELECT 9L, 'nine', 90D"

Call = Callable[[SparkSession, Path], object]
SAME: list[Any] = [
    pytest.param(
        "DELETE FROM {} WHERE id = 2 OR name IS NULL",
        lambda s, p: ds.delete(s, p, "id = 2 OR name IS NULL"),
        id="delete",
    ),
    pytest.param("DELETE FROM {}", ds.delete, id="delete all", marks=FULL),
    pytest.param(
        "UPDATE {} AS x SET x.price = x.price * 2, name = CASE WHEN id = 1 THEN 'x;' END "
        "WHERE x.id < 3",
        lambda s, p: ds.update(
            s,
            p,
            {"price": "x.price * 2", "name": "CASE WHEN id = 1 THEN 'x;' END"},
            "x.id < 3",
            target_alias="x",
        ),
        id="update",
        marks=FULL,
    ),
    pytest.param(
        f"MERGE INTO {{}} t USING ({SOURCE}) s ON t.id = s.id "
        "WHEN MATCHED AND s.price > 1 THEN UPDATE SET name = s.name, t.price = s.price "
        "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, concat(s.name, '!')) "
        "WHEN NOT MATCHED BY SOURCE AND t.id = 4 THEN DELETE",
        lambda s, p: (
            DeltaTable.forPath(s, str(p))
            .alias("t")
            .merge(s.sql(f"SELECT * FROM ({SOURCE}) s"), "t.id = s.id")
            .whenMatchedUpdate("s.price > 1", {"name": "s.name", "t.price": "s.price"})
            .whenNotMatchedInsert(None, {"id": "s.id", "name": "concat(s.name, '!')"})
            .whenNotMatchedBySourceDelete("t.id = 4")
            .execute()
        ),
        id="merge",
    ),
    pytest.param(
        f"MERGE WITH SCHEMA EVOLUTION INTO {{}} t USING (SELECT *, 1 AS n FROM ({SOURCE})) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        lambda s, p: (
            DeltaTable.forPath(s, str(p))
            .alias("t")
            .merge(s.sql(f"SELECT *, 1 AS n FROM ({SOURCE}) s").alias("s"), "t.id = s.id")
            .withSchemaEvolution()
            .whenMatchedUpdateAll()
            .whenNotMatchedInsertAll()
            .execute()
        ),
        id="merge with new columns",
        marks=FULL,
    ),
    pytest.param(
        "INSERT INTO {} VALUES (6, 'f', 6.5)",
        lambda s, p: ds.write(s.sql("SELECT 6L AS id, 'f' AS name, 6.5D AS price"), p),
        id="insert by position",
    ),
    pytest.param(
        "INSERT INTO {} (price, id) SELECT 6.5D, 6L",
        lambda s, p: ds.write(s.sql("SELECT 6L AS id, 6.5D AS price"), p),
        id="insert some columns",
        marks=FULL,
    ),
    pytest.param(
        "INSERT INTO {} BY NAME SELECT 6.5D AS price, 6L AS id",
        lambda s, p: ds.write(s.sql("SELECT 6L AS id, 6.5D AS price"), p),
        id="insert by name",
        marks=FULL,
    ),
    pytest.param(
        "INSERT OVERWRITE {} SELECT 6L, 'f', 6.5D",
        lambda s, p: ds.write(
            s.sql("SELECT 6L AS id, 'f' AS name, 6.5D AS price"), p, mode="overwrite"
        ),
        id="insert overwrite",
        marks=FULL,
    ),
    pytest.param(
        "INSERT INTO {} REPLACE WHERE id > 2 SELECT 6L, 'f', 6.5D",
        lambda s, p: ds.write(
            s.sql("SELECT 6L AS id, 'f' AS name, 6.5D AS price"),
            p,
            mode="overwrite",
            replace_where="id > 2",
        ),
        id="replace where",
    ),
    pytest.param(
        "RESTORE TABLE {} TO VERSION AS OF 0",
        lambda s, p: restore(DeltaLog(p), version=0),
        id="restore",
        marks=FULL,
    ),
    pytest.param(
        "OPTIMIZE {}",
        lambda s, p: DeltaTable.forPath(s, str(p)).optimize().executeCompaction(),
        id="optimize",
    ),
    pytest.param(
        "OPTIMIZE {} ZORDER BY (price, id)",
        lambda s, p: DeltaTable.forPath(s, str(p)).optimize().executeZOrderBy("price", "id"),
        id="z-order",
        marks=FULL,
    ),
    pytest.param(
        "ALTER TABLE {} SET TBLPROPERTIES ('delta.appendOnly' = 'true', a.b = 'it\\'s')",
        lambda s, p: ddl.set_properties(p, {"delta.appendOnly": "true", "a.b": "it's"}),
        id="set properties",
    ),
    pytest.param(
        "ALTER TABLE {} UNSET TBLPROPERTIES ('DELTA.enableTypeWidening', 'none')",
        lambda s, p: ddl.set_properties(p, {"delta.enableTypeWidening": None}),
        id="unset properties",
        marks=FULL,
    ),
    pytest.param(
        "ALTER TABLE {} ADD COLUMNS (n INT COMMENT 'c' AFTER id, s STRUCT<x: INT>)",
        lambda s, p: ddl.add_columns(
            p,
            [
                NewColumn(name="n", data_type="int", comment="c", after="id"),
                NewColumn(name="s", data_type="struct<x: int>"),
            ],
        ),
        id="add columns",
        marks=FULL,
    ),
    pytest.param(
        "ALTER TABLE {} RENAME COLUMN price TO `the price`",
        lambda s, p: ddl.rename_column(p, "price", "the price"),
        id="rename a column",
        marks=FULL,
    ),
    pytest.param(
        "ALTER TABLE {} DROP COLUMN price",
        lambda s, p: ddl.drop_columns(p, ["price"]),
        id="drop",
        marks=FULL,
    ),
    pytest.param(
        "ALTER TABLE {} ALTER COLUMN name COMMENT 'n'",
        lambda s, p: ddl.set_comment(p, "name", "n"),
        id="comment of a column",
        marks=FULL,
    ),
    pytest.param(
        "ALTER TABLE {} ALTER COLUMN price FIRST",
        lambda s, p: ddl.reorder_columns(p, ["price"]),
        id="first",
        marks=FULL,
    ),
    pytest.param(
        "ALTER TABLE {} ALTER COLUMN id AFTER name",
        lambda s, p: ddl.reorder_columns(p, ["name", "id"]),
        id="after",
        marks=FULL,
    ),
    pytest.param(
        "ALTER TABLE {} ALTER COLUMN id SET NOT NULL",
        lambda s, p: ddl.set_not_null(p, "id"),
        id="not null",
        marks=FULL,
    ),
    pytest.param(
        "ALTER TABLE {} ALTER COLUMN name SET DEFAULT 'x'",
        lambda s, p: ddl.set_default(p, "name", "'x'"),
        id="default",
        marks=FULL,
    ),
    pytest.param(
        "ALTER TABLE {} ADD CONSTRAINT positive CHECK (price > (1 - 1))",
        lambda s, p: ddl.add_constraint(p, "positive", "price > (1 - 1)"),
        id="constraint",
        marks=FULL,
    ),
    pytest.param(
        "ALTER TABLE {} CLUSTER BY (id)",
        lambda s, p: ddl.cluster_by(p, ["id"]),
        id="cluster by",
        marks=FULL,
    ),
    pytest.param(
        "COMMENT ON TABLE {} IS 'c'",
        lambda s, p: ddl.set_table_comment(p, "c"),
        id="comment",
        marks=FULL,
    ),
]


@pytest.mark.some_cases(6)
@pytest.mark.parametrize(("statement", "call"), SAME)
def test_a_statement_does_the_same_as_the_call(
    delta: SparkSession, table: Path, twin: Path, statement: str, call: Call
) -> None:
    delta.sql(statement.format(f"delta.`{table}`"))
    call(delta, twin)
    assert rows(da.to_table(table)) == rows(da.to_table(twin))
    assert da.to_table(table).schema == da.to_table(twin).schema
    assert last_commit(table) == last_commit(twin)


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("statement", "schema"),
    [
        ("DELETE FROM {} WHERE id = 1", "struct<num_affected_rows:bigint>"),
        ("VACUUM {}", "struct<path:string>"),
        ("DESCRIBE DETAIL {}", None),
        ("DESC HISTORY {} LIMIT 1", None),
        ("ALTER TABLE {} SET TBLPROPERTIES ('a' = 'b')", "struct<>"),
    ],
)
def test_results_have_the_columns_of_the_reference(
    delta: SparkSession, table: Path, statement: str, schema: str | None
) -> None:
    found = delta.sql(statement.format(f"delta.`{table}`"))
    if schema is None:
        opened = DeltaTable.forPath(delta, str(table))
        same = opened.detail() if "DETAIL" in statement else opened.history(1)
        assert (found.schema, found.collect()) == (same.schema, same.collect())
    else:
        assert found.schema.simpleString() == schema


@pytest.mark.full
def test_changed_rows_are_counted(delta: SparkSession, table: Path) -> None:
    name = f"delta.`{table}`"
    assert delta.sql(f"DELETE FROM {name} WHERE id < 3").collect() == [(2,)]
    assert delta.sql(f"DELETE FROM {name} WHERE id = 77").collect() == [(0,)]
    assert delta.sql(f"UPDATE {name} SET price = 0 WHERE id = 3").collect() == [(1,)]


def test_a_table_is_changed_by_its_name(delta: SparkSession, table: Path) -> None:
    delta.sql(f"CREATE TABLE items USING delta LOCATION '{table}'")
    delta.sql("DELETE FROM items WHERE items.id = 1")
    delta.sql("update Default.`ITEMS` set name = 'z' where id = 2")
    delta.sql(
        "MERGE INTO spark_catalog.default.items USING (SELECT 5L k) s ON items.id = s.k "
        "WHEN MATCHED THEN DELETE"
    )
    delta.sql("ALTER TABLE items ADD COLUMN late INT")
    assert delta.table("items").columns[-1] == "late"
    delta.sql("COMMENT ON TABLE items IS 'c'")
    assert DeltaLog(table).snapshot().metadata.description == "c"
    delta.sql("TRUNCATE TABLE items")
    assert da.count_rows(table) == 0


def test_a_table_is_created_with_all_clauses(delta: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "new"
    statement = (
        f"CREATE TABLE IF NOT EXISTS delta.`{path}` (id BIGINT NOT NULL COMMENT 'key', d DATE, "
        "y INT GENERATED ALWAYS AS (year(d))) USING delta PARTITIONED BY (y) COMMENT 'c' "
        "TBLPROPERTIES ('delta.appendOnly' = 'true')"
    )
    delta.sql(statement)
    delta.sql(statement)
    snapshot = DeltaLog(path).snapshot()
    assert (snapshot.version, snapshot.partition_columns) == (0, ("y",))
    assert snapshot.metadata.description == "c"
    assert snapshot.metadata.configuration["delta.appendOnly"] == "true"
    assert [f.nullable for f in snapshot.schema.fields] == [False, True, True]
    delta.sql(f"INSERT INTO delta.`{path}` (id, d) VALUES (1, DATE'2026-01-31')")
    assert da.to_table(path)["y"].to_pylist() == [2026]


def test_a_table_is_created_from_a_query_and_cloned(delta: SparkSession, tmp_path: Path) -> None:
    name, clone = f"delta.`{tmp_path}/q`", f"delta.`{tmp_path}/clone`"
    delta.sql(f"CREATE TABLE {name} USING delta PARTITIONED BY (p) AS SELECT id, 1 p FROM range(3)")
    cloned = delta.sql(f"CREATE TABLE {clone} SHALLOW CLONE {name} VERSION AS OF 0").first()
    assert cloned is not None
    assert cloned["source_num_of_files"] == DeltaLog(tmp_path / "q").snapshot().num_files
    assert da.count_rows(tmp_path / "clone") == 3


def test_a_directory_of_parquet_is_converted(delta: SparkSession, tmp_path: Path) -> None:
    delta.range(4).write.parquet(f"{tmp_path}/p")
    delta.sql(f"CONVERT TO DELTA parquet.`{tmp_path}/p`")
    assert da.count_rows(tmp_path / "p") == 4


def test_a_dry_run_lists_the_files(delta: SparkSession, table: Path) -> None:
    da.delete(table, "id = 5")
    delta.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        listed = delta.sql(f"VACUUM '{table}' RETAIN 0 HOURS DRY RUN").collect()
    finally:
        delta.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    kept = {add.path for add in DeltaLog(table).snapshot().add_files()}
    removed = [each for each in table.rglob("*.parquet") if each.name not in kept]
    assert [row.path for row in listed] == [f"file:{each}" for each in removed]
    assert len(removed) == 1


def test_queries_read_earlier_versions(delta: SparkSession, table: Path) -> None:
    name = f"delta.`{table}`"
    time = datetime.fromtimestamp(next(DeltaLog(table).history(1)).timestamp_ms / 1000, UTC)
    assert delta.sql(f"SELECT * FROM {name} VERSION AS OF 0").count() == 4
    assert delta.sql(f"SELECT * FROM {name} TIMESTAMP AS OF '{time.isoformat()}'").count() == 5
    joined = f"SELECT a.id FROM {name} VERSION AS OF 0 a JOIN {name} b ON a.id = b.id"
    assert delta.sql(joined).count() == 4
    delta.sql(f"INSERT INTO {name} SELECT * FROM {name} VERSION AS OF 0 WHERE id < :n", {"n": 3})
    assert da.count_rows(table) == 7
    delta.sql("DROP TABLE IF EXISTS items")
    delta.sql(f"CREATE TABLE items USING delta LOCATION '{table}'")
    assert delta.sql("SELECT items.id FROM items VERSION AS OF 0 WHERE items.id > 1").count() == 3
    delta.sql("DROP TABLE items")


VALUES: list[Any] = [
    None, True, 5, -5, 2**31, -(2**31), -(2**63), 1 - 2**63, 1.5, -2.5, -0.0, 1e-300,
    float("inf"), float("nan"),
    "it's; -- \\ \"x\" ${y} `z`\n", "", "é😀", Decimal("1.20"), Decimal("-0.005"), b"a'\x00",
    date(1969, 12, 31), date(9999, 12, 31), datetime(2026, 1, 31, 12, 0, 0, 5),
    datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
]  # fmt: skip


@pytest.mark.full
def test_a_value_is_bound_as_spark_binds_it(delta: SparkSession) -> None:
    for value in VALUES:
        ours = delta.sql(f"SELECT {literal_of(value)} AS v")
        sparks = delta.sql("SELECT :v AS v", args={"v": value})
        assert ours.schema.simpleString() == sparks.schema.simpleString(), value
        assert str(ours.collect()) == str(sparks.collect()), value


HOSTILE = [
    "x' OR '1'='1",
    "'; DROP TABLE items; --",
    '" OR ""="',
    "\\' OR 1=1 --",
    "`",
    "${a}",
    "/*",
]


def test_values_never_change_the_statement(delta: SparkSession, table: Path) -> None:
    name = f"delta.`{table}`"
    for value in HOSTILE:
        by_name = delta.sql(f"DELETE FROM {name} WHERE name = :v /* :v */", args={"v": value})
        by_place = delta.sql(f"DELETE FROM {name} WHERE name = ? -- ?", args=[value])
        assert (by_name.collect(), by_place.collect()) == ([(0,)], [(0,)])
    delta.sql(f"UPDATE {name} SET name = :v WHERE id = :id", args={"v": HOSTILE[1], "id": 1})
    assert rows(da.to_table(table, predicate="id = 1"))[0]["name"] == HOSTILE[1]


@pytest.mark.parametrize("directory", ["a'; DROP TABLE x; --", "a`b", "a b /* c */", 'ä"$'])
def test_paths_never_change_the_statement(
    delta: SparkSession, table: Path, tmp_path: Path, directory: str
) -> None:
    place = tmp_path / directory
    shutil.move(table, place)
    quoted = str(place).replace("`", "``")
    delta.sql(f"ALTER TABLE delta.`{quoted}` SET TBLPROPERTIES ('a' = 'b')")
    assert DeltaLog(place).snapshot().metadata.configuration["a"] == "b"


def test_a_value_that_cannot_be_bound_is_refused(delta: SparkSession, table: Path) -> None:
    with pytest.raises(PySparkException, match="type list cannot be bound"):
        delta.sql(f"DELETE FROM delta.`{table}` WHERE id = :v", args={"v": [1]})
    with pytest.raises(PySparkException, match="1 question marks, and args has 2"):
        delta.sql(f"DELETE FROM delta.`{table}` WHERE id = ?", args=[1, 2])
    assert da.count_rows(table) == 5


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("DELETE FROM {} WHERE id = 1 garbage", ParseException, "PARSE_SYNTAX_ERROR"),
        ("UPDATE {} SET nope = DEFAULT", AnalysisException, "nope"),
        ("INSERT INTO {} VALUES (1, DEFAULT)", AnalysisException, "needs 3 values"),
        ("INSERT INTO {} (id, ID) VALUES (1, DEFAULT)", AnalysisException, "named twice"),
        (
            "INSERT INTO {} PARTITION (name = 'x') SELECT 1L, 2D",
            AnalysisException,
            "PARTITION names",
        ),
        ("INSERT INTO {} SELECT 1L", AnalysisException, "has 1 columns, and the statement needs 3"),
        ("INSERT INTO {} (id, ID) SELECT 1L, 2L", AnalysisException, "named twice"),
        ("INSERT INTO {} (nope) SELECT 1L", AnalysisException, "nope"),
        ("ALTER TABLE {} ADD COLUMN z INT NOT NULL", AnalysisException, "cannot be NOT NULL"),
        ("ALTER TABLE {} ALTER COLUMN id AFTER nope", AnalysisException, "no other column nope"),
        ("OPTIMIZE {} FULL ZORDER BY (id)", AnalysisException, "leave FULL or ZORDER BY out"),
        ("OPTIMIZE {} WHERE id = 1 garbage", ParseException, "PARSE_SYNTAX_ERROR"),
        ("RESTORE {} TO VERSION AS OF 99", AnalysisException, "99"),
        ("CREATE OR REPLACE TABLE {} SHALLOW CLONE {}", AnalysisException, "cannot replace"),
        ("CREATE TABLE {} USING delta AS SELECT 1 a", AnalysisException, "already a table"),
        (
            "CREATE OR REPLACE TABLE {} (a INT) USING delta AS SELECT 1 a",
            AnalysisException,
            "Schema may not be specified",
        ),
        (
            "COPY INTO {} FROM '/x' FILEFORMAT = CSV",
            AnalysisException,
            "COPY INTO is not supported",
        ),
        pytest.param(
            "VACUUM {} USING INVENTORY (SELECT 1)",
            AnalysisException,
            "no column 'path'",
            marks=FULL,
        ),
        pytest.param(
            "ALTER TABLE {} REPLACE COLUMNS (id BIGINT)",
            AnalysisException,
            "DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP.*lacks name, price",
            marks=FULL,
        ),
        pytest.param(
            "ALTER TABLE {} REPLACE COLUMNS (id INT, name STRING, price DOUBLE)",
            AnalysisException,
            "id of type long cannot become integer",
            marks=FULL,
        ),
        pytest.param(
            "ALTER TABLE {} ALTER COLUMN id COMMENT 'a', name SET DEFAULT concat(id, 1)",
            AnalysisException,
            "default",
            marks=FULL,
        ),
        pytest.param(
            "ALTER TABLE {} ALTER COLUMN id SET NOT NULL, ID DROP NOT NULL",
            AnalysisException,
            "changes a column twice",
            marks=FULL,
        ),
        pytest.param(
            "TRUNCATE TABLE {} PARTITION (id = 1)",
            AnalysisException,
            "DELTA_TRUNCATE_TABLE_PARTITION_NOT_SUPPORTED.*DELETE FROM",
            marks=FULL,
        ),
        ("REORG TABLE {} APPLY (UPGRADE UNIFORM (X=2))", AnalysisException, "PURGE. only"),
        ("ALTER TABLE {} ALTER COLUMN id SYNC IDENTITY", AnalysisException, "SYNC IDENTITY is not"),
        ("CREATE TABLE u CLONE {}", AnalysisException, "write SHALLOW CLONE"),
        ("CONVERT TO DELTA some_table", AnalysisException, "takes a directory of Parquet files"),
        ("OPTIMIZE some_table", AnalysisException, "some_table is not a Delta table, and OPTIMIZE"),
        ("DESCRIBE HISTORY some_table", AnalysisException, "is not a Delta table"),
        ("VACUUM {} RETAIN 1 HOURS", AnalysisException, "retentionDurationCheck.enabled=false"),
    ],
)
def test_a_refused_statement_changes_nothing(
    delta: SparkSession, table: Path, statement: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        delta.sql(statement.replace("{}", f"delta.`{table}`"))
    assert DeltaLog(table).snapshot().version == 1


def test_errors_have_the_classes_of_the_reference(
    delta: SparkSession, table: Path, tmp_path: Path
) -> None:
    delta.sql(f"ALTER TABLE delta.`{table}` ADD CONSTRAINT low CHECK (id < 100)")
    delta.sql(f"ALTER TABLE delta.`{table}` ALTER COLUMN id SET NOT NULL")
    merge = "USING (SELECT explode(array(1L, 1L)) AS id) s ON t.id = s.id"
    for statement, condition in (
        (f"DELETE FROM delta.`{tmp_path}/none`", "DELTA_MISSING_DELTA_TABLE"),
        (f"CREATE TABLE delta.`{table}` (a INT) USING delta", "DELTA_TABLE_ALREADY_EXISTS"),
        (f"RESTORE delta.`{table}` TO VERSION AS OF 99", "DELTA_CANNOT_RESTORE_TABLE_VERSION"),
        (
            f"INSERT INTO delta.`{table}` (id) VALUES (100)",
            "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
        ),
        (
            f"INSERT INTO delta.`{table}` (name) VALUES ('x')",
            "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
        ),
        (
            f"MERGE INTO delta.`{table}` t {merge} WHEN MATCHED THEN UPDATE SET price = 0",
            "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE",
        ),
    ):
        with pytest.raises(AnalysisException) as refused:
            delta.sql(statement)
        assert error_condition(refused.value) == condition
        assert str(refused.value).startswith(f"[{condition}] ")


@FULL
def test_values_are_defaults_where_the_statement_says_so(
    delta: SparkSession, tmp_path: Path
) -> None:
    name = f"delta.`{tmp_path}/t`"
    delta.sql(
        f"CREATE TABLE {name} (id BIGINT GENERATED BY DEFAULT AS IDENTITY, a INT DEFAULT 7, "
        "b STRING) USING delta TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    delta.sql(f"INSERT INTO {name} VALUES (DEFAULT, 1, 'x'), (default, DEFAULT, DEFAULT)")
    delta.sql(f"UPDATE {name} AS t SET t.a = DEFAULT, b = DEFAULT WHERE a = 1")
    delta.sql(
        f"MERGE INTO {name} t USING (SELECT 9L AS id) s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT (id, a) VALUES (s.id, DEFAULT)"
    )
    found = sorted(map(tuple, delta.sql(f"SELECT * FROM {name}").collect()))
    assert [row[1:] for row in found] == [(7, None)] * 3
    assert (len({row[0] for row in found}), found[-1][0]) == (3, 9)


@FULL
def test_fixed_partitions_of_an_insert(delta: SparkSession, tmp_path: Path) -> None:
    name = f"delta.`{tmp_path}/t`"
    delta.sql(f"CREATE TABLE {name} (p DATE, id INT, q STRING) USING delta PARTITIONED BY (p, q)")
    day, other = "DATE'2026-01-31'", "DATE'2026-02-01'"
    delta.sql(f"INSERT INTO {name} PARTITION (p = {day}, q) VALUES (1, 'a'), (2, 'b')")
    delta.sql(f"INSERT INTO {name} PARTITION (p = '2026-02-01', q = 'a') (id) VALUES (3)")
    delta.sql(f"INSERT INTO {name} PARTITION (p = {other}, q = NULL) SELECT 4")

    def found() -> list[tuple[object, ...]]:
        query = f"SELECT day(p), id, q FROM {name} ORDER BY id"
        return [tuple(row) for row in delta.sql(query).collect()]

    assert found() == [(31, 1, "a"), (31, 2, "b"), (1, 3, "a"), (1, 4, None)]
    delta.sql(f"INSERT OVERWRITE {name} PARTITION (p = {other}, q = NULL) SELECT 5")
    assert found() == [(31, 1, "a"), (31, 2, "b"), (1, 3, "a"), (1, 5, None)]
    delta.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        delta.sql(f"INSERT OVERWRITE {name} PARTITION (p = {day}, q) SELECT 6, 'a'")
    finally:
        delta.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert found() == [(31, 2, "b"), (1, 3, "a"), (1, 5, None), (31, 6, "a")]
    delta.sql(f"INSERT OVERWRITE {name} PARTITION (p = {day}, q) SELECT 7, 'c'")
    assert found() == [(1, 3, "a"), (1, 5, None), (31, 7, "c")]


@FULL
def test_common_tables_stand_before_a_change(delta: SparkSession, table: Path) -> None:
    name = f"delta.`{table}`"
    source = f"WITH q AS ({SOURCE}), r AS (SELECT * FROM q WHERE id > 5)"
    delta.sql(f"{source} INSERT INTO {name} SELECT * FROM r")
    delta.sql(f"{source} MERGE INTO {name} t USING q ON t.id = q.id WHEN MATCHED THEN DELETE")
    assert sorted(row["id"] for row in rows(da.to_table(table))) == [1, 3, 4, 5]


def test_changes_are_read_in_queries(delta: SparkSession, table: Path) -> None:
    name = f"delta.`{table}`"
    delta.sql(f"ALTER TABLE {name} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    delta.sql(f"DELETE FROM {name} WHERE id = 1")
    delta.sql(f"UPDATE {name} SET price = 0 WHERE id = 2")
    changes = f"table_changes_by_path('{table}', 3)"
    found = delta.sql(f"SELECT id, _change_type FROM {changes} c WHERE c._commit_version < 9")
    assert sorted(map(tuple, found.collect())) == [
        (1, "delete"),
        (2, "update_postimage"),
        (2, "update_preimage"),
    ]
    named = f"table_changes('{name}', 3, 3)"
    assert delta.sql(f"SELECT * FROM {named} JOIN {name} USING (name)").count() == 0
    assert delta.sql(f"SELECT * FROM {named}").count() == 1
    with pytest.raises(AnalysisException, match="99"):
        delta.sql("SELECT * FROM table_changes('" + name + "', 99)").collect()
    since = r"the feed has been on since version \d+, so begin with start=\d+"
    with pytest.raises(AnalysisException, match=since):
        delta.sql(f"SELECT * FROM table_changes('{name}', 0)").collect()


def test_an_error_says_how_to_switch_the_feed_on(delta: SparkSession, table: Path) -> None:
    cure = r"never on; set delta\.enableChangeDataFeed=true with ALTER TABLE \.\.\. SET TBLPROP"
    with pytest.raises(AnalysisException, match=cure):
        delta.sql(f"SELECT * FROM table_changes_by_path('{table}', 0)").collect()


@FULL
def test_a_row_may_have_defaults_only(delta: SparkSession, tmp_path: Path) -> None:
    name = f"delta.`{tmp_path}/t`"
    delta.sql(
        f"CREATE TABLE {name} (id BIGINT GENERATED ALWAYS AS IDENTITY, a INT DEFAULT 7, b STRING) "
        "USING delta TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    delta.sql(f"INSERT INTO {name} (a, b) VALUES (DEFAULT, DEFAULT), (DEFAULT, DEFAULT)")
    delta.sql(f"INSERT INTO {name} (b) VALUES (DEFAULT)")
    assert delta.sql(f"SELECT a, b FROM {name}").collect() == [(7, None)] * 3
    other = f"delta.`{tmp_path}/u`"
    delta.sql(f"CREATE TABLE {other} (id BIGINT GENERATED ALWAYS AS IDENTITY) USING delta")
    with pytest.raises(AnalysisException, match="the values of all columns are computed"):
        delta.sql(f"INSERT INTO {other} VALUES (DEFAULT)")


@FULL
def test_show_answers_from_the_log(delta: SparkSession, tmp_path: Path) -> None:
    name = f"delta.`{tmp_path}/t`"
    delta.sql(
        f"CREATE TABLE {name} (id BIGINT NOT NULL COMMENT 'it\\'s', p STRING, y BIGINT GENERATED "
        "ALWAYS AS (id + 1), v VARCHAR(3)) USING delta PARTITIONED BY (p) COMMENT 'c' "
        "TBLPROPERTIES ('a' = 'b')"
    )
    delta.sql(f"INSERT INTO {name} (id, p) VALUES (1, 'x'), (2, 'y'), (3, 'y')")
    assert delta.sql(f"SHOW COLUMNS IN {name}").collect() == [("id",), ("p",), ("y",), ("v",)]
    assert delta.sql(f"SHOW PARTITIONS {name}").collect() == [("x",), ("y",)]
    properties = dict(map(tuple, delta.sql(f"SHOW TBLPROPERTIES {name}").collect()))
    assert (properties["a"], properties["delta.minReaderVersion"]) == ("b", "1")
    assert delta.sql(f"SHOW TBLPROPERTIES {name} ('a')").collect() == [("a", "b")]
    (statement,) = delta.sql(f"SHOW CREATE TABLE {name}").first() or ("",)
    delta.sql(statement.replace(str(tmp_path / "t"), str(tmp_path / "u")))
    first, second = (DeltaLog(tmp_path / each).snapshot() for each in "tu")
    assert first.schema == second.schema
    assert first.metadata.configuration == second.metadata.configuration
    assert (second.partition_columns, second.metadata.description) == (("p",), "c")


def test_a_missing_table_is_named(delta: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="is not a Delta table"):
        delta.sql(f"DELETE FROM delta.`{tmp_path}/none`")


def test_statements_on_other_tables_stay_sparks(delta: SparkSession) -> None:
    delta.sql("CREATE TABLE plain (a INT, b STRING) USING parquet COMMENT 'c'")
    delta.sql("INSERT INTO plain VALUES (?, ?)", args=[1, "x"])
    delta.sql("INSERT OVERWRITE plain SELECT :a, 'y'", args={"a": 2})
    delta.sql("ALTER TABLE plain SET TBLPROPERTIES ('k' = 'v')")
    delta.sql("ALTER TABLE plain ADD COLUMNS (c INT)")
    assert delta.sql("SELECT * FROM plain WHERE b = {v}", v="y").collect() == [(2, "y", None)]
    assert delta.sql("DESCRIBE TABLE plain").count() == 3
    with pytest.raises(PySparkException):
        delta.sql("DELETE FROM plain")
    delta.sql("TRUNCATE TABLE plain")
    assert delta.table("plain").count() == 0


QUERIES = [
    "SELECT a, count(*) FROM VALUES (1, 'x'), (2, 'y') AS v(a, b) GROUP BY a",
    "WITH q AS (SELECT 1 AS a) SELECT * FROM q JOIN range(3) ON a = id",
    "/* DELETE FROM t */ SELECT 'DELETE FROM t'",
    "SHOW TABLES",
    "SET spark.sql.shuffle.partitions",
    "VALUES (1, 'a;b')",
    "FROM range(3) SELECT id",
    "DESCRIBE FUNCTION abs",
]


def test_other_statements_have_the_same_plan_without_registration(
    spark: SparkSession, delta: SparkSession
) -> None:
    def plans() -> list[str]:
        return [plan_of(delta.sql(each)) for each in QUERIES]

    routed = plans()
    ds.unregister(spark)
    try:
        assert plans() == routed
    finally:
        ds.register(spark)


def plan_of(found: DataFrame) -> str:
    """The logical plan without the numbers that differ for each plan."""
    frame: Any = found
    text: str = frame._jdf.queryExecution().analyzed().toString()
    return re.sub(r"#\d+L?|@[0-9a-f]+|(?<=CTERelationDef )\d+|(?<=CTERelationRef )\d+", "", text)


def test_sql_is_sparks_own_after_unregister(spark: SparkSession, table: Path) -> None:
    ds.register(spark)
    routed = SparkSession.sql
    ds.unregister(spark)
    try:
        assert SparkSession.sql is not routed
        with pytest.raises(PySparkException):
            spark.sql(f"OPTIMIZE delta.`{table}`")
    finally:
        ds.register(spark)  # for the module's fixture

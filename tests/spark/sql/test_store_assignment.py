"""Values of INSERT, UPDATE and MERGE: cast to their columns as Spark's CAST does, or rejected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.tables import DeltaTable

pytestmark = [pytest.mark.spark, pytest.mark.full]

TIMES = (
    "DATE'2026-11-30'",
    "TIMESTAMP'2026-11-30 00:00:00'",
    "TIMESTAMP_NTZ'2026-11-30 00:00:00'",
)
NUMBERS = ("1Y", "4L", "5.0F", "6.0D", "7BD", "true")
TAKEN: Mapping[str, Sequence[str]] = {
    "STRING": ("'x'", "1.50BD", "0.1F", "1e300D", "DATE'0001-01-01'", *NUMBERS, *TIMES),
    "TINYINT": ("'7'", "' 7 '", "'-07'", *NUMBERS),
    "BIGINT": ("'9223372036854775807'", *NUMBERS),
    "FLOAT": ("'7.5'", "'NaN'", "0.5BD", *NUMBERS),
    "DOUBLE": ("'1e3'", "0.1BD", "true"),
    "DECIMAL(9,2)": ("'7.5'", "'1.25'", "0.5D", *NUMBERS),
    "BOOLEAN": ("'yes'", "'FALSE'", "1", "0.0D", "true"),
    "DATE": ("'2026-11-30'", *TIMES),
    "TIMESTAMP": ("'2026-11-30 10:20:30.123456'", "'2026-11-30T10:20:30+02:00'", *TIMES),
    "TIMESTAMP_NTZ": ("'2026-11-30 10:20:30.123456'", *TIMES),
    "BINARY": ("'é'", "X'00ff'"),
}
"""Values by the type of the column that takes them."""
REJECTED: Mapping[str, Sequence[str]] = {
    "STRING": ("array(1)", "X'ff'", "parse_json('1')"),
    "INT": ("'x'", "'1.5'", "''", "1.5D", "3000000000L", "DATE'2026-11-30'", "1BD / 3"),
    "FLOAT": ("'x'", "16777217", "DATE'2026-11-30'"),
    "DECIMAL(9,2)": ("'x'", "0.125D", "'1e9'"),
    "BOOLEAN": ("2", "'maybe'", "DATE'2026-11-30'"),
    "DATE": ("'x'", "20261130", "TIMESTAMP'2026-11-30 10:00:00'"),
    "TIMESTAMP": ("'x'", "1", "true"),
    "TIMESTAMP_NTZ": ("'x'", "1.5D"),
    "BINARY": ("1", "true"),
}
DEPTHS = {
    "a column": ("{}", "{}"),
    "a map's key": ("MAP<{}, INT>", "map({}, 1)"),
    "deep down": (
        "ARRAY<STRUCT<m: MAP<STRING, ARRAY<{}>>>>",
        "array(named_struct('m', map('k', array({}))))",
    ),
}
WAYS = {
    "insert": "INSERT INTO t SELECT 2, {selected}",
    "insert by name": "INSERT INTO t BY NAME SELECT {named}, 2 AS id",
    "update": "UPDATE t SET {assigned}",
    "merge update": (
        "MERGE INTO t USING (SELECT 1 AS k) AS s ON id = k WHEN MATCHED THEN UPDATE SET {assigned}"
    ),
    "merge update all": (
        "MERGE INTO t USING (SELECT 1 AS id, {named}) AS s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET *"
    ),
    "merge insert": (
        "MERGE INTO t USING (SELECT 2 AS k) AS s ON id = k "
        "WHEN NOT MATCHED THEN INSERT (id, {columns}) VALUES (k, {selected})"
    ),
    "merge insert all": (
        "MERGE INTO t USING (SELECT 2 AS id, {named}) AS s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT *"
    ),
    "merge update by source": (
        "MERGE INTO t USING (SELECT 2 AS k) AS s ON id = k "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET {assigned}"
    ),
}


@pytest.fixture
def delta(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    """A session with a database of its own."""
    ds.register(spark)
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Europe/Amsterdam")
    session.sql(f"CREATE DATABASE shop LOCATION '{tmp_path}/shop'")
    session.sql("USE shop")
    yield session
    spark.sql("DROP DATABASE IF EXISTS shop CASCADE")
    ds.unregister(spark)


def statement(way: str, values: Mapping[str, str]) -> str:
    """The statement that gives these values to the columns of `t`."""
    return WAYS[way].format(
        selected=", ".join(values.values()),
        named=", ".join(f"{value} AS {name}" for name, value in values.items()),
        assigned=", ".join(f"{name} = {value}" for name, value in values.items()),
        columns=", ".join(values),
    )


def make_table(delta: SparkSession, types: Mapping[str, str]) -> None:
    columns = ", ".join(f"{name} {data_type}" for name, data_type in types.items())
    delta.sql(f"CREATE TABLE t (id INT, {columns}) USING delta")
    delta.sql("INSERT INTO t (id) VALUES (1)")


@pytest.mark.parametrize(
    ("depth", "ways"),
    [
        ("a column", list(WAYS)),
        *((depth, ["insert", "update", "merge insert all"]) for depth in list(DEPTHS)[1:]),
    ],
)
def test_a_value_is_stored_as_spark_casts_it(
    delta: SparkSession, depth: str, ways: list[str]
) -> None:
    pairs = [(taken, value) for taken, values in TAKEN.items() for value in values]
    of_type, of_value = DEPTHS[depth]
    types = {f"c{n}": of_type.format(taken) for n, (taken, _) in enumerate(pairs)}
    values = {f"c{n}": of_value.format(value) for n, (_, value) in enumerate(pairs)}
    casts = (f"CAST({values[name]} AS {taken}) AS {name}" for name, taken in types.items())
    wanted = str(delta.sql(f"SELECT {', '.join(casts)}").first())
    make_table(delta, types)
    for way in ways:
        delta.sql("DELETE FROM t WHERE id <> 1")
        delta.sql(f"UPDATE t SET {', '.join(f'{name} = NULL' for name in types)}")
        delta.sql(statement(way, values))
        rows = delta.table("t").where("c0 IS NOT NULL").drop("id").collect()
        assert str(rows[0]) == wanted, way


@pytest.mark.parametrize("depth", ["a column", "deep down"])
def test_a_value_that_a_cast_would_change_is_rejected(
    delta: SparkSession, tmp_path: Path, depth: str
) -> None:
    of_type, of_value = DEPTHS[depth]
    types = {f"c{n}": of_type.format(taken) for n, taken in enumerate(REJECTED)}
    make_table(delta, types)
    version = DeltaLog(tmp_path / "shop" / "t").snapshot().version
    for name, values in zip(types, REJECTED.values(), strict=True):
        for value in values:
            nulls = dict.fromkeys(types, "NULL")
            for way in ("insert", "update", "merge insert"):
                with pytest.raises(AnalysisException, match=name):
                    delta.sql(statement(way, {**nulls, name: of_value.format(value)}))
    assert DeltaLog(tmp_path / "shop" / "t").snapshot().version == version


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ("(1, 'x')", (1, "x")),
        ("('2', 3.5D)", (2, "3.5")),
        ("named_struct('y', 'b', 'x', 4)", (4, "b")),
        ("named_struct('x', 5, 'other', 'o')", (5, "o")),
        ("named_struct('Y', 'only')", (None, "only")),
    ],
)
def test_fields_without_a_name_of_the_table_are_matched_by_position(
    delta: SparkSession, value: str, stored: tuple[object, ...]
) -> None:
    make_table(delta, {"s": "STRUCT<x: INT, y: STRING>", "a": "ARRAY<STRUCT<x: INT, y: STRING>>"})
    delta.sql(f"INSERT INTO t SELECT 2, {value}, array({value})")
    delta.sql(f"SELECT 3, {value}, array({value})").write.insertInto("t")
    rows = delta.table("t").where("id > 1").select("s", "a").collect()
    assert rows == [(stored, [stored])] * 2


def test_a_struct_with_other_fields_is_rejected(delta: SparkSession) -> None:
    make_table(delta, {"s": "STRUCT<x: INT, y: STRING>"})
    for statement in (
        "INSERT INTO t SELECT 2, (1, 'x', 2)",
        "INSERT INTO t BY NAME SELECT 2 AS id, (1, 'x') AS s",
        "UPDATE t SET s = (1, 'x')",
    ):
        with pytest.raises(AnalysisException):
            delta.sql(statement)
    assert delta.table("t").count() == 1


def test_a_null_of_another_type_is_null(delta: SparkSession) -> None:
    make_table(delta, {"c": "INT", "a": "ARRAY<DATE>"})
    nulls = {"c": "CAST(NULL AS STRING)", "a": "CAST(NULL AS ARRAY<STRING>)"}
    for way in WAYS:
        delta.sql(statement(way, nulls))
    assert delta.table("t").where("c IS NOT NULL OR a IS NOT NULL").count() == 0


def test_the_methods_of_delta_table_cast_as_the_statements(delta: SparkSession) -> None:
    make_table(delta, {"c": "STRING", "d": "DATE"})
    table = DeltaTable.forName(delta, "t")
    table.update(set={"c": "1.5D", "d": "'2026-11-30'"})
    source = delta.sql("SELECT 2 AS id, true AS c, '2026-12-01' AS d")
    table.alias("t").merge(source.alias("s"), "t.id = s.id").whenNotMatchedInsertAll().execute()
    rows = delta.table("t").orderBy("id").collect()
    assert [(row["c"], str(row["d"])) for row in rows] == [
        ("1.5", "2026-11-30"),
        ("true", "2026-12-01"),
    ]


def test_insert_by_position_casts_as_the_statements(delta: SparkSession) -> None:
    make_table(delta, {"c": "STRING", "d": "DATE"})
    delta.sql("SELECT '2', 2.5D, '2026-11-30'").write.insertInto("t")
    assert delta.table("t").where("id = 2 AND c = '2.5' AND d = DATE'2026-11-30'").count() == 1

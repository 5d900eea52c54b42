"""Session variables change no path, name or value of a user; see `session_variables`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, col, lit
from delta_ops.ddl import add_constraint, create_table
from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration.io_manager.merge_settings import UPSERT, MergeSettings
from delta_ops.orchestration.io_manager.output_merge import OutputMerge, merge_rows
from delta_ops.protocol.schema import LONG, STRING, StructField, StructType
from delta_ops.spark.session.variables import escape_variables, names_like_variables
from delta_ops.tables.optimize_builder import partitions_of
from delta_ops.transaction import begin
from tests.spark.frames import rows_of
from tests.support.tables import rows

VARIABLE, HELD = "${x}", "a${x}b"
"""Column names; Spark would replace the first by the name of another column."""


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """A session that has the variables x and env."""
    spark.conf.set("x", "id")
    spark.conf.set("env", "prod")
    yield spark
    spark.conf.unset("x")
    spark.conf.unset("env")


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("`a` = 'b'", "`a` = 'b'"),
        ("s = '${x}'", "s = '$' '{x}'"),
        ('s = "${x}"', 's = "$" "{x}"'),
        (r"s = 'it\'s ${x}'", r"s = 'it\'s $' '{x}'"),
        ("`${x}` = 1", "IDENTIFIER('`$' '{x}`') = 1"),
        ("t.`${x}`.f IS NULL", "IDENTIFIER('t.`$' '{x}`.f') IS NULL"),
        ("`it's ``${x}``` > 0", "IDENTIFIER('`it\\'s ``$' '{x}```') > 0"),
        ("a = 1 -- `${x}`", "a = 1 -- `${x}`"),
        ("s = '`' AND t = '${x}`'", "s = '`' AND t = '$' '{x}`'"),
    ],
)
def test_a_text_is_written_so_that_nothing_is_replaced(text: str, escaped: str) -> None:
    assert escape_variables(text) == escaped
    assert escape_variables(escaped) == escaped


def test_in_a_text_of_a_user_only_names_of_columns_are_no_variables() -> None:
    fields = (StructField("id", LONG), StructField("s", StructType((StructField(VARIABLE, LONG),))))
    names = names_like_variables(StructType(fields))
    assert names == {VARIABLE}
    text = "s.`${x}` = '${day}' AND `${other}` = 1"
    expected = "IDENTIFIER('s.`$' '{x}`') = '${day}' AND `${other}` = 1"
    assert escape_variables(text, names) == expected
    assert escape_variables(text, frozenset()) == text


@pytest.mark.spark
def test_a_path_is_no_text_of_sql(session: SparkSession, tmp_path: Path) -> None:
    ds.register(session)
    try:
        frame = session.range(2)
        place = tmp_path / "it's a \\ lake${env}"
        frame.write.format("delta").option("path", str(place)).saveAsTable("held_by_a_variable")
        frame.write.format("delta").mode("append").saveAsTable("held_by_a_variable")
        assert session.table("held_by_a_variable").count() == 4
        assert [each.name for each in tmp_path.iterdir()] == [place.name]
        assert DeltaLog(place).snapshot().version == 1
    finally:
        session.sql("DROP TABLE IF EXISTS held_by_a_variable")
        ds.unregister(session)


@pytest.mark.full
@pytest.mark.full
@pytest.mark.spark
@pytest.mark.parametrize(
    "name",
    [
        VARIABLE,
        pytest.param(HELD, marks=pytest.mark.full),
        pytest.param("${env:HOME}", marks=pytest.mark.full),
    ],
)
@pytest.mark.parametrize("vectors", ["false", pytest.param("true", marks=pytest.mark.full)])
def test_a_name_of_a_column_is_no_variable(
    session: SparkSession, tmp_path: Path, name: str, vectors: str
) -> None:
    quoted = f"`{name}`"
    data = pa.table({"id": [1, 2, 3, 4], name: ["1", "2", "3", "4"]})
    settings = {"delta.enableDeletionVectors": vectors, "delta.columnMapping.mode": "name"}
    da.write(tmp_path, data, configuration=settings)
    assert rows_of(ds.read(session, tmp_path).filter(sf.col(quoted) == "1")) == rows(
        data.slice(0, 1)
    )
    ds.update(session, tmp_path, {quoted: f"concat({quoted}, '!')"}, f"{quoted} = '1'")
    ds.delete(session, tmp_path, sf.col(quoted) == "2")
    source = pa.table({"id": [30, 50], name: ["3", "5"]})
    merge = ds.merge(
        tmp_path, session.createDataFrame(source), f"target.{quoted} = source.{quoted}"
    )
    merge = merge.when_matched_update({"id": "source.id"}, f"source.{quoted} = '3'")
    merge.when_not_matched_insert_all(f"source.{quoted} > '3'").execute()
    assert rows(da.to_table(tmp_path)) == [
        {"id": 1, name: "1!"},
        {"id": 30, name: "3"},
        {"id": 4, name: "4"},
        {"id": 50, name: "5"},
    ]


@pytest.mark.full
@pytest.mark.spark
def test_a_value_is_no_variable(session: SparkSession, tmp_path: Path) -> None:
    made = StructField("g", STRING, metadata={"delta.generationExpression": "concat(s, '${env}')"})
    fields = (StructField("id", LONG), StructField("s", STRING), made)
    create_table(tmp_path, StructType(fields))
    add_constraint(tmp_path, "c", "s <> '${env}'")
    ds.write(session.sql("SELECT 1L AS id, 'prod' AS s"), tmp_path)
    ds.update(session, tmp_path, {"s": lit(VARIABLE)}, col("s") == "prod")
    assert da.to_table(tmp_path).to_pylist() == [{"id": 1, "s": VARIABLE, "g": "${x}${env}"}]
    with pytest.raises(InvalidRequestError, match="is not true"):
        ds.update(session, tmp_path, {"s": lit("${env}")})
    ds.update(session, tmp_path, {"s": "'${env}'"}, "s = '${x}'")  # in a text Spark replaces them
    assert da.to_table(tmp_path)["s"].to_pylist() == [VARIABLE]
    ds.delete(session, tmp_path, col("s") == VARIABLE)
    assert len(da.to_table(tmp_path)) == 0


@pytest.mark.full
@pytest.mark.spark
def test_merges_of_assets_hold_no_variables(session: SparkSession, tmp_path: Path) -> None:
    data = pa.table({VARIABLE: ["1", "${env}"], "id": [1, 2], "n": [1, 1]})
    da.write(tmp_path, data, configuration={"delta.columnMapping.mode": "name"})
    source = pa.table({VARIABLE: ["${env}"], "id": [5], "n": [2]})
    settings = MergeSettings(
        keys=(VARIABLE,), predicate="target.n = ${one} AND target.`${x}` > ''", clauses=UPSERT
    )
    session.conf.set("one", "1")
    try:
        merge = OutputMerge(
            settings=settings,
            txns=(),
            among=col(VARIABLE) == "${env}",
            merge_schema=False,
            partition_by=None,
            configuration=None,
            user_metadata=None,
            hooks=(),
        )
        merge_rows(begin(DeltaLog(tmp_path)), session.createDataFrame(source), merge)
    finally:
        session.conf.unset("one")
    assert rows(da.to_table(tmp_path)) == rows(pa.concat_tables([data.slice(0, 1), source]))


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.parametrize("name", ["_metadata", "_tmp_metadata_row_index"])
def test_names_of_sparks_own_columns_are_names_of_a_table(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    data = pa.table({"id": [1, 2, 3], name: ["a", "b", "c"]})
    da.write(tmp_path, data, configuration={"delta.columnMapping.mode": "name"})
    assert rows_of(ds.read(spark, tmp_path, predicate=col(name) == "b")) == rows(data.slice(1, 1))
    ds.delete(spark, tmp_path, f"`{name}` = 'a'")
    ds.update(spark, tmp_path, {name: "concat(id, 'z')"}, f"{name} = 'b'")
    merge = ds.merge(tmp_path, spark.createDataFrame(data), f"target.{name} = source.{name}")
    merge.when_matched_delete().when_not_matched_insert_all("source.id = 1").execute()
    expected = pa.table({"id": [1, 2], name: ["a", "2z"]})
    assert rows(da.to_table(tmp_path)) == rows(expected)


@pytest.mark.spark
def test_a_filter_of_partitions_names_them(session: SparkSession, tmp_path: Path) -> None:
    data = pa.table({"id": [1, 2], VARIABLE: ["a", "prod"]})
    named = {"delta.columnMapping.mode": "name"}
    da.write(tmp_path, data, partition_by=[VARIABLE], configuration=named)
    snapshot = DeltaLog(tmp_path).snapshot()
    (chosen,) = snapshot.add_files(partitions_of(session, snapshot, ["`${x}` = '${env}'"]))
    assert "prod" in chosen.partition_values.values()

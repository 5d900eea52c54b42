"""delta-spark's builders: merges, new tables and optimizes, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, ParseException, UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import IntegerType, StringType, StructField, StructType, VarcharType

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.tables import DeltaTable, IdentityGenerator
from tests.support.tables import rows

pytestmark = pytest.mark.spark

ITEMS = pa.table({"key": ["a", "b", "c", "d"], "value": [1, 2, 3, 4]})
AUTO_MERGE = "spark.databricks.delta.schema.autoMerge.enabled"


@pytest.fixture
def items(spark: SparkSession, tmp_path: Path) -> DeltaTable:
    da.write(tmp_path / "items", ITEMS)
    return DeltaTable.forPath(spark, str(tmp_path / "items"))


@pytest.fixture
def news(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("a", -1), ("b", 0), ("e", -5)], "k string, v bigint")


@pytest.fixture
def auto_merge(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(AUTO_MERGE, "true")
    yield
    spark.conf.unset(AUTO_MERGE)


def values(table: DeltaTable) -> dict[str, int]:
    return {row["key"]: row["value"] for row in table.toDF().collect()}


@pytest.mark.full
def test_a_merge_says_how_many_rows_it_changed(items: DeltaTable, news: DataFrame) -> None:
    done = (
        items.merge(news, "key = k")
        .whenMatchedUpdate("k = 'a'", {"value": "v + 0"})
        .whenMatchedDelete()
        .whenNotMatchedInsert(values={"key": "k", "value": sf.col("v") * 2})
        .whenNotMatchedBySourceUpdate("key = 'c'", {"value": "value + 1"})
        .whenNotMatchedBySourceDelete()
        .execute()
    )
    assert done.dtypes == [
        ("num_affected_rows", "bigint"),
        ("num_updated_rows", "bigint"),
        ("num_deleted_rows", "bigint"),
        ("num_inserted_rows", "bigint"),
    ]
    assert [tuple(row) for row in done.collect()] == [(5, 2, 2, 1)]
    assert values(items) == {"a": -1, "c": 4, "e": -10}


def test_a_merge_of_nothing_changes_nothing(items: DeltaTable, news: DataFrame) -> None:
    done = items.merge(news.where("k = 'z'"), "key = k").whenMatchedDelete().execute()
    assert [tuple(row) for row in done.collect()] == [(0, 0, 0, 0)]
    assert items.history().count() == 1


SOURCES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "an alias": lambda rows: rows.alias("s"),
    "an alias before a filter": lambda rows: rows.alias("s").where("s.k != 'z'"),
    "an alias before another column": lambda rows: rows.alias("s").withColumn("w", sf.col("v")),
}


@pytest.mark.parametrize(
    ("name", "as_column"),
    [
        ("an alias", False),
        ("an alias before a filter", True),
        pytest.param("an alias before another column", False, marks=pytest.mark.full),
        pytest.param("an alias", True, marks=pytest.mark.full),
    ],
)
def test_a_merge_knows_both_sides_by_their_aliases(
    items: DeltaTable,
    news: DataFrame,
    name: str,
    *,
    as_column: bool,
) -> None:
    condition = sf.col("t.key") == sf.col("s.k") if as_column else "t.key = s.k"
    items.alias("t").merge(SOURCES[name](news), condition).whenMatchedUpdate(
        set={"t.value": "s.v"}
    ).whenNotMatchedInsert(values={"t.key": "s.k", "t.value": sf.col("s.v")}).execute()
    assert values(items) == {"a": -1, "b": 0, "c": 3, "d": 4, "e": -5}


@pytest.mark.full
def test_a_view_is_known_by_its_name(items: DeltaTable, news: DataFrame) -> None:
    news.createOrReplaceTempView("updates")
    source = news.sparkSession.table("updates")
    items.alias("t").merge(source, "t.key = updates.k").whenMatchedUpdate(
        set={"value": "updates.v"}
    ).execute()
    assert values(items) == {"a": -1, "b": 0, "c": 3, "d": 4}


@pytest.mark.full
def test_all_columns_match_the_table(items: DeltaTable, news: DataFrame) -> None:
    more = news.selectExpr("k AS key", "v AS value", "1 AS extra").alias("s")
    items.alias("t").merge(more, "t.key = s.key").whenMatchedUpdateAll(
        "s.key = 'a'"
    ).whenNotMatchedInsertAll().execute()
    assert values(items) == {"a": -1, "b": 2, "c": 3, "d": 4, "e": -5}
    assert items.toDF().columns == ["key", "value"]
    less = news.selectExpr("k AS key").alias("s")
    with pytest.raises(AnalysisException, match="no column value"):
        items.alias("t").merge(less, "t.key = s.key").whenMatchedUpdateAll().execute()


def evolved(table: DeltaTable) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in table.toDF().collect())


AS_EVOLVED = [("a", 1, -1), ("b", 2, -1), ("c", 3, None), ("d", 4, None), ("e", None, -5)]


@pytest.mark.full
def test_a_source_that_was_joined_keeps_its_aliases(
    spark: SparkSession, items: DeltaTable, news: DataFrame
) -> None:
    more = spark.createDataFrame([("a", 10), ("e", 20), ("z", 30)], "key string, extra long")
    joined = news.alias("n").join(more.alias("m"), sf.col("n.k") == sf.col("m.key"), "left")
    joined = joined.withColumn("value", sf.lit(7))
    items.alias("t").merge(joined, "t.key = n.k").whenMatchedUpdate(
        "m.extra IS NOT NULL", {"value": sf.col("m.extra") + sf.col("t.value")}
    ).whenNotMatchedInsert(values={"key": "n.k", "value": "coalesce(m.extra, n.v)"}).execute()
    assert values(items) == {"a": 11, "b": 2, "c": 3, "d": 4, "e": 20}
    items.alias("t").merge(
        joined.where("m.key = 'a'"), "t.key = m.key"
    ).whenMatchedUpdateAll().execute()
    assert values(items)["a"] == 7
    with pytest.raises(AnalysisException, match="both called"):
        items.alias("M").merge(joined, "m.key = n.k").whenMatchedDelete().execute()


def test_columns_of_the_source_are_added_if_the_merge_says_so(
    items: DeltaTable, news: DataFrame
) -> None:
    items.alias("t").merge(
        news.toDF("key", "extra").alias("s"), sf.expr("t.key = s.key")
    ).whenMatchedUpdate(
        set={"extra": "-1"}
    ).whenNotMatchedInsertAll().withSchemaEvolution().execute()
    assert evolved(items) == [(k, v, e) for k, v, e in AS_EVOLVED]


@pytest.mark.full
def test_a_column_that_a_clause_sets_is_added_if_the_source_has_it(
    items: DeltaTable, news: DataFrame
) -> None:
    items.alias("t").merge(news.toDF("key", "extra").alias("s"), "t.key = s.key").whenMatchedUpdate(
        set={"t.extra": "s.extra + 1"}
    ).withSchemaEvolution().execute()
    assert evolved(items) == [("a", 1, 0), ("b", 2, 1), ("c", 3, None), ("d", 4, None)]


@pytest.mark.full
@pytest.mark.usefixtures("auto_merge")
def test_columns_of_the_source_are_added_if_the_session_says_so(
    items: DeltaTable, news: DataFrame
) -> None:
    items.alias("t").merge(news.toDF("key", "extra").alias("s"), "t.key = s.key").whenMatchedUpdate(
        set={"extra": "-1"}
    ).whenNotMatchedInsertAll().execute()
    assert evolved(items) == AS_EVOLVED


@pytest.mark.full
def test_each_step_of_a_merge_is_a_builder_of_its_own(items: DeltaTable, news: DataFrame) -> None:
    begun = items.merge(news, "key = k")
    begun.whenMatchedDelete()
    begun.whenMatchedUpdate(set={"value": "v"}).execute()
    assert values(items) == {"a": -1, "b": 0, "c": 3, "d": 4}
    with pytest.raises(AnalysisException, match="clause"):
        begun.execute()


@pytest.mark.parametrize(
    ("step", "error", "words"),
    [
        (lambda t, s: t.merge(1, "key = k"), TypeError, "must be DataFrame"),
        (lambda t, s: t.merge(None, "key = k"), ValueError, "cannot be None"),
        (lambda t, s: t.merge(s, None), ValueError, "cannot be None"),
        (lambda t, s: t.merge(s, 1), TypeError, "Column or a string"),
        (
            lambda t, s: t.merge(s, "key = k").whenMatchedUpdate(),
            ValueError,
            "'set' in whenMatchedUpdate cannot be None",
        ),
        (
            lambda t, s: t.merge(s, "key = k").whenNotMatchedInsert(values={"key": 1}),
            TypeError,
            "'values' in whenNotMatchedInsert must contain only",
        ),
        (
            lambda t, s: t.merge(s, "key = k").whenNotMatchedBySourceDelete(1),
            TypeError,
            "Column or a string",
        ),
    ],
)
def test_a_step_of_a_merge_refuses_values_of_other_types(
    items: DeltaTable,
    news: DataFrame,
    step: Callable[[DeltaTable, DataFrame], Any],
    error: type[Exception],
    words: str,
) -> None:
    with pytest.raises(error, match=words):
        step(items, news)


def test_a_table_is_made_column_by_column(spark: SparkSession, tmp_path: Path) -> None:
    table = (
        DeltaTable.create(spark)
        .location(str(tmp_path))
        .addColumn("id", "bigint", generatedAlwaysAs=IdentityGenerator(start=10, step=5))
        .addColumn("a", "int", nullable=False, comment="first")
        .addColumn("b", IntegerType(), generatedAlwaysAs="a + 10")
        .addColumns([StructField("c", VarcharType(3)), StructField("d", StringType())])
        .addColumns(StructType([StructField("p", StringType())]))
        .partitionedBy("p")
        .property("owner", "me")
        .comment("a table")
        .execute()
    )
    ds.write(spark.sql("SELECT 1 AS a, 'abc' AS c, 'd' AS d, 'x' AS p"), tmp_path)
    assert rows(da.to_table(tmp_path)) == [
        {"id": 10, "a": 1, "b": 11, "c": "abc", "d": "d", "p": "x"}
    ]
    (found,) = table.detail().collect()
    assert (found["description"], found["partitionColumns"]) == ("a table", ["p"])
    assert found["properties"]["owner"] == "me"
    field = DeltaLog(tmp_path).snapshot().schema.fields_by_lower_name["a"][0]
    assert (field.nullable, field.metadata) == (False, {"comment": "first"})


def test_a_table_is_made_replaced_or_left_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    with pytest.raises(AnalysisException, match="not a Delta table"):
        DeltaTable.replace(spark).location(place).addColumn("a", "int").execute()
    DeltaTable.createOrReplace(spark).tableName(f"delta.`{place}`").addColumn("a", "int").execute()
    with pytest.raises(AnalysisException, match="already"):
        DeltaTable.create(spark).location(place).addColumn("b", "int").execute()
    kept = DeltaTable.createIfNotExists().location(place).addColumn("b", "int").execute()
    assert kept.toDF().columns == ["a"]
    replaced = DeltaTable.replace(spark).location(place).addColumn("c", "int").clusterBy("c")
    (found,) = replaced.execute().detail().collect()
    assert (found["clusteringColumns"], kept.toDF().columns) == (["c"], ["c"])


@pytest.mark.parametrize(
    ("step", "error"),
    [
        (lambda b: b.tableName(1), TypeError),
        (lambda b: b.location(1), TypeError),
        (lambda b: b.comment(1), TypeError),
        (lambda b: b.addColumn(1, "int"), TypeError),
        (lambda b: b.addColumn("a", 1), TypeError),
        (lambda b: b.addColumn("a", "1"), ParseException),
        (lambda b: b.addColumn("a", "int", nullable=1), TypeError),
        (lambda b: b.addColumn("a", "int", comment=1), TypeError),
        (lambda b: b.addColumn("a", "int", generatedAlwaysAs=1), TypeError),
        (lambda b: b.addColumn("a", "int", generatedByDefaultAs="1"), TypeError),
        (
            lambda b: b.addColumn("a", "bigint", generatedAlwaysAs=IdentityGenerator(step=0)),
            ValueError,
        ),
        (
            lambda b: b.addColumn("a", "bigint", True, "1", IdentityGenerator()),
            ValueError,
        ),
        (
            lambda b: b.addColumn("a", "int", generatedAlwaysAs=IdentityGenerator()),
            UnsupportedOperationException,
        ),
        (lambda b: b.addColumns(1), TypeError),
        (lambda b: b.addColumns([StructField("a", IntegerType()), 1]), TypeError),
        (lambda b: b.partitionedBy(1, "a"), TypeError),
        (lambda b: b.partitionedBy([1]), TypeError),
        (lambda b: b.clusterBy(1), TypeError),
        (lambda b: b.property("a", 1), TypeError),
        (lambda b: b.execute(), AnalysisException),
        (lambda b: b.tableName("a_name").addColumn("a", "int").execute(), AnalysisException),
        (
            lambda b: b.location("/nowhere/t").tableName("delta.`/nowhere/u`").execute(),
            AnalysisException,
        ),
    ],
)
def test_a_step_of_a_new_table_refuses_what_does_not_fit(
    spark: SparkSession, step: Callable[[Any], Any], error: type[Exception]
) -> None:
    ds.unregister(spark)  # other tests may have left it registered
    with pytest.raises(error):
        step(DeltaTable.create(spark))


@pytest.fixture
def scattered(spark: SparkSession, tmp_path: Path) -> DeltaTable:
    """Two partitions of two files each."""
    for day in ("2026-01-01", "2026-01-02"):
        for x in (1, 2):
            da.write(tmp_path, pa.table({"day": [day], "x": [x]}), partition_by=["day"])
    return DeltaTable.forPath(spark, str(tmp_path))


def test_small_files_become_one_in_each_partition(scattered: DeltaTable) -> None:
    (done,) = scattered.optimize().executeCompaction().collect()
    metrics = done["metrics"]
    assert (metrics["numFilesAdded"], metrics["numFilesRemoved"]) == (2, 4)
    assert (metrics["partitionsOptimized"], metrics["totalFilesSkipped"]) == (2, 0)
    removed = metrics["filesRemoved"]
    assert removed["min"] * 4 <= removed["totalSize"] <= removed["max"] * 4
    assert metrics["zOrderStats"] is None
    (again,) = scattered.optimize().executeCompaction().collect()
    assert (again["metrics"]["numFilesRemoved"], again["metrics"]["totalConsideredFiles"]) == (0, 2)


def test_only_selected_partitions_are_compacted(scattered: DeltaTable) -> None:
    done = scattered.optimize().where("day > '2026-01-01'").executeCompaction()
    assert [row.metrics.numFilesRemoved for row in done.collect()] == [2]
    newest = scattered.history(1).first()
    assert newest
    assert newest["operationParameters"]["predicate"] == """["('day > 2026-01-01)"]"""


@pytest.mark.parametrize("argument", ["x = 1", "x + 1 = 2"], ids=["a predicate", "an expression"])
def test_a_filter_of_partitions_looks_at_partition_columns_only(
    scattered: DeltaTable, argument: str
) -> None:
    with pytest.raises(AnalysisException) as refused:
        scattered.optimize().where(argument).executeCompaction()
    assert (
        "Predicate references non-partition column 'x'. Only the partition columns may be "
        "referenced: [day]" in str(refused.value)
    )


@pytest.mark.full
@pytest.mark.parametrize(
    ("argument", "num_removed"),
    [
        ("cast(day AS date) > date_sub(DATE'2026-01-03', 2)", 2),
        pytest.param("substr(day, 1, 4) = '2025'", 0, marks=pytest.mark.full),
        pytest.param("day LIKE '2026%'", 4, marks=pytest.mark.full),
    ],
)
def test_a_filter_of_partitions_is_any_condition_of_sparks(
    scattered: DeltaTable, argument: str, num_removed: int
) -> None:
    done = scattered.optimize().where(argument).executeCompaction().collect()
    assert [row.metrics.numFilesRemoved for row in done] == [num_removed]


@pytest.mark.full
def test_rows_are_ordered_by_several_columns(spark: SparkSession, tmp_path: Path) -> None:
    for start in (0, 50):
        rows_of_file = spark.range(start, start + 50).selectExpr("id % 7 AS a", "id % 27 AS b")
        ds.write(rows_of_file.coalesce(1), tmp_path)
    table = DeltaTable.forPath(spark, str(tmp_path))
    (done,) = table.optimize().executeZOrderBy("a", "b").collect()
    metrics = done["metrics"]
    assert (metrics["numFilesAdded"], metrics["numFilesRemoved"]) == (1, 2)
    stats = metrics["zOrderStats"]
    assert (stats["strategyName"], stats["numOutputCubes"], stats["mergedFiles"]["num"]) == (
        "all",
        1,
        2,
    )
    newest = table.history(1).first()
    assert newest
    assert newest["operationParameters"]["zOrderBy"] == '["a","b"]'
    assert table.toDF().count() == 100


def test_rows_are_not_ordered_by_a_partition_column(scattered: DeltaTable) -> None:
    with pytest.raises(AnalysisException) as refused:
        scattered.optimize().executeZOrderBy(["day"])
    assert "day is a partition column. Z-Ordering can only be performed on data columns" in str(
        refused.value
    )
    with pytest.raises(TypeError):
        scattered.optimize().executeZOrderBy([1])  # type: ignore[list-item]

"""Column lineage from Spark's plan: the inputs for each kind of node, and omissions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, col
from delta_ops.spark.lineage.column_lineage import column_lineage, remember_input
from delta_ops.spark.lineage.plan_description import MOST_PARTS
from tests.spark.conftest import switch_off_file_index

pytestmark = pytest.mark.spark

Lineage = dict[str, set[str]]


@pytest.fixture(scope="module")
def frames(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, DataFrame]]:
    """Two inputs that are also views, `o` and `p`."""
    lake = tmp_path_factory.mktemp("lake")
    rows = {
        "o": pa.table({"k": [1, 2, 3], "a": [4, 5, 6], "b": [7, 8, 9], "t": ["1,2", "3", None]}),
        "p": pa.table({"k": [1, 2, 4], "c": [1, 2, 3], "j": ['{"m": 1}', "{}", None]}),
    }
    loaded = {}
    for name, table in rows.items():
        da.write(lake / name, table)
        loaded[name] = ds.read(spark, DeltaLog(lake / name))
        remember_input(loaded[name], name)
        loaded[name].createOrReplaceTempView(name)
    yield loaded
    for name in rows:
        spark.catalog.dropTempView(name)


def lineage(frame: DataFrame) -> Lineage:
    found = column_lineage(frame)
    return {
        name: {f"{each.input}.{each.column}" for each in columns} for name, columns in found.items()
    }


def same(*names: str, of: str = "o") -> Lineage:
    """Columns that are passed on as they are."""
    return {name: {f"{of}.{name}"} for name in names}


WHOLE = same("k", "a", "b", "t")

SQL: list[tuple[str, str, Lineage]] = [
    ("an input itself", "SELECT * FROM o", WHOLE),
    ("other names", "SELECT a AS x, b AS a FROM o", {"x": {"o.a"}, "a": {"o.b"}}),
    ("expressions", "SELECT cast(a + b AS string) x, 1 y, now() z FROM o", {"x": {"o.a", "o.b"}}),
    ("conditions", "SELECT CASE WHEN a > 1 THEN 'l' ELSE t END x FROM o", {"x": {"o.a", "o.t"}}),
    ("a default", "SELECT coalesce(a, b, 0) x, nullif(a, b) y FROM o",
     {"x": {"o.a", "o.b"}, "y": {"o.a", "o.b"}}),
    ("a filter, an order, a limit", "SELECT a FROM o WHERE b > 7 ORDER BY t LIMIT 2", same("a")),
    ("a name within its list", "SELECT a + 1 AS x, x * b AS y FROM o",
     {"x": {"o.a"}, "y": {"o.a", "o.b"}}),
    ("aggregates", "SELECT k, sum(a) x, count(*) n, count_if(b > 1) m FROM o GROUP BY k",
     {"k": {"o.k"}, "x": {"o.a"}, "m": {"o.b"}}),
    ("FILTER and HAVING",
     "SELECT sum(a) FILTER (WHERE b > 1) x FROM o GROUP BY k HAVING max(t) > ''",
     {"x": {"o.a"}}),
    ("the order of an aggregate", "SELECT listagg(t) WITHIN GROUP (ORDER BY t, a) x, "
     "max_by(a, b) y FROM o", {"x": {"o.t"}, "y": {"o.a"}}),
    ("windows", "SELECT sum(a) OVER (PARTITION BY k ORDER BY b) x, rank() OVER (ORDER BY a) r, "
     "row_number() OVER (ORDER BY a) n, lag(t, 1, cast(b AS string)) OVER (ORDER BY a) l FROM o",
     {"x": {"o.a"}, "l": {"o.t", "o.b"}}),
    ("a rollup", "SELECT k, a, sum(b) x, grouping_id() g FROM o GROUP BY ROLLUP (k, a)",
     {**same("k", "a"), "x": {"o.b"}}),
    ("a cube of what is summed", "SELECT a, sum(a) x FROM o GROUP BY CUBE (a, b)",
     {"a": {"o.a"}, "x": {"o.a"}}),
    ("distinct rows", "SELECT DISTINCT a, b FROM o", same("a", "b")),
    ("a join", "SELECT a, c, o.k FROM o JOIN p ON o.k = p.k", {**same("a", "k"), "c": {"p.c"}}),
    ("a right join by name", "SELECT k, a FROM o RIGHT JOIN p USING (k)",
     {"k": {"p.k"}, **same("a")}),
    ("a full join by name", "SELECT k FROM o FULL JOIN p USING (k)", {"k": {"o.k", "p.k"}}),
    ("a semi-join", "SELECT * FROM o LEFT SEMI JOIN p ON o.k = p.k", WHOLE),
    ("a self-join", "SELECT x.a, y.b, x.a + y.a AS z FROM o x JOIN o y ON x.k = y.b",
     {**same("a", "b"), "z": {"o.a"}}),
    ("a self-join of sums", "SELECT x.a AS q, y.s FROM o x JOIN (SELECT k, sum(b) s FROM o "
     "GROUP BY k) y ON x.k = y.k", {"q": {"o.a"}, "s": {"o.b"}}),
    ("a union", "SELECT a, t FROM o UNION ALL SELECT c, j FROM p",
     {"a": {"o.a", "p.c"}, "t": {"o.t", "p.j"}}),
    ("a union with itself", "SELECT a, b FROM o UNION ALL SELECT b, a FROM o",
     {"a": {"o.a", "o.b"}, "b": {"o.a", "o.b"}}),
    ("a union of unions that uses one column twice",
     "SELECT a FROM (SELECT a FROM o UNION SELECT c FROM p) UNION ALL SELECT a FROM o",
     {"a": {"o.a", "p.c"}}),
    ("a union with other types", "SELECT a FROM o UNION ALL SELECT j FROM p",
     {"a": {"o.a", "p.j"}}),
    ("a union with values", "SELECT a FROM o UNION ALL SELECT 1", same("a")),
    ("except", "SELECT a FROM o EXCEPT SELECT c FROM p", same("a")),
    ("intersect", "SELECT a FROM o INTERSECT ALL SELECT c FROM p", same("a")),
    ("table expressions", "WITH x AS (SELECT k, a + b AS s FROM o), y AS (SELECT k, s AS r FROM x) "
     "SELECT x.s, y.r, y.k FROM x JOIN y ON x.k = y.k",
     {"s": {"o.a", "o.b"}, "r": {"o.a", "o.b"}, "k": {"o.k"}}),
    ("table expressions in a subquery", "WITH x AS (SELECT c FROM p) "
     "SELECT (SELECT max(c) FROM x) m, a FROM o", {"m": {"p.c"}, **same("a")}),
    ("a recursive table expression", "WITH RECURSIVE r(n) AS (SELECT min(a) FROM o UNION ALL "
     "SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r", {}),
    ("a correlated subquery", "SELECT a, (SELECT max(c) FROM p WHERE p.k = o.k) m FROM o",
     {**same("a"), "m": {"p.c"}}),
    ("a subquery that is a condition", "SELECT a IN (SELECT c FROM p) i, EXISTS (SELECT 1 FROM p "
     "WHERE p.k = o.k) e FROM o WHERE k IN (SELECT k FROM p)", {"i": {"o.a", "p.c"}}),
    ("a lateral join", "SELECT a, z FROM o, LATERAL (SELECT o.b + c AS z FROM p WHERE p.k = o.k)",
     {**same("a"), "z": {"o.b", "p.c"}}),
    ("a generator", "SELECT a, e FROM o LATERAL VIEW explode(split(t, ',')) AS e",
     {**same("a"), "e": {"o.t"}}),
    ("positions", "SELECT posexplode(array(a, b)) FROM o", {"col": {"o.a", "o.b"}}),
    ("keys and values", "SELECT explode(map(a, b)) FROM o", {}),
    ("an array of structs", "SELECT inline(array(struct(a, b))) FROM o", {}),
    ("a stack", "SELECT stack(2, 'x', a, k, 'y', b, k) AS (n, v, w) FROM o",
     {"v": {"o.a", "o.b"}, "w": {"o.k"}}),
    ("fields of JSON", "SELECT x FROM p LATERAL VIEW json_tuple(j, 'm', 'n') AS x, y",
     {"x": {"p.j"}}),
    ("a struct's fields", "SELECT s, s.a AS x FROM (SELECT struct(a, b) AS s FROM o)",
     {"s": {"o.a", "o.b"}, "x": {"o.a"}}),
    ("fields of the greatest struct", "SELECT max(struct(b, a)).a AS x FROM o", {"x": {"o.a"}}),
    ("fields of a struct of a union", "SELECT s.a FROM (SELECT struct(a, b) s FROM o UNION ALL "
     "SELECT struct(c, k) FROM p)", {"a": {"o.a", "p.c"}}),
    ("fields of a struct that nobody follows", "SELECT array(struct(a, b))[0].a x, "
     "array(struct(a, b)).b y, array(struct(a)).a z FROM o", {"z": {"o.a"}}),
    ("lambdas", "SELECT transform(array(a), x -> x + b) x FROM o", {"x": {"o.a", "o.b"}}),
    ("a pivot", "SELECT * FROM (SELECT k, a, t FROM o) PIVOT (sum(a) FOR t IN ('3' AS three))",
     {"k": {"o.k"}, "three": {"o.a", "o.t"}}),
    ("an unpivot", "SELECT * FROM (SELECT k, a, b FROM o) UNPIVOT (v FOR n IN (a, b))",
     {"k": {"o.k"}, "v": {"o.a", "o.b"}}),
    ("a sample and a hint", "SELECT /*+ REPARTITION(2) */ a FROM o TABLESAMPLE (3 ROWS)",
     same("a")),
    ("rows that are no input", "SELECT o.a, x, o.a + x AS y FROM o, VALUES (1) AS v(x)", same("a")),
    ("a range", "SELECT id, id + a AS x FROM o, range(2)", {"x": {"o.a"}}),
]  # fmt: skip


@pytest.mark.some_cases(10)
@pytest.mark.parametrize(("query", "wanted"), [pytest.param(*q, id=name) for name, *q in SQL])
def test_the_plan_shows_lineage(
    spark: SparkSession, frames: dict[str, DataFrame], query: str, wanted: Lineage
) -> None:
    assert lineage(spark.sql(query)) == wanted


def doubled(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def one_row(frame: Any) -> Any:
    return frame


STEPS: list[tuple[str, Callable[[DataFrame, DataFrame], DataFrame], Lineage]] = [
    ("columns that are added, renamed and dropped",
     lambda o, p: o.withColumn("x", sf.col("a") * 2).withColumnRenamed("b", "y").drop("t", "a"),
     {"k": {"o.k"}, "x": {"o.a"}, "y": {"o.b"}}),
    ("a self-join by name", lambda o, p: o.join(o.select("k", sf.col("a").alias("z")), "k"),
     {**WHOLE, "z": {"o.a"}}),
    ("a union by name", lambda o, p: o.unionByName(p, allowMissingColumns=True),
     {**WHOLE, "k": {"o.k", "p.k"}, "c": {"p.c"}, "j": {"p.j"}}),
    ("repeated rows that are dropped", lambda o, p: o.dropDuplicates(["a"]), WHOLE),
    ("rows that are kept in memory", lambda o, p: o.select("a").cache(), same("a")),
    ("what is made of rows in memory",
     lambda o, p: o.cache().groupBy("k").agg(sf.max("a").alias("m")), {"k": {"o.k"}, "m": {"o.a"}}),
    ("partitions", lambda o, p: o.repartition(2, "k").coalesce(1).sortWithinPartitions("b"), WHOLE),
    ("measures on the way", lambda o, p: o.observe("seen", sf.count("*").alias("n")), WHOLE),
    ("a function in Python", lambda o, p: o.select(sf.udf(lambda x, y: x, LongType())("a", "b")
     .alias("x"), sf.udf(one_row, LongType(), useArrow=True)("k").alias("y")),
     {"x": {"o.a", "o.b"}, "y": {"o.k"}}),
    ("windows", lambda o, p: o.withColumn("n", sf.first("a").over(Window.orderBy("b"))),
     {**WHOLE, "n": {"o.a"}}),
    ("Python that gets batches", lambda o, p: o.mapInArrow(doubled, o.schema), {}),
    ("Python that gets frames", lambda o, p: o.mapInPandas(doubled, o.schema), {}),
    ("Python that gets groups", lambda o, p: o.groupBy("k").applyInPandas(one_row, o.schema), {}),
    ("a join with what Python made", lambda o, p: p.join(o.mapInArrow(doubled, o.schema), "k")
     .select("c", "a", (sf.col("c") + sf.col("b")).alias("x")), {"c": {"p.c"}}),
    ("fields that are dropped", lambda o, p: o.select(
     sf.struct("a", "b").dropFields("b").alias("x"), sf.struct("a").withField("z", sf.col("k"))
     .alias("y")), {"y": {"o.a", "o.k"}}),
    ("where the rows lie", lambda o, p: o.select("_metadata.file_name", "a"), same("a")),
    ("an RDD", lambda o, p: o.rdd.toDF(o.schema), {}),
    ("a checkpoint", lambda o, p: o.localCheckpoint(), {}),
    ("a checkpoint of a union",
     lambda o, p: o.select("a").union(p.select("c")).localCheckpoint(), {}),
]  # fmt: skip


@pytest.mark.some_cases(9)
@pytest.mark.parametrize(("make", "wanted"), [pytest.param(*s, id=name) for name, *s in STEPS])
def test_conversion_of_frames(
    frames: dict[str, DataFrame],
    make: Callable[[DataFrame, DataFrame], DataFrame],
    wanted: Lineage,
) -> None:
    try:
        assert lineage(make(frames["o"], frames["p"])) == wanted
    finally:
        frames["o"].sparkSession.catalog.clearCache()


def test_files_that_were_written_and_read_are_no_input(
    spark: SparkSession, frames: dict[str, DataFrame], tmp_path: Path
) -> None:
    frames["o"].write.parquet(str(tmp_path / "o"))
    assert lineage(spark.read.parquet(str(tmp_path / "o"))) == {}


@pytest.mark.parametrize("columns", [None, ["y", "p"]])
@pytest.mark.parametrize("way", ["file index", "file list"])
def test_an_input_is_described_by_the_names_of_the_table_and_not_of_the_files(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    columns: list[str] | None,
    way: str,
) -> None:
    if way == "file list":
        switch_off_file_index(monkeypatch)
    rows = pa.table({"x": [1, 2], "y": [3, 4], "p": ["u", "v"], "q": [5, 6]})
    da.write(tmp_path, rows, partition_by=["p", "q"])
    read = ds.read(spark, DeltaLog(tmp_path), columns, col("x") < 2)
    remember_input(read, "i")
    assert lineage(read) == same(*(columns or rows.column_names), of="i")


def test_the_file_metadata_of_spark_is_no_input_column(
    spark: SparkSession, frames: dict[str, DataFrame], tmp_path: Path
) -> None:
    frames["o"].write.parquet(str(tmp_path / "o"))
    files = spark.read.parquet(str(tmp_path / "o"))
    remember_input(files, "o")
    assert lineage(files.select("a", "_metadata")) == same("a")


def test_an_input_of_several_parts_may_be_joined_to_itself(
    spark: SparkSession, frames: dict[str, DataFrame]
) -> None:
    parts = spark.range(3).unionAll(spark.range(4)).selectExpr("id AS x", "id AS y")
    united = parts.unionAll(parts)
    remember_input(united, "i")
    joined = united.alias("l").join(united.alias("r"), sf.col("l.x") == sf.col("r.y"))
    assert lineage(joined.selectExpr("l.y AS a", "r.x AS b")) == {"a": {"i.y"}, "b": {"i.x"}}


def test_an_input_without_rows_is_known_too(spark: SparkSession, tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"x": pa.array([], pa.int64())}))
    read = ds.read(spark, DeltaLog(tmp_path))
    remember_input(read, "i")
    assert lineage(read.selectExpr("x + 1 AS y")) == {"y": {"i.x"}}


@pytest.mark.full
def test_a_large_plan_is_not_followed(frames: dict[str, DataFrame]) -> None:
    sums = [f"a + {number}" for number in range(MOST_PARTS // 3)]
    for some, found in ((sums[:100], {"x": {"o.a"}}), (sums, {})):
        assert lineage(frames["o"].selectExpr(f"array({', '.join(some)}) AS x")) == found


@pytest.mark.full
def test_reading_a_plan_needs_a_constant_number_of_calls(
    spark: SparkSession, frames: dict[str, DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = frames["o"].select("a")
    large = frames["o"].select(*(sf.col("a").alias(f"x{number}") for number in range(500)))
    assert len(lineage(large)) == 500  # fills the caches of one-time lookups
    context: Any = spark.sparkContext
    client = context._gateway._gateway_client
    send, sent = client.send_command, []

    def count(command: str, *args: Any, **options: Any) -> Any:
        if not command.startswith("m\nd"):  # Python frees objects at any time
            sent.append(command)
        return send(command, *args, **options)

    monkeypatch.setattr(client, "send_command", count)
    counts = []
    for frame in (small, large):
        sent.clear()
        lineage(frame)
        counts.append(len(sent))
    assert counts[0] == counts[1] > 0

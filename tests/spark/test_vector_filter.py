"""Rows of deletion vectors, filtered by Spark's own code and by a join."""

from __future__ import annotations

import random

import pytest
from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from delta_ops.spark.read import live_rows
from delta_ops.spark.read.file_index import ROW
from delta_ops.spark.read.live_rows import FILE, FilterUnavailableError, keep_live, keep_named
from tests.spark.conftest import refuse

pytestmark = pytest.mark.spark

EDGES = (0, 63, 64, 65_535, 65_536, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 65_536, 2**39)


@pytest.fixture(params=["in Spark's code", "by a join"])
def lookup(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each of the two ways to filter rows."""
    if request.param == "by a join":
        refuse(monkeypatch, live_rows, "is_named", FilterUnavailableError)
    return str(request.param)


def found(rows: DataFrame) -> set[tuple[int, int]]:
    files, numbers = rows.select(f"`{FILE.name}`", f"`{ROW}`").toArrow().columns
    listed = set(zip(files.to_pylist(), numbers.to_pylist(), strict=True))
    assert len(listed) == len(files)
    return listed


def test_each_row_is_live_or_named(spark: SparkSession, lookup: str) -> None:
    chance = random.Random(7)
    per_file = 80_000  # more than a block of a vector has
    dense = BitMap64(chance.sample(range(per_file), per_file // 2))
    sparse = BitMap64(chance.sample(range(per_file), 20))
    run = BitMap64(range(60_000, 78_000))
    vectors = [dense, BitMap64(), sparse, run]
    rows = spark.range(0, per_file * len(vectors), 1, 3).select(
        sf.floor(sf.col("id") / per_file).cast("long").alias(FILE.name),
        (sf.col("id") % per_file).alias(ROW),
    )
    named = {(file, row) for file, vector in enumerate(vectors) for row in vector}
    assert found(keep_named(rows, vectors)) == named
    everything = {(file, row) for file in range(len(vectors)) for row in range(per_file)}
    assert found(keep_live(rows, vectors)) == everything - named


def test_rows_of_several_files_may_come_by_turns(spark: SparkSession, lookup: str) -> None:
    vectors = [BitMap64([1, 70_000]), BitMap64([2, 70_000])]
    pairs = [(file, row) for row in (1, 2, 70_000, 70_001) for file in (0, 1)]
    rows = spark.createDataFrame(pairs, f"`{FILE.name}` bigint, `{ROW}` bigint").coalesce(1)
    assert found(keep_named(rows, vectors)) == {(0, 1), (0, 70_000), (1, 2), (1, 70_000)}


@pytest.mark.full
def test_rows_are_found_at_the_edges_of_blocks(spark: SparkSession, lookup: str) -> None:
    vectors, named = [BitMap64([edge]) for edge in EDGES], set(enumerate(EDGES))
    near = [(file, row) for file, edge in named for row in (edge - 1, edge, edge + 1) if row >= 0]
    rows = spark.createDataFrame(near, f"`{FILE.name}` bigint, `{ROW}` bigint").coalesce(1)
    assert found(keep_named(rows, vectors)) == named
    assert found(keep_live(rows, vectors)) == {*near} - named


def test_no_row_needs_a_join_or_a_python_worker(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(0, 1)], f"`{FILE.name}` bigint, `{ROW}` bigint")
    live = keep_live(rows, [BitMap64([1])])
    plan = str(live._jdf.queryExecution().executedPlan())
    assert "deletion vectors" in plan
    assert "Join" not in plan
    assert "Python" not in plan


@pytest.mark.full
def test_rows_are_found_without_compiled_stages(spark: SparkSession) -> None:
    session = spark.newSession()
    for name, value in {"wholeStage": "false", "factoryMode": "NO_CODEGEN"}.items():
        session.conf.set(f"spark.sql.codegen.{name}", value)
    rows = session.range(0, 200_000, 1, 2).select(
        (sf.col("id") % 2).alias(FILE.name), sf.floor(sf.col("id") / 2).cast("long").alias(ROW)
    )
    vectors = [BitMap64([5, 70_000]), BitMap64([6])]
    assert found(keep_named(rows, vectors)) == {(0, 5), (0, 70_000), (1, 6)}
    assert keep_live(rows, vectors).count() == 200_000 - 3


@pytest.mark.full
def test_sessions_that_keep_jars_from_executors_join(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.artifact.isolation.enabled", "true")
    rows = session.createDataFrame([(0, 1), (0, 2)], f"`{FILE.name}` bigint, `{ROW}` bigint")
    live = keep_live(rows, [BitMap64([1])])
    assert "Join" in str(live._jdf.queryExecution().executedPlan())
    assert found(live) == {(0, 2)}

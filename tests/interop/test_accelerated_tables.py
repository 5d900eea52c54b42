"""Other engines use a table that has a scan cache, an index, Bloom filters and a sort key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, col
from delta_ops.log.scan_cache.hint import TAG
from delta_ops.log.scan_cache_write.write import write_scan_cache
from delta_ops.maintenance import create_checkpoint, create_index, list_indexes, refresh_index
from delta_ops.protocol.predicate import Predicate
from tests.interop.engines import ByDeltaSpark, Deltalake, Engine
from tests.peers.delta_spark import DeltaSpark
from tests.support.tables import rows, rows_by_polars

pytestmark = pytest.mark.full

FILES = 12
PROPERTIES = {
    "delta_ops.bloomFilterColumns": "id",
    "delta_ops.sortKey": "id",
    "delta.dataSkippingNumIndexedCols": "0",  # statistics leave the work to the index
}
CONDITIONS: list[tuple[Predicate, Callable[[pa.Table], pa.Array]]] = [
    (col("id") == 5, lambda found: pc.equal(found["id"], 5)),
    (col("p") == "b", lambda found: pc.equal(found["p"], "b")),
    (
        (col("id") > 7) & (col("p") != "a"),
        lambda found: pc.and_(pc.greater(found["id"], 7), pc.not_equal(found["p"], "a")),
    ),
    (col("id").isin([3, 40, 100]), lambda found: pc.is_in(found["id"], pa.array([3, 40, 100]))),
]


def rows_of(numbers: list[int], p: str) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), "p": [p] * len(numbers)})


@pytest.fixture(params=["deltalake", "delta-spark"])
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param == "deltalake":
        return Deltalake()
    peer: DeltaSpark = request.getfixturevalue("delta_spark")
    return ByDeltaSpark(peer)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    root = tmp_path / "t"
    for number in range(FILES):
        data = rows_of([100, number + 1, 0], "abc"[number % 3])
        da.write(root, data, partition_by=["p"], configuration=PROPERTIES)
    create_checkpoint(root)
    create_index(root, "by_id", "id")
    write_scan_cache(DeltaLog(root).snapshot(), group_rows=4)
    return root


def steps_of(root: Path, predicate: Predicate) -> set[str]:
    plan = da.explain_scan(root, predicate)
    assert plan.problems == ()
    return {step.name for step in plan.steps}


def validate(root: Path, engine: Engine) -> None:
    """All engines read the same rows, and our conditions select rows as a filter does."""
    everything = da.to_table(root)
    assert engine.see(root).rows == rows(everything)
    assert rows_by_polars(root) == rows(everything)
    lazy = pl.scan_delta(str(root)).filter(pl.col("id") == 5).collect().to_arrow()
    assert rows(lazy) == rows(everything.filter(CONDITIONS[0][1](everything)))
    for predicate, matches in CONDITIONS:
        found = da.to_table(root, predicate=predicate)
        assert rows(found) == rows(everything.filter(matches(everything))), predicate


def test_a_table_stays_right_while_another_engine_changes_it(table: Path, engine: Engine) -> None:
    assert TAG in (table / "_delta_log" / "_last_checkpoint").read_text()
    assert steps_of(table, CONDITIONS[0][0]) >= {"index by_id"}
    assert steps_of(table, CONDITIONS[1][0]) >= {"scan cache"}
    validate(table, engine)
    engine.append(table, rows_of([5, 40], "b"), partition_by=["p"])
    validate(table, engine)
    assert steps_of(table, CONDITIONS[0][0]) >= {"index by_id"}
    engine.checkpoint(table)
    validate(table, engine)
    refresh_index(table, "by_id")
    engine.replace_partition(table, rows_of([7, 40], "a"), "a")
    validate(table, engine)
    engine.optimize(table)
    validate(table, engine)
    engine.vacuum(table)
    validate(table, engine)
    refresh_index(table, "by_id")
    create_checkpoint(table)
    write_scan_cache(DeltaLog(table).snapshot(), group_rows=1)
    validate(table, engine)
    assert steps_of(table, CONDITIONS[1][0]) >= {"scan cache"}
    (index,) = list_indexes(table)
    assert (index.coverage, index.problems) == (1, ())


SPARK_CONDITIONS = "id = 5", "p = 'b'", "id > 7 AND p <> 'a'", "id IN (3, 40, 100)"
"""The texts of `CONDITIONS`."""


@pytest.mark.spark
def test_filters_of_spark_stay_right_while_another_engine_changes_the_table(
    table: Path, spark: SparkSession
) -> None:
    def validate_filters() -> None:
        everything = da.to_table(table)
        frame = ds.read(spark, table)
        for text, (_, matches) in zip(SPARK_CONDITIONS, CONDITIONS, strict=True):
            expected = rows(everything.filter(matches(everything)))
            by_sql = spark.sql(f"SELECT * FROM delta.`{table}` WHERE {text}")
            for found in (ds.read(spark, table, predicate=text), frame.where(text), by_sql):
                assert rows(found.toArrow()) == expected, text

    deltalake = Deltalake()
    ds.register(spark)
    try:
        validate_filters()
        deltalake.append(table, rows_of([5, 40], "b"), partition_by=["p"])
        validate_filters()
        deltalake.replace_partition(table, rows_of([7, 40], "a"), "a")
        deltalake.optimize(table)
        validate_filters()
        deltalake.vacuum(table)
        refresh_index(table, "by_id")
        validate_filters()
    finally:
        ds.unregister(spark)

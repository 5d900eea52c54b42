"""One path through the Spark engine, on the Spark of this Python.

    python -m tests.versions.spark_program FOLDER [STEP...]

Runs all steps if none is named. Prints the names of the steps as JSON; the exit code is 1 if a step
fails. A step fails if its rows differ from Arrow's, or if delta_ops logs a warning: each slower way
is logged.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.ddl import set_properties
from delta_ops.maintenance import optimize
from delta_ops.spark.compiled import instance_of
from delta_ops.spark.installed_version import VERSION
from delta_ops.spark.lineage.column_lineage import column_lineage, remember_input
from delta_ops.spark.versions import VARIANTS, reads_paths
from delta_ops.tables import DeltaTable

ROWS = "id", "id % 3 AS p", "CAST(id AS STRING) AS s", "CAST(id AS DECIMAL(9, 2)) AS d"


class Warnings(logging.Handler):
    """Collects the warnings of delta_ops."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def new_session() -> SparkSession:
    """A classic session of two threads."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "768m",
        "spark.sql.session.timeZone": "UTC",
        "spark.executorEnv.PYTHONPATH": str(Path.cwd()),
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def _texts(rows: DataFrame) -> list[str]:
    return sorted(repr(row.asDict(recursive=True)) for row in rows.collect())


def _equal(spark: SparkSession, table: Path) -> None:
    expected = sorted(map(repr, da.to_table(table).to_pylist()))
    assert _texts(ds.read(spark, table)) == expected, "rows differ from Arrow's"


def _refused(call: Callable[[], object], reason: str = "") -> None:
    """Require that a statement fails, with these words in the message."""
    try:
        call()
    except Exception as error:
        if reason not in str(error):
            raise
        return
    raise AssertionError("the statement succeeded")


def numbers(spark: SparkSession, first: int, last: int) -> DataFrame:
    """Rows with these ids."""
    return spark.range(first, last).selectExpr(*ROWS)


def write(spark: SparkSession, table: Path) -> None:
    """Partitions, appends and overwrites."""
    ds.write(numbers(spark, 0, 100), table, partition_by=["p"])
    ds.write(numbers(spark, 100, 120), table)
    _equal(spark, table)
    assert ds.read(spark, table).filter("p = 1 AND id > 50").count() == 23


def delete(spark: SparkSession, table: Path) -> None:
    """With deletion vectors."""
    set_properties(table, {"delta.enableDeletionVectors": "true"})
    ds.delete(spark, table, "id % 10 = 7")
    vectors = DeltaLog(table).snapshot().files(["deletion_vector"]).column("deletion_vector")
    assert vectors.null_count < len(vectors)
    _equal(spark, table)


def update(spark: SparkSession, table: Path) -> None:
    """By Spark's SQL."""
    ds.update(spark, table, {"s": "concat(s, '!')", "d": "d + 1"}, "id < 10")
    _equal(spark, table)


def merge(spark: SparkSession, table: Path) -> None:
    """Updates, inserts and deletes."""
    source = spark.range(90, 140).selectExpr(*ROWS)
    ds.merge(table, source, "target.id = source.id").when_matched_delete(
        "source.id < 95"
    ).when_matched_update_all().when_not_matched_insert_all().execute()
    _equal(spark, table)


def read_changes(spark: SparkSession, table: Path) -> None:
    """The rows that the commits changed."""
    set_properties(table, {"delta.enableChangeDataFeed": "true"})
    version = DeltaLog(table).snapshot().version
    ds.update(spark, table, {"s": "'changed'"}, "id = 5")
    found = ds.read_changes(spark, table, version + 1)
    assert sorted(row["_change_type"] for row in found.collect()) == [
        "update_postimage",
        "update_preimage",
    ]


def map_columns(spark: SparkSession, table: Path) -> None:
    """Column mapping, generated columns and constraints."""
    mapped = table.with_name("mapped")
    ds.write(
        spark.range(10).selectExpr("id", "CAST(id AS STRING) AS `a b`"),
        mapped,
        configuration={"delta.columnMapping.mode": "name", "delta.constraints.c": "id >= 0"},
    )
    _equal(spark, mapped)


def arrange(spark: SparkSession, table: Path) -> None:
    """Compaction and a curve."""
    optimize(table, zorder_by=["id", "s"], full=True, engine=ds.rewrite(spark))
    _equal(spark, table)


def stream(spark: SparkSession, table: Path) -> None:
    """In batches of one file, and to another table."""
    target = table.with_name("streamed")
    checkpoint = str(table.with_name("checkpoint"))
    ds.write(numbers(spark, 200, 210).repartition(3), table.with_name("source"))
    rows = ds.read_stream(spark, table.with_name("source"), max_files_per_trigger=1)
    query = ds.write_stream(rows, target, checkpoint_location=checkpoint, available_now=True)
    query.awaitTermination()
    assert ds.read(spark, target).count() == 10
    assert DeltaLog(target).snapshot().version >= 1


def use_format(spark: SparkSession, table: Path) -> None:
    """`format("delta")` and SQL."""
    ds.register(spark)
    try:
        place = str(table.with_name("by format"))
        numbers(spark, 0, 5).write.format("delta").partitionBy("p").save(place)
        numbers(spark, 5, 9).write.format("delta").mode("append").save(place)
        assert spark.read.format("delta").load(place).count() == 9
        if reads_paths(spark.version):
            assert spark.sql(f"SELECT id FROM delta.`{place}` WHERE p = 1").count() == 3
        else:
            _refused(lambda: spark.sql(f"SELECT id FROM delta.`{place}`"), "before Spark 3.5.3")
        spark.sql(f"CREATE TEMPORARY VIEW v USING delta OPTIONS (path '{place}')")
        assert spark.sql("SELECT * FROM v WHERE id > 6").count() == 2
        spark.sql("CACHE TABLE v")
        numbers(spark, 9, 12).write.format("delta").mode("append").save(place)
        assert spark.sql("SELECT * FROM v WHERE id > 6").count() == 5
        deleted = spark.sql(f"DELETE FROM delta.`{place}` WHERE id = :n", {"n": 77})
        assert deleted.collect() == [(0,)]
        assert spark.sql(f"DESCRIBE HISTORY delta.`{place}`").count() > 0
        ds.unregister(spark)
        ds.register(spark)
        assert spark.sql(f"DELETE FROM delta.`{place}` WHERE id < 3").collect() == [(3,)]
        assert da.to_table(place).num_rows == 9
    finally:
        ds.unregister(spark)


def use_delta_tables(spark: SparkSession, table: Path) -> None:
    """The interface of delta-spark."""
    known = DeltaTable.forPath(spark, str(table))
    known.update("id = 1", {"s": "'one'"})
    source = spark.range(1, 3).selectExpr(*ROWS)
    known.alias("t").merge(
        source.alias("u"), "t.id = u.id"
    ).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    known.optimize().executeCompaction()
    assert known.history(1).collect()[0]["operation"] == "OPTIMIZE"
    _equal(spark, table)


def trace_columns(spark: SparkSession, table: Path) -> None:
    """Column lineage from Spark's plan."""
    rows = ds.read(spark, table)
    remember_input(rows, "table")
    found = column_lineage(rows.selectExpr("id + 1 AS n", "s"))
    assert {name: {each.column for each in of} for name, of in found.items()} == {
        "n": {"id"},
        "s": {"s"},
    }


def load_store_clients(spark: SparkSession, table: Path) -> None:
    """The class that forgets the clients of a store."""
    instance_of(spark, "delta_ops.stores.StoreClients").forget("s3a", "none")


def use_variants(spark: SparkSession, table: Path) -> None:
    """Variants, or a refusal that names the version that has them."""
    place = table.with_name("variants")
    if VERSION >= VARIANTS:
        ds.write(spark.range(3).selectExpr("id", "parse_json('{\"a\": 1}') AS v"), place)
        assert ds.read(spark, place).selectExpr("variant_get(v, '$.a', 'int') AS a").count() == 3


STEPS: tuple[Callable[[SparkSession, Path], None], ...] = (
    write,
    stream,
    use_format,
    trace_columns,
    load_store_clients,
    delete,
    update,
    merge,
    use_delta_tables,
    read_changes,
    arrange,
    map_columns,
    use_variants,
)


def main(folder: str, *names: str) -> None:
    """Run the steps with these names, or all steps."""
    steps = [step for step in STEPS if not names or step.__name__ in names]
    warnings = Warnings()
    logging.getLogger("delta_ops").addHandler(warnings)
    spark = new_session()
    table = Path(folder) / "table"
    failures: dict[str, Any] = {}
    for step in steps:
        warnings.texts.clear()
        try:
            step(spark, table)
            assert not warnings.texts, warnings.texts
        except Exception as error:
            failures[step.__name__] = f"{type(error).__name__}: {error}"
            logging.exception("%s failed", step.__name__)
    spark.stop()
    print(json.dumps({"steps": [step.__name__ for step in steps], "failures": failures}))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main(*sys.argv[1:])

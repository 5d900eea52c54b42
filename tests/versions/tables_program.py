"""Tables that one version of Spark writes and all others read, on the Spark of this Python.

    python -m tests.versions.tables_program write FOLDER
    python -m tests.versions.tables_program read FOLDER

`write` writes each table to a folder below. `read` prints the rows of all tables below as JSON: a
sorted list of texts by the table's path in the folder, or the error of a table that this version
refuses.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import delta_ops.spark as ds
from delta_ops.ddl import set_properties
from delta_ops.errors import DeltaOpsError
from delta_ops.maintenance import create_checkpoint
from delta_ops.spark.installed_version import VERSION
from delta_ops.spark.versions import VARIANTS, arrow_of
from tests.versions.spark_program import new_session

VALUES = (
    "id",
    "id % 3 AS p",
    "CAST(id AS STRING) AS s",
    "CAST(id AS DECIMAL(20, 2)) AS d",
    "CAST(id AS DOUBLE) / 3 AS x",
    "id % 2 = 0 AS b",
    "encode(CAST(id AS STRING), 'UTF-8') AS bytes",
    "date_add(DATE'1500-01-01', CAST(id * 9000 AS INT)) AS day",
    "timestamp_micros(id * 1234567890123456) AS at",
    "array(id, NULL) AS l",
    "named_struct('n', id, 'c', map('k', id)) AS place",
)
"""A value of each kind."""

VARIANTS_AS_JSON = [
    {"id": 0, "v": '{"a":0}'},
    {"id": 1, "v": '[1,"text",null]'},
    {"id": 2, "v": "1.5"},
    {"id": 3, "v": None},
]


def texts_of(rows: pa.Table) -> list[str]:
    """Rows as texts, in an order that does not depend on the files."""
    return sorted(map(repr, rows.to_pylist()))


def rows_of_values(spark: SparkSession, first: int, last: int) -> DataFrame:
    return spark.range(first, last, 1, 1).selectExpr(*VALUES)


def plain(spark: SparkSession, table: Path) -> None:
    """Partitions, an append, changed rows and a checkpoint."""
    ds.write(rows_of_values(spark, 0, 30), table, partition_by=["p"])
    ds.write(rows_of_values(spark, 30, 40), table)
    ds.update(spark, table, {"s": "concat(s, '!')"}, "id < 5")
    create_checkpoint(table)
    ds.delete(spark, table, "id = 33")


def vectors(spark: SparkSession, table: Path) -> None:
    """Deletion vectors."""
    ds.write(rows_of_values(spark, 0, 30), table)
    set_properties(table, {"delta.enableDeletionVectors": "true"})
    ds.delete(spark, table, "id % 4 = 1")


def mapped(spark: SparkSession, table: Path) -> None:
    """Columns with other names in the files, and row ids."""
    configuration = {"delta.columnMapping.mode": "name", "delta.enableRowTracking": "true"}
    ds.write(rows_of_values(spark, 0, 9), table, configuration=configuration)


def merged(spark: SparkSession, table: Path) -> None:
    """Change files."""
    configuration = {"delta.enableChangeDataFeed": "true"}
    ds.write(rows_of_values(spark, 0, 9), table, configuration=configuration)
    ds.merge(
        table, rows_of_values(spark, 5, 15), "target.id = source.id"
    ).when_matched_update_all().when_not_matched_insert_all().execute()


def variants(spark: SparkSession, table: Path) -> None:
    """Values whose type is in the value."""
    texts = spark.createDataFrame(VARIANTS_AS_JSON, "id bigint, v string")
    ds.write(texts.selectExpr("id", "parse_json(v) AS v"), table)


TABLES: Mapping[str, Callable[[SparkSession, Path], None]] = {
    each.__name__: each for each in (plain, vectors, mapped, merged)
}


def write(spark: SparkSession, folder: Path) -> None:
    """Write each table that this version can write."""
    for name, make in TABLES.items():
        make(spark, folder / name)
    if VERSION >= VARIANTS:
        variants(spark, folder / variants.__name__)


def read(spark: SparkSession, folder: Path) -> dict[str, list[str] | str]:
    """The rows of each table, or the error's name."""
    found: dict[str, list[str] | str] = {}
    for log in sorted(folder.rglob("_delta_log")):
        name = str(log.parent.relative_to(folder))
        try:
            rows = ds.read(spark, log.parent)
            if log.parent.name == variants.__name__:  # each version has types of its own
                rows = rows.selectExpr("id", "to_json(v) AS v")
            found[name] = texts_of(arrow_of(rows))
        except DeltaOpsError as error:
            found[name] = str(error)
    return found


def main(command: str, folder: str) -> None:
    """Run one of the two commands."""
    spark = new_session()
    if command == "write":
        write(spark, Path(folder))
    else:
        print(json.dumps(read(spark, Path(folder))))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

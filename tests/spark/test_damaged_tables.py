"""For any damage to a log or a file, calls of the Spark engine raise errors of delta_ops.

A damaged file may be detected only when a DataFrame is computed; that error is Spark's.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import delta_ops.spark as ds
from delta_ops import col, ddl, maintenance
from delta_ops.errors import DeltaOpsError
from delta_ops.tables import DeltaTable
from tests.sweep.hostile_tables import HOSTILE, create_table

pytestmark = pytest.mark.spark

Call = Callable[[SparkSession, Path], Any]


def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(1, "a"), (9, "c")], "id bigint, p string")


def merge(spark: SparkSession, table: Path) -> None:
    started = ds.merge(table, rows(spark), "source.id = target.id")
    started.when_matched_update({"p": "source.p"}).when_not_matched_insert_all().execute()


CALLS: Mapping[str, Call] = {
    "read": ds.read,
    "read some": lambda spark, t: ds.read(spark, t, ["id"], col("id") > 1),
    "read_changes": lambda spark, t: ds.read_changes(spark, t, 0),
    "read_stream": ds.read_stream,
    "write": lambda spark, t: ds.write(rows(spark), t),
    "write over": lambda spark, t: ds.write(rows(spark), t, "overwrite", overwrite_schema=True),
    "delete": lambda spark, t: ds.delete(spark, t, "id = 2"),
    "update": lambda spark, t: ds.update(spark, t, {"id": "id + 1"}, "id > 1"),
    "merge": merge,
    "rewrite": lambda spark, t: maintenance.optimize(t, engine=ds.rewrite(spark)),
    "check_rows": lambda spark, t: ddl.add_constraint(
        t, "low", "id < 1000000", engine=ds.check_rows(spark)
    ),
    "file_statistics": lambda spark, t: maintenance.backfill_statistics(
        t, engine=ds.file_statistics(spark)
    ),
}
OF_DELTA_SPARK: Mapping[str, Call] = {
    "toDF": lambda spark, t: DeltaTable.forPath(spark, str(t)).toDF(),
    "history": lambda spark, t: DeltaTable.forPath(spark, str(t)).history(),
    "detail": lambda spark, t: DeltaTable.forPath(spark, str(t)).detail(),
    "delete by its API": lambda spark, t: DeltaTable.forPath(spark, str(t)).delete("id = 2"),
    "format": lambda spark, t: spark.read.format("delta").load(str(t)),
}
"""Calls that may raise delta-spark's errors."""
DAMAGES = (
    "an intact table",
    "a vector with a name that is not Z85",
    "a vector whose sizeInBytes is over 64 bits",
    "a vector of an unknown kind",
    "vector files that are gone",
    "an add whose path is an escape of no text",
    "an add whose path is 5000 characters",
    "an add whose size is negative",
    "statistics that are deep",
    "partition values that are of others",
    "a schema of no column",
    "a schema of 90 levels",
    "a schema of 150 levels",
    "a schema of 5000 levels",
    "a column of type nope",
    "a column of type decimal of long numbers",
    "a column of type struct of no field",
    "a column of type void",
    "a column whose name is odd",
    "a column with delta.generationExpression",
    "a column with delta.columnMapping.id",
    "partition columns that are of a struct",
    "a constraint that is deep",
    "delta.targetFileSize = a long number",
    "a commitInfo whose inCommitTimestamp is long",
    "the domain delta.clustering that is of other fields",
    "a data file that is gone",
    "a data file that is cut off",
    "a data file that is a directory",
    "a data file of 150 levels",
    "a checkpoint that is text",
    "a log that is a file",
)
PAIRS = [
    (damage, [*CALLS, *OF_DELTA_SPARK][number * 5 % (len(CALLS) + len(OF_DELTA_SPARK))])
    for number, damage in enumerate(DAMAGES)
]
"""One call for each damage."""


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("damaged") / "intact" / "t"
    create_table(root)
    return root


def errors_of(spark: SparkSession, intact: Path, damage: str, name: str) -> list[str]:
    """Errors other than delta_ops errors, raised by a call for a table with this damage."""
    parent = intact.parent.with_name("damaged")
    shutil.rmtree(parent, ignore_errors=True)
    table = Path(shutil.copytree(intact, parent / "t"))
    HOSTILE[damage](table)
    allowed = (DeltaOpsError,) if name in CALLS else (DeltaOpsError, PySparkException)
    try:
        {**OF_DELTA_SPARK, **CALLS}[name](spark, table)
    except allowed:
        return []
    except Exception as error:
        return [f"{damage}, {name}: {type(error).__name__}: {str(error)[:200]}"]
    return []


@pytest.mark.usefixtures("registered")
def test_a_call_on_a_damaged_table_raises_typed_errors_only(
    spark: SparkSession, intact: Path
) -> None:
    found = [errors_of(spark, intact, damage, name) for damage, name in PAIRS[::3]]
    assert [error for errors in found for error in errors] == []


@pytest.mark.full
@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("damage", DAMAGES)
def test_all_calls_on_a_damaged_table_raise_typed_errors_only(
    spark: SparkSession, intact: Path, damage: str
) -> None:
    names = [*CALLS, *OF_DELTA_SPARK]
    found = [errors_of(spark, intact, damage, name) for name in names]
    assert [error for errors in found for error in errors] == []

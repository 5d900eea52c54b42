"""Names of columns in double quotes, and conditions without a column, on Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.ddl import add_constraint
from delta_ops.errors import InvalidRequestError
from delta_ops.spark.session.session import overriding
from delta_ops.tables import DeltaTable
from tests.arrow.test_names_in_double_quotes import MEETING, ROWS

pytestmark = pytest.mark.spark

Call = Callable[[SparkSession, Path], Any]


def merge(spark: SparkSession, table: Path, on: str = MEETING) -> ds.Merge:
    source: DataFrame = spark.createDataFrame(
        [(2, "newer", "a")], "id long, state string, o string"
    )
    return ds.merge(table, source, on)


CALLS: dict[str, Call] = {
    "a delete": lambda s, t: ds.delete(s, t, "\"state\" NOT LIKE 'old%'"),
    "a delete by an alias": lambda s, t: ds.delete(s, t, "\"t.State\" = 'x'", target_alias="t"),
    "a delete by a mistyped name": lambda s, t: ds.delete(s, t, "\"sttate\" LIKE 'old%'"),
    "a delete by a column": lambda s, t: ds.delete(s, t, sf.lit("state") != "old"),
    "a new value": lambda s, t: ds.update(s, t, {"state": 'regexp_replace("Name", "a", "b")'}),
    "a value by a column": lambda s, t: ds.update(s, t, {"state": sf.expr('"Name"')}),
    "a merge of texts": lambda s, t: merge(s, t, "'x' LIKE 'y'").when_matched_delete().execute(),
    "beside the key": lambda s, t: (
        merge(s, t, f"{MEETING} AND \"O\" LIKE 'a'").when_matched_delete().execute()
    ),
    "a clause": lambda s, t: merge(s, t).when_matched_delete("\"source.o\" = 'a'").execute(),
    "a value of a clause": lambda s, t: (
        merge(s, t).when_matched_update({"state": '"source.state"'}).execute()
    ),
    "a constraint": lambda s, t: add_constraint(
        t, "c", "\"state\" LIKE '%'", engine=ds.check_rows(s)
    ),
    "a constraint of texts": lambda s, t: add_constraint(
        t, "c", "'state' LIKE 's%'", engine=ds.check_rows(s)
    ),
    "the table's own class": lambda s, t: DeltaTable.forPath(s, str(t)).delete("\"Name\" = 'x'"),
    "partitions": lambda s, t: (
        DeltaTable.forPath(s, str(t)).optimize().where("\"Name\" LIKE 'x'").executeCompaction()
    ),
}


@pytest.mark.some_cases(7)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_names_in_double_quotes_change_nothing(
    spark: SparkSession, tmp_path: Path, call: Call
) -> None:
    da.write(tmp_path, ROWS, partition_by=["Name"])
    refusals = (InvalidRequestError, AnalysisException)
    with pytest.raises(refusals, match=r"in double quotes|uses no column") as caught:
        call(spark, tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert DeltaLog(tmp_path).snapshot().version == 0


@pytest.mark.parametrize(
    "condition",
    ["false", "1 = 0", 'state = "none"', sf.lit],
    ids=["false", "never equal", "a text", "a column of Spark"],
)
def test_conditions_that_mean_what_they_say_are_taken(
    spark: SparkSession, tmp_path: Path, condition: Any
) -> None:
    da.write(tmp_path, ROWS)
    data = condition if isinstance(condition, str) else sf.lit(False)
    assert ds.delete(spark, tmp_path, data).version is None


def test_a_session_that_reads_names_in_double_quotes_may_use_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    da.write(tmp_path, ROWS)
    settings = {"spark.sql.ansi.enabled": "true", "spark.sql.ansi.doubleQuotedIdentifiers": "true"}
    with overriding(spark, settings):
        ds.delete(spark, tmp_path, "\"state\" != 'old'")
    assert da.to_table(tmp_path)["state"].to_pylist() == ["old"]

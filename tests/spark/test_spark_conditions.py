"""Each function of the Spark engine takes a condition in every form, with the errors of Arrow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import parse_expression, parse_predicate
from delta_ops.errors import InvalidRequestError, UnknownColumnError

Call = Callable[[SparkSession, Path, Any], Any]
FORMS: dict[str, Callable[[], Any]] = {
    "a text": lambda: "p = 1",
    "a predicate": lambda: parse_predicate("p = 1"),
    "an expression": lambda: parse_expression("p = 1"),
    "a Column": lambda: sf.col("p") == 1,
}


def merged(spark: SparkSession, table: Path, condition: Any) -> int | None:
    rows = spark.createDataFrame([(1, 9)], "p bigint, x bigint")
    merge = ds.merge(table, rows, "target.x = source.x")
    return merge.when_not_matched_by_source_delete(condition).execute().version


def written(spark: SparkSession, table: Path, condition: Any) -> int | None:
    rows = spark.createDataFrame([(1, 9)], "p bigint, x bigint")
    return ds.write(rows, table, "overwrite", replace_where=condition).version


CALLS: dict[str, Call] = {
    "read": lambda s, t, c: ds.read(s, t, predicate=c).count(),
    "read_changes": lambda s, t, c: ds.read_changes(s, t, 0, predicate=c).count(),
    "delete": lambda s, t, c: ds.delete(s, t, c).version,
    "update": lambda s, t, c: ds.update(s, t, {"x": "x + 1"}, c).version,
    "write": written,
    "merge": merged,
}


def table_in(folder: Path) -> Path:
    feed = {"delta.enableChangeDataFeed": "true"}
    da.write(folder, pa.table({"p": [1, 1, 2], "x": [1, 2, 3]}), configuration=feed)
    return folder


@pytest.mark.full
@pytest.mark.parametrize("name", CALLS)
def test_each_form_of_a_condition_is_taken(spark: SparkSession, tmp_path: Path, name: str) -> None:
    found = set()
    for form, make in FORMS.items():
        table = table_in(tmp_path / form)
        shown = CALLS[name](spark, table, make())
        found.add((shown, tuple(sorted(da.to_table(table)["x"].to_pylist()))))
    assert len(found) == 1


@pytest.mark.parametrize("name", CALLS)
def test_an_unknown_column_is_the_error_of_arrow(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    table = table_in(tmp_path / "t")
    with pytest.raises(UnknownColumnError) as error:
        CALLS[name](spark, table, "nope = 1")
    assert str(error.value).startswith(f"{table}: There is no column nope")
    assert str(error.value).count(str(table)) == 1


def test_a_setting_that_changes_the_text_of_a_predicate_is_an_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    da.write(tmp_path / "t", pa.table({"p": ["a"], "x": [1]}))
    spark.conf.set("spark.sql.parser.escapedStringLiterals", "true")
    try:
        with pytest.raises(InvalidRequestError, match="settings of this session change"):
            merged(spark, tmp_path / "t", parse_predicate(r"p = 'a\\b'"))
    finally:
        spark.conf.unset("spark.sql.parser.escapedStringLiterals")

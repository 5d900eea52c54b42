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
from delta_ops import col, parse_expression, parse_predicate
from delta_ops.errors import InvalidRequestError, UnknownColumnError
from delta_ops.spark.session.session import overriding

Call = Callable[[SparkSession, Path, Any], Any]
FORMS: dict[str, Callable[[], Any]] = {
    "a text": lambda: "p = 1",
    "a predicate": lambda: parse_predicate("p = 1"),
    "an expression": lambda: parse_expression("p = 1"),
    "a Column": lambda: sf.col("p") == 1,
}


def deleted_by_merge(spark: SparkSession, table: Path, condition: Any) -> int | None:
    merge = ds.merge(table, spark.createDataFrame([(9,)], "k bigint"), "target.x = source.k")
    return merge.when_not_matched_by_source_delete(condition).execute().version


def matched_by_merge(spark: SparkSession, table: Path, condition: Any) -> int | None:
    merge = ds.merge(table, spark.createDataFrame([(9,)], "k bigint"), condition)
    return merge.when_matched_update({"x": "k"}).execute().version


def written(spark: SparkSession, table: Path, condition: Any) -> int | None:
    rows = spark.createDataFrame([(1, 9)], "p bigint, x bigint")
    return ds.write(rows, table, "overwrite", replace_where=condition).version


CALLS: dict[str, Call] = {
    "read": lambda s, t, c: ds.read(s, t, predicate=c).count(),
    "read_changes": lambda s, t, c: ds.read_changes(s, t, 0, predicate=c).count(),
    "delete": lambda s, t, c: ds.delete(s, t, c).version,
    "update": lambda s, t, c: ds.update(s, t, {"x": "x + 1"}, c).version,
    "write": written,
    "clause of a merge": deleted_by_merge,
    "match of a merge": matched_by_merge,
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


def test_a_merge_takes_predicates(spark: SparkSession, tmp_path: Path) -> None:
    table = table_in(tmp_path / "t")
    rows = spark.createDataFrame([(1, "a"), (2, "b")], "k bigint, q string")
    merge = ds.merge(table, rows, "x = k").when_matched_delete(col("q").isin(["b", "c"]))
    assert merge.execute().metrics["numTargetRowsDeleted"] == 1
    assert sorted(da.to_table(table)["x"].to_pylist()) == [1, 3]


@pytest.mark.parametrize(
    ("name", "condition"),
    [
        *((name, "nope = 1") for name in CALLS),
        ("delete", "soundex(nope) = 'x'"),
        ("clause of a merge", "target.nope = 1"),
    ],
)
def test_an_unknown_column_is_the_error_of_arrow(
    spark: SparkSession, tmp_path: Path, name: str, condition: str
) -> None:
    table = table_in(tmp_path / "t")
    with pytest.raises(UnknownColumnError) as error:
        CALLS[name](spark, table, condition)
    side = "In the target of the merge: " if condition.startswith("target.") else ""
    assert str(error.value).startswith(f"{table}: {side}There is no column nope")
    assert str(error.value).count(str(table)) == 1


def test_an_unknown_column_in_a_new_value_is_the_error_of_arrow(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = table_in(tmp_path / "t")
    rows = spark.createDataFrame([(1,)], "k bigint")
    merge = ds.merge(table, rows, "x = k").when_matched_update({"p": "source.nope"})
    with pytest.raises(UnknownColumnError, match=f"^{table}: There is no column nope"):
        ds.update(spark, table, {"x": "nope + 1"})
    there = f"^{table}: In the source of the merge: There is no column nope"
    with pytest.raises(UnknownColumnError, match=there):
        merge.execute()


def test_a_column_of_both_sides_needs_an_alias_in_a_match(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = table_in(tmp_path / "t")
    merge = ds.merge(table, ds.read(spark, table), "p = 1").when_matched_delete()
    with pytest.raises(InvalidRequestError, match=r"write target\.p or source\.p"):
        merge.execute()


@pytest.mark.parametrize("form", ["a text", "a predicate", "an expression"])
def test_a_column_of_both_sides_is_the_targets_where_the_source_has_no_row(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    table = table_in(tmp_path / "t")
    rows = spark.createDataFrame([(7, 3)], "p bigint, x bigint")
    merge = ds.merge(table, rows, "target.x = source.x")
    merge = merge.when_not_matched_by_source_update({"x": "x + p * 10"}, "p = 1 AND x = 2")
    merge.when_not_matched_by_source_delete(FORMS[form]()).execute()
    assert sorted(da.to_table(table)["x"].to_pylist()) == [3, 12]


def test_a_column_of_the_source_has_no_row_in_a_clause_for_rows_that_it_lacks(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = table_in(tmp_path / "t")
    with pytest.raises(InvalidRequestError, match=r"k belongs to the source, which has no row"):
        deleted_by_merge(spark, table, "k = 1")


@pytest.mark.parametrize("name", ["delete", "clause of a merge"])
def test_a_setting_that_changes_an_expression_is_an_error(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    da.write(tmp_path / "t", pa.table({"p": [r"a\b"], "x": [1]}))
    condition = parse_expression(r"p = 'a\\b'")
    with (
        overriding(spark, {"spark.sql.parser.escapedStringLiterals": "true"}),
        pytest.raises(InvalidRequestError, match="settings of this session change"),
    ):
        CALLS[name](spark, tmp_path / "t", condition)
    CALLS[name](spark, tmp_path / "t", condition)
    assert da.to_table(tmp_path / "t").num_rows == 0

"""Conditions whose meaning depends on session settings: the same rows as in Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, Transaction, begin
from delta_ops.spark.session.session import overriding

pytestmark = pytest.mark.spark

CASES = {
    "a variable": ("run.day", "d2", "'${run.day}'"),
    "a name in double quotes": ("spark.sql.ansi.doubleQuotedIdentifiers", "true", '"same"'),
    "backslashes as they are": ("spark.sql.parser.escapedStringLiterals", "true", r"'d\2'"),
    "doubled quotes": ("spark.sql.legacy.consecutiveStringLiterals.enabled", "true", "'d''2'"),
    "a doubled quote by default": (
        "spark.sql.legacy.consecutiveStringLiterals.enabled",
        "false",
        "'d''2'",
    ),
}


def texts(in_each_run: str) -> pytest.MarkDecorator:
    """One text in `make test`, the others too in `make test-all`."""
    return pytest.mark.parametrize(
        "text",
        [
            pytest.param(name, marks=() if name == in_each_run else pytest.mark.full)
            for name in CASES
        ],
        indirect=True,
    )


@pytest.fixture
def text(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """SQL whose meaning depends on a setting."""
    setting, value, text = CASES[request.param]
    settings = {setting: value, "spark.sql.ansi.enabled": "true"}  # for names in double quotes
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, wanted in settings.items():
        spark.conf.set(name, wanted)
    yield text
    for name, earlier in before.items():
        if earlier is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, earlier)


@pytest.fixture
def day(text: str, spark: SparkSession) -> str:
    """Spark's value for it."""
    found = spark.sql(f"SELECT {text} AS it FROM VALUES ('d2') AS t (same)").first()
    assert found is not None
    return str(found.it)


def make(table: Path, day: str) -> None:
    for number, each in enumerate(["a", day, "z"]):
        rows = {"day": [each], "same": [each if each == day else "other"], "v": [number]}
        da.write(table, pa.table(rows), mode="append")


@pytest.mark.full
@texts(in_each_run="a variable")
def test_delete_and_update_change_the_rows_that_are_meant(
    spark: SparkSession, tmp_path: Path, text: str, day: str
) -> None:
    make(tmp_path / "t", day)
    ds.update(spark, tmp_path / "t", {"v": "v + 10"}, f"day = {text}")
    assert sorted(da.to_table(tmp_path / "t")["v"].to_pylist()) == [0, 2, 11]
    ds.delete(spark, tmp_path / "t", f"day = {text}")
    assert sorted(da.to_table(tmp_path / "t")["v"].to_pylist()) == [0, 2]


@texts(in_each_run="a name in double quotes")
def test_a_merge_does_not_insert_again_what_is_there(
    spark: SparkSession, tmp_path: Path, text: str, day: str
) -> None:
    make(tmp_path / "t", day)
    source = spark.createDataFrame([(day, "", 1)], "day string, same string, v bigint")
    value = text.replace('"same"', 'target."same"')
    merge = ds.merge(tmp_path / "t", source, f"target.v = source.v AND target.day = {value}")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert DeltaLog(tmp_path / "t").snapshot().version == 3
    assert sorted(da.to_table(tmp_path / "t")["v"].to_pylist()) == [0, 1, 2]


@pytest.mark.full
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            lambda t, rows: ds.delete(rows.sparkSession, t, "v = 0"),
            id="delete",
            marks=pytest.mark.full,
        ),
        pytest.param(
            lambda t, rows: ds.update(rows.sparkSession, t, {"v": "5"}, "v = 0"),
            id="update",
            marks=pytest.mark.full,
        ),
        pytest.param(
            lambda t, rows: (
                ds.merge(t, rows, "target.v = source.v").when_matched_delete().execute()
            ),
            id="merge",
        ),
        pytest.param(lambda t, rows: ds.write(rows, t, mode="overwrite"), id="write"),
    ],
)
def test_races_are_judged_in_the_zone_of_the_session(
    spark: SparkSession, tmp_path: Path, change: Callable[[Transaction, DataFrame], object]
) -> None:
    make(tmp_path / "t", "d2")
    transaction = begin(DeltaLog(tmp_path / "t"))
    rows = spark.createDataFrame([("a", "other", 0)], "day string, same string, v bigint")
    with overriding(spark, {"spark.sql.session.timeZone": "America/New_York"}):
        change(transaction, rows)
    assert transaction.partition_time_zone == "America/New_York"


@pytest.mark.parametrize(
    ("condition", "deleted"),
    [
        pytest.param("n NOT IN ('01')", [1, 2], id="no text of the list is how Spark writes 1"),
        pytest.param("n NOT IN ('1')", [2], id="a text of the list is", marks=pytest.mark.full),
    ],
)
def test_lists_of_texts_are_compared_as_strings_without_ansi_mode(
    spark: SparkSession, tmp_path: Path, condition: str, deleted: list[int]
) -> None:
    for number in (1, 2):
        da.write(tmp_path / "t", pa.table({"n": [number]}), mode="append")
    with overriding(spark, {"spark.sql.ansi.enabled": "false"}):
        read = ds.read(spark, tmp_path / "t", predicate=condition)
        assert sorted(row.n for row in read.collect()) == deleted
        ds.delete(spark, tmp_path / "t", condition)
    assert da.to_table(tmp_path / "t")["n"].to_pylist() == [n for n in (1, 2) if n not in deleted]

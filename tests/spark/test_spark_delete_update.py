"""Deletes and updates by Spark: same result as the Arrow engine on the same table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, col
from delta_ops.ddl import set_properties
from delta_ops.errors import CommitConflictError, InvalidRequestError, TableNotFoundError
from delta_ops.protocol.expression import lit, parse_expression
from delta_ops.protocol.predicate import Predicate
from tests.spark.changed_tables import (
    FEED,
    KINDS,
    VECTORS,
    by_id,
    cases,
    data,
    make,
    rows_changed,
    seen,
    twins,
)
from tests.support.tables import live_paths

CONDITIONS: dict[str, tuple[Predicate | None, Any]] = {
    "a row": (col("id") == 2, "id = 2"),
    "rows of every file": (col("id").isin([1, 6, 8]), "id IN (1, 6, 8)"),
    "a null": (col("v").is_null(), lambda: sf.col("v").isNull()),
    "a whole file": (col("id") >= 8, col("id") >= 8),
    "a partition": (col("p") == "b", "p = 'b'"),
    "a function of Spark's": (col("id").isin([4, 8]), "pmod(id, 4) = 0"),
    "all": (None, None),
    "none": (col("id") == 77, "id = 77"),
}


def made(argument: Any) -> Any:
    """A Spark Column needs a session."""
    return argument() if callable(argument) else argument


@pytest.mark.some_cases(2)
@cases(dict(zip(CONDITIONS, KINDS, strict=True)))
def test_a_delete_is_that_of_the_arrow_engine(
    spark: SparkSession, tmp_path: Path, kind: str, choice: str, *, partitioned: bool
) -> None:
    first, second = twins(tmp_path, kind, partitioned=partitioned)
    predicate, condition = CONDITIONS[choice]
    expected, found = da.delete(first, predicate), ds.delete(spark, second, made(condition))
    assert (found.version, seen(second)) == (expected.version, seen(first))


ASSIGNMENTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "a literal": ("all", {"v": 7}, {"v": 7}),
    "an expression": ("rows of every file", {"v": "v + id"}, {"v": "v + id"}),
    "a null": ("all", {"p": None}, {"P": None}),
    "a move": (
        "rows of every file",
        {"p": lit("c d"), "v": 1},
        {"p": lambda: sf.lit("c d"), "v": parse_expression("1")},
    ),
    "a key": ("a null", {"id": "id + 100"}, {"id": lambda: sf.col("id") + 100}),
}
"""A name in `CONDITIONS` for the updated rows; the new values for Arrow; and for Spark."""


@pytest.mark.some_cases(2)
@cases(
    {
        "a literal": "vectors",
        "an expression": "",
        "a null": "mapped by name",
        "a move": "tracking, feed and vectors",
        "a key": "files",
    }
)
def test_an_update_is_that_of_the_arrow_engine(
    spark: SparkSession, tmp_path: Path, kind: str, choice: str, *, partitioned: bool
) -> None:
    first, second = twins(tmp_path, kind, partitioned=partitioned)
    condition_name, values, same_values = ASSIGNMENTS[choice]
    predicate, condition = CONDITIONS[condition_name]
    expected = da.update(first, values, predicate)
    same = {name: made(each) for name, each in same_values.items()}
    found = ds.update(spark, second, same, made(condition))
    assert (found.version, seen(second)) == (expected.version, seen(first))


@pytest.mark.full
@pytest.mark.parametrize("way", ["files", "vectors"])
def test_a_condition_on_the_time_is_evaluated_once(
    spark: SparkSession, tmp_path: Path, way: str
) -> None:
    make(tmp_path, way, partitioned=False)
    ds.delete(spark, tmp_path, "id % 2 = 0 AND current_timestamp() > TIMESTAMP '2020-01-01'")
    assert [row["id"] for row in by_id(da.to_table(tmp_path))] == [1, 3, 5, 7]
    ds.update(spark, tmp_path, {"v": 1}, "id < 4 AND current_date() > DATE '2020-01-01'")
    assert [row["v"] for row in by_id(da.to_table(tmp_path))] == [1, 1, 50, 70]


@pytest.mark.full
@pytest.mark.parametrize(
    "kind", [pytest.param("feed", marks=pytest.mark.full), "tracking, feed and vectors"]
)
def test_the_change_feed_has_exactly_the_values_of_the_rows(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    make(tmp_path, kind, partitioned=False)
    version = ds.update(spark, tmp_path, {"v": "floor(rand() * 900)"}, "id IN (1, 5, 8)").version
    changes = rows_changed(tmp_path, version, "update_postimage")
    stored = [row for row in by_id(da.to_table(tmp_path)) if row["id"] in (1, 5, 8)]
    assert changes == stored
    assert [row["id"] for row in by_id(da.to_table(tmp_path))] == [1, 2, 3, 4, 5, 6, 7, 8, 10]
    before = {row["v"] for row in rows_changed(tmp_path, version, "update_preimage")}
    assert before == {10, 50, 80}


def test_a_rerun_does_nothing(spark: SparkSession, tmp_path: Path) -> None:
    make(tmp_path, "files", partitioned=False)
    first = ds.update(spark, tmp_path, {"v": "v + 1"}, "id = 1", txn=("app", 1))
    again = ds.update(spark, tmp_path, {"v": "v + 1"}, "id = 1", txn=("app", 1))
    assert (again.version, again.already_committed) == (first.version, True)
    assert by_id(da.to_table(tmp_path))[0]["v"] == 11
    deleted = ds.delete(spark, tmp_path, "id = 77", txn=("app", 2))
    assert deleted.version == (first.version or 0) + 1


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table for calls that must be rejected."""
    table = tmp_path_factory.mktemp("unchanged")
    make(table, "files", partitioned=False)
    return table


def refuses(run: Callable[[], object], path: Path, message: str) -> None:
    """Assert that the call is rejected, commits nothing and leaves no file."""
    before = sorted(str(each) for each in path.rglob("*"))
    with pytest.raises(InvalidRequestError, match=message):
        run()
    assert sorted(str(each) for each in path.rglob("*")) == before


@pytest.mark.some_cases(4)
@pytest.mark.parametrize(
    ("argument", "message"),
    [
        pytest.param({"v": "v * 100"}, "CHECK constraint small", id="a constraint"),
        pytest.param({"id": None}, "NOT NULL", id="a null"),
        pytest.param({"v": "9223372036854775808"}, "does not fit", id="a number too large"),
        pytest.param({"v": "'x'"}, "cast it", id="another type"),
        pytest.param({"w": 1}, "no column w", id="no column"),
        pytest.param({"v": 1, "V": 2}, "twice", id="a column twice"),
        pytest.param({"v": "nowhere + 1"}, "no column nowhere", id="a name that is nowhere"),
        pytest.param({"v": col("id") == 1}, "give a value", id="a predicate"),
        pytest.param({"v": "x"}, "There is no column x", id="a text that is SQL"),
        pytest.param({"v": "sum(v) OVER ()"}, "more than one row", id="a window"),
        pytest.param({"v": "max(v)"}, "more than one row", id="an aggregate"),
        pytest.param({"v": "explode(array(1, 2))"}, "produces several", id="several rows"),
        pytest.param({"v": object()}, "cannot hold", id="no value"),
        pytest.param({}, "no column gets a value", id="nothing"),
        pytest.param({"twice": 1}, "twice", id="a generated column"),
    ],
)
def test_an_update_that_does_not_fit_is_refused(
    spark: SparkSession, unchanged: Path, argument: dict[str, Any], message: str
) -> None:
    refuses(lambda: ds.update(spark, unchanged, argument, "id > 1"), unchanged, message)


@pytest.mark.full
def test_rows_that_break_a_rule_leave_no_vector(spark: SparkSession, tmp_path: Path) -> None:
    make(tmp_path, "vectors", partitioned=False)
    update = partial(ds.update, spark, tmp_path)
    refuses(lambda: update({"v": "v * 100"}, "id > 1"), tmp_path, "CHECK constraint small")
    refuses(lambda: update({"id": None}, "id > 1"), tmp_path, "NOT NULL")


@pytest.mark.full
@pytest.mark.parametrize("value", ["3000000000", "'red'", "1.5D"])
def test_a_partition_column_gets_no_value_that_its_type_cannot_hold(
    spark: SparkSession, tmp_path: Path, value: str
) -> None:
    ds.write(spark.sql("SELECT 1L AS id, 1 AS p"), tmp_path, partition_by=["p"])
    refuses(lambda: ds.update(spark, tmp_path, {"p": value}), tmp_path, "does not fit|cast it")
    source = spark.sql(f"SELECT 1L AS id, {value} AS p")
    merge = ds.merge(tmp_path, source, "target.id = source.id").when_matched_update_all()
    refuses(merge.execute, tmp_path, "does not fit|cast it")


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("nowhere = 1", "There is no column nowhere"),
        ("id", "not a condition"),
        ("rand() < 0.5", "not deterministic"),
        ("sum(id) > 1", "more than one row"),
        ("id = = 1", "does not understand"),
        (17, "predicate is 17"),
    ],
)
def test_a_condition_that_is_none_is_refused(
    spark: SparkSession, unchanged: Path, condition: Any, message: str
) -> None:
    refuses(lambda: ds.delete(spark, unchanged, condition), unchanged, message)
    refuses(lambda: ds.update(spark, unchanged, {"v": 1}, condition), unchanged, message)


def test_immutable_columns_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        ds.delete(spark, tmp_path / "nowhere")
    make(tmp_path, "files", partitioned=False)
    set_properties(tmp_path, {"delta.appendOnly": "true"})
    refuses(lambda: ds.delete(spark, tmp_path, "id = 1"), tmp_path, "append-only")


@pytest.mark.full
def test_nan_is_found_whatever_statistics_say(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql("SELECT id, IF(id = 3, double('NaN'), double(id)) AS x FROM range(10)")
    ds.write(frame, tmp_path)
    ds.delete(spark, tmp_path, "x > 100")
    assert 3 not in da.to_table(tmp_path)["id"].to_pylist()
    assert da.to_table(tmp_path).num_rows == 9


def test_rows_of_one_file_are_changed_by_two_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """The later commit merges its vector with the earlier commit's vector."""
    make(tmp_path, "vectors", partitioned=False)
    transaction = DeltaLog(tmp_path).snapshot()
    assert transaction

    def meanwhile(event: object) -> None:
        if type(event).__name__ == "DataFilesStaged" and not done:
            done.append(da.delete(tmp_path, col("id") == 2))

    done: list[object] = []
    ds.delete(spark, tmp_path, "id = 1", on_event=meanwhile)
    assert done
    assert [row["id"] for row in by_id(da.to_table(tmp_path))] == [3, 4, 5, 6, 7, 8, 10]


def test_a_file_that_another_wrote_again_is_a_conflict(spark: SparkSession, tmp_path: Path) -> None:
    make(tmp_path, "files", partitioned=False)

    def meanwhile(event: object) -> None:
        if type(event).__name__ == "DataFilesStaged" and not done:
            done.append(da.delete(tmp_path, col("id") == 2))

    done: list[object] = []
    with pytest.raises(CommitConflictError):
        ds.update(spark, tmp_path, {"v": 1}, "id = 1", on_event=meanwhile)
    data_files = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("[!_]*.parquet")}
    assert not [each for each in data_files if each.startswith("w-")]


@pytest.mark.full
def test_no_row_is_read_of_files_that_are_left_out(spark: SparkSession, tmp_path: Path) -> None:
    make(tmp_path, "files", partitioned=True)
    (gone,) = [path for path in live_paths(DeltaLog(tmp_path)) if "c%20d" in path or "c d" in path]
    (tmp_path / gone).unlink()
    ds.delete(spark, tmp_path, "p = 'a' AND length(p) = 1 AND v > 10")
    ds.update(spark, tmp_path, {"v": 0}, "p = 'b'")
    with pytest.raises(InvalidRequestError):
        ds.update(spark, tmp_path, {"v": 0}, "length(p) > 2")


@pytest.mark.full
def test_changed_properties_are_respected(spark: SparkSession, tmp_path: Path) -> None:
    make(tmp_path, "files", partitioned=False)
    set_properties(tmp_path, {**VECTORS, **FEED})
    ds.delete(spark, tmp_path, "id = 3")
    ds.update(spark, tmp_path, {"v": 0}, "id = 4")
    da.write(tmp_path, data((11, "a", 1)))
    assert [row["id"] for row in by_id(da.to_table(tmp_path))] == [1, 2, 4, 5, 6, 7, 8, 10, 11]


def test_a_column_is_not_read_by_how_it_is_shown(spark: SparkSession, tmp_path: Path) -> None:
    """The text `NULL` is shown like a null."""
    ds.write(spark.sql("SELECT 1L AS id, 'NULL' AS s"), tmp_path)
    ds.delete(spark, tmp_path, sf.col("s") == "NULL")
    assert da.to_table(tmp_path).num_rows == 0


def test_times_match_the_session(in_new_york: SparkSession, tmp_path: Path) -> None:
    rows = in_new_york.sql("SELECT 1L AS id, timestamp_micros(1767229200000000) AS t")
    ds.write(rows, tmp_path)  # 2026-01-01 01:00 in UTC, the previous evening in the session zone
    ds.delete(in_new_york, tmp_path, "t < TIMESTAMP '2026-01-01 00:00:00'")
    assert da.to_table(tmp_path).num_rows == 0

"""Write modes and schema changes in Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, col
from delta_ops.errors import CommitConflictError, InvalidRequestError, TableExistsError
from delta_ops.events import DataFilesStaged, Event
from delta_ops.protocol.predicate import Predicate
from tests.spark.frames import files_under, rows_of
from tests.support.tables import rows_by_deltalake, rows_by_polars

pytestmark = pytest.mark.spark


LETTERS = "SELECT * FROM VALUES (1L, 'a'), (2L, 'b'), (3L, null) AS t(id, p)"


@pytest.fixture
def letters(spark: SparkSession) -> DataFrame:
    return spark.sql(LETTERS)


def meanwhile(act: Callable[[], object]) -> Callable[[Event], None]:
    def on_event(event: Event) -> None:
        if isinstance(event, DataFilesStaged):
            act()

    return on_event


def live_files(root: Path) -> set[str]:
    return set(DeltaLog(root).snapshot().files(["path"])["path"].to_pylist())


def parquet_files(root: Path) -> set[str]:
    return {path for path in files_under(root) if path.endswith(".parquet")}


def test_a_table_that_is_there_is_an_error_or_left_alone(
    tmp_path: Path, letters: DataFrame
) -> None:
    assert ds.write(letters, tmp_path, "error").version == 0
    before = files_under(tmp_path)
    with pytest.raises(TableExistsError):
        ds.write(letters, tmp_path, "error")
    assert ds.write(letters, tmp_path, "ignore").ignored
    assert files_under(tmp_path) == before


def test_a_table_that_appears_before_the_commit_counts_as_there(
    tmp_path: Path, letters: DataFrame
) -> None:
    def appears(root: Path) -> Callable[[Event], None]:
        return meanwhile(lambda: da.write(root, pa.table({"id": [4], "p": ["d"]})))

    with pytest.raises(TableExistsError):
        ds.write(letters, tmp_path / "t", "error", on_event=appears(tmp_path / "t"))
    assert ds.write(letters, tmp_path / "u", "ignore", on_event=appears(tmp_path / "u")).ignored
    for root in (tmp_path / "t", tmp_path / "u"):
        assert parquet_files(root) == live_files(root)
        assert rows_by_deltalake(root) == [{"id": 4, "p": "d"}]


@pytest.mark.parametrize(
    "mode",
    ["overwrite", *(pytest.param(mode, marks=pytest.mark.full) for mode in ("error", "ignore"))],
)
def test_a_rerun_with_the_same_txn_does_nothing_in_any_mode(
    tmp_path: Path, letters: DataFrame, mode: Any
) -> None:
    first = ds.write(letters, tmp_path, mode, txn=("app", 1), user_metadata="why")
    assert next(DeltaLog(tmp_path).history()).user_metadata == "why"
    before = files_under(tmp_path)
    again = ds.write(letters, tmp_path, mode, txn=("app", 1))
    assert (first.version, again.version, again.already_committed) == (0, 0, True)
    assert files_under(tmp_path) == before


def test_only_the_partitions_of_the_data_are_replaced(
    tmp_path: Path, spark: SparkSession, letters: DataFrame
) -> None:
    ds.write(
        letters.selectExpr("id", "p", "date'2024-01-01' AS d"), tmp_path, partition_by=["d", "p"]
    )
    new = spark.sql(
        "SELECT * FROM VALUES (10L, 'a', date'2024-01-01'), (30L, '', date'2024-01-01'), "
        "(20L, 'b', date'2024-01-02') AS t(id, p, d)"
    )
    ds.write(new, tmp_path, "overwrite", partition_overwrite_mode="dynamic")
    assert sorted(row["id"] for row in rows_by_deltalake(tmp_path)) == [2, 10, 20, 30]


@pytest.mark.parametrize(
    ("rival", "conflicts"), [("a", True), pytest.param("b", False, marks=pytest.mark.full)]
)
def test_a_dynamic_overwrite_rests_on_its_partitions_alone(
    tmp_path: Path, letters: DataFrame, rival: str, conflicts: bool
) -> None:
    ds.write(letters, tmp_path, partition_by=["p"])
    append = meanwhile(lambda: da.write(tmp_path, pa.table({"id": [9], "p": [rival]})))

    def overwrite() -> None:
        ds.write(
            letters.filter("p = 'a'"),
            tmp_path,
            "overwrite",
            partition_overwrite_mode="dynamic",
            on_event=append,
        )

    if conflicts:
        with pytest.raises(CommitConflictError, match="added rows"):
            overwrite()
        assert parquet_files(tmp_path) == live_files(tmp_path)
    else:
        overwrite()
    assert sorted(row["id"] for row in rows_by_deltalake(tmp_path)) == [1, 2, 3, 9]


NESTED = (
    "named_struct('x', id, 'deep', named_struct('y', id)) AS s",
    "array(named_struct('z', id)) AS l",
)
MORE = (
    "named_struct('DEEP', named_struct('new', 'n', 'Y', id)) AS S",
    "array(named_struct('new', 1.5D)) AS l",
    "map('k', named_struct('v', id)) AS m",
)


def test_new_columns_are_added_with_the_rows(tmp_path: Path, spark: SparkSession) -> None:
    one = spark.range(1, 2)
    ds.write(one.selectExpr("id", *NESTED), tmp_path)
    with pytest.raises(InvalidRequestError, match="merge_schema=True to add it"):
        ds.write(one.selectExpr("id", "1 AS n"), tmp_path)
    ds.write(one.selectExpr("id + 1 AS ID", *MORE), tmp_path, merge_schema=True)
    expected = [
        {
            "id": 1,
            "s": {"x": 1, "deep": {"y": 1, "new": None}},
            "l": [{"z": 1, "new": None}],
            "m": None,
        },
        {
            "id": 2,
            "s": {"x": None, "deep": {"y": 1, "new": "n"}},
            "l": [{"z": None, "new": 1.5}],
            "m": [("k", {"v": 1})],
        },
    ]
    assert rows_of(ds.read(spark, tmp_path)) == expected
    assert rows_by_deltalake(tmp_path) == expected == da_rows(tmp_path)


def da_rows(root: Path) -> list[dict[str, Any]]:
    return sorted(da.to_table(root).to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize(
    ("replaced", "kept"),
    [
        pytest.param(None, [], marks=pytest.mark.full),
        (col("id") >= 2, [1]),
        pytest.param(col("p") == "b", [1, 3], marks=pytest.mark.full),
    ],
)
def test_an_overwrite_may_bring_columns_too(
    tmp_path: Path,
    spark: SparkSession,
    letters: DataFrame,
    replaced: Predicate | None,
    kept: list[int],
) -> None:
    ds.write(letters.coalesce(1), tmp_path)
    new = spark.sql("SELECT 5 AS n, 'b' AS p, 2L AS id")
    ds.write(new, tmp_path, "overwrite", replace_where=replaced, merge_schema=True)
    found = rows_of(ds.read(spark, tmp_path))
    assert [row["id"] for row in found if row["n"] is None] == kept
    assert [row for row in found if row["n"] is not None] == [{"id": 2, "p": "b", "n": 5}]


def test_a_column_may_say_which_rows_are_replaced(
    tmp_path: Path, spark: SparkSession, letters: DataFrame
) -> None:
    ds.write(letters.coalesce(1), tmp_path)
    new = spark.sql("SELECT 9L AS id, 'b' AS p")
    kept = [row for row in rows_of(ds.read(spark, tmp_path)) if row["p"] != "b"]
    ds.write(new, tmp_path, "overwrite", replace_where=sf.col("p") == "b")
    assert rows_of(ds.read(spark, tmp_path)) == [*kept, {"id": 9, "p": "b"}]
    with pytest.raises(InvalidRequestError, match="only Spark knows its rows; compare columns"):
        ds.write(new, tmp_path, "overwrite", replace_where=sf.hash("p") == 1)


def test_the_schema_and_the_partitioning_may_be_overwritten(
    tmp_path: Path, spark: SparkSession, letters: DataFrame
) -> None:
    ds.write(letters, tmp_path, partition_by=["p"])
    new = spark.sql("SELECT 'x' AS id, 1.5D AS d, date'2024-01-01' AS day")
    with pytest.raises(InvalidRequestError, match="is partitioned by p, which the data do not"):
        ds.write(new, tmp_path, "overwrite", overwrite_schema=True)
    ds.write(new, tmp_path, "overwrite", ["day"], overwrite_schema=True)
    assert DeltaLog(tmp_path).snapshot().partition_columns == ("day",)
    assert rows_by_deltalake(tmp_path) == rows_of(new) == rows_by_polars(tmp_path)
    assert rows_of(ds.read(spark, tmp_path, version=0)) == rows_of(letters)


def test_a_table_can_be_overwritten_from_itself_with_another_schema(
    tmp_path: Path, spark: SparkSession, letters: DataFrame
) -> None:
    ds.write(letters, tmp_path, partition_by=["p"])
    changed = ds.read(spark, tmp_path).selectExpr("cast(id AS string) AS id", "p AS q")
    ds.write(changed, tmp_path, "overwrite", [], overwrite_schema=True)
    assert [row["id"] for row in rows_of(ds.read(spark, tmp_path))] == ["1", "2", "3"]


@pytest.fixture(scope="module")
def by_letter(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table for writes that must be rejected."""
    table = tmp_path_factory.mktemp("by letter")
    ds.write(spark.sql(LETTERS), table, partition_by=["p"])
    return table


@pytest.mark.parametrize(
    ("select", "options", "message"),
    [
        ("id, 1 AS n, 2 AS N", {"merge_schema": True}, "column 'n' is in the data twice"),
        ("id, p, 'x' AS P", {"merge_schema": True}, "column 'p' is in the data twice"),
        ("'x' AS id", {"merge_schema": True}, "column 'id' is long in the table and string in"),
        ("struct(id) AS id", {"merge_schema": True}, "'id' is long in the table and struct in"),
        ("id, null AS n", {"merge_schema": True}, "Column n is of Spark's type void"),
        ("id, 1 AS `a b`", {"merge_schema": True}, "'a b' has a character that Delta tables"),
        (
            "id, timestamp_ntz'2024-01-01 00:00:00' AS t",
            {"merge_schema": True},
            "needs the feature timestampNtz that the table's protocol does not have",
        ),
        ("id, p", {"partition_by": ["id"]}, "is partitioned by p, not by id"),
        ("id, p", {"overwrite_schema": True}, 'overwrite_schema needs mode="overwrite"'),
    ],
)
def test_impossible_requests_get_one_sentence(
    by_letter: Path, letters: DataFrame, select: str, options: dict[str, Any], message: str
) -> None:
    before = files_under(by_letter)
    columns = [each.strip() for each in select.split(", ")]
    with pytest.raises(InvalidRequestError) as refused:
        ds.write(letters.selectExpr(*columns), by_letter, **options)
    assert message in str(refused.value)
    assert files_under(by_letter) == before


@pytest.mark.parametrize("mode", ["append", "error"])
def test_a_stream_is_refused_before_anything_is_written(
    tmp_path: Path, spark: SparkSession, mode: Any
) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(InvalidRequestError, match="with write_stream"):
        ds.write(stream, tmp_path, mode)
    assert not files_under(tmp_path)

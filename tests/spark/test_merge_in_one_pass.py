"""Merges that rewrite files in one pass: same result as merges that look for pairs first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, begin, col
from delta_ops.ddl import add_constraint, set_properties
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.schema import LONG, STRING, StructField, StructType
from delta_ops.spark.dml import merge as merge_module
from delta_ops.spark.dml import merge_in_one_pass
from delta_ops.spark.dml.changed_rows import write_with_flags
from delta_ops.spark.session.session import overriding
from delta_ops.transaction.merge import Merge
from tests.spark.changed_tables import data, seen, twins
from tests.support.tables import live_paths

ON_ID = "target.id = source.id"
KINDS = (("files", True), ("mapped by name", False), ("tracking", False))
SOURCE = data((2, "b", 21), (4, "b", 41), (6, "a", 61), (8, "d", 81), (11, "a", 110), (20, None, 5))
CLAUSES: dict[str, Callable[[Merge], Merge]] = {
    "all": lambda m: m.when_matched_update_all().when_not_matched_insert_all(),
    "update": lambda m: m.when_matched_update({"v": "target.v + source.v"}),
    "some inserts": lambda m: (
        m.when_matched_update({"p": "source.p"})
        .when_not_matched_insert({"id": "source.id", "v": 1}, "source.id > 5")
        .when_not_matched_insert_all("source.v IS NULL")
    ),
}


class Passes:
    """Whether each pass kept its files, and the number of searches for pairs."""

    def __init__(self) -> None:
        self.decisions: list[bool] = []
        self.num_pairings = 0


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Passes:
    found, written = Passes(), []
    merge = merge_in_one_pass.merge_in_one_pass

    def recorded_write(*arguments: Any, **options: Any) -> Any:
        written.append(write_with_flags(*arguments, **options))
        return written[-1]

    def recorded_merge(*arguments: Any) -> Any:
        num_before = len(written)
        metrics = merge(*arguments)
        found.decisions += [metrics is not None] * (len(written) - num_before)
        found.num_pairings += metrics is None
        return metrics

    monkeypatch.setattr(merge_in_one_pass, "write_with_flags", recorded_write)
    monkeypatch.setattr(merge_module, "merge_in_one_pass", recorded_merge)
    return found


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the single pass for small tables too."""
    monkeypatch.setattr(merge_in_one_pass, "LEAST_HITS", 0)


def upsert(root: Path, source: DataFrame, on: str = ON_ID) -> None:
    merge = ds.merge(root, source, on)
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def values(root: Path) -> dict[int | None, int]:
    table = da.to_table(root)
    found = dict(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))
    assert len(found) == table.num_rows
    return found


def assert_nothing_else_is_there(root: Path) -> None:
    """Assert that the log names every data file."""
    gone = DeltaLog(root).snapshot().tombstones(["path"])["path"].to_pylist()
    found = {str(each.relative_to(root)) for each in root.rglob("*.parquet")}
    assert {each for each in found if "_delta_log" not in each} == live_paths(DeltaLog(root)) | {
        *gone
    }


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("kind", "partitioned", "chosen"),
    [
        pytest.param(*kind, chosen, marks=() if (i + 1) % 3 == j else pytest.mark.full)
        for i, kind in enumerate(KINDS)
        for j, chosen in enumerate(CLAUSES)
    ],
)
def test_it_is_what_the_arrow_engine_makes(
    spark: SparkSession,
    tmp_path: Path,
    eager: None,
    passes: Passes,
    kind: str,
    chosen: str,
    *,
    partitioned: bool,
) -> None:
    first, second = twins(tmp_path, kind, partitioned=partitioned)
    for root in (first, second):
        da.write(root, data((15, "a", 1), (16, "a", 2), (17, "a", 3)))
    CLAUSES[chosen](da.merge(first, SOURCE, ON_ID)).execute()
    CLAUSES[chosen](ds.merge(second, spark.createDataFrame(SOURCE), ON_ID)).execute()
    assert seen(second) == seen(first)
    assert (passes.decisions, passes.num_pairings) == ([True], 0)
    assert_nothing_else_is_there(second)


def make(spark: SparkSession, root: Path, ids: str, num_rows: int = 3_000) -> None:
    """Three files whose values are 0."""
    ds.write(spark.range(0, num_rows, 1, 3).selectExpr(f"{ids} AS id", "0L AS v"), root)


@pytest.mark.full
def test_rows_are_written_at_once_where_all_files_are_sure_to_be_touched(
    spark: SparkSession, tmp_path: Path, passes: Passes
) -> None:
    make(spark, tmp_path, "id")
    upsert(tmp_path, spark.range(-50, 3_050, 10).selectExpr("id", "id + 1 AS v"))
    assert (passes.decisions, passes.num_pairings) == ([True], 0)
    assert values(tmp_path) == {
        **{each: 0 if each % 10 else each + 1 for each in range(3_000)},
        **{each: each + 1 for each in (*range(-50, 0, 10), *range(3_000, 3_050, 10))},
    }
    (entry,) = DeltaLog(tmp_path).history(limit=1)
    metrics = {name: int(value) for name, value in entry.operation_metrics.items()}
    assert metrics["numSourceRows"] == 310
    assert metrics["numTargetRowsUpdated"] == metrics["numTargetRowsMatchedUpdated"] == 300
    assert (metrics["numTargetRowsInserted"], metrics["numTargetRowsCopied"]) == (10, 2_700)
    assert (metrics["numOutputRows"], metrics["numTargetFilesRemoved"]) == (3_010, 3)
    assert_nothing_else_is_there(tmp_path)


@pytest.mark.full
def test_another_merge_needs_no_other_code(
    spark: SparkSession, tmp_path: Path, passes: Passes
) -> None:
    jvm: Any = spark._jvm
    compiled = jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    for number in range(3):
        table = tmp_path / f"{number}"
        make(spark, table, f"id + {number * 10_000}")
        source = spark.range(-50, 3_050, 10).selectExpr(f"id + {number * 10_000} AS id", "id AS v")
        source = spark.createDataFrame(source.toArrow())  # the number is data, not code
        num_before = compiled.getCount()
        upsert(table, source)
    assert passes.decisions == [True] * 3
    assert compiled.getCount() == num_before


@pytest.mark.full
def test_written_rows_are_discarded_for_untouched_files(
    spark: SparkSession, tmp_path: Path, passes: Passes
) -> None:
    make(spark, tmp_path, "id * 2")
    first = live_paths(DeltaLog(tmp_path))
    odd = spark.range(2_000).selectExpr("id * 2 + 1 AS id", "1L AS v")
    upsert(tmp_path, odd.union(spark.range(4_000, 5_000, 2).selectExpr("id", "1L AS v")))
    assert (passes.decisions, passes.num_pairings) == ([False], 1)
    assert values(tmp_path) == {
        **{each: 1 if 4_000 <= each < 5_000 else 0 for each in range(0, 6_000, 2)},
        **dict.fromkeys(range(1, 4_000, 2), 1),
    }
    assert len(first & live_paths(DeltaLog(tmp_path))) == 2
    assert_nothing_else_is_there(tmp_path)


@pytest.mark.full
def test_rows_of_the_source_that_were_not_met_are_inserted(
    spark: SparkSession, tmp_path: Path, passes: Passes
) -> None:
    make(spark, tmp_path, "id")
    da.delete(tmp_path, (col("id") >= 500) & (col("id") < 600))
    source = spark.range(-10, 3_000).selectExpr("id", "1L AS v").repartition(3)
    upsert(tmp_path, source)
    assert (passes.decisions, passes.num_pairings) == ([True], 0)
    assert values(tmp_path) == dict.fromkeys(range(-10, 3_000), 1)
    (entry,) = DeltaLog(tmp_path).history(limit=1)
    assert int(entry.operation_metrics["numTargetRowsInserted"]) == 110
    assert int(entry.operation_metrics["numTargetRowsUpdated"]) == 2_900
    assert int(entry.operation_metrics["numTargetRowsCopied"]) == 0


@pytest.mark.full
def test_a_row_with_many_matches_does_not_represent_others(
    spark: SparkSession, tmp_path: Path, passes: Passes
) -> None:
    make(spark, tmp_path, "id - id % 2")
    upsert(tmp_path, spark.range(3_000).selectExpr("id", "1L AS v"))
    assert passes.decisions == [True]
    found = da.to_table(tmp_path)
    assert sorted(found["id"].to_pylist()) == sorted(
        [*(each - each % 2 for each in range(3_000)), *range(1, 3_000, 2)]
    )
    assert set(found["v"].to_pylist()) == {1}


@pytest.mark.full
@pytest.mark.parametrize(
    "num_tasks",
    [
        pytest.param(1, marks=pytest.mark.full),
        20,  # some of them have no row
    ],
)
def test_rows_of_the_source_in_many_blocks_and_tasks_are_distinguished(
    spark: SparkSession, tmp_path: Path, passes: Passes, num_tasks: int
) -> None:
    ds.write(spark.range(100_000).filter("id % 1000 <> 7").selectExpr("id", "0L AS v"), tmp_path)
    source = spark.range(0, 100_000, 1, num_tasks).filter("id < 20000 OR id > 40000")
    upsert(tmp_path, source.selectExpr("id", "1L AS v"))
    assert passes.decisions == [True]
    assert values(tmp_path) == {
        each: 0 if 20_000 <= each <= 40_000 else 1
        for each in range(100_000)
        if each % 1_000 != 7 or not 20_000 <= each <= 40_000
    }


@pytest.mark.full
def test_keys_that_are_null_or_beyond_the_tables_type_are_new(
    spark: SparkSession, tmp_path: Path, passes: Passes
) -> None:
    make(spark, tmp_path, "CAST(id AS int)")
    beyond = spark.sql("SELECT * FROM VALUES (NULL, 1L), (5000000000L, 1L), (-5000000000L, 1L)")
    some = spark.range(0, 3_000, 10).selectExpr("id", "1L AS v")
    merge = ds.merge(tmp_path, some.union(beyond), ON_ID).when_matched_update_all()
    merge.when_not_matched_insert({"id": "try_cast(source.id AS int)", "v": "2"}).execute()
    assert passes.decisions == [True]
    found = da.to_table(tmp_path)
    assert found.num_rows == 3_003
    assert sum(found["v"].to_pylist()) == 300 + 6
    assert found["id"].null_count == 3


@pytest.mark.full
def test_other_keys_besides_the_number_are_respected(
    spark: SparkSession, tmp_path: Path, passes: Passes
) -> None:
    make(spark, tmp_path, "id")
    source = spark.range(0, 3_000, 10).selectExpr("id", "CAST(id % 20 AS long) AS v")
    upsert(tmp_path, source, f"{ON_ID} AND target.v = source.v")
    assert passes.decisions == [True]
    found = da.to_table(tmp_path)
    assert found.num_rows == 3_000 + 150
    assert sum(found["v"].to_pylist()) == 150 * 10


def test_rows_that_statistics_hide_are_not_doubled(
    spark: SparkSession, tmp_path: Path, passes: Passes
) -> None:
    make(spark, tmp_path, "id")
    commit = tmp_path / "_delta_log" / f"{0:020}.json"
    text, last = commit.read_text(), r"{\"id\":2999"
    assert text.count(last) == 1
    commit.write_text(text.replace(last, r"{\"id\":2899"))
    upsert(tmp_path, spark.range(0, 3_000, 10).selectExpr("id", "1L AS v"))
    assert (passes.decisions, passes.num_pairings) == ([False], 1)
    assert values(tmp_path) == {each: int(each % 10 == 0) for each in range(3_000)}
    assert_nothing_else_is_there(tmp_path)


@pytest.mark.full
def test_keys_between_the_ranges_of_files_are_written_with_the_others(
    spark: SparkSession, tmp_path: Path, passes: Passes
) -> None:
    make(spark, tmp_path, "id + id div 1000 * 5000")
    upsert(tmp_path, spark.range(0, 13_000, 10).selectExpr("id", "1L AS v"))
    assert passes.decisions == [True]
    assert sum(values(tmp_path).values()) == 1_300
    (entry,) = DeltaLog(tmp_path).history(limit=1)
    directories = {path.split("/")[0] for path in live_paths(DeltaLog(tmp_path))}
    assert len(directories) == 1  # of one job
    assert int(entry.operation_metrics["numTargetRowsInserted"]) == 1_000


@pytest.mark.full
def test_columns_of_the_source_are_added(
    spark: SparkSession, tmp_path: Path, passes: Passes
) -> None:
    make(spark, tmp_path, "id")
    da.delete(tmp_path, col("id") == 20)
    source = spark.range(0, 3_100, 10).selectExpr("id", "CAST(1 AS long) AS v", "'x' AS w")
    merge = ds.merge(tmp_path, source, ON_ID, merge_schema=True)
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert passes.decisions == [True]
    found = {row["id"]: row["w"] for row in da.to_table(tmp_path).to_pylist()}
    assert found == {
        each: "x" if each % 10 == 0 else None for each in (*range(3_000), *range(3_000, 3_100, 10))
    }


def test_rows_that_vectors_have_deleted_stay_so(
    spark: SparkSession, tmp_path: Path, passes: Passes
) -> None:
    vectors = "delta.enableDeletionVectors"
    ds.write(
        spark.range(1_000).selectExpr("id", "0L AS v"), tmp_path, configuration={vectors: "true"}
    )
    da.delete(tmp_path, col("id") < 100)
    set_properties(tmp_path, {vectors: "false"})
    upsert(tmp_path, spark.range(50, 1_000, 10).selectExpr("id", "1L AS v"))
    assert passes.decisions == [True]
    assert values(tmp_path) == {
        **{each: int(each % 10 == 0) for each in range(100, 1_000)},
        **dict.fromkeys(range(50, 100, 10), 1),
    }
    (entry,) = DeltaLog(tmp_path).history(limit=1)
    assert int(entry.operation_metrics["numTargetRowsInserted"]) == 5
    assert int(entry.operation_metrics["numTargetRowsCopied"]) == 810


@pytest.mark.full
def test_files_that_are_written_after_a_shuffle_are_reported(
    spark: SparkSession, tmp_path: Path, passes: Passes
) -> None:
    rows = spark.range(1_000).selectExpr("id", "id % 3 AS p", "0L AS v")
    gathered = {"delta.autoOptimize.optimizeWrite": "true"}
    ds.write(rows, tmp_path, partition_by=["p"], configuration=gathered)
    upsert(tmp_path, spark.range(0, 1_100, 5).selectExpr("id", "id % 3 AS p", "1L AS v"))
    assert passes.decisions == [True]
    assert sum(values(tmp_path).values()) == 220
    (entry,) = DeltaLog(tmp_path).history(limit=1)
    assert int(entry.operation_metrics["numTargetRowsUpdated"]) == 200


@pytest.mark.full
@pytest.mark.parametrize("first_key", [-10, pytest.param(0, marks=pytest.mark.full)])
def test_late_rows_and_others_get_defaults(
    spark: SparkSession, tmp_path: Path, passes: Passes, first_key: int
) -> None:
    transaction = begin(DeltaLog(tmp_path))
    columns = (
        StructField("id", LONG),
        StructField("v", LONG),
        StructField("s", STRING, metadata={"CURRENT_DEFAULT": "'new'"}),
    )
    supported = {"delta.feature.allowColumnDefaults": "supported"}
    transaction.create_table(StructType(columns), configuration=supported)
    transaction.commit(operation="CREATE TABLE")
    old = spark.range(1_000).filter("id <> 500").selectExpr("id", "0L AS v", "'old' AS s")
    ds.write(old, tmp_path)
    source = spark.range(first_key, 1_000, 10).selectExpr("id", "1L AS v")
    merge = ds.merge(tmp_path, source, ON_ID).when_matched_update({"v": "source.v"})
    merge.when_not_matched_insert({"id": "source.id", "v": "source.v"}).execute()
    assert passes.decisions == [True]
    found = {row["id"]: row["s"] for row in da.to_table(tmp_path).to_pylist()}
    new = {500, *range(first_key, 0, 10)}
    assert found == {each: "new" if each in new else "old" for each in {*range(1_000), *new}}


@pytest.mark.full
@pytest.mark.parametrize("first_key", [-10, pytest.param(0, marks=pytest.mark.full)])
def test_values_that_are_counted_on_are_so_by_way_of_pairs(
    spark: SparkSession, tmp_path: Path, passes: Passes, first_key: int
) -> None:
    counted = {
        "delta.identity.start": 1,
        "delta.identity.step": 1,
        "delta.identity.allowExplicitInsert": True,
    }
    columns = (
        StructField("number", LONG, metadata=counted),
        StructField("id", LONG),
        StructField("v", LONG),
    )
    transaction = begin(DeltaLog(tmp_path))
    transaction.create_table(StructType(columns))
    transaction.commit(operation="CREATE TABLE")
    ds.write(spark.range(1_000).filter("id <> 500").selectExpr("id", "0L AS v"), tmp_path)
    source = spark.range(first_key, 1_000, 10).selectExpr("id", "1L AS v")
    merge = ds.merge(tmp_path, source, ON_ID).when_matched_update({"v": "source.v"})
    merge.when_not_matched_insert({"id": "source.id", "v": "source.v"}).execute()
    assert (passes.decisions, passes.num_pairings) == ([], 1)
    numbers = da.to_table(tmp_path)["number"].to_pylist()
    assert len(set(numbers)) == len(numbers) == 1_000 - first_key // 10


@pytest.mark.full
def test_fields_and_names_with_dots_are_keys(
    spark: SparkSession, tmp_path: Path, passes: Passes
) -> None:
    ds.write(spark.range(1_000).selectExpr("struct(id AS `k.1`) AS `s.t`", "0L AS v"), tmp_path)
    source = spark.range(-10, 1_000, 10).selectExpr("struct(id AS `k.2`) AS `s.u`", "1L AS v")
    merge = ds.merge(tmp_path, source, "target.`s.t`.`K.1` = source.`s.u`.`k.2`")
    merge.when_matched_update({"v": "source.v"}).execute()
    assert passes.decisions == [True]
    assert sum(da.to_table(tmp_path)["v"].to_pylist()) == 100


VECTORS = {"delta.enableDeletionVectors": "true"}


@pytest.mark.full
@pytest.mark.parametrize(
    ("argument", "on", "clauses"),
    [
        pytest.param(VECTORS, ON_ID, CLAUSES["all"], id="vectors"),
        pytest.param({}, f"{ON_ID} AND target.v < 5", CLAUSES["all"], id="a condition"),
        pytest.param({}, ON_ID, lambda m: m.when_matched_delete(), id="a delete"),
        pytest.param(
            {"delta.enableChangeDataFeed": "true"},
            ON_ID,
            CLAUSES["all"],
            id="the feed",
            marks=pytest.mark.full,
        ),
        pytest.param(
            {},
            ON_ID,
            lambda m: m.when_matched_update_all("source.v > 0"),
            id="an update of some",
            marks=pytest.mark.full,
        ),
        pytest.param(
            {},
            ON_ID,
            lambda m: m.when_not_matched_insert_all(),
            id="inserts alone",
            marks=pytest.mark.full,
        ),
        pytest.param(
            {},
            ON_ID,
            lambda m: m.when_matched_update_all().when_not_matched_by_source_update({"v": "3"}),
            id="rows that none meets",
            marks=pytest.mark.full,
        ),
        pytest.param(
            {},
            ON_ID,
            lambda m: m.when_matched_update(
                {"v": "unix_seconds(current_timestamp())"}
            ).when_not_matched_insert_all(),
            id="a value of the time",
            marks=pytest.mark.full,
        ),
    ],
)
def test_other_merges_look_for_pairs(
    spark: SparkSession,
    tmp_path: Path,
    passes: Passes,
    argument: dict[str, str],
    on: str,
    clauses: Callable[[Merge], Merge],
) -> None:
    ds.write(spark.range(100).selectExpr("id", "0L AS v"), tmp_path, configuration=argument)
    clauses(ds.merge(tmp_path, spark.range(200).selectExpr("id", "1L AS v"), on)).execute()
    assert (passes.decisions, passes.num_pairings) == ([], 1)


@pytest.mark.full
def test_a_source_with_two_matches_for_a_row_looks_for_pairs(
    spark: SparkSession, tmp_path: Path, passes: Passes
) -> None:
    make(spark, tmp_path, "id")
    with pytest.raises(InvalidRequestError, match="matches 2 source rows"):
        upsert(tmp_path, spark.range(200).selectExpr("id % 100 AS id", "1L AS v"))
    assert (passes.decisions, passes.num_pairings) == ([], 1)


@pytest.mark.full
def test_a_source_of_few_rows_for_a_file_looks_for_pairs(
    spark: SparkSession, tmp_path: Path, passes: Passes
) -> None:
    make(spark, tmp_path, "id")
    upsert(tmp_path, spark.range(990, 1_100).selectExpr("id", "1L AS v"))
    assert (passes.decisions, passes.num_pairings) == ([], 1)
    assert sum(values(tmp_path).values()) == 110


@pytest.mark.full
def test_sources_that_are_not_sent_whole_or_have_many_rows_look_for_pairs(
    spark: SparkSession, tmp_path: Path, passes: Passes
) -> None:
    make(spark, tmp_path, "id")
    with overriding(spark, {"spark.sql.autoBroadcastJoinThreshold": "-1"}):
        upsert(tmp_path, spark.range(3_000).selectExpr("id", "1L AS v"))
    upsert(tmp_path, spark.range(300_000).selectExpr("id", "2L AS v"))
    assert (passes.decisions, passes.num_pairings) == ([], 2)
    assert values(tmp_path) == dict.fromkeys(range(300_000), 2)


@pytest.mark.full
@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(10, id="of the table"),
        pytest.param(-7, id="of the source, outside the range"),
        pytest.param(500, id="of the source, and late"),
    ],
)
def test_a_row_that_breaks_a_rule_leaves_nothing(
    spark: SparkSession, tmp_path: Path, passes: Passes, broken: int
) -> None:
    make(spark, tmp_path, "id")
    da.delete(tmp_path, col("id") == 500)
    add_constraint(tmp_path, "small", "v < 1000")
    before = DeltaLog(tmp_path).snapshot().version
    keys = spark.range(0, 3_000, 10).union(spark.sql("SELECT -7L"))
    with pytest.raises(InvalidRequestError, match="small"):
        upsert(tmp_path, keys.selectExpr("id", f"IF(id = {broken}, 1000L, 1L) AS v"))
    assert (passes.decisions, passes.num_pairings) == ([], 0)
    assert DeltaLog(tmp_path).snapshot().version == before
    assert_nothing_else_is_there(tmp_path)

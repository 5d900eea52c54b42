"""Merges by Spark: same result as the Arrow engine on the same table and source."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, begin
from delta_ops.errors import InvalidRequestError
from delta_ops.log import plan_scan
from delta_ops.protocol.expression import lit
from delta_ops.protocol.schema import LONG, STRING, DataType, StructField, StructType
from delta_ops.spark.dml import merge_source
from delta_ops.spark.session import jobs
from delta_ops.spark.session.session import overriding
from delta_ops.spark.versions import frame_of_arrow
from delta_ops.transaction.merge import Merge
from tests.spark.changed_tables import by_id, cases, data, make, rows_changed, seen, twins
from tests.support.tables import live_paths

ON_ID = "target.id = source.id"
SOURCE = data((2, "b", 21), (4, "b", 41), (7, "c d", None), (11, "a", 110), (12, None, 120))

CLAUSES: dict[str, Callable[[Merge], Merge]] = {
    "upsert": lambda m: m.when_matched_update_all().when_not_matched_insert_all(),
    "update": lambda m: m.when_matched_update({"v": "target.v + source.v"}),
    "update some": lambda m: m.when_matched_update({"p": lit("z")}, "source.v > 30"),
    "delete": lambda m: m.when_matched_delete(),
    "delete some": lambda m: m.when_matched_delete("target.v IS NULL"),
    "insert": lambda m: m.when_not_matched_insert_all("source.id > 11"),
    "insert values": lambda m: m.when_not_matched_insert({"id": "source.id + 50", "v": 5}),
    "in order": lambda m: (
        m.when_matched_delete("source.v = 21")
        .when_matched_update({"v": "source.v"}, "source.v IS NOT NULL")
        .when_matched_update({"target.p": "target.p"})
        .when_not_matched_insert({"id": "source.id"}, "source.p = 'a'")
        .when_not_matched_insert_all()
    ),
    "others deleted": lambda m: m.when_matched_update_all().when_not_matched_by_source_delete(
        "target.id > 4"
    ),
    "others updated": lambda m: m.when_not_matched_by_source_update({"v": "target.id"}),
    "all of it": lambda m: (
        m.when_matched_update({"v": 1}, "target.id = 2")
        .when_matched_delete()
        .when_not_matched_insert_all()
        .when_not_matched_by_source_update({"v": 2}, "target.p = 'a'")
        .when_not_matched_by_source_delete()
    ),
}


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    return frame_of_arrow(spark, table)


@pytest.mark.some_cases(2)
@cases(
    {
        "upsert": "files",
        "update": "",
        "update some": "",
        "delete": "",
        "delete some": "mapped by id with vectors",
        "insert": "",
        "insert values": "",
        "in order": "",
        "others deleted": "mapped by name",
        "others updated": "",
        "all of it": "tracking, feed and vectors",
    }
)
def test_a_merge_is_that_of_the_arrow_engine(
    spark: SparkSession, tmp_path: Path, kind: str, choice: str, *, partitioned: bool
) -> None:
    first, second = twins(tmp_path, kind, partitioned=partitioned)
    expected = CLAUSES[choice](da.merge(first, SOURCE, ON_ID)).execute()
    found = CLAUSES[choice](ds.merge(second, frame_of(spark, SOURCE), ON_ID)).execute()
    assert (found.version, seen(second)) == (expected.version, seen(first))


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "chosen"),
    [
        ("feed and vectors", "all of it"),
        ("files", "upsert"),
        ("files", "in order"),
        ("feed and vectors", "delete"),
    ],
)
def test_a_merge_of_many_pairs_is_that_of_few(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, chosen: str
) -> None:
    few, many = twins(tmp_path, kind, partitioned=False)
    reported: list[bool] = []
    is_sent_whole = jobs.is_sent_whole

    def report(rows: DataFrame) -> bool:
        reported.append(is_sent_whole(rows))
        return reported[-1]

    monkeypatch.setattr(jobs, "is_sent_whole", report)
    CLAUSES[chosen](ds.merge(few, frame_of(spark, SOURCE), ON_ID)).execute()
    with overriding(spark, {"spark.sql.autoBroadcastJoinThreshold": "-1"}):
        CLAUSES[chosen](ds.merge(many, frame_of(spark, SOURCE), ON_ID)).execute()
    assert seen(many) == seen(few)
    half = len(reported) // 2
    assert reported == [True] * half + [False] * half


@pytest.mark.full
def test_places_with_the_same_number_are_distinguished(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spark.range(0, 40, 1, 4).selectExpr("id", "0L AS v")
    ds.write(rows, tmp_path)
    monkeypatch.setattr("delta_ops.spark.dml.merge_pairs.ROW_BITS", 0)
    source = spark.range(0, 40, 3).selectExpr("id", "id + 100 AS v")
    ds.merge(tmp_path, source, ON_ID).when_matched_update_all().execute()
    found = {row["id"]: row["v"] for row in da.to_table(tmp_path).to_pylist()}
    assert found == {number: 0 if number % 3 else number + 100 for number in range(40)}


@pytest.mark.full
def test_rows_that_stay_are_counted_without_statistics_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    reported, untold = twins(tmp_path, "files", partitioned=False)
    for commit in (untold / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for each in actions:
            each.get("add", {}).pop("stats", None)
        commit.write_text("".join(f"{json.dumps(each)}\n" for each in actions))
    assert DeltaLog(untold).snapshot().files(["stats"])["stats"].null_count
    for table in (reported, untold):
        CLAUSES["upsert"](ds.merge(table, frame_of(spark, SOURCE), ON_ID)).execute()
    assert seen(untold) == seen(reported)


@pytest.mark.full
@pytest.mark.parametrize(
    ("on", "kind", "chosen"),
    [
        ("target.id = source.id AND target.p = source.p", "files", "upsert"),
        (
            "target.id = source.id AND target.p = 'b' AND target.v > source.v",
            "feed and vectors",
            "all of it",
        ),
        ("target.v = source.v - 1", "files", "all of it"),
        ("target.id = source.id AND source.v > 30", "feed and vectors", "upsert"),
        ("target.id = source.id AND source.v > 30", "files", "all of it"),
        ("target.id = source.id AND target.p = source.p", "feed and vectors", "all of it"),
        ("target.v = source.v - 1", "feed and vectors", "upsert"),
    ],
)
def test_conditions_besides_the_key_are_respected(
    spark: SparkSession, tmp_path: Path, kind: str, chosen: str, on: str
) -> None:
    first, second = twins(tmp_path, kind, partitioned=True)
    CLAUSES[chosen](da.merge(first, SOURCE, on)).execute()
    CLAUSES[chosen](ds.merge(second, frame_of(spark, SOURCE), on)).execute()
    assert seen(second) == seen(first)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["files", pytest.param("vectors", marks=pytest.mark.full)])
def test_a_condition_without_an_equality_works(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    make(tmp_path, kind, partitioned=False)
    source = spark.sql("SELECT 3L AS low, 6L AS high")
    merge = ds.merge(tmp_path, source, "target.id BETWEEN source.low AND source.high")
    merge.when_matched_update({"v": sf.lit(0)}).execute()
    found = {row["id"]: row["v"] for row in by_id(da.to_table(tmp_path))}
    assert found == {1: 10, 2: 20, 3: 0, 4: 0, 5: 0, 6: 0, 7: 70, 8: 80, 10: 100}


@pytest.mark.parametrize("kind", [pytest.param("files", marks=pytest.mark.full), "vectors"])
def test_a_row_that_meets_two_is_refused_where_both_would_change_it(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    make(tmp_path, kind, partitioned=False)
    twice = frame_of(spark, data((2, "b", 21), (2, "b", 22), (3, "b", 31)))
    before = sorted(map(str, tmp_path.rglob("*")))
    with pytest.raises(InvalidRequestError, match="with id = 2 matches 2 source rows"):
        ds.merge(tmp_path, twice, ON_ID).when_matched_update_all().execute()
    assert sorted(map(str, tmp_path.rglob("*"))) == before
    ds.merge(tmp_path, twice, ON_ID).when_matched_update_all("source.v <> 21").execute()
    found = {row["id"]: row["v"] for row in by_id(da.to_table(tmp_path))}
    assert (found[2], found[3], len(found)) == (22, 31, 9)
    ds.merge(tmp_path, twice, ON_ID).when_matched_delete().execute()
    assert [row["id"] for row in by_id(da.to_table(tmp_path))] == [1, 4, 5, 6, 7, 8, 10]


@pytest.mark.parametrize(
    "kind", [pytest.param("tracking, feed and vectors", marks=pytest.mark.full), "mapped by name"]
)
def test_columns_of_the_source_are_added(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    first, second = twins(tmp_path, kind, partitioned=False)
    wider = SOURCE.append_column("w", pa.array([f"w{i}" for i in range(5)]))
    for root, merge in (
        (first, da.merge(first, wider, ON_ID, merge_schema=True)),
        (second, ds.merge(second, frame_of(spark, wider), ON_ID, merge_schema=True)),
    ):
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
        assert "w" in DeltaLog(root).snapshot().arrow_schema.names
    assert seen(second) == seen(first)
    with pytest.raises(InvalidRequestError, match="no column 'x'"):
        ds.merge(
            second, spark.sql("SELECT 1L AS id, 2 AS x"), ON_ID
        ).when_matched_update_all().execute()


@pytest.mark.full
@pytest.mark.parametrize(
    "kind", [pytest.param({}, marks=pytest.mark.full), {"delta.enableChangeDataFeed": "true"}]
)
def test_inserted_rows_are_counted_and_get_defaults(
    spark: SparkSession, tmp_path: Path, kind: dict[str, str]
) -> None:
    counted = {
        "delta.identity.start": 10,
        "delta.identity.step": 10,
        "delta.identity.allowExplicitInsert": True,
    }
    transaction = begin(DeltaLog(tmp_path))
    transaction.create_table(
        StructType(
            (
                StructField("number", LONG, metadata=counted),
                StructField("id", LONG),
                StructField("s", STRING, metadata={"CURRENT_DEFAULT": "'new'"}),
            )
        ),
        configuration={"delta.feature.allowColumnDefaults": "supported", **kind},
    )
    transaction.commit(operation="CREATE TABLE")
    for ids in ([1, 2, 3], [3, 4, 5]):
        source = spark.createDataFrame([(each,) for each in ids], "id long")
        merge = ds.merge(tmp_path, source, ON_ID).when_matched_update({"s": lit("met")})
        merge.when_not_matched_insert({"id": "source.id"}).execute()
    found = by_id(da.to_table(tmp_path))
    assert [(row["id"], row["s"]) for row in found] == [
        (1, "new"),
        (2, "new"),
        (3, "met"),
        (4, "new"),
        (5, "new"),
    ]
    numbers = [row["number"] for row in found]
    assert len(set(numbers)) == 5
    assert all(number % 10 == 0 and number >= 10 for number in numbers)
    if kind:
        changes = da.read_changes(tmp_path, 2).read_all().to_pylist()
        recorded = {row["id"]: row["number"] for row in changes if row["_change_type"] == "insert"}
        assert recorded == {4: numbers[3], 5: numbers[4]}


@pytest.mark.full
def test_files_are_left_out_by_the_keys_of_the_source(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = spark.range(0, 1000, 1, 10).selectExpr("id", "id % 7 AS v")
    ds.write(frame, tmp_path)
    snapshot = DeltaLog(tmp_path).snapshot()
    kept = snapshot.files(["path", "stats"]).to_pylist()
    for each in kept:
        if '"minValues":{"id":500,' not in each["stats"]:
            (tmp_path / each["path"]).unlink()
    source = spark.range(510, 520).selectExpr("id", "100L AS v")
    ds.merge(tmp_path, source, ON_ID).when_matched_update_all().execute()
    assert len(live_paths(DeltaLog(tmp_path))) == 10
    monkeypatch.setattr(merge_source, "FEW_ROWS_OF_NUMBERS", 100_000)
    many = spark.range(0, 200_000).selectExpr("-id - 1 AS id", "0L AS v")
    done = ds.merge(tmp_path, many.union(source), ON_ID).when_matched_update_all().execute()
    assert done.metrics["numTargetRowsUpdated"] == 10


KEYS = {
    "whole number": "id",
    "small number": "CAST(id AS int)",
    "date": "date_from_unix_date(CAST(id AS int))",
    "time": "timestamp_seconds(id)",
    "local time": "CAST(timestamp_seconds(id) AS timestamp_ntz)",
    "decimal": "CAST(id AS decimal(20, 2))",
    "text": "lpad(id, 7, '0')",
}
AS_VALUES, AS_RANGES, IN_ONE_JOB = 100, 2, 1000
"""Thresholds that send the keys of 50 rows in each of two tasks down three code paths."""


@pytest.mark.full
@pytest.mark.parametrize(
    ("key", "few_rows"),
    [
        pytest.param(
            key,
            few_rows,
            id=f"{key}, up to {few_rows} rows",
        )
        for key in KEYS
        for few_rows in (AS_RANGES, AS_VALUES, IN_ONE_JOB)
        if few_rows != AS_VALUES or key in ("whole number", "text")
    ],
)
def test_keys_of_every_type_leave_files_out(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, few_rows: int
) -> None:
    for name in ("FEW_ROWS", "FEW_ROWS_OF_NUMBERS"):
        monkeypatch.setattr(merge_source, name, few_rows)
    ds.write(spark.range(0, 500, 1, 5).selectExpr(f"{KEYS[key]} AS id", "0L AS v"), tmp_path)
    read: list[int] = []

    def planned(*arguments: Any, **options: Any) -> Any:
        files = plan_scan(*arguments, **options)
        read.append(len(files))
        return files

    monkeypatch.setattr("delta_ops.spark.dml.merge.plan_scan", planned)
    source = spark.range(210, 310).selectExpr(f"{KEYS[key]} AS id", "1L AS v")
    done = ds.merge(tmp_path, source, ON_ID).when_matched_update_all().execute()
    assert (read, done.metrics["numTargetRowsUpdated"]) == ([2], 100)
    assert done.metrics["numSourceRows"] == 100
    twice = source.unionAll(source.limit(1))
    with pytest.raises(InvalidRequestError, match="matches 2 source rows"):
        ds.merge(tmp_path, twice, ON_ID).when_matched_update_all().execute()


def test_a_null_in_a_source_meets_nothing_and_two_meet_no_more(
    spark: SparkSession, tmp_path: Path
) -> None:
    da.write(tmp_path, pa.table({"id": [1, 2, None], "v": [0, 0, 0]}))
    source = spark.sql("VALUES (1L, 1L), (NULL, 2L), (NULL, 3L) AS s(id, v)")
    ds.merge(tmp_path, source, ON_ID).when_matched_update_all().execute()
    found = {row["id"]: row["v"] for row in da.to_table(tmp_path).to_pylist()}
    assert found == {1: 1, 2: 0, None: 0}
    with pytest.raises(InvalidRequestError, match="matches 2 source rows"):
        ds.merge(tmp_path, source, "target.id <=> source.id").when_matched_update_all().execute()


@pytest.mark.full
@pytest.mark.parametrize("text", ["lpad(id, 7, '0')", "CAST(NULL AS string)"])
def test_many_keys_that_are_texts_or_null(spark: SparkSession, tmp_path: Path, text: str) -> None:
    ds.write(
        spark.sql("SELECT lpad(id, 7, '0') AS id, 0L AS v FROM range(0, 300000, 50000)"), tmp_path
    )
    source = spark.range(150_000).selectExpr(f"{text} AS id", "1L AS v")
    ds.merge(tmp_path, source, ON_ID).when_matched_update_all().execute()
    changed = sum(da.to_table(tmp_path)["v"].to_pylist())
    assert changed == (0 if "NULL" in text else 3)


def test_a_source_that_is_never_the_same_is_taken_once(spark: SparkSession, tmp_path: Path) -> None:
    ds.write(spark.range(1000).selectExpr("id", "0.0D AS x"), tmp_path)
    source = spark.range(1000).selectExpr("cast(rand() * 2000 AS long) AS id", "rand() AS x")
    unique = source.dropDuplicates(["id"])
    ds.merge(
        tmp_path, unique, ON_ID
    ).when_matched_update_all().when_not_matched_insert_all().execute()
    found = da.to_table(tmp_path)
    entry = next(iter(DeltaLog(tmp_path).history()))
    changed = sum(value != 0.0 for value in found["x"].to_pylist())
    assert changed == int(entry.operation_metrics["numSourceRows"])
    assert len(set(found["id"].to_pylist())) == found.num_rows


@pytest.mark.full
@pytest.mark.parametrize("kind", [pytest.param("feed", marks=pytest.mark.full), "feed and vectors"])
def test_the_change_feed_has_exactly_the_values_of_the_rows(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    make(tmp_path, kind, partitioned=False)
    version = (
        ds.merge(tmp_path, frame_of(spark, SOURCE), ON_ID)
        .when_matched_delete("source.id = 7")
        .when_matched_update({"v": "floor(rand() * 900)"})
        .when_not_matched_insert({"id": "source.id", "v": "floor(rand() * 900)"})
        .when_not_matched_by_source_update({"v": "floor(rand() * 900)"}, "target.id = 8")
        .execute()
        .version
    )
    stored = by_id(da.to_table(tmp_path))
    assert [row["id"] for row in stored] == [1, 2, 3, 4, 5, 6, 8, 10, 11, 12]
    updated = [row for row in stored if row["id"] in (2, 4, 8)]
    assert rows_changed(tmp_path, version, "update_postimage") == updated
    assert rows_changed(tmp_path, version, "insert") == stored[-2:]


def test_a_rerun_does_nothing(spark: SparkSession, tmp_path: Path) -> None:
    make(tmp_path, "vectors", partitioned=False)

    def run() -> Any:
        merge = ds.merge(tmp_path, frame_of(spark, SOURCE), ON_ID, txn=("app", 3))
        return merge.when_matched_delete().when_not_matched_insert_all().execute()

    first, again = run(), run()
    assert (again.version, again.already_committed) == (first.version, True)


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table for merges that must be rejected."""
    table = tmp_path_factory.mktemp("unchanged")
    make(table, "vectors", partitioned=False)
    return table


@pytest.mark.some_cases(4)
@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda m: m, "no clause"),
        (lambda m: m.when_matched_update({"v": "nowhere"}), "There is no column nowhere"),
        (lambda m: m.when_matched_update({"v": "v"}), "v is in both target and source"),
        (lambda m: m.when_matched_update_all("rand() < 2"), "not deterministic"),
        (lambda m: m.when_matched_update({"v": "source.p"}), "cast it"),
        (lambda m: m.when_not_matched_insert({"v": "target.v"}), "belongs to the target"),
        (lambda m: m.when_not_matched_by_source_delete("source.v = 1"), "belongs to the source"),
        (lambda m: m.when_not_matched_by_source_delete(sf.col("v") == 1), "with the target's"),
        (lambda m: m.when_not_matched_by_source_update({"p": sf.col("p")}), "'value of p' .*name"),
        (lambda m: m.when_not_matched_insert({"v": 1}), "NOT NULL"),
        (lambda m: m.when_matched_update({"v": 5000}), "CHECK constraint small"),
        (lambda m: m.when_matched_update({"v": "source.v * 9223372036854775807BD"}), "fit"),
        (lambda m: m.when_matched_delete(17), "a condition is of type int"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    spark: SparkSession, unchanged: Path, build: Callable[[Merge], Merge], message: str
) -> None:
    before = sorted(map(str, unchanged.rglob("*")))
    with pytest.raises(InvalidRequestError, match=message):
        build(ds.merge(unchanged, frame_of(spark, SOURCE), ON_ID)).execute()
    assert sorted(map(str, unchanged.rglob("*"))) == before


def test_arguments_of_other_kinds_are_refused(spark: SparkSession, unchanged: Path) -> None:
    frame = frame_of(spark, SOURCE)
    with pytest.raises(InvalidRequestError, match="both called"):
        ds.merge(unchanged, frame, ON_ID, source_alias="t", target_alias="T")
    with pytest.raises(InvalidRequestError, match="predicate"):
        ds.merge(unchanged, frame, 5)  # type: ignore[arg-type]
    stream = spark.readStream.format("rate").load()
    with pytest.raises(InvalidRequestError, match="foreachBatch"):
        ds.merge(unchanged, stream, ON_ID)


@pytest.mark.full
def test_keys_beyond_the_tables_type_meet_nothing(spark: SparkSession, tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": pa.array([1, 2**31 - 1], pa.int32()), "v": [0, 0]}))
    source = spark.createDataFrame([(1, 1), (2**40, 2), (-(2**40), 3)], "id long, v long")
    ds.merge(tmp_path, source, ON_ID).when_matched_update({"v": "source.v"}).execute()
    assert da.to_table(tmp_path)["v"].to_pylist() == [1, 0]


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("data_type", "values", "is_unique"),
    [
        (LONG, "1L, 2L, NULL", True),
        (LONG, "1L, 2L, 1L", False),
        (LONG, "NULL, 2L, NULL", False),
        (STRING, "'a', 'a  '", False),  # a column of char(3) has one row that equals both
    ],
)
def test_ranges_of_source_keys(
    spark: SparkSession, data_type: DataType, values: str, is_unique: bool
) -> None:
    source = merge_source.number_source(spark.sql(f"SELECT explode(array({values})) AS id"))
    key = merge_source.Key(("id",), data_type, sf.col("id"), data_type)
    covered = merge_source.cover(source, [key], None)
    assert (covered.num_rows, covered.is_unique) == (source.count(), is_unique)


@pytest.mark.parametrize(("most", "is_one_job"), [(1000, True), (100, False)])
def test_keys_of_a_source_whose_tasks_are_even_are_taken_by_one_job(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, most: int, is_one_job: bool
) -> None:
    monkeypatch.setattr(merge_source, "FEW_ROWS_OF_NUMBERS", most)
    source = merge_source.number_source(spark.range(0, 100, 1, 2))
    key = merge_source.Key(("id",), LONG, sf.col("id"), LONG)
    group = f"keys of {most}"
    spark.sparkContext.setJobGroup(group, "")
    try:
        assert merge_source.cover(source, [key], None).num_rows == 100
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    num_jobs = len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))
    assert num_jobs > 0
    assert (num_jobs == 1) == is_one_job


@pytest.mark.full
@pytest.mark.parametrize("engine", [da, ds], ids=["arrow", "spark"])
def test_a_struct_without_some_fields_takes_no_values_from_rows(
    spark: SparkSession, tmp_path: Path, engine: Any
) -> None:
    whole = pa.struct([("a", pa.int64()), ("b", pa.string())])
    kept = {"id": 1, "st": {"a": 1, "b": "kept"}, "l": [{"a": 1, "b": "kept"}]}
    types = {"id": pa.int64(), "st": whole, "l": pa.list_(whole)}
    da.write(tmp_path, pa.Table.from_pylist([kept], pa.schema(list(types.items()))))

    def merge(source: pa.Table, **options: Any) -> Merge:
        data = source if engine is da else spark.createDataFrame(source)
        merging: Merge = engine.merge(tmp_path, data, ON_ID, **options)
        return merging

    less = pa.table({"id": [1, 2], "st": [{"a": 2}] * 2})
    for options in ({}, {"merge_schema": True}):
        builder = merge(less, **options).when_matched_update({"st": "source.st"})
        with pytest.raises(InvalidRequestError, match=r"lack the field st\.b"):
            builder.execute()
    lists = pa.table({"id": [1], "l": [[{"a": 2}]]})
    with pytest.raises(InvalidRequestError, match=r"lack the field l\.element\.b"):
        merge(lists).when_matched_update({"l": "source.l"}).execute()
    assert da.to_table(tmp_path).to_pylist() == [kept]
    # Inserts alone have nothing to lose.
    merge(less).when_not_matched_insert({"id": "source.id", "st": "source.st"}).execute()
    added = {"id": 2, "st": {"a": 2, "b": None}, "l": None}
    assert by_id(da.to_table(tmp_path)) == by_id(pa.Table.from_pylist([kept, added]))


@pytest.mark.full
def test_null_meets_null_by_a_null_safe_equality_alone(spark: SparkSession, tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"k": pa.array([None, 1], pa.int64()), "v": ["a", "b"]}))
    source = spark.createDataFrame([(None, "A"), (2, "C")], "k long, v string")
    merge = ds.merge(tmp_path, source, "target.k <=> source.k")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    found = {row["k"]: row["v"] for row in da.to_table(tmp_path).to_pylist()}
    assert found == {None: "A", 1: "b", 2: "C"}

"""The change data feed in Spark: the rows and errors of the Arrow engine, read natively."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, col
from delta_ops.errors import DataFileError, DeltaOpsError, InvalidRequestError
from delta_ops.protocol.actions import Action, AddCdcFile
from delta_ops.protocol.schema import LONG, STRING, TIMESTAMP, StructField, StructType
from tests.arrow.foreign_table import commit, create, data_file, inline_vector, stored_vector
from tests.arrow.test_changes import (
    FEED,
    SCHEMA,
    cdc,
    file,
    ids,
    remove,
    table_of,
    with_later_fields,
)
from tests.arrow.test_changes_of_altered_tables import (
    MAPPED,
    RENAMED,
    mapped_late,
    metadata,
    partitioned_anew,
)
from tests.spark.frames import plan_of, rows_of
from tests.support.tables import SHARED, needs_shared, rows

pytestmark = pytest.mark.spark

TABLES = SHARED / "data" / "tables"
WITH_FEED = (
    ("file index", "delta_rs/cdc_ict_table"),
    ("file index", "kernel/cdf-table"),
    ("file list", "kernel/cdf-column-mapping-name-mode-3-7"),
    ("file list", "kernel/cdf-table-with-cdc-and-dvs"),
    pytest.param("file index", "kernel/cdf-table-with-cdc-and-dvs", marks=pytest.mark.full),
    pytest.param("file index", "kernel/cdf-column-mapping-name-mode-3-7", marks=pytest.mark.full),
    pytest.param("file list", "delta_rs/cdf-table", marks=pytest.mark.full),
    pytest.param("file index", "kernel/cdf-table-backtick-column-names", marks=pytest.mark.full),
    pytest.param(
        "file list", "kernel/cdf-table-delete-conditional-all-rows", marks=pytest.mark.full
    ),
    pytest.param(
        "file index", "kernel/cdf-table-delete-conditional-two-rows", marks=pytest.mark.full
    ),
    pytest.param("file list", "kernel/cdf-table-update-ops", marks=pytest.mark.full),
)


def by_arrow(source: Any, *args: Any, **options: Any) -> list[dict[str, Any]]:
    return rows(da.read_changes(source, *args, **options).read_all())


def assert_as_by_arrow(spark: SparkSession, source: Any, *args: Any, **options: Any) -> None:
    wanted = da.read_changes(source, *args, **options).read_all()
    found = ds.read_changes(spark, source, *args, **options)
    assert found.columns == wanted.column_names
    assert rows_of(found) == rows(wanted)


@pytest.mark.full
@needs_shared
@pytest.mark.parametrize(("way", "name"), WITH_FEED, indirect=["way"])
def test_changes_of_tables_by_other_writers_match_arrow(
    spark: SparkSession, way: str, name: str
) -> None:
    log = DeltaLog(TABLES / name)
    first = next(v for v in range(9) if is_readable_from(log, v))
    assert by_arrow(log, first)
    assert_as_by_arrow(spark, log, first)
    for version in range(first, min(first + 4, log.snapshot().version) + 1):
        assert_as_by_arrow(spark, log, version, version)


def is_readable_from(log: DeltaLog, version: int) -> bool:
    try:
        by_arrow(log, version)
    except DeltaOpsError:
        return False
    return True


def of_every_kind(root: Path) -> DeltaLog:
    """Files added, removed, with change data; vectors that appear, grow, shrink and disappear."""
    whole = file(root, "x", *range(70_000))
    other = file(root, "y", 1, 2, 3, partition_values={"p": None})
    deleted = (None, [1, 40_000, 69_999], [1, 40_000], [2], [2, 3], None)
    vectors = (
        each if each is None else inline_vector(each) if i % 2 else stored_vector(root, each)
        for i, each in enumerate(deleted)
    )
    states = [replace(whole, deletion_vector=vector) for vector in vectors]
    changes = [(1, "update_preimage"), (9, "update_postimage")]
    steps: list[list[Action]] = [[remove(one), another] for one, another in pairwise(states)]
    log = table_of(
        root,
        [states[0], other],
        *steps,
        [remove(other), cdc(root, "c", changes), cdc(root, "d", [(3, "delete")], None)],
        [replace(file(root, "z", 5), data_change=False)],
        [remove(states[3]), replace(file(root, "late", 7, 8), deletion_vector=inline_vector([0]))],
    )
    silent = replace(remove(states[-1]), partition_values=None, size=None)
    commit(log, log.snapshot().version + 1, [silent])
    return log


LIST_IN_FULL = ["file index", pytest.param("file list", marks=pytest.mark.full)]


@pytest.mark.parametrize("way", LIST_IN_FULL, indirect=True)
def test_changes_of_every_kind_match_arrow(tmp_path: Path, spark: SparkSession, way: str) -> None:
    log = of_every_kind(tmp_path)
    last = log.snapshot().version
    kept = (col("id") < 10) | (col("id") >= 39_990)
    assert_as_by_arrow(spark, log, 0, predicate=kept)
    found = ds.read_changes(spark, log, 0, columns=["_change_type", "p"])
    assert found.count() == len(by_arrow(log, 0))
    for version in (2, 3, 4, 5, 6, 7, 8):
        assert_as_by_arrow(spark, log, version, version, predicate=col("id") < 10)
    assert_as_by_arrow(spark, log, last, predicate=col("_change_type") == "delete")


@pytest.mark.parametrize("way", LIST_IN_FULL, indirect=True)
def test_columns_of_the_feed_can_be_selected_and_compared(
    tmp_path: Path, spark: SparkSession, way: str
) -> None:
    log = of_every_kind(tmp_path)
    only = {"columns": ["_commit_version", "ID", "_change_type"], "predicate": col("p").is_null()}
    assert_as_by_arrow(spark, log, 0, **only)
    at = datetime.fromtimestamp(os.stat(tmp_path / "_delta_log" / f"{3:020}.json").st_mtime, UTC)
    later = (col("_commit_version") > 3) & (col("_commit_timestamp") >= at)
    assert_as_by_arrow(spark, log, 0, predicate=later & (col("id") < 9))


def test_times_choose_commits_and_are_returned(
    tmp_path: Path, in_new_york: SparkSession, way: str
) -> None:
    log = table_of(tmp_path, [file(tmp_path, "x", 1)], [file(tmp_path, "y", 2)])
    for version in range(3):
        place = tmp_path / "_delta_log" / f"{version:020}.json"
        os.utime(place, (1_700_000_000 + version, 1_700_000_000 + version))
    at = datetime.fromtimestamp(1_700_000_001, UTC)
    (found,) = rows_of(ds.read_changes(in_new_york, log, start_timestamp=at, end_timestamp=at))
    assert (found["id"], found["_commit_timestamp"]) == (1, at)
    between = at.replace(microsecond=1000)
    pause: dict[str, Any] = {
        "start_timestamp": between,
        "end_timestamp": between.replace(microsecond=2000),
    }
    assert_as_by_arrow(in_new_york, log, **pause)
    assert ds.read_changes(in_new_york, log, **pause).count() == 0


@pytest.mark.full
def test_columns_pass_through_mapping_and_other_names(
    tmp_path: Path, spark: SparkSession, way: str
) -> None:
    log = mapped_late(tmp_path)
    assert by_arrow(log, 0)
    for first, last in ((0, 4), (0, 2), (1, 2), (3, 4)):
        assert_as_by_arrow(spark, log, first, last)
    assert_as_by_arrow(spark, log, 0, 2, schema="latest")


@pytest.mark.full
def test_a_column_that_was_one_of_the_log_and_became_one_of_files(
    tmp_path: Path, spark: SparkSession, way: str
) -> None:
    log = table_of(tmp_path, [file(tmp_path, "x", 1, 2)])
    both = pa.table({"id": [3, 4], "p": ["b", None]})
    commit(log, 2, [metadata(SCHEMA, (), FEED), data_file(tmp_path, "y", both)])
    commit(log, 3, [metadata(SCHEMA, ("id",), FEED)])
    only_p = data_file(tmp_path, "z", pa.table({"p": ["c"]}), partition_values={"id": "5"})
    commit(log, 4, [only_p])
    assert len(by_arrow(log, 0)) == 5
    assert_as_by_arrow(spark, log, 0)


@pytest.mark.full
def test_rows_that_an_overwrite_partitions_in_another_way_keep_their_values(
    tmp_path: Path, spark: SparkSession, way: str
) -> None:
    assert_as_by_arrow(spark, partitioned_anew(tmp_path), 0)


@pytest.mark.full
def test_fields_that_came_later_are_null(tmp_path: Path, spark: SparkSession, way: str) -> None:
    log = with_later_fields(tmp_path)
    for first, last, schema in ((1, 1, "end"), (1, 1, "latest"), (1, 2, "end")):
        assert_as_by_arrow(spark, log, first, last, schema=schema)


def test_change_data_of_columns_that_go_by_ids(tmp_path: Path, spark: SparkSession) -> None:
    by_id = {**FEED, "delta.columnMapping.mode": "id"}

    def with_id(name: str, number: int, values: list[Any], kind: pa.DataType) -> tuple[Any, Any]:
        metadata = {"PARQUET:field_id": str(number)}
        return pa.field(name, kind, metadata=metadata), pa.array(values, kind)

    def stored(*columns: tuple[Any, Any]) -> pa.Table:
        fields, arrays = zip(*columns, strict=True)
        return pa.Table.from_arrays(list(arrays), schema=pa.schema(fields))

    log = create(tmp_path, RENAMED, [], by_id, ("place",))
    plain = stored(with_id("odd", 1, [1, 2], pa.int64()), with_id("id", 3, [7, 8], pa.int32()))
    change = (pa.field("_change_type", pa.string()), pa.array(["delete"]))
    changed = stored(with_id("odd", 1, [2], pa.int64()), change)
    commit(log, 1, [data_file(tmp_path, "x", plain, partition_values={"p": "a"})])
    of_change = data_file(tmp_path, "_change_data/c", changed)
    named = AddCdcFile(path=of_change.path, size=of_change.size, partition_values={"p": "b"})
    commit(log, 2, [named])
    assert sorted(row["key"] for row in by_arrow(log, 0)) == [1, 2, 2]
    assert_as_by_arrow(spark, log, 0)


@pytest.mark.parametrize(
    "argument",
    [
        pytest.param({}, id="no beginning"),
        pytest.param({"start_version": 0, "start_timestamp": "2024-01-01"}, id="two"),
        pytest.param({"start_version": 2, "end_version": 1}, id="backwards"),
        pytest.param({"start_version": 9}, id="after the last"),
        pytest.param({"start_version": 0, "columns": ["x"]}, id="no column"),
        pytest.param({"start_version": 0, "columns": ["id", "ID"]}, id="a column twice"),
        pytest.param({"start_version": 0, "schema": "first"}, id="no schema"),
        pytest.param({"start_version": 0, "predicate": col("x") == 1}, id="no column to compare"),
    ],
)
def test_a_range_that_is_none_is_refused_as_by_arrow(
    tmp_path: Path, spark: SparkSession, argument: dict[str, Any]
) -> None:
    log = table_of(tmp_path, [file(tmp_path, "x", 1)], [file(tmp_path, "y", 1)])
    with pytest.raises(DeltaOpsError) as of_arrow:
        da.read_changes(log, **argument)
    with pytest.raises(type(of_arrow.value)) as of_spark:
        ds.read_changes(spark, log, **argument)
    assert str(of_spark.value) == str(of_arrow.value)


def test_ranges_without_the_feed_or_with_a_changed_type_are_refused(
    tmp_path: Path, spark: SparkSession
) -> None:
    log = table_of(tmp_path, [file(tmp_path, "x", 1)])
    off = replace(log.snapshot().metadata, configuration={})
    changed = StructType((StructField("id", STRING), StructField("p", STRING)))
    commit(log, 2, [off])
    commit(log, 3, [replace(off, configuration=FEED)])
    commit(log, 4, [metadata(changed, ("p",), FEED)])
    with pytest.raises(InvalidRequestError, match="version 2 cannot be read, because"):
        ds.read_changes(spark, log, 0, 3)
    with pytest.raises(InvalidRequestError, match="column id was long and became string"):
        ds.read_changes(spark, log, 3)
    commit(log, 5, [metadata(MAPPED, ("p",), {**FEED, "delta.columnMapping.mode": "name"})])
    commit(log, 6, [metadata(changed, ("p",), FEED)])
    with pytest.raises(InvalidRequestError, match="column mapping was removed"):
        ds.read_changes(spark, log, 5)


def test_a_vector_or_a_file_of_unknown_size_that_is_gone_is_named(
    tmp_path: Path, spark: SparkSession
) -> None:
    add = file(tmp_path, "x", 1, 2)
    vector = stored_vector(tmp_path, [0])
    unsized = replace(remove(add), size=None)
    log = table_of(tmp_path, [add], [remove(add), replace(add, deletion_vector=vector)])
    commit(log, 3, [unsized])
    (tmp_path / "deletion_vector_00000000-0000-0000-0000-000000000000.bin").unlink()
    with pytest.raises(DataFileError, match="has a deletion vector that is missing"):
        ds.read_changes(spark, log, 2)
    (tmp_path / "x").unlink()
    with pytest.raises(DataFileError, match="data file x is missing"):
        ds.read_changes(spark, log, 3)


def test_reading_changes_stays_native_and_is_pushed_down(
    tmp_path: Path, spark: SparkSession
) -> None:
    wide = StructType((*SCHEMA.fields, StructField("unread", LONG)))
    log = create(tmp_path, wide, [], FEED, ("p",))
    add = file(tmp_path, "x", *range(10))
    commit(log, 1, [add])
    commit(log, 2, [remove(add), replace(add, deletion_vector=inline_vector([3]))])
    commit(log, 3, [cdc(tmp_path, "c", [(1, "delete")])])
    plan = plan_of(ds.read_changes(spark, log, 1, columns=["id"], predicate=col("id") > 2))
    assert plan.count("GreaterThan(id,2)") == 3
    assert plan.count("ReadSchema: struct<id:bigint") == 3
    assert "Python" not in plan
    assert "MapInArrow" not in plan
    assert "SortMergeJoin" not in plan
    first = ("_commit_version = 1", col("_commit_version") == 1, sf.col("_commit_version") == 1)
    (tmp_path / "_change_data" / "c").unlink()  # left out at planning
    for predicate in first:
        assert ds.read_changes(spark, log, 0, predicate=predicate).count() == 10


def test_nothing_is_read_before_rows_are_requested(tmp_path: Path, spark: SparkSession) -> None:
    log = table_of(tmp_path, [file(tmp_path, "x", 1)])
    lazy = ds.read_changes(spark, log, 0)
    (tmp_path / "x").unlink()
    assert lazy.columns[:2] == ["id", "p"]
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|is missing"):
        lazy.collect()


def test_partition_values_without_a_zone_are_of_the_sessions(
    tmp_path: Path, in_new_york: SparkSession, way: str
) -> None:
    schema = StructType((StructField("id", LONG), StructField("t", TIMESTAMP)))
    log = create(tmp_path, schema, [], FEED, ("t",))
    for version, text in enumerate(["2024-01-01 00:00:00", "2024-01-01T05:00:00.000000Z"], 1):
        commit(log, version, [data_file(tmp_path, text[:13], ids(1), partition_values={"t": text})])
    found = rows_of(ds.read_changes(in_new_york, log, 0, columns=["t"]))
    assert found == [{"t": datetime(2024, 1, 1, 5, tzinfo=UTC)}] * 2
    assert found == by_arrow(log, 0, columns=["t"], partition_time_zone="America/New_York")

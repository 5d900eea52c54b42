"""Files of the Spark engine, read back by it and by other readers."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, begin, col
from delta_ops.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    InvalidRequestError,
    StorageError,
    TableNotFoundError,
)
from delta_ops.events import (
    CommitAttempted,
    Committed,
    DataFilesStaged,
    DataFilesWritten,
    Event,
    Progress,
    WriteStarted,
)
from delta_ops.protocol.row_rules import NotNull, not_null_rules
from delta_ops.protocol.schema import LONG, StructField, StructType, schema_to_json
from delta_ops.spark.row_checks import checked_rules, null_checks
from delta_ops.storage import open_storage
from tests.spark.frames import files_under, rows_of
from tests.spark.ways_of_writing import LISTING
from tests.support.counting_storage import CountingStorage
from tests.support.tables import metadata, rows, rows_by_deltalake, rows_by_polars, write_log

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("way_of_writing")]


@pytest.fixture
def letters(spark: SparkSession) -> DataFrame:
    return spark.sql("SELECT * FROM VALUES (1L, 'a'), (2L, 'b'), (3L, null) AS t(id, p)")


def stats_of(root: Path) -> list[dict[str, Any]]:
    return [json.loads(add.stats or "") for add in DeltaLog(root).snapshot().add_files()]


@pytest.mark.full
@pytest.mark.parametrize(
    "partition_by",
    [pytest.param([], marks=pytest.mark.full), ["p"]],
    ids=["one directory", "partitions"],
)
def test_others_read_the_rows(
    tmp_path: Path, spark: SparkSession, letters: DataFrame, partition_by: list[str]
) -> None:
    result = ds.write(letters, tmp_path, partition_by=partition_by)
    assert (result.version, result.metrics["numOutputRows"]) == (0, 3)
    expected = rows_of(letters)
    assert rows_of(ds.read(spark, tmp_path)) == expected
    assert rows_by_deltalake(tmp_path) == expected == rows_by_polars(tmp_path)


def test_nested_columns_come_back(tmp_path: Path, spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT 1 AS id, named_struct('a', 1, 'b', array('x', null)) AS s, "
        "map('k', named_struct('v', 1.50BD)) AS m, array(array(1), null) AS l"
    )
    ds.write(frame, tmp_path)
    assert rows_of(ds.read(spark, tmp_path)) == rows_of(frame)
    assert rows(da.to_table(DeltaLog(tmp_path))) == rows_of(frame)


def test_only_data_files_lie_beside_the_log_in_a_visible_directory(
    tmp_path: Path, letters: DataFrame
) -> None:
    ds.write(letters, tmp_path, partition_by=["p"])
    beside = {path for path in files_under(tmp_path) if not path.startswith("_delta_log")}
    assert beside == set(DeltaLog(tmp_path).snapshot().files(["path"])["path"].to_pylist())
    assert all(path[0] not in "_." and "=" not in path.split("/")[0] for path in beside)


def test_timestamps_have_bounds_in_a_default_session(tmp_path: Path, spark: SparkSession) -> None:
    ds.write(spark.sql("SELECT timestamp'2024-01-01T00:00:00.000001Z' AS t"), tmp_path)
    (stats,) = stats_of(tmp_path)
    assert stats["minValues"] == {"t": "2024-01-01T00:00:00.000Z"}
    assert stats["maxValues"] == {"t": "2024-01-01T00:00:00.001Z"}


def test_a_nan_is_no_bound_and_hides_no_row(tmp_path: Path, spark: SparkSession) -> None:
    ds.write(spark.sql("SELECT * FROM VALUES (1D), (double('NaN')) AS t(x)").coalesce(1), tmp_path)
    (stats,) = stats_of(tmp_path)
    assert (stats["minValues"], stats["maxValues"]) == ({"x": 1.0}, {})
    assert ds.read(spark, tmp_path, predicate=col("x") > 5).count() == 1


def test_long_texts_have_bounds(tmp_path: Path, spark: SparkSession) -> None:
    ds.write(spark.sql("SELECT repeat('é', 5000) AS s"), tmp_path)
    (stats,) = stats_of(tmp_path)
    assert stats["minValues"]["s"] == "é" * 32
    assert stats["maxValues"]["s"] > "é" * 32


SETTINGS = {
    "spark.sql.parquet.outputTimestampType": "INT96",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.writeLegacyFormat": "true",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.ansi.enabled": "false",
}


def test_the_sessions_settings_do_not_change_what_is_written(
    tmp_path: Path, spark: SparkSession
) -> None:
    frame = spark.sql(
        "SELECT date'0001-01-01' AS d, timestamp'1500-01-01T00:00:00Z' AS t, 1.5BD AS c"
    )
    before = {name: spark.conf.get(name) or "" for name in SETTINGS}
    try:
        for name, value in SETTINGS.items():
            spark.conf.set(name, value)
        ds.write(frame, tmp_path)
        assert {name: spark.conf.get(name) for name in SETTINGS} == SETTINGS
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    assert rows(da.to_table(DeltaLog(tmp_path))) == rows_of(frame)
    (stats,) = stats_of(tmp_path)
    assert stats["minValues"]["t"] == "1500-01-01T00:00:00.000Z"


def test_the_tables_codec_is_used(tmp_path: Path, letters: DataFrame) -> None:
    ds.write(letters, tmp_path, configuration={"delta.parquet.compression.codec": "zstd"})
    for path in DeltaLog(tmp_path).snapshot().files(["path"])["path"].to_pylist():
        assert pq.read_metadata(tmp_path / path).row_group(0).column(0).compression == "ZSTD"


@pytest.mark.parametrize("codec", ["snappy", "gzip"])
def test_without_a_codec_of_the_table_that_of_the_session_is_used(
    tmp_path: Path, spark: SparkSession, letters: DataFrame, codec: str
) -> None:
    name = "spark.sql.parquet.compression.codec"
    before = spark.conf.get(name)
    spark.conf.set(name, codec)
    try:
        ds.write(letters, tmp_path)
    finally:
        spark.conf.set(name, str(before))
    for path in DeltaLog(tmp_path).snapshot().files(["path"])["path"].to_pylist():
        stored = pq.read_metadata(tmp_path / path).row_group(0).column(0).compression
        assert stored == codec.upper()


def test_rows_without_any_leave_no_file(tmp_path: Path, letters: DataFrame) -> None:
    ds.write(letters.filter("false"), tmp_path)
    assert DeltaLog(tmp_path).snapshot().num_files == 0
    assert not [path for path in files_under(tmp_path) if path.endswith(".parquet")]


@pytest.mark.full
def test_a_table_property_limits_the_files_of_many_partitions(
    tmp_path: Path, spark: SparkSession
) -> None:
    frame = spark.range(0, 100, 1, 4).selectExpr("id", "id % 5 AS p")
    optimized = {"delta.autoOptimize.optimizeWrite": "true"}
    ds.write(frame, tmp_path, partition_by=["p"], configuration=optimized)
    assert DeltaLog(tmp_path).snapshot().num_files == 5
    ds.write(frame.filter("id < 0"), tmp_path)
    assert rows_of(ds.read(spark, tmp_path)) == rows_of(frame)


def test_an_overwrite_replaces_all_rows(
    tmp_path: Path, spark: SparkSession, letters: DataFrame
) -> None:
    ds.write(letters, tmp_path)
    ds.write(letters.filter("id = 3"), tmp_path, mode="overwrite")
    assert rows_by_deltalake(tmp_path) == rows_of(letters.filter("id = 3"))


def test_a_table_can_be_overwritten_from_itself(
    tmp_path: Path, spark: SparkSession, letters: DataFrame
) -> None:
    ds.write(letters, tmp_path)
    ds.write(ds.read(spark, tmp_path).withColumn("id", sf.col("id") * 2), tmp_path, "overwrite")
    assert [row["id"] for row in rows_by_deltalake(tmp_path)] == [2, 4, 6]


def test_an_overwrite_by_predicate_keeps_other_rows_of_the_same_file(
    tmp_path: Path, spark: SparkSession, letters: DataFrame
) -> None:
    ds.write(letters.coalesce(1), tmp_path)
    new = spark.sql("SELECT * FROM VALUES (2L, 'x'), (2L, 'y') AS t(id, p)")
    result = ds.write(new, tmp_path, mode="overwrite", replace_where=col("id") == 2)
    expected = rows_of(letters.filter("id <> 2").union(new))
    assert rows_by_deltalake(tmp_path) == expected == rows_of(ds.read(spark, tmp_path))
    assert (result.metrics["numOutputRows"], result.metrics["numRemovedFiles"]) == (2, 1)


def test_a_row_with_a_null_predicate_survives_an_overwrite(
    tmp_path: Path, letters: DataFrame
) -> None:
    ds.write(letters, tmp_path)
    ds.write(letters.limit(0), tmp_path, mode="overwrite", replace_where=col("p") != "zzz")
    assert rows_by_deltalake(tmp_path) == [{"id": 3, "p": None}]


def test_an_overwrite_of_partitions_reads_no_file(tmp_path: Path, letters: DataFrame) -> None:
    ds.write(letters, tmp_path, partition_by=["p"])
    kept = {add.path for add in DeltaLog(tmp_path).snapshot().add_files(col("p") == "b")}
    for data_file in tmp_path.glob("w-*/p=a/*.parquet"):
        data_file.write_bytes(b"no longer readable")
    new = letters.filter("p = 'a'")
    ds.write(new, tmp_path, mode="overwrite", replace_where=col("p") == "a")
    assert rows_by_deltalake(tmp_path) == rows_of(letters)
    assert kept < {add.path for add in DeltaLog(tmp_path).snapshot().add_files()}


def test_rows_outside_of_what_is_replaced_are_refused_and_nothing_is_left(
    tmp_path: Path, letters: DataFrame
) -> None:
    ds.write(letters, tmp_path, partition_by=["p"])
    before = files_under(tmp_path)
    with pytest.raises(InvalidRequestError, match=r"is not true, so .*rows: 2"):
        ds.write(letters, tmp_path, mode="overwrite", replace_where=col("p") == "a")
    assert files_under(tmp_path) == before


def test_a_row_that_is_stored_outside_of_what_is_replaced_is_refused(
    tmp_path: Path, spark: SparkSession
) -> None:
    """The value is null as a partition value, and each rerun would append the row again."""
    data = spark.sql("SELECT 1L AS id, '' AS p")
    ds.write(data, tmp_path, partition_by=["p"])
    with pytest.raises(InvalidRequestError, match=r"is not true, so .*rows: 1"):
        ds.write(data, tmp_path, mode="overwrite", replace_where=col("p") == "")


def test_the_same_txn_writes_once_and_computes_no_row_again(
    tmp_path: Path, spark: SparkSession, letters: DataFrame
) -> None:
    first = ds.write(letters, tmp_path, txn=("app", 3))
    before = files_under(tmp_path)
    fails = letters.withColumn("id", sf.raise_error(sf.lit("computed")).cast("long"))
    again = ds.write(fails, tmp_path, txn=("app", 3))
    assert (first.version, first.already_committed) == (0, False)
    assert (again.version, again.already_committed) == (0, True)
    assert files_under(tmp_path) == before


@pytest.mark.full
def test_files_of_a_txn_that_another_run_committed_meanwhile_are_deleted(
    tmp_path: Path, spark: SparkSession, letters: DataFrame
) -> None:
    ds.write(letters, tmp_path)

    def another_run(event: Event) -> None:
        if isinstance(event, DataFilesStaged):
            da.write(tmp_path, letters.toArrow(), txn=("app", 1))

    result = ds.write(letters, tmp_path, txn=("app", 1), on_event=another_run)
    assert result.already_committed
    assert ds.read(spark, tmp_path).count() == 6
    live = set(DeltaLog(tmp_path).snapshot().files(["path"])["path"].to_pylist())
    assert {path for path in files_under(tmp_path) if path.endswith(".parquet")} == live


def test_events_come_in_order(tmp_path: Path, letters: DataFrame) -> None:
    events: list[Event] = []
    ds.write(letters, tmp_path, on_event=events.append)
    # Progress is reported if the job takes long enough.
    assert [type(event) for event in events if not isinstance(event, Progress)] == [
        WriteStarted,
        DataFilesWritten,
        DataFilesStaged,
        CommitAttempted,
        Committed,
    ]


def test_an_append_joins_a_table_that_was_created_meanwhile(
    tmp_path: Path, letters: DataFrame
) -> None:
    def create(event: Event) -> None:
        if isinstance(event, DataFilesStaged):
            da.write(tmp_path, pa.table({"id": [4], "p": ["d"]}))

    assert ds.write(letters, tmp_path, on_event=create).version == 1
    assert len(rows_by_deltalake(tmp_path)) == 4


def test_a_table_of_other_columns_that_was_created_meanwhile_wins(
    tmp_path: Path, letters: DataFrame
) -> None:
    def create(event: Event) -> None:
        if isinstance(event, DataFilesStaged):
            da.write(tmp_path, pa.table({"other": [1]}))

    with pytest.raises(CommitConflictError, match="created the table"):
        ds.write(letters, tmp_path, on_event=create)
    assert rows_by_deltalake(tmp_path) == [{"other": 1}]
    assert not list(tmp_path.glob("w-*"))


FIRST_COMMIT = "_delta_log/00000000000000000000.json"


def log_whose_first_commit(
    root: Path, moment: str, error: BaseException, cause: OSError | None = None
) -> DeltaLog:
    """A log on a storage that raises before or after it creates version 0."""

    def fail(_number: int, method: str, path: str, now: str) -> None:
        if path == FIRST_COMMIT and method != "read" and now == moment:
            raise error from cause

    return DeltaLog(root, storage=CountingStorage(open_storage(root), fail))


def fail_at_the_end(error: BaseException) -> Callable[[Event], None]:
    def on_event(event: Event) -> None:
        if isinstance(event, Committed):
            raise error

    return on_event


def interrupted_hook(_committed: object) -> None:
    raise KeyboardInterrupt


LOST = StorageError("", "created", "the connection was lost")


@pytest.mark.parametrize(
    ("write", "error"),
    [
        pytest.param(
            lambda frame, root: ds.write(
                frame, log_whose_first_commit(root, "after", KeyboardInterrupt())
            ),
            KeyboardInterrupt,
            id="an interrupt when the commit's file is there",
        ),
        pytest.param(
            lambda frame, root: ds.write(frame, root, hooks=[interrupted_hook]),
            KeyboardInterrupt,
            id="an interrupt of a hook",
            marks=pytest.mark.full,
        ),
        pytest.param(
            lambda frame, root: ds.write(
                frame, root, on_event=fail_at_the_end(RuntimeError("the listener's own"))
            ),
            RuntimeError,
            id="a listener that fails",
            marks=pytest.mark.full,
        ),
    ],
)
def test_files_are_kept_once_a_version_names_them(
    tmp_path: Path,
    letters: DataFrame,
    write: Callable[[DataFrame, Path], object],
    error: type[BaseException],
) -> None:
    with pytest.raises(error):
        write(letters, tmp_path)
    assert rows_by_deltalake(tmp_path) == rows_of(letters)


def test_files_are_kept_while_it_is_unknown_whether_they_were_committed(
    tmp_path: Path, letters: DataFrame
) -> None:
    def unreachable(_number: int, method: str, path: str, moment: str) -> None:
        if path == FIRST_COMMIT and moment == "after":
            raise LOST

    log = DeltaLog(tmp_path, storage=CountingStorage(open_storage(tmp_path), unreachable))
    with pytest.raises(CommitStateUnknownError):
        ds.write(letters, log)
    assert rows_by_deltalake(tmp_path) == rows_of(letters)


def test_a_commit_without_space_leaves_nothing(tmp_path: Path, letters: DataFrame) -> None:
    full = StorageError(FIRST_COMMIT, "created", "no space is left")
    log = log_whose_first_commit(tmp_path, "before", full, OSError(errno.ENOSPC, "full"))
    with pytest.raises(StorageError, match="no space is left"):
        ds.write(letters, log)
    assert files_under(tmp_path) == set()


def test_nothing_is_left_when_a_listener_ends_the_write(tmp_path: Path, letters: DataFrame) -> None:
    def cancel(event: Event) -> None:
        if isinstance(event, DataFilesStaged):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ds.write(letters, tmp_path, on_event=cancel)
    assert files_under(tmp_path) == set()


def test_rows_that_cannot_be_computed_leave_nothing_and_say_why(
    tmp_path: Path, letters: DataFrame
) -> None:
    @sf.udf("long", useArrow=False)
    def fails(number: int) -> int:
        raise ValueError(f"no {number}")

    with pytest.raises(InvalidRequestError, match="ValueError: no ") as refused:
        ds.write(letters.withColumn("id", fails("id")), tmp_path)
    assert len(str(refused.value)) < 400
    assert refused.value.__cause__ is not None
    assert not list(tmp_path.iterdir())


def test_a_path_that_no_directory_can_be_made_at_is_a_storage_error(
    tmp_path: Path, letters: DataFrame
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="a part of the path is a file"):
        ds.write(letters, tmp_path / "file" / "table")


def test_on_a_cluster_a_data_file_that_the_driver_does_not_see_is_missed(
    tmp_path: Path, letters: DataFrame, monkeypatch: pytest.MonkeyPatch, way_of_writing: str
) -> None:
    monkeypatch.setattr(letters.sparkSession.sparkContext, "master", "spark://elsewhere:7077")

    def lose_one(event: Event) -> None:
        if isinstance(event, DataFilesWritten):
            next((tmp_path / event.directory).glob("*.parquet")).unlink()

    missed = "Spark wrote 3 rows" if way_of_writing == LISTING else "the driver cannot see"
    with pytest.raises(StorageError, match=missed):
        ds.write(letters, tmp_path, on_event=lose_one)
    assert files_under(tmp_path) == set()


REQUIRED = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("s", pa.struct([pa.field("a", pa.int32(), nullable=False)])),
        pa.field("l", pa.list_(pa.field("element", pa.int32(), nullable=False))),
        pa.field("m", pa.map_(pa.string(), pa.field("value", pa.int32(), nullable=False))),
        pa.field("d", pa.list_(pa.struct([pa.field("y", pa.int32(), nullable=False)]))),
        pa.field("k", pa.map_(pa.struct([pa.field("x", pa.int32(), nullable=False)]), pa.int32())),
    ]
)
FILLED = {
    "id": "2L",
    "s": "named_struct('a', 1)",
    "l": "array(1)",
    "m": "map('k', 1)",
    "d": "array(named_struct('y', 1), null)",
    "k": "map(named_struct('x', 1), cast(null as int))",
}
BROKEN = {
    "id": ("id", "cast(null as bigint)"),
    "s.a": ("s", "named_struct('a', cast(null as int))"),
    "l.element": ("l", "array(1, null)"),
    "m.value": ("m", "map('k', cast(null as int))"),
    "d.element.y": ("d", "array(null, named_struct('y', cast(null as int)))"),
    "k.key.x": ("k", "map(named_struct('x', cast(null as int)), 1)"),
}
"""By the path that must not be null: a column, and a value that violates its rule."""


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=() if path in ("id", "d.element.y") else pytest.mark.full)
        for path in BROKEN
    ],
)
def test_a_null_where_the_table_says_not_null_is_refused(
    tmp_path: Path, spark: SparkSession, path: str
) -> None:
    da.write(tmp_path, REQUIRED.empty_table())
    before = files_under(tmp_path)
    column, value = BROKEN[path]
    filled, broken = (
        ", ".join(f"{expression} AS {name}" for name, expression in each.items())
        for each in (FILLED, FILLED | {column: value})
    )
    with pytest.raises(InvalidRequestError, match=rf"column {path} has a null.*rows: 1"):
        ds.write(spark.sql(f"SELECT {filled} UNION ALL SELECT {broken}"), tmp_path)
    assert files_under(tmp_path) == before
    ds.write(spark.sql(f"SELECT {filled}"), tmp_path)


def test_every_row_rule_of_a_schema_is_checked(tmp_path: Path, spark: SparkSession) -> None:
    da.write(tmp_path, REQUIRED.empty_table())
    schema = DeltaLog(tmp_path).snapshot().schema
    checked = checked_rules(tuple(null_checks(schema)))
    assert checked == set(not_null_rules(schema)) == set(map(NotNull, BROKEN))


def test_a_null_parent_of_a_field_that_is_not_null_is_accepted(
    tmp_path: Path, spark: SparkSession
) -> None:
    da.write(tmp_path, REQUIRED.empty_table())
    ds.write(spark.sql("SELECT 1L AS id"), tmp_path)
    assert rows_of(ds.read(spark, tmp_path)) == [dict.fromkeys(FILLED) | {"id": 1}]


def test_columns_of_a_new_table_are_nullable(tmp_path: Path, spark: SparkSession) -> None:
    ds.write(spark.range(3), tmp_path)
    assert all(field.nullable for field in DeltaLog(tmp_path).snapshot().schema.fields)


TYPES = pa.schema(
    [
        ("ID", pa.int32()),
        ("x", pa.float64()),
        ("c", pa.decimal128(10, 2)),
        ("s", pa.struct([("a", pa.int64()), ("b", pa.string())])),
        ("f", pa.float32()),
        ("m", pa.map_(pa.int64(), pa.list_(pa.float64()))),
    ]
)


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("select", "expected"),
    [
        pytest.param("5L AS id", {"ID": 5}, id="a number that fits, by a name in another case"),
        pytest.param("2 AS x", {"x": 2.0}, id="a wider number"),
        pytest.param("7 AS c", {"c": pa.scalar(7, pa.decimal128(10, 2)).as_py()}, id="a decimal"),
        pytest.param("null AS x, 1 AS id", {"ID": 1}, id="a column of nulls alone"),
        pytest.param(
            "named_struct('b', 'x', 'a', 1) AS s",
            {"s": {"a": 1, "b": "x"}},
            id="fields in another order and narrower",
        ),
        pytest.param("CAST(0.5 AS DECIMAL(38, 18)) AS f", {"f": 0.5}, id="a decimal for a float"),
        pytest.param(
            "map(1, array(2)) AS m",
            {"m": [(1, [2.0])]},
            id="keys and values of a map that are narrower",
        ),
    ],
)
@pytest.mark.parametrize("ansi", ["true", pytest.param("false", marks=pytest.mark.full)])
def test_data_that_fit_become_the_tables_columns(
    tmp_path: Path, spark: SparkSession, select: str, expected: dict[str, Any], ansi: str
) -> None:
    da.write(tmp_path, TYPES.empty_table())
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        ds.write(spark.sql(f"SELECT {select}"), tmp_path)
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    (row,) = da.to_table(DeltaLog(tmp_path)).to_pylist()
    assert row == dict.fromkeys(TYPES.names) | expected


@pytest.mark.some_cases(4)
@pytest.mark.parametrize(
    ("select", "problem"),
    [
        pytest.param("1 AS q", "has no column 'q'", id="an unknown column"),
        pytest.param("named_struct('z', 1) AS s", "has no column s.z", id="an unknown field"),
        pytest.param("'x' AS id", "'ID' is integer .* string in the data", id="another type"),
        pytest.param("3000000000L AS id", "'ID' is integer .* does not fit", id="too large"),
        pytest.param("1.5D AS id", "'ID' is integer .* does not fit", id="a fraction"),
        pytest.param("1.234BD AS c", "'c' is decimal.* does not fit", id="too many digits"),
        pytest.param("1 AS id, 2 AS ID", "in the data twice", id="one column twice"),
        pytest.param(
            "CAST(9223372036854776000 AS DECIMAL(38, 18)) AS f",
            "'f' is float .* does not fit",
            id="the digits that a double of the same value has",
        ),
        pytest.param("map(1.5D, array(2)) AS m", "'m.key' is long", id="a wider key of a map"),
        pytest.param(
            "named_struct('a', 1, 'A', 2) AS s", "'s.a' is in the data twice", id="one field twice"
        ),
    ],
)
@pytest.mark.parametrize("ansi", ["true", pytest.param("false", marks=pytest.mark.full)])
def test_data_that_do_not_fit_are_refused(
    tmp_path: Path, spark: SparkSession, select: str, problem: str, ansi: str
) -> None:
    da.write(tmp_path, TYPES.empty_table())
    before = files_under(tmp_path)
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        with pytest.raises(InvalidRequestError, match=problem):
            ds.write(spark.sql(f"SELECT {select}"), tmp_path)
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert files_under(tmp_path) == before


@pytest.mark.parametrize("floating", ["double", pytest.param("float", marks=pytest.mark.full)])
def test_a_number_about_the_largest_long_is_not_bent(
    tmp_path: Path, spark: SparkSession, floating: str
) -> None:
    longs, floats = tmp_path / "longs", tmp_path / "floats"
    ds.write(spark.sql("SELECT 1L AS x"), longs)
    ds.write(spark.sql(f"SELECT CAST(1 AS {floating}) AS x"), floats)
    for table, number in (
        (longs, f"CAST(9223372036854775808 AS {floating})"),
        (floats, "9223372036854775807L"),
    ):
        with pytest.raises(InvalidRequestError, match="does not fit"):
            ds.write(spark.sql(f"SELECT {number} AS x"), table)
    ds.write(spark.sql(f"SELECT CAST(-9223372036854775808 AS {floating}) AS x"), longs)
    assert sorted(da.to_table(DeltaLog(longs))["x"].to_pylist()) == [-(2**63), 1]


def test_a_table_that_has_a_column_twice_is_not_written(
    tmp_path: Path, spark: SparkSession
) -> None:
    twice = StructType((StructField("id", LONG), StructField("ID", LONG)))
    write_log(tmp_path, [[metadata(schema_string=schema_to_json(twice))]])
    with pytest.raises(InvalidRequestError, match="differ only in case"):
        ds.write(spark.range(1), tmp_path)
    assert files_under(tmp_path) == {f"_delta_log/{0:020}.json"}


@pytest.mark.parametrize(
    ("select", "column"),
    [
        pytest.param("null AS v", "v", id="a column without a type"),
        pytest.param("named_struct('i', interval 1 day) AS v", "v.i", id="an interval in a struct"),
    ],
)
def test_a_new_table_with_a_type_that_delta_lacks_is_refused_by_column(
    tmp_path: Path, spark: SparkSession, select: str, column: str
) -> None:
    with pytest.raises(InvalidRequestError, match=f"Column {column} is of Spark's type"):
        ds.write(spark.sql(f"SELECT 1 AS id, {select}"), tmp_path)
    assert files_under(tmp_path) == set()


def test_the_partitioning_of_a_table_cannot_be_changed_by_a_write(
    tmp_path: Path, letters: DataFrame
) -> None:
    ds.write(letters, tmp_path, partition_by=["p"])
    with pytest.raises(InvalidRequestError, match="is partitioned by p, not by id"):
        ds.write(letters, tmp_path, partition_by=["id"])


def test_staged_files_are_committed_with_a_separate_transaction(
    tmp_path: Path, letters: DataFrame
) -> None:
    ds.write(letters, tmp_path)
    log = DeltaLog(tmp_path)
    staged = ds.stage_write(letters, log)
    assert log.snapshot().version == 0
    transaction = begin(log)
    transaction.stage(staged)
    assert transaction.commit(operation="WRITE").version == 1
    assert len(rows_by_deltalake(tmp_path)) == 6


def test_staging_needs_a_table(tmp_path: Path, letters: DataFrame) -> None:
    with pytest.raises(TableNotFoundError):
        ds.stage_write(letters, tmp_path)


def test_storage_that_spark_cannot_reach_is_refused_before_any_work(letters: DataFrame) -> None:
    with pytest.raises(InvalidRequestError, match="is not on a local disk"):
        ds.write(letters, "memory://spark-cannot-reach-this")

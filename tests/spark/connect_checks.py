"""Checks on a session of Spark Connect; the test of Connect runs them in their own process.

The server is PySpark's and starts for them, because a process has sessions of one kind only. `make
test` runs the checks of all differences on a client: reads, writes, row changes, streams, and a
store.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, begin, col, ddl, lit
from delta_ops.arrow.read.scan import read_kept
from delta_ops.errors import InvalidRequestError, StorageError, TableExistsError
from delta_ops.events import Event, Progress
from delta_ops.maintenance import optimize
from delta_ops.protocol.row_tracking import row_columns
from delta_ops.protocol.schema import LONG, STRING, StructField, StructType
from delta_ops.spark.installed_version import VERSION
from delta_ops.spark.lineage.column_lineage import column_lineage, remember_input
from delta_ops.spark.versions import STREAM_LIMITS
from delta_ops.tables import DeltaTable
from tests.arrow import foreign_table
from tests.arrow.foreign_table import data_file, inline_vector, stored_vector
from tests.arrow.test_names_in_double_quotes import ROWS
from tests.spark.frames import files_under, rows_of
from tests.spark.sql.test_spark_sql import HOSTILE
from tests.spark.test_spark_argument_values import QUOTED_DEFAULTS, create_with_defaults
from tests.spark.test_spark_double_quotes import CALLS as CALLS_IN_QUOTES
from tests.support.servers.connectors import (
    NO_CONNECTORS,
    connector_jars,
    connectors_on_class_path,
)
from tests.support.servers.s3 import ACCESS_KEY, SECRET_KEY, S3Server
from tests.support.tables import SHARED, needs_shared, rows

GOLDEN = SHARED / "data" / "tables" / "golden"
N = StructType((StructField("n", LONG), StructField("p", STRING)))


@pytest.fixture(scope="module")
def unreached(s3_server: S3Server) -> str:
    """A bucket whose configured address has no listener."""
    return s3_server.new_bucket()


@pytest.fixture(scope="module")
def remote(s3_server: S3Server, unreached: str) -> Iterator[SparkSession]:
    """A session whose server has settings of its own for buckets."""
    builder = (
        SparkSession.builder.remote("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "America/New_York")
        .config("spark.hadoop.fs.s3a.endpoint", s3_server.url)
        .config("spark.hadoop.fs.s3a.endpoint.region", "us-east-1")
        .config("spark.hadoop.fs.s3a.path.style.access", "true")
        .config("spark.hadoop.fs.s3a.access.key", ACCESS_KEY)
        .config("spark.hadoop.fs.s3a.secret.key", SECRET_KEY)
        .config("spark.hadoop.fs.s3a.attempts.maximum", "1")
        .config("spark.hadoop.fs.s3a.retry.limit", "1")
        .config(f"spark.hadoop.fs.s3a.bucket.{unreached}.endpoint", "http://127.0.0.1:9")
    )
    with warnings.catch_warnings(), connectors_on_class_path():
        # The server starts with all settings, and then reports some of them as unchangeable.
        warnings.simplefilter("ignore", UserWarning)
        session = builder.getOrCreate()
    yield session
    session.stop()


def assert_as_by_arrow(remote: SparkSession, log: DeltaLog) -> None:
    by_spark, by_arrow = rows_of(ds.read(remote, log)), rows(da.to_table(log))
    assert sorted(map(repr, by_spark)) == sorted(map(repr, by_arrow))


def test_rows_that_were_written_are_read(tmp_path: Path, remote: SparkSession) -> None:
    made = remote.range(100).selectExpr(
        "id", "id % 3 AS p", "timestamp_micros(id * 3600000001) AS at", "array(id, null) AS many"
    )
    ds.write(made, tmp_path, partition_by=["p"], txn=("loader", 1))
    again = ds.write(made, tmp_path, txn=("loader", 1))
    assert again.already_committed
    assert_as_by_arrow(remote, DeltaLog(tmp_path))
    assert ds.read(remote, tmp_path, ["id"], col("p") == 1).count() == 33
    assert ds.read(remote, tmp_path, predicate=col("id") >= 90).count() == 10


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("x > 5", {3}),
        ("x = double('NaN')", {3}),
        ("x != 1", {2, 3, 4}),
        ("f > 5", {3}),
        ("s.y > 5", {3}),
        ("x IN (0.0, 1.0)", {1, 4}),
        ("s.id = 2", {2}),
    ],
)
def test_filters_find_rows_with_nan_and_negative_zero(
    tmp_path: Path, remote: SparkSession, condition: str, found: set[int]
) -> None:
    values = [1.0, 2.0, float("nan"), -0.0]
    columns = {
        "id": [1, 2, 3, 4],
        "x": values,
        "f": pa.array(values, pa.float32()),
        "s": [{"id": i, "y": value} for i, value in enumerate(values, 1)],
    }
    da.write(tmp_path, pa.table(columns))
    assert {row.id for row in ds.read(remote, tmp_path).filter(condition).collect()} == found


def test_rows_are_replaced(tmp_path: Path, remote: SparkSession) -> None:
    ds.write(remote.range(10).selectExpr("id", "id % 2 AS p"), tmp_path, partition_by=["p"])
    sevens = remote.range(7, 8).selectExpr("id", "1L AS p")
    ds.write(sevens, tmp_path, "overwrite", replace_where=(col("p") == 1) & (col("id") > 3))
    assert [row["id"] for row in sorted(rows(da.to_table(tmp_path)), key=str)] == [
        0, 1, 2, 3, 4, 6, 7, 8,
    ]  # fmt: skip
    with pytest.raises(InvalidRequestError, match="replace_where"):
        ds.write(sevens, tmp_path, "overwrite", replace_where=col("p") == 0)
    ds.write(sevens, tmp_path, "overwrite")
    assert rows(da.to_table(tmp_path)) == [{"id": 7, "p": 1}]
    assert ds.read(remote, tmp_path, version=0).count() == 10


@pytest.mark.full
def test_features_of_writers_are_kept(tmp_path: Path, remote: SparkSession) -> None:
    properties = {
        "delta.columnMapping.mode": "name",
        "delta.enableRowTracking": "true",
        "delta.enableChangeDataFeed": "true",
        "delta.enableDeletionVectors": "true",
    }
    made = remote.range(6).selectExpr("id", "struct(id AS x) AS s").coalesce(1)
    ds.write(made, tmp_path, configuration=properties)
    da.delete(tmp_path, col("id") == 5)
    nine = remote.range(9, 10).selectExpr("id", "struct(id AS x) AS s")
    ds.write(nine, tmp_path, "overwrite", replace_where=col("id").isin([2, 9]))
    optimize(DeltaLog(tmp_path), engine=ds.rewrite(remote))
    snapshot = DeltaLog(tmp_path).snapshot()
    names = row_columns(snapshot.definition, snapshot.uri)
    assert names is not None
    kept = pa.Table.from_batches(read_kept(snapshot, snapshot.add_files(), ["id", names.row_id]))
    row_ids = dict(zip(*kept.to_pydict().values(), strict=True))
    assert {key: row_ids[key] for key in (0, 1, 3, 4)} == {0: 0, 1: 1, 3: 3, 4: 4}
    assert sorted(row["s"]["x"] for row in rows(da.to_table(snapshot))) == [0, 1, 3, 4, 9]
    changes = rows(pa.table(da.read_changes(tmp_path, 2, columns=["id", "_change_type"])))
    assert sorted(row["id"] for row in changes) == [2, 9]


@pytest.mark.full
def test_columns_fill_themselves(tmp_path: Path, remote: SparkSession) -> None:
    counted = {
        "delta.identity.start": 1,
        "delta.identity.step": 1,
        "delta.identity.allowExplicitInsert": False,
    }
    fields = (
        StructField("n", LONG, metadata=counted),
        StructField("v", LONG),
        StructField("d", STRING, metadata={"CURRENT_DEFAULT": "'it'"}),
    )
    ddl.create_table(tmp_path, StructType(fields))
    for _ in range(2):
        ds.write(remote.range(3).selectExpr("id AS v"), tmp_path)
    found = rows(da.to_table(tmp_path))
    assert len({row["n"] for row in found}) == 6
    assert {row["d"] for row in found} == {"it"}
    made = StructField("d", STRING, metadata={"CURRENT_DEFAULT": "concat('a', 'b')"})
    transaction = begin(DeltaLog(tmp_path / "made"))
    transaction.create_table(StructType((StructField("v", LONG), made)))
    transaction.commit(operation="CREATE TABLE")
    with pytest.raises(InvalidRequestError, match="session cannot inspect it"):
        ds.write(remote.range(3).selectExpr("id AS v"), tmp_path / "made")


def test_deleted_rows_are_left_out(tmp_path: Path, remote: SparkSession) -> None:
    adds = []
    for number, vector in enumerate((None, inline_vector([0, 9]), stored_vector(tmp_path, [3]))):
        data = pa.table({"n": pa.array(range(number * 10, number * 10 + 10), pa.int64())})
        add = data_file(tmp_path, f"f {number}.parquet", data, partition_values={"p": "x y"})
        adds.append(replace(add, deletion_vector=vector))
    log = foreign_table.create(
        tmp_path, N, adds, partition_by=("p",), features=("deletionVectors",)
    )
    assert_as_by_arrow(remote, log)


@pytest.mark.parametrize(
    "name",
    [
        "a{b}",
        "a ${c}",
        *(pytest.param(each, marks=pytest.mark.full) for each in ("a[b]", "a*b", "a?b", "a\\b")),
    ],
)
def test_a_path_is_not_a_pattern(tmp_path: Path, remote: SparkSession, name: str) -> None:
    da.write(tmp_path / name, pa.table({"id": [1, 2, 3], "p": ["x", "y", "z"]}), partition_by=["p"])
    ds.delete(remote, tmp_path / name, "id = 2")
    found = ds.read(remote, tmp_path / name).collect()
    assert sorted((row.id, row.p) for row in found) == [(1, "x"), (3, "z")]


@pytest.mark.full
@needs_shared
def test_tables_of_other_writers_have_their_rows(remote: SparkSession) -> None:
    for name in (
        "data-reader-escaped-chars",
        "dv-partitioned-with-checkpoint",
        "data-reader-timestamp_ntz-name-mode",
    ):
        (root,) = {path.parent for path in (GOLDEN / name).rglob("_delta_log")}
        assert_as_by_arrow(remote, DeltaLog(root))


@pytest.mark.full
def test_names_in_double_quotes_change_nothing_here_either(
    tmp_path: Path, remote: SparkSession
) -> None:
    da.write(tmp_path, ROWS, partition_by=["Name"])
    for said, call in CALLS_IN_QUOTES.items():
        with pytest.raises(
            (InvalidRequestError, AnalysisException),
            match=r"in double quotes|uses no column|session cannot inspect it",
        ):
            pytest.fail(f"{said} was taken: {call(remote, tmp_path)}")
    with pytest.raises(InvalidRequestError, match="uses no column"):
        ds.delete(remote, tmp_path, sf.lit("sttate").like("s%"))
    assert DeltaLog(tmp_path).snapshot().version == 0
    assert ds.delete(remote, tmp_path, 'state = "none"').version is None
    assert ds.delete(remote, tmp_path, "date_format(now(), 'y') < '2000'").version is None
    flags = "EXISTS (SELECT 1 FROM VALUES ('on') AS flags (f) WHERE f = 'off')"
    assert ds.delete(remote, tmp_path, flags).version is None


@pytest.mark.full
def test_defaults_and_names_hold_no_variables_and_no_names(
    tmp_path: Path, remote: SparkSession
) -> None:
    quoted = dict([*QUOTED_DEFAULTS.items()][:3])
    create_with_defaults(tmp_path / "defaults", *quoted)
    ds.write(remote.sql("SELECT 1L AS k"), tmp_path / "defaults")
    (row,) = da.to_table(tmp_path / "defaults").to_pylist()
    assert row == {"k": 1, **{f"d{n}": text for n, text in enumerate(quoted.values())}}
    name = "${spark.sql.shuffle.partitions}"
    held = tmp_path / f"held {name}"
    da.write(
        held,
        pa.table({"id": [1, 2, 3], name: ["1", "2", "3"]}),
        configuration={"delta.columnMapping.mode": "name"},
    )
    ds.update(remote, held, {f"`{name}`": f"concat(`{name}`, '!')"}, f"`{name}` = '1'")
    ds.delete(remote, held, sf.col(f"`{name}`") == "2")
    ds.update(remote, held, {f"`{name}`": lit(name)}, col("id") == 3)
    assert da.to_table(held).sort_by("id").to_pylist() == [
        {"id": 1, name: "1!"},
        {"id": 3, name: name},
    ]
    assert_as_by_arrow(remote, DeltaLog(held))


def test_a_failing_row_leaves_nothing(tmp_path: Path, remote: SparkSession) -> None:
    bad = remote.range(10).selectExpr("id", "if(id = 7, raise_error('boom'), 'x') AS s")
    with pytest.raises(InvalidRequestError, match="boom"):
        ds.write(bad, tmp_path)
    assert files_under(tmp_path) == set()


@pytest.mark.full
def test_an_interrupt_ends_the_work_of_the_server(tmp_path: Path, remote: SparkSession) -> None:
    endless = remote.range(0, 10**15, 1, 2).filter("id % 1000000 = 0")

    def interrupt() -> None:
        while not files_under(tmp_path):
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=interrupt)
    sender.start()
    with pytest.raises(KeyboardInterrupt):
        ds.write(endless, tmp_path)
    sender.join()
    ends = time.monotonic() + 60
    while files_under(tmp_path) and time.monotonic() < ends:
        time.sleep(0.05)
    assert files_under(tmp_path) == set()
    assert remote.range(3).count() == 3


@pytest.fixture
def bucket(s3_server: S3Server) -> str:
    """A bucket that the server of the session reaches."""
    if not connector_jars():
        pytest.skip(NO_CONNECTORS)
    return s3_server.new_bucket()


@pytest.mark.full
def test_tables_in_a_store_are_written_and_read(
    remote: SparkSession, s3_server: S3Server, bucket: str
) -> None:
    log = DeltaLog(f"s3://{bucket}/lake/a b%20ü", s3_server.storage_options)
    made = remote.range(20).selectExpr("id", "concat('p ', id % 3) AS p")
    ds.write(made, log, partition_by=["p"])
    ds.write(made, log, "overwrite", replace_where=col("p") >= "p 0")
    assert len(da.to_table(log)) == 20
    assert_as_by_arrow(remote, log)


@pytest.mark.full
def test_a_store_that_the_server_cannot_reach_is_one_sentence(
    remote: SparkSession, s3_server: S3Server, bucket: str, unreached: str
) -> None:
    log = DeltaLog(f"s3://{unreached}/t", s3_server.storage_options)
    with pytest.raises(StorageError, match=r"by Spark: .*Spark Connect server uses its own"):
        ds.write(remote.range(3), log)
    there = DeltaLog(f"s3://{bucket}/t", s3_server.storage_options)
    ds.write(remote.range(3), there)
    assert ds.read(remote, there).count() == 3


def test_a_client_knows_no_column_lineage(remote: SparkSession) -> None:
    rows = remote.range(3)
    remember_input(rows, "orders")
    assert column_lineage(rows.selectExpr("id + 1 AS x")) == {}


@pytest.mark.full
def test_progress_is_reported(tmp_path: Path, remote: SparkSession) -> None:
    events: list[Event] = []
    with ds.show_progress(remote, events.append):
        slowly = sf.udf(lambda x: (threading.Event().wait(1), x)[1], "long", useArrow=False)
        assert remote.range(0, 10, 1, 10).filter(slowly("id") >= 0).count() == 10
    reported_events = [event for event in events if isinstance(event, Progress)]
    assert reported_events
    assert reported_events[-1].total is not None
    assert reported_events[-1].done <= reported_events[-1].total


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param({}, marks=pytest.mark.full),
        {"delta.enableDeletionVectors": "true"},
        pytest.param(
            {"delta.enableChangeDataFeed": "true", "delta.enableRowTracking": "true"},
            marks=pytest.mark.full,
        ),
    ],
)
def test_rows_are_deleted_updated_and_merged(
    remote: SparkSession, tmp_path: Path, properties: dict[str, str]
) -> None:
    data = pa.table({"n": pa.array(range(12), pa.int64()), "p": ["a", "b"] * 6})
    da.write(tmp_path, data, partition_by=["p"], configuration=properties)
    ds.delete(remote, tmp_path, "n % 3 = 0 AND current_timestamp() > TIMESTAMP '2020-01-01'")
    ds.update(remote, tmp_path, {"n": "n + 100"}, col("n") == 4)
    ds.update(remote, tmp_path, {"p": sf.lit("c")}, sf.col("n") == 5)
    source = remote.createDataFrame([(7, "x"), (8, "b"), (20, "b")], "n long, p string")
    done = (
        ds.merge(tmp_path, source, "target.n = source.n")
        .when_matched_delete("source.p = 'x'")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )
    assert done.metrics["numTargetRowsDeleted"] == 1
    found = sorted((row["n"], row["p"]) for row in rows(da.to_table(tmp_path)))
    expected = [(1, "b"), (2, "a"), (5, "c"), (8, "b"), (10, "a"), (11, "b"), (20, "b"), (104, "a")]
    assert found == expected
    assert sorted(map(tuple, ds.read(remote, tmp_path).collect())) == expected
    with pytest.raises(InvalidRequestError, match="There is no column nowhere"):
        ds.delete(remote, tmp_path, "nowhere = 1")
    with pytest.raises(InvalidRequestError, match="There is no column nowhere"):
        ds.update(remote, tmp_path, {"n": "nowhere"})


@pytest.mark.full
def test_a_source_may_be_a_join_of_the_table_itself(remote: SparkSession, tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"n": pa.array(range(6), pa.int64()), "p": list("aabbcc")}))
    names = remote.createDataFrame([("a", "x"), ("b", "y")], "p string, name string")
    table = ds.read(remote, tmp_path)
    joined = table.join(names, "p", "left").join(table.select("n"), "n")
    source = joined.select((sf.col("n") + 3).alias("n"), sf.coalesce("name", "p").alias("p"))
    done = (
        ds.merge(tmp_path, source, sf.col("target.n") == sf.col("source.n"))
        .when_matched_update({"p": sf.col("source.p")})
        .when_not_matched_insert_all()
        .execute()
    )
    assert done.metrics["numTargetRowsUpdated"] == done.metrics["numTargetRowsInserted"] == 3
    found = sorted((row["n"], row["p"]) for row in rows(da.to_table(tmp_path)))
    expected = "aabxxyycc"
    assert found == list(enumerate(expected))
    twice = table.join(names, table["p"] == names["p"])
    with pytest.raises(InvalidRequestError, match="p"):
        ds.merge(tmp_path, twice, "target.n = source.n").when_matched_delete().execute()


def test_the_format_delta_is_ours(remote: SparkSession, tmp_path: Path) -> None:
    ds.register(remote)
    try:
        root = str(tmp_path / "table")
        writer = remote.range(6).selectExpr("id", "id % 2 AS p").repartition(3).write
        writer.format("delta").partitionBy("P").option("txnAppId", "loader").save(
            root, txnVersion=1
        )
        with pytest.raises(TableExistsError):
            remote.range(1).write.save(root, format="delta")
        before = remote.read.format("delta").load(root)
        three = remote.range(3, 4).selectExpr("id", "1L AS p").write.format("delta")
        three.mode("overwrite").option("replaceWhere", "p = 1").save(root)
        assert sorted(row.id for row in remote.read.load(root, "delta").collect()) == [0, 2, 3, 4]
        assert remote.read.format("delta").option("versionAsOf", 0).load(root).count() == 6
        with pytest.raises(InvalidRequestError, match="committed later"):
            before.write.format("delta").mode("overwrite").save(root)
        with pytest.raises(InvalidRequestError, match="by path"):
            before.write.format("delta").saveAsTable("t")
        with pytest.raises(InvalidRequestError, match="by path"):
            before.writeTo("t").using("delta").create()
        before.write.parquet(str(tmp_path / "files"))
        assert remote.read.load(str(tmp_path / "files")).count() == 6
    finally:
        ds.unregister(remote)
    with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):
        remote.read.format("delta").load(root).count()


@pytest.mark.full
def test_statements_of_sql_know_paths(remote: SparkSession, tmp_path: Path) -> None:
    ds.register(remote)
    try:
        name = f"delta.`{tmp_path}/t`"
        remote.sql(f"CREATE TABLE {name} (id BIGINT, name STRING) USING delta")
        remote.sql(f"INSERT INTO {name} VALUES (1, 'a{{b'), (2, 'b'), (3, 'c')")
        remote.sql(f"UPDATE {name} SET name = :n WHERE id = 2", args={"n": "'; --"})
        counted = remote.sql(f"DELETE FROM {name} WHERE id = 3").collect()
        merge = "USING (SELECT 4L AS id, 'd' AS name) s ON t.id = s.id WHEN NOT MATCHED"
        remote.sql(f"MERGE INTO {name} t {merge} THEN INSERT *")
        assert counted == [(1,)]
        query = f"SELECT t.id, u.name FROM {name} t JOIN {name} u USING (id) WHERE u.name != '{{'"
        found = sorted(map(tuple, remote.sql(query).collect()))
        assert found == [(1, "a{b"), (2, "'; --"), (4, "d")]
        assert remote.sql(f"SELECT * FROM {name} VERSION AS OF 1").count() == 3
        remote.sql(f"INSERT INTO {name} SELECT id + 10, name FROM {name} WHERE id = 1")
        last = remote.sql(f"DESCRIBE HISTORY {name} LIMIT 1").collect()
        assert [row["version"] for row in last] == [5]
        assert remote.sql("SELECT 1 AS a").collect() == [(1,)]
        with pytest.raises(AnalysisException, match="is not a Delta table"):
            remote.sql(f"SELECT * FROM delta.`{tmp_path}/none`")
    finally:
        ds.unregister(remote)
    assert type(remote).sql.__module__.startswith("pyspark")


@pytest.mark.full
@pytest.mark.parametrize("directory", ["a'; DROP TABLE x; --", "a`b", "a b /* c */", 'ä"$'])
def test_values_and_paths_never_change_the_statement(
    remote: SparkSession, tmp_path: Path, directory: str
) -> None:
    place = tmp_path / directory
    name = "delta.`{}`".format(str(place).replace("`", "``"))
    ds.register(remote)
    try:
        remote.sql(f"CREATE TABLE {name} (id BIGINT, name STRING) USING delta")
        remote.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, :v)", args={"v": HOSTILE[0]})
        for value in HOSTILE[1:]:
            deleted = remote.sql(f"DELETE FROM {name} WHERE name = ? -- ?", args=[value])
            assert deleted.collect() == [(0,)]
            query = f"SELECT count(*) FROM {name} WHERE name = :v"
            assert remote.sql(query, args={"v": value}).collect() == [(0,)]
        for value in HOSTILE:
            remote.sql(f"UPDATE {name} SET name = :v /* :v */ WHERE id = 1", args={"v": value})
            assert rows(da.to_table(place, predicate="id = 1"))[0]["name"] == value
        merge = f"MERGE INTO {name} t USING (SELECT :v AS v) s ON t.name = s.v"
        merged = remote.sql(f"{merge} WHEN MATCHED THEN DELETE", args={"v": HOSTILE[0]})
        assert [row["num_deleted_rows"] for row in merged.collect()] == [1]
    finally:
        ds.unregister(remote)
    assert [row["id"] for row in rows(da.to_table(place))] == [1]


@pytest.mark.full
def test_streams_know_paths_and_no_names_of_the_catalog(
    remote: SparkSession, tmp_path: Path
) -> None:
    da.write(tmp_path / "source", pa.table({"n": [1, 2]}))
    ds.register(remote)
    try:
        stream = remote.readStream.table(f"delta.`{tmp_path}/source`")
        writer = stream.writeStream.format("delta").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        with pytest.raises(InvalidRequestError, match="Spark Connect has no names"):
            writer.toTable("target")
        writer.toTable(f"delta.`{tmp_path}/target`").awaitTermination()
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            _ = remote.readStream.table("target").schema
    finally:
        ds.unregister(remote)
    assert rows(da.to_table(tmp_path / "target")) == [{"n": 1}, {"n": 2}]


@pytest.mark.full
def test_a_stream_is_written_once_by_the_id_of_its_query(
    remote: SparkSession, tmp_path: Path
) -> None:
    files, target = tmp_path / "files", DeltaLog(tmp_path / "target")
    query_ids = set()
    for number in range(2):
        files.mkdir(exist_ok=True)
        pq.write_table(pa.table({"n": [number]}), files / f"{number}.parquet")
        stream = remote.readStream.schema("n long").parquet(str(files))
        query = ds.write_stream(
            stream, target, checkpoint_location=str(tmp_path / "checkpoint"), available_now=True
        )
        query.awaitTermination()
        query_ids.add(query.id)
    assert [row["n"] for row in rows(da.to_table(target))] == [0, 1]
    (app_id,) = query_ids
    assert target.snapshot().transactions()[app_id].version == 1


def test_a_session_says_once_that_it_reads_streams_slowly(
    remote: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ds.write(remote.range(3), tmp_path / "t")
    # Before Spark 4.3, a client has no `newSession`.
    connected: Any = type(remote)
    session = connected(remote.client._builder)
    with caplog.at_level(logging.WARNING, logger="delta_ops"):
        ds.read_stream(session, tmp_path / "t")
        ds.read_stream(session, tmp_path / "t")
    (logged,) = (each for each in caplog.messages if "streams" in each)
    assert logged.endswith("it is a session of Spark Connect")


@pytest.mark.full
def test_a_table_is_a_stream_through_python_workers(remote: SparkSession, tmp_path: Path) -> None:
    source, target = DeltaLog(tmp_path / "source"), DeltaLog(tmp_path / "target")
    moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
    checkpoint = str(tmp_path / "checkpoint")
    has_limits = VERSION >= STREAM_LIMITS
    for number in range(3):
        row = {"n": [number], "at": [moment], "l": [[number, None]]}
        da.write(source, pa.table(row), configuration={"delta.enableDeletionVectors": "true"})
        da.write(source, pa.table({"n": [number + 10, -1], "at": [moment] * 2, "l": [None, []]}))
        if number == 0:
            da.delete(source, col("n") == -1)
        stream = ds.read_stream(remote, source, max_files_per_trigger=1 if has_limits else None)
        query = ds.write_stream(stream, target, checkpoint_location=checkpoint, available_now=True)
        query.awaitTermination()
        assert rows(da.to_table(target)) == rows(da.to_table(source))
    assert target.snapshot().version == (5 if has_limits else 2)


@pytest.mark.skipif(VERSION >= STREAM_LIMITS, reason="this Spark has limits for a batch")
def test_a_limit_of_a_batch_is_rejected_by_name(remote: SparkSession, tmp_path: Path) -> None:
    da.write(tmp_path / "t", pa.table({"n": [1]}))
    with pytest.raises(InvalidRequestError, match=r"max_files_per_trigger .*needs Spark 4\.2"):
        ds.read_stream(remote, tmp_path / "t", max_files_per_trigger=1)


def test_changes_are_no_stream_here(remote: SparkSession, tmp_path: Path) -> None:
    feed = {"delta.enableChangeDataFeed": "true"}
    da.write(tmp_path / "t", pa.table({"n": [1]}), configuration=feed)
    with pytest.raises(InvalidRequestError, match="use read_changes"):
        ds.read_stream(remote, tmp_path / "t", read_change_feed=True)


@pytest.mark.full
def test_tables_are_spoken_of_as_by_delta_spark(tmp_path: Path, remote: SparkSession) -> None:
    da.write(tmp_path, pa.table({"k": ["a", "b"], "v": [1, 2]}))
    table = DeltaTable.forPath(remote, str(tmp_path))
    table.alias("t").delete("t.k = 'b'")
    table.alias("t").update(sf.col("t.k") == "a", {"t.v": sf.col("t.v") + 1})
    news = remote.createDataFrame([("a", 5), ("c", 6)], "k string, v bigint").alias("s")
    done = (
        table.alias("t")
        .merge(news.where("s.v > 0"), "t.k = s.k")
        .whenMatchedUpdate(set={"v": "t.v * 10 + s.v"})
        .whenNotMatchedInsertAll()
        .execute()
    )
    assert [tuple(row) for row in done.collect()] == [(2, 1, 0, 1)]
    assert sorted(tuple(row) for row in table.toDF().collect()) == [("a", 25), ("c", 6)]
    # As text in the session's zone, which also parses the text; Python shows its own zone.
    newest = table.history(1).selectExpr("operation", "version", "string(timestamp) AS at").first()
    assert newest
    assert (newest["operation"], newest["version"]) == ("MERGE", 3)
    (compacted,) = table.optimize().executeCompaction().collect()
    assert compacted["metrics"]["numFilesAdded"] <= 1
    table.restoreToTimestamp(newest["at"])
    assert sorted(tuple(row) for row in table.toDF().collect()) == [("a", 25), ("c", 6)]
    details = table.detail().first()
    assert details
    assert details["tableFeatures"] == ["appendOnly", "invariants"]
    made = DeltaTable.create(remote).location(f"{tmp_path}/made").addColumn("a", "int")
    assert made.execute().toDF().dtypes == [("a", "int")]
    with pytest.raises(AnalysisException, match="cannot be converted"):
        table.restoreToTimestamp("05/04/1999")

"""The commit protocol: its storage calls, its files, and other writes of its session."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.spark.file_uris import remove_directory
from delta_ops.spark.write import commit_protocol
from delta_ops.spark.write.commit_protocol import ProtocolUnavailableError, write_parquet
from delta_ops.storage import open_storage
from tests.spark.frames import files_under
from tests.support.counting_storage import CountingStorage

pytestmark = pytest.mark.spark

SETTING = "spark.sql.sources.commitProtocolClass"


def numbers(spark: SparkSession, splits: int = 3) -> DataFrame:
    return spark.range(0, 30, 1, splits).selectExpr("id AS x", "id % 3 AS p")


def stored(table: Path) -> list[int]:
    return sorted(da.to_table(DeltaLog(table))["x"].to_pylist())


NUMBERS = list(range(30))


def when_a_file_is_begun(frame: DataFrame, table: Path, act: Callable[[], None]) -> DataFrame:
    """The rows; `act` runs in the first split's task, in the middle of its file."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        yield from batches
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 0:
            while not list(table.glob("**/part-00000-*")):
                time.sleep(0.02)
            act()

    return frame.mapInArrow(pass_on, frame.schema)


@contextlib.contextmanager
def writing(spark: SparkSession, table: Path) -> Iterator[None]:
    """A write of the numbers, paused with its task in the middle of its file."""
    begun, go_on = table.with_name("begun"), table.with_name("go on")

    def hold() -> None:
        begun.touch()
        for _ in range(1000):
            if not go_on.exists():
                time.sleep(0.02)

    frame = when_a_file_is_begun(numbers(spark, 1), table, hold)
    with ThreadPoolExecutor(1) as pool:
        write = pool.submit(ds.write, frame, table)
        try:
            while not begun.exists() and not write.done():
                time.sleep(0.02)
            assert begun.exists(), write.exception()
            yield
        finally:
            go_on.touch()
        write.result()


def test_a_file_is_written_under_its_name_and_nothing_else_is(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = tmp_path / "table"
    with writing(spark, table):
        seen = files_under(table)
    assert seen == set(DeltaLog(table).snapshot().files(["path"])["path"].to_pylist())


@pytest.mark.parametrize("partition_by", [[], ["p"]], ids=["one directory", "partitions"])
def test_nothing_is_listed_and_each_file_is_read_once(
    tmp_path: Path, spark: SparkSession, partition_by: list[str]
) -> None:
    calls: list[tuple[str, str]] = []

    def note(_number: int, method: str, path: str, moment: str) -> None:
        if moment == "before" and path.startswith("w-"):
            calls.append((method, path))

    ds.write(numbers(spark).limit(0), tmp_path, partition_by=partition_by)
    storage = CountingStorage(open_storage(tmp_path), note)
    ds.write(numbers(spark), DeltaLog(tmp_path, storage=storage))
    written = DeltaLog(tmp_path).snapshot().files(["path"])["path"].to_pylist()
    assert sorted(calls) == sorted(("read_ranges", path) for path in written)


def test_sizes_and_times_match_the_files(tmp_path: Path, spark: SparkSession) -> None:
    ds.write(numbers(spark), tmp_path, partition_by=["p"])
    adds = list(DeltaLog(tmp_path).snapshot().add_files())
    found = {add.path: (tmp_path / add.path).stat() for add in adds}
    assert {add.path: (add.size, add.modification_time) for add in adds} == {
        path: (stat.st_size, stat.st_mtime_ns // 1_000_000) for path, stat in found.items()
    }


def test_a_job_that_fails_deletes_what_its_tasks_wrote(tmp_path: Path, spark: SparkSession) -> None:
    def fail() -> None:
        for _ in range(1000):
            if len(list(tmp_path.glob("part-*"))) < 3:
                time.sleep(0.02)
        time.sleep(0.5)  # so that the others end
        raise RuntimeError("after the other tasks")

    frame = when_a_file_is_begun(numbers(spark), tmp_path, fail)
    with pytest.raises(Exception, match="after the other tasks"):
        write_parquet(spark, frame.write, f"file:{tmp_path}")
    assert not list(tmp_path.glob("part-*"))


def test_other_writes_of_the_session_are_committed_as_ever(
    tmp_path: Path, spark: SparkSession
) -> None:
    table, other = tmp_path / "table", tmp_path / "other"
    ones = numbers(spark).coalesce(1)
    with writing(spark, table):
        assert spark.conf.get(SETTING) == "delta_ops.writes.CommitProtocol"
        for overwrite in ("static", "dynamic"):
            writer = ones.write.mode("overwrite").partitionBy("p")
            writer.option("partitionOverwriteMode", overwrite).parquet(str(other))
    assert "_SUCCESS" in files_under(other)
    assert spark.read.parquet(str(other)).count() == len(NUMBERS)
    assert stored(table) == NUMBERS
    assert "delta_ops" not in (spark.conf.get(SETTING) or "")


def test_writes_at_once_do_not_get_each_others_files(tmp_path: Path, spark: SparkSession) -> None:
    first, second = tmp_path / "1" / "table", tmp_path / "2" / "table"
    first.parent.mkdir()
    with writing(spark, first):
        ds.write(numbers(spark, 1), second)
    assert stored(first) == stored(second) == NUMBERS


def test_a_row_limit_for_files_of_the_session_holds(tmp_path: Path, spark: SparkSession) -> None:
    spark.conf.set("spark.sql.files.maxRecordsPerFile", "7")
    try:
        ds.write(numbers(spark, 1), tmp_path)
    finally:
        spark.conf.unset("spark.sql.files.maxRecordsPerFile")
    assert DeltaLog(tmp_path).snapshot().num_files == 5
    assert stored(tmp_path) == NUMBERS


@pytest.fixture
def isolated(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.sql.artifact.isolation.enabled", "true")
    return session


def test_where_it_cannot_be_had_hadoop_commits_and_the_log_says_so_once(
    tmp_path: Path, isolated: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="delta_ops"):
        ds.write(numbers(isolated), tmp_path)
        ds.write(numbers(isolated), tmp_path)
    assert stored(tmp_path) == sorted(NUMBERS * 2)
    (logged,) = caplog.messages
    assert "Hadoop's committer" in logged
    assert "artifact.isolation" in logged


def test_rows_are_written_again_if_spark_took_another_protocol(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        commit_protocol, "overriding", lambda _spark, _settings: contextlib.nullcontext()
    )
    session = spark.newSession()
    with pytest.raises(ProtocolUnavailableError, match="another commit protocol"):
        write_parquet(session, numbers(session).write, f"file:{tmp_path}/elsewhere")
    table = tmp_path / "table"
    ds.write(numbers(spark.newSession()), table)
    assert stored(table) == NUMBERS
    assert len(list(table.glob("w-*"))) == 1


def test_a_directory_of_a_job_is_removed_from_any_store() -> None:
    storage = open_storage("memory://commit-protocol")
    for path in ("w-1/p=1/part-0.parquet", "w-1/part-1.parquet", "w-2/part-2.parquet"):
        storage.create(path, b"rows")
    remove_directory(storage, "w-1")
    assert [file.path for file in storage.list_tree("")] == ["w-2/part-2.parquet"]

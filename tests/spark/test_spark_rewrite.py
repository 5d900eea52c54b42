"""Rewriting files on Spark keeps the rows."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog, begin
from delta_ops.ddl import set_properties
from delta_ops.errors import InvalidRequestError, StorageError
from delta_ops.events import Event, Progress, ignore
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import optimize, purge
from delta_ops.protocol.actions import AddFile
from delta_ops.spark.write.data_files import rewrite_rows
from delta_ops.storage import open_storage
from delta_ops.transaction import RewriteGroup
from tests.spark.frames import files_under, rows_of
from tests.support.counting_storage import CountingStorage
from tests.support.tables import rows, rows_by_deltalake

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("way_of_writing")]

MEGABYTE = 1024 * 1024
OWN_MODULE = sys.modules["delta_ops.spark.rewrite.rewrite"]  # not the function


def write_small_files(root: Path, value: str | None) -> pa.Table:
    tables = [pa.table({"id": [i, i + 100], "p": [value, value]}) for i in range(6)]
    for table in tables:
        da.write(root, table.cast(pa.schema([("id", pa.int64()), ("p", pa.string())])),
                 partition_by=["p"])  # fmt: skip
    return pa.concat_tables(tables, promote_options="permissive")


@pytest.mark.parametrize("value", ["a/b %25=é", pytest.param(None, marks=pytest.mark.full)])
def test_a_rewrite_joins_small_files_and_keeps_rows_and_partition(
    tmp_path: Path, spark: SparkSession, value: str | None
) -> None:
    expected = write_small_files(tmp_path, value)
    log = DeltaLog(tmp_path)
    snapshot = log.snapshot()
    group = RewriteGroup(files=tuple(snapshot.add_files()), target_size_bytes=MEGABYTE)
    staged = ds.rewrite(spark)(snapshot, group)
    transaction = begin(log)
    transaction.stage(staged)
    transaction.remove(group.files, data_change=False)
    transaction.commit(operation="OPTIMIZE")
    (add,) = log.snapshot().add_files()
    assert (add.partition_values, add.data_change) == ({"p": value}, False)
    assert rows_by_deltalake(tmp_path) == rows(expected) == rows_of(ds.read(spark, tmp_path))


def test_a_rewrite_reads_only_the_files_of_its_group(tmp_path: Path, spark: SparkSession) -> None:
    write_small_files(tmp_path, "a")
    snapshot = DeltaLog(tmp_path).snapshot()
    group = RewriteGroup(files=tuple(snapshot.add_files()[:2]), target_size_bytes=MEGABYTE)
    staged = ds.rewrite(spark)(snapshot, group)
    assert (len(staged.adds), staged.num_rows) == (1, 4)


def test_a_rewrite_makes_about_as_many_files_as_the_target_size_implies(
    tmp_path: Path, spark: SparkSession
) -> None:
    ds.write(spark.range(0, 400_000, 1, 8).selectExpr("id", "rand(1) AS x"), tmp_path)
    snapshot = DeltaLog(tmp_path).snapshot()
    target = snapshot.size_bytes // 4
    group = RewriteGroup(files=tuple(snapshot.add_files()), target_size_bytes=target)
    staged = ds.rewrite(spark)(snapshot, group)
    assert (len(staged.adds), staged.num_rows) == (4, 400_000)
    assert all(add.size < 2 * target for add in staged.adds)


def test_a_rewrite_whose_input_is_gone_leaves_nothing(tmp_path: Path, spark: SparkSession) -> None:
    write_small_files(tmp_path, "a")
    snapshot = DeltaLog(tmp_path).snapshot()
    (tmp_path / snapshot.add_files()[0].path).unlink()
    before = files_under(tmp_path)
    group = RewriteGroup(files=tuple(snapshot.add_files()), target_size_bytes=MEGABYTE)
    with pytest.raises(InvalidRequestError, match="does not exist"):
        ds.rewrite(spark)(snapshot, group)
    assert files_under(tmp_path) == before


def test_a_rewrite_finds_a_null_that_another_writer_let_in(
    tmp_path: Path, spark: SparkSession
) -> None:
    required = pa.schema([pa.field("id", pa.int64(), nullable=False), ("p", pa.string())])
    da.write(tmp_path, required.empty_table(), partition_by=["p"])
    pq.write_table(pa.table({"id": [1, None]}), tmp_path / "theirs.parquet")
    size = (tmp_path / "theirs.parquet").stat().st_size
    theirs = AddFile(
        path="theirs.parquet", size=size, partition_values={"p": "a"}, modification_time=0
    )
    log = DeltaLog(tmp_path)
    create_commit(log.storage, log.log_directory, 1, [theirs])
    before = files_under(tmp_path)
    group = RewriteGroup(files=(theirs,), target_size_bytes=MEGABYTE)
    with pytest.raises(InvalidRequestError, match=r"column id has a null.*rows: 1"):
        ds.rewrite(spark)(log.snapshot(), group)
    assert files_under(tmp_path) == before


@pytest.mark.parametrize(
    ("moment", "error", "num_files"),
    [
        pytest.param("before", OSError(errno.ENOSPC, "full"), 6, id="nothing when it has no space"),
        pytest.param(
            "after",
            None,
            1,
            id="all after success, whatever follows",
            marks=pytest.mark.full,
        ),
    ],
)
def test_an_optimize_keeps_of_what_spark_wrote_what_its_commit_names(
    tmp_path: Path, spark: SparkSession, moment: str, error: OSError | None, num_files: int
) -> None:
    expected = write_small_files(tmp_path, "a")

    def fail(_number: int, method: str, path: str, now: str) -> None:
        if path.endswith("00000000000000000006.json") and method != "read" and now == moment:
            if error is None:
                raise KeyboardInterrupt
            raise StorageError(path, "created", "no space is left") from error

    log = DeltaLog(tmp_path, storage=CountingStorage(open_storage(tmp_path), fail))
    with pytest.raises(StorageError if error else KeyboardInterrupt):
        optimize(log, engine=ds.rewrite(spark))
    assert DeltaLog(tmp_path).snapshot().num_files == num_files
    assert len([f for f in files_under(tmp_path) if f.startswith("w-")]) == (error is None)
    assert rows_by_deltalake(tmp_path) == rows(expected)


def write_partitions(root: Path) -> pa.Table:
    return pa.concat_tables([write_small_files(root, value) for value in "abcd"])


@pytest.mark.full
def test_groups_are_rewritten_beside_each_other(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = write_partitions(tmp_path)
    both_are_there = threading.Barrier(2)

    def rewrite(*arguments: Any) -> Any:
        both_are_there.wait(timeout=60)
        return rewrite_rows(*arguments)

    monkeypatch.setattr(OWN_MODULE, "rewrite_rows", rewrite)
    result = optimize(DeltaLog(tmp_path), engine=ds.rewrite(spark))
    assert (result.files_removed, result.files_added, result.num_commits) == (24, 4, 1)
    assert rows_by_deltalake(tmp_path) == rows(expected)


@pytest.mark.parametrize("partition", [pytest.param("a", marks=pytest.mark.full), "d"])
def test_where_one_of_several_groups_fails_none_stays(
    tmp_path: Path, spark: SparkSession, partition: str
) -> None:
    write_partitions(tmp_path)
    next(tmp_path.glob(f"p={partition}/*.parquet")).unlink()
    before = files_under(tmp_path)
    with pytest.raises(InvalidRequestError, match="missing"):
        optimize(DeltaLog(tmp_path), engine=ds.rewrite(spark))
    assert files_under(tmp_path) == before


class Ended(BaseException):
    """End a step as an orchestrator does: without a signal."""


def end_at_event(event: Event) -> None:
    if isinstance(event, Progress) and event.operation == "optimize":
        raise Ended


@pytest.mark.parametrize(
    ("endless", "by_signal"),
    [
        ("d", True),
        pytest.param("abcd", True, marks=pytest.mark.full),
        pytest.param("bcd", False, marks=pytest.mark.full),
    ],
)
def test_an_interrupt_ends_all_groups_that_are_under_way(
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    endless: str,
    by_signal: bool,
) -> None:
    expected = write_partitions(tmp_path)
    before = files_under(tmp_path)
    has_begun = threading.Event()

    def rewrite(frame: Any, checks: Any, values: Any, target: Any) -> Any:
        if values["p"] not in endless:
            return rewrite_rows(frame, checks, values, target)
        has_begun.set()
        many = spark.range(0, 10**15, 1, 1).filter("id % 1000000 = 0")
        return rewrite_rows(many.selectExpr("id", "'a' AS p"), checks, values, target)

    def interrupt() -> None:
        has_begun.wait()
        while not spark.sparkContext.statusTracker().getActiveStageIds():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(OWN_MODULE, "rewrite_rows", rewrite)
    # PySpark's own handler would cancel all jobs, and other tests run jobs too.
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, usual))
    sender = threading.Thread(target=interrupt)
    if by_signal:
        sender.start()
    on_event = ignore if by_signal else end_at_event
    with pytest.raises(KeyboardInterrupt if by_signal else Ended):
        optimize(DeltaLog(tmp_path), engine=ds.rewrite(spark), on_event=on_event)
    if by_signal:
        sender.join()
    deadline, tracker = time.monotonic() + 60, spark.sparkContext.statusTracker()
    # Each writer deletes its own unfinished files, also a writer that begins late.
    while files_under(tmp_path) != before or tracker.getActiveStageIds():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    monkeypatch.undo()
    optimize(DeltaLog(tmp_path), engine=ds.rewrite(spark))
    assert rows_by_deltalake(tmp_path) == rows(expected)


@pytest.mark.parametrize(
    ("codec", "stored"),
    [
        ("zstd", "ZSTD"),
        pytest.param("lz4", "LZ4", marks=pytest.mark.full),
        pytest.param("none", "UNCOMPRESSED", marks=pytest.mark.full),
    ],
)
def test_a_purge_rewrites_files_of_another_codec_once(
    tmp_path: Path, spark: SparkSession, codec: str, stored: str
) -> None:
    expected = write_small_files(tmp_path, "x")
    set_properties(tmp_path, {"delta.parquet.compression.codec": codec})
    engine = ds.rewrite(spark)
    assert purge(tmp_path, other_codec=True, engine=engine).files_removed == 6
    log = DeltaLog(tmp_path)
    footers = [pq.read_metadata(tmp_path / add.path) for add in log.snapshot().add_files()]
    assert {each.row_group(0).column(0).compression for each in footers} == {stored}
    assert sorted(map(str, rows(da.to_table(log)))) == sorted(map(str, rows(expected)))
    assert not purge(tmp_path, other_codec=True, engine=engine).plan.has_work

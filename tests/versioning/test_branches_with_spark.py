"""A branch in the Spark engine: read and written through its handle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import delta_ops.arrow as da
import delta_ops.spark as ds
from delta_ops import DeltaLog
from delta_ops.events import Committed, Event
from delta_ops.versioning import create_branch, open_branch, publish
from tests.spark.streams import append
from tests.support.tables import rows_by_deltalake


def test_spark_reads_writes_and_changes_a_branch(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "t"
    ds.write(spark.createDataFrame([(1,), (2,)], "id long"), root)
    create_branch(root, "x")
    branch = open_branch(root, "x")
    ds.write(spark.createDataFrame([(3,)], "id long"), branch)
    ds.delete(spark, branch, "id = 1")
    by_handle = ds.read(spark, branch).collect()
    by_ref = ds.read(spark, root, ref="branch:x").collect()
    assert sorted(row.id for row in by_handle) == [2, 3]
    assert sorted(by_handle) == sorted(by_ref)
    assert da.count_rows(root) == 2
    publish(root, "x")
    assert sorted(row["id"] for row in rows_by_deltalake(root)) == [2, 3]


class KilledError(Exception):
    """Stands for the end of a process."""


def kill_at_commit(event: Event) -> None:
    """Raise between the commit of a batch and its entry in the checkpoint."""
    if isinstance(event, Committed):
        raise KilledError


@pytest.mark.full
def test_a_stream_writes_each_batch_once_to_a_branch_and_goes_on_with_main(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = tmp_path / "t"
    append(root, 0, 0)
    append(tmp_path / "source", 1, 1)
    append(tmp_path / "source", 2, 2)
    create_branch(root, "x")

    def run(target: Path | DeltaLog, **options: Any) -> None:
        source = ds.read_stream(spark, tmp_path / "source", max_files_per_trigger=1)
        place = str(tmp_path / "checkpoint")
        query = ds.write_stream(
            source, target, checkpoint_location=place, available_now=True, **options
        )
        query.awaitTermination()

    branch = open_branch(root, "x")
    with pytest.raises(StreamingQueryException, match="KilledError"):
        run(branch, on_event=kill_at_commit)
    assert numbers_in(branch) == [0, 1]
    run(branch)
    assert numbers_in(branch) == [0, 1, 2]
    assert numbers_in(root) == [0]

    publish(root, "x")
    append(tmp_path / "source", 3, 3)
    run(root)
    assert numbers_in(root) == [0, 1, 2, 3]
    assert sorted(row["n"] for row in rows_by_deltalake(root)) == [0, 1, 2, 3]


@pytest.mark.full
def test_a_batch_that_a_publication_brought_to_main_is_not_written_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = tmp_path / "t"
    append(root, 0, 0)
    append(tmp_path / "source", 1, 1)
    create_branch(root, "x")
    source = ds.read_stream(spark, tmp_path / "source")
    place = str(tmp_path / "checkpoint")
    query = ds.write_stream(
        source,
        open_branch(root, "x"),
        checkpoint_location=place,
        available_now=True,
        on_event=kill_at_commit,
    )
    with pytest.raises(StreamingQueryException, match="KilledError"):
        query.awaitTermination()
    publish(root, "x")
    ds.write_stream(source, root, checkpoint_location=place, available_now=True).awaitTermination()
    assert numbers_in(root) == [0, 1]


def numbers_in(table: Path | DeltaLog) -> list[int]:
    return sorted(da.to_table(table, columns=["n"])["n"].to_pylist())

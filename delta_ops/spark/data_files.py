"""Data files: rows written by Spark's own Parquet writer, described from their footers.

Each job writes into a directory of its own under the table's root: two jobs in one would share
`_temporary`, and after a job that succeeded its listing is what was committed. That holds for the
committers we know and where all executors write to the driver's disk. On a cluster nothing else
tells, so there the footers must add up to the rows that Spark counted, which takes a tenth of the
time of a plain write.
The directory is visible to every engine, and below it lie Hive's `column=value` directories, as
some readers want them.
A job that fails leaves nothing: its directory is removed.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf

from delta_ops.errors import InvalidRequestError, StorageError
from delta_ops.events import DataFilesWritten, OnEvent
from delta_ops.protocol.actions import AddFile, Metadata
from delta_ops.protocol.file_paths import encode_path
from delta_ops.protocol.partition_values import hive_directory
from delta_ops.protocol.stats import stats_from_footer
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.spark import jobs
from delta_ops.spark.expressions import named_column
from delta_ops.spark.failures import translating_failures
from delta_ops.spark.partition_text import (
    partition_text,
    partition_text_checks,
    partition_values_of,
)
from delta_ops.spark.read import spark_path
from delta_ops.spark.row_checks import RowCheck, counts_of, validate_counts
from delta_ops.spark.session import overriding
from delta_ops.storage import FileInfo, Storage
from delta_ops.transaction.write_rules import validate_footer

_WRITE_OPTIONS: Mapping[str, str] = {
    # Spark's default for timestamps is INT96, which has no statistics.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Long strings have no statistics at all unless the writer may cut them.
    "parquet.statistics.truncate.length": "64",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # The first algorithm makes files visible when the whole job has succeeded.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    # Hadoop's default for local files writes a checksum file beside each.
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
_WRITE_SETTINGS: Mapping[str, str] = {
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}
"""Session settings that have no option of a write."""
_CODEC = "delta.parquet.compression.codec"
_OPTIMIZE_WRITE = "delta.autoOptimize.optimizeWrite"
_FOOTER_THREADS = 8
_FOLDS_CASE = sys.platform in ("darwin", "win32")
"""Whether file systems there usually take names that differ in case only for one."""

ValuesOf = Callable[[str], Mapping[str, str | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTarget:
    """The table that files are written for, as the commit will leave it."""

    storage: Storage
    definition: TableDefinition


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFiles:
    """Durable data files and how many rows they hold."""

    adds: tuple[AddFile, ...]
    num_rows: int


def write_rows(
    frame: DataFrame, checks: Sequence[RowCheck], target: TableTarget, on_event: OnEvent
) -> WrittenFiles:
    """Write rows to files, one or more for each partition that they hold.

    Args:
        frame: Columns with the table's names and types, in its order; it may have others beside
            them, which the checks look at.

    Raises:
        InvalidRequestError: A check found a row, or the rows could not be computed.
        StorageError: The store failed.
    """
    fields = target.definition.partition_fields
    all_checks = [*checks]
    for field in fields:
        all_checks += partition_text_checks(named_column(field.name), field, folds_case=_FOLDS_CASE)
    checked, refuse_broken = _observe_checks(frame, all_checks, target)
    rows = checked.select(
        *(named_column(f.name) for f in target.definition.data_schema.fields),
        *(partition_text(named_column(f.name), f.data_type).alias(f.name) for f in fields),
    )
    directory = f"w-{uuid.uuid4().hex}"
    with _removing_on_failure(target.storage, directory):
        spread = _gather(rows, [field.name for field in fields], target.definition.metadata)
        written = _run(spread, directory, target, partition_by=[field.name for field in fields])
        refuse_broken()
        on_event(DataFilesWritten(table=target.storage.uri, directory=directory))

        def values_of(path: str) -> Mapping[str, str | None]:
            return partition_values_of(path.split("/")[1:-1], fields)

        return _describe_files(directory, written, values_of, target, data_change=True)


def rewrite_rows(
    frame: DataFrame,
    checks: Sequence[RowCheck],
    partition_values: Mapping[str, str | None],
    target: TableTarget,
) -> WrittenFiles:
    """Write rows of one partition again; the commit changes no data.

    Args:
        frame: Columns with the table's names and types.
        partition_values: As in the log; they reach the new files as they are.

    Raises:
        InvalidRequestError: A check found a row, or the rows could not be read.
        StorageError: The store failed.
    """
    top = f"w-{uuid.uuid4().hex}"
    hive = hive_directory(list(partition_values), partition_values)
    directory = f"{top}/{hive}" if hive else top
    checked, refuse_broken = _observe_checks(frame, checks, target)
    with _removing_on_failure(target.storage, top):
        rows = checked.select(*(named_column(f.name) for f in target.definition.data_schema.fields))
        written = _run(rows, directory, target, partition_by=())
        refuse_broken()
        return _describe_files(
            directory, written, lambda _: dict(partition_values), target, data_change=False
        )


def _observe_checks(
    frame: DataFrame, checks: Sequence[RowCheck], target: TableTarget
) -> tuple[DataFrame, Callable[[], None]]:
    """The rows to write, and what refuses them when they are written."""
    if not checks:
        return frame, lambda: None
    observed = Observation()
    return (
        frame.observe(observed, *counts_of(checks)),
        lambda: validate_counts(checks, observed.get, target.storage.uri),
    )


def _run(
    rows: DataFrame, directory: str, target: TableTarget, *, partition_by: Sequence[str]
) -> int | None:
    """Write the rows and count them, where it takes a count to know that all files are seen."""
    place = spark_path(target.storage, directory)
    observed = None if _is_one_process(rows.sparkSession) else Observation()
    if observed is not None:
        rows = rows.observe(observed, sf.count(sf.lit(1)).alias("rows"))
    writer = rows.write.options(**_WRITE_OPTIONS, **_codec_option(target))
    with (
        translating_failures(target.storage.uri, target.storage.locate(directory)),
        overriding(rows.sparkSession, _WRITE_SETTINGS),
    ):
        jobs.run(rows.sparkSession, lambda: writer.partitionBy(*partition_by).parquet(place))
        return None if observed is None else int(observed.get["rows"])


def _is_one_process(spark: SparkSession) -> bool:
    """Whether the driver is its own executor and so sees the files that it wrote."""
    try:
        return re.fullmatch(r"local(\[[^\]]*\])?", spark.sparkContext.master or "") is not None
    except PySparkException:  # Connect has no context
        return False


def _codec_option(target: TableTarget) -> dict[str, str]:
    if _CODEC not in target.definition.metadata.configuration:
        return {}
    codec: str = target.definition.properties.compression_codec
    # What Spark calls lz4 is framed in a way of Hadoop's own.
    return {"compression": "lz4_raw" if codec == "lz4" else codec}


def _gather(rows: DataFrame, partition_by: Sequence[str], metadata: Metadata) -> DataFrame:
    """The rows of a partition brought together if the table asks for it.

    A shuffle makes few files of many partitions, but takes longer than the write itself where a run
    writes one partition. A rebalance splits large partitions, which a repartition would not.
    """
    asked = metadata.configuration.get(_OPTIMIZE_WRITE, "").lower() == "true"
    return (
        rows.hint("rebalance", *map(named_column, partition_by)) if asked and partition_by else rows
    )


def _describe_files(
    directory: str,
    written: int | None,
    values_of: ValuesOf,
    target: TableTarget,
    *,
    data_change: bool,
) -> WrittenFiles:
    storage, definition = target.storage, target.definition
    files = [f for f in storage.list_tree(directory) if not _is_hidden(f.path)]

    def describe_file(info: FileInfo) -> tuple[AddFile | None, int]:
        with pq.ParquetFile(storage.open_input(info.path)) as file:
            footer = file.metadata
        if not footer.num_rows:
            return None, 0
        validate_footer(footer, definition.schema, info.path)
        values = values_of(info.path)
        stats = stats_from_footer(
            footer,
            definition.schema,
            definition.partition_columns,
            definition.properties.stats,
        )
        add = AddFile(
            path=encode_path(info.path),
            size=info.size,
            partition_values=values,
            modification_time=info.modified_ms,
            data_change=data_change,
            stats=stats,
        )
        return add, footer.num_rows

    try:
        with ThreadPoolExecutor(_FOOTER_THREADS, thread_name_prefix="delta_ops") as pool:
            found = list(pool.map(describe_file, files))
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{storage.uri}: {error}") from error
    num_rows = sum(n for _, n in found)
    _validate_complete(directory, written, num_rows, storage)
    storage.delete_many(f.path for f, (add, _) in zip(files, found, strict=True) if add is None)
    kept = [f.path for f, (add, _) in zip(files, found, strict=True) if add is not None]
    storage.persist(kept)
    return WrittenFiles(adds=tuple(add for add, _ in found if add is not None), num_rows=num_rows)


def _validate_complete(directory: str, written: int | None, found: int, storage: Storage) -> None:
    if written is not None and written != found:
        raise StorageError(
            storage.locate(directory),
            "written",
            f"Spark wrote {written} rows and the files there hold {found}; check that driver and "
            "executors share this path and that Spark's committer is the default, and run again",
        )


def _is_hidden(path: str) -> bool:
    return path.rpartition("/")[2][0] in "._"


@contextlib.contextmanager
def _removing_on_failure(storage: Storage, directory: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        remove_directory(storage, directory)
        raise


def remove_directory(storage: Storage, directory: str) -> None:
    """Remove a directory that a job made and no version names, with all that is in it."""
    place = spark_path(storage, directory).removeprefix("file:")
    shutil.rmtree(place, ignore_errors=True)

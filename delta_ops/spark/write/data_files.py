"""Data files: rows written by Spark's own Parquet writer, described from their footers.

Each job writes into its own directory under the table's root. Its tasks report the files that they
wrote (`commit_protocol`). Where that protocol is unavailable, Hadoop's committer writes with
renames, and the driver lists the directory. On a cluster, an executor may write to its own local
disk, so the rows in the listed footers must then match the count of Spark. In both cases the driver
reads the footer of each file, so it commits only files that it can read.
The directory is visible to every engine. Below it are Hive-style `column=value` directories,
because some readers expect them.
A failed job leaves nothing: its directory is removed.
"""

from __future__ import annotations

import contextlib
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, DataFrameWriter, Observation

from delta_ops.errors import InvalidRequestError, StorageError
from delta_ops.events import DataFilesWritten, OnEvent
from delta_ops.protocol.actions import AddCdcFile, AddFile
from delta_ops.protocol.change_data import CHANGE_DATA_DIRECTORY
from delta_ops.protocol.file_paths import canonical_path, encode_path
from delta_ops.protocol.properties.values import CompressionCodec
from delta_ops.protocol.schema import ColumnPath, drop_hidden
from delta_ops.protocol.sort_key import sort_columns, sorted_tags
from delta_ops.protocol.stats.from_footer import stats_from_footer
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.protocol.values.partition_values import hive_directory
from delta_ops.spark.expressions.columns import named_column
from delta_ops.spark.file_columns import columns_of_files
from delta_ops.spark.file_uris import options_to_write, remove_directory, spark_path
from delta_ops.spark.partitioning import (
    partition_text,
    partition_text_checks,
    partition_values_of,
)
from delta_ops.spark.row_checks import NUM_ROWS, RowCheck, count_rows, observe_rows
from delta_ops.spark.session import jobs
from delta_ops.spark.session.failures import translating_failures
from delta_ops.spark.session.progress import OnTasks, tasks_reporter
from delta_ops.spark.session.session import is_one_process, overriding
from delta_ops.spark.versions import figures_of, known_settings
from delta_ops.spark.write.bloom_filters import bloom_filter_options
from delta_ops.spark.write.commit_protocol import ProtocolUnavailableError, write_parquet
from delta_ops.spark.write.optimized_write import gather_partitions, settings_of
from delta_ops.storage import FileInfo, Storage
from delta_ops.storage.concurrency import run_parallel
from delta_ops.storage.parquet_ranges import read_footer
from delta_ops.transaction.write_rules import validate_footer

_WRITE_OPTIONS: Mapping[str, str] = {
    # Long strings have no statistics unless the writer may truncate them. This many bytes hold
    # twice the default length of strings in log statistics, in every script.
    "parquet.statistics.truncate.length": "260",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # For Hadoop's committer: algorithm 1 publishes files only when the whole job has succeeded.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
}
_WRITE_SETTINGS: Mapping[str, str] = {
    # INT96, the default before Spark 4.2, has no statistics; there the option has no effect.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    # Variants are written unshredded, because every reader supports that.
    "spark.sql.variant.writeShredding.enabled": "false",
    "spark.sql.parquet.variant.annotateLogicalType.enabled": "false",
}
"""Session settings that cannot be set as write options."""
_CODEC = "delta.parquet.compression.codec"
_FOLDS_CASE = sys.platform in ("darwin", "win32")
"""Whether local file systems usually ignore case in file names on this platform."""

ValuesOf = Callable[[str], Mapping[str, str | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """File settings of one write; they override the table's properties."""

    codec: CompressionCodec | None = None
    max_rows: int | None = None
    """Maximum number of rows in a file."""


BY_TABLE = FileSettings()
"""Use the table's properties."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTarget:
    """The table after the commit, for writing its files."""

    storage: Storage
    definition: TableDefinition
    """Includes columns that only these files have, if any."""
    clustered_by: tuple[ColumnPath, ...] = ()
    """Columns that always get statistics, by physical names."""
    directory: str = ""
    """Directory for the files, relative to the table root."""
    settings: FileSettings = BY_TABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFiles:
    """Durable data files and their number of rows."""

    adds: tuple[AddFile, ...]
    num_rows: int
    figures: Mapping[str, Any] = field(default_factory=dict)
    """Values of the aggregates over all rows."""


class _Job(NamedTuple):
    """Rows to write as Parquet, and the target directory."""

    rows: DataFrame
    place: str
    """Relative to the table root."""
    target: TableTarget
    partition_by: Sequence[str] = ()
    settings: Mapping[str, str] = {}
    on_tasks: OnTasks | None = None
    counted: Observation | None = None
    """The observation of the checks, if it counts the rows too."""


class _Found(NamedTuple):
    """Files that a job has written."""

    files: Iterable[FileInfo]
    num_rows: int | None
    """None if the list of files is known to be complete."""


_WriteMethod = Callable[[_Job], _Found]


def write_rows(
    frame: DataFrame,
    checks: Sequence[RowCheck],
    target: TableTarget,
    on_event: OnEvent,
    figures: Mapping[str, Column] = {},
) -> WrittenFiles:
    """Write rows to one or more files for each partition.

    Args:
        frame: Columns with the names, types and order of the table. It may have further columns for
            the checks.
        figures: Aggregates to compute over the rows, by name.

    Raises:
        InvalidRequestError: A check found a row, or the rows could not be computed.
        StorageError: The store failed.
    """
    fields, names = target.definition.partition_fields, target.definition.partition_names
    directories = _names_of_directories(target.definition)
    all_checks = [*checks]
    for each in fields:
        all_checks += partition_text_checks(named_column(each.name), each, folds_case=_FOLDS_CASE)

    def values_of(path: str) -> Mapping[str, str | None]:
        below = path[len(target.directory) :].strip("/")
        return partition_values_of(below.split("/")[1:-1], fields, names)

    def write_in(method: _WriteMethod) -> WrittenFiles:
        directory = _new_directory(target)
        checked, judge, counted = observe_rows(frame, all_checks, figures, target.storage.uri)
        rows = checked.select(
            *columns_of_files(target.definition),
            *(
                partition_text(named_column(f.name), f.data_type).alias(directories[f.name])
                for f in fields
            ),
        )
        settings = settings_of(target.definition, frame.sparkSession)
        gathered = gather_partitions(rows, target.definition)
        gathered = _sort_within_files(gathered, target.definition, list(directories.values()))
        on_tasks = tasks_reporter(on_event, target.storage.uri, "write")
        by = list(directories.values())
        job = _Job(gathered, directory, target, by, settings, on_tasks, counted)
        with _removing_on_failure(target.storage, directory):
            found = _run(job, method)
            figured = judge()
            on_event(DataFilesWritten(table=target.storage.uri, directory=directory))
            written = _describe_files(directory, found, values_of, target, data_change=True)
            return replace(written, figures=figured)

    return _write_by_best_method(write_in)


def _names_of_directories(definition: TableDefinition) -> Mapping[str, str]:
    """Map each partition column to the column that Spark names its directories after.

    Spark leaves the columns of directories out of the files. If the files also contain the
    partition columns, the directories therefore use other column names.
    """
    names = definition.partition_names
    taken = {each.name.lower() for each in definition.file_schema.fields}
    found = dict(names)
    for column in names:
        while found[column].lower() in taken:
            found[column] += "_directory"
    return found


def rewrite_rows(
    frame: DataFrame,
    checks: Sequence[RowCheck],
    partition_values: Mapping[str, str | None],
    target: TableTarget,
) -> WrittenFiles:
    """Rewrite rows of one partition, for a commit without data changes.

    Args:
        frame: Columns with the table's names and types.
        partition_values: As in the log, in the order of the directories. The new files get them
            unchanged.

    Raises:
        InvalidRequestError: A check found a row, or the rows could not be read.
        StorageError: The store failed.
    """
    hive = hive_directory(list(partition_values), partition_values)

    def values_of(_path: str) -> Mapping[str, str | None]:
        return dict(partition_values)

    def write_in(method: _WriteMethod) -> WrittenFiles:
        top = _new_directory(target)
        directory = f"{top}/{hive}" if hive else top
        checked, judge, counted = observe_rows(frame, checks, {}, target.storage.uri)
        rows = checked.select(*columns_of_files(target.definition))
        rows = _sort_within_files(rows, target.definition)
        with _removing_on_failure(target.storage, top):
            found = _run(_Job(rows, directory, target, counted=counted), method)
            judge()
            return _describe_files(directory, found, values_of, target, data_change=False)

    return _write_by_best_method(write_in)


def _sort_within_files(
    rows: DataFrame, definition: TableDefinition, directories: Sequence[str] = ()
) -> DataFrame:
    """Sort the rows of each file by the sort key of the table.

    Args:
        directories: The columns that Spark sorts by before it writes the files of partitions.
    """
    key = [each.stored_name for each in sort_columns(definition)]
    return rows.sortWithinPartitions(*map(named_column, [*directories, *key])) if key else rows


def _write_by_best_method(write_in: Callable[[_WriteMethod], WrittenFiles]) -> WrittenFiles:
    with contextlib.suppress(ProtocolUnavailableError):
        return write_in(_write_by_protocol)
    return write_in(_write_by_listing)


def _new_directory(target: TableTarget) -> str:
    name = f"w-{uuid.uuid4().hex}"
    return f"{target.directory}/{name}" if target.directory else name


def discard(storage: Storage, adds: Sequence[AddFile | AddCdcFile]) -> None:
    """Delete files that no table version refers to or will refer to, with their job directories.

    These directories contain only such files.
    """
    for directory in {_directory_of(canonical_path(add.path, storage.uri)) for add in adds}:
        remove_directory(storage, directory)


def _directory_of(path: str) -> str:
    """Directory of the job that wrote a file, from the file's canonical path."""
    top, _, below = path.partition("/")
    return f"{top}/{below.partition('/')[0]}" if top == CHANGE_DATA_DIRECTORY else top


def _run(job: _Job, method: _WriteMethod) -> _Found:
    storage = job.target.storage
    with (
        translating_failures(storage.uri, storage.locate(job.place)),
        overriding(job.rows.sparkSession, known_settings({**_WRITE_SETTINGS, **job.settings})),
    ):
        return method(job)


def _write_by_protocol(job: _Job) -> _Found:
    spark, storage = job.rows.sparkSession, job.target.storage
    writer, place = _writer(job, job.rows), spark_path(storage, job.place)
    written = jobs.run(spark, lambda: write_parquet(spark, writer, place), job.on_tasks)
    files = [FileInfo(f"{job.place}/{path}", size, at) for path, size, at in written]
    return _Found(files, None)


def _write_by_listing(job: _Job) -> _Found:
    """Write with Hadoop's committer and list the files.

    Rows are counted if only a count can show that the list is complete.
    """
    spark, storage = job.rows.sparkSession, job.target.storage
    place = spark_path(storage, job.place)
    rows, observed = job.rows, job.counted
    if observed is None and not is_one_process(spark):
        observed = Observation()
        rows = rows.observe(observed, count_rows())
    writer = _writer(job, rows)
    jobs.run(spark, lambda: writer.parquet(place), job.on_tasks)
    num_rows = None if observed is None else int(figures_of(observed, storage.uri)[NUM_ROWS])
    return _Found(_list_files(storage, job.place), num_rows)


def _list_files(storage: Storage, directory: str) -> Iterator[FileInfo]:
    for file in storage.list_tree(directory):
        if file.path.rpartition("/")[2][0] not in "._":
            yield file


def _writer(job: _Job, rows: DataFrame) -> DataFrameWriter:
    place = spark_path(job.target.storage, job.place)
    options = {**_WRITE_OPTIONS, **options_to_write(place), **_options_of(job.target)}
    return rows.write.options(**options).partitionBy(*job.partition_by)


def _options_of(target: TableTarget) -> dict[str, str]:
    options, codec = {}, target.settings.codec
    if target.settings.max_rows is not None:
        options["maxRecordsPerFile"] = str(target.settings.max_rows)
    if codec is None and _CODEC in target.definition.metadata.configuration:
        codec = target.definition.properties.compression_codec
    if codec is not None:
        # Spark's lz4 uses Hadoop's own framing.
        options["compression"] = "lz4_raw" if codec == "lz4" else codec
    return options | bloom_filter_options(target.definition)


def _describe_files(
    directory: str,
    found: _Found,
    values_of: ValuesOf,
    target: TableTarget,
    *,
    data_change: bool,
) -> WrittenFiles:
    storage, definition = target.storage, target.definition
    schema, settings = definition.physical_schema, definition.stats_settings
    described_columns = drop_hidden(schema)
    settings = replace(settings, always=target.clustered_by)
    tags = sorted_tags(definition)

    def describe_file(info: FileInfo) -> tuple[AddFile | None, int]:
        footer = _footer_of(info, storage)
        if not footer.num_rows:
            return None, 0
        validate_footer(footer, schema, info.path)
        values = values_of(info.path)
        stats = stats_from_footer(
            footer, described_columns, tuple(definition.partition_names.values()), settings
        )
        add = AddFile(
            path=encode_path(info.path),
            size=info.size,
            partition_values=values,
            modification_time=info.modified_ms,
            data_change=data_change,
            stats=stats,
            tags=tags,
        )
        return add, footer.num_rows

    files = list(found.files)
    try:
        described = run_parallel(describe_file, files)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{storage.uri}: {error}") from error
    num_rows = sum(n for _, n in described)
    _validate_complete(directory, found.num_rows, num_rows, storage)
    storage.delete_many(f.path for f, (add, _) in zip(files, described, strict=True) if add is None)
    kept = [f.path for f, (add, _) in zip(files, described, strict=True) if add is not None]
    storage.persist(kept)
    adds = tuple(add for add, _ in described if add is not None)
    return WrittenFiles(adds=adds, num_rows=num_rows)


def _footer_of(info: FileInfo, storage: Storage) -> pq.FileMetaData:
    try:
        return read_footer(storage, info).metadata
    except (FileNotFoundError, ValueError) as error:
        raise StorageError(
            storage.locate(info.path),
            "found",
            f"Spark wrote {info.size} bytes that the driver cannot see ({error}); check that this "
            "path is the same location on the driver and the executors, and run again",
        ) from error


def _validate_complete(directory: str, written: int | None, found: int, storage: Storage) -> None:
    if written is not None and written != found:
        raise StorageError(
            storage.locate(directory),
            "written",
            f"Spark wrote {written} rows, but the files hold {found}; check that driver and "
            "executors share this path and that Spark's committer is the default, and run again",
        )


@contextlib.contextmanager
def _removing_on_failure(storage: Storage, directory: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        remove_directory(storage, directory)
        raise

"""The change data feed as a lazy DataFrame: which rows each commit inserted, deleted and updated.

Which files give which rows, and what ranges are refused: see `planning.change_feed`. What is the
same in all rows of a file, its commit among it, is given by the file index as partition values are,
so that filters on versions leave out files; rows that two vectors of one file differ in are told by
their bits, see `live_rows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import Literal

from pyspark.sql import DataFrame, SparkSession

from delta_ops.arguments import validate_arguments
from delta_ops.log import TableOrPlace, log_of
from delta_ops.planning.change_feed import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    ChangedFile,
    ChangeFeed,
    plan_changes,
)
from delta_ops.planning.file_values import parse_partition_values
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema import StructField
from delta_ops.spark.expressions.columns import physical_text
from delta_ops.spark.places import spark_file
from delta_ops.spark.read.file_index import FileGroup, groups_of
from delta_ops.spark.read.read import resolve_columns, show
from delta_ops.spark.read.scan import ChosenRows, ScanColumns, known_size, scan, unite
from delta_ops.spark.session.session import session_time_zone


def read_changes(
    spark: SparkSession,
    source: TableOrPlace,
    start_version: int | None = None,
    end_version: int | None = None,
    *,
    start_timestamp: str | date | None = None,
    end_timestamp: str | date | None = None,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    schema: Literal["end", "latest"] = "end",
) -> DataFrame:
    """The rows that commits changed.

    Args:
        spark: The session; times of partition values that name no zone are in its time zone.
        source: The table, by its handle, its path or URI.
        start_version: The first commit whose changes are wanted, or
        start_timestamp: the first commit at or after a time, in UTC unless it has a zone.
        end_version: The last one; the latest version if it is not given or greater, or
        end_timestamp: the last commit at or before a time. No commit may lie between two times.
        columns: Names in the order wanted; by default those of the table, and then `_change_type`
            (insert, delete, update_preimage, update_postimage), `_commit_version` and
            `_commit_timestamp`.
        predicate: Keeps the rows for which it is true; it may name any of these columns.
        schema: Whether the columns are those of the last version of the range, or of the latest
            version of the table. A column or a field that came later than a row is null in it.

    Raises:
        InvalidRequestError: The range is none, the feed was off for one of its versions, column
            mapping was given up in it, a column is not there or had another type, or Spark cannot
            reach the storage of a file.
        VersionNotFoundError: A version of the range is not there, or was cleaned up.
        DataFileError: A deletion vector is gone or cannot be read.
        OutsideFileError: A file lies outside of the table and may not be read there.
        UnsupportedFeatureError: The rows are stored in a way that we cannot read.
    """
    validate_arguments(read_changes, locals())
    feed = plan_changes(
        log_of(source),
        start_version,
        end_version,
        start_timestamp,
        end_timestamp,
        schema,
        engine="spark",
    )
    wanted = resolve_columns(feed.schema, columns)
    return show(read_changed_files(spark, feed, feed.files()), feed.schema, wanted, predicate)


def read_changed_files(
    spark: SparkSession, feed: ChangeFeed, files: Iterable[ChangedFile]
) -> DataFrame:
    """The rows of files of a feed, with all its columns."""
    return unite(spark, feed.schema, _parts(spark, feed, files))


def _parts(
    spark: SparkSession, feed: ChangeFeed, files: Iterable[ChangedFile]
) -> Iterator[DataFrame]:
    time_zone = session_time_zone(spark)
    files_by_columns: dict[tuple[StructField, ...], list[ChangedFile]] = {}
    for file in files:
        files_by_columns.setdefault(_columns_of_log(feed, file), []).append(file)
    for of_log, alike in files_by_columns.items():
        whole: dict[tuple[str | None, ...], list[tuple[str, int, int]]] = {}
        chosen: list[ChosenRows] = []
        for file in alike:
            texts = _texts(feed, file, of_log, time_zone)
            size = known_size(feed.end, file.path, file.size)
            place = (spark_file(spark, feed.end, file.path), size, 0)
            if file.rows is None:
                whole.setdefault(texts, []).append(place)
            elif size > 0:
                group = FileGroup(values=texts, files=[place])
                chosen.append(ChosenRows(group, file.path, file.rows))
        columns = ScanColumns(feed.definition, feed.schema, of_log)
        yield from scan(spark, feed.end, columns, groups_of(whole), chosen)


def _columns_of_log(feed: ChangeFeed, file: ChangedFile) -> tuple[StructField, ...]:
    """The columns whose values are the same in all rows of a file."""
    partitions = (e for e in feed.schema.fields if e.name in file.partition_columns)
    of_change = (COMMIT_VERSION, COMMIT_TIMESTAMP)
    return (*partitions, *of_change, *(() if file.is_change_data else (CHANGE_TYPE,)))


def _texts(
    feed: ChangeFeed, file: ChangedFile, of_log: Sequence[StructField], time_zone: str
) -> tuple[str | None, ...]:
    in_log = parse_partition_values(
        [each for each in of_log if each.name in file.partition_columns],
        file.partition_values,
        is_mapped=feed.definition.is_mapped,
        time_zone=time_zone,
        table=feed.end.uri,
        path=file.path,
    )
    values = {**in_log, **file.change}
    return tuple(physical_text(values[each.name]) for each in of_log)

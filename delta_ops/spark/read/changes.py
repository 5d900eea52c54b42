"""The change data feed as a lazy DataFrame: rows that each commit inserted, deleted or updated.

`planning.change_feed` selects the files of each commit and rejects unsupported ranges. Values that
all rows of a file share, such as the commit version, reach Spark as partition values. A filter on
versions therefore skips files. If a commit changes the deletion vector of a file, `live_rows`
selects the rows that are in only one of the two vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Unpack

from pyspark.sql import Column, DataFrame, SparkSession

from delta_ops.arguments import shares_options
from delta_ops.errors import naming_table
from delta_ops.log import TableOrPlace, log_of
from delta_ops.planning.change_feed import ChangedFile, ChangeFeed, plan_changes
from delta_ops.planning.changes_request import ChangesOptions, ChangesRequest
from delta_ops.planning.file_values import parse_partition_values
from delta_ops.protocol.expression import Expression
from delta_ops.protocol.expression.implication import predicate_of
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema import StructField
from delta_ops.spark.expressions.columns import physical_text
from delta_ops.spark.expressions.conditions import text_of_predicate, validate_times
from delta_ops.spark.file_uris import spark_file
from delta_ops.spark.read.file_index import FileGroup, groups_of
from delta_ops.spark.read.read import resolve_columns, show
from delta_ops.spark.read.scan import ChosenRows, ScanColumns, known_size, scan, unite
from delta_ops.spark.session.session import session_time_zone
from delta_ops.spark.versions import validate_session


@shares_options(ChangesRequest)
def read_changes(
    spark: SparkSession,
    source: TableOrPlace,
    start_version: int | None = None,
    end_version: int | None = None,
    *,
    predicate: Predicate | Expression | Column | str | None = None,
    **options: Unpack[ChangesOptions],
) -> DataFrame:
    """Read the rows that commits changed.

    Args:
        spark: The session. Its time zone applies to partition timestamps without a zone.
        source: The table handle, or the path or URI of the table.
        predicate: Selects the rows to return: from `col` or `parse_predicate`, a Spark SQL string,
            or a Column that compares columns with values. It may use the columns of the feed.

    Raises:
        DataFileError: A deletion vector is missing or cannot be read.

    Examples:
        >>> changed = {"delta.enableChangeDataFeed": "true"}
        >>> _ = ds.write(spark.range(2), "lake/numbers", configuration=changed)
        >>> _ = ds.delete(spark, "lake/numbers", "id = 1")
        >>> changes = ds.read_changes(spark, "lake/numbers", start_version=1)
        >>> [(row["_change_type"], row["id"]) for row in changes.collect()]
        [('delete', 1)]
    """
    validate_session(spark)
    request = ChangesRequest(
        start_version=start_version,
        end_version=end_version,
        predicate=text_of_predicate(predicate),
        **options,
    )
    feed = plan_changes(log_of(source), request, engine="spark")
    with naming_table(feed.log.uri):
        wanted = resolve_columns(feed.schema, request.columns)
        validate_times(request.predicate, spark, feed.schema)
        rows = read_changed_files(spark, feed, feed.files())
        return show(rows, feed.schema, wanted, predicate_of(request.predicate))


def read_changed_files(
    spark: SparkSession, feed: ChangeFeed, files: Iterable[ChangedFile]
) -> DataFrame:
    """Read these files of a change feed, with all columns of the feed."""
    return unite(spark, feed.schema, _parts(spark, feed, files))


def _parts(
    spark: SparkSession, feed: ChangeFeed, files: Iterable[ChangedFile]
) -> Iterator[DataFrame]:
    time_zone = session_time_zone(spark)
    files_by_columns: dict[tuple[StructField, ...], list[ChangedFile]] = {}
    for file in files:
        files_by_columns.setdefault(feed.constant_columns(file), []).append(file)
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

"""Read a table as a stream: first the existing rows, then the rows of each commit.

`planning.table_stream` selects the files of each batch.

In a classic session, the table is a native source of Spark, which requests offsets, and the rows
between two offsets. Our source is a Java class (`java/delta_ops/streams`). It calls Python, which
returns an offset as text, or a DataFrame over our file index whose relations are marked as
streaming. Rows are read as in a batch: with column pruning and filter pushdown, and without a
Python worker. The source reaches Spark as an object inside a plan, so no class loader has to find
it by name.

The Java code depends on Spark internals, as the file index does. If these differ, and in sessions
of Spark Connect, `rows` reads the stream through the public API.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog, Snapshot, TableOrPlace, log_of
from delta_ops.log.history.time_travel import timestamp_ms
from delta_ops.option_words import option
from delta_ops.planning.change_feed import changes_until
from delta_ops.planning.stream_commits import StreamRules, find_change_of_columns
from delta_ops.planning.stream_slices import SliceLimits
from delta_ops.planning.table_stream import StreamRequest, TableStream
from delta_ops.protocol.stream_offset import StreamOffset, stream_offset_from_json
from delta_ops.protocol.table_definition import validate
from delta_ops.spark.callbacks import Callback, accept_callbacks
from delta_ops.spark.compiled import OBSTACLES, first_line, instance_of
from delta_ops.spark.read.changes import read_changed_files
from delta_ops.spark.read.read import read_files, resolve_columns, show
from delta_ops.spark.schema import spark_schema_from_schema
from delta_ops.spark.session.session import warn_once
from delta_ops.spark.versions import CONNECT, STREAM_LIMITS, is_connect, require, validate_session

_MAX_FILES = 1000
"""Default limit of files in a batch."""
_STREAMS = "delta_ops.streams.LogStreams"


class SourceUnavailableError(Exception):
    """This session or Spark version does not support the native source."""


def read_stream(
    spark: SparkSession,
    source: TableOrPlace,
    *,
    starting_version: int | Literal["latest"] | None = None,
    starting_timestamp: str | date | None = None,
    max_files_per_trigger: int | None = None,
    max_bytes_per_trigger: int | None = None,
    ignore_deletes: bool = False,
    ignore_changes: bool = False,
    skip_change_commits: bool = False,
    exclude_regex: str | None = None,
    read_change_feed: bool = False,
) -> DataFrame:
    """Read the rows of a table as a stream: the existing rows, and then the rows of each commit.

    A query reads each added row once, even if it is killed, as long as its checkpoint exists. It
    can continue from a checkpoint of delta-spark, and delta-spark from ours.

    A commit that deletes or changes rows stops the query, unless an option skips such commits. A
    commit that changes the table's columns also stops it: create the streaming DataFrame again and
    restart the query from its checkpoint. Earlier commits are read first in both cases. Commits
    that only rearrange rows, such as compaction, are skipped.

    Args:
        source: The table handle, or the path or URI of the table.
        starting_version: The first commit that a new query reads; "latest" for the next commit. By
            default a new query starts with all rows of the latest version, file by file in the
            order of their modification times.
        starting_timestamp: Start at the first commit at or after this time, in UTC unless it has a
            zone. Excludes `starting_version`.
        max_files_per_trigger: Maximum number of files in a batch. Default: 1,000, unless bytes are
            limited.
        max_bytes_per_trigger: A batch takes no further file after this many bytes.
        ignore_deletes: Skip commits that only delete rows.
        ignore_changes: Read all rows of rewritten files, including unchanged rows again.
        skip_change_commits: Skip commits that delete or change rows, including the rows that they
            add.
        exclude_regex: Skip files if it matches any part of their path in the log.
        read_change_feed: Read the changes of rows, with the columns of `read_changes`. The first
            rows count as inserted.

    Raises:
        InvalidRequestError: An option is invalid, or this session does not support the stream.
        TableNotFoundError: The table does not exist.
        UnsupportedFeatureError: The rows are stored in an unsupported way.

    Examples:
        >>> stream = ds.read_stream(spark, "lake/orders").where("price > 15")
        >>> stream.isStreaming
        True
    """
    validate_arguments(read_stream, locals())
    validate_session(spark)
    request = StreamRequest(
        starting_version=starting_version,
        starting_timestamp=starting_timestamp,
        limits=_limits(max_files_per_trigger, max_bytes_per_trigger),
        rules=StreamRules(
            ignore_deletes=ignore_deletes,
            ignore_changes=ignore_changes,
            skip_change_commits=skip_change_commits,
            read_change_feed=read_change_feed,
        ),
        exclude=_pattern(exclude_regex),
    )
    _validate_start(starting_version, starting_timestamp)
    log = log_of(source)
    snapshot = log.snapshot()
    validate(snapshot.definition, "read", table=snapshot.uri, engine="spark")
    schema = snapshot.schema
    if read_change_feed:
        schema = changes_until(log, snapshot, range(0)).schema
    spark_schema = spark_schema_from_schema(schema)
    try:
        return _streaming_frame(
            spark,
            f"delta_ops[{snapshot.uri}]",
            spark_schema,
            lambda: _SparkStream(spark, log, snapshot, request),
        )
    except SourceUnavailableError as error:
        if read_change_feed:
            raise InvalidRequestError(
                f"{snapshot.uri}: the change feed can be streamed only in a classic session, and "
                f"this session has no source for it ({error}); use {option('read_changes')}"
            ) from error
        require(spark, CONNECT, f"A stream in such a session ({error})")
        for name, limit in (
            ("max_files_per_trigger", max_files_per_trigger),
            ("max_bytes_per_trigger", max_bytes_per_trigger),
        ):
            if limit is not None:
                require(spark, STREAM_LIMITS, f"{option(name)} in such a session ({error})")
        from delta_ops.spark.streaming.rows import streaming_rows

        warn_once(
            spark,
            "This session reads streams through Python workers, which is several times slower",
            error,
        )
        return streaming_rows(
            spark, log, spark_schema, lambda: _open_stream(log, snapshot.version, request)
        )


def _limits(max_files: int | None, max_bytes: int | None) -> SliceLimits:
    limits = {"max_files_per_trigger": max_files, "max_bytes_per_trigger": max_bytes}
    for name, limit in limits.items():
        if limit is not None and limit < 1:
            raise InvalidRequestError(f"{option(name)} is {limit}; give 1 or more, or leave it out")
    if max_files is None and max_bytes is None:
        max_files = _MAX_FILES
    return SliceLimits(max_files=max_files, max_bytes=max_bytes)


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise InvalidRequestError(
            f"{option('exclude_regex')} {text!r} is not a regular expression: {error}"
        ) from error


def _validate_start(version: int | str | None, timestamp: str | date | None) -> None:
    if version is not None and timestamp is not None:
        raise InvalidRequestError(
            f"give either {option('starting_version')} or {option('starting_timestamp')}, not both"
        )
    if version != "latest" and version is not None and (isinstance(version, str) or version < 0):
        raise InvalidRequestError(
            f'{option("starting_version")} is {version!r}; give a version from 0 on, or "latest"'
        )
    if timestamp is not None:
        timestamp_ms(timestamp)


def _streaming_frame(
    spark: SparkSession, name: str, schema: StructType, open_table: Callable[[], _SparkStream]
) -> DataFrame:
    """Read the rows of a table as a stream.

    Args:
        spark: A classic session.
        name: Name of the source in Spark's UI and logs.
        schema: The columns of every batch.
        open_table: Opens the table for each query that starts.

    Raises:
        SourceUnavailableError: This session does not support the source.
    """
    if is_connect(spark):
        raise SourceUnavailableError("it is a session of Spark Connect")
    try:
        accept_callbacks(spark)
        context = spark.sparkContext

        def open_for_query(_question: str) -> Callback:
            return Callback(open_table().answer, context)

        rows = instance_of(spark, _STREAMS).stream(
            spark._jsparkSession, name, schema.json(), Callback(open_for_query, context)
        )
        return DataFrame(rows, spark)
    except OBSTACLES as error:
        raise SourceUnavailableError(first_line(error)) from error


class _SparkStream:
    """A table in one query of a classic session. Offsets are strings."""

    def __init__(
        self, spark: SparkSession, log: DeltaLog, made_for: Snapshot, request: StreamRequest
    ) -> None:
        self._spark, self._request = spark, request
        self._stream = TableStream(log, _first_snapshot(made_for), request)

    def answer(self, question: str) -> Any:
        """Answer a request of the source: a string with three lines for kind, start and end."""
        kind, start, end = question.split("\n")
        match kind:
            case "stop at latest":
                return self._stream.stop_at_latest()
            case "end" | "end of all":
                return self._end_after(start or None, is_limited=kind == "end")
        rows = self._rows_between(start or None, end)
        return None if rows is None else rows._jdf

    def _end_after(self, start: str | None, *, is_limited: bool) -> str | None:
        """The end offset of the next batch; None if there are no rows yet."""
        limits = None if is_limited else SliceLimits()
        end = self._stream.end_after(_offset(start), limits)
        return None if end is None else end.to_json()

    def _rows_between(self, start: str | None, end: str) -> DataFrame | None:
        """The rows of a batch; None for no rows."""
        place = stream_offset_from_json(end)
        if self._request.rules.read_change_feed:
            feed, files = self._stream.changes_between(_offset(start), place)
            return read_changed_files(self._spark, feed, files) if files else None
        snapshot = self._stream.schema_snapshot
        adds = self._stream.adds_between(_offset(start), place)
        if not adds:
            return None
        rows = read_files(self._spark, snapshot, adds)
        return show(rows, snapshot.schema, resolve_columns(snapshot.schema, None), None)


def _open_stream(log: DeltaLog, version: int, request: StreamRequest) -> TableStream:
    """Open a table for a query whose DataFrame was created at this version."""
    return TableStream(log, _first_snapshot(log.snapshot(version)), request)


def _first_snapshot(made_for: Snapshot) -> Snapshot:
    """The first snapshot of a query. It may be later than the snapshot of its DataFrame."""
    snapshot = made_for.refresh()
    obstacle = find_change_of_columns(snapshot.version, snapshot.metadata, made_for)
    # If columns changed, the query reads all earlier commits first and then reports the change.
    return snapshot if obstacle is None else made_for


def _offset(text: str | None) -> StreamOffset | None:
    return None if text is None else stream_offset_from_json(text)

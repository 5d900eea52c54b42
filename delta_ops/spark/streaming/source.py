"""The stream source: a table as a native source of Spark streams.

Spark requests offsets from a `Source`, and the rows between two offsets. Our source is a Java class
(`java/delta_ops/streams`). It calls Python, which returns an offset as text, or a DataFrame over
our file index whose relations are marked as streaming. Rows are read as in a batch: with column
pruning and filter pushdown, and without a Python worker. The source reaches Spark as an object
inside a plan, so no class loader has to find it by name.

The Java code depends on Spark internals, as the file index does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from delta_ops.spark.callbacks import Callback, accept_callbacks
from delta_ops.spark.compiled import OBSTACLES, first_line, instance_of
from delta_ops.spark.versions import is_connect

_CLASS = "delta_ops.streams.LogStreams"


class SourceUnavailableError(Exception):
    """This session or Spark version does not support the source."""


class StreamedTable(Protocol):
    """A table in one query. Offsets are texts."""

    def stop_at_latest(self) -> None:
        """End the query with the latest version."""

    def end_after(self, start: str | None, *, is_limited: bool) -> str | None:
        """The end offset of the next batch; None if there are no rows yet."""

    def rows_between(self, start: str | None, end: str) -> DataFrame | None:
        """The rows of a batch; None for no rows."""


def streaming_frame(
    spark: SparkSession, name: str, schema: StructType, open_table: Callable[[], StreamedTable]
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
            return Callback(partial(_answer, open_table()), context)

        rows = instance_of(spark, _CLASS).stream(
            spark._jsparkSession, name, schema.json(), Callback(open_for_query, context)
        )
        return DataFrame(rows, spark)
    except OBSTACLES as error:
        raise SourceUnavailableError(first_line(error)) from error


def _answer(table: StreamedTable, question: str) -> Any:
    """Answer a request of the source: a text with three lines for kind, start and end."""
    what, start, end = question.split("\n")
    match what:
        case "stop at latest":
            return table.stop_at_latest()
        case "end" | "end of all":
            return table.end_after(start or None, is_limited=what == "end")
    rows = table.rows_between(start or None, end)
    return None if rows is None else rows._jdf

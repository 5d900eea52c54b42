"""The stream source: a table as a native source of Spark's streams.

Spark requests offsets from a `Source`, and the rows between two offsets. Our source is a Java class
(`java/delta_ops/streams`). It calls Python, which returns the text of an offset, or a DataFrame
over our file index whose relations are marked as streaming. Rows are read as in a batch: pruned
columns, pushed filters, no Python worker. The source reaches Spark inside a plan, without a name
that a class loader would look up.

The Java depends on internals of Spark, as the file index does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from delta_ops.spark.callbacks import Callback, accept_callbacks
from delta_ops.spark.compiled import OBSTACLES, first_line, instance_of
from delta_ops.spark.session.session import is_connect

_CLASS = "delta_ops.streams.LogStreams"


class SourceUnavailableError(Exception):
    """This session, or this version of Spark, cannot use the source."""


class StreamedTable(Protocol):
    """A table in one query. Offsets are texts."""

    def stop_at_latest(self) -> None:
        """End the query with the latest version."""

    def end_after(self, start: str | None, *, is_limited: bool) -> str | None:
        """The offset where the next batch ends; None where there are no rows yet."""

    def rows_between(self, start: str | None, end: str) -> DataFrame | None:
        """The rows of a batch; None for no rows."""


def streaming_frame(
    spark: SparkSession, name: str, schema: StructType, open_table: Callable[[], StreamedTable]
) -> DataFrame:
    """The rows of a table as a stream.

    Args:
        spark: A classic session.
        name: What Spark shows of the source.
        schema: The columns of every batch.
        open_table: Opens the table for each query that starts.

    Raises:
        SourceUnavailableError: This session cannot use the source.
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
    """Answer one question of the source, a text of three lines: what, start and end."""
    what, start, end = question.split("\n")
    match what:
        case "stop at latest":
            return table.stop_at_latest()
        case "end" | "end of all":
            return table.end_after(start or None, is_limited=what == "end")
    rows = table.rows_between(start or None, end)
    return None if rows is None else rows._jdf

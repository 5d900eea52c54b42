"""Streaming queries for tests: run to completion, with the rows that they read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

import delta_ops.arrow as da
from delta_ops import DeltaLog
from tests.spark.frames import rows_of


def read_available(stream: DataFrame, checkpoint: Path) -> list[list[dict[str, Any]]]:
    """The rows of each batch of a query that reads the existing data and ends."""
    batches: list[list[dict[str, Any]]] = []
    writer = stream.writeStream.option("checkpointLocation", str(checkpoint))
    writer = writer.foreachBatch(lambda batch, _: batches.append(rows_of(batch)))
    writer.trigger(availableNow=True).start().awaitTermination()
    return batches


def append(table: Path | DeltaLog, first: int, last: int, **columns: Any) -> None:
    """A commit with a file of the numbers from one to another."""
    numbers = pa.array(range(first, last + 1), pa.int64())
    others = {name: [value] * len(numbers) for name, value in columns.items()}
    da.write(table, pa.table({"n": numbers, **others}), hooks=())


def all_rows(batches: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The rows of all batches."""
    return [row for batch in batches for row in batch]


def numbers(batches: list[list[dict[str, Any]]]) -> list[list[int]]:
    """The numbers in each batch."""
    return [sorted(row["n"] for row in batch) for batch in batches]

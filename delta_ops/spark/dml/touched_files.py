"""Touched files: finds the live files with matching rows, and the rows on request.

Spark reads only the columns in the condition. The driver receives a count for each file, or bitmaps
of the matching rows. One aggregation builds the bitmaps: 4 KB for each block of 32,768 rows of a
file that has a match.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from delta_ops.events import OnEvent
from delta_ops.log import Snapshot
from delta_ops.planning.touched_files import plan_touched_files
from delta_ops.protocol.actions import AddFile
from delta_ops.spark.expressions.columns import named_column
from delta_ops.spark.expressions.conditions import Condition
from delta_ops.spark.read.file_index import ROW_NUMBER
from delta_ops.spark.read.live_rows import mark_named
from delta_ops.spark.read.read import NUMBER, read_numbered
from delta_ops.spark.session import jobs
from delta_ops.spark.session.failures import translating_failures
from delta_ops.spark.session.progress import tasks_reporter
from delta_ops.spark.session.session import session_time_zone
from delta_ops.storage.concurrency import run_parallel
from delta_ops.transaction.row_changes import Touched, TouchedFile, deleted_rows, num_live_rows

MATCHES = "delta_ops matches"
"""Whether a row matches; the space avoids table column names."""
_BLOCK, _BITS = "block", "bits"
_BLOCK_ROWS = 1 << 15
"""Number of rows in one of Spark's bitmaps."""


def find_touched(
    spark: SparkSession,
    snapshot: Snapshot,
    condition: Condition,
    on_event: OnEvent,
    *,
    names_rows: bool,
) -> Touched:
    """Find the files with matching rows.

    Args:
        names_rows: Whether to find the matching rows of partly matching files too.

    Raises:
        DataFileError: A deletion vector is missing or cannot be read.
        InvalidRequestError: The condition cannot be evaluated, or a file cannot be read.
    """
    files = plan_touched_files(
        snapshot,
        condition.selection,
        partition_time_zone=session_time_zone(spark),
    )
    opened = files.to_open
    if not opened:
        return files.list_touched([])
    rows = condition.apply_alias(read_numbered(spark, snapshot, opened)).filter(condition.column)
    found = name_touched(spark, snapshot, opened, rows, on_event, names_rows=names_rows)
    return files.list_touched(found)


def name_touched(
    spark: SparkSession,
    snapshot: Snapshot,
    files: Sequence[AddFile],
    rows: DataFrame,
    on_event: OnEvent,
    *,
    names_rows: bool,
) -> list[TouchedFile]:
    """List the files that contain some of these rows, in the order of `files`.

    Args:
        files: Live files.
        rows: Rows of these files as `read_numbered` returns them, each once.
        names_rows: Whether to find the rows of each file too.
    """
    if names_rows:
        named = collect_rows(snapshot, rows, on_event)
        counts = {number: len(each) for number, each in named.items()}
    else:
        named, counts = {}, {**count_by_file(spark, snapshot, rows, on_event)}
    touched = [
        TouchedFile(file=files[number], num_rows=counts[number], is_whole=False)
        for number in sorted(counts)
    ]
    # Statistics may be wrong, and a row lost through them would be lost for good. So the rows of
    # files that seem to match in full are counted.
    likely = [each.file for each in touched if each.num_rows == num_live_rows(each.file)]
    if likely:
        held = count_by_file(spark, snapshot, read_numbered(spark, snapshot, likely), on_event)
        num_held = {likely[number].path: count for number, count in held.items()}
        touched = [
            replace(each, is_whole=each.num_rows == num_held.get(each.file.path))
            for each in touched
        ]
    if not names_rows:
        return touched
    mixed = [each.file for each in touched if not each.is_whole]
    deleted = run_parallel(partial(deleted_rows, snapshot), mixed)
    gone_before = {file.path: rows for file, rows in zip(mixed, deleted, strict=True)}
    return [
        replace(each, gone=named[number] | gone_before.get(each.file.path, BitMap64()))
        for number, each in zip(sorted(counts), touched, strict=True)
    ]


def count_by_file(
    spark: SparkSession, snapshot: Snapshot, rows: DataFrame, on_event: OnEvent
) -> Mapping[int, int]:
    """Count the rows of each file, by file number. Files without rows are omitted."""
    counted = rows.groupBy(named_column(NUMBER.name).alias("number")).count()
    with translating_failures(snapshot.uri, snapshot.uri):
        on_tasks = tasks_reporter(on_event, snapshot.uri, "find")
        found = jobs.run(spark, counted.collect, on_tasks)
    return {each["number"]: each["count"] for each in found}


def collect_rows(snapshot: Snapshot, rows: DataFrame, on_event: OnEvent) -> Mapping[int, BitMap64]:
    """Collect the row numbers of these rows, by file number."""
    place = named_column(ROW_NUMBER) + 1  # Spark's bitmap positions start at 1
    blocks = rows.groupBy(
        named_column(NUMBER.name).alias("number"), sf.bitmap_bucket_number(place).alias(_BLOCK)
    ).agg(sf.bitmap_construct_agg(sf.bitmap_bit_position(place)).alias(_BITS))
    with translating_failures(snapshot.uri, snapshot.uri):
        on_tasks = tasks_reporter(on_event, snapshot.uri, "find")
        found = jobs.load(blocks, on_tasks)
    named: dict[int, BitMap64] = {}
    for batch in found.to_batches():
        numbers, firsts, bits = (batch.column(name) for name in ("number", _BLOCK, _BITS))
        for number, block, bitmap in zip(
            numbers.to_pylist(), firsts.to_pylist(), bits.to_pylist(), strict=True
        ):
            flags = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")
            found_rows = np.flatnonzero(flags).astype(np.uint64) + np.uint64(
                (block - 1) * _BLOCK_ROWS
            )
            held = named.setdefault(number, BitMap64())
            held |= BitMap64(array("Q", found_rows.tobytes()))
    return named


def mark_matching(
    spark: SparkSession, snapshot: Snapshot, touched: Sequence[TouchedFile], condition: Condition
) -> DataFrame:
    """Read the rows of files as `read_numbered` does, with the column `MATCHES`.

    If the condition may give another result now, the column comes from the earlier result.

    Args:
        touched: Result of `find_touched` for this condition.
    """
    rows = read_numbered(spark, snapshot, [each.file for each in touched])
    if condition.is_stable:
        return condition.apply_alias(rows).withColumn(MATCHES, condition.column)
    named = [each.gone for each in touched if each.gone is not None]
    return mark_named(rows, named, NUMBER, MATCHES)

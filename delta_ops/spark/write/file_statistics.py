"""File statistics: computes statistics of live files from their rows, with one Spark aggregation.

Footers lack some bounds: of timestamps in INT96 (Spark's default), of old dates in another
calendar, and upper bounds where a value may be NaN. The rows have them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf

from delta_ops.arguments import validate_arguments
from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.schema import ColumnPath, DataType, find_field, leaves
from delta_ops.protocol.schema.char_types import char_lengths
from delta_ops.protocol.stats.bound_texts import Bounds, stats_from_bounds
from delta_ops.protocol.stats.completion import described_leaves
from delta_ops.protocol.stats.indexed_columns import StatsSettings, has_bounds
from delta_ops.spark.expressions.columns import named_column
from delta_ops.spark.read.read import NUMBER, read_numbered
from delta_ops.spark.session import jobs
from delta_ops.spark.session.failures import translating_failures
from delta_ops.transaction.rewrite_group import Describer

_COLLATIONS = "__COLLATIONS"
_ROWS = "rows"


class _Leaf(NamedTuple):
    path: ColumnPath
    """Physical names, as in statistics."""
    data_type: DataType
    column: Column
    has_bounds: bool


def file_statistics(spark: SparkSession) -> Describer:
    """Return the Spark engine for `backfill_statistics`.

    The returned function raises `InvalidRequestError` if a file is missing or cannot be read, and
    `StorageError` if the store fails.

    Examples:
        >>> from delta_ops.maintenance import backfill_statistics
        >>> backfill_statistics("lake/orders", engine=ds.file_statistics(spark)).lacking_files
        0
    """
    validate_arguments(file_statistics, locals())

    def describe(
        snapshot: Snapshot, files: Sequence[AddFile], settings: StatsSettings
    ) -> Sequence[str | None]:
        measured = list(_leaves(snapshot, settings))
        rows = read_numbered(spark, snapshot, files)
        grouped = rows.groupBy(named_column(NUMBER.name).alias("number")).agg(
            sf.count(sf.lit(1)).alias(_ROWS), *_aggregates(measured)
        )
        with translating_failures(snapshot.uri, snapshot.uri):
            found = jobs.load(grouped)
        return _stats(files, measured, found, settings)

    return describe


def _leaves(snapshot: Snapshot, settings: StatsSettings) -> Iterator[_Leaf]:
    definition = snapshot.definition
    partitions = tuple(definition.partition_names.values())
    logical = dict(
        zip(
            (path for path, _ in leaves(definition.physical_schema)),
            (path for path, _ in leaves(snapshot.schema)),
            strict=True,
        )
    )
    for path, data_type in described_leaves(definition.physical_schema, partitions, settings):
        names = logical[path]
        field = find_field(snapshot.schema, names[0])
        # Bounds compare the stored strings by their bytes.
        is_plain = _COLLATIONS not in field.metadata and char_lengths(field) is None
        column = reduce(Column.getField, names[1:], named_column(names[0]))
        yield _Leaf(path, data_type, column, has_bounds(data_type) and is_plain)


def _aggregates(measured: Sequence[_Leaf]) -> Iterator[Column]:
    for number, leaf in enumerate(measured):
        yield sf.count_if(leaf.column.isNull()).alias(f"nulls {number}")
        if leaf.has_bounds:
            yield sf.min(leaf.column).alias(f"min {number}")
            yield sf.max(leaf.column).alias(f"max {number}")


def _stats(
    files: Sequence[AddFile], measured: Sequence[_Leaf], found: pa.Table, settings: StatsSettings
) -> list[str | None]:
    """Statistics of each file; None for a file without live rows."""
    columns = {name: _raw(found.column(name)) for name in found.column_names}
    made: list[str | None] = [None] * len(files)
    for row, number in enumerate(columns["number"]):
        vector = files[number].deletion_vector
        bounds = {
            leaf.path: Bounds(
                leaf.data_type,
                columns[f"min {i}"][row] if leaf.has_bounds else None,
                columns[f"max {i}"][row] if leaf.has_bounds else None,
                columns[f"nulls {i}"][row],
            )
            for i, leaf in enumerate(measured)
        }
        num_records = columns[_ROWS][row] + (vector.cardinality if vector else 0)
        made[number] = stats_from_bounds(num_records, bounds, settings.string_prefix_length)
    return made


def _raw(values: pa.ChunkedArray) -> list[Any]:
    """Values as footers store them: days, microseconds, and strings as bytes."""
    if pa.types.is_date(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
    elif pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        values = values.cast(pa.large_binary())
    return list(values.to_pylist())

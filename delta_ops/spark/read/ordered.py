"""Ordered rows: a DataFrame whose partitions follow each other in the order of columns.

Files that overlap, directly or through others, are a chain. All rows of a chain are at or below all
rows of the next chain. Each chain is sorted in one partition, so there is no shuffle and no sort of
the whole table. A file without a bound overlaps all files on that side. Floating-point columns have
no upper bound: NaN is the greatest value, and statistics skip it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_values import array_of, numpy_of
from delta_ops.protocol.columns.mapping import physical_name
from delta_ops.protocol.schema import TIMESTAMP, StructField
from delta_ops.protocol.schema.char_types import char_length
from delta_ops.protocol.stats.file_domains import (
    LeafTypes,
    domains_at_once,
    domains_one_by_one,
    sort_keys,
)
from delta_ops.protocol.values.partition_values import parse
from delta_ops.spark.expressions.columns import named_column
from delta_ops.spark.versions import is_connect

Ints = npt.NDArray[np.int64]

_MOST_PARTITIONS = 128
"""Each partition is a scan of its own in Spark's plan."""


def ordered_rows(
    spark: SparkSession,
    files: Iterable[AddFile],
    order: Sequence[StructField],
    read: Callable[[Sequence[AddFile]], DataFrame],
) -> DataFrame:
    """Return the rows of files in order: ascending, nulls first, NaN last.

    Args:
        files: With statistics.
        order: The columns, at least one.
        read: Returns the rows of files, with these columns.
    """
    keys = [named_column(each.name).asc_nulls_first() for each in order]
    parts = join_chains(chains_of(list(files), order), _MOST_PARTITIONS)
    frames = [read(part).coalesce(1).sortWithinPartitions(*keys) for part in parts]
    if len(frames) < 2:
        return frames[0] if frames else read([])
    if not is_connect(spark):
        # From Spark 4.1 on, a union of frames with one partition each has one partition. A frame
        # without partitions prevents that.
        empty = spark.createDataFrame(spark.sparkContext.emptyRDD(), frames[0].schema)
        frames.insert(0, empty)
    return reduce(DataFrame.unionAll, frames)


def chains_of(files: Sequence[AddFile], order: Sequence[StructField]) -> list[list[AddFile]]:
    """Split files into chains, in the order of their rows: ascending, nulls first, NaN last.

    Args:
        order: The columns, at least one.
    """
    if not files:
        return []
    ranks = np.stack([_ranks_of(files, field) for field in order], axis=1)
    _, places = np.unique(ranks, axis=0, return_inverse=True)
    lows, highs = np.split(places.reshape(-1), 2)
    by_low = np.lexsort((highs, lows))
    reached = np.maximum.accumulate(highs[by_low])
    # A chain may begin with the last row of the one before: rows that are equal have any order.
    begins = np.flatnonzero(lows[by_low][1:] >= reached[:-1]) + 1
    return [[files[each] for each in chain] for chain in np.split(by_low, begins)]


def join_chains(chains: Sequence[list[AddFile]], most: int) -> list[list[AddFile]]:
    """Join neighbouring chains into at most so many parts of similar size."""
    if len(chains) <= most:
        return list(chains)
    ends = np.cumsum([sum(add.size for add in chain) for chain in chains])
    parts: list[list[AddFile]] = [[] for _ in range(most)]
    for chain, end in zip(chains, ends.tolist(), strict=True):
        parts[max(end - 1, 0) * most // max(int(ends[-1]), 1)] += chain
    return [part for part in parts if part]


def _ranks_of(files: Sequence[AddFile], field: StructField) -> Ints:
    """The ranks of the lowest value of each file, then those of the highest values."""
    low, high, has_values = _bounds_of(files, field)
    both = pa.concat_arrays([low, high])
    codes: Ints = numpy_of(pc.rank(both, "ascending", tiebreaker="dense")).astype(np.int64)
    is_missing = numpy_of(both.is_null())
    codes[is_missing] = codes.max(initial=0) + 1
    lows, highs = np.split(codes, 2)
    lows[is_missing[: len(lows)]] = 0
    highs[~numpy_of(has_values)] = 0  # null is the only value
    return np.concatenate([lows, np.maximum(lows, highs)])


def _bounds_of(
    files: Sequence[AddFile], field: StructField
) -> tuple[pa.Array, pa.Array, pa.BooleanArray]:
    """The lowest and the highest value of each file, null if unknown; and whether it has values."""
    name = physical_name(field)
    if name in files[0].partition_values:
        values = [parse(add.partition_values[name], field.data_type) for add in files]
        keys = sort_keys(values, field.data_type)
        unknown = pa.nulls(len(keys), keys.type)
        # A time without a zone depends on the request.
        known = unknown if field.data_type == TIMESTAMP else keys
        return known, known, keys.is_valid()
    types: LeafTypes = {(name,): field.data_type}
    stats = array_of([add.stats for add in files], pa.string())
    domain = (domains_at_once(stats, types) or domains_one_by_one(stats, types))[(name,)]
    low = pc.if_else(domain.has_nulls, pa.NULL, domain.low)
    unknown = pa.nulls(len(low), low.type)
    if char_length((field.name,), field) is not None:  # padding may change the order
        return unknown, unknown, domain.has_values
    return low, unknown if domain.hides_nan else domain.high, domain.has_values

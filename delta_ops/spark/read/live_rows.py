"""Live rows: filters rows by deletion vectors.

Source: PROTOCOL.md, "Deletion Vectors".

Spark adds to each row its number in the file, and the scan adds the number of the file. There are
two ways to look up a row in the vector of its file:

1. The filter, a condition in the code that Spark generates for its stage. The vectors are broadcast
   as roaring bitmaps. A task expands one block of one vector to bits at a time. This needs no join.
   The class (`java/delta_ops/vectors`) reaches executors as a jar, and depends on Spark internals.
2. A join through the public API, if these differ, or the session has no local JVM. The vectors
   become a table of bits that is broadcast. It has one row for each block of rows that contains a
   deleted row, so it costs 4 KB per block on each executor, however many rows are deleted. A row
   without a matching block is live.

Neither needs a Python worker or a shuffle.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Literal

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from delta_ops.protocol.deletion_vectors import BLOCK_BITS, blocks_of
from delta_ops.protocol.schema import LONG, StructField
from delta_ops.spark.compiled import OBSTACLES, first_line, instance_on_executors
from delta_ops.spark.expressions.columns import named_column
from delta_ops.spark.read.file_index import ROW, ROW_NUMBER
from delta_ops.spark.versions import frame_of_arrow

FILE = StructField("delta_ops file", LONG)
"""The number of the file of each row; the space keeps the name distinct from table columns."""
_BLOCK, _WORDS = "delta_ops block", "delta_ops words"
_FILE_BITS = 40
"""The number of a block within its file is below 2 to this power."""
_WORD_BITS = 64


def keep_live(rows: DataFrame, vectors: Sequence[BitMap64]) -> DataFrame:
    """Keep the rows that are not in any vector.

    Args:
        rows: A scan with the columns `FILE` and `ROW`; other columns are allowed.
        vectors: The deleted rows of each file, in the order of the file numbers.
    """
    try:
        return rows.filter(~_is_row_named(rows, vectors))
    except FilterUnavailableError:
        joined, bit = _join_bits(rows, vectors, "left")
        return joined.filter(bit.isNull() | (bit == 0))


def mark_named(
    rows: DataFrame, vectors: Sequence[BitMap64], file: StructField, mark: str
) -> DataFrame:
    """Add a column that is true for the rows that are in a vector.

    Args:
        rows: Rows with the columns `file` and `ROW_NUMBER`.
        vectors: Rows of each file, in the order of the file numbers.
        file: The column with the file numbers.
        mark: Name of the new column.
    """
    try:
        named = is_named(
            rows.sparkSession, vectors, named_column(file.name), named_column(ROW_NUMBER)
        )
        return rows.withColumn(mark, named)
    except FilterUnavailableError:
        joined, bit = _join_bits(rows, vectors, "left", file, ROW_NUMBER)
        return joined.withColumn(mark, sf.coalesce(bit == 1, sf.lit(False))).drop(_BLOCK, _WORDS)


def keep_named(rows: DataFrame, vectors: Sequence[BitMap64]) -> DataFrame:
    """Keep only the rows that are in a vector; arguments as for `keep_live`."""
    try:
        return rows.filter(_is_row_named(rows, vectors))
    except FilterUnavailableError:
        joined, bit = _join_bits(rows, vectors, "inner")
        return joined.filter(bit == 1)


def _is_row_named(rows: DataFrame, vectors: Sequence[BitMap64]) -> Column:
    file, row = named_column(FILE.name), named_column(ROW)
    return is_named(rows.sparkSession, vectors, file, row)


def _join_bits(
    rows: DataFrame,
    vectors: Sequence[BitMap64],
    how: Literal["left", "inner"],
    file: StructField = FILE,
    number: str = ROW,
) -> tuple[DataFrame, Column]:
    """Join the bit words of each row's block.

    Returns:
        The joined rows, and the bit of each row.
    """
    row = named_column(number)
    block = sf.shiftleft(named_column(file.name), _FILE_BITS) + sf.shiftright(row, BLOCK_BITS)
    named = frame_of_arrow(rows.sparkSession, _named_blocks(vectors))
    joined = rows.withColumn(_BLOCK, block).join(sf.broadcast(named), _BLOCK, how)
    place = row.bitwiseAND(sf.lit((1 << BLOCK_BITS) - 1)).cast("int")
    word = sf.get(named_column(_WORDS), sf.shiftright(place, 6))
    return joined, sf.getbit(word, place.bitwiseAND(sf.lit(_WORD_BITS - 1)))


def _named_blocks(vectors: Sequence[BitMap64]) -> pa.Table:
    schema = pa.schema({_BLOCK: pa.int64(), _WORDS: pa.list_(pa.int64())})
    batches = []
    for file, vector in enumerate(vectors):
        numbers, words = blocks_of(vector)
        if not len(numbers):
            continue  # PySpark ignores all batches after an empty one
        keys = pa.array([(file << _FILE_BITS) + number for number in numbers.to_pylist()])
        batches.append(pa.record_batch([keys.cast(pa.int64()), words], schema))
    return pa.Table.from_batches(batches or [pa.RecordBatch.from_pylist([], schema)])


_FILTERS = "delta_ops.vectors.VectorFilters"


class FilterUnavailableError(Exception):
    """This session or Spark version does not support the filter."""


def is_named(spark: SparkSession, vectors: Sequence[BitMap64], file: Column, row: Column) -> Column:
    """Whether the deletion vector of the row's file contains the row.

    Args:
        spark: A classic session.
        vectors: Row numbers for each file. The file number is the position, from 0.
        file: The number of the file, a long.
        row: The number of the row in the file, a long.

    Raises:
        FilterUnavailableError: This session or Spark version does not support the filter.
    """
    serialized = (vector.serialize() for vector in vectors)
    sent = b"".join(struct.pack("<i", len(each)) + each for each in serialized)
    try:
        context: Any = spark.sparkContext
        filters = instance_on_executors(spark, _FILTERS)
        return Column(filters.isNamed(context._jsc, bytearray(sent), file._jc, row._jc))
    except (*OBSTACLES, struct.error) as error:
        raise FilterUnavailableError(first_line(error)) from error

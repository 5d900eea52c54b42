"""Live rows: rows of files without those that deletion vectors name.

Source: PROTOCOL.md, "Deletion Vectors".

Spark tells of each row its number in the file, and the scan by a column of its own which file it
is. The vectors come as a table of bits, one row for each block of rows in which any is deleted,
that is broadcast and joined: it costs 4 KB a block on each executor, whatever the number of rows,
and neither a Python worker nor a shuffle. A row whose block is not there is live.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from delta_ops.protocol.deletion_vectors import BLOCK_BITS, blocks_of
from delta_ops.protocol.schema import LONG, StructField
from delta_ops.spark.expressions import named_column

FILE = StructField("delta_ops file", LONG)
"""The number of the file, in each of its rows; no table's name, for the space."""
_ROW, _BLOCK, _WORDS = "delta_ops row", "delta_ops block", "delta_ops words"
_FILE_BITS = 40
"""Blocks of a file have numbers below 2 to the power of this."""
_WORD_BITS = 64


def keep_live(rows: DataFrame, vectors: Sequence[BitMap64]) -> DataFrame:
    """The rows that no vector names, without the column `FILE`.

    Args:
        rows: A scan, with the column `FILE`.
        vectors: The deleted rows of each file, in the order of the files' numbers.
    """
    numbered = rows.withColumn(_ROW, rows.metadataColumn("_metadata").getField("row_index"))
    row, words = named_column(_ROW), named_column(_WORDS)
    block = sf.shiftleft(named_column(FILE.name), _FILE_BITS) + sf.shiftright(row, BLOCK_BITS)
    deleted = rows.sparkSession.createDataFrame(_deleted_blocks(vectors))
    joined = numbered.withColumn(_BLOCK, block).join(sf.broadcast(deleted), _BLOCK, "left")
    place = row.bitwiseAND(sf.lit((1 << BLOCK_BITS) - 1)).cast("int")
    word = sf.get(words, sf.shiftright(place, 6))
    is_live = words.isNull() | (sf.getbit(word, place.bitwiseAND(sf.lit(_WORD_BITS - 1))) == 0)
    return joined.filter(is_live).drop(FILE.name, _ROW, _BLOCK, _WORDS)


def _deleted_blocks(vectors: Sequence[BitMap64]) -> pa.Table:
    schema = pa.schema({_BLOCK: pa.int64(), _WORDS: pa.list_(pa.int64())})
    batches = []
    for file, vector in enumerate(vectors):
        numbers, words = blocks_of(vector)
        keys = pa.array([(file << _FILE_BITS) + number for number in numbers.to_pylist()])
        batches.append(pa.record_batch([keys.cast(pa.int64()), words], schema))
    return pa.Table.from_batches(batches, schema)

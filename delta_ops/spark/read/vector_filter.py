"""The vector filter: whether a deletion vector names a row, as a condition of Spark's own code.

Source: PROTOCOL.md, "Deletion Vectors".

Vectors are broadcast as the roaring bitmaps that they are. A task spreads one block of one of them
out as bits at a time, and looks up there each row that it reads, in the code that Spark compiles
for its stage: no join, no Python worker, no shuffle. The class (`java/delta_ops/vectors`) reaches
executors as a jar. It depends on internals of Spark. Where they differ, or there is no JVM at hand,
the caller joins the vectors by the public API.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from pyroaring import BitMap64
from pyspark.sql import Column, SparkSession

from delta_ops.spark.compiled import OBSTACLES, first_line, instance_on_executors

_CLASS = "delta_ops.vectors.VectorFilters"


class FilterUnavailableError(Exception):
    """This session, or this version of Spark, cannot use the filter."""


def is_named(spark: SparkSession, vectors: Sequence[BitMap64], file: Column, row: Column) -> Column:
    """Whether the vector of a row's file names the row.

    Args:
        spark: A classic session.
        vectors: Row numbers, by the numbers of the files, from 0.
        file: The number of the file, a long.
        row: The number of the row in it, a long.

    Raises:
        FilterUnavailableError: It cannot be had here.
    """
    serialized = (vector.serialize() for vector in vectors)
    sent = b"".join(struct.pack("<i", len(each)) + each for each in serialized)
    try:
        context: Any = spark.sparkContext
        filters = instance_on_executors(spark, _CLASS)
        return Column(filters.isNamed(context._jsc, bytearray(sent), file._jc, row._jc))
    except (*OBSTACLES, struct.error) as error:
        raise FilterUnavailableError(first_line(error)) from error

"""The vector filter: a Spark condition that checks whether a deletion vector contains a row.

Source: PROTOCOL.md, "Deletion Vectors".

The vectors are broadcast as roaring bitmaps. A task expands one block of one vector to bits at a
time, and looks up each row there in the code that Spark generates for its stage. This needs no
join, Python worker or shuffle. The class (`java/delta_ops/vectors`) reaches executors as a jar. It
depends on Spark internals. If these differ, or the session has no local JVM, the caller joins the
vectors through the public API.
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
        filters = instance_on_executors(spark, _CLASS)
        return Column(filters.isNamed(context._jsc, bytearray(sent), file._jc, row._jc))
    except (*OBSTACLES, struct.error) as error:
        raise FilterUnavailableError(first_line(error)) from error

"""The vector filter: whether a deletion vector names a row, as a condition of Spark's own code.

Source: PROTOCOL.md, "Deletion Vectors".

Vectors are broadcast as the roaring bitmaps that they are. A task spreads one block of one of them
out as bits at a time, and looks up there each row that it reads, in the code that Spark compiles
for its stage: no join, no Python worker, no shuffle. The class is compiled in the driver
(`compiled`) and reaches executors as a jar. It depends on internals of Spark. Where they differ, or
there is no JVM at hand, the caller joins the vectors by the public API.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from pyroaring import BitMap64
from pyspark.sql import Column, SparkSession

from delta_ops.spark.compiled import OBSTACLES, first_line, instance_on_executors

_CLASS = "delta_ops.VectorFilters"
_SOURCE = """
package delta_ops;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import org.roaringbitmap.PeekableIntIterator;
import org.roaringbitmap.RoaringBitmap;
import scala.collection.JavaConverters;

public class VectorFilters {
  public Column names(JavaSparkContext context, byte[] sent, Column file, Column row) {
    List vectors = new ArrayList();
    ByteBuffer rest = ByteBuffer.wrap(sent).order(ByteOrder.LITTLE_ENDIAN);
    while (rest.hasRemaining()) {
      byte[] vector = new byte[rest.getInt()];
      rest.get(vector);
      vectors.add(vector);
    }
    Vectors all = new Vectors(context.broadcast(vectors.toArray(new byte[0][])));
    List arguments = new ArrayList();
    arguments.add(ExpressionUtils.expression(file));
    arguments.add(ExpressionUtils.expression(row));
    return ExpressionUtils.column(
        new Invoke(
            Literal.fromObject(all, new ObjectType(Vectors.class)),
            "name",
            DataTypes.BooleanType,
            JavaConverters.asScalaBuffer(arguments).toSeq(),
            JavaConverters.asScalaBuffer(new ArrayList()).toSeq(),
            true,
            false,
            true));
  }
}

public class Vectors implements Serializable {
  private static final long serialVersionUID = 1L;
  private final Broadcast vectors;
  private transient VectorBlock block;

  Vectors(Broadcast vectors) { this.vectors = vectors; }

  public boolean name(long file, long row) throws IOException {
    VectorBlock known = block;
    if (known == null || known.file != file || known.number != row >>> 16) {
      Map bitmaps =
          known != null && known.file == file
              ? known.bitmaps
              : decode(((byte[][]) vectors.value())[(int) file]);
      known = new VectorBlock(file, row >>> 16, bitmaps);
      block = known;
    }
    return (known.words[(int) (row >>> 6) & 1023] >>> row & 1L) != 0;
  }

  private static Map decode(byte[] vector) throws IOException {
    DataInputStream rest = new DataInputStream(new ByteArrayInputStream(vector));
    Map bitmaps = new HashMap();
    for (long left = Long.reverseBytes(rest.readLong()); left > 0; left--) {
      Integer key = Integer.valueOf(Integer.reverseBytes(rest.readInt()));
      RoaringBitmap bitmap = new RoaringBitmap();
      bitmap.deserialize(rest);
      bitmaps.put(key, bitmap);
    }
    return bitmaps;
  }

  public String toString() { return "deletion vectors"; }
}

class VectorBlock {
  final long file;
  final long number;
  final Map bitmaps;
  final long[] words = new long[1024];

  VectorBlock(long file, long number, Map bitmaps) {
    this.file = file;
    this.number = number;
    this.bitmaps = bitmaps;
    RoaringBitmap bitmap = (RoaringBitmap) bitmaps.get(Integer.valueOf((int) (number >>> 16)));
    if (bitmap == null) return;
    int high = (int) (number & 65535) << 16;
    PeekableIntIterator rows = bitmap.getIntIterator();
    rows.advanceIfNeeded(high);
    while (rows.hasNext()) {
      int row = rows.next();
      if ((row & -65536) != high) return;
      words[row >>> 6 & 1023] |= 1L << row;
    }
  }
}
"""


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
        filters = instance_on_executors(spark, _CLASS, _SOURCE)
        return Column(filters.names(context._jsc, bytearray(sent), file._jc, row._jc))
    except (*OBSTACLES, struct.error) as error:
        raise FilterUnavailableError(first_line(error)) from error

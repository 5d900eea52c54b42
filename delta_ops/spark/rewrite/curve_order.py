"""Curve order: Spark sorts rows along a curve, into partitions that become one file each.

The driver ranks values from a sample. Java code (`java/delta_ops/curves`) in Spark's generated code
computes the position of each row on the curve. One shuffle then brings the rows of each file
together. If too many rows share one position, a hash of the rows splits them over several files.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from delta_ops.arrow.rewrite.axis_ranks import bounds_and_ranks
from delta_ops.arrow.rewrite.curve import Places, axis_bits, best_cut, places
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    ArrayType,
    ColumnPath,
    DataType,
    DecimalType,
    MapType,
    StructType,
    leaves,
)
from delta_ops.spark.compiled import OBSTACLES, first_line, instance_on_executors
from delta_ops.spark.expressions.columns import matches, named_column
from delta_ops.spark.session import jobs
from delta_ops.spark.versions import repartition_by_id
from delta_ops.transaction.rewrite_group import CurveOrder

_SAMPLE_ROWS = 1 << 17
_TEXT_BYTES = 256
"""Only this many bytes of a string are ranked."""
_CUT_SLACK = 0.25
"""Allowed distance of a cut from its ideal position, as a fraction of the file size."""
_MANY_FILES = 2
"""A position is split if its rows fill this many files."""
_PLACE, _FILE = "delta_ops place", "delta_ops file"
_CLASS = "delta_ops.curves.CurveOrders"


class CurveUnavailableError(Exception):
    """This session or Spark version cannot compute positions on a curve."""


class _Axis(NamedTuple):
    """Ranking of the values of one column; see `arrow.rewrite.axis_ranks`."""

    kind: str
    """The Java method that ranks a value."""
    bounds: list[bytes] | npt.NDArray[Any]
    """Values of the sample, ascending, without duplicates."""
    ranks: npt.NDArray[np.int32]
    """Rank of values below the first bound, then rank from each bound on."""

    @property
    def sent_bounds(self) -> bytes:
        """The bounds, serialized for the Java class."""
        if isinstance(self.bounds, list):
            return b"".join(struct.pack("<i", len(each)) + each for each in self.bounds)
        return self.bounds.tobytes()


def sort_along(
    rows: DataFrame,
    order: CurveOrder,
    schema: StructType,
    num_rows: int,
    num_files: int,
    separate: Predicate | None = None,
) -> DataFrame:
    """Sort rows into about `num_files` partitions along a curve.

    Args:
        rows: Read twice: first a sample of the ordering columns.
        order: The columns and the curve.
        schema: The columns of the rows.
        num_rows: Approximate number of rows.
        num_files: Target number of files.
        separate: As for `RewriteGroup`.

    Raises:
        CurveUnavailableError: The session cannot compute positions. No rows were read.
    """
    spark, types = rows.sparkSession, dict(leaves(schema))
    try:
        curves = instance_on_executors(spark, _CLASS)
    except OBSTACLES as error:
        raise CurveUnavailableError(first_line(error)) from error
    keys = [_key_of(path, types[path]) for path in order.columns]
    sample = _sample(rows, keys, num_rows)
    bits = axis_bits(len(keys))
    axes = [_axis_of(sample.column(number), bits) for number in range(len(keys))]
    ranks = [
        sf.coalesce(_rank(curves, axis, key), sf.lit(0))
        for axis, key in zip(axes, keys, strict=True)
    ]
    place = Column(curves.place(order.curve == "hilbert", bits, sf.array(*ranks)._jc))
    known = np.sort(_known_places(sample, axes, order))
    cuts, parts = _cut(known, num_files, len(axes))
    file, num_partitions = _file_of(curves, cuts, parts, schema)
    if separate is not None:
        file = file * 2 + matches(separate, schema).cast("int")
        num_partitions *= 2
    placed = rows.withColumn(_PLACE, place).withColumn(_FILE, file)
    together = repartition_by_id(placed, num_partitions, named_column(_FILE))
    # With one column, sort by its values.
    plain = _value_of(order.columns[0]).asc_nulls_first()
    by = plain if len(keys) == 1 else named_column(_PLACE)
    return together.sortWithinPartitions(by).drop(_PLACE, _FILE)


def _key_of(path: ColumnPath, data_type: DataType) -> Column:
    """Convert a column to the value that is ranked."""
    value = _value_of(path)
    match data_type:
        case t if t in (FLOAT, DOUBLE) or isinstance(t, DecimalType):
            return value.cast("double")
        case t if t in (STRING, BINARY):
            return sf.substring(value.cast("binary"), 1, _TEXT_BYTES)
        case t if t == DATE:
            return sf.unix_date(value).cast("long")
        case t if t in (TIMESTAMP, TIMESTAMP_NTZ):
            return sf.unix_micros(value.cast("timestamp"))
        case t if t == BOOLEAN:
            return value.cast("int").cast("long")
    return value.cast("long")


def _value_of(path: ColumnPath) -> Column:
    return reduce(lambda parent, name: parent.getField(name), path[1:], named_column(path[0]))


def _sample(rows: DataFrame, keys: Sequence[Column], num_rows: int) -> pa.RecordBatch:
    columns = [key.alias(f"key{number}") for number, key in enumerate(keys)]
    wanted = rows.select(*columns)
    if num_rows > _SAMPLE_ROWS:
        wanted = wanted.sample(min(1.0, 1.1 * _SAMPLE_ROWS / num_rows), 0)
    (taken,) = jobs.load(wanted).combine_chunks().to_batches() or [None]
    if taken is not None:
        return taken
    return pa.RecordBatch.from_pydict({f"key{i}": pa.nulls(0) for i in range(len(keys))})


def _axis_of(sample: pa.Array, bits: int) -> _Axis:
    values = sample.drop_null()
    is_text = pt.is_binary(sample.type) or pt.is_large_binary(sample.type)
    if is_text:
        ordered = np.array(sorted(values.to_pylist()), dtype=object)
    else:
        kind = np.float64 if pt.is_floating(sample.type) else np.int64
        ordered = np.sort(values.to_numpy(zero_copy_only=False).astype(kind))
    bounds, found = bounds_and_ranks(ordered, bits)
    ranks = found.astype(np.int32)
    if is_text:
        return _Axis("ofText", [bytes(each) for each in bounds], ranks)
    if bounds.dtype == np.float64:
        return _Axis("ofDouble", bounds + 0.0, ranks)
    return _Axis("ofNumber", bounds, ranks)


def _rank(curves: Any, axis: _Axis, value: Column) -> Column:
    sent = bytearray(axis.sent_bounds), bytearray(axis.ranks.tobytes())
    return Column(curves.rank(axis.kind, *sent, value._jc))


def _known_places(sample: pa.RecordBatch, axes: Sequence[_Axis], order: CurveOrder) -> Places:
    ranks = []
    for axis, column in zip(axes, sample.columns, strict=True):
        if isinstance(axis.bounds, list):
            bounds = np.array(axis.bounds, dtype=object)
            values = np.array(pc.fill_null(column, b"").to_pylist(), dtype=object)
        else:
            bounds = axis.bounds
            filled = column.fill_null(0) if column.null_count else column
            values = filled.to_numpy(zero_copy_only=False)
        found = axis.ranks[np.searchsorted(bounds, values, "right")].astype(np.uint32)
        found[column.is_null().to_numpy(zero_copy_only=False)] = 0
        ranks.append(found)
    return places(ranks, order.curve)


def _cut(known: Places, num_files: int, num_axes: int) -> tuple[Places, list[int]]:
    """Choose the first position of each partition except the first, and its number of files."""
    if not len(known):
        return known, [1]
    size = len(known) / num_files
    wanted = (
        best_cut(known, round(size * number), int(size * _CUT_SLACK), num_axes)
        for number in range(1, num_files)
    )
    cuts = np.unique(known[[cut for cut in wanted if 0 < cut < len(known)]])
    ends = [*np.searchsorted(known, cuts).tolist(), len(known)]
    counts = np.diff([0, *ends])
    files = [round(float(count) / size) for count in counts]
    return cuts, [each if each >= _MANY_FILES else 1 for each in files]


def _file_of(
    curves: Any, cuts: Places, parts: Sequence[int], schema: StructType
) -> tuple[Column, int]:
    """The file number of each row, and the number of files."""
    signed = (cuts ^ np.uint64(1 << 63)).view(np.int64)
    firsts = np.append([0], np.cumsum(parts)).astype(np.int32)
    starts = _Axis("ofNumber", signed, firsts[: len(parts)])
    first = _rank(curves, starts, named_column(_PLACE))
    if max(parts) == 1:
        return first, int(firsts[-1])
    number_of_parts = _Axis("ofNumber", signed, np.array(parts, np.int32))
    hashed = [named_column(each.name) for each in schema.fields if _has_hash(each.data_type)]
    part = sf.pmod(sf.xxhash64(*hashed), _rank(curves, number_of_parts, named_column(_PLACE)))
    return (first + part).cast("int"), int(firsts[-1])


def _has_hash(data_type: DataType) -> bool:
    match data_type:
        case StructType(fields):
            return all(_has_hash(field.data_type) for field in fields)
        case ArrayType():
            return _has_hash(data_type.element_type)
    return data_type != VARIANT and not isinstance(data_type, MapType)

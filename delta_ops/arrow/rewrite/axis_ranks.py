"""Axis ranks: rank the values of a column against a sample, as integers.

Equal shares of the rows get equal shares of the ranks, even if the values are skewed. Null ranks
before all values and NaN after them; -0.0 equals 0.0. Numbers are ranked by value, and decimals as
doubles. Strings are ranked by their first bytes after the common prefix of the sample. Different
values may therefore have the same rank, but ranks never contradict the order of the values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delta_ops.arrow.rewrite.curve import Ranks
from delta_ops.protocol.arrow_values import numpy_of, scalar

_TEXT_BYTES = 32
"""The number of bytes of a string that statistics keep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """How to rank the values of one column."""

    numbers: Callable[[pa.Array], npt.NDArray[Any]]
    """Converts values of the column to comparable numbers or bytes; the result for null is
    undefined."""
    bounds: npt.NDArray[Any]
    """Distinct values of the sample, ascending."""
    ranks: Ranks
    """The rank of values below the first bound, then the rank of values from each bound on."""

    def rank(self, column: pa.Array) -> Ranks:
        """Return the rank of each value."""
        if _is_text(column.type):
            encoded = column.dictionary_encode()
            of_distinct = self._rank(encoded.dictionary)
            null = scalar(len(of_distinct), pa.int32())
            places = numpy_of(pc.fill_null(encoded.indices, null))
            of_text: Ranks = np.append(of_distinct, np.uint32(0))[places]
            return of_text
        return self._rank(column)

    def _rank(self, column: pa.Array) -> Ranks:
        found = self.ranks[np.searchsorted(self.bounds, self.numbers(column), "right")]
        if column.null_count:
            found[numpy_of(column.is_null())] = 0
        return found


def axis_of_sample(sample: pa.Array, bits: int) -> Axis:
    """Build a column's axis from some of its values."""
    numbers = _text_numbers(sample) if _is_text(sample.type) else _numbers
    bounds, ranks = bounds_and_ranks(np.sort(numbers(sample.drop_null())), bits)
    return Axis(numbers=numbers, bounds=bounds, ranks=ranks)


def bounds_and_ranks(ordered: npt.NDArray[Any], bits: int) -> tuple[npt.NDArray[Any], Ranks]:
    """Return the bounds and ranks of an `Axis`.

    Args:
        ordered: Values of a sample, ascending.
        bits: Number of bits of a rank.
    """
    most = (1 << bits) - 1
    if len(ordered) > most - 1:
        ordered = ordered[np.linspace(0, len(ordered) - 1, most - 1).astype(np.int64)]
    bounds, firsts = np.unique(ordered, return_index=True)
    # Rank 0 is for null, rank 1 for values below the sample.
    shares = 2 + firsts * (most - 2) // max(len(ordered), 1)
    return bounds, np.append([1], shares).astype(np.uint32)


def field_of(rows: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array:
    """Return a column or struct field; null where a parent struct is null."""
    column = rows.column(rows.schema.get_field_index(path[0]))
    return pc.struct_field(column, list(path[1:])) if path[1:] else column


def _is_text(data_type: pa.DataType) -> bool:
    return bool(pt.is_string(data_type) or pt.is_binary(data_type))


def _numbers(values: pa.Array) -> npt.NDArray[Any]:
    kind = values.type
    if pt.is_decimal(kind):
        values = values.cast(pa.float64())
    elif pt.is_boolean(kind):
        values = values.cast(pa.int8())
    elif pt.is_date32(kind):
        values = values.view(pa.int32())
    elif pt.is_timestamp(kind):
        values = values.view(pa.int64())
    if values.null_count:
        values = pc.fill_null(values, scalar(0).cast(values.type))
    found: npt.NDArray[Any] = numpy_of(values)
    return found


def _text_numbers(sample: pa.Array) -> Callable[[pa.Array], npt.NDArray[Any]]:
    """Plan how to convert strings for numpy: bytes of one length, without the common prefix."""
    known = sample.drop_null().cast(pa.binary())
    skipped = 0
    if len(known):
        ends = pc.min_max(known)
        least, most = ends["min"].as_py(), ends["max"].as_py()
        while skipped < min(len(least), len(most)) and least[skipped] == most[skipped]:
            skipped += 1
        prefix = least[:skipped]
    width = max(1, min(_TEXT_BYTES, _longest(known) - skipped))

    def numbers(values: pa.Array) -> npt.NDArray[Any]:
        values = pc.fill_null(values.cast(pa.binary()), scalar(b""))
        found = _pad(values, skipped, width)
        if skipped:
            heads = pc.binary_slice(values, 0, skipped)
            # Strings with another prefix are outside of the sample, below or above it.
            usual = scalar(prefix)
            found[numpy_of(pc.less(heads, usual))] = b""
            found[numpy_of(pc.greater(heads, usual))] = b"\xff" * width
        return found

    return numbers


def _longest(values: pa.Array) -> int:
    return pc.max(pc.binary_length(values)).as_py() or 0 if len(values) else 0


def _pad(values: pa.Array, skipped: int, width: int) -> npt.NDArray[Any]:
    """Return the bytes of each value from a position on, padded with zeros."""
    offsets = np.frombuffer(values.buffers()[1], np.int32)
    offsets = offsets[values.offset : values.offset + len(values) + 1]
    buffer = values.buffers()[2]
    data = np.frombuffer(buffer, np.uint8) if buffer is not None and buffer.size else _NO_BYTES
    places = offsets[:-1, None].astype(np.int64) + np.arange(skipped, skipped + width)
    found = np.where(places < offsets[1:, None], data[np.minimum(places, len(data) - 1)], 0)
    padded: npt.NDArray[Any] = found.astype(np.uint8).view(f"S{width}").reshape(len(values))
    return padded


_NO_BYTES = np.zeros(1, np.uint8)

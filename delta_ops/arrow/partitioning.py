"""Partitioning: split the rows of a table by partition.

Source: PROTOCOL.md, "Partition Value Serialization".

Rows are in one partition if their serialized values are equal: -0.0 and 0.0 are one partition, and
so are null and the empty string.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.arrow_values import scalar, text_array
from delta_ops.protocol.schema import INTEGER_RANGES, StructField, StructType, find_field
from delta_ops.protocol.values.partition_values import (
    HIVE_DEFAULT_PARTITION,
    serialize,
    stored_where_empty,
)

PartitionValues = dict[str, str | None]
_RESERVED = text_array([HIVE_DEFAULT_PARTITION])


def split(
    rows: pa.Table, schema: StructType, columns: Sequence[str], table: str
) -> Iterator[tuple[PartitionValues, pa.Table]]:
    """Yield each partition's serialized values and rows, in the order of first appearance.

    The rows come without the partition columns, since files do not have them.

    Raises:
        InvalidRequestError: A value cannot be written as a partition value.
    """
    if not columns or not len(rows):
        yield from [({}, rows)] if len(rows) else []
        return
    texts = [_serialize_column(rows[name], find_field(schema, name), table) for name in columns]
    numbers = _partition_numbers(texts)
    # Sort all rows once (stable), then slice. Taking the rows of each partition separately would
    # join the chunks of every column again and again.
    order = pc.sort_indices(numbers)
    counts = pc.value_counts(numbers.take(order)).field("counts")
    ends = pc.cumulative_sum(counts)
    starts = pc.subtract(ends, counts)
    first_rows = order.take(starts)
    values = zip(*[text.take(first_rows).to_pylist() for text in texts], strict=True)
    stored = rows.drop_columns(list(columns))
    ordered = stored.take(order) if len(counts) > 1 else stored
    for of_partition, start, count in zip(
        values, starts.to_pylist(), counts.to_pylist(), strict=True
    ):
        yield dict(zip(columns, of_partition, strict=True)), ordered.slice(start, count)


def validate_new_values(
    columns: Mapping[str, pa.Array], partition_columns: Sequence[str], table: str
) -> None:
    """Reject new partition values that other engines read differently.

    Rows of an existing partition with such a value can still be changed and deleted.

    Raises:
        InvalidRequestError: A value is NaN, or the string that means null in directory names.
    """
    for name in partition_columns:
        values = columns.get(name)
        if values is None:
            continue
        if pa.types.is_floating(values.type) and _holds_any(pc.is_nan(values)):
            raise InvalidRequestError(
                f"{table}: partition column {name!r} has the value NaN, and engines disagree on "
                "whether NaN equals itself; make it null, or leave the row out"
            )
        if _is_text(values.type) and _holds_any(pc.equal(values, _RESERVED.cast(values.type)[0])):
            raise InvalidRequestError(
                f"{table}: partition column {name!r} has the value {HIVE_DEFAULT_PARTITION}, "
                "which means null in directory names; make it null, or change it"
            )


def fill_empty(values: pa.Array, field: StructField) -> pa.Array:
    """Return new values of a partition column as readers see them: an empty string becomes null.

    An empty CHAR value becomes spaces, as in Spark.

    Source: PROTOCOL.md, "Partition Value Serialization".
    """
    stored = stored_where_empty(field)
    if stored == "":
        return values
    is_empty = empty_values(values)
    return pc.if_else(is_empty, stored, values) if _holds_any(is_empty) else values


def empty_values(values: pa.Array) -> pa.BooleanArray:
    """Return which strings or bytes are empty; null where the value is null."""
    return pc.invert(pc.binary_length(values).cast(pa.bool_()))


def _holds_any(are: pa.BooleanArray) -> bool:
    return bool(pc.any(are, min_count=0).as_py())


def _is_text(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(data_type) or pa.types.is_binary(data_type))


def _partition_numbers(texts: Sequence[pa.Array]) -> pa.Array:
    """Return the number of each row's partition, counted from 0 in order of appearance."""
    numbers = _numbers(texts[0])
    for text in texts[1:]:
        inner = _numbers(text)
        # Renumber after each column, so that the products stay small.
        factor = scalar(len(text), pa.int64())
        numbers = _numbers(pc.add_checked(pc.multiply_checked(numbers, factor), inner))
    return numbers


def _numbers(values: pa.Array) -> pa.Array:
    return values.dictionary_encode(null_encoding="encode").indices.cast(pa.int64())


def _serialize_column(column: pa.ChunkedArray, field: StructField, table: str) -> pa.Array:
    if pa.types.is_nested(column.type):
        raise InvalidRequestError(
            f"{table}: partition column {field.name!r} has the type {field.data_type.name}, which "
            "cannot partition a table. Create a table with other partition columns."
        )
    encoded = column.dictionary_encode().unify_dictionaries()
    distinct = encoded.chunk(0).dictionary
    texts = text_array(_texts(distinct, field, table))
    indices = pa.chunked_array([chunk.indices for chunk in encoded.chunks]).combine_chunks()
    return texts.take(indices)


def _texts(values: pa.Array, field: StructField, table: str) -> list[str | None]:
    texts: list[str | None]
    try:
        if field.data_type in INTEGER_RANGES and pa.types.is_integer(values.type):
            texts = values.cast(pa.string()).to_pylist()  # a third of the time
        else:
            texts = [serialize(each, field.data_type) for each in values.to_pylist()]
    except (OverflowError, ValueError, InvalidRequestError):
        return [_text(each, field, table) for each in values]  # finds the bad value
    if None in texts and not field.nullable:
        return [_text(each, field, table) for each in values]
    return texts


def _text(value: Any, field: StructField, table: str) -> str | None:
    place = f"{table}: partition column {field.name!r}"
    try:
        text = serialize(value.as_py(), field.data_type)
    except (OverflowError, ValueError) as error:
        raise InvalidRequestError(
            f"{place} has the value {value.cast(pa.string())}; partition values must be in the "
            "years 1 to 9999, so change the value or leave the row out"
        ) from error
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{place}: {error}") from error
    if text is None and not field.nullable:
        raise InvalidRequestError(
            f"{place} has an empty value, which the log stores as null, but the column is NOT "
            "NULL; change it or leave the row out"
        )
    return text

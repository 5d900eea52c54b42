"""Coded texts: columns that store each text once in a dictionary, and an index in each row.

A rewrite keeps texts coded from the file that is read to the file that is written. This saves
decoding the texts and looking each one up again. Only the code that writes files handles coded
texts: conditions and expressions are evaluated over plain texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

MAX_BYTES = 2**31 - 1
"""Maximum bytes of text in one array, which has 32-bit offsets."""


def is_coded(data_type: pa.DataType) -> bool:
    """Return whether the type is a column of coded texts."""
    return bool(pt.is_dictionary(data_type))


def decode(values: Any) -> Any:
    """Return plain texts; values that are not coded stay unchanged."""
    return values.dictionary_decode() if is_coded(values.type) else values


def decode_columns(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows with plain texts."""
    if not any(map(is_coded, rows.schema.types)):
        return rows
    return pa.RecordBatch.from_arrays(list(map(decode, rows.columns)), names=rows.schema.names)


def decoded_bytes(rows: pa.RecordBatch) -> int:
    """Return the approximate size of the rows with plain texts."""
    if not any(map(is_coded, rows.schema.types)):
        return int(rows.nbytes)
    return sum(map(_bytes_of, rows.columns))


def fit_in_array(values: Any) -> bool:
    """Return whether the decoded texts fit in one array."""
    longest = pc.max(pc.binary_length(values.dictionary)).as_py() or 0
    return longest * len(values) <= MAX_BYTES or _bytes_of(values) <= MAX_BYTES


def _bytes_of(values: Any) -> int:
    if not is_coded(values.type):
        return int(values.nbytes)
    lengths = pc.fill_null(pc.binary_length(values.dictionary), 0).to_numpy()
    numbers = values.indices.drop_null() if values.null_count else values.indices
    return int(lengths.take(numbers.to_numpy()).sum(dtype=np.int64)) + int(values.indices.nbytes)


def code_schema(schema: pa.Schema, types: Sequence[pa.DataType]) -> pa.Schema:
    """Return the schema with these types; they may differ from its own only in coded texts."""
    if not any(map(is_coded, types)):
        return schema
    pairs = zip(schema, types, strict=True)
    return pa.schema([each.with_type(own) if is_coded(own) else each for each, own in pairs])


def batch_of(schema: pa.Schema, columns: Sequence[pa.Array]) -> pa.RecordBatch:
    """Build a batch from these columns; texts may be coded."""
    coded = code_schema(schema, [each.type for each in columns])
    return pa.RecordBatch.from_arrays(list(columns), schema=coded)


def code_alike(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches whose columns are coded as in the first batch, which differ only in that."""
    first: pa.Schema | None = None
    for batch in batches:
        if first is None:
            first = batch.schema
        yield batch if batch.schema.equals(first) else _recode(batch, first)


def _recode(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    def recode(values: pa.Array, data_type: pa.DataType) -> pa.Array:
        if values.type == data_type:
            return values
        return values.dictionary_encode() if is_coded(data_type) else decode(values)

    columns = list(map(recode, batch.columns, schema.types))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def replace_codes(column: Any, mask: pa.BooleanArray, values: pa.Array) -> pa.Array:
    """Replace texts of a coded column, in order, where the mask is true.

    Args:
        column: A column of a file; its dictionary has no null.
    """
    new = values.dictionary_encode()
    if len(values) == len(column):
        return new
    before, after = pa.chunked_array([column, new]).unify_dictionaries().chunks
    indices = pc.replace_with_mask(before.indices, mask, after.indices)
    return pa.DictionaryArray.from_arrays(indices, before.dictionary)


def drop_unused_texts(rows: pa.Table) -> pa.Table:
    """Rebuild dictionaries so that they hold each used text once.

    Otherwise a file would keep the texts of deleted rows. And Arrow writes dictionaries as they
    are, with wrong indices if a text occurs twice.
    """
    for place, field in enumerate(rows.schema):
        if is_coded(field.type):
            rows = rows.set_column(place, field, _tidy(rows.column(place)))
    return rows


def _tidy(column: pa.ChunkedArray) -> pa.Array:
    array = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
    dictionary, indices = array.dictionary, array.indices
    is_used = np.bincount(indices.drop_null().to_numpy(), minlength=len(dictionary)) > 0
    used = dictionary.filter(pa.array(is_used)).dictionary_encode()
    if len(used.dictionary) == len(dictionary):
        return array
    places = np.cumsum(is_used) - 1
    codes = used.indices.take(pa.array(places).take(indices))
    return pa.DictionaryArray.from_arrays(codes, used.dictionary)

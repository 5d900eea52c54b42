"""Dictionary columns: strings as a dictionary of the distinct strings, and an index for each row.

A rewrite keeps strings dictionary-encoded from the file that it reads to the file that it writes.
This saves decoding the strings and looking each string up again. Only the code that writes files
handles encoded columns: conditions and expressions are evaluated over decoded columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delta_ops.protocol.arrow_values import array_of, numpy_of, scalar

MAX_BYTES = 2**31 - 1
"""Maximum bytes of string data in one array, which has 32-bit offsets."""
_SHORT_BYTES = 32
"""The size of strings that are all this short is not looked up for each row."""


def is_encoded(data_type: pa.DataType) -> bool:
    """Return whether a column of the type is dictionary-encoded."""
    return bool(pt.is_dictionary(data_type))


def decode(values: Any) -> Any:
    """Decode a dictionary column; other columns stay unchanged."""
    return values.dictionary_decode() if is_encoded(values.type) else values


def decode_columns(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Decode all dictionary columns."""
    if not any(map(is_encoded, rows.schema.types)):
        return rows
    return pa.RecordBatch.from_arrays(list(map(decode, rows.columns)), names=rows.schema.names)


def decoded_bytes(rows: pa.RecordBatch) -> int:
    """Return the approximate size of the rows after decoding."""
    if not any(map(is_encoded, rows.schema.types)):
        return int(rows.nbytes)
    return sum(map(_bytes_of, rows.columns))


def fit_in_array(values: Any) -> bool:
    """Return whether the decoded strings fit in one array."""
    if values.dictionary.nbytes * len(values) <= MAX_BYTES:
        return True
    longest = pc.max(pc.binary_length(values.dictionary)).as_py() or 0
    return longest * len(values) <= MAX_BYTES or _bytes_of(values) <= MAX_BYTES


def _bytes_of(values: Any) -> int:
    if not is_encoded(values.type):
        return int(values.nbytes)
    found = pc.binary_length(values.dictionary)
    longest = pc.max(found).as_py() or 0
    if longest <= _SHORT_BYTES:
        return longest * len(values) + int(values.indices.nbytes)
    lengths = numpy_of(pc.fill_null(found, scalar(0, pa.int32())))
    numbers = values.indices.drop_null() if values.null_count else values.indices
    return int(lengths.take(numpy_of(numbers)).sum(dtype=np.int64)) + int(values.indices.nbytes)


def schema_with_dictionaries(schema: pa.Schema, types: Sequence[pa.DataType]) -> pa.Schema:
    """Return the schema, with dictionary types for the encoded columns among `types`."""
    if not any(map(is_encoded, types)):
        return schema
    pairs = zip(schema, types, strict=True)
    return pa.schema([each.with_type(own) if is_encoded(own) else each for each, own in pairs])


def batch_of(schema: pa.Schema, columns: Sequence[pa.Array]) -> pa.RecordBatch:
    """Build a batch from columns that may be dictionary-encoded."""
    encoded = schema_with_dictionaries(schema, [each.type for each in columns])
    return pa.RecordBatch.from_arrays(list(columns), schema=encoded)


def encode_alike(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Encode or decode the columns of each batch as in the first batch.

    The batches have the same columns and differ only in their encoding.
    """
    first: pa.Schema | None = None
    for batch in batches:
        if first is None:
            first = batch.schema
        yield batch if batch.schema.equals(first) else _encode_as(batch, first)


def _encode_as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    def encode(values: pa.Array, data_type: pa.DataType) -> pa.Array:
        if values.type == data_type:
            return values
        return values.dictionary_encode() if is_encoded(data_type) else decode(values)

    columns = list(map(encode, batch.columns, schema.types))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def replace_encoded(column: Any, mask: pa.BooleanArray, values: pa.Array) -> pa.Array:
    """Replace strings of an encoded column, in order, where the mask is true.

    Args:
        column: A column of a file; its dictionary has no null.
    """
    new = values.dictionary_encode()
    if len(values) == len(column):
        return new
    before, after = pa.chunked_array([column, new]).unify_dictionaries().chunks
    indices = pc.replace_with_mask(before.indices, mask, after.indices)
    return pa.DictionaryArray.from_arrays(indices, before.dictionary)


def drop_unused_strings(rows: pa.Table) -> pa.Table:
    """Rebuild dictionaries so that they hold each used string once.

    Otherwise a file would keep the strings of deleted rows. And Arrow writes dictionaries as they
    are, with wrong indices if a string occurs twice.
    """
    if not any(map(is_encoded, rows.schema.types)):
        return rows
    columns = [_tidy(each) if is_encoded(each.type) else each for each in rows.columns]
    return pa.Table.from_arrays(columns, schema=rows.schema)


def _tidy(column: pa.ChunkedArray) -> pa.Array:
    array = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
    dictionary, indices = array.dictionary, array.indices
    is_used = np.bincount(numpy_of(indices.drop_null()), minlength=len(dictionary)) > 0
    used = dictionary.filter(array_of(is_used)).dictionary_encode()
    if len(used.dictionary) == len(dictionary):
        return array
    places = np.cumsum(is_used) - 1
    codes = used.indices.take(array_of(places).take(indices))
    return pa.DictionaryArray.from_arrays(codes, used.dictionary)

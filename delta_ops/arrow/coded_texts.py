"""Coded texts: columns whose texts stand once in a dictionary, and in the rows by number.

Rows that are written again keep them so from the file that they are read of to the next one, which
spares to make texts of the numbers and to look each up again. Nobody sees them beyond the writing
of files: conditions and expressions are evaluated over plain texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

MAX_BYTES = 2**31 - 1
"""Most bytes of text in one array, which counts them with 32 bits."""


def is_coded(data_type: pa.DataType) -> bool:
    """Whether the type is that of a column of coded texts."""
    return bool(pt.is_dictionary(data_type))


def decode(values: Any) -> Any:
    """The texts themselves; what is not coded as it is."""
    return values.dictionary_decode() if is_coded(values.type) else values


def decode_columns(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with plain texts."""
    if not any(map(is_coded, rows.schema.types)):
        return rows
    return pa.RecordBatch.from_arrays(list(map(decode, rows.columns)), names=rows.schema.names)


def decoded_bytes(rows: pa.RecordBatch) -> int:
    """Size of the rows with plain texts, about."""
    if not any(map(is_coded, rows.schema.types)):
        return int(rows.nbytes)
    return sum(map(_bytes_of, rows.columns))


def fit_in_array(values: Any) -> bool:
    """Whether one array holds the texts of an array of coded ones, decoded."""
    longest = pc.max(pc.binary_length(values.dictionary)).as_py() or 0
    return longest * len(values) <= MAX_BYTES or _bytes_of(values) <= MAX_BYTES


def _bytes_of(values: Any) -> int:
    if not is_coded(values.type):
        return int(values.nbytes)
    lengths = pc.fill_null(pc.binary_length(values.dictionary), 0).to_numpy()
    numbers = values.indices.drop_null() if values.null_count else values.indices
    return int(lengths.take(numbers.to_numpy()).sum(dtype=np.int64)) + int(values.indices.nbytes)


def code_schema(schema: pa.Schema, types: Sequence[pa.DataType]) -> pa.Schema:
    """The schema of rows that have these types, which differ in that texts are coded only."""
    if not any(map(is_coded, types)):
        return schema
    pairs = zip(schema, types, strict=True)
    return pa.schema([each.with_type(own) if is_coded(own) else each for each, own in pairs])


def batch_of(schema: pa.Schema, columns: Sequence[pa.Array]) -> pa.RecordBatch:
    """The rows with these columns, of which texts may be coded."""
    coded = code_schema(schema, [each.type for each in columns])
    return pa.RecordBatch.from_arrays(list(columns), schema=coded)


def replace_codes(column: Any, mask: pa.BooleanArray, values: pa.Array) -> pa.Array:
    """The coded column with new texts, in their order, where the mask is true.

    Args:
        column: A column of a file, whose dictionary has no null.
    """
    new = values.dictionary_encode()
    if len(values) == len(column):
        return new
    before, after = pa.chunked_array([column, new]).unify_dictionaries().chunks
    indices = pc.replace_with_mask(before.indices, mask, after.indices)
    return pa.DictionaryArray.from_arrays(indices, before.dictionary)


def drop_unused_texts(rows: pa.Table) -> pa.Table:
    """The rows with dictionaries of the texts that they have, each once.

    Else a file would keep texts of rows that were deleted. And Arrow, which takes dictionaries as
    they are, would write wrong numbers for one that has a text twice.
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

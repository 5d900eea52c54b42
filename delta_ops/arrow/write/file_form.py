"""File form: choose how to encode a data file by its first rows.

Only leaves with repeated values get a dictionary. A leaf is a column, or a field, element, key or
value of a nested column. Arrow would start a dictionary for every leaf and drop it when it becomes
too large, which takes time and leaves a larger file. Numbers that look random, such as measurements
with many digits, are not compressed: compression would save no space and take time in each read and
write. Small files get a fast codec, and no dictionary if they have few rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from inspect import signature
from itertools import accumulate, chain, count
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from delta_ops.arrow.dictionary_columns import is_encoded, schema_with_dictionaries
from delta_ops.arrow.nesting import entries
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.arrow_values import numpy_of
from delta_ops.protocol.bloom_filters import FALSE_POSITIVES, filtered_columns
from delta_ops.protocol.properties.known import BLOOM_FILTERS
from delta_ops.protocol.table_definition import TableDefinition

CODEC_PROPERTY = "delta.parquet.compression.codec"
# Codecs that have another name in Arrow.
_ARROW_CODECS = {"uncompressed": "none", "lz4_raw": "lz4"}
_QUICK_CODEC = "snappy"
_QUICK_COLUMN_BYTES = 1024
"""Smaller columns are not worth the start-up cost of zstd for each column, as measured in
`benchmarks/large_tables.report.md`."""
WRITES_BLOOM_FILTERS = "bloom_filter_options" in signature(pq.ParquetWriter).parameters
_ALIKE_FILES = 8
"""Number of files of one write that share one sample of rows."""
_TINY_ROWS, TINY_BYTES = 16, 4096
"""A dictionary for so few values, or in a file of so few bytes, takes longer to write and to read,
and saves no block of a disk."""
_FEW_AT_ONCE, _MANY_AT_ONCE, _MOST_AT_ONCE = 1024, 8192, 65_536
"""Number of values of a column that Arrow encodes before it checks the page size. For dictionary
columns, each check searches for the used strings; plain strings of any length would make a larger
page."""
MANY_ROWS = 4096
"""With fewer rows, a dictionary is cheap, and a sample would not be reliable."""
_LARGE_BYTES, _LEAST_SAMPLED_ROWS = 1 << 20, 1024
"""Fewer rows are sampled too if they are large: many columns, or long strings."""
_SAMPLED_SHARE, _MOST_SAMPLED = 8, 4096
"""A sample has an eighth of the rows, up to a maximum."""
_MOST_REPEATED = 0.95
"""If the share of distinct values in a sample is this high, a dictionary does not pay."""
_RUNS = 16
"""Number of runs of rows that make up the sample of a column of variable size."""
_COMPRESSED_ROWS, _FEW_COMPRESSED_ROWS = 2048, 256
"""Rows of a sample at the beginning, and as many in the middle; in files of less than `MANY_ROWS`,
the larger sample would take longer than the compression that it saves."""
_HARDLY_SMALLER = 0.9
"""If compression leaves this share of a sample's size, it does not pay."""
_LEAST_BITS = 32
"""Smaller numbers repeat or compress well."""


class FileForm(NamedTuple):
    """How a file is encoded."""

    codec: str
    schema: pa.Schema
    """The columns by their names in files; dictionary-encoded where the rows are."""
    at_once: int
    """See `_MOST_AT_ONCE`."""
    leaves: Sequence[str]
    """The paths of the leaf columns, by their names in files."""
    dictionaries: bool | Sequence[str] = True
    """Leaves with a dictionary; True means all."""
    uncompressed: Collection[str] = ()
    """Leaves without compression."""
    bloom_filters: Mapping[str, Mapping[str, float]] | None = None
    """Settings of Arrow by the path of each column with a Bloom filter; None: no filters."""

    @property
    def codecs(self) -> str | dict[str, str]:
        """The codecs of all leaves, in Arrow's format."""
        codec = _ARROW_CODECS.get(self.codec, self.codec)
        if not self.uncompressed:
            return codec
        return {each: "none" if each in self.uncompressed else codec for each in self.leaves}


class _Choice(NamedTuple):
    """Leaves by their positions."""

    dictionaries: list[int]
    uncompressed: list[int]


class FormChooser:
    """Chooses the form of each new data file of one table.

    Args:
        definition: The table.
        file_schema: Columns of the rows.
        stored: The columns by their names in files; columns with one value for all rows come last.
    """

    def __init__(
        self, definition: TableDefinition, file_schema: pa.Schema, stored: pa.Schema
    ) -> None:
        self._codec = definition.properties.compression_codec
        self._is_chosen = CODEC_PROPERTY in definition.metadata.configuration
        self._schema, self._stored = file_schema, stored
        self._leaves = [path for each in stored for path in leaf_paths(each.name, each.type)]
        starts = accumulate((_num_leaves(each.type) for each in file_schema), initial=0)
        *self._firsts, self._leaf_count = starts
        self._bloom_filters = [".".join(path) for path in filtered_columns(definition)]
        if self._bloom_filters and not WRITES_BLOOM_FILTERS:
            raise InvalidRequestError(
                f"pyarrow {pa.__version__} cannot write the Bloom filters that "
                f"{BLOOM_FILTERS.name} = {BLOOM_FILTERS.text_in(definition.metadata.configuration)}"
                " asks for; install pyarrow 24 or later, or remove the property"
            )
        self._large_files = count()
        self._choice: _Choice | None = None

    def form_of(self, rows: pa.Table, num_bytes: int) -> FileForm:
        """Choose the form of a file by its first rows and their size."""
        # Columns with one value for all rows come last.
        of_one_value = self._stored.types[len(self._schema) :]
        form = FileForm(
            codec=self._codec_of(num_bytes),
            schema=schema_with_dictionaries(self._stored, [*rows.schema.types, *of_one_value]),
            at_once=_values_at_once(rows),
            leaves=self._leaves,
            bloom_filters=self._filters_of(len(rows)),
        )
        is_large = num_bytes >= _LARGE_BYTES and len(rows) >= _LEAST_SAMPLED_ROWS
        if len(rows) < MANY_ROWS and not is_large:
            return form
        choice = self._choose(rows, form.codec)
        last = range(self._leaf_count, len(self._leaves))
        types = zip(self._firsts, rows.schema.types, strict=True)
        encoded = [first for first, each in types if is_encoded(each)]
        chosen, names = {*choice.dictionaries, *encoded, *last}, self._leaves
        return form._replace(
            dictionaries=[names[i] for i in sorted(chosen)],
            uncompressed={names[i] for i in choice.uncompressed if i not in chosen},
        )

    def _choose(self, rows: pa.Table, codec: str) -> _Choice:
        """Choose by the rows of some files only, since a table's files are similar."""
        number = next(self._large_files)
        choice = self._choice
        if number % _ALIKE_FILES and choice is not None:
            # Check each file again: a compressible column without compression would be much larger.
            return choice._replace(
                uncompressed=find_incompressible(rows, choice.uncompressed, codec)
            )
        dictionaries = choose_dictionaries(rows)
        others = () if self._is_chosen else {*range(self._leaf_count)} - {*dictionaries}
        uncompressed = find_incompressible(rows, sorted(others), codec)
        self._choice = _Choice(dictionaries, uncompressed)
        return self._choice

    def form_of_few(self, num_rows: int, num_bytes: int) -> FileForm:
        """Choose how to encode a small file with this number of rows and bytes."""
        return FileForm(
            self._codec_of(num_bytes),
            self._stored,
            _FEW_AT_ONCE,
            self._leaves,
            num_rows > _TINY_ROWS and num_bytes > TINY_BYTES,
            bloom_filters=self._filters_of(num_rows),
        )

    def _filters_of(self, num_rows: int) -> Mapping[str, Mapping[str, float]] | None:
        """The Bloom filters of a file whose row groups have about this number of rows."""
        if not self._bloom_filters:
            return None
        settings = {"ndv": max(num_rows, 1), "fpp": FALSE_POSITIVES}
        return dict.fromkeys(self._bloom_filters, settings)

    def _codec_of(self, num_bytes: int) -> str:
        """Return the codec of a file whose first row group has this many bytes."""
        is_small = num_bytes < _QUICK_COLUMN_BYTES * len(self._schema)
        return _QUICK_CODEC if is_small and not self._is_chosen else self._codec


def _values_at_once(rows: pa.Table) -> int:
    """See `_MOST_AT_ONCE`."""
    types = rows.schema.types
    if not any(map(is_encoded, types)):
        return _FEW_AT_ONCE
    has_others = any(not is_encoded(each) and not pt.is_primitive(each) for each in types)
    return _MANY_AT_ONCE if has_others else _MOST_AT_ONCE


def choose_dictionaries(rows: pa.Table) -> list[int]:
    """Return the positions of the leaves to write with a dictionary.

    Args:
        rows: First rows of a file, at least a thousand. Dictionary columns stay encoded.
    """
    num_sampled = min(len(rows) // _SAMPLED_SHARE, _MOST_SAMPLED)
    # In sorted rows, distant rows differ and neighbours repeat: check both.

    def paying(column: pa.ChunkedArray) -> list[bool]:
        if is_encoded(column.type):
            return [True]
        pays = [_repeats(leaf) for leaf in _leaves(column.slice(0, num_sampled))]
        if all(pays):
            return pays
        is_fixed = pt.is_primitive(column.type)
        spread = (_spread_rows if is_fixed else _spread_runs)(column, num_sampled)
        return [known or _repeats(leaf) for known, leaf in zip(pays, _leaves(spread), strict=True)]

    leaves = chain.from_iterable(map(paying, rows.columns))
    return [i for i, pays in enumerate(leaves) if pays]


def _spread_rows(column: pa.ChunkedArray, num_sampled: int) -> pa.ChunkedArray:
    """Return single rows of each chunk: Arrow would copy all chunks to take rows of several."""
    step, start, taken = len(column) // num_sampled, 0, []
    for chunk in column.slice(0, step * num_sampled).chunks:
        taken.append(chunk.take(pa.arange(-start % step, len(chunk), step)))
        start += len(chunk)
    return pa.chunked_array(taken, column.type)


def _spread_runs(column: pa.ChunkedArray, num_sampled: int) -> pa.ChunkedArray:
    """Return short runs of rows: Arrow would copy all strings or lists to take single rows."""
    length, step = max(num_sampled // _RUNS, 1), max(len(column) // _RUNS, 1)
    runs = (column.slice(start, length) for start in range(0, len(column), step))
    return pa.chunked_array([chunk for run in runs for chunk in run.chunks], column.type)


def _repeats(values: pa.ChunkedArray) -> bool:
    present = values.drop_null() if values.null_count else values
    return not len(present) or len(pc.unique(present)) < _MOST_REPEATED * len(present)


def find_incompressible(rows: pa.Table, places: Iterable[int], codec: str) -> list[int]:
    """Find leaves of numbers that a codec hardly compresses.

    Args:
        rows: First rows of a file.
        places: The positions of the leaves to check.
        codec: Arrow's name of the codec.

    Returns:
        The positions of these leaves.
    """
    wanted = {*places}
    length = _FEW_COMPRESSED_ROWS if len(rows) < MANY_ROWS else _COMPRESSED_ROWS
    found, first = [], 0
    for column in rows.columns:
        leaves = range(first, first := first + _num_leaves(column.type))
        if wanted.isdisjoint(leaves):
            continue
        slices = (column.slice(start, length) for start in (0, len(column) // 2))
        samples = zip(leaves, *map(_leaves, slices), strict=True)
        found += [
            i
            for i, *of_leaf in samples
            if i in wanted and _are_incompressible(of_leaf, codec, length)
        ]
    return found


def _are_incompressible(samples: Sequence[pa.ChunkedArray], codec: str, length: int) -> bool:
    data_type = samples[0].type
    if not pt.is_primitive(data_type) or data_type.bit_width < _LEAST_BITS:
        return False
    few = (each.slice(0, length) for each in samples)
    present = (each.drop_null() if each.null_count else each for each in few)
    chunks = [chunk for each in present for chunk in each.chunks]
    values = pa.concat_arrays(chunks or [pa.nulls(0, data_type)])
    as_bytes = values.view(pa.int64() if data_type.bit_width > _LEAST_BITS else pa.int32())
    content = numpy_of(as_bytes).tobytes()
    compressed = pa.compress(content, codec=codec, asbytes=True)
    return len(compressed) > _HARDLY_SMALLER * len(content) > 0


def leaf_paths(name: str, data_type: pa.DataType) -> list[str]:
    """Return the paths of a column's leaves in a Parquet file that Arrow writes."""
    if pt.is_struct(data_type):
        return [path for each in data_type for path in leaf_paths(f"{name}.{each.name}", each.type)]
    if pt.is_map(data_type):
        key, value = (f"{name}.key_value.{part}" for part in ("key", "value"))
        return [*leaf_paths(key, data_type.key_type), *leaf_paths(value, data_type.item_type)]
    if pt.is_list(data_type):
        return leaf_paths(f"{name}.list.element", data_type.value_type)
    return [name]


def _num_leaves(data_type: pa.DataType) -> int:
    return len(leaf_paths("", data_type)) if pt.is_nested(data_type) else 1


def _is_nested(column: pa.ChunkedArray) -> bool:
    return bool(pt.is_nested(column.type))


def _leaves(column: pa.ChunkedArray) -> Sequence[pa.ChunkedArray]:
    """Return the values of each leaf of a column."""
    if not _is_nested(column):
        return [column]
    chunks = column.chunks or [pa.nulls(0, column.type)]
    return [pa.chunked_array(of_leaf) for of_leaf in zip(*map(_leaf_arrays, chunks), strict=True)]


def _leaf_arrays(array: Any) -> Iterator[pa.Array]:
    if pt.is_struct(array.type):
        members = array.flatten()
    elif pt.is_map(array.type):
        members = entries(array).flatten().flatten()
    elif pt.is_list(array.type):
        members = [array.flatten()]
    else:
        yield array
        return
    for member in members:
        yield from _leaf_arrays(member)

"""File form: choose how to encode a data file by its first rows.

Only columns with repeated values get a dictionary. Arrow would start a dictionary for every column
and drop it when it becomes too large, which takes time and leaves a larger file. Numbers that look
random, such as measurements with many digits, are not compressed: compression would save no space
and take time in each read and write. Small files get a fast codec, and no dictionary if they have
few rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from inspect import signature
from itertools import count
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delta_ops.arrow.dictionary_columns import is_encoded, schema_with_dictionaries
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.arrow_values import numpy_of, scalar
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
_TINY_ROWS = 16
"""A dictionary for so few values takes longer to write and to read, and saves no space."""
_FEW_AT_ONCE, _MANY_AT_ONCE, _MOST_AT_ONCE = 1024, 8192, 65_536
"""Number of values of a column that Arrow encodes before it checks the page size. For dictionary
columns, each check searches for the used strings; plain strings of any length would make a larger
page."""
MANY_ROWS = 4096
"""With fewer rows, a dictionary is cheap, and a sample would not be reliable."""
_SAMPLED_SHARE, _MOST_SAMPLED = 8, 4096
"""A sample has an eighth of the rows, up to a maximum."""
_MOST_REPEATED = 0.95
"""If the share of distinct values in a sample is this high, a dictionary does not pay."""
_COMPRESSED_ROWS = 2048
"""Rows of a sample at the beginning, and as many in the middle."""
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
    dictionaries: bool | Sequence[str] = True
    """Columns with a dictionary, by their names in files; True means all."""
    uncompressed: Collection[str] = ()
    """Columns without compression, by their names in files."""
    bloom_filters: Mapping[str, Mapping[str, float]] | None = None
    """Settings of Arrow by the path of each column with a Bloom filter; None: no filters."""

    @property
    def codecs(self) -> str | dict[str, str]:
        """The codecs of all columns, in Arrow's format."""
        codec = _ARROW_CODECS.get(self.codec, self.codec)
        if not self.uncompressed:
            return codec
        return {each: "none" if each in self.uncompressed else codec for each in self.schema.names}


class _Choice(NamedTuple):
    """Columns by their positions."""

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
        self._is_nested = any(pa.types.is_nested(each.type) for each in file_schema)
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
            bloom_filters=self._filters_of(len(rows)),
        )
        if self._is_nested or len(rows) < MANY_ROWS:
            return form
        choice = self._choose(rows, form.codec)
        last = range(len(self._schema), len(self._stored))
        encoded = [i for i, each in enumerate(rows.schema.types) if is_encoded(each)]
        chosen, names = {*choice.dictionaries, *encoded, *last}, self._stored.names
        # Check each file again: a compressible column without compression would be much larger.
        candidates = (i for i in choice.uncompressed if i not in chosen)
        return form._replace(
            dictionaries=[names[i] for i in sorted(chosen)],
            uncompressed={names[i] for i in find_incompressible(rows, candidates, form.codec)},
        )

    def _choose(self, rows: pa.Table, codec: str) -> _Choice:
        """Choose by the rows of some files only, since a table's files are similar."""
        number = next(self._large_files)
        if number % _ALIKE_FILES == 0 or self._choice is None:
            dictionaries = choose_dictionaries(rows)
            others = () if self._is_chosen else {*range(rows.num_columns)} - {*dictionaries}
            uncompressed = find_incompressible(rows, sorted(others), codec)
            self._choice = _Choice(dictionaries, uncompressed)
        return self._choice

    def form_of_few(self, num_rows: int, num_bytes: int) -> FileForm:
        """Choose how to encode a small file with this number of rows and bytes."""
        return FileForm(
            self._codec_of(num_bytes),
            self._stored,
            _FEW_AT_ONCE,
            num_rows > _TINY_ROWS,
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
    has_others = any(not is_encoded(each) and not pa.types.is_primitive(each) for each in types)
    return _MANY_AT_ONCE if has_others else _MOST_AT_ONCE


def choose_dictionaries(rows: pa.Table) -> list[int]:
    """Return the positions of the columns to write with a dictionary.

    Args:
        rows: At least `MANY_ROWS` first rows of a file, without nested columns. Dictionary
            columns stay encoded.
    """
    num_sampled = min(len(rows) // _SAMPLED_SHARE, _MOST_SAMPLED)
    places = pc.multiply(pa.arange(0, num_sampled), scalar(len(rows) // num_sampled))
    # In sorted rows, distant rows differ and neighbours repeat: check both.

    def pays(column: pa.ChunkedArray) -> bool:
        samples = column.take(places), column.slice(0, num_sampled)
        return is_encoded(column.type) or any(map(_repeats, samples))

    return [i for i, column in enumerate(rows.columns) if pays(column)]


def _repeats(values: pa.ChunkedArray) -> bool:
    present = values.drop_null()
    return not len(present) or len(pc.unique(present)) < _MOST_REPEATED * len(present)


def find_incompressible(rows: pa.Table, places: Iterable[int], codec: str) -> list[int]:
    """Find columns of numbers that a codec hardly compresses.

    Args:
        rows: At least `MANY_ROWS` first rows of a file.
        places: The positions of the columns to check.
        codec: Arrow's name of the codec.

    Returns:
        The positions of these columns.
    """
    return [i for i in places if _is_incompressible(rows.column(i), codec)]


def _is_incompressible(column: pa.ChunkedArray, codec: str) -> bool:
    if not pa.types.is_primitive(column.type) or column.type.bit_width < _LEAST_BITS:
        return False
    samples = (column.slice(start, _COMPRESSED_ROWS) for start in (0, len(column) // 2))
    chunks = [chunk for each in samples for chunk in each.drop_null().chunks]
    values = pa.concat_arrays(chunks or [pa.nulls(0, column.type)])
    as_bytes = values.view(pa.int64() if column.type.bit_width > _LEAST_BITS else pa.int32())
    content = numpy_of(as_bytes).tobytes()
    compressed = pa.compress(content, codec=codec, asbytes=True)
    return len(compressed) > _HARDLY_SMALLER * len(content) > 0

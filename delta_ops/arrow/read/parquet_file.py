"""Parquet files opened as data files are read: INT96 in microseconds, memory that is soon there."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from delta_ops.arrow.memory_pools import fast_pool
from delta_ops.storage.parquet_ranges import ParquetReader


def open_parquet(
    source: pa.NativeFile,
    metadata: pq.FileMetaData | None = None,
    dictionaries: Sequence[int] = (),
    buffer_bytes: int = 0,
) -> ParquetReader:
    """The file; closing it closes the source.

    Args:
        source: On a disk or in memory.
        metadata: The file's footer, where it was read before.
        dictionaries: Leaves of texts that come as dictionaries.
        buffer_bytes: How much of a column is read at once; 0: all that a row group has of it.
    """
    reader = ParquetReader(memory_pool=fast_pool())
    reader.open(
        source,
        metadata=metadata,
        read_dictionary=dictionaries or None,
        coerce_int96_timestamp_unit="us",
        buffer_size=buffer_bytes,
        arrow_extensions_enabled=True,
        # Other threads would only hand over what is there.
        pre_buffer=False,
    )
    return reader

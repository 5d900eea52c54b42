"""Parquet files opened as data files are read: INT96 in microseconds, memory that is soon there."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow._parquet import ParquetReader

from delta_ops.arrow.memory_pools import fast_pool


def open_parquet(
    source: pa.NativeFile,
    metadata: pq.FileMetaData | None = None,
    dictionaries: Sequence[int] = (),
) -> ParquetReader:
    """The file; closing it closes the source.

    Args:
        source: On a disk or in memory.
        metadata: The file's footer, where it was read before.
        dictionaries: Leaves of texts that come as dictionaries.
    """
    reader = ParquetReader(memory_pool=fast_pool())
    reader.open(
        source,
        metadata=metadata,
        read_dictionary=dictionaries or None,
        coerce_int96_timestamp_unit="us",
        arrow_extensions_enabled=True,
        # Other threads would only hand over what is there.
        pre_buffer=False,
    )
    return reader

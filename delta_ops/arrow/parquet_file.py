"""Parquet files opened as data files are read: INT96 in microseconds, memory that is soon there.

Arrow's default pool on Linux, mimalloc, takes 2 seconds of system time to hand out the pages of
500 MB of rows, where jemalloc takes half a second. The pool of a whole process is its owner's to
choose, so the reader alone is given another one; only Arrow's own class takes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow._parquet import ParquetReader

_SLOW_POOL, _FAST_POOL = "mimalloc", "jemalloc"
_DECAY_MS = 1000
"""Arrow's own setting."""


def open_parquet(source: pa.NativeFile, metadata: pq.FileMetaData | None = None) -> ParquetReader:
    """The file; closing it closes the source.

    Args:
        source: On a disk or in memory.
        metadata: The file's footer, where it was read before.
    """
    reader = ParquetReader(memory_pool=_pool())
    reader.open(
        source,
        metadata=metadata,
        coerce_int96_timestamp_unit="us",
        arrow_extensions_enabled=True,
        # Other threads would only hand over what is there.
        pre_buffer=False,
    )
    return reader


@contextmanager
def giving_memory_back() -> Iterator[None]:
    """Let the memory of what was read go back to the system at once, and not a second later.

    What is read in a second can be more than all that a rewrite may hold.
    """
    if _pool() is None:
        yield
        return
    pa.jemalloc_set_decay_ms(0)
    try:
        yield
    finally:
        pa.jemalloc_set_decay_ms(_DECAY_MS)


@cache
def _pool() -> pa.MemoryPool | None:
    """None where the default will do."""
    is_slow = pa.default_memory_pool().backend_name == _SLOW_POOL
    has_fast = _FAST_POOL in pa.supported_memory_backends()
    return pa.jemalloc_memory_pool() if is_slow and has_fast else None

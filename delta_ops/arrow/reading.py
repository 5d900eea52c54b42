"""Reading: rows of many files, several files at a time, in the order of the files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from itertools import chain

import pyarrow as pa

from delta_ops.arrow.data_file_read import FileScan, StoredFile, read_data_file
from delta_ops.storage import Storage
from delta_ops.storage.concurrency import MAX_CONCURRENCY, run_ahead

_SMALL_BYTES = 16 << 20
"""A file up to this is read whole, beside others; a larger one goes by in batches."""
_DECODED = 4
"""How many times larger rows are in memory than in files, about; some are a thousand times."""
_LARGEST_BYTES = 64 << 20
"""Of the rows of one file that are read before the caller takes them."""
_AHEAD_BYTES = 256 << 20
"""Of rows that are read while the caller takes the ones before."""
_LOCAL_FILES = 4
"""Files of a disk that are read at once."""


def read_all(
    storage: Storage, files: Iterable[tuple[FileScan, StoredFile]]
) -> Iterator[pa.RecordBatch]:
    """The rows that are wanted of each file.

    Raises:
        DataFileError: A file or its deletion vector is gone, or cannot be read.
        StorageError: The store failed.
    """
    calls = ((file.size * _DECODED, partial(_read, scan, file)) for scan, file in files)
    max_files = _LOCAL_FILES if storage.has_native_input else MAX_CONCURRENCY
    with closing(run_ahead(calls, _AHEAD_BYTES, max_files)) as read:
        for batches in read:
            yield from batches


def _read(scan: FileScan, file: StoredFile) -> Iterable[pa.RecordBatch]:
    """Read here and now where it is small, else by whoever takes the batches."""
    if file.size > _SMALL_BYTES:
        return read_data_file(scan, file, use_threads=True)
    batches = read_data_file(scan, file, use_threads=False)
    read, num_bytes = [], 0
    for batch in batches:
        read.append(batch)
        num_bytes += batch.nbytes
        if num_bytes > _LARGEST_BYTES:
            return chain(read, batches)
    return read

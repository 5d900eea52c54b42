"""Footers of data files that the log names, or why they cannot be read."""

from __future__ import annotations

import pyarrow.parquet as pq

from delta_ops.error_texts import first_line
from delta_ops.errors import StorageError
from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.storage import FileInfo
from delta_ops.storage.parquet_ranges import read_footer, validate_chunks


def read_data_footer(snapshot: Snapshot, add: AddFile) -> pq.FileMetaData | str:
    """The footer of a live file of the table's own; a sentence where it is none.

    Raises:
        StorageError: The store failed.
    """
    path = canonical_path(add.path, snapshot.uri)
    try:
        return _read_footer(snapshot, add, path)
    except FileNotFoundError:
        return f"data file {path} has gone meanwhile; run the repair again"


def _read_footer(snapshot: Snapshot, add: AddFile, path: str) -> pq.FileMetaData | str:
    said = FileInfo(path, size=add.size, modified_ms=add.modification_time)
    try:
        footer = read_footer(snapshot.storage, said)
        groups = range(footer.metadata.num_row_groups)
        validate_chunks(footer.metadata, footer.size, range(footer.metadata.num_columns), groups)
    except (ValueError, StorageError) as error:
        size = snapshot.storage.stat(path).size
        if size == add.size and isinstance(error, StorageError):
            raise
        reason = first_line(error)
        sizes = "" if size == add.size else f", of {size} bytes where the log says {add.size}"
        return (
            f"data file {path} is not the Parquet file that the log names ({reason}{sizes}); bring "
            "it back from a backup"
        )
    return footer.metadata

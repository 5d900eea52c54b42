"""Footers of data files, and the statistics that files get from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow.parquet as pq

from delta_ops.error_texts import first_line
from delta_ops.errors import StorageError
from delta_ops.events import OnEvent, Progress
from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.storage import FileInfo
from delta_ops.storage.parquet_ranges import read_footer, validate_chunks

_BATCH_FILES = 1000

Described = AddFile | str | None
"""A file with statistics; a sentence if its footer cannot be read; None if nothing is new."""


def describe_files(
    files: Sequence[AddFile],
    describe: Callable[[Sequence[AddFile]], Iterable[Described]],
    *,
    table: str,
    operation: str,
    on_event: OnEvent,
) -> tuple[list[AddFile], list[str]]:
    """Describe files batch by batch and report the progress.

    Returns:
        The files with new statistics, and a sentence for each file that cannot be read.
    """
    described: list[AddFile] = []
    failures: list[str] = []
    for start in range(0, len(files), _BATCH_FILES):
        batch = files[start : start + _BATCH_FILES]
        for made in describe(batch):
            if isinstance(made, str):
                failures.append(made)
            elif made is not None:
                described.append(made)
        done = start + len(batch)
        on_event(Progress(table=table, operation=operation, done=done, total=len(files)))
    return described, failures


def read_data_footer(snapshot: Snapshot, add: AddFile) -> pq.FileMetaData | str:
    """The footer of a live file within the table; a sentence if it cannot be read.

    Raises:
        StorageError: The store failed.
    """
    path = canonical_path(add.path, snapshot.uri)
    try:
        return _read_footer(snapshot, add, path)
    except FileNotFoundError:
        return f"data file {path} was deleted in the meantime; run the repair again"


def _read_footer(snapshot: Snapshot, add: AddFile, path: str) -> pq.FileMetaData | str:
    recorded = FileInfo(path, size=add.size, modified_ms=add.modification_time)
    try:
        footer = read_footer(snapshot.storage, recorded)
        groups = range(footer.metadata.num_row_groups)
        validate_chunks(footer.metadata, footer.size, range(footer.metadata.num_columns), groups)
    except (ValueError, StorageError) as error:
        size = snapshot.storage.stat(path).size
        if size == add.size and isinstance(error, StorageError):
            raise
        reason = first_line(error)
        sizes = "" if size == add.size else f", with {size} bytes instead of {add.size}"
        return (
            f"data file {path} is not the Parquet file that the log names ({reason}{sizes}); "
            "restore it from a backup"
        )
    return footer.metadata

"""Sweep: deletes chunks that no data file names.

1. A chunk is needed if any data file in the table's directory names it, whatever version names the
   data file. Vacuum deletes a data file only if no retained version, ref or session needs it, so
   the data files of all of them count.
2. A chunk that is younger than the horizon stays. A writer writes its chunks, also chunks that
   exist already, before it names them, and its session ends before the horizon reaches them.
3. The age is compared once more just before a chunk is deleted. A marker is written before the
   first deletion: a session that finds it looks up its chunks before the commit.
4. If the data files are not certainly complete, no chunk is deleted: a link in the table's
   directory, mapped columns, or a data file that cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delta_ops.arrays.chunks import CHUNKS_DIRECTORY, SWEPT_FILE
from delta_ops.arrays.rows import COLUMNS, PARTITION_COLUMNS
from delta_ops.log import Snapshot
from delta_ops.protocol.columns.mapping import physical_name
from delta_ops.storage import FileInfo, Storage
from delta_ops.storage.concurrency import run_parallel

_CHUNK = re.compile(rf"{CHUNKS_DIRECTORY}/[0-9a-f]{{2}}/([0-9a-f]{{64}})")
_AT_ONCE = 500
"""Chunks whose age is compared before they are deleted together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """Chunks that were deleted, or would be deleted by a sweep that is no dry run."""

    num_chunks: int = 0
    size_bytes: int = 0
    reason_to_stay: str | None = None
    """Why no chunk could be deleted; None otherwise."""


NOTHING_SWEPT = SweepResult()


def is_array_table(snapshot: Snapshot) -> bool:
    """Whether a table has the columns and the partitioning of an array table."""
    return snapshot.partition_columns == PARTITION_COLUMNS and {
        each.name for each in snapshot.schema.fields
    } == set(COLUMNS.names)


def sweep_chunks(
    snapshot: Snapshot, horizon_ms: int, *, keep: Collection[str] = (), dry_run: bool
) -> SweepResult:
    """Delete the chunks of an array table that no data file names.

    Args:
        snapshot: The latest version.
        horizon_ms: Chunks that were written later stay; milliseconds since the Unix epoch, by the
            store's clock.
        keep: Chunks and directories that stay, relative to the table.
        dry_run: Delete nothing.

    Raises:
        StorageError: The store failed.
    """
    if not is_array_table(snapshot):
        return NOTHING_SWEPT
    storage = snapshot.storage
    old = [
        each
        for each in storage.list_tree(CHUNKS_DIRECTORY)
        if _CHUNK.fullmatch(each.path)
        and each.modified_ms < horizon_ms
        and not any(f"{each.path}/".startswith(f"{path.rstrip('/')}/") for path in keep)
    ]
    if not old:
        return NOTHING_SWEPT
    named = _named_hashes(snapshot)
    if isinstance(named, str):
        return SweepResult(reason_to_stay=named)
    unnamed = [each for each in old if each.path.rpartition("/")[2] not in named]
    if dry_run or not unnamed:
        return _result_of(unnamed)
    storage.replace(SWEPT_FILE, b"{}")
    deleted: list[FileInfo] = []
    for start in range(0, len(unnamed), _AT_ONCE):
        deleted += _delete_old(storage, unnamed[start : start + _AT_ONCE], horizon_ms)
    return _result_of(deleted)


def _result_of(files: Sequence[FileInfo]) -> SweepResult:
    return SweepResult(num_chunks=len(files), size_bytes=sum(each.size for each in files))


def _delete_old(storage: Storage, files: Sequence[FileInfo], horizon_ms: int) -> list[FileInfo]:
    """Delete the files that nobody has replaced since they were listed."""
    found = storage.find([each.path for each in files])
    old = [each for each in found if each.modified_ms < horizon_ms]
    failed = set(storage.delete_many([each.path for each in old]))
    return [each for each in old if each.path not in failed]


def _named_hashes(snapshot: Snapshot) -> set[str] | str:
    """The hashes in all data files below the table; a reason if they may be incomplete."""
    if any(physical_name(each) != each.name for each in snapshot.schema.fields):
        return "its columns are mapped"
    links: list[str] = []

    def is_data_file(paths: Sequence[str]) -> Collection[str]:
        return [
            path
            for path in paths
            if path.endswith(".parquet") and not path.startswith(("_delta_log/", "_delta_ops/"))
        ]

    listed = snapshot.storage.list_tree("", is_data_file, lambda path, _: links.append(path))
    paths = [each.path for each in listed]
    if links:
        return f"{links[0]} is a link"
    live = snapshot.files(["path"])["path"].to_pylist()
    if missing := set(live).difference(paths):
        return f"data file {min(missing)} is not in the table's directory"

    def read_hashes(path: str) -> pa.ChunkedArray | str:
        try:
            with snapshot.storage.open_input(path) as source:
                file = pq.ParquetFile(source)
                if "sha256" not in file.schema_arrow.names:
                    return f"data file {path} has no column sha256"
                column = file.read(["sha256"])["sha256"]
        except (pa.ArrowException, OSError) as error:
            return f"data file {path} cannot be read ({type(error).__name__})"
        return pc.unique(column.cast(pa.string()))

    named: set[str] = set()
    for hashes in run_parallel(read_hashes, paths):
        if isinstance(hashes, str):
            return hashes
        named.update(each for each in hashes.to_pylist() if each is not None)
    return named

"""Version files: the live files and the tombstones of one version.

Source: PROTOCOL.md, "Action Reconciliation". Files of commits since the checkpoint are in memory.
Files of the checkpoint are read from it, in tables of bounded size and only the needed columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.errors import LogCorruptError
from delta_ops.log.checkpoint.read import OpenCheckpoint, stream_adds, stream_removes
from delta_ops.log.path_errors import line_of_path, naming_place
from delta_ops.log.scan_cache.file import FoundCache
from delta_ops.log.segment import Checkpoint
from delta_ops.log.version.reconciliation import FileRows, Tail, file_rows, unseen_rows
from delta_ops.log.version.repeated_files import all_differ, drop_repeated
from delta_ops.protocol.arrow_schemas import ADD, CANONICAL_PATH, REMOVE
from delta_ops.protocol.arrow_values import empty_table
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.storage import Storage

_NO_REMOVES = empty_table(REMOVE)


class Version(Protocol):
    """The parts of a `Snapshot` that its files are read from."""

    @property
    def storage(self) -> Storage:
        """Rooted at the table."""

    @property
    def uri(self) -> str:
        """The table's root."""

    @property
    def log_directory(self) -> str:
        """Relative to the table's root."""

    @property
    def version(self) -> int:
        """The version."""

    @property
    def commits_since_checkpoint(self) -> int:
        """Number of commits in the tail."""

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The checkpoint that the tail follows; None without a checkpoint."""

    @property
    def opened_checkpoint(self) -> OpenCheckpoint | None:
        """The checkpoint, opened."""

    @property
    def tail(self) -> Tail:
        """File actions of the commits since the checkpoint."""

    @property
    def base(self) -> Version | None:
        """The version before the tail; None if the tail starts from a checkpoint."""

    @property
    def scan_cache(self) -> FoundCache | None:
        """The scan cache that was found when the version was opened."""

    @property
    def definition(self) -> TableDefinition:
        """Protocol and metadata."""

    def equivalent(self, error: LogCorruptError) -> Version:
        """Open the version without the checkpoint that the error is about."""


def stream_live(version: Version, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the live files in tables of bounded size.

    Args:
        version: The version.
        columns: Any of `arrow_schemas.ADD`, or `CANONICAL_PATH`.

    Raises:
        LogCorruptError: A file lacks the partition values of a partitioned table, or a file of the
            checkpoint is gone or malformed.
    """
    yield from _tables(version, _stream_rows(version, columns), columns)


def stream_over(
    version: Version, tail: Tail, batches: Iterable[pa.Table], columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Yield the live files of a tail and of an earlier version in tables of bounded size.

    Args:
        version: The version of the tail.
        tail: File actions of all commits since the earlier version.
        batches: Live files of the earlier version, with `stored_columns(columns)`.
        columns: As for `stream_live`.
    """
    yield from _tables(version, _rows_over_tail(version.uri, tail, batches, columns), columns)


def stored_columns(columns: Sequence[str]) -> list[str]:
    """The columns of `arrow_schemas.ADD` that must be read for `stream_live`."""
    names = set(columns) - {CANONICAL_PATH} | {"path", "deletionVector"}
    return [name for name in ADD.names if name in names]


def _tables(
    version: Version, rows: Iterable[FileRows], columns: Sequence[str]
) -> Iterator[pa.Table]:
    for files in rows:
        if "partitionValues" in columns and version.definition.partition_columns:
            _validate_partition_values(version, files.rows["partitionValues"])
        yield pa.Table.from_arrays(
            [files.paths if name == CANONICAL_PATH else files.rows[name] for name in columns],
            names=list(columns),
        )


def live_sizes(version: Version) -> pa.ChunkedArray:
    """Bytes of each live file, in no particular order."""
    if not may_repeat_files(version):
        return pa.concat_tables(stream_live(version, ["size"]))["size"]
    tables: list[pa.Table] = []

    def stream_tables() -> Iterator[pa.Table]:
        for table in stream_live(version, ["size", "path", "deletionVector"]):
            tables.append(table.select(["size"]))
            yield table

    if not all_differ(stream_tables(), version.uri):
        files = pa.concat_tables(stream_live(version, ["size", "path", "deletionVector"]))
        return drop_repeated(files, version.uri)["size"]
    return pa.concat_tables(tables)["size"]


def tombstones(version: Version, columns: Sequence[str]) -> pa.Table:
    """Removed files that the log still lists, including expired; see `Snapshot.tombstones`."""
    try:
        return _own_tombstones(version, columns)
    except LogCorruptError as error:
        return tombstones(version.equivalent(error), columns)


def naming_file(version: Version) -> AbstractContextManager[None]:
    """Context that adds the log file and line to errors about a live file's values."""
    commits = version.commits_since_checkpoint
    newest_first = range(version.version, version.version - commits, -1)

    def place_of(log_path: str) -> str:
        place = line_of_path(version.storage, version.log_directory, newest_first, log_path)
        return _file_of_checkpoint(version) if place == version.log_directory else place

    return naming_place(place_of)


def _file_of_checkpoint(version: Version) -> str:
    """The log file to report for a path in the checkpoint: its first part."""
    checkpoint = version.checkpoint
    return checkpoint.parts[0].path if checkpoint else version.log_directory


def _stream_rows(version: Version, columns: Sequence[str]) -> Iterator[FileRows]:
    """Yield the live files; if the checkpoint proves damaged, the rest from other log files."""
    done = 0
    try:
        for files in _stream_own_rows(version, columns):
            yield files
            done += 1
    except LogCorruptError as error:
        other = version.equivalent(error)
    else:
        return
    # Read the same files again, up to the damage, to skip files that were already yielded.
    seen = [
        chunk
        for files in islice(_stream_own_rows(version, columns), done)
        for chunk in file_rows(files.rows, version.uri).keys.chunks
    ]
    known = pa.chunked_array(seen, pa.string())
    for files in _stream_rows(other, columns):
        found = file_rows(files.rows, version.uri)
        yield found.filter(pc.invert(pc.is_in(found.keys, value_set=known)))


def _stream_own_rows(version: Version, columns: Sequence[str]) -> Iterator[FileRows]:
    batches: Iterator[pa.Table] = iter(())
    wanted = stored_columns(columns)
    if version.opened_checkpoint is not None:
        batches = stream_adds(version.storage, version.opened_checkpoint, wanted)
    elif version.base is not None:
        batches = stream_live(version.base, wanted)
    with naming_place(lambda _: _file_of_checkpoint(version)):
        yield from _rows_over_tail(version.uri, version.tail, batches, columns)


def _rows_over_tail(
    table_uri: str, tail: Tail, batches: Iterable[pa.Table], columns: Sequence[str]
) -> Iterator[FileRows]:
    yield tail.adds
    if len(tail):
        yield from unseen_rows(batches, tail, table_uri)
    elif CANONICAL_PATH in columns:
        yield from (file_rows(batch, table_uri) for batch in batches)
    else:
        yield from (FileRows(rows=batch) for batch in batches)


def _own_tombstones(version: Version, columns: Sequence[str]) -> pa.Table:
    names = set(columns) | {"path", "deletionVector"}
    wanted = [name for name in REMOVE.names if name in names]
    tables = [version.tail.removes.rows.select(wanted)]
    if version.opened_checkpoint is not None:
        stored = stream_removes(version.storage, version.opened_checkpoint, wanted)
    else:
        stored = iter([tombstones(version.base, wanted)] if version.base is not None else [])
    with naming_place(lambda _: _file_of_checkpoint(version)):
        tables += [files.rows for files in unseen_rows(stored, version.tail, version.uri)]
    if not any(map(len, tables)):  # true for most tables
        return _NO_REMOVES.select(list(columns))
    schema = pa.schema([REMOVE.field(name) for name in columns])
    return pa.concat_tables(tables, promote_options="none").select(schema.names).cast(schema)


def _validate_partition_values(version: Version, values: pa.ChunkedArray) -> None:
    if values.null_count:
        raise LogCorruptError(
            version.uri,
            version.log_directory,
            f"at version {version.version} there are {values.null_count} files without "
            f"partitionValues, and the table is partitioned by "
            f"{', '.join(version.definition.partition_columns)}",
        )


def may_repeat_files(version: Version) -> bool:
    """Whether the version starts from a checkpoint, which may name a file twice."""
    return version.checkpoint is not None or (
        version.base is not None and may_repeat_files(version.base)
    )

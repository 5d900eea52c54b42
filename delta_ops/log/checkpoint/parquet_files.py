"""Checkpoint files: reads chosen columns from the Parquet files of a checkpoint.

Files are read by byte ranges: many footers at a time, and columns ahead of their decoding. Arrow
only decodes bytes that are in memory. If Arrow read the files, one slow disk would block its
threads, which all tables of the process share. Errors of Arrow and of the store become errors of
delta_ops.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from delta_ops.errors import DeltaOpsError, InvalidRequestError, LogCorruptError, StorageError
from delta_ops.protocol.checkpoint_rows import Fields, stored_fields
from delta_ops.storage import FileInfo, Storage
from delta_ops.storage.concurrency import MAX_CONCURRENCY, run_ahead, run_parallel
from delta_ops.storage.parquet_ranges import (
    WINDOW_BYTES,
    Footer,
    ParquetReader,
    Window,
    leaves_among,
    open_window,
    plan_windows,
    read_footer,
    read_window,
    validate_chunks,
)
from delta_ops.storage.unchanging import forget_unchanging, read_unchanging

CURE = "delete it if the commits that it covers still exist, else restore it from a backup"
_OPTIONS: Mapping[str, Any] = {
    "coerce_int96_timestamp_unit": "us",
    "page_checksum_verification": True,
}


class Piece(NamedTuple):
    """Row groups of a part, ready to read."""

    part: FileInfo
    file: pq.ParquetFile
    row_groups: Sequence[int]
    columns: Sequence[str]


class SmallPart(NamedTuple):
    """A part in memory; uses Arrow's inner reader, since a `ParquetFile` takes twice as long."""

    reader: ParquetReader
    footer: Footer
    fields: Fields

    def read(self, columns: Collection[str]) -> list[pa.RecordBatch]:
        """Read all rows.

        Args:
            columns: As for `ParquetFile.read`.
        """
        wanted = {tuple(name.split(".")) for name in columns}
        paths = [tuple(path) for path in self.reader.column_paths]
        leaves = [i for i, path in enumerate(paths) if {path[:1], path[:2]} & wanted]
        table = self.reader.read_all(column_indices=leaves, use_threads=False)
        return list(table.to_batches())


_SMALL_BYTES = 256 << 10
_SMALL_ROWS = 10_000
"""A file within both limits is read and opened once, for everything that is needed from it."""

_DISK_READS = 2
"""Concurrent reads from a disk: the next piece is read while the current piece is decoded."""

Choose = Callable[[Fields], Sequence[str]]
"""Maps the fields of a part to the columns to read, named as in `ParquetFile.iter_batches`."""


def load_footers(storage: Storage, parts: Sequence[FileInfo]) -> dict[str, Footer]:
    """Load the footers of some files, by path.

    Raises:
        FileNotFoundError: A file is gone; the error's `filename` is the path of the part.
        LogCorruptError: A file is not a Parquet file.
    """
    footers = run_parallel(partial(_load_footer, storage), parts)
    return {part.path: footer for part, footer in zip(parts, footers, strict=True)}


def open_small(storage: Storage, part: FileInfo) -> SmallPart | None:
    """Load a small part into memory; None if it is not small.

    Raises:
        FileNotFoundError: The file is gone; the error's `filename` is the path of the part.
        LogCorruptError: The file is not a Parquet file.
    """
    if part.size > _SMALL_BYTES:
        return None
    with reading(storage, part):
        if storage.has_native_input:
            content = storage.read(part.path)
        else:
            (content,) = read_unchanging(storage, part, [(0, part.size)])
        reader = ParquetReader()
        reader.open(pa.BufferReader(content), pre_buffer=False, **_OPTIONS)
        metadata = reader.metadata
        if metadata.num_rows > _SMALL_ROWS:
            return None
        footer = Footer(metadata=metadata, size=part.size, content=content)
        return SmallPart(reader, footer, stored_fields(reader.schema_arrow))


def iter_pieces(
    storage: Storage, parts: Sequence[FileInfo], known: Mapping[str, Footer], choose: Choose
) -> Iterator[Piece]:
    """Yield the parts, in order, as pieces with the chosen columns.

    A caller may read only these columns of a piece.

    Args:
        storage: Holds the parts.
        parts: Parquet files.
        known: Footers that are already loaded, by path.
        choose: Chooses the columns to read of each part.

    Raises:
        FileNotFoundError: A part is gone; the error's `filename` is the path of the part.
        LogCorruptError: A part cannot be read.
    """
    reads = _reads(storage, _choose_columns(storage, parts, known, choose))
    max_calls = _DISK_READS if storage.has_native_input else MAX_CONCURRENCY
    with closing(run_ahead(reads, WINDOW_BYTES, max_calls)) as read:
        for part, footer, window, columns, content in read:
            with reading(storage, part):
                file = open_window(footer, content, **_OPTIONS)
            with file:
                yield Piece(part, file, window.row_groups, columns)


_Chosen = Iterator[tuple[FileInfo, Footer, Sequence[str]]]
_Read = tuple[FileInfo, Footer, Window, Sequence[str], pa.Buffer]


def _choose_columns(
    storage: Storage, parts: Sequence[FileInfo], known: Mapping[str, Footer], choose: Choose
) -> _Chosen:
    for first in range(0, len(parts), MAX_CONCURRENCY):
        group = parts[first : first + MAX_CONCURRENCY]
        footers = {**known, **load_footers(storage, [p for p in group if p.path not in known])}
        for part in group:
            footer = footers[part.path]
            with reading(storage, part):
                columns = choose(stored_fields(footer.metadata.schema.to_arrow_schema()))
            if columns:
                yield part, footer, columns


def _row_groups(footer: Footer) -> Sequence[int]:
    """All row groups: filtering by a damaged footer's statistics makes Arrow abort the process."""
    return range(footer.metadata.num_row_groups)


def _reads(storage: Storage, chosen: _Chosen) -> Iterator[tuple[int, Callable[[], _Read]]]:
    for part, footer, columns in chosen:
        with reading(storage, part):
            leaves = leaves_among(footer.metadata, columns)
            row_groups = _row_groups(footer)
            validate_chunks(footer.metadata, footer.size, leaves, row_groups)
            windows = list(plan_windows(footer, leaves, row_groups, WINDOW_BYTES // 2))
        for window in windows:
            yield window.num_bytes, partial(_read, storage, part, footer, window, columns)


def _read(
    storage: Storage, part: FileInfo, footer: Footer, window: Window, columns: Sequence[str]
) -> _Read:
    with reading(storage, part):
        return part, footer, window, columns, read_window(storage, part, footer, window)


def _load_footer(storage: Storage, part: FileInfo) -> Footer:
    with reading(storage, part):
        if not storage.has_native_input:
            return read_footer(storage, part)
        # The size in a checkpoint's sidecar action may be wrong; on a disk that does not matter.
        with storage.open_input(part.path) as source, pq.ParquetFile(source) as file:
            return Footer(metadata=file.metadata, size=source.size(), content=b"")


def delete_if_empty(storage: Storage, path: str) -> None:
    """Delete an empty file that a writer left when it died; readers skip such files."""
    try:
        if storage.stat(path).size == 0:
            storage.delete(path)
    except FileNotFoundError:
        pass


@contextmanager
def reading(storage: Storage, part: FileInfo) -> Iterator[None]:
    """Translate errors of Arrow and of the store; a `FileNotFoundError` gets the part's path."""
    try:
        yield
    except MemoryError as error:
        reason = f"it needs more memory than is available ({_first_line(error)})"
        raise StorageError(storage.locate(part.path), "read", reason) from error
    except (pa.ArrowException, ValueError, KeyError, TypeError) as error:
        raise _unreadable_error(storage, part, error) from error
    except InvalidRequestError as error:
        raise LogCorruptError(
            storage.uri,
            part.path,
            f"the checkpoint refers to it, but it is not a file name; {CURE}",
        ) from error
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), part.path) from error
    except OSError as error:
        # Arrow reports damaged pages as a plain OSError without a number. Failures of the store
        # have a number or their own type; they do not mean that the file is damaged.
        if error.errno is None and type(error) is OSError:
            raise _unreadable_error(storage, part, error) from error
        raise StorageError(storage.locate(part.path), "read", str(error)) from error
    except StorageError as error:
        if (shorter := _length_error(storage, part)) is not None:
            raise _unreadable_error(storage, part, shorter) from error
        raise


def _length_error(storage: Storage, part: FileInfo) -> ValueError | None:
    """The error for a file that is shorter than listed, which the store's error omits."""
    try:
        size = storage.stat(part.path).size
    except (OSError, DeltaOpsError):
        return None
    if size >= part.size:
        return None
    return ValueError(f"it has {size} bytes, but {part.size} were listed")


def _unreadable_error(storage: Storage, part: FileInfo, error: Exception) -> LogCorruptError:
    forget_unchanging(storage, part)
    return LogCorruptError(
        storage.uri,
        part.path,
        f"the checkpoint cannot be read ({_first_line(error)}); {CURE}",
    )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [repr(error)])[0].rstrip(".")

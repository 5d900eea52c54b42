"""Deletion vectors: reads them from files of the table and writes them.

Source: PROTOCOL.md, "Deletion Vectors".
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pyarrow as pa
from pyroaring import BitMap64

from delta_ops.errors import DataFileError, InvalidRequestError, LogPathError, StorageError
from delta_ops.log.outside_files import TableFiles
from delta_ops.protocol.actions import DeletionVector
from delta_ops.protocol.deletion_vectors import (
    MalformedVectorError,
    decode_inline,
    decode_stored,
    is_large,
    pack_vectors,
    stored_path,
    stored_range,
    validate_size,
)
from delta_ops.storage import Storage
from delta_ops.storage.own_files import create_unique
from delta_ops.storage.parquet_ranges import read_footer

_FILE_ROWS = 1 << 20
"""Approximate number of deleted rows per file: 2 MB if the rows lie far apart."""


def load_deletion_vector(
    files: TableFiles, version: int, file: str, vector: DeletionVector
) -> BitMap64:
    """Load the numbers of the deleted rows, from 0 in file order.

    Before a large vector is read, its size is compared with the rows of its data file.

    Args:
        files: The files of the table.
        version: The table's version, for messages.
        file: The data file that the vector applies to, by its canonical path.
        vector: As in the log.

    Raises:
        DataFileError: The vector is gone, truncated, or contradicts its descriptor or the file.
        OutsideFileError: The vector lies outside of the table and must not be read.
        StorageError: The store failed.
    """
    place = "in the log"
    num_rows = _count_rows(files, version, file) if is_large(vector) else None
    try:
        validate_size(vector, num_rows)
        path = stored_path(vector, files.uri)
        if path is None:
            return decode_inline(vector)
        place = path
        return decode_stored(_content(files, path, vector), vector)
    except FileNotFoundError as error:
        reason = (
            f"has a deletion vector that is missing ({place}); restore it from a backup: without "
            "it, deleted rows would come back"
        )
        raise DataFileError(files.uri, version, file, reason) from error
    except (MalformedVectorError, LogPathError, InvalidRequestError) as error:
        reason = (
            f"has a deletion vector ({place}) that cannot be used: {_first_line(error)}; restore "
            "it from a backup: without it, deleted rows would come back"
        )
        raise DataFileError(files.uri, version, file, reason) from error


def write_deletion_vectors(
    storage: Storage, vectors: Sequence[BitMap64]
) -> tuple[DeletionVector, ...]:
    """Write vectors durably, to as few new files as possible.

    Args:
        storage: The table's storage.
        vectors: Numbers of deleted rows, from 0 in file order; no vector is empty.

    Returns:
        The descriptors for the log, in the order of `vectors`.

    Raises:
        StorageError: The store failed. Files written so far are not in the log; vacuum deletes
            them.
    """
    described: list[DeletionVector] = []
    for group in _groups(vectors):
        packed = pack_vectors(group, uuid.uuid4())
        create_unique(storage, packed.path, packed.content)
        described += packed.vectors
    return tuple(described)


def discard_vectors(storage: Storage, vectors: Sequence[DeletionVector]) -> None:
    """Delete the files of vectors that no version names, now or later."""
    paths = {stored_path(each, storage.uri) for each in vectors}
    storage.delete_many(sorted(filter(None, paths)))


def _count_rows(files: TableFiles, version: int, file: str) -> int:
    """The rows of a data file by its footer; the log's statistics may be wrong."""
    try:
        storage, place = files.find(file)
        return int(read_footer(storage, storage.stat(place)).metadata.num_rows)
    except (FileNotFoundError, ValueError, pa.ArrowException) as error:
        reason = f"cannot be read ({_first_line(error)}); restore it from a backup"
        raise DataFileError(files.uri, version, file, reason) from error


def _content(files: TableFiles, path: str, vector: DeletionVector) -> bytes:
    start, end = stored_range(vector)
    storage, place = files.find(path)
    try:
        (content,) = storage.read_ranges(place, [(start, end)])
    except StorageError as error:
        # For a truncated file, a store only reports a failed read.
        if storage.stat(place).size < end:
            raise MalformedVectorError("its file is too short") from error
        raise
    return content


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".")


def _groups(vectors: Sequence[BitMap64]) -> list[list[BitMap64]]:
    groups: list[list[BitMap64]] = []
    num_rows = _FILE_ROWS
    for rows in vectors:
        if num_rows >= _FILE_ROWS:
            groups.append([])
            num_rows = 0
        groups[-1].append(rows)
        num_rows += len(rows)
    return groups

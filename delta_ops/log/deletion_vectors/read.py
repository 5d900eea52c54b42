"""Deletion vectors read: the rows of a live file that are deleted.

Source: PROTOCOL.md, "Deletion Vectors".
"""

from __future__ import annotations

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
    stored_path,
    stored_range,
    validate_size,
)
from delta_ops.storage.parquet_ranges import read_footer


def load_deletion_vector(
    files: TableFiles, version: int, file: str, vector: DeletionVector
) -> BitMap64:
    """The numbers of the deleted rows, from 0 in the order of the file.

    Of a large vector the size is compared with the rows of its data file before it is read.

    Args:
        files: The files of the table.
        version: The table's, for messages.
        file: Whose rows they are, by its canonical path.
        vector: As the log has it.

    Raises:
        DataFileError: The vector is gone, truncated, or contradicts its descriptor or the file.
        OutsideFileError: It lies outside of the table and may not be read there.
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
            f"has a deletion vector that is gone ({place}); restore it from a backup: without it, "
            "deleted rows would come back"
        )
        raise DataFileError(files.uri, version, file, reason) from error
    except (MalformedVectorError, LogPathError, InvalidRequestError) as error:
        reason = (
            f"has a deletion vector ({place}) that cannot be used: {_first_line(error)}; restore "
            "it from a backup: without it, deleted rows would come back"
        )
        raise DataFileError(files.uri, version, file, reason) from error


def _count_rows(files: TableFiles, version: int, file: str) -> int:
    """The rows of a data file by its footer, which the statistics of a log may contradict."""
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
        # A store merely fails where a file is too short.
        if storage.stat(place).size < end:
            raise MalformedVectorError("its file ends before it does") from error
        raise
    return content


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".")

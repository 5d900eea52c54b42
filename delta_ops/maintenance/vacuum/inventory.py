"""Vacuum inventory: a store's report of the files of a table.

Columns as in Delta Lake: `path` (a full address, not encoded; or relative to the table), `length`
(bytes), `isDir`, `modificationTime` (milliseconds since the Unix epoch). A report is old and may be
wrong: it only suggests files, and each file is looked up in the store before it is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from delta_ops.arrow import to_table
from delta_ops.errors import InvalidRequestError, LogPathError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.maintenance.vacuum.pre_filter import PreFilter
from delta_ops.protocol.file_paths import canonical_path, is_absolute
from delta_ops.storage.addresses import local_path_of
from delta_ops.storage.paths import is_valid, redact

_COLUMNS = {
    "path": pa.types.is_string,
    "length": pa.types.is_integer,
    "isDir": pa.types.is_boolean,
    "modificationTime": pa.types.is_integer,
}
_CSV_TYPES = {
    "path": pa.string(),
    "length": pa.int64(),
    "isDir": pa.bool_(),
    "modificationTime": pa.int64(),
}


def load_inventory(place: str, storage_options: Mapping[str, Any] | None = None) -> pa.Table:
    """Load an inventory from a local Parquet or CSV file, or from a Delta table.

    Args:
        storage_options: For the file system of a Delta table.

    Raises:
        InvalidRequestError: It cannot be read.
        DeltaOpsError: As `arrow.to_table`, for a Delta table.
    """
    kind = place.rpartition(".")[2].lower()
    if kind not in ("parquet", "csv"):
        return to_table(DeltaLog(place, storage_options))
    path = local_path_of(place)
    if path is None:
        raise InvalidRequestError(
            f"the inventory {redact(place)} is not a local file; copy it to this machine, or give "
            "a Delta table"
        )
    try:
        if kind == "parquet":
            return pq.read_table(path, columns=list(_COLUMNS), partitioning=None)
        return csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=_CSV_TYPES))
    except (OSError, pa.ArrowInvalid) as error:
        is_absent = isinstance(error, FileNotFoundError)
        reason = "there is no such file" if is_absent else str(error).partition("\n")[0]
        raise InvalidRequestError(
            f"the inventory {place} cannot be read ({reason}); give a Parquet or CSV file with the "
            f"columns {', '.join(_COLUMNS)}"
        ) from error


def validate_inventory(inventory: pa.Table) -> None:
    """Reject a table that is no inventory.

    Raises:
        InvalidRequestError: A column is missing or has a wrong type; lists the columns.
    """
    schema = inventory.schema
    for name, is_right in _COLUMNS.items():
        if schema.get_field_index(name) < 0 or not is_right(_narrow(schema.field(name).type)):
            raise InvalidRequestError(
                f"the inventory has no column {name!r} of the right type; it needs path (text), "
                "length (whole number, bytes), isDir (true or false) and modificationTime (whole "
                "number, milliseconds since 1970), and has "
                + ", ".join(f"{field.name} ({field.type})" for field in schema)
            )


def listed_paths(
    inventory: pa.Table, snapshot: Snapshot, pre_filter: PreFilter, *, horizon_ms: int
) -> Iterator[str]:
    """Files of the table that the inventory allows to delete, each once.

    Rows for other places and for directories are skipped.
    """
    seen: set[str] = set()
    for batch in inventory.select(list(_COLUMNS)).to_batches():
        columns = (batch.column(name).to_pylist() for name in ("path", "isDir", "modificationTime"))
        for address, is_directory, modified_ms in zip(*columns, strict=True):
            path = None if is_directory or not address else _path_in(address, snapshot.uri)
            if path is None or path in seen:
                continue
            seen.add(path)
            if pre_filter.may_go(path):
                if modified_ms is not None and modified_ms < horizon_ms:
                    yield path
                else:
                    pre_filter.leave_out("young")


def _path_in(address: str, table_uri: str) -> str | None:
    """The path relative to the table; None for a path outside it."""
    try:
        path = canonical_path(address.replace("%", "%25"), table_uri)  # it is not encoded
    except LogPathError:
        return None
    return path if not is_absolute(path) and is_valid(path) else None


def _narrow(data_type: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_large_string(data_type) else data_type

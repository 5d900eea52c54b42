"""Array tables: creates a table that holds one Zarr group, and opens its versions."""

from __future__ import annotations

from delta_ops.arguments import validate_arguments
from delta_ops.arrays.rows import COLUMNS, PARTITION_COLUMNS, validate_columns
from delta_ops.log import DeltaLog, Snapshot, TableOrPlace, log_of
from delta_ops.protocol.schema.arrow_types import columns_from_arrow
from delta_ops.transaction import CommitResult, begin


def create_array_table(table: TableOrPlace, *, description: str | None = None) -> CommitResult:
    """Create an empty table for one Zarr group.

    The table has a row for each key of the group, and is partitioned by node and block.

    Args:
        table: A location or handle.
        description: Any text, stored in the table's metadata.

    Raises:
        TableExistsError: There is a table already.
        StorageError: The store failed.

    Examples:
        >>> create_array_table("lake/grids").version
        0
        >>> DeltaLog("lake/grids").snapshot().partition_columns
        ('node', 'block')
    """
    validate_arguments(create_array_table, locals())
    transaction = begin(log_of(table))
    transaction.require_new_table()
    transaction.create_table(
        columns_from_arrow(COLUMNS), partition_by=PARTITION_COLUMNS, description=description
    )
    return transaction.commit(
        operation="CREATE TABLE", parameters={"partitionBy": list(PARTITION_COLUMNS)}
    )


def open_version(log: DeltaLog, version: int | None = None, ref: str | None = None) -> Snapshot:
    """Open a version of an array table, to read its blocks.

    Args:
        log: The table.
        version: The version; the latest if None and `ref` is None.
        ref: Such as `tag:2026-11` or `branch:audit`.

    Raises:
        InvalidRequestError: The table has other columns.
        TableNotFoundError, VersionNotFoundError, LogCorruptError: As `DeltaLog.snapshot`.
    """
    snapshot = log.snapshot_with_files(version) if ref is None else log.snapshot(ref=ref)
    validate_array_table(snapshot)
    return snapshot


def validate_array_table(snapshot: Snapshot) -> None:
    """Reject a version of a table that is not an array table.

    Raises:
        InvalidRequestError: The table has other columns.
    """
    validate_columns(snapshot.arrow_schema, snapshot.partition_columns, snapshot.uri)

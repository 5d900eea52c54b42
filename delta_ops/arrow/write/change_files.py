"""Change files: mark rows with their change type for the change data feed; see `change_data`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from delta_ops.arrow.read.scan import read_files
from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_values import scalar
from delta_ops.protocol.change_data import CHANGE_TYPE_COLUMN
from delta_ops.protocol.table_definition import TableDefinition


def mark_rows(batch: pa.RecordBatch, change_type: str) -> pa.RecordBatch:
    """Add the change type: insert, delete, update_preimage or update_postimage."""
    types = pa.repeat(scalar(change_type), len(batch))
    return batch.append_column(CHANGE_TYPE_COLUMN, types)


def mark_files(
    snapshot: Snapshot,
    files: Iterable[AddFile],
    change_type: str,
    definition: TableDefinition,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table's files with their change type."""
    for batch in read_files(snapshot, files, definition.arrow_schema.names, None, definition):
        yield mark_rows(batch, change_type)

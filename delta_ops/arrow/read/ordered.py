"""Ordered scan: yields the rows of files in the order of columns, see `merged_files`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from delta_ops.arrow.read.merged_files import MergedFiles, SortedBatches
from delta_ops.arrow.read.projection import plan_selection, select, unite
from delta_ops.arrow.read.reading import Request
from delta_ops.arrow.sorting import footer_order
from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.columns.mapping import physical_name
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.protocol.schema import DOUBLE, FLOAT, StructField, StructType
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema
from delta_ops.protocol.schema.char_types import char_length
from delta_ops.protocol.sort_key import find_order, stated_order
from delta_ops.storage import FileInfo
from delta_ops.storage.parquet_ranges import read_footer


def ordered_batches(
    snapshot: Snapshot,
    wanted: StructType,
    order_by: str | Sequence[str],
    plan: Callable[[StructType], Request],
) -> Iterator[pa.RecordBatch]:
    """Yield rows in the order of columns.

    Args:
        wanted: The columns of the result.
        order_by: The name of a column, or names of columns.
        plan: Plans the request for some columns.

    Raises:
        InvalidRequestError: A column does not exist, is named twice, or has no order.
    """
    fields = find_order(snapshot.definition, order_by, snapshot.uri)
    keys = select(snapshot.schema, [each.name for each in fields])
    needed = unite(snapshot.schema, [wanted, keys])
    request = plan(needed)
    # Padding may change the order.
    is_stored_so = all(char_length((each.name,), each) is None for each in fields)
    merged = MergedFiles(
        snapshot=snapshot,
        order=fields,
        schema=arrow_schema_from_schema(needed),
        read=lambda add: request.read([add]),
        sorted_parts=lambda add: (
            _sorted_parts(add, fields, snapshot, request) if is_stored_so else ()
        ),
    )
    keep = plan_selection(*map(arrow_schema_from_schema, (needed, wanted)))
    return map(keep, merged.batches(request.files))


def _sorted_parts(
    add: AddFile, order: Sequence[StructField], snapshot: Snapshot, request: Request
) -> Sequence[SortedBatches]:
    num_parts = count_sorted_parts(add, order, snapshot)
    if num_parts < 2:
        return [request.read([add])] * num_parts
    return [request.read_row_group(add, number) for number in range(num_parts)]


def count_sorted_parts(add: AddFile, order: Sequence[StructField], snapshot: Snapshot) -> int:
    """How many parts of a file say that their rows, as they are stored, are sorted by columns.

    Returns:
        1 for a whole file, by its tag in the log or by the footer of its only row group; otherwise
        the number of its row groups, if the footer says so of all; 0 if nothing says so.
    """
    if any(each.data_type in (FLOAT, DOUBLE) for each in order):
        return 0  # the order of NaN is not defined
    names = [physical_name(each) for each in order]
    if stated_order(add)[: len(names)] == names:
        return 1
    storage, path = snapshot.table_files.find(canonical_path(add.path, snapshot.uri))
    footer = read_footer(storage, FileInfo(path, add.size, modified_ms=0)).metadata
    return footer.num_row_groups if _footer_states_order(footer, names) else 0


def _footer_states_order(footer: pq.FileMetaData, names: Sequence[str]) -> bool:
    """Whether the rows of each row group are sorted."""
    stored = footer.schema.to_arrow_schema()
    if not set(names) <= set(stored.names):
        return False
    wanted = footer_order(stored, names)
    groups = map(footer.row_group, range(footer.num_row_groups))
    return wanted is not None and all(
        list(group.sorting_columns[: len(wanted)]) == wanted for group in groups
    )

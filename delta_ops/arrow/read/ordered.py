"""Ordered scan: yields the rows of files in the order of columns, see `merged_files`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from delta_ops.arrow.read.merged_files import MergedFiles
from delta_ops.arrow.read.projection import plan_selection, select, unite
from delta_ops.arrow.read.reading import ReadFiles
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
    order_by: Sequence[str],
    plan: Callable[[StructType], tuple[Iterable[AddFile], ReadFiles]],
) -> Iterator[pa.RecordBatch]:
    """Yield rows in the order of columns.

    Args:
        wanted: The columns of the result.
        order_by: Names of columns.
        plan: Returns the files of a request for some columns, and how their rows are read.

    Raises:
        InvalidRequestError: A column does not exist, is named twice, or has no order.
    """
    fields = find_order(snapshot.definition, order_by, snapshot.uri)
    keys = select(snapshot.schema, [each.name for each in fields])
    needed = unite(snapshot.schema, [wanted, keys])
    files, read = plan(needed)
    # Padding may change the order.
    is_stored_so = all(char_length((each.name,), each) is None for each in fields)
    merged = MergedFiles(
        snapshot=snapshot,
        order=fields,
        schema=arrow_schema_from_schema(needed),
        read=lambda add: read([add]),
        states_order=lambda add: is_stored_so and states_order(add, fields, snapshot),
    )
    keep = plan_selection(*map(arrow_schema_from_schema, (needed, wanted)))
    return map(keep, merged.batches(files))


def states_order(add: AddFile, order: Sequence[StructField], snapshot: Snapshot) -> bool:
    """Whether a file says that its rows, as they are stored, are sorted by columns.

    Its tag in the log says so, or the footer of a file with one row group.
    """
    if any(each.data_type in (FLOAT, DOUBLE) for each in order):
        return False  # the order of NaN is not defined
    names = [physical_name(each) for each in order]
    if stated_order(add)[: len(names)] == names:
        return True
    storage, path = snapshot.table_files.find(canonical_path(add.path, snapshot.uri))
    footer = read_footer(storage, FileInfo(path, add.size, modified_ms=0)).metadata
    return _footer_states_order(footer, names)


def _footer_states_order(footer: pq.FileMetaData, names: Sequence[str]) -> bool:
    stored = footer.schema.to_arrow_schema()
    if footer.num_row_groups != 1 or not set(names) <= set(stored.names):
        return False
    stated = footer.row_group(0).sorting_columns
    wanted = footer_order(stored, names)
    return wanted is not None and list(stated[: len(wanted)]) == wanted

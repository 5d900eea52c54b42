"""Rewrite the rows of a group into other files, in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext

import pyarrow as pa

from delta_ops.arguments import validate_arguments
from delta_ops.arrow.dictionary_columns import encode_alike
from delta_ops.arrow.memory_pools import returning_memory, sparing_memory
from delta_ops.arrow.read.count import num_live_rows
from delta_ops.arrow.read.reading import CountedRows
from delta_ops.arrow.read.scan import plan_reading_kept
from delta_ops.arrow.rewrite.merge_rewrite import write_merged
from delta_ops.arrow.rewrite.ordered_rewrite import MEMORY_BYTES, WriteFile, write_in_order
from delta_ops.arrow.write.data_file import DataFileWriter, row_groups
from delta_ops.arrow.write.written_files import all_or_none
from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.row_rules import not_null_rules
from delta_ops.protocol.row_tracking import tracked_definition
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema
from delta_ops.protocol.table_definition import validate
from delta_ops.transaction import CurveOrder, KeyOrder, RewriteGroup, Staged

_LEAST_ROW_GROUP_BYTES = 1 << 20
_LEAST_COLUMN_BYTES = 32 << 10
"""With very many columns, a row group costs more than its rows."""
_NEIGHBOURS_ROWS, _NEIGHBOURS_BYTES = 262_144, 8 << 20
"""Approximate limits of a row group when several threads hold one each. Sorted rows take more space
in such row groups."""


def rewrite(snapshot: Snapshot, group: RewriteGroup, *, memory_bytes: int = MEMORY_BYTES) -> Staged:
    """Rewrite the rows of a group, in the order of its files or in `group.order`.

    Args:
        memory_bytes: Approximate bytes of rows that are held at once. Rows to sort beyond that are
            spilled to a temporary folder, which needs space for all rows of the group.

    Raises:
        DataFileError: An input file is missing or unreadable.
        InvalidRequestError: A row breaks a rule of the table.
        UnsupportedFeatureError: The table uses a feature that this engine cannot write.

    Examples:
        >>> from delta_ops.maintenance import optimize
        >>> _ = da.write("lake/orders", da.to_table("lake/orders"))
        >>> optimize("lake/orders", engine=da.rewrite).files_removed
        2
    """
    validate_arguments(rewrite, locals())
    definition = group.definition or snapshot.definition
    validate(definition, "write", table=snapshot.uri, engine="arrow")
    stored = tracked_definition(definition, snapshot.uri)
    file_schema = arrow_schema_from_schema(stored.data_schema)
    writer = DataFileWriter(
        snapshot.storage, file_schema, stored, group.clustering_columns(snapshot)
    )
    partition_values = _partition_values(snapshot, group)
    names = file_schema.names

    is_merged = isinstance(group.order, KeyOrder)

    def write_file(batches: Iterable[pa.RecordBatch]) -> AddFile:
        # Each file holds two row groups: one is encoded while the other is read.
        wide_bytes = min(_LEAST_COLUMN_BYTES * len(names), memory_bytes // 4)
        most_bytes = max(memory_bytes // 8, wide_bytes, _LEAST_ROW_GROUP_BYTES)
        if group.order is None:
            groups = row_groups(batches, most_bytes, _NEIGHBOURS_ROWS, _NEIGHBOURS_BYTES)
        else:
            groups = row_groups(batches, most_bytes)
        return writer.write(groups, partition_values, data_change=False, is_sorted=is_merged)

    # Giving memory back takes time, since its pages are requested again. A sorted rewrite holds all
    # rows anyway.
    returns_memory = not isinstance(group.order, CurveOrder) or memory_bytes < MEMORY_BYTES
    adds: Sequence[AddFile]
    with sparing_memory(), returning_memory() if returns_memory else nullcontext():
        names = file_schema.names
        match group.order:
            case KeyOrder():
                adds, num_rows = write_merged(
                    snapshot, group, group.order, write_file, file_schema, memory_bytes
                )
            case CurveOrder():
                adds, num_rows = write_in_order(
                    snapshot, group, group.order, write_file, names, memory_bytes
                )
            case None:
                adds, num_rows = _write_neighbours(snapshot, group, write_file, names, memory_bytes)
    return Staged(
        adds=tuple(adds),
        schema=definition.schema,
        partition_columns=definition.partition_columns,
        num_rows=num_rows,
        row_rules=frozenset(not_null_rules(definition.schema)),
    )


def _partition_values(snapshot: Snapshot, group: RewriteGroup) -> Mapping[str, str | None]:
    names = snapshot.definition.partition_names
    values = group.files[0].partition_values if group.files else {}
    return {name: values.get(in_log) for name, in_log in names.items()}


def _write_neighbours(
    snapshot: Snapshot,
    group: RewriteGroup,
    write_file: WriteFile,
    names: list[str],
    memory_bytes: int,
) -> tuple[Sequence[AddFile], int]:
    read: list[CountedRows] = []
    ahead_bytes = memory_bytes // 2
    read_rows = plan_reading_kept(snapshot, names, ahead_bytes=ahead_bytes, encoded=names)
    with all_or_none(snapshot.storage) as written:
        for files in outputs(group):
            num_files = round(sum(add.size for add in files) / group.target_size_bytes)
            most = None
            if num_files > 1:
                most = max(1, -(-num_live_rows(snapshot, files) // num_files))
            rows = CountedRows(read_rows(files))
            read.append(rows)
            for part in _cut(encode_alike(rows), most):
                written.keep([write_file(part)])
    return written.adds, sum(each.num_rows for each in read)


def _cut(batches: Iterator[pa.RecordBatch], most: int | None) -> Iterator[Iterator[pa.RecordBatch]]:
    """Split rows into parts of a maximum size; consume each part before the next."""
    rest: list[pa.RecordBatch] = []

    def part(batch: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
        taken = 0
        while batch is not None:
            if most is not None and taken + len(batch) >= most:
                if len(batch) > most - taken:
                    rest.append(batch.slice(most - taken))
                yield batch.slice(0, most - taken)
                return
            taken += len(batch)
            yield batch
            batch = next(batches, None)

    # All rows of a file may be deleted.
    while (first := rest.pop() if rest else next(batches, None)) is not None:
        yield part(first)


def outputs(group: RewriteGroup) -> Iterator[list[AddFile]]:
    """Yield the input files of each output file.

    These are neighbours with at most the target size in total, or one larger file to split.
    """
    pending: list[AddFile] = []
    size = 0
    for add in group.files:
        if pending and size + add.size > group.target_size_bytes:
            yield pending
            pending, size = [], 0
        pending.append(add)
        size += add.size
    if pending:
        yield pending

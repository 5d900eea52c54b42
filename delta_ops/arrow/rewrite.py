"""Execute a rewrite group in this process: the same rows in fewer files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from delta_ops.arguments import validate_arguments
from delta_ops.arrow.data_file_write import DataFileWriter, discard, row_groups
from delta_ops.arrow.scan import read_kept
from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_types import arrow_schema_from_schema
from delta_ops.protocol.row_rules import not_null_rules
from delta_ops.protocol.row_tracking import tracked_definition
from delta_ops.protocol.table_definition import validate
from delta_ops.transaction import RewriteGroup, Staged


def rewrite(snapshot: Snapshot, group: RewriteGroup) -> Staged:
    """Write the group's rows again, in the order of its files.

    Raises:
        DataFileError: An input file is gone or cannot be read.
        InvalidRequestError: A row breaks a rule of the table.
        UnsupportedFeatureError: The table uses what this engine cannot write.
    """
    validate_arguments(rewrite, locals())
    definition = snapshot.definition
    validate(definition, "write", table=snapshot.uri, engine="arrow")
    stored = tracked_definition(definition, snapshot.uri)
    file_schema = arrow_schema_from_schema(stored.data_schema)
    names = file_schema.names
    num_rows = 0

    def rows(files: Sequence[AddFile]) -> Iterator[pa.RecordBatch]:
        nonlocal num_rows
        for batch in read_kept(snapshot, files, names):
            num_rows += len(batch)
            yield batch

    writer = DataFileWriter(snapshot.storage, file_schema, stored, snapshot.clustering_columns)
    adds: list[AddFile] = []
    try:
        for files in outputs(group):
            partition_values = {
                name: files[0].partition_values.get(in_log)
                for name, in_log in definition.partition_names.items()
            }
            adds.append(writer.write(row_groups(rows(files)), partition_values, data_change=False))
    except BaseException:  # an interrupt too would leave files that nobody names
        discard(snapshot.storage, adds)
        raise
    return Staged(
        adds=tuple(adds),
        schema=definition.schema,
        partition_columns=definition.partition_columns,
        num_rows=num_rows,
        row_rules=frozenset(not_null_rules(definition.schema)),
    )


def outputs(group: RewriteGroup) -> Iterator[list[AddFile]]:
    """The input files of each output file: neighbours, together about the target size."""
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

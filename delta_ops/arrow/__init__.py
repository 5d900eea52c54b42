"""The engine without a JVM: Delta tables as Arrow data, in this process."""

from delta_ops.arrow.changes import read_changes
from delta_ops.arrow.convert import convert
from delta_ops.arrow.existing_rows import check_rows
from delta_ops.arrow.rewrite import rewrite
from delta_ops.arrow.scan import count_rows, export_schema, to_batches, to_table
from delta_ops.arrow.write import stage_write, write

__all__ = [
    "check_rows",
    "convert",
    "count_rows",
    "export_schema",
    "read_changes",
    "rewrite",
    "stage_write",
    "to_batches",
    "to_table",
    "write",
]

"""The engine without a JVM: Delta tables as Arrow data, in this process."""

from delta_ops.arrow.changes import read_changes
from delta_ops.arrow.convert import convert
from delta_ops.arrow.delete import delete
from delta_ops.arrow.existing_rows import check_rows
from delta_ops.arrow.merge import Merge, merge
from delta_ops.arrow.rewrite import rewrite
from delta_ops.arrow.scan import count_rows, export_schema, to_batches, to_table
from delta_ops.arrow.update import update
from delta_ops.arrow.write import stage_write, write

__all__ = [
    "Merge",
    "check_rows",
    "convert",
    "count_rows",
    "delete",
    "export_schema",
    "merge",
    "read_changes",
    "rewrite",
    "stage_write",
    "to_batches",
    "to_table",
    "update",
    "write",
]

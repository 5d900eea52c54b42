"""The engine without a JVM: Delta tables as Arrow data, in this process."""

from delta_ops.arrow.convert.convert import convert
from delta_ops.arrow.dml.delete import delete
from delta_ops.arrow.dml.merge import Merge, merge
from delta_ops.arrow.dml.update import update
from delta_ops.arrow.existing_rows import check_rows
from delta_ops.arrow.read.changes import read_changes
from delta_ops.arrow.read.scan import count_rows, export_schema, to_batches, to_table
from delta_ops.arrow.rewrite.rewrite import rewrite
from delta_ops.arrow.write.write import stage_write, write

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

"""The engine without a JVM: Delta tables as Arrow data, in this process."""

from delta_ops.arrow.changes import read_changes
from delta_ops.arrow.rewrite import rewrite
from delta_ops.arrow.scan import to_batches, to_table
from delta_ops.arrow.write import stage_write, write

__all__ = ["read_changes", "rewrite", "stage_write", "to_batches", "to_table", "write"]

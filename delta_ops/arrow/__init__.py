"""The engine without a JVM: Delta tables as Arrow data, in this process."""

from typing import TYPE_CHECKING

from delta_ops.late_imports import late_names

if TYPE_CHECKING:
    from delta_ops.arrow.convert.convert import convert
    from delta_ops.arrow.existing_rows import check_rows
    from delta_ops.arrow.read.changes import read_changes
    from delta_ops.arrow.read.count import count_rows
    from delta_ops.arrow.read.diff_rows import diff_rows
    from delta_ops.arrow.read.explain import explain_scan
    from delta_ops.arrow.read.scan import export_schema, to_batches, to_table
    from delta_ops.arrow.rewrite.rewrite import rewrite
    from delta_ops.arrow.verbs import delete, merge, stage_write, update, write
    from delta_ops.transaction.merge import Merge
else:
    late_names(
        __name__,
        {
            "delta_ops.arrow.convert.convert": ["convert"],
            "delta_ops.arrow.existing_rows": ["check_rows"],
            "delta_ops.arrow.read.changes": ["read_changes"],
            "delta_ops.arrow.read.count": ["count_rows"],
            "delta_ops.arrow.read.diff_rows": ["diff_rows"],
            "delta_ops.arrow.read.explain": ["explain_scan"],
            "delta_ops.arrow.read.scan": ["export_schema", "to_batches", "to_table"],
            "delta_ops.arrow.rewrite.rewrite": ["rewrite"],
            "delta_ops.arrow.verbs": ["delete", "merge", "stage_write", "update", "write"],
            "delta_ops.transaction.merge": ["Merge"],
        },
    )

__all__ = [
    "Merge",
    "check_rows",
    "convert",
    "count_rows",
    "delete",
    "diff_rows",
    "explain_scan",
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

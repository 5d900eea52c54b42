"""The Spark engine: reads and writes native Parquet; delta_ops reads and writes the log."""

try:
    import pyspark as _pyspark  # noqa: F401
except ImportError as error:
    from delta_ops.errors import MissingDependencyError

    raise MissingDependencyError(
        "delta_ops.spark needs the package pyspark; install it with: pip install 'delta_ops[spark]'"
    ) from error

from delta_ops.spark.installed_version import unexpected_lack

try:
    from delta_ops.spark.read.changes import read_changes
    from delta_ops.spark.read.diff_rows import diff_rows
    from delta_ops.spark.read.read import read
    from delta_ops.spark.registration import register, unregister
    from delta_ops.spark.session.packages import packages
    from delta_ops.spark.session.progress import show_progress
    from delta_ops.spark.session.session import get_session
    from delta_ops.spark.streaming.read import read_stream
    from delta_ops.spark.streaming.write import write_stream
    from delta_ops.spark.verbs import (
        check_rows,
        delete,
        merge,
        rewrite,
        stage_write,
        update,
        write,
    )
    from delta_ops.spark.write.file_statistics import file_statistics
except ImportError as error:
    if not (error.name or "").startswith("pyspark"):
        raise
    raise unexpected_lack(error) from error
from delta_ops.transaction.merge import Merge

__all__ = [
    "Merge",
    "check_rows",
    "delete",
    "diff_rows",
    "file_statistics",
    "get_session",
    "merge",
    "packages",
    "read",
    "read_changes",
    "read_stream",
    "register",
    "rewrite",
    "show_progress",
    "stage_write",
    "unregister",
    "update",
    "write",
    "write_stream",
]

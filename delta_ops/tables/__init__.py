"""delta-spark's `delta.tables` without its jar: replace one import by another.

    from delta_ops.tables import DeltaTable, configure_spark_with_delta_pip

Names, arguments, defaults, return values and exception types are the same as in delta-spark;
`docs/delta-tables.md` lists the differences.
"""

import delta_ops.spark as _spark  # noqa: F401  # without PySpark, its error names the package
from delta_ops.tables.configure import configure_spark_with_delta_pip
from delta_ops.tables.delta_table import DeltaTable
from delta_ops.tables.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
from delta_ops.tables.merge_builder import DeltaMergeBuilder
from delta_ops.tables.optimize_builder import DeltaOptimizeBuilder
from delta_ops.tables.table_builder import DeltaTableBuilder, IdentityGenerator

__all__ = [
    "ConcurrentAppendException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentDeleteReadException",
    "ConcurrentTransactionException",
    "ConcurrentWriteException",
    "DeltaConcurrentModificationException",
    "DeltaMergeBuilder",
    "DeltaOptimizeBuilder",
    "DeltaTable",
    "DeltaTableBuilder",
    "IdentityGenerator",
    "MetadataChangedException",
    "ProtocolChangedException",
    "configure_spark_with_delta_pip",
]

"""delta-spark's `delta.tables` without its jar: one import in place of another.

    from delta_ops.tables import DeltaTable, configure_spark_with_delta_pip

Names, arguments, defaults and return values are those of delta-spark, and so are the types of its
exceptions; `docs/delta-tables.md` says what differs.
"""

import delta_ops.spark as _spark  # noqa: F401  # without PySpark it says what to install
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

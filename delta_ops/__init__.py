"""Run Delta Lake tables: the log in Python, the data on Spark or Arrow, and maintenance.

    from delta_ops import DeltaLog, begin, col

Importing this package imports neither pyspark nor dagster.
"""

from delta_ops.log import DeltaLog, Snapshot
from delta_ops.protocol.predicate import col, parse_predicate
from delta_ops.storage import RangeCache
from delta_ops.transaction import CommitResult, Transaction, begin

__all__ = [
    "CommitResult",
    "DeltaLog",
    "RangeCache",
    "Snapshot",
    "Transaction",
    "begin",
    "col",
    "parse_predicate",
]

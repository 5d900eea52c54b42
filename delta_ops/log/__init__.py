"""The Delta log: reads and writes the log directory of a table.

`DeltaLog` is the handle of a table, `Snapshot` the table at one version.
"""

from delta_ops.log.delta_log import DeltaLog, Source, TableOrPlace, log_of, snapshot_of
from delta_ops.log.history.history import HistoryEntry
from delta_ops.log.snapshot import Snapshot
from delta_ops.log.version.indexes.wanted import KeysOf
from delta_ops.log.version.scan_plan import ScanPlan, ScanStep, plan_scan

__all__ = [
    "DeltaLog",
    "HistoryEntry",
    "KeysOf",
    "ScanPlan",
    "ScanStep",
    "Snapshot",
    "Source",
    "TableOrPlace",
    "log_of",
    "plan_scan",
    "snapshot_of",
]

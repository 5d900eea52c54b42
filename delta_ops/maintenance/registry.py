"""Registry of the maintenance operations, in the order of execution.

Registering an operation here is enough: jobs, sensors, checks, the terminal and pages follow.

1. vacuum finds removed files by tombstones, which the next checkpoint drops;
2. optimize, purge and repair make commits that belong in the checkpoint;
3. indexes are refreshed after optimize, which makes new files;
4. checkpoint limits how far the log can be cleaned up;
5. scan_cache orders the live files of a checkpoint;
6. clean_up_log;
7. compact_log is never due, because only some engines read compactions.

Decisions are pure: the same facts and thresholds give the same due operations to every caller.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from delta_ops.errors import InvalidRequestError, UnsupportedFeatureError
from delta_ops.log import Snapshot
from delta_ops.maintenance.admission import validate_format
from delta_ops.maintenance.checkpoint.operation import CHECKPOINT
from delta_ops.maintenance.indexes.operation import REFRESH_INDEXES
from delta_ops.maintenance.log_cleanup.operation import CLEAN_UP_LOG
from delta_ops.maintenance.log_compaction.operation import COMPACT_LOG
from delta_ops.maintenance.operation import OperationEntry
from delta_ops.maintenance.optimize.operation import OPTIMIZE
from delta_ops.maintenance.purge.operation import PURGE
from delta_ops.maintenance.repair.operation import REPAIR
from delta_ops.maintenance.scan_cache.operation import SCAN_CACHE
from delta_ops.maintenance.thresholds import Facts, Finding, HealthThresholds
from delta_ops.maintenance.vacuum.operation import VACUUM
from delta_ops.protocol.features import Operation as Needed
from delta_ops.protocol.table_definition import validate

OPERATIONS: tuple[OperationEntry[Any], ...] = (
    VACUUM,
    OPTIMIZE,
    PURGE,
    REPAIR,
    REFRESH_INDEXES,
    CHECKPOINT,
    SCAN_CACHE,
    CLEAN_UP_LOG,
    COMPACT_LOG,
)

if TYPE_CHECKING:
    Operation = str
else:
    Operation = Literal[tuple(entry.name for entry in OPERATIONS)]
    """The name of an operation."""


def entry_of(operation: Operation) -> OperationEntry[Any]:
    """The entry of an operation.

    Raises:
        InvalidRequestError: There is no such operation.
    """
    for entry in OPERATIONS:
        if entry.name == operation:
            return entry
    names = ", ".join(entry.name for entry in OPERATIONS)
    raise InvalidRequestError(f"there is no operation {operation!r}; choose from {names}")


def findings_of_operations(facts: Facts, thresholds: HealthThresholds) -> tuple[Finding, ...]:
    """Findings of all operations, which decide whether each operation is due."""
    return tuple(each for entry in OPERATIONS for each in entry.findings(facts, thresholds))


def due_operations(findings: Iterable[Finding]) -> tuple[Operation, ...]:
    """The operations that findings make due, in order, also refused operations."""
    due = {each.operation for each in findings if each.verdict == "due"}
    return tuple(entry.name for entry in OPERATIONS if entry.name in due)


def refusals(snapshot: Snapshot) -> dict[Operation, tuple[str, ...]]:
    """The operations that must not change the table, each with the reasons."""
    try:
        validate_format(snapshot)
    except UnsupportedFeatureError as error:
        return {entry.name: error.features for entry in OPERATIONS}
    by_features = {each: _lacking(snapshot, each) for each in {e.needs for e in OPERATIONS}}
    refused = {e.name: e.refusal(snapshot) or by_features[e.needs] for e in OPERATIONS}
    return {name: reason for name, reason in refused.items() if reason}


def _lacking(snapshot: Snapshot, needed: Needed) -> tuple[str, ...]:
    try:
        validate(snapshot.definition, needed, table=snapshot.uri, engine=None)
    except UnsupportedFeatureError as error:
        return error.features
    return ()

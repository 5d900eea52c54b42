"""Maintenance rules: thresholds, operations and options for one or all tables of a fleet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from delta_ops.maintenance.health.figures import HealthFigures
from delta_ops.maintenance.health.report import DEFAULT_THRESHOLDS
from delta_ops.maintenance.registry import Operation
from delta_ops.maintenance.thresholds import HealthThresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceRules:
    """Thresholds of a table, and the operations that may run, with their options.

    Examples:
        >>> rules = MaintenanceRules(operations=["vacuum"], options={"vacuum": {"keep_last": 10}})
    """

    thresholds: HealthThresholds = DEFAULT_THRESHOLDS
    """Limits that make an operation due."""
    operations: Sequence[Operation] | None = None
    """Operations that may run when they are due; None: all of them."""
    options: Mapping[Operation, Mapping[str, Any]] = field(default_factory=dict)
    """Arguments by operation, such as `{"vacuum": {"mode": "lite"}}`."""

    def allows(self, operation: Operation) -> bool:
        """Whether the operation may run when it is due."""
        return self.operations is None or operation in self.operations


RulesOf = Callable[[str, HealthFigures], MaintenanceRules]
"""Returns the rules of a table from its URI and its figures."""

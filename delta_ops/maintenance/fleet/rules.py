"""Maintenance rules: what a fleet's tables are looked after by, all alike or each by its own."""

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
    """What is due for a table, what of it may run, and how."""

    thresholds: HealthThresholds = DEFAULT_THRESHOLDS
    """From where on an operation is due."""
    operations: Sequence[Operation] | None = None
    """Operations that are run when they are due; None: all of them."""
    options: Mapping[Operation, Mapping[str, Any]] = field(default_factory=dict)
    """Arguments of operations, as `{"vacuum": {"mode": "lite"}}`."""

    def allows(self, operation: Operation) -> bool:
        """Whether the operation may run when it is due."""
        return self.operations is None or operation in self.operations


RulesOf = Callable[[str, HealthFigures], MaintenanceRules]
"""The rules of a table, by its URI and its figures."""

"""Repair as a registered operation: fills in statistics and reports other faults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from delta_ops.maintenance.operation import OperationEntry, Request
from delta_ops.maintenance.repair.act import RepairResult, repair
from delta_ops.maintenance.thresholds import Facts, Finding, HealthThresholds, due_finding


def _arguments(request: Request) -> dict[str, Any]:
    return {"clock": request.clock, "on_event": request.on_event}


def _findings(facts: Facts, limits: HealthThresholds) -> Sequence[Finding]:
    coverage = 1.0 if facts.stats_coverage is None else facts.stats_coverage
    return [
        due_finding(
            "stats_coverage",
            coverage,
            limits.stats_coverage,
            "share",
            operation="repair",
            cure="repair adds statistics: reads cannot skip a file without statistics",
            is_due=coverage < limits.stats_coverage,
        )
    ]


def _planned_figures(result: RepairResult) -> dict[str, int]:
    return {"statistics_planned": len(result.plan.without_statistics)}


def _figures(result: RepairResult) -> dict[str, int]:
    return {"described_files": result.described_files, "repair_failures": len(result.failures)}


def _json(result: RepairResult) -> dict[str, Any]:
    plan = result.plan
    return {
        "planned_on": plan.version,
        "num_files": plan.num_files,
        "missing": [add.path for add in plan.missing],
        "missing_deletion_vectors": [add.path for add in plan.missing_vectors],
        "truncated": [add.path for add in plan.truncated],
        "without_statistics": [add.path for add in plan.without_statistics],
        "orphans": [info.path for info in plan.orphans],
        "outside": plan.outside,
        "version": result.version,
        "already_committed": result.already_committed,
        "described_files": result.described_files,
        "removed_files": result.removed_files,
        "failures": result.failures,
    }


def _remaining_faults(result: RepairResult) -> Sequence[str]:
    return result.left


REPAIR = OperationEntry(
    name="repair",
    needs="restore",
    act=repair,
    arguments=_arguments,
    planned=_planned_figures,
    figures=_figures,
    json=_json,
    findings=_findings,
    opens_data_files=True,
    left=_remaining_faults,
)

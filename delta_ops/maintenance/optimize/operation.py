"""Optimize as an entry of maintenance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from delta_ops.maintenance.due import Facts, Finding, HealthThresholds, due_finding
from delta_ops.maintenance.operation import OperationEntry, Request
from delta_ops.maintenance.optimize.act import OptimizeResult, optimize


def _arguments(asked: Request) -> dict[str, Any]:
    return {
        "engine": asked.engine,
        "clock": asked.clock,
        "user_metadata": asked.user_metadata,
        "on_event": asked.on_event,
    }


def _findings(facts: Facts, limits: HealthThresholds) -> Sequence[Finding]:
    return [
        due_finding(
            "small_files",
            facts.mergeable_files,
            limits.small_files,
            "files",
            operation="optimize",
            cure="optimize: small files of a partition fit together",
        )
    ]


def _planned_figures(result: OptimizeResult) -> dict[str, int]:
    return {
        "compaction_files_planned": result.plan.num_files,
        "compaction_bytes_planned": result.plan.size_bytes,
    }


def _figures(result: OptimizeResult) -> dict[str, int]:
    return {
        "compacted_files": result.files_removed,
        "files_after_compaction": result.files_added,
        "compacted_bytes": result.bytes_removed,
    }


def _json(result: OptimizeResult) -> dict[str, Any]:
    plan = result.plan
    return {
        "target_size_bytes": plan.target_size_bytes,
        "planned_groups": len(plan.groups),
        "planned_files": plan.num_files,
        "planned_bytes": plan.size_bytes,
        "version": result.version,
        "already_committed": result.already_committed,
        "removed_files": result.files_removed,
        "added_files": result.files_added,
        "removed_bytes": result.bytes_removed,
        "added_bytes": result.bytes_added,
    }


OPTIMIZE = OperationEntry(
    name="optimize",
    needs="write",
    act=optimize,
    arguments=_arguments,
    planned=_planned_figures,
    figures=_figures,
    json=_json,
    findings=_findings,
    opens_data_files=True,
)

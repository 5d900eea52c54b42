"""Log clean-up as a registered operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from delta_ops.log import Snapshot
from delta_ops.maintenance.admission import is_of_branch
from delta_ops.maintenance.log_cleanup.act import LogCleanupResult, clean_up_log
from delta_ops.maintenance.operation import OperationEntry, Request
from delta_ops.maintenance.thresholds import Facts, Finding, HealthThresholds, due_finding
from delta_ops.protocol.values.wide_timestamps import utc_text


def _arguments(request: Request) -> dict[str, Any]:
    return {
        "clock": request.own_clock,
        "keep_versions": request.keep_versions,
        "on_event": request.on_event,
    }


def _findings(facts: Facts, limits: HealthThresholds) -> Sequence[Finding]:
    return [
        due_finding(
            "expired_log_files",
            facts.deletable_log_files if facts.cleanup_is_enabled else 0,
            limits.expired_log_files,
            "files",
            operation="clean_up_log",
            cure="clean up the log: its oldest files are past their retention",
        )
    ]


def _refusal(snapshot: Snapshot) -> tuple[str, ...]:
    return ("the log of a branch",) if is_of_branch(snapshot) else ()


def _planned_figures(result: LogCleanupResult) -> dict[str, int]:
    plan = result.plan
    return {"log_files_planned": len(plan.files), "log_bytes_planned": plan.size_bytes}


def _figures(result: LogCleanupResult) -> dict[str, int]:
    return {
        "log_files_deleted": result.deleted_files,
        "log_bytes_deleted": result.deleted_bytes,
        "log_clean_up_failures": len(result.failures),
        **_known_figure("earliest_version_before", result.plan.earliest_before),
        **_known_figure("earliest_version", result.earliest_version),
    }


def _known_figure(name: str, value: int | None) -> dict[str, int]:
    return {} if value is None else {name: value}


def _json(result: LogCleanupResult) -> dict[str, Any]:
    plan = result.plan
    return {
        "cutoff": utc_text(plan.cutoff_ms),
        "boundary_version": plan.boundary_version,
        "earliest_version_before": plan.earliest_before,
        "earliest_version_after": plan.earliest_after,
        "earliest_version": result.earliest_version,
        "latest_version": plan.latest_version,
        "compatible_checkpoint_version": plan.compatible_version,
        "planned_by_kind": {
            "incomplete_checkpoint_files": len(plan.incomplete),
            "commits": len(plan.commits),
            "checkpoint_files": len(plan.checkpoints),
            "compactions": len(plan.compactions),
            "checksums": len(plan.checksums),
            "sidecars": len(plan.sidecars),
            "leftovers": len(plan.leftovers),
            "unused_anchors": len(plan.unused_anchors),
        },
        "anchored_versions": plan.anchored,
        "planned_files": len(plan.files),
        "planned_bytes": plan.size_bytes,
        "deleted_files": result.deleted_files,
        "deleted_bytes": result.deleted_bytes,
        "failures": result.failures,
        "paths": [info.path for info in plan.files] if result.dry_run else None,
    }


def _savings(result: LogCleanupResult) -> dict[str, int]:
    return {"bytes": result.deleted_bytes}


CLEAN_UP_LOG = OperationEntry(
    name="clean_up_log",
    needs="clean up",
    act=clean_up_log,
    arguments=_arguments,
    planned=_planned_figures,
    figures=_figures,
    json=_json,
    findings=_findings,
    refusal=_refusal,
    saved=_savings,
)

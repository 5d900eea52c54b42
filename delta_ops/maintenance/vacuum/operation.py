"""Vacuum as a registered operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from delta_ops.log import Snapshot
from delta_ops.log.delta_log import LOG_DIRECTORY
from delta_ops.maintenance.admission import is_own_log
from delta_ops.maintenance.operation import OperationEntry, Option, Request
from delta_ops.maintenance.thresholds import Facts, Finding, HealthThresholds, due_finding
from delta_ops.maintenance.vacuum.act import vacuum
from delta_ops.maintenance.vacuum.result import VacuumResult
from delta_ops.protocol.values.wide_timestamps import utc_text


def _arguments(request: Request) -> dict[str, Any]:
    return {
        "clock": request.own_clock,
        "user_metadata": request.user_metadata,
        "on_event": request.on_event,
    }


def _findings(facts: Facts, limits: HealthThresholds) -> Sequence[Finding]:
    waiting = facts.expired_tombstones if facts.expired_file_is_there else 0
    cure = "vacuum: removed files are past their retention and still there"
    return [
        due_finding(
            "expired_tombstones",
            waiting,
            limits.expired_tombstones,
            "files",
            operation="vacuum",
            cure=cure,
        )
    ]


def _refusal(snapshot: Snapshot) -> tuple[str, ...]:
    return () if is_own_log(snapshot) else (f"a log other than {LOG_DIRECTORY}",)


def _planned_figures(result: VacuumResult) -> dict[str, int]:
    plan = result.plan
    return {
        "vacuum_files_planned": len(plan.files) + len(plan.leftovers),
        "vacuum_bytes_planned": plan.size_bytes,
        "vacuum_directories_planned": len(plan.directories),
    }


def _figures(result: VacuumResult) -> dict[str, int]:
    return {
        "vacuumed_files": result.deleted_files,
        "vacuumed_bytes": result.deleted_bytes,
        "vacuumed_directories": result.deleted_directories,
        "vacuum_failures": len(result.failures),
        **({"vacuumed_chunks": result.chunks.num_chunks} if result.chunks.num_chunks else {}),
    }


def _json(result: VacuumResult) -> dict[str, Any]:
    plan = result.plan
    planned = (*plan.files, *plan.leftovers)
    return {
        "horizon": utc_text(plan.horizon_ms),
        "planned_files": len(planned),
        "planned_bytes": plan.size_bytes,
        "deleted_files": result.deleted_files,
        "deleted_bytes": result.deleted_bytes,
        "planned_directories": len(plan.directories),
        "deleted_directories": result.deleted_directories,
        "chunks": result.chunks.num_chunks,
        "chunk_bytes": result.chunks.size_bytes,
        "chunks_stay": result.chunks.reason_to_stay,
        "kept": {reason.replace(" ", "_"): n for reason, n in plan.kept.items()},
        "failures": result.failures,
        "expired_branches": result.expired_branches,
        "lost_holds": result.lost_holds,
        "expired_sessions": result.expired_sessions,
        "paths": [info.path for info in planned] if result.dry_run else None,
    }


def _savings(result: VacuumResult) -> dict[str, int]:
    return {"bytes": result.deleted_bytes + result.chunks.size_bytes}


VACUUM = OperationEntry(
    name="vacuum",
    needs="vacuum",
    act=vacuum,
    arguments=_arguments,
    planned=_planned_figures,
    figures=_figures,
    json=_json,
    findings=_findings,
    refusal=_refusal,
    saved=_savings,
    options=(
        Option(
            name="mode",
            kind=str,
            choices=("full", "lite"),
            default="full",
            description="full: list the table, and delete all unused files. lite: delete only "
            "files that the log names as removed.",
        ),
        Option(
            name="keep_last",
            kind=int,
            at_least=0,
            default=0,
            description="Number of newest versions that stay readable. 0: only the retention "
            "decides.",
        ),
        Option(
            name="log_commits",
            kind=bool | None,
            default=None,
            description="Commit VACUUM START and VACUUM END. Not set: the table property "
            "delta_ops.vacuum.logging decides.",
        ),
    ),
)

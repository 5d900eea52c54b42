"""Scan cache as a registered operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from delta_ops.log import Snapshot
from delta_ops.maintenance.admission import is_of_branch
from delta_ops.maintenance.operation import OperationEntry, Request
from delta_ops.maintenance.scan_cache.act import ScanCacheResult, create_scan_cache
from delta_ops.maintenance.thresholds import Facts, Finding, HealthThresholds, due_finding


def _arguments(request: Request) -> dict[str, Any]:
    return {"clock": request.own_clock, "on_event": request.on_event}


def _findings(facts: Facts, limits: HealthThresholds) -> Sequence[Finding]:
    cache = facts.scan_cache
    if cache is None:
        return ()
    interval = limits.commits_since_scan_cache
    threshold = cache.interval if interval is None else interval
    is_due = cache.is_due(min_files=limits.scan_cache_files, max_age=threshold)
    age = cache.age
    if age is None:
        age = facts.version + 1 if is_due else 0
    if cache.problem is not None:
        why = f"the existing scan cache cannot be used, because {cache.problem}"
    else:
        why = "reads with a condition replay each commit since the scan cache"
        if cache.age is None:
            why = "reads with a condition read the log entries of all live files"
    return [
        due_finding(
            "commits_since_scan_cache",
            age,
            threshold,
            "commits",
            operation="scan_cache",
            cure=f"write a scan cache: {why}",
            is_due=is_due,
        )
    ]


def _refusal(snapshot: Snapshot) -> tuple[str, ...]:
    return ("the log of a branch",) if is_of_branch(snapshot) else ()


def _planned_figures(result: ScanCacheResult) -> dict[str, int]:
    return {
        "scan_caches_planned": int(result.plan.is_missing),
        "scan_cache_files_planned": len(result.plan.unused),
    }


def _figures(result: ScanCacheResult) -> dict[str, int]:
    written = result.written
    return {
        "scan_caches_written": int(written is not None),
        "scan_cache_bytes": written.size_bytes if written else 0,
        "scan_cache_files_deleted": result.deleted_files,
        "scan_cache_failures": len(result.failures),
    }


def _json(result: ScanCacheResult) -> dict[str, Any]:
    plan, written = result.plan, result.written
    return {
        "version": plan.version,
        "cached_version": plan.cached_version,
        "problem": plan.problem,
        "has_work": plan.has_work,
        "needs_checkpoint": plan.needs_checkpoint,
        "written": written is not None,
        "num_files": written.num_files if written else None,
        "size_bytes": written.size_bytes if written else None,
        "planned_files": len(plan.unused),
        "deleted_files": result.deleted_files,
        "failures": result.failures,
    }


SCAN_CACHE = OperationEntry(
    name="scan_cache",
    needs="checkpoint",
    act=create_scan_cache,
    arguments=_arguments,
    planned=_planned_figures,
    figures=_figures,
    json=_json,
    findings=_findings,
    refusal=_refusal,
)

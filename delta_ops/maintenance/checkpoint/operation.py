"""Checkpoint as a registered operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from delta_ops.maintenance.checkpoint.act import CheckpointResult, create_checkpoint
from delta_ops.maintenance.operation import OperationEntry, Request
from delta_ops.maintenance.thresholds import Facts, Finding, HealthThresholds, Verdict, due_finding


def _arguments(request: Request) -> dict[str, Any]:
    return {"clock": request.own_clock, "on_event": request.on_event}


def _findings(facts: Facts, limits: HealthThresholds) -> Sequence[Finding]:
    interval = limits.commits_since_checkpoint
    cure = "checkpoint: readers replay every commit since the last checkpoint"
    return [
        due_finding(
            "commits_since_checkpoint",
            facts.commits_since_checkpoint,
            facts.checkpoint_interval if interval is None else interval,
            "commits",
            operation="checkpoint",
            cure=cure,
        ),
        due_finding(
            "commit_bytes_since_checkpoint",
            facts.commit_bytes_since_checkpoint,
            limits.commit_bytes_since_checkpoint,
            "bytes",
            operation="checkpoint",
            cure=cure,
        ),
        _incomplete(facts),
    ]


def _incomplete(facts: Facts) -> Finding:
    danger = (
        "deltalake's log cleanup treats the remaining files of an incomplete checkpoint as a "
        "complete checkpoint, and then deletes commits that the table still needs"
    )
    verdict: Verdict = "ok"
    advice = ""
    if facts.stale_checkpoint_files:
        verdict = "due"
        advice = f"checkpoint, which deletes them: {danger}"
    elif facts.incomplete_checkpoint_files:
        verdict = "look"
        advice = (
            "keep deltalake from cleaning up the log until these files are deleted or complete: "
            f"checkpoint deletes unfinished checkpoints after a day; {danger}"
        )
    return Finding(
        measure="incomplete_checkpoints",
        value=facts.incomplete_checkpoint_files,
        threshold=1,
        unit="files",
        verdict=verdict,
        operation="checkpoint",
        advice=advice,
    )


def _planned_figures(result: CheckpointResult) -> dict[str, int]:
    return {
        "checkpoints_planned": int(result.plan.is_missing),
        "incomplete_checkpoint_files_planned": len(result.plan.stale),
    }


def _figures(result: CheckpointResult) -> dict[str, int]:
    written = result.written
    return {
        "checkpoints_written": int(written is not None),
        "expired_tombstones_dropped": written.expired_tombstones if written else 0,
        "incomplete_checkpoint_files_deleted": result.deleted_files,
        "checkpoint_failures": len(result.failures),
    }


def _json(result: CheckpointResult) -> dict[str, Any]:
    plan, written = result.plan, result.written
    return {
        "version": plan.version,
        "has_work": plan.has_work,
        "written": written is not None,
        "kind": written.kind if written else plan.kind,
        "num_files": written.num_files if written else None,
        "num_reused": written.num_reused if written else None,
        "num_actions": written.num_actions if written else None,
        "size_bytes": written.size_bytes if written else None,
        "expired_tombstones": written.expired_tombstones if written else None,
        "planned_files": len(plan.stale),
        "deleted_files": result.deleted_files,
        "failures": result.failures,
    }


CHECKPOINT = OperationEntry(
    name="checkpoint",
    needs="checkpoint",
    act=create_checkpoint,
    arguments=_arguments,
    planned=_planned_figures,
    figures=_figures,
    json=_json,
    findings=_findings,
)

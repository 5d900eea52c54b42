"""Log compaction as a registered operation."""

from __future__ import annotations

from typing import Any

from delta_ops.maintenance.log_compaction.act import LogCompactionResult, compact_log
from delta_ops.maintenance.operation import OperationEntry, Request


def _arguments(_: Request) -> dict[str, Any]:
    return {}


def _planned_figures(result: LogCompactionResult) -> dict[str, int]:
    return {"log_versions_planned": len(result.plan.commits)}


def _figures(result: LogCompactionResult) -> dict[str, int]:
    return {
        "log_versions_compacted": len(result.plan.commits) if result.written else 0,
        "log_compaction_bytes": result.size_bytes,
    }


def _json(result: LogCompactionResult) -> dict[str, Any]:
    plan = result.plan
    return {
        "start_version": plan.start_version,
        "end_version": plan.end_version,
        "file": plan.file_name if plan.has_work else None,
        "has_work": plan.has_work,
        "written": result.written,
        "num_actions": result.num_actions,
        "size_bytes": result.size_bytes,
    }


COMPACT_LOG = OperationEntry(
    name="compact_log",
    needs="compact",
    act=compact_log,
    arguments=_arguments,
    planned=_planned_figures,
    figures=_figures,
    json=_json,
)

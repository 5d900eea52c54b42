"""Purge as an entry of maintenance: files whose deletion vectors mark many rows are rewritten."""

from __future__ import annotations

from collections.abc import Sequence

from delta_ops.maintenance.operation import OperationEntry, Option
from delta_ops.maintenance.optimize.operation import max_bytes_option, result_json, take_arguments
from delta_ops.maintenance.optimize.run import OptimizeResult
from delta_ops.maintenance.purge.act import purge
from delta_ops.maintenance.thresholds import Facts, Finding, HealthThresholds


def _findings(facts: Facts, limits: HealthThresholds) -> Sequence[Finding]:
    share = facts.deleted_share or 0.0
    is_due = share >= limits.deleted_rows > 0
    cure = "purge: deletion vectors mark rows that every reader reads and drops"
    return [
        Finding(
            measure="deleted_rows",
            value=share,
            threshold=limits.deleted_rows,
            unit="share",
            verdict="due" if is_due else "ok",
            operation="purge",
            advice=cure if is_due else "",
        )
    ]


def _planned_figures(result: OptimizeResult) -> dict[str, int]:
    return {
        "purge_files_planned": result.plan.num_files,
        "purge_bytes_planned": result.plan.size_bytes,
    }


def _figures(result: OptimizeResult) -> dict[str, int]:
    return {
        "purged_files": result.files_removed,
        "files_after_purge": result.files_added,
        "purged_bytes": result.bytes_removed,
        "bytes_after_purge": result.bytes_added,
        "purge_files_left_to_others": result.files_left_to_others,
    }


PURGE = OperationEntry(
    name="purge",
    needs="write",
    act=purge,
    arguments=take_arguments,
    planned=_planned_figures,
    figures=_figures,
    json=result_json,
    findings=_findings,
    opens_data_files=True,
    options=(
        Option(
            name="deleted_share",
            kind=float,
            default=0.0,
            description="Only files of whose rows deletion vectors mark this share, from 0 to 1.",
        ),
        max_bytes_option(),
    ),
)

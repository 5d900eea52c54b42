"""Purge as a registered operation; due if deletion vectors mark many rows."""

from __future__ import annotations

from collections.abc import Sequence

from delta_ops.maintenance.operation import OperationEntry, Option
from delta_ops.maintenance.optimize.operation import (
    max_bytes_option,
    result_json,
    rewrite_figures,
    rewrite_savings,
    take_arguments,
)
from delta_ops.maintenance.optimize.run import OptimizeResult
from delta_ops.maintenance.purge.act import purge
from delta_ops.maintenance.thresholds import Facts, Finding, HealthThresholds, due_finding


def _findings(facts: Facts, limits: HealthThresholds) -> Sequence[Finding]:
    share = facts.deleted_share or 0.0
    return [
        due_finding(
            "deleted_rows",
            share,
            limits.deleted_rows,
            "share",
            operation="purge",
            cure="purge: readers read and drop rows that deletion vectors mark",
            is_due=share >= limits.deleted_rows > 0,
        )
    ]


def _planned_figures(result: OptimizeResult) -> dict[str, int]:
    return {
        "purge_files_planned": result.plan.num_files,
        "purge_bytes_planned": result.plan.size_bytes,
    }


def _figures(result: OptimizeResult) -> dict[str, int]:
    return rewrite_figures(result, "purged", "purge")


PURGE = OperationEntry(
    name="purge",
    needs="write",
    act=purge,
    arguments=take_arguments,
    planned=_planned_figures,
    figures=_figures,
    json=result_json,
    findings=_findings,
    saved=rewrite_savings,
    own_command="optimize",
    opens_data_files=True,
    options=(
        Option(
            name="deleted_share",
            kind=float,
            default=0.0,
            description="Rewrite only files with at least this share of deleted rows. 0: all "
            "files with deleted rows.",
        ),
        max_bytes_option(),
    ),
)

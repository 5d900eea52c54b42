"""Refresh of indexes as a registered operation; due if an index does not cover many files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from delta_ops.maintenance.indexes.act import IndexesRefresh, refresh_indexes
from delta_ops.maintenance.operation import OperationEntry, Option, Request
from delta_ops.maintenance.thresholds import Facts, Finding, HealthThresholds, due_finding


def _arguments(request: Request) -> dict[str, Any]:
    return {"clock": request.clock, "on_event": request.on_event}


def _findings(facts: Facts, limits: HealthThresholds) -> Sequence[Finding]:
    return [
        due_finding(
            "unindexed_files",
            facts.unindexed_files,
            limits.unindexed_files,
            "files",
            operation="refresh_indexes",
            cure="refresh the indexes: each scan by an index reads the files that it lacks",
        )
    ]


def _planned_figures(result: IndexesRefresh) -> dict[str, int]:
    return {
        "index_files_planned": sum(each.planned_files for each in result.indexes),
        "index_bytes_planned": sum(each.planned_bytes for each in result.indexes),
    }


def _figures(result: IndexesRefresh) -> dict[str, int]:
    return {
        "indexed_files": sum(each.indexed_files for each in result.indexes),
        "index_entries_added": sum(each.added_entries for each in result.indexes),
        "index_runs_merged": sum(each.merged_runs for each in result.indexes),
    }


def _json(result: IndexesRefresh) -> dict[str, Any]:
    refreshed = [{**asdict(each), "problems": list(each.problems)} for each in result.indexes]
    return {"indexes": refreshed, "problems": list(result.problems)}


def _remaining_problems(result: IndexesRefresh) -> Sequence[str]:
    return [*result.problems, *(each for index in result.indexes for each in index.problems)]


REFRESH_INDEXES = OperationEntry(
    name="refresh_indexes",
    needs="read",
    act=refresh_indexes,
    arguments=_arguments,
    planned=_planned_figures,
    figures=_figures,
    json=_json,
    findings=_findings,
    left=_remaining_problems,
    own_command="index",
    opens_data_files=True,
    options=(
        Option(
            name="max_bytes",
            kind=int | None,
            at_least=1,
            default=None,
            description="Bytes of the files that one run indexes at most. Not set: no limit.",
        ),
    ),
)

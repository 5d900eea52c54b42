"""Optimize as a registered operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from delta_ops.maintenance.operation import OperationEntry, Option, Request
from delta_ops.maintenance.optimize.act import optimize
from delta_ops.maintenance.optimize.run import OptimizeResult
from delta_ops.maintenance.thresholds import Facts, Finding, HealthThresholds, due_finding
from delta_ops.protocol.schema.column_names import name_of_path


def take_arguments(request: Request) -> dict[str, Any]:
    """Arguments of a rewrite, taken from a request of `maintain`."""
    return {
        "engine": request.engine,
        "clock": request.clock,
        "user_metadata": request.user_metadata,
        "on_event": request.on_event,
    }


def _findings(facts: Facts, limits: HealthThresholds) -> Sequence[Finding]:
    return [
        *_clustering_findings(facts, limits),
        due_finding(
            "small_files",
            facts.mergeable_files,
            limits.small_files,
            "files",
            operation="optimize",
            cure="optimize: small files of a partition can be compacted",
        ),
    ]


def _clustering_findings(facts: Facts, limits: HealthThresholds) -> Sequence[Finding]:
    clustering = facts.clustering
    if clustering is None:
        return ()
    # No run changes the depth of files that are already laid out.
    threshold = limits.clustering_depth
    cure = (
        "optimize: files are not laid out yet; the next run is expected to leave a depth of "
        f"{clustering.next_depth}"
    )
    return [
        due_finding(
            "clustering_depth",
            clustering.depth,
            threshold,
            "files",
            operation="optimize",
            cure=cure,
            is_due=clustering.loose_files > 1 and clustering.depth >= threshold > 0,
        )
    ]


def _planned_figures(result: OptimizeResult) -> dict[str, int]:
    return {
        "compaction_files_planned": result.plan.num_files,
        "compaction_bytes_planned": result.plan.size_bytes,
    }


def _figures(result: OptimizeResult) -> dict[str, int]:
    return rewrite_figures(result, "compacted", "compaction")


def rewrite_figures(result: OptimizeResult, rewritten: str, noun: str) -> dict[str, int]:
    """The figures of a rewrite, such as `purged_files` and `files_after_purge`."""
    return {
        f"{rewritten}_files": result.files_removed,
        f"files_after_{noun}": result.files_added,
        f"{rewritten}_bytes": result.bytes_removed,
        f"bytes_after_{noun}": result.bytes_added,
        f"{noun}_files_left_to_others": result.files_left_to_others,
    }


def rewrite_savings(result: OptimizeResult) -> dict[str, int]:
    """How many live files a rewrite saved."""
    return {"live_files": result.files_removed - result.files_added}


def result_json(result: OptimizeResult) -> dict[str, Any]:
    """The result of a rewrite, as the terminal shows it with `--json`."""
    plan, expected = result.plan, result.expected
    return {
        "target_size_bytes": plan.target_size_bytes,
        "planned_groups": len(plan.groups),
        "planned_files": plan.num_files,
        "planned_bytes": plan.size_bytes,
        "expected_files": expected.num_files if expected else None,
        "expected_bytes": expected.size_bytes if expected else None,
        "expected_depth": expected.depth if expected else None,
        "expected_seconds": expected.seconds if expected else None,
        "ordered_by": [name_of_path(path) for path in plan.order.columns] if plan.order else [],
        "version": result.version,
        "commits": result.num_commits,
        "already_committed": result.already_committed,
        "removed_files": result.files_removed,
        "added_files": result.files_added,
        "removed_bytes": result.bytes_removed,
        "added_bytes": result.bytes_added,
        "files_left_to_others": result.files_left_to_others,
    }


def max_bytes_option() -> Option:
    """The budget of a rewrite."""
    return Option(
        name="max_bytes",
        kind=int | None,
        at_least=1,
        default=None,
        description="Bytes to rewrite in one run at most. Not set: no limit.",
    )


OPTIMIZE = OperationEntry(
    name="optimize",
    needs="write",
    act=optimize,
    arguments=take_arguments,
    planned=_planned_figures,
    figures=_figures,
    json=result_json,
    findings=_findings,
    saved=rewrite_savings,
    opens_data_files=True,
    options=(
        Option(
            name="zorder_by",
            kind=list[str] | None,
            default=None,
            description="Columns that reads filter by; rows are sorted by them. Not set: no order.",
        ),
        Option(
            name="curve",
            kind=str,
            choices=("zorder", "hilbert"),
            default="zorder",
            description="The curve that sorts rows by several columns.",
        ),
        max_bytes_option(),
    ),
)

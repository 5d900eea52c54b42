"""VacuumResult: the deleted files of one vacuum."""

from __future__ import annotations

from dataclasses import dataclass

from delta_ops.arrays.sweep import NOTHING_SWEPT, SweepResult
from delta_ops.maintenance.vacuum.plan import VacuumPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumResult:
    """The result of `vacuum`."""

    plan: VacuumPlan
    dry_run: bool
    deleted_files: int = 0
    deleted_bytes: int = 0
    deleted_directories: int = 0
    """Empty directories of the plan, and directories above them that became empty."""
    needed_after_all: int = 0
    """Files of the plan that stayed, because a commit or the caller required them in the meantime.
    """
    failures: tuple[str, ...] = ()
    """Files that could not be deleted."""
    expired_branches: tuple[str, ...] = ()
    """Names of branches that were deleted, because they had expired a day ago or earlier. Their
    files stay for the retention."""
    lost_holds: int = 0
    """Number of holds that were dropped, because their releases were never made or were deleted."""
    expired_sessions: tuple[str, ...] = ()
    """Ids of sessions that were ended in the same way."""
    chunks: SweepResult = NOTHING_SWEPT
    """Chunks of an array table that were deleted, or would be."""

"""Maintain: run what a table's plan says is due, in the order in which it helps.

Each operation looks again for itself, so that one whose work was done meanwhile does nothing. One
that fails keeps the others from running: a vacuum that could not read the log is no base for a
clean-up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import get_args

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import InvalidRequestError
from delta_ops.events import OnEvent, ignore
from delta_ops.log import TableOrPlace, log_of
from delta_ops.maintenance.checkpoint import CheckpointResult, create_checkpoint
from delta_ops.maintenance.log_cleanup.act import LogCleanupResult, clean_up_log
from delta_ops.maintenance.log_compaction import LogCompactionResult, compact_log
from delta_ops.maintenance.optimize.act import OptimizeResult, optimize
from delta_ops.maintenance.plan import MaintenancePlan, Operation, plan_maintenance
from delta_ops.maintenance.repair.act import RepairResult, repair
from delta_ops.maintenance.vacuum.act import VacuumResult, vacuum
from delta_ops.transaction.rewrite_group import Rewriter

OperationResult = (
    VacuumResult
    | OptimizeResult
    | RepairResult
    | CheckpointResult
    | LogCleanupResult
    | LogCompactionResult
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceResult:
    """What `maintain` found due, and what each operation did."""

    plan: MaintenancePlan
    dry_run: bool
    results: tuple[OperationResult, ...]
    """In the order in which they ran."""
    error: Exception | None = None
    """Error of the operation after the last result, where `maintain` was not to raise it."""

    @property
    def planned(self) -> dict[str, int]:
        """What each operation found to do, as counts and bytes by name; in a dry run too."""
        return {name: value for result in self.results for name, value in _planned(result).items()}

    @property
    def figures(self) -> dict[str, int]:
        """What was done, as counts and bytes by name."""
        return {name: value for result in self.results for name, value in _figures(result).items()}

    @property
    def failures(self) -> dict[str, int]:
        """How many files could not be deleted or read, by name; none where all could."""
        return {name: n for name, n in self.figures.items() if n and name.endswith("_failures")}

    @property
    def saved(self) -> dict[str, int]:
        """What the table has less of than before."""
        figures = {} if self.dry_run else self.figures
        has_checkpoint = figures.get("checkpoints_written", 0) > 0
        return {
            "bytes": figures.get("vacuumed_bytes", 0) + figures.get("log_bytes_deleted", 0),
            "live_files": figures.get("compacted_files", 0)
            - figures.get("files_after_compaction", 0),
            "commits_to_replay": self.plan.commits_since_checkpoint if has_checkpoint else 0,
        }

    @property
    def left(self) -> tuple[str, ...]:
        """What was found and is not safe to do unasked: a sentence each."""
        repairs = (result for result in self.results if isinstance(result, RepairResult))
        return tuple(sentence for result in repairs for sentence in result.left)


def maintain(
    log: TableOrPlace,
    *,
    operations: Sequence[Operation] | None = None,
    dry_run: bool = False,
    engine: Rewriter | None = None,
    vacuum_with: Callable[..., VacuumResult] = vacuum,
    clock: Clock = system_clock,
    keep_versions: Collection[int] = (),
    raise_errors: bool = True,
    on_event: OnEvent = ignore,
) -> MaintenanceResult:
    """Run what is due.

    Args:
        operations: Run these, due or not; those that the plan names if None.
        engine: Executes rewrites; `delta_ops.arrow.rewrite` if None.
        vacuum_with: `vacuum`, or a partial of it with other settings.
        keep_versions: As for `clean_up_log`.
        raise_errors: If not, the error of an operation stands in the result, beside what those
            before it did.

    Raises:
        InvalidRequestError: There is no such operation; nothing was done.
        DeltaOpsError: What is due could not be found out, or whatever an operation raises; those
            before it have done their work.
    """
    validate_arguments(maintain, locals())
    log = log_of(log)
    unknown = [each for each in operations or () if each not in get_args(Operation)]
    if unknown:
        raise InvalidRequestError(
            f"there is no operation {unknown[0]!r}; choose from {', '.join(get_args(Operation))}"
        )
    plan = plan_maintenance(log, clock=clock, keep_versions=keep_versions)
    own_clock = None if clock is system_clock else clock  # else the store's, where files go

    def run(operation: Operation) -> OperationResult:
        match operation:
            case "vacuum":
                return vacuum_with(log, dry_run=dry_run, clock=own_clock, on_event=on_event)
            case "optimize":
                return optimize(log, engine=engine, dry_run=dry_run, clock=clock, on_event=on_event)
            case "repair":
                return repair(log, dry_run=dry_run, clock=clock, on_event=on_event)
            case "checkpoint":
                return create_checkpoint(log, dry_run=dry_run, clock=own_clock, on_event=on_event)
            case "clean_up_log":
                return clean_up_log(
                    log,
                    dry_run=dry_run,
                    clock=own_clock,
                    keep_versions=keep_versions,
                    on_event=on_event,
                )
            case "compact_log":
                return compact_log(log, dry_run=dry_run)

    results: list[OperationResult] = []
    failed: Exception | None = None
    for operation in plan.operations if operations is None else operations:
        try:
            results.append(run(operation))
        except Exception as error:
            if raise_errors:
                raise
            failed = error
            break
    return MaintenanceResult(plan=plan, dry_run=dry_run, results=tuple(results), error=failed)


def _planned(result: OperationResult) -> dict[str, int]:
    match result:
        case VacuumResult(plan=plan):
            return {
                "vacuum_files_planned": len(plan.files) + len(plan.leftovers),
                "vacuum_bytes_planned": plan.size_bytes,
                "vacuum_directories_planned": len(plan.directories),
            }
        case OptimizeResult(plan=plan):
            return {
                "compaction_files_planned": plan.num_files,
                "compaction_bytes_planned": plan.size_bytes,
            }
        case RepairResult(plan=plan):
            return {"statistics_planned": len(plan.without_statistics)}
        case CheckpointResult(plan=plan):
            return {
                "checkpoints_planned": int(plan.is_missing),
                "incomplete_checkpoint_files_planned": len(plan.stale),
            }
        case LogCleanupResult(plan=plan):
            return {"log_files_planned": len(plan.files), "log_bytes_planned": plan.size_bytes}
        case LogCompactionResult(plan=plan):
            return {"log_versions_planned": len(plan.commits)}


def _figures(result: OperationResult) -> dict[str, int]:
    match result:
        case VacuumResult():
            return {
                "vacuumed_files": result.deleted_files,
                "vacuumed_bytes": result.deleted_bytes,
                "vacuumed_directories": result.deleted_directories,
                "vacuum_failures": len(result.failures),
            }
        case OptimizeResult():
            return {
                "compacted_files": result.files_removed,
                "files_after_compaction": result.files_added,
                "compacted_bytes": result.bytes_removed,
            }
        case RepairResult():
            return {
                "described_files": result.described_files,
                "repair_failures": len(result.failures),
            }
        case CheckpointResult():
            written = result.written
            return {
                "checkpoints_written": int(written is not None),
                "expired_tombstones_dropped": written.expired_tombstones if written else 0,
                "incomplete_checkpoint_files_deleted": result.deleted_files,
                "checkpoint_failures": len(result.failures),
            }
        case LogCleanupResult():
            return {
                "log_files_deleted": result.deleted_files,
                "log_bytes_deleted": result.deleted_bytes,
                "log_clean_up_failures": len(result.failures),
                **_known("earliest_version_before", result.plan.earliest_before),
                **_known("earliest_version", result.earliest_version),
            }
        case LogCompactionResult():
            return {
                "log_versions_compacted": len(result.plan.commits) if result.written else 0,
                "log_compaction_bytes": result.size_bytes,
            }


def _known(name: str, value: int | None) -> dict[str, int]:
    return {} if value is None else {name: value}

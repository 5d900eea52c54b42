"""Maintain: run what a table's plan says is due, in the order in which it helps.

Each operation looks again for itself, so that one whose work was done meanwhile does nothing. One
that fails keeps the others from running: a vacuum that could not read the log is no base for a
clean-up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from delta_ops.clock import Clock, system_clock
from delta_ops.events import OnEvent, ignore
from delta_ops.log import DeltaLog
from delta_ops.maintenance.checkpoint import CheckpointResult, create_checkpoint
from delta_ops.maintenance.log_cleanup import LogCleanupResult, clean_up_log
from delta_ops.maintenance.log_compaction import LogCompactionResult, compact_log
from delta_ops.maintenance.optimize import OptimizeResult, optimize
from delta_ops.maintenance.plan import MaintenancePlan, Operation, plan_maintenance
from delta_ops.maintenance.repair import RepairResult, repair
from delta_ops.maintenance.vacuum import VacuumResult, vacuum
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

    @property
    def figures(self) -> dict[str, int]:
        """What was done, as counts and bytes by name."""
        return {name: value for result in self.results for name, value in _figures(result).items()}

    @property
    def left(self) -> tuple[str, ...]:
        """What was found and is not safe to do unasked: a sentence each."""
        repairs = (result for result in self.results if isinstance(result, RepairResult))
        return tuple(sentence for result in repairs for sentence in _left(result))


def maintain(
    log: DeltaLog,
    *,
    operations: Sequence[Operation] | None = None,
    dry_run: bool = False,
    engine: Rewriter | None = None,
    vacuum_with: Callable[..., VacuumResult] = vacuum,
    clock: Clock = system_clock,
    keep_versions: Collection[int] = (),
    on_event: OnEvent = ignore,
) -> MaintenanceResult:
    """Run what is due.

    Args:
        operations: Run these, due or not; those that the plan names if None.
        engine: Executes rewrites; `delta_ops.arrow.rewrite` if None.
        vacuum_with: `vacuum`, or a partial of it with other settings.
        keep_versions: As for `clean_up_log`.

    Raises:
        DeltaOpsError: Whatever an operation raises; those before it have done their work.
    """
    *_, result = maintain_in_steps(
        log,
        operations=operations,
        dry_run=dry_run,
        engine=engine,
        vacuum_with=vacuum_with,
        clock=clock,
        keep_versions=keep_versions,
        on_event=on_event,
    )
    return result


def maintain_in_steps(
    log: DeltaLog,
    *,
    operations: Sequence[Operation] | None = None,
    dry_run: bool = False,
    engine: Rewriter | None = None,
    vacuum_with: Callable[..., VacuumResult] = vacuum,
    clock: Clock = system_clock,
    keep_versions: Collection[int] = (),
    on_event: OnEvent = ignore,
) -> Iterator[MaintenanceResult]:
    """`maintain`: what has been done so far, at first nothing, and then after each operation."""
    plan = plan_maintenance(log, clock=clock, keep_versions=keep_versions)
    results: list[OperationResult] = []
    yield MaintenanceResult(plan=plan, dry_run=dry_run, results=())
    own_clock = None if clock is system_clock else clock  # else the store's, where files go
    for operation in plan.operations if operations is None else operations:
        match operation:
            case "vacuum":
                results.append(
                    vacuum_with(log, dry_run=dry_run, clock=own_clock, on_event=on_event)
                )
            case "optimize":
                results.append(
                    optimize(log, engine=engine, dry_run=dry_run, clock=clock, on_event=on_event)
                )
            case "repair":
                results.append(repair(log, dry_run=dry_run, clock=clock, on_event=on_event))
            case "checkpoint":
                results.append(
                    create_checkpoint(log, dry_run=dry_run, clock=clock, on_event=on_event)
                )
            case "clean_up_log":
                results.append(
                    clean_up_log(
                        log,
                        dry_run=dry_run,
                        clock=own_clock,
                        keep_versions=keep_versions,
                        on_event=on_event,
                    )
                )
            case "compact_log":
                results.append(compact_log(log, dry_run=dry_run))
        yield MaintenanceResult(plan=plan, dry_run=dry_run, results=tuple(results))


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
            }
        case LogCleanupResult():
            return {
                "log_files_deleted": result.deleted_files,
                "log_bytes_deleted": result.deleted_bytes,
                "log_clean_up_failures": len(result.failures),
                "log_files_planned": len(result.plan.files),
                **_known("earliest_version_before", result.plan.earliest_before),
                **_known("earliest_version", result.earliest_version),
            }
        case LogCompactionResult():
            return {
                "log_versions_compacted": len(result.plan.commits) if result.written else 0,
                "log_compaction_bytes": result.size_bytes,
            }


def _left(result: RepairResult) -> Iterator[str]:
    plan = result.plan
    if plan.missing:
        yield (
            f"{len(plan.missing)} data files are gone, such as {plan.missing[0].path}: bring them "
            "back from a backup, or give up their rows with a repair that removes what is missing"
        )
    if plan.missing_vectors:
        yield (
            f"{len(plan.missing_vectors)} deletion vectors are gone, such as that of "
            f"{plan.missing_vectors[0].path}: bring them back from a backup, or restore an older "
            "version"
        )


def _known(name: str, value: int | None) -> dict[str, int]:
    return {} if value is None else {name: value}

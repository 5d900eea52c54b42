"""Maintain: runs the due operations of a table, in the order of the registry.

Each operation looks at the table again, so an operation whose work was done meanwhile does nothing.
After an operation fails no further one runs: a clean-up must not follow a vacuum that could not
read the log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import InvalidRequestError
from delta_ops.events import OnEvent, ignore
from delta_ops.log import TableOrPlace, log_of
from delta_ops.maintenance.operation import OperationResult, Request
from delta_ops.maintenance.plan import MaintenancePlan, plan_maintenance
from delta_ops.maintenance.registry import Operation, entry_of
from delta_ops.transaction.engine import Engine, RewriteFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceResult:
    """The due operations, and the result of each."""

    plan: MaintenancePlan
    dry_run: bool
    operations: tuple[Operation, ...]
    """Operations that ran, in this order."""
    results: tuple[OperationResult, ...]
    """The result of each operation, such as a `VacuumResult`, in the same order."""
    error: Exception | None = None
    """Error of the operation after the last result, with `raise_errors=False`."""

    @property
    def planned(self) -> dict[str, int]:
        """Planned work as counts and bytes by name; in a dry run too."""
        return {name: n for each, r in self._ran() for name, n in entry_of(each).planned(r).items()}

    @property
    def figures(self) -> dict[str, int]:
        """Finished work as counts and bytes by name."""
        return {name: n for each, r in self._ran() for name, n in entry_of(each).figures(r).items()}

    @property
    def failures(self) -> dict[str, int]:
        """How many files could not be deleted or read, by name."""
        return {name: n for name, n in self.figures.items() if n and name.endswith("_failures")}

    @property
    def saved(self) -> dict[str, int]:
        """The decrease of the table's bytes, live files and commits to replay."""
        saved = {"bytes": 0, "live_files": 0, "commits_to_replay": 0}
        if self.dry_run:
            return saved
        for operation, result in self._ran():
            for name, amount in entry_of(operation).saved(result).items():
                saved[name] += amount
        if self.figures.get("checkpoints_written", 0) > 0:
            saved["commits_to_replay"] = self.plan.commits_since_checkpoint
        return saved

    @property
    def left(self) -> tuple[str, ...]:
        """Findings that need a person's decision: a sentence each."""
        return tuple(text for each, r in self._ran() for text in entry_of(each).left(r))

    def _ran(self) -> Iterator[tuple[Operation, Any]]:
        yield from zip(self.operations, self.results, strict=True)


def maintain(
    log: TableOrPlace,
    *,
    operations: Sequence[Operation] | None = None,
    plan: MaintenancePlan | None = None,
    dry_run: bool = False,
    engine: Engine | RewriteFiles | None = None,
    options: Mapping[Operation, Mapping[str, Any]] | None = None,
    clock: Clock = system_clock,
    keep_versions: Collection[int] = (),
    raise_errors: bool = True,
    user_metadata: str | None = None,
    on_event: OnEvent = ignore,
) -> MaintenanceResult:
    """Run the operations that are due.

    Args:
        operations: Run these operations, due or not; if None, the operations of the plan.
        plan: A recent plan; if None, a plan is made.
        engine: As for `optimize`.
        options: Arguments of operations, such as `{"vacuum": {"mode": "lite"}}`.
        keep_versions: As for `clean_up_log`.
        raise_errors: If False, the result has the error of an operation, with the results of the
            operations before it.
        user_metadata: Any text, kept in commitInfo of each commit.

    Raises:
        InvalidRequestError: An operation or option is unknown; nothing was done.
        DeltaOpsError: No plan could be made, or an operation failed; operations before it have
            done their work.

    Examples:
        >>> for number in range(10):
        ...     _ = da.write("lake/t", pa.table({"id": [number]}))
        >>> maintain("lake/t", dry_run=True).operations
        ('optimize', 'checkpoint')
        >>> maintain("lake/t").operations
        ('optimize', 'checkpoint')
        >>> maintain("lake/t").operations
        ()
    """
    validate_arguments(maintain, locals())
    log = log_of(log)
    request = Request(
        clock=clock,
        engine=engine,
        keep_versions=keep_versions,
        user_metadata=user_metadata,
        on_event=on_event,
    )
    settings = options or {}
    for each in operations or ():
        entry_of(each)
    validate_options(settings)
    if plan is None:
        plan = plan_maintenance(log, clock=clock, keep_versions=keep_versions)
    ran: list[Operation] = []
    results: list[OperationResult] = []
    failed: Exception | None = None
    for operation in plan.operations if operations is None else operations:
        entry = entry_of(operation)
        values = settings.get(operation, {})
        try:
            result = entry.run(log, request, values, dry_run=dry_run)
        except Exception as error:
            if raise_errors:
                raise
            failed = error
            break
        ran.append(operation)
        results.append(result)
    return MaintenanceResult(
        plan=plan, dry_run=dry_run, operations=tuple(ran), results=tuple(results), error=failed
    )


def validate_options(options: Mapping[Operation, Mapping[str, Any]]) -> None:
    """Reject options that operations do not have.

    Raises:
        InvalidRequestError: An operation or option is unknown.
    """
    for operation, values in options.items():
        entry = entry_of(operation)
        if not isinstance(values, Mapping):
            raise InvalidRequestError(
                f"the options of {entry.name} are not a mapping; give its arguments by name"
            )
        taken = {"log", "dry_run", *entry.arguments(Request())}
        known = [name for name in signature(entry.act).parameters if name not in taken]
        unknown = next((name for name in values if name not in known), None)
        if unknown is not None:
            raise InvalidRequestError(
                f"{entry.name} has no option {unknown!r}; choose from {', '.join(known)}"
            )

"""Fleets: health and maintenance of many tables in one process.

Tables are processed in parallel on a bounded pool. A table that fails does not stop the others; its
row says why.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import DeltaOpsError
from delta_ops.events import OnEvent, Progress, ignore
from delta_ops.log import DeltaLog, TableOrPlace, log_of
from delta_ops.maintenance.fleet.failures import Failure, attempt, failure_of
from delta_ops.maintenance.fleet.rules import MaintenanceRules, RulesOf
from delta_ops.maintenance.health.figures import load_figures
from delta_ops.maintenance.health.report import DEFAULT_THRESHOLDS, HealthReport, assess_table
from delta_ops.maintenance.maintain import MaintenanceResult, maintain
from delta_ops.maintenance.plan import plan_of_facts
from delta_ops.maintenance.thresholds import HealthThresholds
from delta_ops.storage.addresses import local_path_of
from delta_ops.storage.concurrency import MAX_CONCURRENCY, run_ahead
from delta_ops.storage.paths import redact
from delta_ops.transaction.engine import Engine, RewriteFiles

T = TypeVar("T")

logger = logging.getLogger(__name__)

MAINTAINED_AT_ONCE = 2
"""Number of tables; each may rewrite files, which takes memory and a core."""
_NOTHING_SAVED = {"bytes": 0, "live_files": 0, "commits_to_replay": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHealth:
    """A table of a fleet: its report, or the failure."""

    table: str
    report: HealthReport | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMaintenance:
    """The health of a table of a fleet, and the result of its maintenance."""

    table: str
    report: HealthReport | None = None
    result: MaintenanceResult | None = None
    """None: nothing was due, or maintenance failed."""
    failure: Failure | None = None
    """Why an operation failed; `result` has the operations that succeeded before it."""

    @property
    def skipped(self) -> tuple[str, ...]:
        """Measures that are due, but whose operation cannot write to the table."""
        if self.report is None:
            return ()
        refused = self.report.figures.refused
        due = (each for each in self.report.findings if each.verdict == "due")
        return tuple(each.measure for each in due if each.operation in refused)

    @property
    def left(self) -> tuple[str, ...]:
        """Work that only a person or another engine can do, one sentence each."""
        found = self.report.findings if self.report else ()
        to_do = [f for f in found if f.verdict == "look" or f.measure in self.skipped]
        done = self.result.left if self.result else ()
        return (*(f"{f.measure}: {f.advice}" for f in to_do), *done)

    @property
    def saved(self) -> dict[str, int]:
        """The decrease of the table's figures."""
        return self.result.saved if self.result else dict(_NOTHING_SAVED)


def fleet_health(
    tables: Iterable[TableOrPlace],
    storage_options: Mapping[str, Any] | None = None,
    *,
    thresholds: HealthThresholds = DEFAULT_THRESHOLDS,
    rules_of: RulesOf | None = None,
    max_concurrency: int | None = None,
    clock: Clock = system_clock,
    on_event: OnEvent = ignore,
) -> Iterator[TableHealth]:
    """Report the health of each table, in the given order.

    Args:
        tables: Tables, or their URIs, which are opened with the `storage_options`.
        rules_of: The rules of each table, whose thresholds replace `thresholds`.
        max_concurrency: Tables that are read at once. By default 16 if any table is in a store,
            else 1: a local disk has no latency to hide, and threads that compute slow each other
            down.

    Examples:
        >>> [each.report.verdict for each in fleet_health(["lake/orders"])]
        ['ok']
    """
    validate_arguments(fleet_health, locals())
    todo = list(tables)
    if max_concurrency is None:
        max_concurrency = MAX_CONCURRENCY if any(map(_is_in_store, todo)) else 1
    fleet = FleetRequest(
        storage_options=storage_options,
        rules_of=rules_of or _same_rules(thresholds),
        clock=clock,
    )
    return _run_each(fleet.report, todo, "health", max_concurrency, on_event)


def maintain_fleet(
    tables: Iterable[TableOrPlace],
    storage_options: Mapping[str, Any] | None = None,
    *,
    thresholds: HealthThresholds = DEFAULT_THRESHOLDS,
    rules_of: RulesOf | None = None,
    dry_run: bool = False,
    engine: Engine | RewriteFiles | None = None,
    max_concurrency: int = MAINTAINED_AT_ONCE,
    clock: Clock = system_clock,
    on_event: OnEvent = ignore,
) -> Iterator[TableMaintenance]:
    """Run the operations that are due for each table, in the given order.

    Args:
        tables: Tables, or their URIs, which are opened with the `storage_options`.
        rules_of: The rules of each table, which replace `thresholds`.
        dry_run: Plan each operation and change nothing.
        engine: As for `optimize`.
        max_concurrency: Tables that are maintained at once.

    Examples:
        >>> fleet = maintain_fleet(["lake/orders", "lake/nothing"], dry_run=True)
        >>> [each.failure is None for each in fleet]
        [True, False]
    """
    validate_arguments(maintain_fleet, locals())

    fleet = FleetRequest(
        storage_options=storage_options,
        rules_of=rules_of or _same_rules(thresholds),
        clock=clock,
        dry_run=dry_run,
        engine=engine,
    )
    return _run_each(fleet.maintain, tables, "maintain", max_concurrency, on_event)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRequest:
    """The work for each table of a fleet."""

    storage_options: Mapping[str, Any] | None
    rules_of: RulesOf
    clock: Clock
    dry_run: bool = False
    engine: Engine | RewriteFiles | None = None

    def report(self, table: TableOrPlace) -> TableHealth:
        """Report on the health of a table, or why it cannot be reported."""
        found, failure = attempt(lambda: self._assess(table))
        report = found[0] if found is not None else None
        return TableHealth(table=_name(table), report=report, failure=failure)

    def maintain(self, table: TableOrPlace) -> TableMaintenance:
        """Run the operations that are due for a table and that its rules allow."""
        found, failure = attempt(lambda: self._assess(table))
        if found is None:
            return TableMaintenance(table=_name(table), failure=failure)
        report, rules = found
        if not any(map(rules.allows, report.operations)):
            return TableMaintenance(table=_name(table), report=report)
        result, failure = attempt(lambda: self._run(table, report, rules))
        if result is not None and result.error is not None:
            logger.debug("A table of a fleet failed", exc_info=result.error)
            failure = failure_of(result.error)
        return TableMaintenance(table=_name(table), report=report, result=result, failure=failure)

    def _assess(self, table: TableOrPlace) -> tuple[HealthReport, MaintenanceRules]:
        """The health of a table and its own rules."""
        log = log_of(table, self.storage_options)
        figures = load_figures(log, clock=self.clock)
        rules = self.rules_of(log.uri, figures)
        return assess_table(log.uri, figures, rules.thresholds), rules

    def _run(
        self, table: TableOrPlace, report: HealthReport, rules: MaintenanceRules
    ) -> MaintenanceResult:
        return maintain(
            log_of(table, self.storage_options),
            operations=tuple(filter(rules.allows, report.operations)),
            plan=plan_of_facts(report.figures),
            options=rules.options,
            dry_run=self.dry_run,
            engine=self.engine,
            clock=self.clock,
            raise_errors=False,
        )


def _same_rules(thresholds: HealthThresholds) -> RulesOf:
    rules = MaintenanceRules(thresholds=thresholds)
    return lambda _, __: rules


def _is_in_store(table: TableOrPlace) -> bool:
    if isinstance(table, DeltaLog):
        return not table.storage.has_native_input
    try:
        return local_path_of(os.fspath(table)) is None
    except DeltaOpsError:  # the table's row reports the error
        return False


def _name(table: TableOrPlace) -> str:
    return table.uri if isinstance(table, DeltaLog) else redact(os.fspath(table))


def _run_each(
    call: Callable[[TableOrPlace], T],
    tables: Iterable[TableOrPlace],
    operation: str,
    max_concurrency: int,
    on_event: OnEvent,
) -> Iterator[T]:
    todo = list(tables)
    rows: Iterator[T]
    rows = map(call, todo)
    if max_concurrency > 1:
        rows = run_ahead(((1, partial(call, table)) for table in todo), len(todo), max_concurrency)
    for done, (table, row) in enumerate(zip(todo, rows, strict=True), 1):
        on_event(Progress(table=_name(table), operation=operation, done=done, total=len(todo)))
        yield row

"""Fleets: many tables looked at, and looked after, in one process.

A fleet is a list of tables, or all tables below a prefix. Tables are taken side by side on a
bounded pool. One that fails does not stop the rest: what it failed of stands in its row.

A directory is a table if it has a directory `_delta_log`, which is asked for first, so that the
files of a table are not listed. Left out are links, which could lead anywhere or to a table that
is there already, and what lies below a name that begins with "_" or ".", which belongs to some
program. A table in another table's directory is found only if that is asked for.
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
from delta_ops.log.delta_log import LOG_DIRECTORY
from delta_ops.maintenance.fleet.rules import MaintenanceRules, RulesOf
from delta_ops.maintenance.health.figures import load_figures
from delta_ops.maintenance.health.report import DEFAULT_THRESHOLDS, HealthReport, assess_table
from delta_ops.maintenance.maintain import MaintenanceResult, maintain
from delta_ops.maintenance.plan import plan_of_facts
from delta_ops.maintenance.thresholds import HealthThresholds
from delta_ops.storage import Storage, open_storage
from delta_ops.storage.addresses import local_path_of
from delta_ops.storage.concurrency import MAX_CONCURRENCY, run_ahead, run_parallel
from delta_ops.storage.paths import redact
from delta_ops.transaction.rewrite_group import Rewriter

T = TypeVar("T")

logger = logging.getLogger(__name__)

MAINTAINED_AT_ONCE = 2
"""Tables; each may rewrite files, which takes memory and a core."""
_NOTHING_SAVED = {"bytes": 0, "live_files": 0, "commits_to_replay": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a table has no result."""

    kind: str
    """The name of the error's class."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTables:
    """What there is below a prefix."""

    tables: tuple[str, ...]
    """URIs or local paths, ordered."""
    failures: Mapping[str, Failure]
    """By place: directories that could not be looked into."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHealth:
    """A table of a fleet: a report, or why there is none."""

    table: str
    report: HealthReport | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMaintenance:
    """What was found of a table of a fleet, and what was done about it."""

    table: str
    report: HealthReport | None = None
    result: MaintenanceResult | None = None
    """None: nothing was due, or it could not be done."""
    failure: Failure | None = None
    """Why an operation failed; those before it did what the result says."""

    @property
    def skipped(self) -> tuple[str, ...]:
        """The measures that an operation of ours would cure, if it could write to the table."""
        if self.report is None:
            return ()
        refused = self.report.figures.refused
        due = (each for each in self.report.findings if each.verdict == "due")
        return tuple(each.measure for each in due if each.operation in refused)

    @property
    def left(self) -> tuple[str, ...]:
        """What only a person or another engine can do, a sentence each."""
        found = self.report.findings if self.report else ()
        to_do = [f for f in found if f.verdict == "look" or f.measure in self.skipped]
        done = self.result.left if self.result else ()
        return (*(f"{f.measure}: {f.advice}" for f in to_do), *done)

    @property
    def saved(self) -> dict[str, int]:
        """What the table has less of than before."""
        return self.result.saved if self.result else dict(_NOTHING_SAVED)


def find_tables(
    prefix: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    *,
    nested: bool = False,
) -> FoundTables:
    """The tables at and below a prefix.

    Args:
        prefix: A local directory or a URI, as `DeltaLog` takes it.
        storage_options: For fsspec's file system.
        nested: Look for tables in the directories of tables too, which lists their data
            directories.

    Raises:
        InvalidRequestError: The prefix is no place.
        StorageError: The prefix itself cannot be looked into.
    """
    validate_arguments(find_tables, locals())
    return find_tables_in(open_storage(prefix, storage_options), nested=nested)


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
    """How each of the tables is, in their order.

    Args:
        tables: Or their URIs, which are opened with the `storage_options`.
        rules_of: The rules of a table by itself, whose thresholds take the place of `thresholds`.
        max_concurrency: Tables that are read at once. By default 16 if one of them lies in a store,
            and else 1: a disk lets nobody wait, and threads that compute only hinder each other.
    """
    validate_arguments(fleet_health, locals())
    todo = list(tables)
    if max_concurrency is None:
        max_concurrency = MAX_CONCURRENCY if any(map(_is_in_store, todo)) else 1

    look_at = partial(_look_at, rules_of=rules_of or _same_rules(thresholds), clock=clock)

    def look(table: TableOrPlace) -> TableHealth:
        found, failure = _attempt(lambda: look_at(log_of(table, storage_options)))
        report = found[0] if found is not None else None
        return TableHealth(table=_name(table), report=report, failure=failure)

    return _run_each(look, todo, "health", max_concurrency, on_event)


def maintain_fleet(
    tables: Iterable[TableOrPlace],
    storage_options: Mapping[str, Any] | None = None,
    *,
    thresholds: HealthThresholds = DEFAULT_THRESHOLDS,
    rules_of: RulesOf | None = None,
    dry_run: bool = False,
    engine: Rewriter | None = None,
    max_concurrency: int = MAINTAINED_AT_ONCE,
    clock: Clock = system_clock,
    on_event: OnEvent = ignore,
) -> Iterator[TableMaintenance]:
    """Do for each of the tables what its health asks for; in their order.

    Args:
        tables: Or their URIs, which are opened with the `storage_options`.
        rules_of: The rules of a table by itself, in the place of `thresholds`.
        dry_run: Plan each operation and change nothing.
        engine: Executes rewrites; `delta_ops.arrow.rewrite` if None.
        max_concurrency: Tables that are maintained at once.
    """
    validate_arguments(maintain_fleet, locals())

    look_at = partial(_look_at, rules_of=rules_of or _same_rules(thresholds), clock=clock)

    def look_after(table: TableOrPlace) -> TableMaintenance:
        found, failure = _attempt(lambda: look_at(log_of(table, storage_options)))
        report, rules = found or (None, MaintenanceRules())
        result = None
        due = tuple(filter(rules.allows, report.operations)) if report is not None else ()
        if report is not None and due:
            plan = plan_of_facts(report.figures)
            result, failure = _attempt(
                lambda: maintain(
                    log_of(table, storage_options),
                    operations=due,
                    plan=plan,
                    options=rules.options,
                    dry_run=dry_run,
                    engine=engine,
                    clock=clock,
                    raise_errors=False,
                )
            )
            if result is not None and result.error is not None:
                logger.debug("A table of a fleet failed", exc_info=result.error)
                failure = failure_of(result.error)
        return TableMaintenance(table=_name(table), report=report, result=result, failure=failure)

    return _run_each(look_after, tables, "maintain", max_concurrency, on_event)


def failure_of(error: Exception) -> Failure:
    """An error as a row shows it; of one that is not ours, which may say anything, its kind."""
    if isinstance(error, DeltaOpsError):
        return Failure(kind=type(error).__name__, message=str(error))
    message = (
        f"delta_ops failed with a {type(error).__name__} that it does not expect; look at this "
        "table alone, and report what it shows"
    )
    return Failure(kind=type(error).__name__, message=message)


def find_tables_in(storage: Storage, *, nested: bool) -> FoundTables:
    """The tables below the root of a storage; see `find_tables`."""
    found: list[str] = []
    failures: dict[str, Failure] = {}
    level = [""]
    while level:
        looks = run_parallel(partial(_look_into, storage, nested), level)
        below: list[str] = []
        for directory, (is_table, inner, failure) in zip(level, looks, strict=True):
            if is_table:
                found.append(storage.locate(directory))
            if failure is not None:
                failures[_shown_place(storage, directory)] = failure_of(failure)
                if not directory:
                    raise failure
            below += inner
        level = below
    return FoundTables(tables=tuple(sorted(found)), failures=failures)


def _shown_place(storage: Storage, directory: str) -> str:
    """The place of a directory for messages; its name may be one that no path can have."""
    place = f"{storage.uri.rstrip('/')}/{directory}" if directory else storage.uri
    return place.encode(errors="backslashreplace").decode()


def _look_into(
    storage: Storage, nested: bool, directory: str
) -> tuple[bool, list[str], DeltaOpsError | None]:
    """Whether a directory is a table, and where below it tables may be."""
    log_directory = f"{directory}/{LOG_DIRECTORY}" if directory else LOG_DIRECTORY
    is_table = False
    try:
        is_table = storage.is_directory(log_directory)
        if is_table and not nested:
            return True, [], None
        inner = storage.list_directories(directory)
    except DeltaOpsError as error:
        return is_table, [], error
    shown = [path for path in inner if not path.rpartition("/")[2].startswith(("_", "."))]
    return is_table, shown, None


def _same_rules(thresholds: HealthThresholds) -> RulesOf:
    rules = MaintenanceRules(thresholds=thresholds)
    return lambda _, __: rules


def _look_at(
    log: DeltaLog, *, rules_of: RulesOf, clock: Clock
) -> tuple[HealthReport, MaintenanceRules]:
    """How a table is by its own rules."""
    figures = load_figures(log, clock=clock)
    rules = rules_of(log.uri, figures)
    return assess_table(log.uri, figures, rules.thresholds), rules


def _is_in_store(table: TableOrPlace) -> bool:
    if isinstance(table, DeltaLog):
        return not table.storage.has_native_input
    try:
        return local_path_of(os.fspath(table)) is None
    except DeltaOpsError:  # which its row will tell
        return False


def _name(table: TableOrPlace) -> str:
    return table.uri if isinstance(table, DeltaLog) else redact(os.fspath(table))


def _attempt(call: Callable[[], T]) -> tuple[T | None, Failure | None]:
    try:
        return call(), None
    except DeltaOpsError as error:
        return None, failure_of(error)
    except Exception as error:  # one table must not stop the rest, whatever is wrong with it
        logger.debug("A table of a fleet failed", exc_info=True)
        return None, failure_of(error)


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

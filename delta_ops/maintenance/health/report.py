"""Health: what the log says of a table, measured against thresholds, and what cures it.

One pass over the log, no listing of data; see `figures`. Each measure has a verdict:

- "ok";
- "due": an operation of ours cures it, and `maintain` runs it;
- "look": a person has to decide, or another engine has to act.

An operation that ran leaves its measure "ok", so that whoever does what the verdicts ask comes to
an end. A measure that cannot be taken is no figure but an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.log import TableOrPlace, log_of
from delta_ops.maintenance.health.figures import HealthFigures, load_figures
from delta_ops.maintenance.health.findings import assess
from delta_ops.maintenance.registry import Operation, due_operations
from delta_ops.maintenance.thresholds import Finding, HealthThresholds, Verdict

DEFAULT_THRESHOLDS = HealthThresholds()
VERDICTS: tuple[Verdict, ...] = ("ok", "look", "due")
"""From the best to the one that wants something done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReport:
    """A table's figures and what they come to."""

    table: str
    figures: HealthFigures
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst one; "due" before "look"."""
        return max((each.verdict for each in self.findings), key=VERDICTS.index)

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What is due and can be run, in the order in which it should run."""
        refused = self.figures.refused
        return tuple(each for each in due_operations(self.findings) if each not in refused)


def health(
    log: TableOrPlace,
    *,
    thresholds: HealthThresholds = DEFAULT_THRESHOLDS,
    clock: Clock = system_clock,
) -> HealthReport:
    """How the latest version of a table is.

    Raises:
        TableNotFoundError: There is no table here.
        LogCorruptError: The log is damaged.
        UnsupportedFeatureError: The table uses what we cannot open.
        InvalidRequestError: A property of the table cannot be understood.
        StorageError: The store failed.
    """
    validate_arguments(health, locals())
    log = log_of(log)
    return assess_table(log.uri, load_figures(log, clock=clock), thresholds)


def assess_table(table: str, figures: HealthFigures, thresholds: HealthThresholds) -> HealthReport:
    """What a table's figures come to."""
    return HealthReport(table=table, figures=figures, findings=assess(figures, thresholds))


def health_json(report: HealthReport) -> dict[str, Any]:
    """The report as JSON has it: names in snake_case, units as in the report."""
    validate_arguments(health_json, locals())
    figures = asdict(report.figures)
    protocol = figures.pop("protocol")
    return {
        "table": report.table,
        "version": report.figures.version,
        "verdict": report.verdict,
        "operations": list(report.operations),
        "findings": [_plain_values(asdict(finding)) for finding in report.findings],
        "figures": _plain_values({**figures, "protocol": _plain_values(protocol)}),
    }


def _plain_values(values: Mapping[str, Any]) -> dict[str, Any]:
    return {n: list(v) if isinstance(v, tuple) else v for n, v in values.items()}

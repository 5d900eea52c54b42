"""Health: compares the figures of a table with thresholds and names the cure.

One pass over the log, no listing of data; see `figures`. Each measure has a verdict:

- "ok";
- "due": an operation of ours cures it, and `maintain` runs it;
- "look": a person has to decide, or another engine has to act.

A measure is "ok" after its operation ran, so that maintenance by verdicts ends. A measure that
cannot be taken raises an error; it has no figure.
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
"""From best to worst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReport:
    """A table's figures and the findings about them."""

    table: str
    figures: HealthFigures
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of the findings; "due" is worse than "look"."""
        return max((each.verdict for each in self.findings), key=VERDICTS.index)

    @property
    def operations(self) -> tuple[Operation, ...]:
        """Due operations that the table supports, in the order to run them."""
        refused = self.figures.refused
        return tuple(each for each in due_operations(self.findings) if each not in refused)


def health(
    log: TableOrPlace,
    *,
    thresholds: HealthThresholds = DEFAULT_THRESHOLDS,
    clock: Clock = system_clock,
) -> HealthReport:
    """Report the health of the latest version.

    Raises:
        TableNotFoundError: There is no table here.
        LogCorruptError: The log is damaged.
        UnsupportedFeatureError: The table uses a feature that we cannot open.
        InvalidRequestError: A property of the table cannot be understood.
        StorageError: The store failed.

    Examples:
        >>> for number in range(10):
        ...     _ = da.write("lake/t", pa.table({"id": [number]}))
        >>> report = health("lake/t")
        >>> report.verdict, report.operations
        ('due', ('optimize', 'checkpoint'))
    """
    validate_arguments(health, locals())
    log = log_of(log)
    return assess_table(log.uri, load_figures(log, clock=clock), thresholds)


def assess_table(table: str, figures: HealthFigures, thresholds: HealthThresholds) -> HealthReport:
    """Build the report of a table from its figures."""
    return HealthReport(table=table, figures=figures, findings=assess(figures, thresholds))


def health_json(report: HealthReport) -> dict[str, Any]:
    """The report as JSON: names in snake_case, units as in the report.

    Examples:
        >>> health_json(health("lake/orders"))["verdict"]
        'ok'
    """
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

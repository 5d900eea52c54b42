"""Policy choice: the policy of a table, and the operations that are due.

The most specific policy applies as a whole:

1. the policy that names the table's key;
2. the policy that the table's property `delta_ops.policy` names;
3. the policy with the longest prefix;
4. the policy for all tables, or else `MaintenancePolicy()`.

Keys are known when a location is loaded. Properties are read with the log of a table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import NamedTuple

import dagster as dg

from delta_ops.clock import Clock, system_clock
from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog
from delta_ops.maintenance import (
    HealthFigures,
    HealthReport,
    MaintenanceRules,
    Operation,
    plan_maintenance,
)
from delta_ops.maintenance.fleet.rules import RulesOf
from delta_ops.maintenance.health.figures import load_figures
from delta_ops.maintenance.health.report import assess_table
from delta_ops.maintenance.plan import MaintenancePlan, plan_of_facts
from delta_ops.orchestration.policies.policy import ALL_TABLES, MaintenancePolicy
from delta_ops.orchestration.tables import TableRef
from delta_ops.protocol.properties.known import POLICY
from delta_ops.storage.paths import redact

logger = logging.getLogger(__name__)

POLICY_PROPERTY = POLICY.name
"""Property of a table: the name of its policy."""


class Due(NamedTuple):
    """The operations that are due for a table."""

    version: int
    operations: tuple[Operation, ...]
    """Due and allowed operations, in the order of execution."""
    policy: MaintenancePolicy | None
    """The policy that decided."""
    plan: MaintenancePlan
    """All possible work, allowed or not."""
    report: HealthReport | None = None
    """The health of the table by the thresholds of the policy."""
    warning: str | None = None
    """The problem with the policy name in the table's property, if any."""


class PolicyTables(NamedTuple):
    """A policy, and its tables."""

    policy: MaintenancePolicy
    tables: tuple[TableRef, ...]

    def may_leave(self, table: TableRef) -> bool:
        """Whether a property of one of these tables may name another policy."""
        return table.name not in self.policy.patterns


class PolicyJobs(NamedTuple):
    """The tables of a policy, and the jobs that maintain them."""

    policy: MaintenancePolicy | None
    """None: any possible work is due."""
    tables: Sequence[TableRef]
    job: dg.JobDefinition
    log_job: dg.JobDefinition | None
    """Does the work on logs in batches; None: `job` does it, in a separate run for each table."""

    @property
    def all_jobs(self) -> list[dg.JobDefinition]:
        """`job`, and `log_job` if there is one."""
        return [self.job] if self.log_job is None else [self.job, self.log_job]

    @property
    def has_work(self) -> bool:
        """Whether the policy allows any operation."""
        return self.policy is None or self.policy.has_work

    def can_take(self, table: TableRef, others: PolicyJobs) -> bool:
        """Whether the policy has work and may be named by a table of the policy `others`."""
        return (
            self.policy is not None
            and self.policy.name is not None
            and self.policy.has_work
            and others.policy is not None
            and table.name not in others.policy.patterns
        )


def assign_policies(
    tables: Sequence[TableRef], policies: Sequence[MaintenancePolicy]
) -> list[PolicyTables]:
    """Assign each table to its policy; the order of the policies stays.

    Logs a warning for a prefix that matches no table and resembles the prefix of one.

    Raises:
        InvalidRequestError: A policy names an unknown table, two policies are equally specific for
            a table, or the jobs of two policies have the same names.
    """
    _validate_names(tables, policies)
    chosen: list[list[TableRef]] = [[] for _ in policies]
    others: list[TableRef] = []
    for table in tables:
        number = _most_exact(table.name, policies)
        (others if number is None else chosen[number]).append(table)
    found = [
        PolicyTables(policy, tuple(its))
        for policy, its in zip(policies, chosen, strict=True)
        if its or policy.name is not None  # a table's property may name the policy
    ]
    if others:
        found.append(PolicyTables(MaintenancePolicy(), tuple(others)))
    _validate_suffixes([each.policy for each in found])
    _warn_of_prefixes(tables, policies)
    return found


def due_operations(
    log: DeltaLog,
    policy: MaintenancePolicy | None,
    *,
    name: str = "",
    others: Sequence[MaintenancePolicy] = (),
    clock: Clock = system_clock,
) -> Due:
    """Find the operations that are due for a table.

    Args:
        policy: The policy by the table's key; None: any possible work is due.
        name: The table's key.
        others: Policies that a property of the table may name.

    Raises:
        DeltaOpsError: As for `health` and `plan_maintenance`.
    """
    if policy is None:
        plan = plan_maintenance(log, clock=clock)
        return Due(plan.version, plan.operations, None, plan)
    figures = load_figures(log, clock=clock)
    chosen, warning = choose_policy(name, policy, figures.configuration, others)
    report = assess_table(log.uri, figures, chosen.thresholds)
    allowed = tuple(filter(chosen.rules.allows, report.operations))
    return Due(figures.version, allowed, chosen, plan_of_facts(figures), report, warning)


def choose_policy(
    name: str,
    policy: MaintenancePolicy,
    configuration: Mapping[str, str],
    others: Sequence[MaintenancePolicy],
) -> tuple[MaintenancePolicy, str | None]:
    """The policy of a table, and a warning if the table names an unknown policy.

    Args:
        name: The table's key.
        policy: The policy by the table's key.
        configuration: Properties of the table.
        others: Policies that a property of the table may name.
    """
    wanted = configuration.get(POLICY_PROPERTY)
    if wanted is None or name in policy.patterns or not others:
        return policy, None
    for other in others:
        if other.name == wanted:
            return other, None
    names = [other.name for other in others if other.name is not None]
    near = get_close_matches(wanted, names, n=1, cutoff=0)
    hint = f"; the closest name is {near[0]!r}" if near else ""
    return policy, f"its property {POLICY_PROPERTY} names {wanted!r}, which is not a policy{hint}"


def jobs_of(policy: MaintenancePolicy | None, policies: Sequence[PolicyJobs]) -> PolicyJobs | None:
    """The jobs of a policy."""
    return next((each for each in policies if each.policy is policy), None)


def rules_by_policies(
    policies: Sequence[MaintenancePolicy], name_of: Callable[[str], str]
) -> RulesOf:
    """Make a function that returns the rules for a table of a fleet, by the table's policy.

    Args:
        name_of: Returns the key of a table by its URI; for a table without an asset, a possible
            key.
    """

    def rules_of(uri: str, figures: HealthFigures) -> MaintenanceRules:
        name = name_of(uri)
        number = _most_exact(name, policies)
        by_key = MaintenancePolicy() if number is None else policies[number]
        policy, warning = choose_policy(name, by_key, figures.configuration, policies)
        if warning is not None:
            logger.warning("%s: %s", redact(uri), warning)
        return policy.rules

    return rules_of


def general_policy(policies: Sequence[MaintenancePolicy]) -> MaintenancePolicy:
    """The policy for all tables."""
    for_all_tables = (policy for policy in policies if ALL_TABLES in policy.patterns)
    return next(for_all_tables, MaintenancePolicy())


def drop_absent_tables(
    policies: Sequence[MaintenancePolicy], tables: Sequence[TableRef]
) -> tuple[list[MaintenancePolicy], list[str]]:
    """Drop unknown tables from policies; a policy with no other table is omitted.

    Returns:
        The policies, and the names of the unknown tables.
    """
    names = {table.name for table in tables}
    kept, absent = [], list[str]()
    for policy in policies:
        lost = [each for each in policy.patterns if ALL_TABLES not in each and each not in names]
        absent += lost
        if len(lost) < len(policy.patterns):
            left = [each for each in policy.patterns if each not in lost]
            # The suffix as name keeps the names of the jobs.
            kept.append(replace(policy, tables=left, name=policy.suffix) if lost else policy)
    return kept, absent


def _most_exact(table: str, policies: Sequence[MaintenancePolicy]) -> int | None:
    """The index of the most specific policy for a table's key; None without one."""
    exactness = [_exactness(policy, table) for policy in policies]
    best = max(exactness, default=-1)
    if best < 0:
        return None
    if exactness.count(best) > 1:
        raise InvalidRequestError(
            f"{exactness.count(best)} policies match the table {table} equally well; match it "
            "with only one of them"
        )
    return exactness.index(best)


def _exactness(policy: MaintenancePolicy, name: str) -> int:
    """How specifically a policy names a table; greater is more specific, -1: not at all."""
    return max((_exactness_of(pattern, name) for pattern in policy.patterns), default=-1)


def _exactness_of(pattern: str, name: str) -> int:
    if pattern == name:
        return len(name) + 1
    prefix = pattern.removesuffix(ALL_TABLES)
    return len(prefix) if prefix != pattern and name.startswith(prefix) else -1


def _validate_names(tables: Sequence[TableRef], policies: Sequence[MaintenancePolicy]) -> None:
    names = [table.name for table in tables]
    for pattern in (pattern for policy in policies for pattern in policy.patterns):
        if ALL_TABLES not in pattern and pattern not in names:
            near = get_close_matches(pattern, names, n=1, cutoff=0)
            hint = f"; the closest name is {near[0]!r}" if near else ""
            raise InvalidRequestError(f"a policy names {pattern!r}, which is not a table{hint}")


def _warn_of_prefixes(tables: Sequence[TableRef], policies: Sequence[MaintenancePolicy]) -> None:
    """Log a warning for each misspelt prefix; another prefix may be for tables without an asset."""
    names = [table.name for table in tables]
    known = {name[: n + 1] for name in names for n, each in enumerate(name) if each == "/"}
    for pattern in (pattern for policy in policies for pattern in policy.patterns):
        prefix = pattern.removesuffix(ALL_TABLES)
        if not any(name.startswith(prefix) for name in names):
            for near in get_close_matches(prefix, sorted(known), n=1, cutoff=0.75):
                logger.warning(
                    "no asset matches %r of a policy; the closest prefix is '%s*'", pattern, near
                )


def _validate_suffixes(policies: Sequence[MaintenancePolicy]) -> None:
    suffixes = [policy.suffix for policy in policies]
    twice = next((each for each in suffixes if suffixes.count(each) > 1), None)
    if twice is not None:
        raise InvalidRequestError(
            f"the jobs of {suffixes.count(twice)} policies would have the same names, which end in "
            f"{twice!r}; give each of these policies a name"
        )

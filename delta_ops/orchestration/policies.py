"""Policies: how tables are looked after, by which jobs, and for whom.

A policy names its tables by their assets' keys. The most exact policy of a table counts, as a
whole: one that names its key, else one of the longest prefix, else one for all. A table that no
policy is for has `MaintenancePolicy()`. What a table promises to its readers stands in the table:
`delta.checkpointInterval`, `delta.targetFileSize`, `delta.logRetentionDuration` and
`delta.deletedFileRetentionDuration` hold whatever the policy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, NamedTuple

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog
from delta_ops.maintenance import HealthThresholds, Operation, health, plan_maintenance
from delta_ops.maintenance.maintain import validate_options
from delta_ops.maintenance.operations import OPERATIONS, entry_of
from delta_ops.orchestration.tables import TableRef

_ALL = "*"
_BELOW = "/*"


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePolicy:
    """How tables are looked after.

    Raises:
        InvalidRequestError: A pattern, an operation or an option is none, or a number is no number.
    """

    tables: str | Sequence[str] = _ALL
    """Keys of assets, as "sales/orders"; "sales/*" for all below sales, "*" for all."""
    name: str | None = None
    """Ends the names of the policy's jobs, in letters, digits and "_"; None: made of `tables`."""
    operations: Sequence[Operation] | None = None
    """Operations that are run when they are due; None: all of them; empty: none, unless a
    person asks for it."""
    thresholds: HealthThresholds = field(default_factory=HealthThresholds)
    """From where on an operation is due, and a check of health warns."""
    options: Mapping[Operation, Mapping[str, Any]] = field(default_factory=dict)
    """Arguments of operations, as `{"vacuum": {"mode": "lite"}}`."""
    cron: str | None = "0 3 * * *"
    """When all of the tables are looked after, also where the sensor is off; None: never."""
    timezone: str = "UTC"
    """The zone of `cron`."""
    budget_s: int = 3600
    """Seconds after which a run begins no further table; the rest is left to the next run."""
    tables_at_once: int = 2
    """Tables that a run looks after side by side."""
    owners: Sequence[str] = ()
    """Owners of the jobs: addresses of mail, or "team:..."."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags of the jobs and their runs."""
    pool: str | None = None
    """Pool of Dagster's in which the runs take a place each."""

    def __post_init__(self) -> None:
        for pattern in self.patterns or ("",):
            _validate_pattern(pattern)
        for operation in self.operations or ():
            entry_of(operation)
        _validate_options(self.options)
        if self.name is not None and not re.fullmatch(r"\w+", self.name, re.ASCII):
            raise InvalidRequestError(
                f"the name {self.name!r} of a policy ends names of jobs; give one of letters, "
                'digits and "_"'
            )
        for each in ("budget_s", "tables_at_once"):
            value = getattr(self, each)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InvalidRequestError(
                    f"{each} of a policy must be a whole number from 1 on, not {value!r}"
                )

    @property
    def patterns(self) -> tuple[str, ...]:
        """What `tables` names, one by one."""
        return (self.tables,) if isinstance(self.tables, str) else tuple(self.tables)

    @property
    def suffix(self) -> str:
        """What the names of its jobs end in; "" for all tables."""
        if self.name is not None:
            return self.name
        first = self.patterns[0].removesuffix(_ALL)
        return re.sub(r"\W+", "_", first, flags=re.ASCII).strip("_")

    def allows(self, operation: Operation) -> bool:
        """Whether the operation may run when it is due."""
        return self.operations is None or operation in self.operations

    @property
    def has_work(self) -> bool:
        """Whether any operation may run at all."""
        return any(self.allows(entry.name) for entry in OPERATIONS)


class PolicyTables(NamedTuple):
    """A policy, and the tables that are looked after by it."""

    policy: MaintenancePolicy
    tables: tuple[TableRef, ...]


def due_operations(
    log: DeltaLog, policy: MaintenancePolicy | None, *, clock: Clock = system_clock
) -> tuple[int, tuple[Operation, ...]]:
    """A table's version, and what is to be done for it, in the order in which it should run.

    Args:
        policy: By whose thresholds; None: whatever there is to do is due.

    Raises:
        DeltaOpsError: As `health` and `plan_maintenance`.
    """
    if policy is None:
        plan = plan_maintenance(log, clock=clock)
        return plan.version, plan.operations
    report = health(log, thresholds=policy.thresholds, clock=clock)
    return report.figures.version, tuple(filter(policy.allows, report.operations))


def assign_policies(
    tables: Sequence[TableRef], policies: Sequence[MaintenancePolicy]
) -> list[PolicyTables]:
    """The policies that tables are looked after by, each with its tables, in their order.

    Raises:
        InvalidRequestError: A policy names a table that there is not, two are as exact as each
            other for a table, or have jobs of the same names.
    """
    _validate_names(tables, policies)
    chosen: list[list[TableRef]] = [[] for _ in policies]
    others: list[TableRef] = []
    for table in tables:
        number = _most_exact(table, policies)
        (others if number is None else chosen[number]).append(table)
    found = [PolicyTables(p, tuple(t)) for p, t in zip(policies, chosen, strict=True) if t]
    if others:
        found.append(PolicyTables(MaintenancePolicy(), tuple(others)))
    _validate_suffixes([each.policy for each in found])
    return found


def general_policy(policies: Sequence[MaintenancePolicy]) -> MaintenancePolicy:
    """The policy for all tables."""
    given = (policy for policy in policies if _ALL in policy.patterns)
    return next(given, MaintenancePolicy())


def drop_absent_tables(
    policies: Sequence[MaintenancePolicy], tables: Sequence[TableRef]
) -> tuple[list[MaintenancePolicy], list[str]]:
    """The policies without the tables that they name and that there are not, and these names; a
    policy that is for nothing else is left out.
    """
    names = {table.name for table in tables}
    kept, absent = [], list[str]()
    for policy in policies:
        lost = [each for each in policy.patterns if _ALL not in each and each not in names]
        absent += lost
        if len(lost) < len(policy.patterns):
            left = [each for each in policy.patterns if each not in lost]
            # Its jobs keep their names.
            kept.append(replace(policy, tables=left, name=policy.suffix) if lost else policy)
    return kept, absent


def _most_exact(table: TableRef, policies: Sequence[MaintenancePolicy]) -> int | None:
    """The place of the policy that counts for a table."""
    exactness = [_exactness(policy, table.name) for policy in policies]
    best = max(exactness, default=-1)
    if best < 0:
        return None
    if exactness.count(best) > 1:
        raise InvalidRequestError(
            f"{exactness.count(best)} policies name the table {table.name} as exactly as each "
            "other; leave it to one of them"
        )
    return exactness.index(best)


def _exactness(policy: MaintenancePolicy, name: str) -> int:
    """How exactly a policy names a table; -1: not at all."""
    return max((_exactness_of(pattern, name) for pattern in policy.patterns), default=-1)


def _exactness_of(pattern: str, name: str) -> int:
    if pattern == name:
        return len(name) + 1
    prefix = pattern.removesuffix(_ALL)
    return len(prefix) if prefix != pattern and name.startswith(prefix) else -1


def _validate_options(options: Mapping[Operation, Mapping[str, Any]]) -> None:
    validate_options(options)
    for operation, given in options.items():
        validate_arguments(entry_of(operation).act, given)
        for option in entry_of(operation).options:
            value = given.get(option.name, option.default)
            if option.choices and value not in option.choices:
                raise InvalidRequestError(
                    f"the option {option.name} of {operation} cannot be {value!r}; choose from "
                    f"{', '.join(option.choices)}"
                )
            if option.at_least is not None and value < option.at_least:
                raise InvalidRequestError(
                    f"the option {option.name} of {operation} cannot be {value!r}; give "
                    f"{option.at_least} at least"
                )


def _validate_pattern(pattern: object) -> None:
    if isinstance(pattern, str):
        key = "" if pattern == _ALL else pattern.removesuffix(_BELOW)
        if pattern == _ALL or (key and _ALL not in key and not key.startswith("/")):
            return
    raise InvalidRequestError(
        f"a policy cannot be for {pattern!r}; give the key of an asset, as sales/orders, sales/* "
        "for all below sales, or * for all"
    )


def _validate_names(tables: Sequence[TableRef], policies: Sequence[MaintenancePolicy]) -> None:
    names = [table.name for table in tables]
    for pattern in (pattern for policy in policies for pattern in policy.patterns):
        if _ALL not in pattern and pattern not in names:
            near = get_close_matches(pattern, names, n=1, cutoff=0)
            hint = f"; the nearest that there is is {near[0]!r}" if near else ""
            raise InvalidRequestError(f"a policy is for {pattern!r}, which is no table{hint}")


def _validate_suffixes(policies: Sequence[MaintenancePolicy]) -> None:
    suffixes = [policy.suffix for policy in policies]
    twice = next((each for each in suffixes if suffixes.count(each) > 1), None)
    if twice is not None:
        raise InvalidRequestError(
            f"the jobs of {suffixes.count(twice)} policies would have the same names, which end in "
            f"{twice!r}; give each of these policies a name"
        )

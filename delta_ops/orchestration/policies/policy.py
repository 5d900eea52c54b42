"""Policies: the rules, schedules, jobs and owners of table maintenance.

A policy names its tables by asset keys, or a property of a table names the policy; see `choice`.
The guarantees of a table to its readers are table properties, valid under any policy:
`delta.checkpointInterval`, `delta.targetFileSize`, `delta.logRetentionDuration` and
`delta.deletedFileRetentionDuration`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import HealthThresholds, MaintenanceRules, Operation
from delta_ops.maintenance.maintain import validate_options
from delta_ops.maintenance.registry import OPERATIONS, entry_of

ALL_TABLES = "*"
_BELOW = "/*"


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePolicy:
    """How tables are maintained.

    Raises:
        InvalidRequestError: A pattern, an operation or an option is unknown, or a value is invalid.

    Examples:
        >>> sales = MaintenancePolicy(
        ...     tables="sales/*", options={"vacuum": {"keep_last": 10}}, cron="0 22 * * *"
        ... )
        >>> definitions = delta_ops_definitions(DeltaLogResource(root="lake"), [], [sales])
    """

    tables: str | Sequence[str] = ALL_TABLES
    """Asset keys such as "sales/orders"; "sales/*" for all below sales; "*" for all. Empty: only
    tables whose property names the policy."""
    name: str | None = None
    """Name of the policy, in letters, digits and "_". It ends the names of the policy's jobs, and a
    table can name it by the property `delta_ops.policy`. None: the jobs' names derive from
    `tables`, and no table can name the policy."""
    operations: Sequence[Operation] | None = None
    """Operations that run when they are due; None: all operations; empty: no operation, except on
    request by a user."""
    thresholds: HealthThresholds = field(default_factory=HealthThresholds)
    """The limits of health measures: past a limit an operation is due, and a check warns."""
    options: Mapping[Operation, Mapping[str, Any]] = field(default_factory=dict)
    """Arguments of operations, such as `{"vacuum": {"mode": "lite"}}`."""
    cron: str | None = "0 3 * * *"
    """Schedule to maintain all tables, even if the sensor is off; None: no schedule."""
    timezone: str = "UTC"
    """The time zone of `cron`."""
    budget_s: int = 3600
    """After this many seconds a run begins no further table and leaves the rest to the next run."""
    tables_at_once: int = 2
    """Number of tables that a run maintains in parallel."""
    owners: Sequence[str] = ()
    """Owners of the jobs: mail addresses, or "team:..."."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags of the jobs and their runs."""
    pool: str | None = None
    """Dagster pool of the jobs; each run takes one slot."""

    def __post_init__(self) -> None:
        kinds = {
            name: getattr(self, name) for name in ("tables", "name", "operations", "thresholds")
        }
        validate_arguments(MaintenancePolicy, kinds)
        for pattern in self.patterns or (() if self.name is not None else ("",)):
            _validate_pattern(pattern)
        for operation in self.operations or ():
            entry_of(operation)
        _validate_options(self.options)
        _validate_purge_ends(self.options, self.thresholds)
        if self.name is not None and not re.fullmatch(r"\w+", self.name, re.ASCII):
            raise InvalidRequestError(
                f"the name {self.name!r} of a policy is a suffix of job names; use letters, "
                'digits and "_"'
            )
        for tag in self.tags:
            if tag.startswith("delta_ops/"):
                raise InvalidRequestError(
                    f"the tag {tag!r} of a policy uses a name that delta_ops reserves for its "
                    "jobs; choose another name"
                )
        if self.pool is not None and not self.pool.strip():
            raise InvalidRequestError(
                f"the pool of a policy is {self.pool!r}; give a name, or None for no pool"
            )
        for each in ("budget_s", "tables_at_once"):
            value = getattr(self, each)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InvalidRequestError(
                    f"{each} of a policy must be a whole number of 1 or more, not {value!r}"
                )

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns of `tables` as a tuple."""
        return (self.tables,) if isinstance(self.tables, str) else tuple(self.tables)

    @property
    def suffix(self) -> str:
        """The end of the jobs' names; "" for a policy for all tables."""
        if self.name is not None:
            return self.name
        first = self.patterns[0].removesuffix(ALL_TABLES)
        return re.sub(r"\W+", "_", first, flags=re.ASCII).strip("_")

    @property
    def rules(self) -> MaintenanceRules:
        """Thresholds, allowed operations and options of the policy."""
        return MaintenanceRules(
            thresholds=self.thresholds, operations=self.operations, options=self.options
        )

    @property
    def has_work(self) -> bool:
        """Whether the policy allows any operation."""
        return any(self.rules.allows(entry.name) for entry in OPERATIONS)


def _validate_options(options: Mapping[Operation, Mapping[str, Any]]) -> None:
    validate_options(options)
    for operation, values in options.items():
        validate_arguments(entry_of(operation).act, values)
        for option in entry_of(operation).options:
            value = values.get(option.name, option.default)
            if option.choices and value not in option.choices:
                raise InvalidRequestError(
                    f"the option {option.name} of {operation} cannot be {value!r}; choose from "
                    f"{', '.join(option.choices)}"
                )
            if None not in (option.at_least, value) and value < option.at_least:
                raise InvalidRequestError(
                    f"the option {option.name} of {operation} cannot be {value!r}; give "
                    f"{option.at_least} at least"
                )


def _validate_purge_ends(
    options: Mapping[Operation, Mapping[str, Any]], thresholds: HealthThresholds
) -> None:
    """Reject a purge that stays due after each run, because it does not rewrite some files."""
    of_purge, limit = options.get("purge", {}), thresholds.deleted_rows
    share = of_purge.get("deleted_share")
    if "deleted_share" in of_purge and limit and (share is None or share > limit):
        raise InvalidRequestError(
            f"the option deleted_share of purge cannot be {share!r} because purge is due above "
            f"the threshold deleted_rows of {limit}: files between both values would keep it due. "
            "Give a share up to the threshold, or raise the threshold"
        )


def _validate_pattern(pattern: object) -> None:
    if isinstance(pattern, str):
        key = "" if pattern == ALL_TABLES else pattern.removesuffix(_BELOW)
        if pattern == ALL_TABLES or (key and ALL_TABLES not in key and not key.startswith("/")):
            return
    raise InvalidRequestError(
        f"a policy cannot be for {pattern!r}; give an asset key such as sales/orders, sales/* for "
        "all keys below sales, or * for all"
    )

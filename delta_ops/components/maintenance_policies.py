"""Maintenance policies in YAML: the fields of `MaintenancePolicy`, with a schema for editors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import dagster as dg
from pydantic import BeforeValidator, Field

from delta_ops.components.attributes import naming, validate_cron
from delta_ops.maintenance import HealthThresholds
from delta_ops.maintenance.registry import Operation
from delta_ops.orchestration.policies.policy import MaintenancePolicy

_text = dg.Resolver.default


def _refuse_truth_value(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is a boolean; give a number")
    return value


_IS_NUMBER = BeforeValidator(_refuse_truth_value)
"""Rejects booleans, because pydantic turns true into 1."""


class ThresholdAttributes(dg.Resolvable, dg.Model):
    """Thresholds for due operations; `HealthThresholds` has the defaults."""

    small_files: Annotated[
        int | None, _text(description="Small files that can be compacted."), _IS_NUMBER
    ] = None
    clustering_depth: Annotated[
        int | None,
        _text(description="Overlapping files of a table with clustering columns or a sort key."),
        _IS_NUMBER,
    ] = None
    unindexed_files: Annotated[
        int | None, _text(description="Files that an inverted index does not cover."), _IS_NUMBER
    ] = None
    index_selectivity: Annotated[
        float | None,
        _text(description="Share of the files that hold one value of an index."),
        _IS_NUMBER,
    ] = None
    commits_since_checkpoint: Annotated[
        int | None,
        _text(
            description=(
                "Commits since the checkpoint; by default the table's delta.checkpointInterval."
            )
        ),
        _IS_NUMBER,
    ] = None
    commit_bytes_since_checkpoint: Annotated[
        int | None, _text(description="Bytes of commits since the checkpoint."), _IS_NUMBER
    ] = None
    commits_since_scan_cache: Annotated[
        int | None,
        _text(
            description=(
                "Commits since the scan cache; by default the table's delta_ops.scanCacheInterval."
            )
        ),
        _IS_NUMBER,
    ] = None
    scan_cache_files: Annotated[
        int | None, _text(description="Live files of a table without a scan cache."), _IS_NUMBER
    ] = None
    expired_tombstones: Annotated[
        int | None, _text(description="Removed files past their retention."), _IS_NUMBER
    ] = None
    expired_log_files: Annotated[int | None, _text(description="Log files."), _IS_NUMBER] = None
    deleted_rows: Annotated[
        float | None, _text(description="Share of rows that deletion vectors delete."), _IS_NUMBER
    ] = None
    partition_skew: Annotated[
        float | None,
        _text(description="Size of the largest partition, relative to the mean."),
        _IS_NUMBER,
    ] = None
    file_size_skew: Annotated[
        float | None,
        _text(description="Size of the largest file, relative to the target size."),
        _IS_NUMBER,
    ] = None
    stats_coverage: Annotated[
        float | None, _text(description="Smallest share of files with statistics."), _IS_NUMBER
    ] = None
    promised_time_travel_ms: Annotated[
        int | None,
        _text(description="Shortest time that versions stay readable, in milliseconds."),
        _IS_NUMBER,
    ] = None


class PolicyAttributes(dg.Resolvable, dg.Model):
    """How tables are maintained; see `MaintenancePolicy`."""

    tables: Annotated[
        str | list[str],
        _text(
            description=(
                "Asset keys; sales/* for all keys below sales, * for all; [] for tables that name "
                "the policy in their property delta_ops.policy."
            ),
            examples=["*", ["sales/orders", "sales/returns"]],
        ),
    ] = "*"
    name: Annotated[
        str | None,
        _text(
            description=(
                "Suffix of the names of the policy's jobs; a table property can choose the "
                "policy by "
                "this name."
            )
        ),
    ] = None
    operations: Annotated[
        list[Operation] | None,
        _text(
            description=(
                "Operations to run when they are due; all by default, none with an empty list."
            )
        ),
    ] = None
    thresholds: Annotated[
        ThresholdAttributes | None, _text(description="Thresholds above which an operation is due.")
    ] = None
    options: Annotated[
        dict[str, dict[str, Any]],
        _text(description="Arguments of operations.", examples=[{"vacuum": {"mode": "lite"}}]),
    ] = Field(default={})
    cron: Annotated[
        str | None,
        _text(description="Schedule for the maintenance of all tables; null: no schedule."),
    ] = "0 3 * * *"
    timezone: Annotated[str, _text(description="Time zone of cron.")] = "UTC"
    budget_s: Annotated[
        int,
        _text(description="Time budget in seconds; a run starts no further table after it."),
        _IS_NUMBER,
    ] = 3600
    tables_at_once: Annotated[
        int, _text(description="Number of tables that a run maintains in parallel."), _IS_NUMBER
    ] = 2
    owners: Annotated[
        list[str], _text(description="Owners of the jobs.", examples=[["team:lake"]])
    ] = Field(default=[])
    tags: Annotated[dict[str, str], _text(description="Tags of the jobs and their runs.")] = Field(
        default={}
    )
    pool: Annotated[str | None, _text(description="Dagster pool that limits concurrent runs.")] = (
        None
    )

    def policy(self) -> MaintenancePolicy:
        """Build the policy.

        Raises:
            InvalidRequestError: A pattern, an operation, an option or a number is invalid.
        """
        values = {name: getattr(self, name) for name in type(self).model_fields}
        limits = {} if self.thresholds is None else self.thresholds.model_dump(exclude_none=True)
        return MaintenancePolicy(**{**values, "thresholds": HealthThresholds(**limits)})


def policies_from(attributes: Sequence[PolicyAttributes]) -> list[MaintenancePolicy]:
    """Build the policies of the attribute `policies`.

    Raises:
        AttributeRefusedError: A policy is invalid.
    """
    policies = []
    for number, each in enumerate(attributes):
        with naming(f"policies.{number}"):
            policies.append(each.policy())
        attribute = "timezone" if each.cron is None else "cron"
        cron = "0 0 * * *" if each.cron is None else each.cron
        validate_cron(f"policies.{number}.{attribute}", cron, each.timezone)
    return policies

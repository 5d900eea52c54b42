"""Dagster records: materializations and evaluations of checks in the event log of an instance.

Some of them have no public API. A test runs each function against the installed Dagster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.dagster_versions import AssetCheckEvaluation

_MOST_EVALUATIONS = 100
"""Number of newest evaluations of a check to search."""


def materializations_of_run(
    instance: dg.DagsterInstance, run_id: str, asset_key: dg.AssetKey | None = None
) -> list[dg.EventLogRecord]:
    """The materializations that a run has logged, newest first; of one asset if a key is given."""
    kind = dg.DagsterEventType.ASSET_MATERIALIZATION
    records = instance.get_records_for_run(run_id, of_type=kind).records
    found = [each for each in records if asset_key in (None, each.asset_key)]
    return sorted(found, key=lambda each: -each.storage_id)


def newest_record(
    instance: dg.DagsterInstance, asset_key: dg.AssetKey, partition: str | None
) -> dg.EventLogRecord | None:
    """The record of an asset's newest materialization, or of its partition's; None without one."""
    keys = None if partition is None else [partition]
    wanted = dg.AssetRecordsFilter(asset_key=asset_key, asset_partitions=keys)
    records = instance.fetch_materializations(wanted, limit=1).records
    return records[0] if records else None


def has_finished_step(instance: dg.DagsterInstance, run_id: str) -> bool:
    """Whether a step of a run has ended with success."""
    kind = dg.DagsterEventType.STEP_SUCCESS
    return bool(instance.get_records_for_run(run_id, of_type=kind, limit=1).records)


class LoggedEvaluation(NamedTuple):
    """An evaluation of an asset check."""

    key: dg.AssetCheckKey
    passed: bool
    is_error: bool
    """Whether its severity is ERROR."""
    is_blocking: bool
    """False in versions of Dagster that do not record it."""
    target_storage_id: int | None
    """The storage id of the materialization that was checked, if Dagster recorded it."""
    timestamp: float
    """Seconds since the Unix epoch."""


def check_evaluations_of_run(
    instance: dg.DagsterInstance, run_id: str, *, after_start_of: str | None = None
) -> list[LoggedEvaluation]:
    """The evaluations of asset checks that a run has logged, oldest first.

    Args:
        after_start_of: The key of a step; omits evaluations before its last execution began.
    """
    kinds = {
        dg.DagsterEventType.ASSET_CHECK_EVALUATION,
        dg.DagsterEventType.STEP_START,
        dg.DagsterEventType.STEP_RESTARTED,
    }
    found: list[LoggedEvaluation] = []
    for entry in instance.all_logs(run_id, of_type=kinds):
        event = entry.dagster_event
        if event is None:
            continue
        if event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            found.append(_evaluation(event.asset_check_evaluation_data, entry.timestamp))
        elif event.step_key == after_start_of:
            found.clear()
    return found


def latest_check_evaluations(
    instance: dg.DagsterInstance, key: dg.AssetCheckKey
) -> list[LoggedEvaluation]:
    """The newest evaluations of an asset check, in any run."""
    finished = {AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED}
    history = instance.event_log_storage.get_asset_check_execution_history
    return [
        _evaluation(record.evaluation, record.event.timestamp)
        for record in history(key, limit=_MOST_EVALUATIONS, status=finished)
        if record.evaluation is not None and record.event is not None
    ]


def _evaluation(evaluation: AssetCheckEvaluation, timestamp: float) -> LoggedEvaluation:
    target = evaluation.target_materialization_data
    return LoggedEvaluation(
        key=evaluation.asset_check_key,
        passed=evaluation.passed,
        is_error=evaluation.severity == dg.AssetCheckSeverity.ERROR,
        is_blocking=bool(getattr(evaluation, "blocking", None)),
        target_storage_id=None if target is None else target.storage_id,
        timestamp=timestamp,
    )


def blocking_checks(
    context: dg.AssetExecutionContext, asset_key: dg.AssetKey
) -> set[dg.AssetCheckKey]:
    """The blocking checks of an asset in the run's job, and in its code location if it has one."""
    return {
        spec.key
        for definition in _definitions(context.op_execution_context)
        for spec in definition.check_specs
        if spec.asset_key == asset_key and spec.blocking
    }


def definition_metadata(context: dg.OutputContext) -> Iterator[Mapping[str, Any]]:
    """The metadata of each asset in the run's job, and in its code location if it has one."""
    for definition in _definitions(dg.OpExecutionContext(context.step_context)):
        for spec in definition.specs:
            yield spec.metadata


def _definitions(context: dg.OpExecutionContext) -> Iterator[dg.AssetsDefinition]:
    yield from context.job_def.asset_layer.asset_graph.assets_defs
    repository = compat.repository_of(context)
    if repository is not None:
        yield from repository.asset_graph.assets_defs

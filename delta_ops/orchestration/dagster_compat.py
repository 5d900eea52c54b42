"""Dagster compatibility: uses of Dagster's non-public API; `dagster_records` has more.

A test runs each function against the installed Dagster, so an incompatible release fails there.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import dagster as dg
from dagster._check import CheckError
from dagster._core.storage.asset_check_execution_record import (
    AssetCheckExecutionRecord,
    AssetCheckExecutionRecordStatus,
)

from delta_ops.orchestration.dagster_versions import COMPARES_TARGETS, AssetCheckEvaluation

CheckFailure = CheckError
"""The error of Dagster for a value of a wrong type."""
_DATA_VERSION_TAG = "dagster/data_version"
_SEARCHED_EVALUATIONS = 20
"""Number of newest evaluations of a check to search."""


def set_data_version(context: dg.OutputContext, version: str) -> None:
    """Set the data version of the materialization of this output.

    A context of `dg.build_output_context` has no step, and nobody materializes its output.
    """
    if not _has_step(context) or not context.has_asset_key:
        return
    context.step_context.set_data_version(context.asset_key, dg.DataVersion(version))


def created_ms(record: dg.RunRecord) -> int:
    """When a run was created, in milliseconds.

    Dagster 1.10 stores whole seconds in SQLite. There, the last three digits of the record's number
    order the runs of a second, except where they begin again at 000.
    """
    created = record.create_timestamp
    whole = int(created.timestamp() * 1000)
    return whole if created.microsecond else whole + record.storage_id % 1000


def annotation(context: dg.InputContext | dg.OutputContext) -> Any:
    """The annotation of an input or output; `Any` if the context has none."""
    try:
        return context.dagster_type.typing_type
    except dg.DagsterInvariantViolationError:
        return Any


def output_name(context: dg.OutputContext) -> str:
    """The name of an output without an asset, for messages."""
    try:
        return f"the output {context.name} of the op {context.step_key}"
    except dg.DagsterInvariantViolationError:
        return "the output"


def running_op(
    context: dg.OpExecutionContext | dg.AssetExecutionContext | dg.AssetCheckExecutionContext,
) -> dg.OpExecutionContext | None:
    """The context of the op that runs; None if a unit test has called the op without a run."""
    op: Any = context
    op = getattr(op, "op_execution_context", op)
    try:
        op.get_step_execution_context()
    except dg.DagsterError:
        return None
    running: dg.OpExecutionContext = op
    return running


def step_key(context: dg.OpExecutionContext) -> str:
    """The key of the step that an op runs in; a dynamic step has its mapping key."""
    return context.get_step_execution_context().step.key


def leaves_out_steps(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Whether a run executes some steps of its job, and takes the outputs of others from a parent.

    Some runs of all steps list all steps.
    """
    if not run.step_keys_to_execute or run.execution_plan_snapshot_id is None:
        return False
    plan = instance.get_execution_plan_snapshot(run.execution_plan_snapshot_id)
    return not {step.key for step in plan.steps}.issubset(run.step_keys_to_execute)


def output_key(context: dg.OutputContext) -> dg.AssetKey:
    """The asset of an output; for an op's output without an asset, its step and its name."""
    if context.has_asset_key:
        return context.asset_key
    return dg.AssetKey([*context.step_key.split("."), context.name])


def input_text(context: dg.InputContext) -> str:
    """The asset of an input, or the name of an input without an asset, for messages."""
    return context.asset_key.to_user_string() if context.has_asset_key else context.name


def partitions_of_output(context: dg.OutputContext) -> dg.PartitionsDefinition[Any] | None:
    """The partitions of an output's asset; None if a test built the context without them."""
    try:
        return context.asset_partitions_def
    except dg.DagsterInvariantViolationError:
        return None


def add_asset_key(context: dg.InputContext) -> dg.InputContext:
    """A context of `dg.build_input_context` that has the asset key of its upstream output."""
    upstream = context.upstream_output
    if context.has_asset_key or _has_step(context) or upstream is None:
        return context
    if not upstream.has_asset_key:
        return context
    partitions: dict[str, Any] = {}
    if upstream.has_partition_key:
        partitions = {
            "partition_key": upstream.partition_key,
            "asset_partitions_def": partitions_of_output(upstream),
        }
    kind = annotation(context)
    return dg.build_input_context(
        asset_key=upstream.asset_key,
        upstream_output=upstream,
        definition_metadata=context.definition_metadata,
        dagster_type=None if kind is Any else context.dagster_type,
        **partitions,
    )


def instance_of(context: dg.InputContext | dg.OutputContext) -> dg.DagsterInstance | None:
    """The instance of the step; None outside a run."""
    return context.step_context.instance if _has_step(context) else None


def input_data_version(context: dg.InputContext) -> str | None:
    """The upstream's data version that Dagster records as this step's provenance."""
    if not _has_step(context):
        return None
    info = context.step_context.maybe_fetch_and_get_input_asset_version_info(context.asset_key)
    version = info.data_version if info is not None else None
    return version.value if version is not None else None


def input_partition_data_versions(context: dg.InputContext, keys: Sequence[str]) -> list[str]:
    """The data versions of an upstream's partitions when this step began.

    Dagster hashes these versions and records the hash as provenance.
    """
    if not _has_step(context):
        return []
    info = context.step_context.maybe_fetch_and_get_input_asset_version_info(context.asset_key)
    newest = info.storage_id if info is not None else None
    instance = context.step_context.instance
    return _partition_data_versions(instance, context.asset_key, keys, newest)


def repository_of(context: dg.OpExecutionContext) -> dg.RepositoryDefinition | None:
    """The definitions of the run's code location; None for a job outside a code location."""
    try:
        return context.repository_def
    except CheckError:
        return None


def io_manager_of(assets: dg.AssetsDefinition, asset_key: dg.AssetKey) -> Any:
    """The IO manager of an asset, as its definition has it; None if it is not configurable.

    Fields that come from the environment or from the config of a run are not resolved.
    """
    resource = assets.resource_defs.get(assets.get_io_manager_key_for_asset_key(asset_key))
    return getattr(getattr(resource, "resource_fn", None), "__self__", None)


def asset_graph_of(context: dg.OutputContext) -> Any:
    """All assets of the run's code location, or else of its job; None outside a run."""
    if not _has_step(context):
        return None
    repository = repository_of(dg.OpExecutionContext(context.step_context))
    if repository is not None:
        return repository.asset_graph
    return context.step_context.job_def.asset_layer.asset_graph


def has_no_output(assets: dg.AssetsDefinition, asset_key: dg.AssetKey) -> bool:
    """Whether the type of an asset's output is `Nothing`, so that no IO manager stores it."""
    names = [name for name, key in assets.keys_by_output_name.items() if key == asset_key]
    return all(assets.node_def.output_def_named(n).dagster_type.is_nothing for n in names)


def latest_data_versions_without_partition(context: dg.InputContext) -> list[str]:
    """The data version of an upstream's newest materialization, if it has no partition."""
    if not _has_step(context):
        return []
    event = context.step_context.instance.get_latest_materialization_event(context.asset_key)
    materialization = event.asset_materialization if event is not None else None
    if materialization is None or materialization.partition is not None:
        return []
    return [t for n, t in (materialization.tags or {}).items() if n == _DATA_VERSION_TAG]


def logged_data_versions(context: dg.OutputContext) -> list[str]:
    """The data versions of the latest materializations of an output, or of its partitions."""
    if not _has_step(context) or not context.has_asset_key:
        return []
    keys = context.asset_partition_keys if context.has_asset_partitions else None
    return latest_data_versions(context.step_context.instance, context.asset_key, keys)


def latest_data_versions(
    instance: dg.DagsterInstance, asset_key: dg.AssetKey, partitions: Sequence[str] | None
) -> list[str]:
    """The data versions of the latest materializations of an asset, or of its partitions."""
    if partitions is not None:
        return _partition_data_versions(instance, asset_key, partitions, None)
    event = instance.get_latest_materialization_event(asset_key)
    materialization = event.asset_materialization if event is not None else None
    tags = materialization.tags if materialization is not None else None
    return [tags[_DATA_VERSION_TAG]] if tags and _DATA_VERSION_TAG in tags else []


def _partition_data_versions(
    instance: dg.DagsterInstance,
    asset_key: dg.AssetKey,
    keys: Sequence[str],
    newest: int | None,
) -> list[str]:
    tags_by_partition = instance.event_log_storage.get_latest_tags_by_partition(
        asset_key,
        dg.DagsterEventType.ASSET_MATERIALIZATION,
        [_DATA_VERSION_TAG],
        asset_partitions=list(keys),
        before_cursor=None if newest is None else newest + 1,
    )
    return [tags[_DATA_VERSION_TAG] for tags in tags_by_partition.values()]


def add_partition_metadata(
    context: dg.OutputContext, partition: str, metadata: Mapping[str, Any]
) -> None:
    """Add metadata to the materialization of a single partition."""
    if not _has_step(context):
        return
    context.step_context.add_asset_metadata(
        metadata, asset_key=context.asset_key, partition_key=partition
    )


def added_metadata(context: dg.OutputContext, partition: str | None) -> Mapping[str, Any]:
    """The metadata that the step added to this output, or to one of its partitions."""
    if not _has_step(context) or not context.has_asset_key:
        return {}
    return context.step_context.get_asset_metadata(context.asset_key, partition) or {}


def consumer_partitions(
    context: dg.InputContext,
) -> tuple[dg.PartitionsDefinition[Any], Sequence[str]] | None:
    """The partitions definition of the asset that reads this input, and the run's partition keys.

    Returns:
        None if the asset has no partitions.
    """
    if not _has_step(context) or not context.step_context.has_partitions:
        return None
    partitions = context.step_context.run_partitions_def
    if partitions is None:
        return None
    return partitions, dg.OpExecutionContext(context.step_context).partition_keys


def run_of_input(context: dg.InputContext) -> dg.DagsterRun | None:
    """The run that reads this input; None outside a run."""
    return context.step_context.dagster_run if _has_step(context) else None


def consumer_metadata(context: dg.InputContext) -> Mapping[dg.AssetKey, Mapping[str, Any]]:
    """The definition metadata of the assets whose step reads this input."""
    if not _has_step(context):
        return {}
    step = context.step_context
    assets = step.job_def.asset_layer
    return {key: assets.get(key).metadata for key in step.get_output_asset_keys()}


def record_read(context: dg.InputContext, metadata: Mapping[str, Any]) -> None:
    """Add metadata about a read input to the assets that this step materializes."""
    if not _has_step(context):
        return
    step = context.step_context
    for key in step.get_output_asset_keys():
        step.add_asset_metadata(metadata, asset_key=key)


def dagster_run(context: dg.OutputContext) -> dg.DagsterRun | None:
    """The run that writes this output; None outside a run."""
    return context.step_context.dagster_run if _has_step(context) else None


def dagster_instance(context: dg.OutputContext) -> dg.DagsterInstance:
    """The instance of the run that writes this output."""
    return context.step_context.instance


def asset_events_of_run(instance: dg.DagsterInstance, run_id: str) -> Sequence[dg.EventLogEntry]:
    """Materializations and observations that a run has logged, oldest first."""
    kinds = {dg.DagsterEventType.ASSET_MATERIALIZATION, dg.DagsterEventType.ASSET_OBSERVATION}
    return instance.all_logs(run_id, of_type=kinds)


def code_location(run: dg.DagsterRun) -> tuple[str, str] | None:
    """Names of a run's code location and repository; None for a run without them."""
    if run.remote_job_origin is None:
        return None
    repository = run.remote_job_origin.repository_origin
    return repository.code_location_origin.location_name, repository.repository_name


def last_reported_value(instance: dg.DagsterInstance, key: dg.AssetCheckKey, name: str) -> Any:
    """The value of a metadata key in the latest evaluation of an asset check; None without one.

    Evaluations without the key, such as the evaluation of an unreadable table, are skipped.
    """
    # The history also has the current execution, so filter by status.
    finished = {AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED}
    history = instance.event_log_storage.get_asset_check_execution_history
    for record in history(key, limit=_SEARCHED_EVALUATIONS, status=finished):
        if record.evaluation is not None and name in record.evaluation.metadata:
            return record.evaluation.metadata[name].value
    return None


def newest_materialization(instance: dg.DagsterInstance, asset_key: dg.AssetKey) -> Any:
    """The newest materialization of an asset, as the target of check evaluations."""
    records = instance.fetch_materializations(asset_key, limit=1).records
    if not records:
        return None
    newest = records[0]
    # Its module has another name in each of several versions of Dagster.
    module: Any = sys.modules[AssetCheckEvaluation.__module__]
    return module.AssetCheckEvaluationTargetMaterializationData(
        storage_id=newest.storage_id, run_id=newest.run_id, timestamp=newest.timestamp
    )


def target_of_evaluation(instance: dg.DagsterInstance, asset_key: dg.AssetKey) -> Any:
    """The target of an evaluation of the rows as they are; None if Dagster needs none."""
    return newest_materialization(instance, asset_key) if COMPARES_TARGETS else None


class CheckState(NamedTuple):
    """The latest evaluation of an asset check."""

    passed: bool
    severity: dg.AssetCheckSeverity | None
    metadata_keys: Collection[str]


def latest_check_states(
    instance: dg.DagsterInstance, keys: Sequence[dg.AssetCheckKey]
) -> dict[dg.AssetCheckKey, CheckState | None]:
    """The state of each asset check; None if its latest execution has not ended.

    Checks that were never executed are omitted.
    """
    records = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    return {key: _check_state(record) for key, record in records.items()}


def _check_state(record: AssetCheckExecutionRecord) -> CheckState | None:
    finished = {AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED}
    evaluation = record.evaluation
    if record.status not in finished or evaluation is None:
        return None
    return CheckState(evaluation.passed, evaluation.severity, evaluation.metadata.keys())


def sensor_location(context: dg.SensorEvaluationContext) -> tuple[str, str] | None:
    """Names of a sensor's code location and repository; None for a sensor without them."""
    if context.code_location_origin is None or context.repository_name is None:
        return None
    return context.code_location_origin.location_name, context.repository_name


def has_window_key(windows: dg.TimeWindowPartitionsDefinition, key: str) -> bool:
    """Whether the window of a key has ended and is not excluded by the definition."""
    return windows.has_partition_key(key)


def window_key(windows: dg.TimeWindowPartitionsDefinition, timestamp: float) -> str:
    """The key of the window that contains a time, in seconds since the Unix epoch, ended or not."""
    return windows.get_partition_key_for_timestamp(timestamp)


def window_start(windows: dg.TimeWindowPartitionsDefinition, key: str) -> datetime:
    """The start of the window of a key."""
    return windows.time_window_for_partition_key(key).start


def partition_tags(key: str) -> dict[str, str]:
    """Tags that keep the dimensions of a multi-partition key in a stored event."""
    if not isinstance(key, dg.MultiPartitionKey):
        return {}
    return {f"dagster/partition/{name}": part for name, part in key.keys_by_dimension.items()}


def yaml_place(context: dg.ResolutionContext, path: Sequence[str | int]) -> str | None:
    """File and line of an attribute below the context; None if the values are not from a file."""
    tree = context.source_position_tree
    if tree is None:
        return None
    position, _ = tree.lookup_closest_and_path([*context.path, *path], None)
    return str(position)


def _has_step(context: Any) -> bool:
    try:
        return context.step_context is not None
    except dg.DagsterInvariantViolationError:
        return False

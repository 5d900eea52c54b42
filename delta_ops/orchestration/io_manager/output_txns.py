"""Output txns: txn identifiers, so that a rerun detects its committed work.

    run        the default: a re-execution or retry of a failed run detects the commits of that run
    source     the rows come from a source with a position: any run that reads the position again
               detects the commit; the positions of a source must only grow
    partition  overwrites only: a run fails and changes nothing if a newer run has written one of
               its partitions

A run that continues another run has the same identity, see `reruns`. If the record of the other run
was deleted, the table decides: each `run` identity names the root run or backfill, and each run
knows its own root. The deleted run counts as failed, because missing rows can still be appended,
but duplicate rows cannot be distinguished. An overwrite is then repeated.

A committed position of a source is written again only if a run has the tag
`delta_ops/idempotency=force`: once for that run and the runs that continue it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import dagster as dg

from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog
from delta_ops.log.commit_file import Commit
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.dagster_compat import dagster_instance, dagster_run
from delta_ops.orchestration.io_manager.reruns import (
    LostRun,
    RunChain,
    WrittenAsset,
    backfill_root_id,
    chain_ending_with,
    chain_origin_id,
    has_succeeded,
    root_id,
)
from delta_ops.orchestration.tags import IDEMPOTENCY_TAG, validate_tags
from delta_ops.transaction import Txn

Idempotency = Literal["run", "source", "partition"]


def declared_idempotency(asset_key: dg.AssetKey, declared: object) -> Idempotency:
    """The idempotency in an asset's metadata.

    Raises:
        InvalidRequestError: The value is unknown.
    """
    for known in get_args(Idempotency):
        if declared == known:
            idempotency: Idempotency = known
            return idempotency
    raise InvalidRequestError(
        f"asset {asset_key.to_user_string()} declares delta/idempotency {declared!r}; choose from "
        f"{', '.join(get_args(Idempotency))}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutput:
    """The output of a step: its run, asset and partitions, which identify a write."""

    instance: dg.DagsterInstance
    run: dg.DagsterRun
    asset_key: dg.AssetKey
    partitions: tuple[str, ...]
    """Keys; empty for an asset without partitions."""
    partition_text: str | None
    """The partition, or the first and the last of a range; None without partitions."""
    is_asset: bool = True
    """False for an op's output without an asset; `asset_key` then names the step."""
    part: str = ""
    """What is written, if it is not the output itself."""

    @property
    def name(self) -> str:
        """The asset and, if it has partitions, the partition or range of partitions."""
        name = self.asset_key.to_user_string()
        name = name if self.partition_text is None else f"{name}[{self.partition_text}]"
        return f"{name} {self.part}" if self.part else name

    def written_asset(self, *, is_repeatable: bool) -> WrittenAsset:
        """The asset and the partitions, and whether they may be written a second time."""
        return WrittenAsset(self.asset_key, self.partitions, is_repeatable)


def step_output(context: dg.OutputContext) -> StepOutput | None:
    """The output that an IO manager handles; None outside a run."""
    run = dagster_run(context)
    if run is None:
        return None
    validate_tags(run)
    keys: tuple[str, ...] = ()
    text = None
    if context.has_asset_partitions:
        keys = _require_keys(context.asset_key, context.asset_partition_keys)
        text = _partition_text(
            context.asset_partitions_def, keys, lambda: context.asset_partition_key_range
        )
    return StepOutput(
        instance=dagster_instance(context),
        run=run,
        asset_key=compat.output_key(context),
        is_asset=context.has_asset_key,
        partitions=keys,
        partition_text=text,
    )


def step_output_of_op(context: dg.OpExecutionContext, part: str) -> StepOutput:
    """What an op writes by itself; it may be an op of a graph that materializes an asset.

    Args:
        part: Which of the writes of the run it is.
    """
    keys = sorted(context.assets_def.keys) if context.has_assets_def else ()
    if keys:
        return replace(step_output_of_asset(context, keys[0]), part=part)
    validate_tags(context.run)
    return StepOutput(
        instance=context.instance,
        run=context.run,
        asset_key=dg.AssetKey(compat.step_key(context).split(".")),
        is_asset=False,
        partitions=(),
        partition_text=None,
        part=part,
    )


def step_output_of_asset(
    context: dg.AssetExecutionContext | dg.OpExecutionContext, asset_key: dg.AssetKey
) -> StepOutput:
    """The output for one of the assets that a step materializes."""
    validate_tags(context.run)
    partitions = context.assets_def.specs_by_key[asset_key].partitions_def
    keys: tuple[str, ...] = ()
    text = None
    if partitions is not None:
        keys = _require_keys(asset_key, context.partition_keys)
        text = _partition_text(partitions, keys, lambda: context.partition_key_range)
    return StepOutput(
        instance=context.instance,
        run=context.run,
        asset_key=asset_key,
        partitions=keys,
        partition_text=text,
    )


def write_txns(
    output: StepOutput | None,
    open_log: Callable[[], DeltaLog],
    idempotency: Idempotency,
    *,
    is_repeatable: bool,
) -> list[Txn]:
    """The txns that identify a write; none outside a run.

    Args:
        open_log: Called only if the record of a run was deleted.
        idempotency: "run" or "partition"; the parts of a "source" have identities of their own.
        is_repeatable: Whether the output may be written twice.

    Raises:
        InvalidRequestError: A record was deleted, so it is unknown whether a newer run has
            overwritten one of the partitions.
    """
    if output is None or (is_repeatable and not output.is_asset):
        return []  # without events in Dagster, a corrected rerun looks like a retry
    if idempotency == "partition":
        return _partition_txns(output, open_log)
    asset = output.written_asset(is_repeatable=is_repeatable)
    chain = chain_ending_with(output.instance, output.run, asset, through_backfills=True)
    return [Txn(app_id=_run_app_id(output, open_log, chain, is_repeatable), version=0)]


def source_txn(asset_key: dg.AssetKey, source: str, position: int) -> Txn:
    """The txn for the data of a source up to a position.

    Examples:
        >>> txn = source_txn(dg.AssetKey("orders"), "orders.csv", 17)
        >>> txn.version, da.write("lake/visits", pa.table({"id": [1]}), txn=txn).version
        (17, 0)
    """
    return Txn(app_id=f"dagster:source:{asset_key.to_user_string()}:{source}", version=position)


def forced_source_txn(context: dg.OutputContext, source: str, position: int) -> Txn | None:
    """The identity of a position in a run with the "force" tag; None in any other run.

    Runs that continue the run have the same identity.
    """
    output = step_output(context)
    if output is None:
        return None
    asset = output.written_asset(is_repeatable=False)
    chain = chain_ending_with(output.instance, output.run, asset)
    if chain.lost is not None or chain.first.tags.get(IDEMPOTENCY_TAG) != "force":
        return None
    name = f"{output.asset_key.to_user_string()}:{chain.first.run_id}:{source}"
    return Txn(app_id=f"dagster:forced:{name}", version=position)


def user_metadata(output: StepOutput | None, texts: Mapping[str, str] | None) -> str | None:
    """User metadata for a commit as JSON: the run that made it, and further strings."""
    values: dict[str, str] = dict(texts or {})
    if output is not None:
        values["dagster/run_id"] = output.run.run_id
        values["dagster/root_run_id"] = root_id(output.run)
        values["dagster/job"] = output.run.job_name
        of = "dagster/asset" if output.is_asset else "dagster/step"
        values[of] = output.asset_key.to_user_string()
        if output.partition_text is not None:
            values["dagster/partition"] = output.partition_text
    return json.dumps(values, separators=(",", ":")) if values else None


def run_id_of_commit(commit: Commit) -> str | None:
    """The run that committed an output, by the user metadata of the commit; None if unknown."""
    text = commit.info.values.get("userMetadata") if commit.info else None
    try:
        values = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    found = values.get("dagster/run_id") if isinstance(values, dict) else None
    return found if isinstance(found, str) else None


def _require_keys(asset_key: dg.AssetKey, keys: Sequence[str]) -> tuple[str, ...]:
    """The partition keys of a run.

    Raises:
        InvalidRequestError: There are none.
    """
    if not keys:
        raise InvalidRequestError(
            f"the range of partitions of this run has no partition of asset "
            f"{asset_key.to_user_string()}; start a run for a range that has one. Nothing was "
            "written"
        )
    return tuple(keys)


def _partition_text(
    partitions: dg.PartitionsDefinition[Any],
    keys: Sequence[str],
    key_range: Callable[[], dg.PartitionKeyRange],
) -> str:
    if isinstance(partitions, dg.MultiPartitionsDefinition):
        # Dagster has a range for each key of the first dimension.
        sorted_keys = sorted(keys)
        start, end = sorted_keys[0], sorted_keys[-1]
    else:
        start, end = key_range()
    return start if start == end else f"{start}...{end}"


def _partition_txns(output: StepOutput, open_log: Callable[[], DeltaLog]) -> list[Txn]:
    """One identity for each partition, so that runs over overlapping ranges find each other."""
    asset = output.written_asset(is_repeatable=True)
    chain = chain_ending_with(output.instance, output.run, asset)
    record = output.instance.get_run_record_by_id(chain.first.run_id)
    created_ms = compat.created_ms(record) if record is not None else 0
    name = output.asset_key.to_user_string()
    names = [f"{name}[{key}]" for key in output.partitions] or [name]
    txns = [
        Txn(app_id=f"dagster:partition:{each}", version=created_ms, newer_is_stale=True)
        for each in names
    ]
    if chain.lost is not None:
        _validate_not_overtaken(open_log(), txns, output.run.run_id, chain.lost)
    return txns


def _run_app_id(
    output: StepOutput, open_log: Callable[[], DeltaLog], chain: RunChain, is_repeatable: bool
) -> str:
    of_output = f"dagster:run:{output.name}:"
    if chain.lost is not None and not is_repeatable:
        committed = _find_committed(output.instance, open_log(), of_output, chain.lost.root_id)
        if committed is not None:
            return committed
    root = backfill_root_id(chain.first) or root_id(chain.first)
    # It is unknown whether a deleted run has logged its overwrite.
    origin = chain.first.run_id if is_repeatable else chain_origin_id(output.instance, chain)
    return f"{of_output}{root}" if root == origin else f"{of_output}{root}:{origin}"


def _find_committed(
    instance: dg.DagsterInstance, log: DeltaLog, of_output: str, root: str
) -> str | None:
    """A committed txn with this root, whose run may be the deleted run."""
    snapshot = log.snapshot_if_exists()
    for app_id in snapshot.transactions() if snapshot is not None else ():
        ids = app_id.removeprefix(of_output).split(":")
        if app_id.startswith(of_output) and root in ids and not has_succeeded(instance, ids[-1]):
            return app_id
    return None


def _validate_not_overtaken(log: DeltaLog, txns: Sequence[Txn], run_id: str, lost: LostRun) -> None:
    snapshot = log.snapshot_if_exists()
    stored = snapshot.transactions() if snapshot is not None else {}
    for txn in txns:
        if txn.app_id in stored and stored[txn.app_id].version < txn.version:
            raise InvalidRequestError(
                f"{log.uri}: run {run_id} continues a run of {lost.root_id} whose record was "
                f"deleted. A newer run may have written {txn.app_id} since, so nothing was "
                "changed; start a new run to write it anyway"
            )

"""Identity of a write: which txns make a rerun find that its work is done.

    run        the default: a re-execution or retry of a failed run finds what that one committed
    source     the rows come from a source that has a position: whoever reads it again, in whatever
               run, finds the position committed; positions of one source must only grow
    partition  overwrites only: a run that was overtaken by a newer one for one of its partitions is
               told so and changes nothing

A run that continues another, see `reruns`, has its identity. Where that one's record was deleted,
the table is asked: each `run` identity names the root from which everything was executed again, a
run or a backfill, and every run knows its own. Whether the deleted run succeeded, nobody knows, and
it counts as failed: rows that are missing can still be appended, and of rows that are there twice
nobody can tell which to delete. An overwrite is then done again.

A position of a source that is committed is written again only where a run is told to (the tag
`delta_ops/idempotency=force`), once for that run and what continues it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import dagster as dg

from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog
from delta_ops.orchestration._dagster_compat import dagster_instance, dagster_run
from delta_ops.orchestration.reruns import (
    IDEMPOTENCY_TAG,
    Line,
    LostRun,
    WrittenAsset,
    backfill_root_id,
    has_succeeded,
    line_origin_id,
    line_that_ends_with,
    root_id,
)
from delta_ops.transaction import Txn

Idempotency = Literal["run", "source", "partition"]


def declared_idempotency(asset_key: dg.AssetKey, declared: object) -> Idempotency:
    """What the asset's metadata say.

    Raises:
        InvalidRequestError: It is none of the words above.
    """
    for known in get_args(Idempotency):
        if declared == known:
            idempotency: Idempotency = known
            return idempotency
    raise InvalidRequestError(
        f"asset {asset_key.to_user_string()} declares delta/idempotency {declared!r}; choose from "
        f"{', '.join(get_args(Idempotency))}"
    )


def run_txns(context: dg.OutputContext, log: DeltaLog, *, is_replaced: bool) -> list[Txn]:
    """The identity of this output in this run and those that continue it; none outside of a run.

    Args:
        is_replaced: Whether the output overwrites.
    """
    run = dagster_run(context)
    if run is None:
        return []
    instance = dagster_instance(context)
    asset = written_asset(context, is_replaced=is_replaced)
    line = line_that_ends_with(instance, run, asset, through_backfills=True)
    return [Txn(app_id=_run_app_id(context, instance, log, line, is_replaced), version=0)]


def source_txn(asset_key: dg.AssetKey, source: str, position: int) -> Txn:
    """The identity of what a source of an asset holds up to a position."""
    return Txn(app_id=f"dagster:source:{asset_key.to_user_string()}:{source}", version=position)


def forced_source_txn(context: dg.OutputContext, source: str, position: int) -> Txn | None:
    """The identity of a source's position in a run that writes it again whether or not it is in the
    table, and in those that continue that run; None in any other run.
    """
    run = dagster_run(context)
    if run is None:
        return None
    asset = written_asset(context, is_replaced=False)
    line = line_that_ends_with(dagster_instance(context), run, asset)
    if line.lost is not None or line.first.tags.get(IDEMPOTENCY_TAG) != "force":
        return None
    name = f"{context.asset_key.to_user_string()}:{line.first.run_id}:{source}"
    return Txn(app_id=f"dagster:forced:{name}", version=position)


def partition_txns(context: dg.OutputContext, log: DeltaLog) -> list[Txn]:
    """The identities of the partitions as this run overwrites them; none outside of a run.

    One for each partition, so that runs over different ranges meet where they overlap.

    Raises:
        InvalidRequestError: A record was deleted, and nobody knows whether a newer run has
            overwritten one of the partitions.
    """
    run = dagster_run(context)
    if run is None:
        return []
    instance = dagster_instance(context)
    line = line_that_ends_with(instance, run, written_asset(context, is_replaced=True))
    record = instance.get_run_record_by_id(line.first.run_id)
    created_ms = int(record.create_timestamp.timestamp() * 1000) if record is not None else 0
    txns = [
        Txn(app_id=f"dagster:partition:{name}", version=created_ms, newer_is_stale=True)
        for name in _partition_names(context)
    ]
    if line.lost is not None:
        _validate_not_overtaken(log, txns, run.run_id, line.lost)
    return txns


def written_asset(context: dg.OutputContext, *, is_replaced: bool) -> WrittenAsset:
    """The asset and the partitions of an output."""
    keys = tuple(context.asset_partition_keys) if context.has_asset_partitions else ()
    return WrittenAsset(context.asset_key, keys, is_replaced)


def output_name(context: dg.OutputContext) -> str:
    """The asset and, if it has partitions, the partition or range of partitions."""
    name = context.asset_key.to_user_string()
    return f"{name}[{partition_text(context)}]" if context.has_asset_partitions else name


def partition_text(context: dg.OutputContext) -> str:
    """The partition, or the first and the last of a range."""
    if isinstance(context.asset_partitions_def, dg.MultiPartitionsDefinition):
        # To Dagster these are a range for each key of the first dimension.
        sorted_keys = sorted(context.asset_partition_keys)
        start, end = sorted_keys[0], sorted_keys[-1]
    else:
        start, end = context.asset_partition_key_range
    return start if start == end else f"{start}...{end}"


def _run_app_id(
    context: dg.OutputContext,
    instance: dg.DagsterInstance,
    log: DeltaLog,
    line: Line,
    is_replaced: bool,
) -> str:
    of_output = f"dagster:run:{output_name(context)}:"
    if line.lost is not None and not is_replaced:
        committed = _find_committed(instance, log, of_output, line.lost.root_id)
        if committed is not None:
            return committed
    root = backfill_root_id(line.first) or root_id(line.first)
    # Whether a deleted run has logged its overwrite is not known.
    origin = line.first.run_id if is_replaced else line_origin_id(instance, line)
    return f"{of_output}{root}" if root == origin else f"{of_output}{root}:{origin}"


def _partition_names(context: dg.OutputContext) -> Sequence[str]:
    name = context.asset_key.to_user_string()
    if not context.has_asset_partitions:
        return [name]
    return [f"{name}[{key}]" for key in context.asset_partition_keys]


def _find_committed(
    instance: dg.DagsterInstance, log: DeltaLog, of_output: str, root: str
) -> str | None:
    """An identity that goes back to this root, is in the table, and may be the one continued."""
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
                f"deleted, so it is not known whether a newer run has written {txn.app_id} since. "
                "Nothing was changed; start a new run if this write is still wanted"
            )

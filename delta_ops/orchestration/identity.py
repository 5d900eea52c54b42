"""Identity of a write: which txns make a rerun find that its work is done.

    run        the default: a re-execution or retry of a failed run finds what that one committed
    source     the rows come from a source that has a position: whoever reads it again, in whatever
               run, finds the position committed; positions of one source must only grow
    partition  overwrites only: a run that was overtaken by a newer one for one of its partitions is
               told so and changes nothing

A re-execution continues the run before it if that failed, and has its identity; if that succeeded,
somebody wants the work done again, and it is a new write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import dagster as dg

from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration._dagster_compat import dagster_instance, dagster_run
from delta_ops.transaction import TxnId

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


def run_txns(context: dg.OutputContext) -> list[TxnId]:
    """The identity of this output in this run and those that continue it; none outside of a run."""
    run = dagster_run(context)
    if run is None:
        return []
    origin = origin_run(dagster_instance(context), run)
    return [TxnId(app_id=f"dagster:run:{output_name(context)}:{origin.run_id}", version=0)]


def source_txn(asset_key: dg.AssetKey, source: str, position: int) -> TxnId:
    """The identity of what a source of an asset holds up to a position."""
    return TxnId(app_id=f"dagster:source:{asset_key.to_user_string()}:{source}", version=position)


def partition_txns(context: dg.OutputContext) -> list[TxnId]:
    """The identities of the partitions as this run overwrites them; none outside of a run.

    One for each partition, so that runs over different ranges meet where they overlap.
    """
    run = dagster_run(context)
    if run is None:
        return []
    instance = dagster_instance(context)
    record = instance.get_run_record_by_id(origin_run(instance, run).run_id)
    if record is None:
        return []
    created_ms = int(record.create_timestamp.timestamp() * 1000)
    return [
        TxnId(app_id=f"dagster:partition:{name}", version=created_ms, newer_is_stale=True)
        for name in _partition_names(context)
    ]


def origin_run(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dg.DagsterRun:
    """The run that this one continues: the first of a row of failed ones, or the run itself."""
    while parent_id := run.parent_run_id or run.tags.get("dagster/parent_run_id"):
        parent = instance.get_run_by_id(parent_id)
        if parent is None or parent.is_success:
            return run
        run = parent
    return run


def output_name(context: dg.OutputContext) -> str:
    """The asset and, if it has partitions, the partition or range of partitions."""
    name = context.asset_key.to_user_string()
    return f"{name}[{partition_text(context)}]" if context.has_asset_partitions else name


def partition_text(context: dg.OutputContext) -> str:
    """The partition, or the first and the last of a range."""
    keys = context.asset_partition_key_range
    return keys.start if keys.start == keys.end else f"{keys.start}...{keys.end}"


def _partition_names(context: dg.OutputContext) -> Sequence[str]:
    name = context.asset_key.to_user_string()
    if not context.has_asset_partitions:
        return [name]
    return [f"{name}[{key}]" for key in context.asset_partition_keys]

"""Identity of a write: which txn makes a rerun find that its work is done.

    run        the default: a re-execution or retry of the run finds what the first one committed
    source     the rows come from a source that has a position: whoever reads it again, in whatever
               run, finds the position committed; positions of one source must only grow
    partition  overwrites only: a run that was overtaken by a newer one for the same partition is
               told so and changes nothing

The run that counts is the root run, so that every re-execution of it has the same identity. One
case only is a new write under the same root: a run that succeeded, run again on purpose.
"""

from __future__ import annotations

from typing import Literal

import dagster as dg

from delta_ops.orchestration._dagster_compat import dagster_instance, dagster_run
from delta_ops.transaction import TxnId

Idempotency = Literal["run", "source", "partition"]

_RETRY_TAGS = ("dagster/is_resume_retry", "dagster/is_asset_resume_retry", "dagster/retry_number")


def run_txn(context: dg.OutputContext) -> TxnId | None:
    """The identity of this output in this run and its re-executions; None outside of a run."""
    run = dagster_run(context)
    if run is None:
        return None
    root = run.run_id if _repeated_on_purpose(context, run) else root_run_id(run)
    return TxnId(app_id=f"dagster:run:{output_name(context)}:{root}", version=0)


def source_txn(asset_key: dg.AssetKey, source: str, position: int) -> TxnId:
    """The identity of what a source of an asset holds up to a position."""
    return TxnId(app_id=f"dagster:source:{asset_key.to_user_string()}:{source}", version=position)


def partition_txn(context: dg.OutputContext) -> TxnId | None:
    """The identity of this partition as the root run overwrites it; None outside of a run."""
    run = dagster_run(context)
    if run is None:
        return None
    record = dagster_instance(context).get_run_record_by_id(root_run_id(run))
    if record is None:
        return None
    return TxnId(
        app_id=f"dagster:partition:{output_name(context)}",
        version=int(record.create_timestamp.timestamp() * 1000),
        newer_is_stale=True,
    )


def root_run_id(run: dg.DagsterRun) -> str:
    """The first run of which this one is a re-execution, or the run itself."""
    return run.root_run_id or run.tags.get("dagster/root_run_id") or run.run_id


def output_name(context: dg.OutputContext) -> str:
    """The asset and, if it has partitions, the partition or range of partitions."""
    name = context.asset_key.to_user_string()
    if not context.has_asset_partitions:
        return name
    return f"{name}[{partition_text(context)}]"


def partition_text(context: dg.OutputContext) -> str:
    """The partition, or the first and the last of a range."""
    keys = context.asset_partition_key_range
    return keys.start if keys.start == keys.end else f"{keys.start}...{keys.end}"


def _repeated_on_purpose(context: dg.OutputContext, run: dg.DagsterRun) -> bool:
    """Whether an earlier run of this root has materialised the output, and this is no retry."""
    root = root_run_id(run)
    if root == run.run_id or any(tag in run.tags for tag in _RETRY_TAGS):
        return False
    instance = dagster_instance(context)
    partitions = context.asset_partition_keys if context.has_asset_partitions else None
    found = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=context.asset_key, asset_partitions=partitions), limit=1
    ).records
    if not found or found[0].run_id == run.run_id:
        return False
    earlier = instance.get_run_by_id(found[0].run_id)
    return earlier is not None and root_run_id(earlier) == root

"""Reruns: finds the earlier run that a run continues, in Dagster's records.

A re-execution or a retry continues its parent run if the parent failed. If the parent succeeded,
the user requests the work again, and the run continues nothing. The same holds for an overwrite
whose materialization an earlier run has logged: the code may have been corrected since, and writing
twice does no harm. A retry that Dagster started by itself is still the same attempt. An append
always continues, because duplicate rows cannot be distinguished.

The tag `delta_ops/idempotency` overrides this: "force" for a run that continues nothing, "adopt"
for a run that continues its parent in any case. A retry inherits the tags of its run, which counts
as one request.

Dagster's tags for the start of a re-execution are not used. Some runs inherit them wrongly, and the
logged events have the same information.

A re-executed backfill of assets has new runs without parents. Each of them continues the run of the
earlier backfill for the same asset and partitions, if that run failed.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import dagster as dg

from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import dagster_compat as compat
from delta_ops.orchestration.tags import IDEMPOTENCY_TAG

_PARENT_TAG, _ROOT_TAG = "dagster/parent_run_id", "dagster/root_run_id"
_RETRY_TAG = "dagster/retry_number"
_RETRY_TAGS = (_RETRY_TAG, "dagster/is_resume_retry", "dagster/is_asset_resume_retry")
_BACKFILL_TAG = "dagster/backfill"
_PARENT_BACKFILL_TAG, _ROOT_BACKFILL_TAG = "dagster/parent_backfill_id", "dagster/root_backfill_id"
_PARTITION_TAGS = (
    "dagster/partition",
    "dagster/asset_partition_range_start",
    "dagster/asset_partition_range_end",
)


class WrittenAsset(NamedTuple):
    """The asset and partitions that a run writes."""

    key: dg.AssetKey
    partitions: tuple[str, ...]
    """Partition keys; empty for an asset without partitions."""
    is_repeatable: bool
    """Whether the same rows may be written twice, for example by an overwrite."""


class LostRun(NamedTuple):
    """A run whose record was deleted."""

    run_id: str | None
    """None for a run of a backfill."""
    root_id: str
    """The first run or backfill of the chain of re-executions."""


class RunChain(NamedTuple):
    """A chain of runs. Each run continues the run before it."""

    first: dg.DagsterRun
    lost: LostRun | None
    """The deleted run that the first run continues, if any."""


def chain_ending_with(
    instance: dg.DagsterInstance,
    run: dg.DagsterRun,
    asset: WrittenAsset | None,
    *,
    through_backfills: bool = False,
) -> RunChain:
    """Find the chain of runs whose last run is this run.

    Args:
        asset: The asset that the run writes, if any.
        through_backfills: Whether a re-executed backfill continues the earlier backfill.
    """
    runs, lost = [run], None
    while True:
        run, backfill_id = runs[0], runs[0].tags.get(_PARENT_BACKFILL_TAG)
        if parent_id := _parent_id(run):
            parent = instance.get_run_by_id(parent_id)
            lost = LostRun(parent_id, root_id(run))
        elif asset and through_backfills and backfill_id:
            parent = _run_of_backfill(instance, backfill_id, run, asset.key)
            lost = LostRun(None, backfill_root_id(run) or backfill_id)
        else:
            parent, lost = None, None
        if _is_forced(run, parent):
            return _cut_after_event(instance, runs, asset, None)
        if parent is None:
            return _cut_after_event(instance, runs, asset, lost)
        if parent.is_success and _idempotency_tag(run) != "adopt":
            return _cut_after_event(instance, runs, asset, None)
        runs.insert(0, parent)


def _cut_after_event(
    instance: dg.DagsterInstance,
    runs: list[dg.DagsterRun],
    asset: WrittenAsset | None,
    lost: LostRun | None,
) -> RunChain:
    """Shorten the chain: a run that must repeat a logged overwrite starts a new chain.

    Args:
        runs: Oldest first.
        lost: The deleted run that the oldest run continues.
    """
    chain, is_logged = RunChain(runs[0], lost), False
    if asset is None or not asset.is_repeatable:
        return chain
    for before, run in pairwise(runs):
        is_logged = is_logged or _has_logged(instance, before, asset)
        if is_logged and not _is_automatic(run, before) and _idempotency_tag(run) != "adopt":
            chain, is_logged = RunChain(run, None), False
    return chain


def origin_id(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
    """The first run of the chain of failed runs that this run continues, or the run itself."""
    return chain_origin_id(instance, chain_ending_with(instance, run, None))


def steps_origin_id(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
    """The first of the runs whose steps count for a run, or the run itself.

    A re-execution of some steps, such as the steps after a failure, completes the steps of its
    failed parent. A re-execution of all steps does not need them.
    """
    while (parent_id := _parent_id(run)) and compat.leaves_out_steps(instance, run):
        parent = instance.get_run_by_id(parent_id)
        if _is_forced(run, parent):
            break
        if parent is None:  # the record of the parent was deleted
            return parent_id
        if parent.is_success and _idempotency_tag(run) != "adopt":
            break
        run = parent
    return run.run_id


def chain_origin_id(instance: dg.DagsterInstance, chain: RunChain) -> str:
    """The id of the run that a chain begins with, deleted runs included.

    A deleted run is assumed to continue the root run, unless the root run succeeded.
    """
    if chain.lost is None or chain.lost.run_id is None:
        return chain.first.run_id
    return chain.lost.run_id if has_succeeded(instance, chain.lost.root_id) else chain.lost.root_id


def root_id(run: dg.DagsterRun) -> str:
    """The root run of a re-execution, or the run itself."""
    return run.root_run_id or run.tags.get(_ROOT_TAG) or _parent_id(run) or run.run_id


def backfill_root_id(run: dg.DagsterRun) -> str | None:
    """The root backfill of this run's backfill; None without a backfill."""
    return run.tags.get(_ROOT_BACKFILL_TAG) or run.tags.get(_BACKFILL_TAG)


def has_succeeded(instance: dg.DagsterInstance, run_id: str) -> bool:
    """Whether a run is known to have succeeded. No run continues a successful run."""
    run = instance.get_run_by_id(run_id)
    return run is not None and run.is_success


def _idempotency_tag(run: dg.DagsterRun) -> str | None:
    """The value of the idempotency tag of a run.

    Raises:
        InvalidRequestError: The value is unknown.
    """
    tag = run.tags.get(IDEMPOTENCY_TAG)
    if tag in (None, "force", "adopt"):
        return tag
    raise InvalidRequestError(
        f"run {run.run_id} has the tag {IDEMPOTENCY_TAG}={tag}; choose force (write again) or "
        "adopt (keep the commits of earlier runs), or leave it out. Nothing was written"
    )


def _is_forced(run: dg.DagsterRun, parent: dg.DagsterRun | None) -> bool:
    if _idempotency_tag(run) != "force":
        return False
    is_retry = any(tag in run.tags for tag in _RETRY_TAGS)
    is_inherited = _parent_id(run) is not None and (
        parent is None or _idempotency_tag(parent) == "force"
    )
    return not (is_retry and is_inherited)


def _is_automatic(run: dg.DagsterRun, parent: dg.DagsterRun) -> bool:
    """Whether Dagster started the run automatically because its parent failed."""
    number = run.tags.get(_RETRY_TAG)
    return number is not None and number != parent.tags.get(_RETRY_TAG)


def _has_logged(instance: dg.DagsterInstance, run: dg.DagsterRun, asset: WrittenAsset) -> bool:
    """Whether a run has logged the materialization of the asset in all its partitions."""
    entries = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
    events = (entry.dagster_event for entry in entries)
    logged = {event.partition for event in events if event and event.asset_key == asset.key}
    return logged.issuperset(asset.partitions or [None])


def _parent_id(run: dg.DagsterRun) -> str | None:
    return run.parent_run_id or run.tags.get(_PARENT_TAG)


def _run_of_backfill(
    instance: dg.DagsterInstance,
    backfill_id: str,
    like: dg.DagsterRun,
    asset_key: dg.AssetKey,
) -> dg.DagsterRun | None:
    """The newest run of a backfill for the asset and the partitions of another run."""
    partitions = {tag: like.tags[tag] for tag in _PARTITION_TAGS if tag in like.tags}
    runs = instance.get_runs(dg.RunsFilter(tags={_BACKFILL_TAG: backfill_id, **partitions}))
    return next((r for r in runs if asset_key in (r.asset_selection or [asset_key])), None)

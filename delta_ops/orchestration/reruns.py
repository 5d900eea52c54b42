"""Reruns: which run a run continues, as far as Dagster's records say.

A re-execution or a retry continues the run before it if that failed; if that succeeded, somebody
wants the work done again, and it continues nothing. Tags that mark retries are not asked: they are
inherited where they should not be.

A backfill of assets that is executed again has new runs without parents. Each continues the run of
the backfill before it for the same asset and partitions, if that failed.
"""

from __future__ import annotations

from typing import NamedTuple

import dagster as dg

_PARENT_TAG, _ROOT_TAG = "dagster/parent_run_id", "dagster/root_run_id"
_BACKFILL_TAG = "dagster/backfill"
_PARENT_BACKFILL_TAG, _ROOT_BACKFILL_TAG = "dagster/parent_backfill_id", "dagster/root_backfill_id"
_PARTITION_TAGS = (
    "dagster/partition",
    "dagster/asset_partition_range_start",
    "dagster/asset_partition_range_end",
)


class LostRun(NamedTuple):
    """A run whose record was deleted."""

    run_id: str | None
    """None if it was of a backfill, or that had none."""
    root_id: str
    """The run or backfill from which it, and what continues it, was executed again in the end."""


class Line(NamedTuple):
    """A row of runs, each of which continues the one before it, which failed."""

    first: dg.DagsterRun
    lost: LostRun | None
    """What the first continues."""


def line_that_ends_with(
    instance: dg.DagsterInstance, run: dg.DagsterRun, asset_key: dg.AssetKey | None = None
) -> Line:
    """The line; with an asset's key it goes through backfills that were executed again."""
    while True:
        if parent_id := _parent_id(run):
            parent = instance.get_run_by_id(parent_id)
            lost = LostRun(parent_id, root_id(run))
        elif asset_key and (backfill_id := run.tags.get(_PARENT_BACKFILL_TAG)):
            parent = _run_of_backfill(instance, backfill_id, run, asset_key)
            lost = LostRun(None, backfill_root_id(run) or backfill_id)
        else:
            return Line(run, None)
        if parent is None:
            return Line(run, lost)
        if parent.is_success:
            return Line(run, None)
        run = parent


def origin_id(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
    """The run that this one continues: the first of a row of failed ones, or the run itself."""
    return line_origin_id(instance, line_that_ends_with(instance, run))


def line_origin_id(instance: dg.DagsterInstance, line: Line) -> str:
    """The run at the origin of the line, or the best that is known of it."""
    if line.lost is None or line.lost.run_id is None:
        return line.first.run_id
    return line.lost.run_id if has_succeeded(instance, line.lost.root_id) else line.lost.root_id


def root_id(run: dg.DagsterRun) -> str:
    """The run that this one was executed again from in the end, or the run itself."""
    return run.root_run_id or run.tags.get(_ROOT_TAG) or _parent_id(run) or run.run_id


def backfill_root_id(run: dg.DagsterRun) -> str | None:
    """The backfill that the one of this run was executed again from in the end; None without."""
    return run.tags.get(_ROOT_BACKFILL_TAG) or run.tags.get(_BACKFILL_TAG)


def has_succeeded(instance: dg.DagsterInstance, run_id: str) -> bool:
    """Whether it is known to have; nothing continues such a run."""
    run = instance.get_run_by_id(run_id)
    return run is not None and run.is_success


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

"""Measures the layout by clustering columns or a sort key, and predicts the next run's effect."""

from __future__ import annotations

from delta_ops.log import Snapshot
from delta_ops.maintenance.optimize.depth import depth_of
from delta_ops.maintenance.optimize.estimate import depth_after
from delta_ops.maintenance.optimize.file_columns import load_file_columns
from delta_ops.maintenance.optimize.order import clustering_order
from delta_ops.maintenance.optimize.plan_order import plan_order
from delta_ops.maintenance.optimize.plan_runs import depth_of_runs, key_order, plan_runs
from delta_ops.maintenance.optimize.small_files import target_size_bytes
from delta_ops.maintenance.thresholds import Clustering
from delta_ops.transaction import KeyOrder


def load_clustering(snapshot: Snapshot) -> Clustering:
    """Measure the layout by the clustering columns or the sort key; zeros for another table."""
    key = key_order(snapshot)
    if key is not None:
        return _load_runs(snapshot, key)
    order = clustering_order(snapshot)
    if order is None:
        return Clustering(depth=0, loose_files=0, next_depth=0)
    files = load_file_columns(snapshot, order, with_ranges=True)
    loose_files = int(((files.cubes < 0) & ~files.is_foreign).sum())
    depth = next_depth = depth_of(files)
    if loose_files and depth > 1:
        plan = plan_order(snapshot, order, target_size_bytes=target_size_bytes(snapshot, None))
        next_depth = depth_after(snapshot, plan) if plan.has_work else depth
    return Clustering(depth=depth, loose_files=loose_files, next_depth=next_depth)


def _load_runs(snapshot: Snapshot, key: KeyOrder) -> Clustering:
    depth = depth_of_runs(load_file_columns(snapshot, key, with_ranges=True))
    plan = plan_runs(snapshot, key, target_size_bytes=target_size_bytes(snapshot, None))
    next_depth = depth_after(snapshot, plan) if plan.has_work else depth
    return Clustering(depth=depth, loose_files=plan.num_files, next_depth=next_depth)

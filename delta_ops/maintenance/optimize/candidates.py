"""Candidates: the files from which an order chooses, without those that it cannot choose.

Of a million files that lie in cubes a run rewrites a few. To know which, the sizes and tags of all
are enough, as columns; only what may be chosen becomes a value of its own with its statistics.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.log import Snapshot
from delta_ops.maintenance.optimize.cubes import are_loose, cubes_of
from delta_ops.maintenance.optimize.plan_order import choose_cubes
from delta_ops.maintenance.optimize.small_files import own_files, validate_predicate
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.file_paths import absolute_paths
from delta_ops.protocol.predicate import Predicate
from delta_ops.transaction import CurveOrder

_COLUMNS = ["path", "size", "tags", "clusteringProvider"]


def find_candidates(
    snapshot: Snapshot, order: CurveOrder, predicate: Predicate | None = None
) -> list[AddFile]:
    """The live files that `plan_order` may choose; none where all are laid out.

    Args:
        predicate: Only these partitions.

    Raises:
        InvalidRequestError: The predicate is about other than partition columns.
    """
    if predicate is not None:
        validate_predicate(predicate, snapshot)
    if not _has_loose_files(snapshot, order):
        return []
    if len(order.columns) == 1 or snapshot.partition_columns:
        return own_files(snapshot, predicate)
    loose_bytes, sizes = 0, []
    for adds in snapshot.stream_live(_COLUMNS):
        if absolute_paths(adds["path"]):
            # They may lie outside, or inside by another name, and to tell takes each by itself.
            return own_files(snapshot, predicate)
        loose = adds["size"].filter(are_loose(adds, order))
        loose_bytes += pc.sum(loose, min_count=0).as_py()
        in_cubes = pa.table({"cube": cubes_of(adds, order), "size": adds["size"]})
        sizes.append(in_cubes.group_by("cube").aggregate([("size", "sum")]))
    of_cubes = pa.concat_tables(sizes).group_by("cube").aggregate([("size_sum", "sum")])
    known = {
        cube: size
        for cube, size in zip(*of_cubes.to_pydict().values(), strict=True)
        if cube is not None
    }
    chosen = pa.array(choose_cubes(known, loose_bytes), pa.string())

    def may_be_chosen(adds: pa.Table) -> pa.ChunkedArray:
        is_in_chosen = pc.is_in(cubes_of(adds, order), value_set=chosen)
        return pc.or_(are_loose(adds, order), pc.fill_null(is_in_chosen, False))

    return own_files(snapshot, predicate, may_be_chosen)


def _has_loose_files(snapshot: Snapshot, order: CurveOrder) -> bool:
    """Whether there is anything to do at all, by as little as tells it."""
    return any(
        pc.any(are_loose(adds, order), min_count=0).as_py()
        for adds in snapshot.stream_live(_COLUMNS[2:])
    )

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
    is_by_size = len(order.columns) > 1 and not snapshot.partition_columns
    columns = _COLUMNS if is_by_size else _COLUMNS[2:]
    loose_bytes, sizes, has_loose = 0, [], False
    has_absolute = False
    for adds in snapshot.stream_live(columns):
        is_loose = are_loose(adds, order)
        has_loose |= bool(pc.any(is_loose, min_count=0).as_py())
        if is_by_size:
            # They may lie outside, or inside by another name, and to tell takes each by itself.
            has_absolute |= bool(absolute_paths(adds["path"]))
            loose_bytes += pc.sum(adds["size"].filter(is_loose), min_count=0).as_py()
            in_cubes = pa.table({"cube": cubes_of(adds, order), "size": adds["size"]})
            sizes.append(in_cubes.group_by("cube").aggregate([("size", "sum")]))
    if not has_loose:
        return []
    if not is_by_size or has_absolute:
        return own_files(snapshot, predicate)
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

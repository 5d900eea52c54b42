"""Cubes: files whose rows were laid out together, as their tags tell.

The tags, and the name of who clusters, are those of the reference, so that each goes on with what
the other has laid out. Source: PROTOCOL.md, "Writer Requirements for Clustered Table".
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.log.pruning import values_of
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.column_names import name_of_path
from delta_ops.transaction.rewrite_group import CurveOrder

PROVIDER = "liquid"
"""Who clusters by these tags; files of another provider are not clustered anew."""
_ID, _COLUMNS, _CURVE = "ZCUBE_ID", "ZCUBE_ZORDER_BY", "ZCUBE_ZORDER_CURVE"


def are_foreign(adds: pa.RecordBatch) -> pa.BooleanArray:
    """Which files another provider clusters.

    Args:
        adds: With `tags` and `clusteringProvider`, for this function and the next two.
    """
    return pc.fill_null(pc.not_equal(adds["clusteringProvider"], PROVIDER), False)


def are_loose(adds: pa.RecordBatch, order: CurveOrder) -> pa.BooleanArray:
    """Which files were not laid out in this order, and are not another provider's."""
    return pc.invert(pc.or_(are_foreign(adds), _are_laid_out(adds["tags"], order)))


def cubes_of(adds: pa.RecordBatch, order: CurveOrder) -> pa.StringArray:
    """The cube of each file, null for those that were not laid out in this order."""
    is_laid_out = _are_laid_out(adds["tags"], order)
    cubes = values_of(adds["tags"].filter(is_laid_out), _ID)
    return pc.replace_with_mask(pa.nulls(len(adds), pa.string()), is_laid_out, cubes)


def _are_laid_out(tags: pa.MapArray, order: CurveOrder) -> pa.BooleanArray:
    """Whether all three tags are there; to look each up by its key takes three times as long."""
    names, values = tags.keys, tags.items
    wanted = {
        _COLUMNS: pc.equal(values, _columns_text(order)),
        _CURVE: pc.equal(values, order.curve),
    }
    wanted[_ID] = pc.is_valid(values)
    is_one = np.zeros(len(names), dtype=bool)
    for name, is_wanted in wanted.items():
        found = pc.and_(pc.equal(names, name), pc.fill_null(is_wanted, False))
        is_one |= found.to_numpy(zero_copy_only=False)
    counted = np.append(0, np.cumsum(is_one))
    ends = tags.offsets.to_numpy()
    has_all = counted[ends[1:]] - counted[ends[:-1]] == len(wanted)
    return pc.and_(pa.array(has_all), pc.is_valid(tags))


def is_in_cube(tags: Mapping[str, str | None] | None) -> bool:
    """Whether a file's tags say that it was laid out, in whatever order."""
    return _ID in (tags or {})


def mark_cube(
    adds: Iterable[AddFile], order: CurveOrder, *, is_clustered: bool
) -> tuple[AddFile, ...]:
    """Files that were written together in an order, as the files of a new cube."""
    cube = {_ID: str(uuid.uuid4()), _COLUMNS: _columns_text(order), _CURVE: order.curve}
    provider = PROVIDER if is_clustered else None
    return tuple(
        replace(add, tags={**(add.tags or {}), **cube}, clustering_provider=provider)
        for add in adds
    )


def shared_tags(adds: Sequence[AddFile]) -> dict[str, str | None]:
    """The tags that files have in common: what they say is true of all their rows."""
    first, *others = [add.tags or {} for add in adds]
    return {
        name: value
        for name, value in first.items()
        if all(name in tags and tags[name] == value for tags in others)
    }


def _columns_text(order: CurveOrder) -> str:
    names = [name_of_path(path) for path in order.columns]
    return json.dumps(names, ensure_ascii=False, separators=(",", ":"))

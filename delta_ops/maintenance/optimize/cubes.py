"""Cubes: files whose rows were laid out together, as their tags tell.

The tags, and the name of who clusters, are those of the reference, so that each goes on with what
the other has laid out. Source: PROTOCOL.md, "Writer Requirements for Clustered Table".

The reference names columns as users do, also where column mapping lets them be renamed, and takes a
file whose tag has other names for one of another order. What it reads is written so. What decides
here, where it is there, is a tag of our own with the names that columns have in files: a column
that was renamed is the same one, and one that got the name of another is not.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.log import Snapshot
from delta_ops.log.version.pruning import values_of
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.columns.mapping import physical_path
from delta_ops.protocol.schema import ColumnPath
from delta_ops.protocol.schema.column_names import name_of_path
from delta_ops.transaction.rewrite_group import CurveOrder

PROVIDER = "liquid"
"""Who clusters by these tags; files of another provider are not clustered anew."""
_ID, _COLUMNS, _CURVE = "ZCUBE_ID", "ZCUBE_ZORDER_BY", "ZCUBE_ZORDER_CURVE"
_STORED_COLUMNS = "delta_ops.zorderBy"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderTags:
    """An order in the words of tags."""

    columns: str
    """By the names that users see."""
    stored_columns: str
    """By the names in files."""
    curve: str


def order_tags(snapshot: Snapshot, order: CurveOrder) -> OrderTags:
    """The order of a table's columns."""
    return OrderTags(
        columns=_names_text(order.columns),
        stored_columns=_names_text(
            [physical_path(path, snapshot.schema) for path in order.columns]
        ),
        curve=order.curve,
    )


def are_foreign(adds: pa.RecordBatch) -> pa.BooleanArray:
    """Which files another provider clusters.

    Args:
        adds: With `tags` and `clusteringProvider`, for this function and the next two.
    """
    return pc.fill_null(pc.not_equal(adds["clusteringProvider"], PROVIDER), False)


def are_loose(adds: pa.RecordBatch, order: OrderTags) -> pa.BooleanArray:
    """Which files were not laid out in this order, and are not another provider's."""
    return pc.invert(pc.or_(are_foreign(adds), _are_laid_out(adds["tags"], order)))


def cubes_of(adds: pa.RecordBatch, order: OrderTags) -> pa.StringArray:
    """The cube of each file, null for those that were not laid out in this order."""
    is_laid_out = _are_laid_out(adds["tags"], order)
    cubes = values_of(adds["tags"].filter(is_laid_out), _ID)
    return pc.replace_with_mask(pa.nulls(len(adds), pa.string()), is_laid_out, cubes)


def _are_laid_out(tags: pa.MapArray, order: OrderTags) -> pa.BooleanArray:
    """Which files have the tags; to look each up by its key takes three times as long."""
    names, values, ends = tags.keys, tags.items, tags.offsets.to_numpy()

    def have(name: str, is_wanted: pa.BooleanArray) -> npt.NDArray[np.bool_]:
        found = pc.and_(pc.equal(names, name), pc.fill_null(is_wanted, False))
        counted = np.append(0, np.cumsum(found.to_numpy(zero_copy_only=False)))
        of_each: npt.NDArray[np.bool_] = counted[ends[1:]] > counted[ends[:-1]]
        return of_each

    tell = have(_STORED_COLUMNS, pc.is_valid(values))
    are_same = have(_STORED_COLUMNS, pc.equal(values, order.stored_columns))
    # What others have written tells no more than this.
    are_named_so = have(_COLUMNS, pc.equal(values, order.columns))
    is_laid_out = (
        have(_ID, pc.is_valid(values))
        & have(_CURVE, pc.equal(values, order.curve))
        & np.where(tell, are_same, are_named_so)
    )
    return pc.and_(pa.array(is_laid_out), pc.is_valid(tags))


def is_in_cube(tags: Mapping[str, str | None] | None) -> bool:
    """Whether a file's tags say that it was laid out, in whatever order."""
    return _ID in (tags or {})


def mark_cube(
    adds: Iterable[AddFile], order: OrderTags, *, is_clustered: bool
) -> tuple[AddFile, ...]:
    """Files that were written together in an order, as the files of a new cube."""
    cube = {
        _ID: str(uuid.uuid4()),
        _COLUMNS: order.columns,
        _CURVE: order.curve,
        _STORED_COLUMNS: order.stored_columns,
    }
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


def shared_provider(adds: Sequence[AddFile]) -> str | None:
    """Who clusters files that are written again as they lie; None if not all have the same."""
    providers = {add.clustering_provider for add in adds}
    return providers.pop() if len(providers) == 1 else None


def _names_text(paths: Sequence[ColumnPath]) -> str:
    names = [name_of_path(path) for path in paths]
    return json.dumps(names, ensure_ascii=False, separators=(",", ":"))

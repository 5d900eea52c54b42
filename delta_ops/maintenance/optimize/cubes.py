"""Cubes: groups of files whose rows were laid out together, identified by tags.

The tags and the clustering provider are the same as in Delta Lake, so that delta_ops and Spark
continue each other's layouts. Source: PROTOCOL.md, "Writer Requirements for Clustered Table".

Delta Lake writes the names of columns that users see, even if column mapping allows renames, and
treats a file whose tag has other names as laid out in another order. We write its tag the same way.
We also write our own tag with the physical names, which decides if it exists: it still matches a
renamed column, and it does not match another column that took the old name.
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
from delta_ops.maintenance.optimize.run_tags import ORDER_TAGS
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_values import FALSE_SCALAR, array_of, numpy_of, scalar
from delta_ops.protocol.columns.mapping import physical_path
from delta_ops.protocol.schema import ColumnPath
from delta_ops.protocol.schema.column_names import name_of_path
from delta_ops.transaction.rewrite_group import CurveOrder

PROVIDER = "liquid"
"""The clustering provider of these tags; files of another provider are not clustered again."""
_ID, _COLUMNS, _CURVE = "ZCUBE_ID", "ZCUBE_ZORDER_BY", "ZCUBE_ZORDER_CURVE"
_STORED_COLUMNS = "delta_ops.zorderBy"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderTags:
    """The tag values of an order."""

    columns: str
    """Column names that users see."""
    stored_columns: str
    """Physical column names."""
    curve: str


def order_tags(snapshot: Snapshot, order: CurveOrder) -> OrderTags:
    """Convert an order of the table's columns to tag values."""
    return OrderTags(
        columns=_names_text(order.columns),
        stored_columns=_names_text(
            [physical_path(path, snapshot.schema) for path in order.columns]
        ),
        curve=order.curve,
    )


def are_foreign(adds: pa.RecordBatch) -> pa.BooleanArray:
    """Which files have another clustering provider.

    Args:
        adds: With `tags` and `clusteringProvider`, also for the next two functions.
    """
    return pc.fill_null(pc.not_equal(adds["clusteringProvider"], scalar(PROVIDER)), FALSE_SCALAR)


def are_loose(adds: pa.RecordBatch, order: OrderTags) -> pa.BooleanArray:
    """Which files were not laid out in this order and have no other clustering provider."""
    return pc.invert(pc.or_(are_foreign(adds), _are_laid_out(adds["tags"], order)))


def cubes_of(adds: pa.RecordBatch, order: OrderTags) -> pa.StringArray:
    """The cube of each file; null for a file that was not laid out in this order."""
    is_laid_out = _are_laid_out(adds["tags"], order)
    cubes = values_of(adds["tags"].filter(is_laid_out), _ID)
    return pc.replace_with_mask(pa.nulls(len(adds), pa.string()), is_laid_out, cubes)


def _are_laid_out(tags: pa.MapArray, order: OrderTags) -> pa.BooleanArray:
    """Which files have the tags; three times as fast as a lookup of each tag by its key."""
    names, values, ends = tags.keys, tags.items, numpy_of(tags.offsets)

    def has_tag(name: str, is_wanted: pa.BooleanArray) -> npt.NDArray[np.bool_]:
        found = pc.and_(pc.equal(names, scalar(name)), pc.fill_null(is_wanted, FALSE_SCALAR))
        counted = np.append(0, np.cumsum(numpy_of(found)))
        of_each: npt.NDArray[np.bool_] = counted[ends[1:]] > counted[ends[:-1]]
        return of_each

    has_stored_columns = has_tag(_STORED_COLUMNS, pc.is_valid(values))
    are_same = has_tag(_STORED_COLUMNS, pc.equal(values, scalar(order.stored_columns)))
    # Files of other writers have only this tag.
    are_named_so = has_tag(_COLUMNS, pc.equal(values, scalar(order.columns)))
    is_laid_out = (
        has_tag(_ID, pc.is_valid(values))
        & has_tag(_CURVE, pc.equal(values, scalar(order.curve)))
        & np.where(has_stored_columns, are_same, are_named_so)
    )
    return pc.and_(array_of(is_laid_out), pc.is_valid(tags))


def is_in_cube(tags: Mapping[str, str | None] | None) -> bool:
    """Whether a file's tags say that it was laid out, in any order."""
    return _ID in (tags or {})


def mark_cube(
    adds: Iterable[AddFile], order: OrderTags, *, is_clustered: bool
) -> tuple[AddFile, ...]:
    """Tag files that were written together in an order as a new cube."""
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
    """The tags that all files share: they hold for all rows of the files.

    Tags about the order of rows are left out.
    """
    first, *others = [add.tags or {} for add in adds]
    return {
        name: value
        for name, value in first.items()
        if name not in ORDER_TAGS and all(name in tags and tags[name] == value for tags in others)
    }


def shared_provider(adds: Sequence[AddFile]) -> str | None:
    """The clustering provider that all files share; None if they differ."""
    providers = {add.clustering_provider for add in adds}
    return providers.pop() if len(providers) == 1 else None


def _names_text(paths: Sequence[ColumnPath]) -> str:
    names = [name_of_path(path) for path in paths]
    return json.dumps(names, ensure_ascii=False, separators=(",", ":"))

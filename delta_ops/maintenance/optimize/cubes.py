"""Cubes: files whose rows were laid out together, as their tags tell.

The tags, and the name of who clusters, are those of the reference, so that each goes on with what
the other has laid out. Source: PROTOCOL.md, "Writer Requirements for Clustered Table".
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.column_names import name_of_path
from delta_ops.transaction.rewrite_group import CurveOrder

PROVIDER = "liquid"
"""Who clusters by these tags; files of another provider are not clustered anew."""
_ID, _COLUMNS, _CURVE = "ZCUBE_ID", "ZCUBE_ZORDER_BY", "ZCUBE_ZORDER_CURVE"


def cube_of(add: AddFile, order: CurveOrder) -> str | None:
    """The cube that a file belongs to; None if it was not laid out in this order."""
    tags = add.tags or {}
    if tags.get(_COLUMNS) != _columns_text(order) or tags.get(_CURVE) != order.curve:
        return None
    return tags.get(_ID)


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

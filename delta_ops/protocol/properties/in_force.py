"""Properties in force: what counts in a table, whether it is set there or not, and who heeds it.

Source: PROTOCOL.md, "Table Properties"; the rows are those of `known_properties`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.properties.known import PROPERTIES, Property
from delta_ops.protocol.row_rules import CONSTRAINTS

Origin = Literal["set", "default", "older name", "constraint", "not heeded", "own"]
"""Why a value counts.

set: the table says so. default: the table says nothing. older name: it says so under the name that
the property had once. constraint: a CHECK constraint. not heeded: nobody that we know of heeds a
property of this name; it is kept. own: a name that is free for users.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyInForce:
    """A property of a table, as it counts."""

    name: str
    value: str | None
    """None: the table says nothing, and nothing stands for it."""
    origin: Origin
    acts_in: str
    """What of ours heeds it; empty: other engines alone do, or nobody."""
    meaning: str
    problem: str | None = None
    """Why the value cannot be understood."""


def properties_in_force(configuration: Mapping[str, str]) -> list[PropertyInForce]:
    """Every property that we know of, then all else that a table says, by name.

    Args:
        configuration: `metaData.configuration`.
    """
    known = [_known_property(each, configuration) for each in PROPERTIES]
    names = {name for each in PROPERTIES for name in (each.name, each.older_name)}
    others = [
        _other_property(name, value) for name, value in configuration.items() if name not in names
    ]
    return [*sorted(known, key=_order), *sorted(others, key=_order)]


def _known_property(row: Property[object], configuration: Mapping[str, str]) -> PropertyInForce:
    origin: Origin = "default"
    if row.name in configuration:
        origin = "set"
    elif row.older_name is not None and row.older_name in configuration:
        origin = "older name"
    problem = None
    try:
        row.value_in(configuration)
    except InvalidRequestError as error:
        problem = str(error)
    return PropertyInForce(
        name=row.name,
        value=row.text_in(configuration),
        origin=origin,
        acts_in=row.acts_in,
        meaning=row.meaning,
        problem=problem,
    )


def _other_property(name: str, value: str) -> PropertyInForce:
    lower = name.lower()
    if lower.startswith(CONSTRAINTS):
        return PropertyInForce(
            name=name,
            value=value,
            origin="constraint",
            acts_in="write",
            meaning="Every row makes this condition true.",
        )
    is_unknown = lower.startswith("delta.")
    return PropertyInForce(
        name=name,
        value=value,
        origin="not heeded" if is_unknown else "own",
        acts_in="",
        meaning="Kept, and not heeded." if is_unknown else "",
    )


def _order(each: PropertyInForce) -> str:
    return each.name.lower()

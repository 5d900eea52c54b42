"""Properties in force: the effective value of each property of a table, with its origin.

Source: PROTOCOL.md, "Table Properties"; the known properties are the rows of `known`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.properties.known import PROPERTIES, Property
from delta_ops.protocol.row_rules import CONSTRAINTS

Origin = Literal["set", "default", "older name", "constraint", "unused", "own"]
"""Origin of a property's effective value.

set: the table sets the property. default: the table does not set it. older name: the table sets it
under its former name. constraint: a CHECK constraint. unused: no known engine uses a property of
this name; it is kept. own: a name outside `delta.`, free for users.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyInForce:
    """A property of a table with its effective value."""

    name: str
    value: str | None
    """None: the table does not set the property, and it has no default."""
    origin: Origin
    acts_in: str
    """Parts of delta_ops that use the property; empty: only other engines use it, or none."""
    meaning: str
    problem: str | None = None
    """Why the value is invalid; None if it is valid."""


def properties_in_force(configuration: Mapping[str, str]) -> list[PropertyInForce]:
    """All known properties, followed by the table's other properties, each by name.

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
        origin="unused" if is_unknown else "own",
        acts_in="",
        meaning="Kept without effect." if is_unknown else "",
    )


def _order(each: PropertyInForce) -> str:
    return each.name.lower()

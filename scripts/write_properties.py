"""Writes docs/properties.md from `delta_ops/protocol/properties/known.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from delta_ops.protocol.properties.known import PROPERTIES
from delta_ops.protocol.properties.property import Property

PLACE = Path(__file__).resolve().parents[1] / "docs" / "properties.md"
HEAD = """# Table properties

<!-- Written by scripts/write_properties.py from protocol/properties/known.py; do not edit. -->

With this page you look up the table properties, their defaults, and which part of delta_ops uses \
them.

`delta-ops properties TABLE` shows the properties in force for a table. A property that this page \
does not list is kept where it exists and rejected where it is set. Names that begin with \
neither `delta.` nor `delta_ops.` are free. [Maintenance](maintenance.md) explains \
`delta_ops.policy`. If *used by* is empty, only other engines use the property. It has no effect \
here, unless a [feature](features.md) depends on it: then it enables the feature or is rejected. \
A default is the behaviour of delta_ops without the property.

| property | meaning | default | used by |
|---|---|---|---|
"""
TAIL = """
## Set by engines

These properties describe how a table is stored. They cannot be set.

| property | means |
|---|---|
"""


def text() -> str:
    """The page."""
    rows = sorted(PROPERTIES, key=lambda each: each.name.lower())
    for_users = (_row(each) for each in rows if each.is_for_users)
    of_engines = (f"| `{each.name}` | {each.meaning} |\n" for each in rows if not each.is_for_users)
    return HEAD + "".join(for_users) + TAIL + "".join(of_engines)


def _row(each: Property[Any]) -> str:
    default = f"`{each.default}`" if each.default else "none"
    older = f" Its older name is `{each.older_name}`." if each.older_name else ""
    return f"| `{each.name}` | {each.meaning}{older} | {default} | {each.acts_in} |\n"


if __name__ == "__main__":
    PLACE.write_text(text())

"""Write docs/properties.md from the table that the code goes by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from delta_ops.protocol.properties.known import PROPERTIES, Property

PLACE = Path(__file__).resolve().parents[1] / "docs" / "properties.md"
HEAD = """# Table properties

Written by `python scripts/write_properties.py` from `delta_ops/protocol/properties/known.py`; do \
not edit.

`delta-ops properties TABLE` shows which of them count in a table. A property that is not in this \
page is left alone where it is found, and refused where it is set; a name that does not begin with \
`delta.` is free. Two of these are ours: `delta_ops.policy` ([maintenance](maintenance.md)), and \
`delta_ops.vacuum.logging`, by which, where it is `false`, a vacuum commits nothing. Where *acts \
in* is empty, other engines alone heed the property: delta_ops goes on as if it were not there, \
unless it belongs to a [feature](features.md), which it switches on, or is refused for. A default \
is what delta_ops does where the property is not set.

| property | means | default | acts in |
|---|---|---|---|
"""
TAIL = """
## Kept by engines

These are part of how a table is stored. They cannot be set.

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

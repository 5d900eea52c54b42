"""Change paths: a path in SQL that stands for the change data feed of a table.

`table_changes` of a query becomes such a path, because a query can only read paths.
"""

from __future__ import annotations

import re

_CHANGES = re.compile(r"(?P<path>.+)@changes\((?P<start>[^,()]*),(?P<end>[^,()]*)\)", re.DOTALL)


def path_with_changes(path: str, start: str, end: str) -> str:
    """The path of the changes between two ends.

    Args:
        start: A version, or a time in ISO format.
        end: As `start`; empty for the latest version.
    """
    return f"{path}@changes({start},{end})"


def options_of_changes(path: str) -> dict[str, tuple[str, str]]:
    """The options of a reader that such a path stands for; empty for other paths."""
    found = _CHANGES.fullmatch(path)
    if found is None:
        return {}
    options = {"path": found["path"], "readChangeFeed": "true"}
    for name in ("start", "end"):
        if value := found[name]:
            kind = "Version" if value.isdigit() else "Timestamp"
            options[f"{name}ing{kind}"] = value
    return {name.lower(): (name, value) for name, value in options.items()}

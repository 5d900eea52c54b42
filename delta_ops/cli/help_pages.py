"""Help pages: groups of commands, an example for each command, and shared options last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

GROUPS: Mapping[str, Sequence[str]] = {
    "Look": (
        "show",
        "schema",
        "properties",
        "history",
        "files",
        "head",
        "count",
        "changes",
        "health",
        "advise",
    ),
    "Change": ("alter", "convert", "clone", "manifest", "drop"),
    "Recover": ("restore", "revert", "repair"),
}
"""The commands of each group; any other command is in the group of maintenance."""
MAINTAIN = "Maintain"

EXAMPLES: Mapping[str, str] = {
    "advise": "advise lake/orders",
    "alter": "alter lake/orders add-column weight double",
    "alter add-column": "alter lake/orders add-column weight double --after price",
    "alter add-constraint": "alter lake/orders add-constraint positive 'price > 0'",
    "alter add-feature": "alter lake/orders add-feature deletionVectors",
    "alter cluster-by": "alter lake/orders cluster-by country id",
    "alter comment": "alter lake/orders comment --column price 'in euros'",
    "alter default": "alter lake/orders default country \"'NL'\"",
    "alter drop-column": "alter lake/orders drop-column discount",
    "alter drop-constraint": "alter lake/orders drop-constraint positive",
    "alter drop-feature": "alter lake/orders drop-feature deletionVectors",
    "alter drop-not-null": "alter lake/orders drop-not-null id",
    "alter rename": "alter lake/orders rename sales",
    "alter rename-column": "alter lake/orders rename-column price amount",
    "alter reorder-columns": "alter lake/orders reorder-columns id price",
    "alter set-not-null": "alter lake/orders set-not-null id",
    "alter type": "alter lake/orders type pieces bigint",
    "backfill-statistics": "backfill-statistics lake/orders",
    "changes": "changes lake/orders --from-version 3 --columns id,price",
    "checkpoint": "checkpoint lake/orders",
    "clean-up-log": "clean-up-log lake/orders --dry-run",
    "clone": "clone lake/orders lake/orders_copy --version 3",
    "compact-log": "compact-log lake/orders",
    "convert": "convert lake/visits --partition day=date",
    "count": "count lake/orders --where \"country = 'NL'\"",
    "drop": "drop lake/orders --dry-run",
    "files": "files lake/orders --limit 20",
    "head": "head lake/orders -n 5 --columns id,price",
    "health": "health lake",
    "history": "history lake/orders --limit 5",
    "maintain": "maintain lake --dry-run",
    "manifest": "manifest lake/orders",
    "optimize": "optimize lake/orders --zorder country,id --dry-run",
    "properties": "properties lake/orders --set delta.checkpointInterval=20",
    "repair": "repair lake/orders --dry-run",
    "restore": "restore lake/orders --version 3 --dry-run",
    "revert": "revert lake/orders 4 --dry-run",
    "schema": "schema lake/orders --export orders.parquet",
    "show": "show lake/orders --version 3",
    "vacuum": "vacuum lake/orders --keep-last 10 --dry-run",
}
"""Arguments of one call for each command."""

_SHARED = ("dry_run", "storage_options", "as_json")
"""Options of many commands; a help page lists them after the command's own options."""


def complete_help(command: click.Command, name: str) -> None:
    """Add the example to the command's help page, and list its shared options last."""
    command.params.sort(key=_rank)
    if name in EXAMPLES:
        command.epilog = f"\b\nExample:\n  delta-ops {EXAMPLES[name]}"
    for each in getattr(command, "commands", {}).values():
        complete_help(each, f"{name} {each.name}")


def commands_by_group(names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The groups in order, each with its commands."""
    placed = {name for group in GROUPS.values() for name in group}
    rest = [name for name in names if name not in placed]
    for group, members in GROUPS.items():
        if group == "Recover":
            yield MAINTAIN, rest
        yield group, [name for name in members if name in names]


def _rank(parameter: Any) -> int:
    return _SHARED.index(parameter.name) + 1 if parameter.name in _SHARED else 0

"""Write docs/operations.md from the registry of operations: python scripts/write_operations.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from delta_ops.maintenance.operation import OperationEntry, Option
from delta_ops.maintenance.registry import OPERATIONS

PLACE = Path(__file__).resolve().parents[1] / "docs" / "operations.md"
HEAD = """# Maintenance operations

<!-- Written by scripts/write_operations.py from delta_ops/maintenance/registry.py; do not edit. -->

With this page you look up the maintenance operations and their options.

`maintain` and the jobs run the operations that are due, in this order. A job that runs for many
tables at once runs only operations that open no data files.

| operation | does | opens data files | command |
|---|---|---|---|
"""
OPTIONS = """
## Options

Policies take them as `options={"vacuum": {"keep_last": 10}}`, the config of a job as
`vacuum_keep_last: 10`.

| operation | option | default | meaning |
|---|---|---|---|
"""


def text() -> str:
    """The page."""
    rows = "".join(map(_row, OPERATIONS))
    options = "".join(_option_row(entry, each) for entry in OPERATIONS for each in entry.options)
    return f"{HEAD}{rows}{OPTIONS}{options}"


def _row(entry: OperationEntry[Any]) -> str:
    does = (entry.act.__doc__ or "").partition("\n")[0]
    opens = "yes" if entry.opens_data_files else "no"
    return f"| `{entry.name}` | {does} | {opens} | `delta-ops {entry.command}` |\n"


def _option_row(entry: OperationEntry[Any], option: Option) -> str:
    default = "" if option.default is None else f"`{option.default}`"
    return f"| `{entry.name}` | `{option.name}` | {default} | {option.description} |\n"


if __name__ == "__main__":
    PLACE.write_text(text())

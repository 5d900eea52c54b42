"""Old tables with files of incomplete multi-part checkpoints."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.maintenance import create_checkpoint
from delta_ops.protocol.file_names import checkpoint_part_name
from tests.maintenance.aged_tables import Table, reopened
from tests.support.built_once import built_once

LATEST = 5
HINT = f'{{"version":{LATEST},"size":9,"parts":3}}'


@built_once(reopened)
def aged(root: Path, /, **properties: str) -> Table:
    """Six commits older than every retention; a checkpoint has three parts of two rows."""
    table = Table(root)
    configuration = {"delta.checkpointInterval": "100", **properties}
    for number in range(LATEST + 1):
        table.write([number], "ab"[number % 2], partition_by=["p"], configuration=configuration)
    return table


def part(number: int, of: int = 3, version: int = LATEST) -> str:
    return checkpoint_part_name(version, number, of)


def leave(table: Table, *numbers: int, days: float, version: int = LATEST) -> None:
    """These parts of three, left by another engine that was killed this many days ago."""
    template = table.root.parent / f"parts of {table.root.name}"
    shutil.copytree(table.root, template)
    for name in checkpoint_files(template):
        (template / "_delta_log" / name).unlink()
    write_checkpoint(DeltaLog(template).snapshot(version), now_ms=0, part_rows=2)
    for number in numbers:
        name = f"_delta_log/{part(number, version=version)}"
        (table.root / name).write_bytes((template / name).read_bytes())
        make_old(table.root / name, days)
    shutil.rmtree(template)


def make_old(place: Path, days: float) -> None:
    seconds = (system_clock() - days * DAY_MS) / 1000
    os.utime(place, (seconds, seconds))


def checkpoint_files(root: Path) -> set[str]:
    return {place.name for place in (root / "_delta_log").glob("*.checkpoint*")}


def append(log: DeltaLog) -> None:
    da.write(log, da.to_table(log).slice(0, 0))


def append_and_checkpoint(log: DeltaLog) -> None:
    append(log)
    create_checkpoint(log)

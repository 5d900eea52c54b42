"""Real tables with commits and files of a chosen age."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

import delta_ops.arrow as da
from delta_ops import CommitResult, DeltaLog, begin
from delta_ops.clock import DAY_MS
from delta_ops.log.commit_file import create_commit
from tests.support.built_once import built_once
from tests.support.tables import rows

NOW = 1_600_000_000_000
"""Long before the test run, so that aged files differ from new files."""


class Table:
    """A table with its own clock, which a test advances."""

    def __init__(self, root: Path, *, now_ms: int = NOW) -> None:
        self.root, self.now_ms = root, now_ms
        self.log = DeltaLog(root)

    def copy(self, root: Path) -> Table:
        """A copy of the table in another place, of the same age."""
        shutil.copytree(self.root, root)
        return Table(root, now_ms=self.now_ms)

    def clock(self) -> int:
        return self.now_ms

    def pass_time(self, *, days: float = 0, ms: int = 0) -> None:
        self.now_ms += int(days * DAY_MS) + ms

    def write(
        self,
        ids: Sequence[int],
        partition: str = "a",
        mode: Literal["append", "overwrite"] = "append",
        **options: Any,
    ) -> CommitResult:
        data = pa.table({"id": pa.array(ids, pa.int64()), "p": [partition] * len(ids)})
        transaction = begin(self.log, clock=self.clock)
        written = da.write(transaction, data, mode, **options)
        self.date()
        return written

    def put(self, path: str, content: bytes = b"junk") -> Path:
        """A file that no commit names, of now."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        self.date()
        return place

    def date(self) -> None:
        """Set the current time on every file without an age."""
        for place in self.root.rglob("*"):
            if place.is_file() and place.stat().st_mtime > (NOW + 1_500 * DAY_MS) / 1000:
                os.utime(place, (self.now_ms / 1000, self.now_ms / 1000))

    def rows(self, version: int | None = None) -> list[dict[str, Any]]:
        return rows(da.to_table(self.log.snapshot(version)))

    def files(self) -> set[str]:
        """Everything below the root, hidden files too."""
        return {str(p.relative_to(self.root)) for p in self.root.rglob("*") if p.is_file()}

    def data_files(self) -> set[str]:
        return {path for path in self.files() if path.endswith(".parquet") and path[0] != "_"}


def reopened(table: Table, root: Path) -> Table:
    """The copy of a table at another place, of the same age."""
    return Table(root, now_ms=table.now_ms)


@built_once(reopened)
def fragmented(root: Path, commits: int = 6) -> Table:
    """Small files in two partitions."""
    table = Table(root)
    for number in range(commits):
        table.write([number, number + 100], "ab"[number % 2], partition_by=["p"])
    return table


@built_once(reopened)
def overwritten(root: Path) -> Table:
    """Two files, replaced by one file eight days ago."""
    table = Table(root)
    table.write([1], "a", partition_by=["p"])
    table.write([2], "b")
    table.write([3], "c", mode="overwrite")
    table.pass_time(days=8)
    return table


@built_once(reopened)
def undescribed(root: Path) -> Table:
    """A file without statistics, as some writers leave it, and one that has them."""
    table = Table(root)
    table.write([1])
    (written,) = table.log.snapshot().add_files()
    bare = replace(written, stats=None, data_change=False)
    create_commit(table.log.storage, table.log.log_directory, 1, [bare])
    table.write([2])
    return table

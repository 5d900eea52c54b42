"""Scenes: tables for concurrent operations, with the rows of each version.

The clock is fixed except where a test sets it: a scene sets the age of files and commits, and
operations write younger files, so no file in flight is ever old.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

import delta_ops.arrow as da
from delta_ops import begin, col
from delta_ops.clock import HOUR_MS
from delta_ops.log import Snapshot
from delta_ops.log.commit_file import create_commit
from delta_ops.log.scan_cache_write.write import write_scan_cache
from delta_ops.maintenance import create_checkpoint, create_index
from tests.maintenance.aged_tables import NOW, Table

Row = tuple[int, str]
Rows = tuple[Row, ...]

WEEK = timedelta(days=7)
INDEX = "ids"
"""The index of the scene `indexed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A table before the two operations."""

    name: str
    root: Path
    now_ms: int
    versions: tuple[Rows, ...]
    """The rows of each, in order."""
    paths: tuple[frozenset[str], ...]
    """The files of each."""
    held: Snapshot | None
    """The latest version, opened before."""
    old: int = 0
    """Versions below this one need files that were removed more than a week ago."""
    cleaned: int = 0
    """A clean-up of the log may delete the versions below this one."""
    restored: tuple[int, int] = (0, 0)
    """The versions that `restore` and `restore-other` restore."""
    reverted: int = 1

    @property
    def rows(self) -> Rows:
        return self.versions[-1] if self.versions else ()

    def clock(self) -> int:
        return self.now_ms

    def late_clock(self) -> int:
        """The clock of a vacuum: later than every removal at the fixed time."""
        return self.now_ms + HOUR_MS

    def copy(self, root: Path) -> None:
        """Copies of the files; operations replace files and never change them in place."""
        for directory, _, names in os.walk(self.root):
            place = root / Path(directory).relative_to(self.root)
            place.mkdir()
            for name in names:
                os.link(os.path.join(directory, name), place / name)
        if not self.root.exists():
            root.mkdir()


def rows_of(*rows: Row) -> pa.Table:
    """As an Arrow table to write."""
    ids, partitions = [row[0] for row in rows], [row[1] for row in rows]
    return pa.table({"id": pa.array(ids, pa.int64()), "p": pa.array(partitions, pa.string())})


def empty(root: Path) -> Scene:
    return Scene(name="empty", root=root, now_ms=NOW, versions=(), paths=(), held=None)


def young(root: Path) -> Scene:
    """Two versions of small files."""
    table = Table(root)
    table.write([1], "a", partition_by=["p"])
    table.write([2, 3], "b")
    table.pass_time(ms=1000)
    return _scene("young", table)


def aged(root: Path) -> Scene:
    """Removed files of every age, an old log with a checkpoint, a file without statistics."""
    return _aged("aged", root, {})


def aged_v2(root: Path) -> Scene:
    return _aged("aged v2", root, {"delta.checkpointPolicy": "v2"})


def aged_due(root: Path) -> Scene:
    """The next commit writes a checkpoint."""
    return _aged("aged due", root, {"delta.checkpointInterval": "6"})


def vectors(root: Path) -> Scene:
    """Two groups of small files; deletion vectors are enabled, and one file has one."""
    return _vectors("vectors", root, pa.int64(), {})


def vectors_narrow(root: Path) -> Scene:
    """The ids are 32-bit integers and may become 64-bit integers."""
    return _vectors("vectors narrow", root, pa.int32(), {"delta.enableTypeWidening": "true"})


def indexed(root: Path) -> Scene:
    """Files that an index covers, a scan cache of several groups, and a later file.

    The files have no statistics, so only the index finds values. Indexes are used from eight files.
    """
    table = Table(root)
    configuration = {
        "delta.checkpointInterval": "100",
        "delta.dataSkippingNumIndexedCols": "0",
    }
    for number in range(1, 10):
        partition = "ab"[number % 2]
        table.write([number], partition, partition_by=["p"], configuration=configuration)
    create_checkpoint(table.log, clock=table.clock)
    create_index(table.log, INDEX, "id", clock=table.clock)
    table.date()
    write_scan_cache(table.log.snapshot(), group_rows=3)
    table.pass_time(days=1)
    table.write([99], "b")
    table.pass_time(ms=1000)
    return replace(_scene("indexed", table), restored=(8, 7), reverted=9)


def sorted_runs(root: Path) -> Scene:
    """Four files that hold the same keys in each of two partitions, and a sort key."""
    table = Table(root)
    configuration = {"delta.checkpointInterval": "100", "delta_ops.sortKey": "id"}
    for number in range(1, 9):
        ids, partition = [number, number + 20], "ab"[number % 2]
        table.write(ids, partition, partition_by=["p"], configuration=configuration)
    table.pass_time(days=1)
    return replace(_scene("sorted", table), restored=(6, 5), reverted=7)


def _vectors(name: str, root: Path, id_type: pa.DataType, properties: dict[str, str]) -> Scene:
    table = Table(root)
    configuration = {
        "delta.checkpointInterval": "100",
        "delta.enableDeletionVectors": "true",
        **properties,
    }
    first = rows_of((1, "a"), (2, "a"), (3, "a"), (4, "a"))
    first = first.cast(pa.schema([("id", id_type), ("p", pa.string())]))
    begun = begin(table.log, clock=table.clock)
    da.write(begun, first, partition_by=["p"], configuration=configuration)
    table.date()
    table.write([5, 6], "b")
    da.write(begin(table.log, clock=table.clock), rows_of((7, "a"), (8, "b")))
    da.delete(begin(table.log, clock=table.clock), col("id") == 4)
    table.date()
    table.pass_time(days=1)
    return replace(_scene(name, table), restored=(1, 0), reverted=3)


def _aged(name: str, root: Path, properties: dict[str, str]) -> Scene:
    table = Table(root)
    configuration = {"delta.checkpointInterval": "100", **properties}
    table.write([1], "a", partition_by=["p"], configuration=configuration)
    table.write([2], "b")
    create_checkpoint(table.log, clock=table.clock)
    table.date()
    table.write([3], "a")
    table.pass_time(days=90)
    table.write([4], "b", "overwrite", replace_where=col("p") == "b")
    table.pass_time(days=8)
    table.write([5], "a", "overwrite", replace_where=col("p") == "a")
    table.pass_time(days=1)
    _append_without_statistics(table, (6, "b"))
    table.put("orphan.parquet")
    table.pass_time(days=1)
    return replace(_scene(name, table), old=3, cleaned=1, restored=(2, 3), reverted=4)


def _append_without_statistics(table: Table, row: Row) -> None:
    transaction = begin(table.log, clock=table.clock)
    staged = da.stage_write(transaction, rows_of(row))
    version = table.log.snapshot().version + 1
    adds = [replace(add, stats=None) for add in staged.adds]
    create_commit(table.log.storage, table.log.log_directory, version, adds)
    table.date()


def _scene(name: str, table: Table) -> Scene:
    latest = table.log.snapshot()
    snapshots = [table.log.snapshot(version) for version in range(latest.version + 1)]
    return Scene(
        name=name,
        root=table.root,
        now_ms=table.now_ms,
        versions=tuple(rows_in(da.to_table(snapshot)) for snapshot in snapshots),
        paths=tuple(paths_in(snapshot) for snapshot in snapshots),
        held=latest,
    )


def rows_in(table: pa.Table) -> Rows:
    """As rows of id and p; the replacing table has "n" for p."""
    if "number" in table.column_names:
        return sort_rows((number, "n") for number in table["number"].to_pylist())
    return sort_rows(zip(table["id"].to_pylist(), table["p"].to_pylist(), strict=True))


def sort_rows(rows: Iterable[Row]) -> Rows:
    return tuple(sorted(rows, key=repr))


def paths_in(snapshot: Snapshot) -> frozenset[str]:
    return frozenset(snapshot.files(["path"])["path"].to_pylist())


SCENES: dict[str, Callable[[Path], Scene]] = {
    "empty": empty,
    "young": young,
    "aged": aged,
    "aged v2": aged_v2,
    "aged due": aged_due,
    "vectors": vectors,
    "vectors narrow": vectors_narrow,
    "indexed": indexed,
    "sorted": sorted_runs,
}

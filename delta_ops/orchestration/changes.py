"""What changed in a table: the values of a column in the files that commits added or removed.

A table that is computed from another learns so which of its partitions are out of date, whatever
brought the change: a late record, a correction, another writer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from delta_ops.arrow.scan import read_files
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.commit_file import Commit
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_schemas import add_files, remove_files


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedValues:
    """The distinct values of a column in changed files, null left out."""

    values: tuple[Any, ...]
    """Ascending."""
    version: int
    """The table's version up to which they are complete; the next call begins after it."""


def changed_values(log: DeltaLog, column: str, after_version: int | None) -> ChangedValues:
    """The values of `column` in files that data-changing commits after a version added or removed.

    Args:
        after_version: The version that the last call returned; None for all that is live.

    Raises:
        DataFileError: A removed file has been vacuumed since; ask more often, or keep files longer.
    """
    snapshot = log.snapshot()
    if after_version is None or after_version > snapshot.version:
        files = snapshot.add_files()
    elif after_version == snapshot.version:
        files = []
    else:
        files = [f for c in log.commits(after_version + 1, snapshot.version) for f in _changed(c)]
    return ChangedValues(values=_distinct(snapshot, files, column), version=snapshot.version)


def _changed(commit: Commit) -> Iterator[AddFile]:
    for add in add_files(commit.adds):
        if add.data_change:
            yield add
    for remove in remove_files(commit.removes):
        if remove.data_change:
            yield AddFile(
                path=remove.path,
                size=remove.size or 0,
                partition_values=remove.partition_values or {},
                modification_time=0,
                deletion_vector=remove.deletion_vector,
            )


def _distinct(snapshot: Snapshot, files: list[AddFile], column: str) -> tuple[Any, ...]:
    values: set[Any] = set()
    for rows in read_files(snapshot, files, [column]):
        values.update(pc.unique(rows[column]).to_pylist())
    return tuple(sorted(values - {None}))

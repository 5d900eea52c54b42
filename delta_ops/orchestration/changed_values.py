"""Changed values: the values of a column in files that commits added or removed.

They show which partitions of a derived table are outdated, whatever the reason: a late record, a
correction, or another writer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from delta_ops.arrow.read.scan import read_files
from delta_ops.errors import DataFileError, InvalidRequestError
from delta_ops.log import Snapshot, TableOrPlace, log_of
from delta_ops.log.commit_file import Commit
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_schemas import add_files, remove_files
from delta_ops.protocol.schema import PrimitiveType
from delta_ops.protocol.schema.column_names import find_named


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedValues:
    """The distinct values of a column in changed files, without null."""

    values: tuple[Any, ...]
    """Distinct values, ascending."""
    version: int
    """The last version whose changes are included; the next call begins after it."""


def changed_values(log: TableOrPlace, column: str, after_version: int | None) -> ChangedValues:
    """The values of `column` in files that data-changing commits after a version added or removed.

    Args:
        after_version: The version that the last call returned; None for all live files.

    If a commit was cleaned up or a removed file was vacuumed, all live files count as changed.

    Raises:
        InvalidRequestError: The column does not exist, or is a struct, an array or a map.

    Examples:
        >>> changed = changed_values("lake/orders", "country", None)
        >>> changed.values, changed.version
        (('BE', 'NL'), 0)
        >>> changed_values("lake/orders", "country", after_version=0).values
        ()
    """
    log = log_of(log)
    snapshot = log.snapshot()
    if not isinstance(find_named(snapshot.schema, column).data_type, PrimitiveType):
        raise InvalidRequestError(
            f"{log.uri}: the values of column {column!r} are nested; give a column of single values"
        )
    first = 0 if after_version is None else after_version + 1
    commits = [] if after_version is None else list(log.commits(first, snapshot.version))
    values: tuple[Any, ...] | None = None
    if after_version is not None and len(commits) == snapshot.version - after_version:
        values = _try_distinct_values(
            snapshot, [f for c in commits for f in changed_files(c)], column
        )
    if values is None:
        values = _distinct_values(snapshot, snapshot.add_files(), column)
    return ChangedValues(values=values, version=snapshot.version)


def changed_files(commit: Commit) -> Iterator[AddFile]:
    """The files whose rows a commit added or removed."""
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
                stats=remove.stats,
                deletion_vector=remove.deletion_vector,
            )


def _try_distinct_values(
    snapshot: Snapshot, files: list[AddFile], column: str
) -> tuple[Any, ...] | None:
    try:
        return _distinct_values(snapshot, files, column)
    except DataFileError:
        return None


def _distinct_values(snapshot: Snapshot, files: list[AddFile], column: str) -> tuple[Any, ...]:
    values: set[Any] = set()
    for rows in read_files(snapshot, files, [column]):
        values.update(pc.unique(rows[column]).to_pylist())
    return tuple(sorted(values - {None}))

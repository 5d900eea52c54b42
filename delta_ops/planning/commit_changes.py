"""Commit changes: derive the rows that a commit inserted and deleted from its adds and removes.

Source: PROTOCOL.md, "Reader Requirements for AddCDCFile", "Deletion Vectors".

An added file inserts its live rows, and a removed file deletes its live rows. If a commit changes
only the deletion vector of a file, the difference of both vectors is deleted or inserted. A repair
that removes entries of lost files (operation `FSCK`) is skipped: their rows were already lost, and
cannot be read. No I/O.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from delta_ops.log.commit_file import Commit
from delta_ops.protocol.actions import AddFile, DeletionVector, RemoveFile
from delta_ops.protocol.arrow_schemas import add_files, remove_files
from delta_ops.protocol.file_paths import canonical_path

_INSERT, _DELETE = "insert", "delete"
_REPAIR = "FSCK"
"""The operation of a repair in delta-rs and in delta_ops; the reference implementation has none."""


class Deleted(NamedTuple):
    """All rows of a file except rows in a deletion vector."""

    vector: DeletionVector


class Difference(NamedTuple):
    """Rows in one deletion vector that are not in the other."""

    vector: DeletionVector
    other: DeletionVector | None


class FileChange(NamedTuple):
    """A change to rows of one file."""

    change_type: str
    """The change type of the change data feed."""
    action: AddFile | RemoveFile
    """The action with the file's path."""
    rows: Deleted | Difference | None
    """The changed rows of the file; None means all."""


def changes_of_files(commit: Commit, table: str) -> Iterator[FileChange]:
    """Yield the row changes of a commit without change data files, removes first.

    Args:
        table: The table's root.
    """
    if is_repair(commit):
        return
    adds = [add for add in add_files(commit.adds) if add.data_change]
    removes = [remove for remove in remove_files(commit.removes) if remove.data_change]
    added = {canonical_path(add.path, table): add for add in adds}
    removed = {canonical_path(remove.path, table): remove for remove in removes}
    for path, remove in removed.items():
        if path in added:
            yield from _difference(remove, added[path])
        else:
            yield FileChange(_DELETE, remove, _live_rows(remove.deletion_vector))
    for path, add in added.items():
        if path not in removed:
            yield FileChange(_INSERT, add, _live_rows(add.deletion_vector))


def is_repair(commit: Commit) -> bool:
    """Return whether a commit removes entries of lost files, whose rows cannot be read."""
    return commit.operation == _REPAIR


def _difference(remove: RemoveFile, add: AddFile) -> Iterator[FileChange]:
    """Yield the changes of a file with a new deletion vector; none if the vector is unchanged."""
    before, after = remove.deletion_vector, add.deletion_vector
    if after is not None:
        yield FileChange(_DELETE, add, Difference(after, before))
    if before is not None:
        yield FileChange(_INSERT, add, Difference(before, after))


def _live_rows(vector: DeletionVector | None) -> Deleted | None:
    return Deleted(vector) if vector else None

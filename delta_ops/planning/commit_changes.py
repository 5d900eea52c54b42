"""Commit changes: which rows of which files a commit inserted and deleted, by its adds and removes.

Source: PROTOCOL.md, "Reader Requirements for AddCDCFile", "Deletion Vectors".

A file added is rows inserted, one removed rows deleted, as far as a deletion vector leaves them;
where only the vector of a file is another one, what the two differ in. A repair that gives up
entries of lost files (operation `FSCK`) is passed over: their rows were gone before, and nobody can
tell them. No I/O.
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
"""The operation by which delta-rs and we commit that; the reference has none."""


class Deleted(NamedTuple):
    """All rows of a file but those of a vector."""

    vector: DeletionVector


class Difference(NamedTuple):
    """The rows that one vector has and another has not."""

    vector: DeletionVector
    other: DeletionVector | None


class FileChange(NamedTuple):
    """What happened to rows of one file."""

    change_type: str
    """As the change data feed has it."""
    action: AddFile | RemoveFile
    """The action that names the file."""
    rows: Deleted | Difference | None
    """Which rows of the file; None: all."""


def changes_of_files(commit: Commit, table: str) -> Iterator[FileChange]:
    """What a commit without change data files did to rows: removes first.

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
    """Whether a commit gives up entries of lost files, whose rows nobody can tell."""
    return commit.operation == _REPAIR


def _difference(remove: RemoveFile, add: AddFile) -> Iterator[FileChange]:
    """One file whose deletion vector is another one; or none, where nothing changed."""
    before, after = remove.deletion_vector, add.deletion_vector
    if after is not None:
        yield FileChange(_DELETE, add, Difference(after, before))
    if before is not None:
        yield FileChange(_INSERT, add, Difference(before, after))


def _live_rows(vector: DeletionVector | None) -> Deleted | None:
    return Deleted(vector) if vector else None

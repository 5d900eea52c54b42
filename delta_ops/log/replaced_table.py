"""Replaced tables: checks that a path still holds the same table."""

from __future__ import annotations

from typing import NamedTuple

from delta_ops.errors import TableReplacedError
from delta_ops.storage import FileInfo


class TableMark(NamedTuple):
    """Identifies one of several tables that existed at the same path, one after the other."""

    id: str
    """`metaData.id`."""
    version: int
    """The latest version."""
    newest: FileInfo | None
    """The log file that shows the version; None if unknown."""


def validate_not_replaced(table: str, known: TableMark, found: TableMark) -> None:
    """Reject a table that does not continue the known table.

    Raises:
        TableReplacedError: It is another table, or has lost versions.
    """
    if found.id != known.id:
        raise TableReplacedError(
            table,
            f"at version {known.version} was replaced: its id was {known.id}, and the current "
            f"table has the id {found.id}",
        )
    if found.version == known.version and _path(found.newest) != _path(known.newest):
        # A clean-up never deletes the latest version's commit, so only its checkpoint was left.
        raise TableReplacedError(
            table, f"has lost the commit of its latest version, {known.version}"
        )
    if found.version < known.version:
        raise TableReplacedError(
            table,
            f"was at version {known.version}, and the current table ends at version "
            f"{found.version}",
        )


def is_same_file(known: FileInfo, found: FileInfo | None) -> bool:
    """Whether a file is unchanged; False if that is uncertain.

    Stores report times with different precision in different answers, so the etag decides.
    """
    if found is None or found.size != known.size:
        return False
    if known.etag is not None and found.etag is not None:
        return found.etag == known.etag
    return found.modified_ms == known.modified_ms


def _path(file: FileInfo | None) -> str | None:
    return file.path if file else None

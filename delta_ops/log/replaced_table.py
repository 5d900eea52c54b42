"""Replaced tables: whether the table at a place is the one that was read there."""

from __future__ import annotations

from typing import NamedTuple

from delta_ops.errors import TableReplacedError
from delta_ops.storage import FileInfo


class TableMark(NamedTuple):
    """What tells one table from another at its place."""

    id: str
    """`metaData.id`."""
    version: int
    """The latest version."""
    newest: FileInfo | None
    """The file of the log that shows the version; None where it is not known."""


def validate_not_replaced(table: str, known: TableMark, found: TableMark) -> None:
    """Reject a table that does not continue the one that was read.

    Raises:
        TableReplacedError: It is another table, or has lost versions.
    """
    if found.id != known.id:
        raise TableReplacedError(
            table,
            f"at version {known.version} is no longer there: its id was {known.id}, and "
            f"that of the table in its place is {found.id}",
        )
    if found.version == known.version and _path(found.newest) != _path(known.newest):
        # No clean-up takes the commit of the latest version: a checkpoint was left behind.
        raise TableReplacedError(
            table, f"has lost the commit of its latest version, {known.version}"
        )
    if found.version < known.version:
        raise TableReplacedError(
            table,
            f"was at version {known.version}, and what stands there ends at version "
            f"{found.version}",
        )


def is_same_file(known: FileInfo, found: FileInfo | None) -> bool:
    """Whether a file is still what it was; False where that is not certain.

    Stores give times more exactly in one answer than in another, so the etag decides.
    """
    if found is None or found.size != known.size:
        return False
    if known.etag is not None and found.etag is not None:
        return found.etag == known.etag
    return found.modified_ms == known.modified_ms


def _path(file: FileInfo | None) -> str | None:
    return file.path if file else None

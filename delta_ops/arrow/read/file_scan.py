"""File scan: what a read wants of each data file, and what the log says of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
from pyroaring import BitMap64

from delta_ops.arrow.read.file_columns import FileColumns
from delta_ops.arrow.read.row_groups import ChooseRowGroups
from delta_ops.log.outside_files import TableFiles
from delta_ops.planning.commit_changes import Deleted, Difference
from delta_ops.protocol.actions import DeletionVector
from delta_ops.protocol.row_tracking import RowColumns


@dataclass(frozen=True, slots=True, kw_only=True)
class RowIds:
    """The ids of a file's rows, and the versions that changed them last.

    Source: PROTOCOL.md, "Reader Requirements for Row Tracking".
    """

    columns: RowColumns
    """What the file says of its rows stands in these, and counts before the rest."""
    base: int
    """The id of its first row."""
    commit_version: int


class Numbered(NamedTuple):
    """Rows by their numbers in the file, but those of a vector."""

    rows: BitMap64
    deleted: DeletionVector | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A data file, and what the log says of its rows."""

    path: str
    """Canonical."""
    size: int
    """Bytes."""
    values: Mapping[str, pa.Scalar]
    """Values of columns that are the same in all its rows, by name."""
    rows: Deleted | Difference | Numbered | None = None
    """Which of them are wanted; None: all."""
    row_ids: RowIds | None = None
    """The ids of its rows; None where nobody asks for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileScan:
    """What is wanted of each file of a version."""

    files: TableFiles
    version: int
    schema: pa.Schema
    """Columns of the rows that are read, in the order of the table."""
    columns: FileColumns
    """Columns that files have; the others are among the values of each file."""
    coded: FileColumns | None = None
    """These columns of files whose dictionaries we chose to read; None: as those of the others."""
    condition: Any
    """An Arrow expression that is true for the rows wanted; None: all are."""
    row_groups: ChooseRowGroups | None = None
    """Chooses the row groups that can hold such rows; None: all can."""

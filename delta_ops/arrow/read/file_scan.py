"""File scan: the data to read from each file, and the facts that the log records about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
from pyroaring import BitMap64

from delta_ops.arrow.read.dictionary_pages import LatestTexts
from delta_ops.arrow.read.file_columns import FileColumns
from delta_ops.arrow.read.row_groups import ChooseRowGroups
from delta_ops.log.outside_files import TableFiles
from delta_ops.planning.commit_changes import Deleted, Difference
from delta_ops.protocol.actions import DeletionVector
from delta_ops.protocol.row_tracking import RowColumns

WHOLE_GROUP_BYTES = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RowIds:
    """Ids of a file's rows, and the versions that last changed the rows.

    Source: PROTOCOL.md, "Reader Requirements for Row Tracking".
    """

    columns: RowColumns
    """Columns with ids and versions stored in the file; stored values have priority."""
    base: int
    """The id of the first row."""
    commit_version: int


class Numbered(NamedTuple):
    """Wanted rows by their numbers in the file, except rows in a deletion vector."""

    rows: BitMap64
    deleted: DeletionVector | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A data file with what the log records about its rows."""

    path: str
    """Canonical path."""
    size: int
    """In bytes."""
    values: Mapping[str, pa.Scalar]
    """Values of columns that are constant in the file, by column name."""
    rows: Deleted | Difference | Numbered | None = None
    """Which rows are wanted; None means all."""
    row_ids: RowIds | None = None
    """The ids of the rows; None if row ids are not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileScan:
    """The columns and rows to read from each file of a version."""

    files: TableFiles
    version: int
    schema: pa.Schema
    """Columns of the result, in the table's order."""
    columns: FileColumns
    """Columns stored in the files; other columns are in each file's `values`."""
    encoded: FileColumns | None = None
    """Used instead of `columns` for files whose dictionaries we chose to read; None means
    `columns`."""
    condition: Any
    """An Arrow expression that is true for the wanted rows; None means all rows."""
    row_groups: ChooseRowGroups | None = None
    """Chooses the row groups that can hold wanted rows; None means all."""
    whole_group_bytes: int = WHOLE_GROUP_BYTES
    """Larger row groups of local files, by their wanted columns, are read in buffers, which is
    slower and takes less memory."""
    latest_texts: LatestTexts = field(
        init=False, repr=False, compare=False, default_factory=LatestTexts
    )

"""Replacement: which files an overwrite by predicate removes, and which it must read first.

A file of which every row matches is removed as a whole. One of which some rows may match is removed
too, and its other rows are written again with the new ones. A row for which the predicate is null
does not match and stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from delta_ops.log import Snapshot
from delta_ops.log.version.pruning import split_by_match
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_schemas import add_files, merge_chunks
from delta_ops.protocol.predicate import Predicate


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """The live files that an overwrite concerns."""

    matched: pa.Table
    """Every row matches; rows of `arrow_schemas.ADD`, since they may be all files of the table."""
    mixed: tuple[AddFile, ...]
    """Some rows may match; the others survive."""


def plan_replacement(
    snapshot: Snapshot, predicate: Predicate, *, partition_time_zone: str = "UTC"
) -> Replacement:
    """Sort the files that may hold matching rows.

    Args:
        partition_time_zone: Zone of partition values of type timestamp that name none; the rows of
            the mixed files are read in it.

    Raises:
        InvalidRequestError: The predicate does not fit the table.
    """
    adds = snapshot.add_rows(predicate, partition_time_zone=partition_time_zone)
    matched, mixed = split_by_match(
        merge_chunks(adds), predicate, snapshot.definition, snapshot.uri, partition_time_zone
    )
    return Replacement(matched=matched, mixed=tuple(add_files(mixed)))

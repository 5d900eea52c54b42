"""Replacement: the files that an overwrite by predicate removes or rewrites.

A file whose rows all match is removed without reading it. A file with some matching rows is removed
too, and its other rows are written to a new file. If the predicate is null for a row, the row does
not match and stays.
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
    """The live files that may hold replaced rows."""

    matched: pa.Table
    """Files whose rows all match, as `arrow_schemas.ADD`; possibly all files of the table."""
    mixed: tuple[AddFile, ...]
    """Files with rows that may match and rows that survive."""


def plan_replacement(
    snapshot: Snapshot, predicate: Predicate, *, partition_time_zone: str = "UTC"
) -> Replacement:
    """Split the files that may hold matching rows into matched and mixed files.

    Args:
        partition_time_zone: Time zone for partition timestamps without one. The mixed files must be
            read with the same zone.

    Raises:
        InvalidRequestError: The predicate does not fit the table.
    """
    adds = snapshot.add_rows(predicate, partition_time_zone=partition_time_zone)
    matched, mixed = split_by_match(
        merge_chunks(adds), predicate, snapshot.definition, snapshot.uri, partition_time_zone
    )
    return Replacement(matched=matched, mixed=tuple(add_files(mixed)))

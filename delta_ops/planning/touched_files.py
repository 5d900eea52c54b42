"""Touched files: choose the live files that may hold rows matching a condition.

The choice is the same for both engines. An engine only opens the chosen files, and counts or
numbers their matching rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from delta_ops.log import Snapshot
from delta_ops.planning.conditions import Selection
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_schemas import add_files
from delta_ops.transaction.replacement import plan_replacement
from delta_ops.transaction.row_changes import Touched, TouchedFile, num_live_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcernedFiles:
    """The live files that may hold rows that match a condition."""

    matched: Sequence[AddFile]
    """Files where partition values or statistics prove that every row matches."""
    to_open: Sequence[AddFile]
    """Files whose rows must be checked."""

    def list_touched(self, found: Sequence[TouchedFile]) -> Touched:
        """Return the files with matching rows.

        Args:
            found: The opened files that have matching rows.
        """
        counts = [num_live_rows(each) for each in self.matched]
        known = [each for each in counts if each is not None]
        num_rows = sum(known) + sum(each.num_rows for each in found)
        return Touched(
            matched=[*self.matched, *(each.file for each in found if each.is_whole)],
            mixed=[each for each in found if not each.is_whole],
            num_rows=num_rows if len(known) == len(counts) else None,
        )


def plan_touched_files(
    snapshot: Snapshot, selection: Selection, *, partition_time_zone: str = "UTC"
) -> ConcernedFiles:
    """Choose the files that may hold matching rows.

    Args:
        partition_time_zone: Time zone for partition timestamps without a zone.

    Raises:
        InvalidRequestError: The predicate does not fit the table.
    """
    plan = plan_replacement(snapshot, selection.implied, partition_time_zone=partition_time_zone)
    matched = list(add_files(plan.matched))
    if selection.is_implied:
        return ConcernedFiles(matched=matched, to_open=plan.mixed)
    # The predicate does not cover the rest of the condition.
    return ConcernedFiles(matched=(), to_open=[*matched, *plan.mixed])

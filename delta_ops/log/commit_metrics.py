"""Commit metrics: rows and files that a commit added and removed, as its writer recorded.

Each engine and operation uses its own metric names; a writer may record anything, or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# A merge's own metrics come first, because its numOutputRows also counts copied rows.
_ROWS_ADDED = [
    "numTargetRowsInserted",
    "num_target_rows_inserted",
    "numOutputRows",
    "num_added_rows",
]
_ROWS_REMOVED = [
    "numDeletedRows",
    "numTargetRowsDeleted",
    "numRemovedRows",
    "num_deleted_rows",
    "num_target_rows_deleted",
]
_FILES_ADDED = [
    "numFiles",
    "numAddedFiles",
    "numTargetFilesAdded",
    "numFilesAdded",
    "num_added_files",
    "num_target_files_added",
]
_FILES_REMOVED = [
    "numRemovedFiles",
    "numTargetFilesRemoved",
    "numDeletedFiles",
    "numFilesRemoved",
    "num_removed_files",
    "num_target_files_removed",
]
_REARRANGING = ("OPTIMIZE",)
"""Operations that rewrite rows without adding any."""

_MAX_DIGITS = 19


def rows_text(operation: str | None, metrics: Mapping[str, Any]) -> str:
    """Rows added and removed, from a commit's `operationMetrics`, such as `+1,000 -3`.

    "" without metrics, or if the operation only rewrites rows.
    """
    if operation in _REARRANGING:
        return ""
    return _change_text(_value(metrics, _ROWS_ADDED), _value(metrics, _ROWS_REMOVED))


def files_text(metrics: Mapping[str, Any]) -> str:
    """Files added and removed, in the format of `rows_text`."""
    return _change_text(_value(metrics, _FILES_ADDED), _value(metrics, _FILES_REMOVED))


def _value(metrics: Mapping[str, Any], names: Sequence[str]) -> int | None:
    """The first usable value among these metrics; None if there is none."""
    for name in names:
        text = str(metrics.get(name, ""))
        if text.isdecimal() and len(text) <= _MAX_DIGITS:
            return int(text)
    return None


def _change_text(added: int | None, removed: int | None) -> str:
    texts = [f"+{added:,}"] if added else []
    return " ".join([*texts, *([f"-{removed:,}"] if removed else [])])

"""Commit metrics: how many rows and files a commit added and removed, as its writer said.

Each engine and operation has names of its own for them; a writer may say anything, or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# Those of a merge come first: its numOutputRows are copied rows, too.
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
"""Operations that write rows again, and add none."""

_MAX_DIGITS = 19


def rows_text(operation: str | None, metrics: Mapping[str, Any]) -> str:
    """Rows by the `operationMetrics` of a commit: `+1,000 -3`; "" where nothing was said, or where
    the operation only rearranges them.
    """
    if operation in _REARRANGING:
        return ""
    return _change_text(_value(metrics, _ROWS_ADDED), _value(metrics, _ROWS_REMOVED))


def files_text(metrics: Mapping[str, Any]) -> str:
    """Files by the `operationMetrics` of a commit, as `rows_text` has rows."""
    return _change_text(_value(metrics, _FILES_ADDED), _value(metrics, _FILES_REMOVED))


def _value(metrics: Mapping[str, Any], names: Sequence[str]) -> int | None:
    """What the first of these metrics that was told says."""
    for name in names:
        text = str(metrics.get(name, ""))
        if text.isdecimal() and len(text) <= _MAX_DIGITS:
            return int(text)
    return None


def _change_text(added: int | None, removed: int | None) -> str:
    texts = [f"+{added:,}"] if added else []
    return " ".join([*texts, *([f"-{removed:,}"] if removed else [])])

"""Commit metrics: how many rows and files a commit added and removed, as its writer said.

Each engine and operation has names of its own for them; a writer may say anything, or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_ROWS_ADDED = ("numOutputRows", "numTargetRowsInserted")
_ROWS_REMOVED = ("numDeletedRows", "numTargetRowsDeleted", "numRemovedRows")
_FILES_ADDED = ("numFiles", "numAddedFiles", "numTargetFilesAdded")
_FILES_REMOVED = ("numRemovedFiles", "numTargetFilesRemoved", "numDeletedFiles")

_MAX_DIGITS = 19


def rows_text(metrics: Mapping[str, Any]) -> str:
    """Rows by the `operationMetrics` of a commit: `+1,000 -3`; "" where nothing was said."""
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

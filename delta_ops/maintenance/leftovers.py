"""Leftovers: unfinished files of processes that died. Pure."""

from __future__ import annotations

from delta_ops.clock import DAY_MS
from delta_ops.storage import FileInfo
from delta_ops.storage.paths import is_hidden_staged

STAGED_LIFETIME_MS = DAY_MS
"""How long an unfinished file may be in use; every single write is shorter."""


def is_staged(path: str) -> bool:
    """Whether the file is unfinished, by its name."""
    # Nearly all paths have no hidden name, and need no closer look.
    may_be = path.startswith(".") or "/." in path
    return may_be and is_hidden_staged(path.rpartition("/")[2])


def is_leftover(info: FileInfo, now_ms: int) -> bool:
    """Whether the file is unfinished and older than any running write."""
    return is_staged(info.path) and info.modified_ms < now_ms - STAGED_LIFETIME_MS

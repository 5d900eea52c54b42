"""Leftovers: unfinished files of processes that died. Pure."""

from __future__ import annotations

from delta_ops.clock import DAY_MS
from delta_ops.storage import FileInfo
from delta_ops.storage.paths import is_hidden_staged

STAGED_LIFETIME_MS = DAY_MS
"""How long an unfinished file may be in use; nothing is written for that long in one go."""


def is_staged(info: FileInfo) -> bool:
    """Whether this is a file that was not finished, or is not yet."""
    return is_hidden_staged(info.path.rpartition("/")[2])


def is_leftover(info: FileInfo, now_ms: int) -> bool:
    """Whether this is an unfinished file that nobody is writing any more."""
    return is_staged(info) and info.modified_ms < now_ms - STAGED_LIFETIME_MS

"""RewriteGroup: files to be replaced by fewer, larger ones with the same rows.

Maintenance plans them, an engine executes them; neither knows the other.
"""

from __future__ import annotations

from dataclasses import dataclass

from delta_ops.protocol.actions import AddFile


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteGroup:
    """Input files of one partition, in the order in which their rows are written again."""

    files: tuple[AddFile, ...]
    target_size_bytes: int
    """About how large each output file should be."""

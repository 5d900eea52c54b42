"""RewriteGroup: files to be replaced by fewer, larger ones with the same rows.

Maintenance plans them, an engine executes them; neither knows the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddFile
from delta_ops.transaction.staging import Staged


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteGroup:
    """Input files of one partition, in the order in which their rows are written again."""

    files: tuple[AddFile, ...]
    target_size_bytes: int
    """About how large each output file should be."""


Rewriter = Callable[[Snapshot, RewriteGroup], Staged]
"""An engine's way to execute a group: the files staged hold the same rows (`data_change` False)."""

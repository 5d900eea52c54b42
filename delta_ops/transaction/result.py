"""What a commit came to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from delta_ops.lazy import lazy
from delta_ops.log import Snapshot


@dataclass(frozen=True, kw_only=True)
class CommitResult:
    """The outcome of a commit that did not fail."""

    version: int | None
    """The version that holds the change; None when the commit that carries the txn already was
    cleaned up, or when there was nothing to commit."""
    already_committed: bool
    """True when the txn was there before: nothing was written."""
    attempts: int
    """Commit files tried; 0 when `already_committed` was known beforehand."""
    metrics: Mapping[str, int] = field(default_factory=dict)
    """`numFiles`, `numOutputRows`, `numOutputBytes`, `numRemovedFiles`, ... as in commitInfo."""
    failed_hooks: tuple[str, ...] = ()
    """One sentence for each hook that failed; the commit stands."""
    open_snapshot: Callable[[], Snapshot] | None = field(default=None, repr=False, compare=False)

    @lazy
    def snapshot(self) -> Snapshot | None:
        """The table at `version`, for one read; None when nothing was written.

        Raises:
            StorageError: The store failed.
        """
        return self.open_snapshot() if self.open_snapshot is not None else None

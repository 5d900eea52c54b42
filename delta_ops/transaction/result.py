"""What a commit came to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field
from typing import Any

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
    ignored: bool = False
    """True when there was a table and the mode is "ignore": nothing was written."""
    failed_hooks: tuple[str, ...] = ()
    """One sentence for each hook that failed; the commit stands."""
    open_snapshot: InitVar[Callable[[], Snapshot] | None] = None

    def __post_init__(self, open_snapshot: Callable[[], Snapshot] | None) -> None:
        vars(self)["_open"] = open_snapshot

    def __getstate__(self) -> dict[str, Any]:
        """Leave the table out, whose handle holds credentials and locks."""
        return {**vars(self), "_open": None, "snapshot": None}

    @lazy
    def snapshot(self) -> Snapshot | None:
        """The table at `version`, for one read; None when nothing was written.

        It does not come along to another process.

        Raises:
            StorageError: The store failed.
            TableReplacedError: The table was deleted, or another was made at its place.
        """
        open_snapshot: Callable[[], Snapshot] | None = vars(self)["_open"]
        return None if open_snapshot is None else open_snapshot()

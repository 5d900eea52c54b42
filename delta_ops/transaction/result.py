"""The result of a commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field
from typing import Any

from delta_ops.lazy import lazy
from delta_ops.log import Snapshot


@dataclass(frozen=True, kw_only=True)
class CommitResult:
    """The result of a successful commit.

    Examples:
        >>> result = da.delete("lake/orders", col("country") == "NL")
        >>> result.version, result.metrics["numDeletedRows"]
        (1, 2)
        >>> da.delete("lake/orders", col("id") == 99).version is None  # no row, no commit
        True
    """

    version: int | None
    """The version that holds the change; None if there was nothing to commit, or if an earlier
    commit carries the txn and its file was cleaned up."""
    already_committed: bool
    """True if the table already held the txn: nothing was written."""
    attempts: int
    """Number of commit attempts; 0 if `already_committed` was known before the first attempt."""
    metrics: Mapping[str, int] = field(default_factory=dict)
    """`numFiles`, `numOutputRows`, `numOutputBytes`, `numRemovedFiles`, ... as in commitInfo."""
    ignored: bool = False
    """True if the table existed and the mode is "ignore": nothing was written."""
    failed_hooks: tuple[str, ...] = ()
    """One sentence for each failed hook; the commit remains."""
    open_snapshot: InitVar[Callable[[], Snapshot] | None] = None

    def __post_init__(self, open_snapshot: Callable[[], Snapshot] | None) -> None:
        vars(self)["_open"] = open_snapshot

    def __getstate__(self) -> dict[str, Any]:
        """Omit the snapshot, because its handle holds credentials and locks."""
        return {**vars(self), "_open": None, "snapshot": None}

    @lazy
    def snapshot(self) -> Snapshot | None:
        """The table at `version`, loaded on first use; None if nothing was written.

        A pickled result has no snapshot.

        Raises:
            StorageError: The store failed.
            TableReplacedError: The table was deleted or replaced.
        """
        open_snapshot: Callable[[], Snapshot] | None = vars(self)["_open"]
        return None if open_snapshot is None else open_snapshot()

"""Events of long operations, as values for listeners.

A listener is a callable. It runs in the thread of the operation, so it should return quickly; an
exception in a listener ends the operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStarted:
    """A write begins: the table is open, its txn is not committed, and no file exists."""

    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFilesWritten:
    """Data files are in the store; their statistics have not been read yet."""

    table: str
    directory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFilesStaged:
    """Data files are durable and have statistics; nothing is committed."""

    table: str
    num_files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAttempted:
    """The commit file for `version` is about to be created."""

    table: str
    version: int
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceLost:
    """Another writer committed `version` first; the conflict check follows."""

    table: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """`version` is committed; the hooks follow."""

    table: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitLost:
    """A confirmed commit is missing: the table has a different commit of its version."""

    table: str
    version: int
    advice: str
    """The cure, in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointDamaged:
    """A checkpoint is unreadable; the table was read from an older checkpoint and commits."""

    table: str
    version: int
    """The version of the checkpoint."""
    advice: str
    """The problem and its cure, in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookFailed:
    """A hook failed after the commit, which remains valid."""

    table: str
    version: int
    hook: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """`done` of `total` steps of an operation; total is None if unknown."""

    table: str
    operation: str
    done: int
    total: int | None

    @property
    def count(self) -> str:
        """The progress as a string, such as "3 of 10"."""
        return f"{self.done:,}" if self.total is None else f"{self.done:,} of {self.total:,}"


Event = (
    WriteStarted
    | DataFilesWritten
    | DataFilesStaged
    | CommitAttempted
    | RaceLost
    | Committed
    | CommitLost
    | CheckpointDamaged
    | HookFailed
    | Progress
)
OnEvent = Callable[[Event], None]


def ignore(_event: Event) -> None:
    """Ignore an event."""

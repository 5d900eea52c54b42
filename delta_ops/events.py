"""What happens inside an operation that takes long, as values for whoever wants to listen.

A listener is a callable. It runs in the thread that does the work, so it should return at once;
an exception that it raises ends the operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStarted:
    """The target was opened and the txn is not there yet; no file has been written."""

    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFilesWritten:
    """Data files are in the store; their statistics have not been read yet."""

    table: str
    directory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFilesStaged:
    """Data files are durable and described; nothing is committed."""

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
    """`version` is ours; the hooks follow."""

    table: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitLost:
    """An earlier commit was acknowledged and is not in the table: another one stands there."""

    table: str
    version: int
    advice: str
    """What to do about it, in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointDamaged:
    """A checkpoint cannot be read, so that the table was read from an older one and commits."""

    table: str
    version: int
    """The version of the checkpoint."""
    advice: str
    """What is wrong and what to do about it, in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookFailed:
    """A hook failed after the commit, which stands."""

    table: str
    version: int
    hook: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """`done` of `total` steps of an operation; total is None where it is not known."""

    table: str
    operation: str
    done: int
    total: int | None

    @property
    def count(self) -> str:
        """How much is done, for people."""
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
    """Listen to nothing."""

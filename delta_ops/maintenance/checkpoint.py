"""Checkpoints on request: the state of the latest version in one file, so that readers start there.

Source: PROTOCOL.md, "Checkpoints". Tombstones whose retention is over are left out of the
checkpoint, and with that the log forgets them: vacuum runs first, see `plan`.
"""

from __future__ import annotations

from dataclasses import dataclass

from delta_ops.clock import Clock, system_clock
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.checkpoint_write import WrittenCheckpoint, write_checkpoint
from delta_ops.maintenance.admission import validate_maintainable


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPlan:
    """Whether a version wants a checkpoint."""

    version: int
    commits_since_checkpoint: int
    interval: int
    """`delta.checkpointInterval`: commits from one checkpoint to the next."""

    @property
    def has_work(self) -> bool:
        """Whether the version has no checkpoint yet."""
        return self.commits_since_checkpoint > 0

    @property
    def is_due(self) -> bool:
        """Whether so many commits came since the last one that readers pay for it."""
        return self.commits_since_checkpoint >= self.interval


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointResult:
    """What `create_checkpoint` did."""

    plan: CheckpointPlan
    dry_run: bool
    written: WrittenCheckpoint | None
    """None if nothing was written: in a dry run, or because the version has its checkpoint."""


def plan_checkpoint(snapshot: Snapshot) -> CheckpointPlan:
    """Whether the snapshot's version wants a checkpoint.

    Raises:
        InvalidRequestError: A property of the table cannot be understood.
    """
    return CheckpointPlan(
        version=snapshot.version,
        commits_since_checkpoint=snapshot.commits_since_checkpoint,
        interval=snapshot.properties.checkpoint_interval,
    )


def checkpoint_due(snapshot: Snapshot) -> bool:
    """Whether `delta.checkpointInterval` commits or more came since the last checkpoint."""
    return plan_checkpoint(snapshot).is_due


def create_checkpoint(
    log: DeltaLog, *, clock: Clock = system_clock, dry_run: bool = False
) -> CheckpointResult:
    """Write the checkpoint of the latest version unless it is there.

    Raises:
        UnsupportedFeatureError: The table uses what we cannot write.
    """
    snapshot = log.snapshot()
    validate_maintainable(snapshot)
    plan = plan_checkpoint(snapshot)
    written = None
    if plan.has_work and not dry_run:
        written = write_checkpoint(snapshot, now_ms=clock())
    return CheckpointResult(plan=plan, dry_run=dry_run, written=written)

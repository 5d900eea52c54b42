"""Checkpoints on request: the state of the latest version, so that readers start there.

Source: PROTOCOL.md, "Checkpoints". The table's properties say of which kind. Tombstones whose
retention is over are left out of the checkpoint, and with that the log forgets them: vacuum runs
first, see `plan`.
"""

from __future__ import annotations

from dataclasses import dataclass

from delta_ops.clock import Clock, system_clock
from delta_ops.events import OnEvent, ignore
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.log.checkpoint_write import (
    CheckpointKind,
    WrittenCheckpoint,
    checkpoint_kind,
    write_checkpoint,
)
from delta_ops.maintenance.admission import validate_maintainable


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPlan:
    """Whether a version wants a checkpoint."""

    version: int
    kind: CheckpointKind
    """By `delta.checkpointPolicy`; of many parts only where that was asked for."""
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


def plan_checkpoint(snapshot: Snapshot, *, part_rows: int | None = None) -> CheckpointPlan:
    """Whether the snapshot's version wants a checkpoint, and of which kind.

    Args:
        part_rows: As for `create_checkpoint`.

    Raises:
        InvalidRequestError: A property of the table cannot be understood, `part_rows` is not
            positive, or the table must not have checkpoints of many parts.
    """
    return CheckpointPlan(
        version=snapshot.version,
        kind=checkpoint_kind(snapshot, part_rows),
        commits_since_checkpoint=snapshot.commits_since_checkpoint,
        interval=snapshot.properties.checkpoint_interval,
    )


def checkpoint_due(snapshot: Snapshot) -> bool:
    """Whether `delta.checkpointInterval` commits or more came since the last checkpoint."""
    return plan_checkpoint(snapshot).is_due


def create_checkpoint(
    log: DeltaLog,
    *,
    part_rows: int | None = None,
    clock: Clock = system_clock,
    dry_run: bool = False,
    on_event: OnEvent = ignore,
) -> CheckpointResult:
    """Write the checkpoint of the latest version unless it is there.

    Args:
        part_rows: Write several files of about so many live files each, where there are more: for
            readers that take one file whole into memory. Of no use where the table has the feature
            v2Checkpoint, and refused there. The system's temporary folder takes the files' size.
        clock: By it tombstones and transactions expire.
        on_event: Is told of the live files that are in the checkpoint.

    Raises:
        InvalidRequestError: As `plan_checkpoint`.
        UnsupportedFeatureError: The table uses what we cannot write.
    """
    snapshot = log.snapshot()
    validate_maintainable(snapshot)
    plan = plan_checkpoint(snapshot, part_rows=part_rows)
    written = None
    if plan.has_work and not dry_run:
        written = write_checkpoint(snapshot, now_ms=clock(), part_rows=part_rows, on_event=on_event)
    return CheckpointResult(plan=plan, dry_run=dry_run, written=written)

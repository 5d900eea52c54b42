"""Whether a version needs a checkpoint. `plan_checkpoint` is pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from delta_ops.arguments import validate_arguments
from delta_ops.log import Snapshot, Source, snapshot_of
from delta_ops.log.checkpoint_write.write import (
    CheckpointKind,
    checkpoint_kind,
)
from delta_ops.storage import FileInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPlan:
    """Whether a version needs a checkpoint."""

    version: int
    kind: CheckpointKind
    """From `delta.checkpointPolicy`; multi-part only on request."""
    commits_since_checkpoint: int
    interval: int
    """`delta.checkpointInterval`: commits from one checkpoint to the next."""
    stale: tuple[FileInfo, ...] = ()
    """Files of unfinished checkpoints to delete."""

    @property
    def is_missing(self) -> bool:
        """Whether the version has no checkpoint yet."""
        return self.commits_since_checkpoint > 0

    @property
    def has_work(self) -> bool:
        """Whether there is anything to write or to delete."""
        return self.is_missing or bool(self.stale)

    @property
    def is_due(self) -> bool:
        """Whether enough commits follow the last checkpoint, or an unfinished checkpoint exists.

        Many commits slow readers down. Another engine might use an unfinished checkpoint.
        """
        return self.commits_since_checkpoint >= self.interval or bool(self.stale)


def plan_checkpoint(
    snapshot: Snapshot, *, part_rows: int | None = None, stale: Collection[FileInfo] = ()
) -> CheckpointPlan:
    """Decide whether the snapshot's version needs a checkpoint, and its kind.

    Args:
        part_rows: As for `create_checkpoint`.
        stale: Files of unfinished checkpoints, if the caller has listed the log.

    Raises:
        InvalidRequestError: A property of the table cannot be understood, `part_rows` is not
            positive, or the table must not have checkpoints of many parts.

    Examples:
        >>> plan = plan_checkpoint(DeltaLog("lake/orders").snapshot())
        >>> plan.commits_since_checkpoint, plan.interval
        (1, 10)
    """
    validate_arguments(plan_checkpoint, locals())
    return CheckpointPlan(
        version=snapshot.version,
        kind=checkpoint_kind(snapshot, part_rows),
        commits_since_checkpoint=snapshot.commits_since_checkpoint,
        interval=snapshot.properties.checkpoint_interval,
        stale=tuple(stale),
    )


def checkpoint_due(source: Source) -> bool:
    """Whether `delta.checkpointInterval` commits or more follow the last checkpoint.

    Examples:
        >>> checkpoint_due(DeltaLog("lake/orders").snapshot())
        False
    """
    validate_arguments(checkpoint_due, locals())
    return plan_checkpoint(snapshot_of(source)).is_due

"""Hooks: what happens after a commit and cannot undo it.

A hook that fails is reported in the result and as an event; the commit stands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from delta_ops.clock import Clock
from delta_ops.log import DeltaLog
from delta_ops.log.checkpoint_write import write_checkpoint
from delta_ops.protocol.table_properties import TableProperties


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedVersion:
    """What a hook is told."""

    log: DeltaLog
    version: int
    properties: TableProperties
    clock: Clock


Hook = Callable[[CommittedVersion], None]


def checkpoint_if_due(committed: CommittedVersion) -> None:
    """Write a checkpoint at every `delta.checkpointInterval`th version, as the reference does."""
    interval = committed.properties.checkpoint_interval
    if committed.version and committed.version % interval == 0:
        write_checkpoint(committed.log.snapshot(committed.version), now_ms=committed.clock())


DEFAULT_HOOKS: tuple[Hook, ...] = (checkpoint_if_due,)

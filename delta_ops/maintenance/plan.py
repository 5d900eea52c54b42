"""The maintenance plan: which operations a table has work for, as figures.

Cheap enough to ask every few minutes: the snapshot, one listing of the log and at most a few
`stat` calls; the data is never listed. Operations run in this order:

1. vacuum: it learns of removed files from tombstones, which the next checkpoint forgets;
2. optimize: its commit belongs into the checkpoint;
3. checkpoint: clean-up can only go as far as there is one;
4. clean up log.

Once all that is due has run, nothing is due, and nothing becomes due unless the table changes or
something expires. Vacuum is due if a file is still there whose tombstone has expired; of many
tombstones a sample is looked at, spread over the order in which vacuum deletes and including the
last, so that one that was killed is due again. Files that no tombstone names (of writers that died,
or whose tombstone a checkpoint forgot before any vacuum ran) cannot be seen from the log: have
vacuum run once in a while even when it is not due.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import UnsupportedFeatureError
from delta_ops.log import Snapshot, Source, snapshot_of
from delta_ops.log.delta_log import LOG_DIRECTORY
from delta_ops.maintenance.admission import is_own_log, validate_format
from delta_ops.maintenance.checkpoint import plan_checkpoint
from delta_ops.maintenance.log_cleanup.act import load_log_cleanup_plan
from delta_ops.maintenance.optimize.plan import plan_optimize
from delta_ops.maintenance.optimize.small_files import small_file_sizes, target_size_bytes
from delta_ops.maintenance.reachable import removed_before
from delta_ops.maintenance.vacuum.due import TOMBSTONE_COLUMNS, any_is_there
from delta_ops.protocol.features import Operation as Needed
from delta_ops.protocol.table_definition import validate

Operation = Literal["vacuum", "optimize", "repair", "checkpoint", "clean_up_log", "compact_log"]
"""Log compaction is never due: only some engines gain by it, and who runs them asks for it. Repair
is due by health only: it fills in statistics, and takes no entry out of the table."""

_NEEDS: Mapping[Operation, Needed] = {
    "vacuum": "vacuum",
    "optimize": "write",
    "repair": "restore",
    "checkpoint": "checkpoint",
    "clean_up_log": "clean up",
    "compact_log": "compact",
}
"""What each operation does, in the words of `features`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePlan:
    """What there is to do at a version."""

    version: int
    commits_since_checkpoint: int
    small_files: int
    """Files that optimize would put together."""
    expired_tombstones: int
    """Tombstones in the log whose retention is over; their files may be gone."""
    deletable_log_files: int
    incomplete_checkpoint_files: int
    """Files of checkpoints that nobody finished; among the deletable ones."""
    operations: tuple[Operation, ...]
    """What is due, in the order in which it should run."""

    refused: Mapping[Operation, tuple[str, ...]] = field(default_factory=dict)
    """What would be due and must not touch the table, with the features that forbid it."""

    @property
    def has_work(self) -> bool:
        """Whether anything is due."""
        return bool(self.operations)


def plan_maintenance(
    source: Source,
    *,
    clock: Clock = system_clock,
    target_size: int | None = None,
    min_files: int = 2,
    keep: Collection[str] = (),
    keep_versions: Collection[int] = (),
) -> MaintenancePlan:
    """Decide what is due.

    Args:
        source: The table, or its latest snapshot.
        target_size: As for `optimize`; so is `min_files`.
        keep: As for `vacuum`.
        keep_versions: As for `clean_up_log`.

    Raises:
        InvalidRequestError: A property of the table cannot be understood.
        VersionNotFoundError: A version that is to be kept cannot be read.
        UnsupportedFeatureError: The table keeps things of ours that this version does not know.
    """
    validate_arguments(plan_maintenance, locals())
    snapshot = snapshot_of(source)
    validate_format(snapshot)
    refused = _refused_by_definition(snapshot)
    now_ms = clock()
    cleanup = load_log_cleanup_plan(snapshot, now_ms=now_ms, keep_versions=keep_versions)
    checkpoint = plan_checkpoint(snapshot, stale=cleanup.incomplete)
    target = target_size_bytes(snapshot, target_size)
    optimize = plan_optimize(
        small_file_sizes(snapshot, target), target_size_bytes=target, min_files=min_files
    )
    horizon_ms = now_ms - snapshot.properties.deleted_file_retention_ms
    tombstones = snapshot.tombstones(TOMBSTONE_COLUMNS)
    due: dict[Operation, bool] = {
        "vacuum": any_is_there(snapshot, tombstones, horizon_ms, keep),
        "optimize": optimize.has_work,
        "checkpoint": checkpoint.is_due,
        "clean_up_log": cleanup.has_work and cleanup.is_enabled,
    }
    return MaintenancePlan(
        version=snapshot.version,
        commits_since_checkpoint=checkpoint.commits_since_checkpoint,
        small_files=optimize.num_files,
        expired_tombstones=len(removed_before(tombstones, horizon_ms)),
        deletable_log_files=len(cleanup.files),
        incomplete_checkpoint_files=len(cleanup.incomplete),
        operations=tuple(each for each, is_due in due.items() if is_due and each not in refused),
        refused={each: reason for each, reason in refused.items() if due.get(each)},
    )


def refusals(snapshot: Snapshot) -> dict[Operation, tuple[str, ...]]:
    """The operations that must not touch the table, with what forbids it."""
    try:
        validate_format(snapshot)
    except UnsupportedFeatureError as error:
        return dict.fromkeys(_NEEDS, error.features)
    return _refused_by_definition(snapshot)


def _refused_by_definition(snapshot: Snapshot) -> dict[Operation, tuple[str, ...]]:
    refused: dict[Operation, tuple[str, ...]] = {}
    for operation, needed in _NEEDS.items():
        try:
            validate(snapshot.definition, needed, table=snapshot.uri, engine=None)
        except UnsupportedFeatureError as error:
            refused[operation] = error.features
    if not is_own_log(snapshot):
        refused["vacuum"] = (f"a log other than {LOG_DIRECTORY}",)
    return refused

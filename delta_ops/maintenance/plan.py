"""Maintenance plan: the operations that a table has work for, and figures.

It is cheap enough to compute every few minutes: it loads the snapshot, lists the log once and makes
at most a few `stat` calls. File names are listed only on a disk, to find links, if a file is past
its retention. `registry` defines the order of the operations.

After all due operations have run, nothing is due until the table changes or something expires.
Vacuum is due if the file of an expired tombstone still exists. A sample of the tombstones is
checked: spread over the deletion order of vacuum and including the last, so that vacuum is due
again after a kill. The log does not show files without a tombstone: writers that died left them, or
a checkpoint dropped their tombstone before any vacuum ran. For these files, run vacuum now and then
even if it is not due.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.log import Source, snapshot_of
from delta_ops.log.segment import listing_from_files
from delta_ops.maintenance.admission import validate_log_deletable
from delta_ops.maintenance.facts import LoadedTable, load_facts
from delta_ops.maintenance.indexes.act import indexes_of
from delta_ops.maintenance.optimize.small_files import small_file_sizes, target_size_bytes
from delta_ops.maintenance.registry import Operation, due_operations, findings_of_operations
from delta_ops.maintenance.thresholds import Facts, HealthThresholds
from delta_ops.maintenance.vacuum.due import TOMBSTONE_COLUMNS

_THRESHOLDS = HealthThresholds(small_files=1, commit_bytes_since_checkpoint=sys.maxsize)
"""Any work makes an operation due; a checkpoint depends only on the number of commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePlan:
    """The work to do at a version."""

    version: int
    commits_since_checkpoint: int
    small_files: int
    """Files that optimize would combine."""
    expired_tombstones: int
    """Tombstones in the log whose retention is over; their files may be gone."""
    deletable_log_files: int
    incomplete_checkpoint_files: int
    """Files of unfinished checkpoints; part of `deletable_log_files`."""
    operations: tuple[Operation, ...]
    """Due operations, in the order to run them."""

    clustering_depth: int | None = None
    """Clustering depth of a clustered table with files; None: not clustered, empty, or not
    measured."""
    refused: Mapping[Operation, tuple[str, ...]] = field(default_factory=dict)
    """Due operations that must not change the table, with the features that forbid them."""

    @property
    def has_work(self) -> bool:
        """Whether an operation is due."""
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
    """Decide which operations are due.

    Args:
        source: The table, or its latest snapshot.
        target_size: As for `optimize`; so is `min_files`.
        keep: As for `vacuum`.
        keep_versions: As for `clean_up_log`.

    Raises:
        InvalidRequestError: A property of the table cannot be understood.
        VersionNotFoundError: A version in `keep_versions` cannot be read.
        UnsupportedFeatureError: The table has a feature or a `_delta_ops` format whose effect on
            the log is unknown here.

    Examples:
        >>> plan = plan_maintenance("lake/orders")
        >>> plan.has_work, plan.commits_since_checkpoint
        (False, 1)
    """
    validate_arguments(plan_maintenance, locals())
    snapshot = snapshot_of(source)
    validate_log_deletable(snapshot)
    target = target_size_bytes(snapshot, target_size)
    listed = list(snapshot.storage.list_from(snapshot.log_directory, ""))
    table = LoadedTable(
        snapshot=snapshot,
        listed=listed,
        listing=listing_from_files(listed),
        small_files=small_file_sizes(snapshot, target),
        tombstones=snapshot.tombstones(TOMBSTONE_COLUMNS),
        target_size_bytes=target,
        indexes=indexes_of(snapshot),
        now_ms=clock(),
    )
    return plan_of_facts(
        load_facts(table, min_files=min_files, keep=keep, keep_versions=keep_versions)
    )


def plan_of_facts(facts: Facts) -> MaintenancePlan:
    """Build the plan from facts of a table, such as its health figures."""
    due = due_operations(findings_of_operations(facts, _THRESHOLDS))
    return MaintenancePlan(
        version=facts.version,
        commits_since_checkpoint=facts.commits_since_checkpoint,
        small_files=facts.mergeable_files,
        expired_tombstones=facts.expired_tombstones,
        deletable_log_files=facts.deletable_log_files,
        incomplete_checkpoint_files=facts.stale_checkpoint_files,
        operations=tuple(each for each in due if each not in facts.refused),
        clustering_depth=(facts.clustering.depth or None) if facts.clustering else None,
        refused={each: facts.refused[each] for each in due if each in facts.refused},
    )

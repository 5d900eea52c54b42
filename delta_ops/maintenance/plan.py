"""The maintenance plan: which operations a table has work for, as figures.

Cheap enough to ask every few minutes: the snapshot, one listing of the log and at most a few
`stat` calls. Names of files are listed on a disk only, for links, where a file is past its
retention. The order of operations stands in `operations`.

Once all that is due has run, nothing is due, and nothing becomes due unless the table changes or
something expires. Vacuum is due if a file is still there whose tombstone has expired; of many
tombstones a sample is looked at, spread over the order in which vacuum deletes and including the
last, so that one that was killed is due again. Files that no tombstone names (of writers that died,
or whose tombstone a checkpoint forgot before any vacuum ran) cannot be seen from the log: have
vacuum run once in a while even when it is not due.
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
from delta_ops.maintenance.optimize.small_files import small_file_sizes, target_size_bytes
from delta_ops.maintenance.registry import Operation, due_operations, findings_of_operations
from delta_ops.maintenance.thresholds import Facts, HealthThresholds
from delta_ops.maintenance.vacuum.due import TOMBSTONE_COLUMNS

_THRESHOLDS = HealthThresholds(small_files=1, commit_bytes_since_checkpoint=sys.maxsize)
"""Whatever there is to do is due; but a checkpoint goes by the number of commits alone."""


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

    clustering_depth: int | None = None
    """Clustering depth of a clustered table with files; None: another one, or nobody has looked."""
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
        UnsupportedFeatureError: The table keeps things of ours, or has a feature, of which this
            version does not know what they mean for the log.
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
        now_ms=clock(),
    )
    return plan_of_facts(
        load_facts(table, min_files=min_files, keep=keep, keep_versions=keep_versions)
    )


def plan_of_facts(facts: Facts) -> MaintenancePlan:
    """The plan that follows from what is known of a table, such as the figures of its health."""
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

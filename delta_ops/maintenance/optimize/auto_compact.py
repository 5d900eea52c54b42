"""Auto-compaction: a hook that combines small files just after a commit.

Pass it beside the other hooks (`hooks=(*DEFAULT_HOOKS, auto_compact())`). It acts on tables with
`delta.autoOptimize.autoCompact`, after commits that add rows, in partitions of the new files that
have enough small files. The cost of a write is bounded: the hook rewrites a limited number of
bytes, and it gives up if another writer is faster.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from delta_ops.arguments import validate_arguments
from delta_ops.arrow.engine import ARROW
from delta_ops.errors import CommitConflictError, InvalidRequestError
from delta_ops.events import OnEvent, ignore
from delta_ops.log import Snapshot
from delta_ops.maintenance.optimize.plan import (
    OptimizePlan,
    Partition,
    PlanAgain,
    Planned,
    partition_of,
    plan_optimize,
    split_by_partition,
)
from delta_ops.maintenance.optimize.run import COMMIT_BYTES, RewriteRequest, run
from delta_ops.maintenance.optimize.small_files import small_files, target_size_bytes
from delta_ops.option_words import option
from delta_ops.protocol.actions import AddFile, Metadata
from delta_ops.protocol.properties.known import AUTO_COMPACT
from delta_ops.protocol.sort_key import sort_columns
from delta_ops.transaction.commit.hooks import CommittedVersion, Hook
from delta_ops.transaction.engine import Engine, RewriteFiles

MAX_BYTES = 256 << 20
MIN_FILES = 50
"""Delta Lake has the same defaults."""


def auto_compact(
    *,
    max_bytes: int = MAX_BYTES,
    min_files: int = MIN_FILES,
    engine: Engine | RewriteFiles | None = None,
) -> Hook:
    """Build a hook that combines small files if `delta.autoOptimize.autoCompact` is set.

    Clustered tables are left to `optimize`.

    Args:
        max_bytes: The most bytes to rewrite after one commit; the rest waits for the next commit.
        min_files: Partitions with fewer small files are skipped.
        engine: As for `optimize`.

    Raises:
        InvalidRequestError: A number is too small.

    Examples:
        >>> from delta_ops.transaction import DEFAULT_HOOKS
        >>> compacting = {"delta.autoOptimize.autoCompact": "true"}
        >>> hooks = [*DEFAULT_HOOKS, auto_compact(min_files=3)]
        >>> rows = pa.table({"id": [1]})
        >>> for _ in range(3):
        ...     result = da.write("lake/t", rows, configuration=compacting, hooks=hooks)
        >>> DeltaLog("lake/t").snapshot().num_files
        1
    """
    validate_arguments(auto_compact, locals())
    if max_bytes < 1:
        raise InvalidRequestError(f"{option('max_bytes')} must be positive, not {max_bytes}")
    if min_files < 2:
        raise InvalidRequestError(f"{option('min_files')} must be at least 2, not {min_files}")

    def auto_compact_if_due(committed: CommittedVersion) -> None:
        written = _written_partitions(committed)
        if not written or not _is_on(committed):
            return
        request = AutoCompactRequest(
            written=written,
            min_files=min_files,
            engine=engine or ARROW,
            max_bytes=max_bytes,
            clock=committed.clock,
        )
        try:
            run(committed.log, request, dry_run=False)
        except CommitConflictError:  # the other writer rewrote the files, or a later write will
            return

    return auto_compact_if_due


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AutoCompactRequest(RewriteRequest):
    """Compaction of the partitions that a commit wrote to."""

    operation: ClassVar[str] = "OPTIMIZE"

    written: Collection[Partition]
    min_files: int
    max_bytes: int
    predicate: None = None
    target_size: None = None
    commit_bytes: int = COMMIT_BYTES
    user_metadata: None = None
    on_event: OnEvent = ignore

    @property
    def identity(self) -> str:
        """See `RewriteRequest.identity`."""
        return f"auto {self.max_bytes} {self.min_files}"

    def plan(self, snapshot: Snapshot) -> Planned:
        """Choose small files of partitions that were written to and have many small files."""
        target = target_size_bytes(snapshot, None)
        has_order = snapshot.clustering_columns or sort_columns(snapshot.definition)
        small = [] if has_order else small_files(snapshot, target)
        files = _filter_crowded(small, self.written, self.min_files)
        planned = plan_optimize(
            files, target_size_bytes=target, max_group_bytes=self.max_bytes
        ).take_within(self.max_bytes)
        return Planned(plan=planned, plan_again=PlanAgain(target_size_bytes=target))

    def parameters(self, _snapshot: Snapshot, plan: OptimizePlan, /) -> Mapping[str, Any]:
        """See `RewriteRequest.parameters`."""
        return {
            "predicate": [],
            "zOrderBy": [],
            "clusterBy": [],
            "auto": True,
            "targetSize": plan.target_size_bytes,
        }


def _is_on(committed: CommittedVersion) -> bool:
    metadata = next((each for each in committed.actions if isinstance(each, Metadata)), None)
    if metadata is None and committed.read_snapshot is not None:
        metadata = committed.read_snapshot.metadata
    return metadata is not None and AUTO_COMPACT.value_in(metadata.configuration)


def _written_partitions(committed: CommittedVersion) -> set[Partition]:
    return {
        partition_of(each)
        for each in committed.actions
        if isinstance(each, AddFile) and each.data_change
    }


def _filter_crowded(
    files: Sequence[AddFile], written: Collection[Partition], min_files: int
) -> list[AddFile]:
    """The small files of partitions that were written to and have many of them."""
    of_written = split_by_partition(add for add in files if partition_of(add) in written)
    return [add for each in of_written if len(each) >= min_files for add in each]

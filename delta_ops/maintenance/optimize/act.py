"""Optimize: combines small files, merges sorted files, or lays rows out in an order.

No commit changes a row.

Commits only rearrange rows (`dataChange` false), so concurrent appends do not conflict. If another
writer removed a file of one group, the other groups are still committed. Each commit has a txn
`delta_ops:optimize:<what>` with the version of the plan: of two runs with the same plan on one
version, one commits and the other finds its work done. New files of a failed commit are deleted,
unless it is unknown whether it failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from delta_ops.arguments import validate_arguments
from delta_ops.arrow.engine import ARROW
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import InvalidRequestError, naming_table
from delta_ops.events import OnEvent, ignore
from delta_ops.log import Snapshot, TableOrPlace, log_of
from delta_ops.maintenance.optimize.order import clustering_order, zorder
from delta_ops.maintenance.optimize.plan import (
    OptimizePlan,
    PlanAgain,
    Planned,
    plan_optimize,
    validate_bounds,
)
from delta_ops.maintenance.optimize.plan_order import MAX_GROUP_BYTES, plan_order
from delta_ops.maintenance.optimize.plan_runs import key_order, plan_runs
from delta_ops.maintenance.optimize.run import (
    COMMIT_BYTES,
    OptimizeResult,
    RewriteRequest,
    run,
)
from delta_ops.maintenance.optimize.small_files import small_files, target_size_bytes
from delta_ops.option_words import option
from delta_ops.protocol.expression import Expression
from delta_ops.protocol.expression.implication import predicate_of
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.predicate.text import predicate_text
from delta_ops.protocol.schema.column_names import name_of_path
from delta_ops.transaction.engine import Engine, RewriteFiles
from delta_ops.transaction.rewrite_group import Curve, CurveOrder, KeyOrder


def optimize(
    log: TableOrPlace,
    *,
    target_size: int | None = None,
    predicate: Predicate | Expression | str | None = None,
    shown_predicate: str | None = None,
    zorder_by: Sequence[str] | None = None,
    curve: Curve = "zorder",
    full: bool = False,
    engine: Engine | RewriteFiles | None = None,
    dry_run: bool = False,
    min_files: int = 2,
    min_size: int | None = None,
    max_size: int | None = None,
    max_bytes: int | None = None,
    commit_bytes: int = COMMIT_BYTES,
    user_metadata: str | None = None,
    clock: Clock = system_clock,
    on_event: OnEvent = ignore,
) -> OptimizeResult:
    """Compact small files, or order rows across files.

    A clustered table is laid out by its clustering columns. In a table with a sort key, files that
    overlap are merged where more than three may hold a key, and small files with their neighbours.
    Another table is laid out only by `zorder_by`.

    Args:
        target_size: Bytes that a new file should have; `delta.targetFileSize` if None, or 128 MiB.
        predicate: Selects partitions; uses only partition columns.
        shown_predicate: The text of the predicate in the commit; its SQL if None.
        zorder_by: Up to eight columns, or fields of structs, that reads filter by.
        curve: The curve through several columns; a clustered table always uses "hilbert".
        full: Lay out all files, not only new files and the files that they are merged with.
        engine: Executes the rewrites: an engine, such as `delta_ops.spark.rewrite(spark)`, or a
            function around one, such as a partial of `delta_ops.arrow.rewrite`. The Arrow engine
            if None.
        min_files: Skip groups of fewer files.
        min_size: Files of at least this many bytes are large enough; three quarters of the target
            if None.
        max_size: Split files of more bytes into files of about the target size, without changing
            the order of rows. At least twice the target; None: split no file. Cannot be combined
            with an order, which decides how files are split.
        max_bytes: Rewrite at most this many bytes in this run. A budget below the target size makes
            smaller files.
        commit_bytes: Bytes to rewrite before each commit; at least one group.
        user_metadata: Any text, kept in commitInfo.

    Raises:
        InvalidRequestError: An argument does not fit the table.
        DataFileError: A file is gone, unreadable, or has other rows than the log says.
        CommitConflictError: Another writer removed a file of each group first, or changed the
            table; new files were deleted.
        CommitStateUnknownError: The store did not confirm the commit; new files are kept.
        UnsupportedFeatureError: The table uses a feature that we cannot write.

    Examples:
        >>> _ = da.write("lake/orders", da.to_table("lake/orders"))
        >>> result = optimize("lake/orders")
        >>> result.files_removed, result.files_added
        (2, 1)
        >>> optimize("lake/orders", zorder_by=["country", "id"], dry_run=True).plan.order is None
        False
    """
    validate_arguments(optimize, locals())
    table = log_of(log)
    with naming_table(table.uri):
        request = OptimizeRequest(
            target_size=target_size,
            predicate=predicate_of(predicate),
            shown_predicate=shown_predicate,
            zorder_by=zorder_by,
            curve=curve,
            full=full,
            engine=engine or ARROW,
            min_files=min_files,
            min_size=min_size,
            max_size=max_size,
            max_bytes=max_bytes,
            commit_bytes=commit_bytes,
            user_metadata=user_metadata,
            clock=clock,
            on_event=on_event,
        )
        return run(table, request, dry_run=dry_run)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OptimizeRequest(RewriteRequest):
    """The arguments of `optimize`, which documents them.

    Raises:
        InvalidRequestError: The curve is unknown, or a bound is too small.
    """

    operation: ClassVar[str] = "OPTIMIZE"

    shown_predicate: str | None
    zorder_by: Sequence[str] | None
    curve: Curve
    full: bool
    min_files: int
    min_size: int | None
    max_size: int | None

    def __post_init__(self) -> None:
        if self.curve not in ("zorder", "hilbert"):
            raise InvalidRequestError(
                f"there is no curve {self.curve!r}; choose from zorder, hilbert"
            )
        validate_bounds(
            max_bytes=self.max_bytes, commit_bytes=self.commit_bytes, min_size=self.min_size
        )

    @property
    def identity(self) -> str:
        """See `RewriteRequest.identity`: everything that changes which files are rewritten."""
        order = None if self.zorder_by is None else (*self.zorder_by, self.curve)
        bounds = (self.target_size, self.min_size, self.max_size, self.max_bytes, self.commit_bytes)
        return f"{order} {self.full} {self.min_files} {bounds} {self.predicate!r}"

    def plan(self, snapshot: Snapshot) -> Planned:
        """Choose small files to combine, files to merge, or files to lay out in an order."""
        if self.zorder_by is None:
            order = clustering_order(snapshot)
            key = key_order(snapshot)
            if key is not None:
                return self._plan_merges(snapshot, key)
        else:
            order = zorder(snapshot, self.zorder_by, self.curve)
        if order is None:
            return self._plan_compaction(snapshot)
        return self._plan_layout(snapshot, order)

    def _plan_compaction(self, snapshot: Snapshot) -> Planned:
        target = target_size_bytes(snapshot, self.target_size)
        files = small_files(snapshot, target, self.predicate, self.min_size, self.max_size)
        plan_again = PlanAgain(
            target_size_bytes=target, min_files=self.min_files, min_size_bytes=self.min_size
        )
        plan_all = partial(
            plan_optimize,
            files,
            target_size_bytes=target,
            min_files=self.min_files,
            min_size_bytes=self.min_size,
            max_size_bytes=self.max_size,
        )
        if self.max_bytes is None:
            return Planned(plan=plan_all(), candidates=files, plan_again=plan_again)
        planned = plan_all(max_group_bytes=self.max_bytes).take_within(self.max_bytes)
        if not planned.has_work:  # the error names the smallest group without a budget
            planned = plan_all().fit_groups(self.max_bytes, snapshot.uri)
        # No candidates: files beside the plan would exceed the budget.
        return Planned(plan=planned, plan_again=plan_again)

    def _plan_merges(self, snapshot: Snapshot, order: KeyOrder) -> Planned:
        self._reject_max_size(snapshot)
        plan = partial(
            plan_runs,
            snapshot,
            order,
            target_size_bytes=target_size_bytes(snapshot, self.target_size),
            predicate=self.predicate,
            min_files=self.min_files,
            min_size_bytes=self.min_size,
            full=self.full,
        )
        planned = plan(max_bytes=self.max_bytes)
        if self.full:
            cure = ", or leave out full, which takes whole partitions"
            planned = planned.fit_groups(self.max_bytes, snapshot.uri, cure)
        elif self.max_bytes is not None and not planned.has_work:  # the error names the least merge
            planned = plan(max_bytes=None).fit_groups(self.max_bytes, snapshot.uri)
        return Planned(plan=planned)

    def _reject_max_size(self, snapshot: Snapshot) -> None:
        if self.max_size is not None:
            raise InvalidRequestError(
                f"{snapshot.uri}: the order decides how files are split; leave out "
                f"{option('max_size')}"
            )

    def _plan_layout(self, snapshot: Snapshot, order: CurveOrder) -> Planned:
        self._reject_max_size(snapshot)
        planned = plan_order(
            snapshot,
            order,
            target_size_bytes=target_size_bytes(snapshot, self.target_size),
            predicate=self.predicate,
            min_files=self.min_files,
            full=self.full,
            max_group_bytes=min(MAX_GROUP_BYTES, self.max_bytes or MAX_GROUP_BYTES),
        )
        cure = ", or leave out full, which takes whole partitions" if self.full else ""
        return Planned(plan=planned.fit_groups(self.max_bytes, snapshot.uri, cure))

    def parameters(self, snapshot: Snapshot, plan: OptimizePlan, /) -> Mapping[str, Any]:
        """See `RewriteRequest.parameters`."""
        names = [name_of_path(path) for path in plan.order.columns] if plan.order else []
        is_clustered = bool(snapshot.clustering_columns)
        is_merged = isinstance(plan.order, KeyOrder)
        return {
            "predicate": self._predicate_texts(),
            "zOrderBy": [] if is_clustered or is_merged else names,
            "clusterBy": names if is_clustered else [],
            **({"sortBy": names} if is_merged else {}),
            **({"isFull": self.full} if is_clustered else {}),
            "auto": False,
            "targetSize": plan.target_size_bytes,
        }

    def _predicate_texts(self) -> list[str]:
        if self.predicate is None:
            return []
        shown = self.shown_predicate
        return [predicate_text(self.predicate) if shown is None else shown]

"""Optimize: put small files together, or lay rows out in an order; no commit of it changes a row.

The commits only rearrange (`dataChange` false), so appends that come in between do not matter to
them; where somebody else removed a file of a group meanwhile, the other groups are committed. Each
carries a txn `delta_ops:optimize:<what>` with the version that was planned on: of two runs that
plan the same on one version, one commits and the other finds its work done. What was written for a
commit that did not happen is deleted, unless nobody can tell whether it happened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from delta_ops.arguments import validate_arguments
from delta_ops.arrow import rewrite
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import InvalidRequestError
from delta_ops.events import OnEvent, ignore
from delta_ops.log import Snapshot, TableOrPlace, log_of
from delta_ops.maintenance.optimize.estimate import VERSIONS_LOOKED_AT, Estimate, estimate
from delta_ops.maintenance.optimize.order import clustering_order, zorder
from delta_ops.maintenance.optimize.plan import (
    OptimizePlan,
    Planned,
    plan_optimize,
    validate_bounds,
)
from delta_ops.maintenance.optimize.plan_order import MAX_GROUP_BYTES, plan_order
from delta_ops.maintenance.optimize.run import Ran, Work, run
from delta_ops.maintenance.optimize.small_files import small_files, target_size_bytes
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.predicate.text import predicate_text
from delta_ops.protocol.schema.column_names import name_of_path
from delta_ops.transaction.rewrite_group import Curve, CurveOrder, Rewriter

COMMIT_BYTES = 10 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeResult:
    """What `optimize` did."""

    plan: OptimizePlan
    dry_run: bool
    version: int | None = None
    """The last version that holds the change; None if there is none, or it was cleaned up."""
    already_committed: bool = False
    """True: a concurrent run did the same first, and this one changed nothing."""
    num_commits: int = 0
    files_removed: int = 0
    files_added: int = 0
    bytes_removed: int = 0
    bytes_added: int = 0
    files_left_to_others: int = 0
    """Planned files that were not rewritten because somebody else changed or removed files of their
    group, or changed the table, first; another run finds what is left of them."""
    expected: Estimate | None = None
    """What the plan would come to; None unless it is a dry run that found something to do."""


def optimize(
    log: TableOrPlace,
    *,
    target_size: int | None = None,
    predicate: Predicate | None = None,
    shown_predicate: str | None = None,
    zorder_by: Sequence[str] | None = None,
    curve: Curve = "zorder",
    full: bool = False,
    engine: Rewriter | None = None,
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
    """Rewrite groups of small files as one file each, or files in an order of their rows.

    A clustered table is laid out by its clustering columns, any other one in an order only where
    `zorder_by` is given.

    Args:
        target_size: About how large files should become, in bytes; `delta.targetFileSize` if None,
            or 128 MiB.
        predicate: Over partition columns: only these partitions.
        shown_predicate: What the commit calls the predicate; its SQL if None.
        zorder_by: Up to eight columns, or fields of structs, by which reads choose rows.
        curve: How rows are ordered by several columns; a clustered table's go by "hilbert".
        full: Lay out all files in the order, and not only new ones with those they fit to.
        engine: Executes the rewrites; `delta_ops.arrow.rewrite` if None.
        min_files: Smaller groups are not worth a rewrite.
        min_size: The size in bytes from which on a file is large enough; three quarters of the
            target if None.
        max_size: Files of more bytes are cut into files of about the target size, their rows in
            the order in which they are; at least twice the target. None: none are. Not with an
            order, which cuts files itself.
        max_bytes: The budget of this run: no more is rewritten, and the rest waits for another. One
            below the target size makes smaller files.
        commit_bytes: How much is rewritten before it is committed, one group at least; the rest is
            another commit.
        user_metadata: Any text, kept in commitInfo.

    Raises:
        InvalidRequestError: An argument does not fit the table.
        DataFileError: A file is gone, unreadable, or does not hold the rows that the log says.
        CommitConflictError: Somebody removed a file of each group first, or changed the table; what
            was written is deleted.
        CommitStateUnknownError: The store did not tell; what was written is kept.
        UnsupportedFeatureError: The table uses what we cannot write.
    """
    validate_arguments(optimize, locals())
    if curve not in ("zorder", "hilbert"):
        raise InvalidRequestError(f"there is no curve {curve!r}; choose from zorder, hilbert")

    validate_bounds(max_bytes=max_bytes, commit_bytes=commit_bytes, min_size=min_size)
    # Whatever changes what is done: of two runs with the same text, one is taken for both.
    order = None if zorder_by is None else (*zorder_by, curve)
    sizes = (target_size, min_size, max_size, max_bytes, commit_bytes)

    def plan(snapshot: Snapshot) -> Planned:
        target = target_size_bytes(snapshot, target_size)
        order = _order(snapshot, zorder_by, curve)
        if order is None:
            files = small_files(snapshot, target, predicate, min_size, max_size)
            plan_again = partial(
                plan_optimize,
                target_size_bytes=target,
                min_files=min_files,
                min_size_bytes=min_size,
            )
            plan_all = partial(plan_again, files, max_size_bytes=max_size)
            if max_bytes is None:
                return Planned(plan=plan_all(), candidates=files, plan_again=plan_again)
            planned = plan_all(max_group_bytes=max_bytes).take_within(max_bytes)
            if not planned.has_work:  # the groups that there would be say how much it takes
                planned = plan_all().fit_groups(max_bytes, snapshot.uri)
            # Files beside the plan would go beyond the budget.
            return Planned(plan=planned, plan_again=plan_again)
        if max_size is not None:
            raise InvalidRequestError(
                f"{snapshot.uri}: files that are laid out in an order are cut by it; leave out "
                "max_size"
            )
        planned = plan_order(
            snapshot,
            order,
            target_size_bytes=target,
            predicate=predicate,
            min_files=min_files,
            full=full,
            max_group_bytes=min(MAX_GROUP_BYTES, max_bytes or MAX_GROUP_BYTES),
        )
        cure = ", or leave out full, which takes whole partitions" if full else ""
        return Planned(plan=planned.fit_groups(max_bytes, snapshot.uri, cure))

    work = Work(
        log=log_of(log),
        plan=plan,
        operation="OPTIMIZE",
        parameters=partial(_parameters, _texts(predicate, shown_predicate), full),
        request=f"{order} {full} {min_files} {sizes} {predicate!r}",
        engine=engine or rewrite,
        max_bytes=max_bytes,
        commit_bytes=commit_bytes,
        user_metadata=user_metadata,
        clock=clock,
        on_event=on_event,
    )
    return result_of(run(work, dry_run=dry_run), work, dry_run)


def result_of(ran: Ran, work: Work, dry_run: bool) -> OptimizeResult:
    """What a run has done, or would do, as a caller wants it."""
    done = ran.already_committed
    return OptimizeResult(
        plan=ran.planned.plan,
        dry_run=dry_run,
        version=ran.versions[-1] if ran.versions else done.version if done else None,
        already_committed=done is not None and not ran.versions,
        num_commits=len(ran.versions),
        files_removed=ran.total("numRemovedFiles"),
        files_added=ran.total("numAddedFiles"),
        bytes_removed=ran.total("numRemovedBytes"),
        bytes_added=ran.total("numAddedBytes"),
        files_left_to_others=ran.files_left,
        expected=(
            estimate(
                ran.snapshot, ran.planned, work.operation, work.log.history(VERSIONS_LOOKED_AT)
            )
            if dry_run and ran.planned.plan.has_work
            else None
        ),
    )


def _order(snapshot: Snapshot, names: Sequence[str] | None, curve: Curve) -> CurveOrder | None:
    return clustering_order(snapshot) if names is None else zorder(snapshot, names, curve)


def _texts(predicate: Predicate | None, shown: str | None) -> list[str]:
    return [] if predicate is None else [predicate_text(predicate) if shown is None else shown]


def _parameters(
    predicates: Sequence[str], full: bool, snapshot: Snapshot, plan: OptimizePlan
) -> Mapping[str, Any]:
    names = [name_of_path(path) for path in plan.order.columns] if plan.order else []
    is_clustered = bool(snapshot.clustering_columns)
    return {
        "predicate": predicates,
        "zOrderBy": [] if is_clustered else names,
        "clusterBy": names if is_clustered else [],
        **({"isFull": full} if is_clustered else {}),
        "auto": False,
        "targetSize": plan.target_size_bytes,
    }

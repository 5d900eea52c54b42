"""Optimize: put small files together, in one commit that changes no row.

The commit only rearranges (`dataChange` false), so appends that come in between do not matter to
it; where somebody else removed a file of a group meanwhile, the other groups are committed. It
carries a txn `delta_ops:optimize:<what>` with the version that was planned on: of two runs that
plan the same on one version, one commits and the other finds its work done. What was written for a
commit that did not happen is deleted, unless nobody can tell whether it happened.
"""

from __future__ import annotations

from dataclasses import dataclass

from delta_ops.arguments import validate_arguments
from delta_ops.arrow import rewrite
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import CommitConflictError, TableNotFoundError
from delta_ops.events import OnEvent, ignore
from delta_ops.log import TableOrPlace, log_of
from delta_ops.maintenance.optimize.plan import OptimizePlan, plan_optimize
from delta_ops.maintenance.optimize.rewriting import Rewriting
from delta_ops.maintenance.optimize.small_files import small_files, target_size_bytes
from delta_ops.maintenance.request_txn import maintenance_txn
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.predicate.text import predicate_text
from delta_ops.transaction import CommitResult, Transaction, Txn, begin
from delta_ops.transaction.rewrite_group import Rewriter


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeResult:
    """What `optimize` did."""

    plan: OptimizePlan
    dry_run: bool
    version: int | None = None
    """The version that holds the change; None if there is none, or it was cleaned up."""
    already_committed: bool = False
    """True: a concurrent run did the same first, and this one changed nothing."""
    files_removed: int = 0
    files_added: int = 0
    bytes_removed: int = 0
    bytes_added: int = 0


def optimize(
    log: TableOrPlace,
    *,
    target_size: int | None = None,
    predicate: Predicate | None = None,
    engine: Rewriter | None = None,
    dry_run: bool = False,
    min_files: int = 2,
    user_metadata: str | None = None,
    clock: Clock = system_clock,
    on_event: OnEvent = ignore,
) -> OptimizeResult:
    """Rewrite groups of small files as one file each.

    Args:
        target_size: About how large files should become, in bytes; `delta.targetFileSize` if None,
            or 128 MiB.
        predicate: Over partition columns: only these partitions.
        engine: Executes the rewrites; `delta_ops.arrow.rewrite` if None.
        min_files: Smaller groups are not worth a rewrite.
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
    log = log_of(log)
    transaction = begin(log, clock=clock, on_event=on_event)
    snapshot = transaction.snapshot
    if snapshot is None:
        raise TableNotFoundError(log.uri)
    target = target_size_bytes(snapshot, target_size)
    files = small_files(snapshot, target, predicate)
    plan = plan_optimize(files, target_size_bytes=target, min_files=min_files)
    if dry_run or not plan.has_work:
        return OptimizeResult(plan=plan, dry_run=dry_run)
    rewriting = Rewriting(transaction, snapshot, engine or rewrite)
    try:
        rewriting.run(files, plan, min_files=min_files)
        if not rewriting.rewrites:
            return OptimizeResult(plan=plan, dry_run=False)
        txn = maintenance_txn("optimize", snapshot, f"{target} {predicate!r}")
        committed = None
        while committed is None:
            try:
                committed = _commit(transaction, rewriting, txn, target, predicate, user_metadata)
            except CommitConflictError as conflict:
                # What lives is asked of the version that the next attempt goes on from: whatever is
                # removed after it, that attempt finds out.
                transaction = begin(log, clock=clock, on_event=on_event)
                latest = transaction.snapshot
                if conflict.kind != "delete delete" or not (
                    latest and rewriting.keep_what_lives(latest)
                ):
                    raise
    finally:
        if not transaction.may_be_committed:
            rewriting.undo()
    if committed.already_committed:
        return OptimizeResult(
            plan=plan, dry_run=False, version=committed.version, already_committed=True
        )
    return OptimizeResult(
        plan=plan,
        dry_run=False,
        version=committed.version,
        files_removed=committed.metrics["numRemovedFiles"],
        files_added=committed.metrics["numAddedFiles"],
        bytes_removed=committed.metrics["numRemovedBytes"],
        bytes_added=committed.metrics["numAddedBytes"],
    )


def _commit(
    transaction: Transaction,
    rewriting: Rewriting,
    txn: Txn,
    target: int,
    predicate: Predicate | None,
    user_metadata: str | None,
) -> CommitResult:
    transaction.set_transaction(txn)
    for each in rewriting.rewrites:
        transaction.stage(each.staged)
        transaction.remove(each.inputs, data_change=False)
    return transaction.commit(
        operation="OPTIMIZE",
        parameters={
            "predicate": [] if predicate is None else [predicate_text(predicate)],
            "targetSize": target,
        },
        metrics={
            "numRemovedFiles": len(rewriting.inputs),
            "numRemovedBytes": sum(add.size for add in rewriting.inputs),
            "numAddedFiles": len(rewriting.outputs),
            "numAddedBytes": sum(add.size for add in rewriting.outputs),
        },
        user_metadata=user_metadata,
    )

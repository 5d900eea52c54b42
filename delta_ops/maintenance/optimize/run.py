"""Run: have planned groups rewritten, and commit them.

A run of many bytes commits several times, so that what was done is kept whatever happens to the
rest. Each time it plans anew on what the table is by then: a run after a crash does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from delta_ops.clock import Clock
from delta_ops.errors import CommitConflictError, TableNotFoundError
from delta_ops.events import OnEvent
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.maintenance.optimize.plan import OptimizePlan
from delta_ops.maintenance.optimize.rewriting import Rewriting
from delta_ops.maintenance.request_txn import maintenance_txn
from delta_ops.protocol.actions import AddFile
from delta_ops.transaction import CommitResult, Transaction, Txn, begin
from delta_ops.transaction.rewrite_group import Rewriter

Rewrite = Callable[[Rewriting, OptimizePlan, bool], None]
"""Executes a plan, or the first part of one; True: the whole of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a run does."""

    log: DeltaLog
    plan: Callable[[Snapshot], tuple[OptimizePlan, Rewrite]]
    operation: str
    """As the reference names it."""
    parameters: Callable[[Snapshot, OptimizePlan], Mapping[str, Any]]
    request: str
    """What is asked for; the same text for the same work."""
    engine: Rewriter
    commit_bytes: int
    """Bytes that are rewritten before they are committed."""
    user_metadata: str | None
    clock: Clock
    on_event: OnEvent


@dataclass(slots=True, kw_only=True)
class Ran:
    """What a run has done."""

    plan: OptimizePlan
    """The first one."""
    snapshot: Snapshot
    """What it was made on."""
    versions: list[int] = field(default_factory=list)
    already_committed: CommitResult | None = None
    metrics: list[Mapping[str, int]] = field(default_factory=list)

    def total(self, name: str) -> int:
        """The sum of a metric over all commits."""
        return sum(each[name] for each in self.metrics)


def run(work: Work, *, dry_run: bool) -> Ran:
    """Plan, rewrite and commit until what was planned first is done."""
    transaction, snapshot = _begin(work)
    plan, rewrite = work.plan(snapshot)
    ran = Ran(plan=plan, snapshot=snapshot)
    left = plan.size_bytes
    lost: CommitConflictError | None = None
    while not dry_run and plan.has_work and left > 0:
        part = plan.first_groups(min(work.commit_bytes, left))
        if part.size_bytes > left:  # what came meanwhile is for another run
            break
        is_whole = len(part.groups) == len(plan.groups)
        try:
            committed = _rewrite_part(work, transaction, snapshot, part, rewrite, is_whole)
        except CommitConflictError as conflict:
            if is_whole:
                lost = conflict
                break
            committed, lost = None, conflict
        else:
            if committed is None:
                break
            if committed.already_committed or committed.version is None:
                ran.already_committed = committed
                break
            lost = None
            ran.versions.append(committed.version)
            ran.metrics.append(committed.metrics)
        left -= part.size_bytes
        if is_whole or left <= 0:
            break
        transaction, snapshot = _begin(work)
        plan, rewrite = work.plan(snapshot)
    if lost is not None and not ran.versions:
        raise lost
    return ran


def _begin(work: Work) -> tuple[Transaction, Snapshot]:
    transaction = begin(work.log, clock=work.clock, on_event=work.on_event)
    if transaction.snapshot is None:
        raise TableNotFoundError(work.log.uri)
    return transaction, transaction.snapshot


def _rewrite_part(
    work: Work,
    transaction: Transaction,
    snapshot: Snapshot,
    plan: OptimizePlan,
    rewrite: Rewrite,
    is_whole: bool,
) -> CommitResult | None:
    """Rewrite and commit; None if nothing was gained."""
    rewriting = Rewriting(transaction, snapshot, work.engine)
    begun_ms = work.clock()
    try:
        rewrite(rewriting, plan, is_whole)
        if not rewriting.rewrites:
            return None
        txn = maintenance_txn("optimize", snapshot, work.request)
        committed = None
        while committed is None:
            try:
                parameters = work.parameters(snapshot, plan)
                committed = _commit(transaction, rewriting, txn, parameters, work, begun_ms)
            except CommitConflictError as conflict:
                # What lives is asked of the version that the next attempt goes on from: whatever is
                # removed after it, that attempt finds out.
                transaction = begin(work.log, clock=work.clock, on_event=work.on_event)
                latest = transaction.snapshot
                if conflict.kind != "delete delete" or not (
                    latest and rewriting.keep_what_lives(latest)
                ):
                    raise
    finally:
        if not transaction.may_be_committed:
            rewriting.undo()
    return committed


def _commit(
    transaction: Transaction,
    rewriting: Rewriting,
    txn: Txn,
    parameters: Mapping[str, Any],
    work: Work,
    begun_ms: int,
) -> CommitResult:
    transaction.set_transaction(txn)
    for each in rewriting.rewrites:
        transaction.stage(each.staged)
        transaction.remove(each.inputs, data_change=False)
    return transaction.commit(
        operation=work.operation,
        parameters=parameters,
        metrics={
            **_metrics(rewriting.inputs, rewriting.outputs),
            "executionTimeMs": work.clock() - begun_ms,
        },
        user_metadata=work.user_metadata,
    )


def _metrics(removed: Sequence[AddFile], added: Sequence[AddFile]) -> dict[str, int]:
    sizes = sorted(add.size for add in added)
    quarters = {
        name: sizes[(len(sizes) - 1) * quarter // 4]
        for quarter, name in enumerate(
            ("minFileSize", "p25FileSize", "p50FileSize", "p75FileSize", "maxFileSize")
        )
        if sizes
    }
    return {
        "numRemovedFiles": len(removed),
        "numRemovedBytes": sum(add.size for add in removed),
        "numAddedFiles": len(added),
        "numAddedBytes": sum(sizes),
        "numDeletionVectorsRemoved": sum(add.deletion_vector is not None for add in removed),
        **quarters,
    }

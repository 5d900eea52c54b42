"""Run: have planned groups rewritten, and commit them.

A run of many bytes commits several times, so that what was done is kept whatever happens to the
rest; see `remaining`. A run after a crash plans anew on what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from delta_ops.clock import Clock
from delta_ops.errors import CommitConflictError, TableNotFoundError
from delta_ops.events import OnEvent
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.maintenance.optimize.plan import OptimizePlan, PlanAgain, Planned
from delta_ops.maintenance.optimize.remaining import Remaining
from delta_ops.maintenance.optimize.rewriting import Rewriting
from delta_ops.maintenance.request_txn import maintenance_txn
from delta_ops.protocol.actions import AddFile
from delta_ops.transaction import CommitResult, Transaction, Txn, begin
from delta_ops.transaction.rewrite_group import Rewriter


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a run does."""

    log: DeltaLog
    plan: Callable[[Snapshot], Planned]
    operation: str
    """As the reference names it."""
    parameters: Callable[[Snapshot, OptimizePlan], Mapping[str, Any]]
    request: str
    """What is asked for; the same text for the same work."""
    engine: Rewriter
    max_bytes: int | None
    """Bytes that may be rewritten; None: as many as are planned."""
    commit_bytes: int
    """Bytes that are rewritten before they are committed."""
    user_metadata: str | None
    clock: Clock
    on_event: OnEvent


@dataclass(slots=True, kw_only=True)
class Ran:
    """What a run has done."""

    planned: Planned
    """What it began with."""
    snapshot: Snapshot
    """What that was planned on."""
    versions: list[int] = field(default_factory=list)
    already_committed: CommitResult | None = None
    metrics: list[Mapping[str, int]] = field(default_factory=list)
    files_left: int = 0
    """Planned files that were left to others, who changed one of their group, or the table."""

    def total(self, name: str) -> int:
        """The sum of a metric over all commits."""
        return sum(each[name] for each in self.metrics)

    def note(self, committed: CommitResult) -> None:
        """A commit has been made, or had been by another run."""
        if committed.already_committed or committed.version is None:
            self.already_committed = committed
            return
        self.versions.append(committed.version)
        self.metrics.append(committed.metrics)


def run(work: Work, *, dry_run: bool) -> Ran:
    """Plan, rewrite and commit until what was planned first is done."""
    transaction, snapshot = _begin(work)
    ran = Ran(planned=work.plan(snapshot), snapshot=snapshot)
    if dry_run:
        return ran
    remaining = Remaining(ran.planned, snapshot, work.max_bytes)
    lost: CommitConflictError | None = None
    done = 0
    while remaining.plan.has_work:
        part, loose = remaining.take(work.commit_bytes)
        to_come = len(remaining.plan.groups)
        rewriting = Rewriting(transaction, snapshot, work.engine, done=done, to_come=to_come)
        try:
            committed = _rewrite_part(
                work, transaction, rewriting, part, loose, remaining.plan_again
            )
        except CommitConflictError as conflict:
            lost, committed = conflict, None
            ran.files_left += part.num_files
        else:
            ran.files_left += rewriting.lost_files
        if committed is not None:
            ran.note(committed)
        if ran.already_committed:
            ran.files_left += part.num_files + remaining.plan.num_files
            break
        remaining.note(part, rewriting.loose)
        if remaining.is_done:
            break
        done = rewriting.done
        transaction, snapshot = _begin(work)
        remaining.go_on(snapshot, work.plan)
    ran.files_left += remaining.files_left
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
    rewriting: Rewriting,
    plan: OptimizePlan,
    loose: Sequence[AddFile],
    plan_again: PlanAgain | None,
) -> CommitResult | None:
    """Rewrite and commit; None if nothing was gained."""
    snapshot = rewriting.snapshot
    begun_ms = work.clock()
    try:
        if plan_again is None:
            rewriting.run_once(plan)
        else:
            rewriting.run(loose, plan, plan_again)
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

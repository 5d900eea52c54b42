"""Run: executes a rewrite request and commits the new files.

A run of many bytes commits several times, so that finished parts are kept if it fails later. A run
after a crash plans again on the files that are there.

Between commits the planned groups stay the same, with their files as the latest log describes them;
later files wait for another run. After the groups are done, their outputs are combined if they fit:
outputs are smaller than their inputs. This rewrites files of the run again and leaves fewer files,
so it ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pyarrow as pa

from delta_ops.clock import Clock
from delta_ops.errors import CommitConflictError, TableNotFoundError
from delta_ops.events import OnEvent
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.maintenance.optimize.estimate import VERSIONS_LOOKED_AT, Estimate, estimate
from delta_ops.maintenance.optimize.plan import OptimizePlan, PlanAgain, Planned
from delta_ops.maintenance.optimize.rewriting import Rewriting
from delta_ops.maintenance.optimize.small_files import own_files_by_path
from delta_ops.maintenance.request_txn import maintenance_txn
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_values import array_of
from delta_ops.protocol.columns.identity import only_moves_marks
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.protocol.predicate import Predicate
from delta_ops.transaction import CommitResult, Transaction, begin
from delta_ops.transaction.engine import Engine, RewriteFiles

COMMIT_BYTES = 10 << 30


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RewriteRequest(ABC):
    """The arguments of a rewrite; each subclass chooses which files are rewritten."""

    operation: ClassVar[str]
    """The operation in commitInfo, as Delta Lake names it."""

    predicate: Predicate | None
    """Selects partitions; uses only partition columns."""
    engine: Engine | RewriteFiles
    target_size: int | None
    """Bytes of a new file; None for `delta.targetFileSize`."""
    max_bytes: int | None
    """The most bytes to rewrite; None: all planned bytes."""
    commit_bytes: int
    """Bytes to rewrite before each commit."""
    user_metadata: str | None
    clock: Clock
    on_event: OnEvent

    @abstractmethod
    def plan(self, snapshot: Snapshot) -> Planned:
        """Choose the files to rewrite."""

    @abstractmethod
    def parameters(self, snapshot: Snapshot, plan: OptimizePlan, /) -> Mapping[str, Any]:
        """The operation parameters of commitInfo."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """Identifies the work as a string: of concurrent runs with one identity, one commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeResult:
    """The result of `optimize` or `purge`."""

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
    """Planned files that were not rewritten because another writer was first.

    It changed or removed files of their group, or changed the table. Another run rewrites the rest.
    """
    expected: Estimate | None = None
    """The expected outcome; None unless it is a dry run that found something to do."""


@dataclass(slots=True, kw_only=True)
class Ran:
    """The progress of a run."""

    planned: Planned
    """The first plan."""
    snapshot: Snapshot
    """The version of the first plan."""
    versions: list[int] = field(default_factory=list)
    already_committed: CommitResult | None = None
    metrics: list[Mapping[str, int]] = field(default_factory=list)
    files_left: int = 0
    """Planned files that were not rewritten, because another writer changed their group or the
    table."""

    def total(self, name: str) -> int:
        """The sum of a metric over all commits."""
        return sum(each[name] for each in self.metrics)

    def note(self, committed: CommitResult) -> None:
        """Record a commit of this run, or of another run with the same identity."""
        if committed.already_committed or committed.version is None:
            self.already_committed = committed
            return
        self.versions.append(committed.version)
        self.metrics.append(committed.metrics)


def run(log: DeltaLog, request: RewriteRequest, *, dry_run: bool) -> OptimizeResult:
    """Plan, rewrite and commit until the first plan is done.

    Raises:
        CommitConflictError: Other writers changed files of each group, or the table.
    """
    transaction, snapshot = _begin(log, request)
    ran = Ran(planned=request.plan(snapshot), snapshot=snapshot)
    if not dry_run:
        _execute(ran, transaction, request)
    return _result_of(ran, log, request, dry_run=dry_run)


def _execute(ran: Ran, transaction: Transaction, request: RewriteRequest) -> None:
    """Rewrite and commit the plan part by part; `ran` records each part."""
    snapshot = ran.snapshot
    remaining = Remaining(ran.planned, snapshot, request.max_bytes)
    lost: CommitConflictError | None = None
    done = 0
    while remaining.plan.has_work:
        part, loose = remaining.take(request.commit_bytes)
        to_come = len(remaining.plan.groups)
        rewriting = Rewriting(transaction, snapshot, request.engine, done=done, to_come=to_come)
        try:
            committed = _rewrite_part(request, rewriting, part, loose, remaining.plan_again)
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
        transaction, snapshot = _begin(transaction.log, request)
        remaining.update(snapshot, request.plan)
    ran.files_left += remaining.files_left
    if lost is not None and not ran.versions:
        raise lost


def _result_of(
    ran: Ran, log: DeltaLog, request: RewriteRequest, *, dry_run: bool
) -> OptimizeResult:
    done, plan = ran.already_committed, ran.planned.plan
    expected = None
    if dry_run and plan.has_work:
        history = log.history(VERSIONS_LOOKED_AT)
        expected = estimate(ran.snapshot, ran.planned, request.operation, history)
    return OptimizeResult(
        plan=plan,
        dry_run=dry_run,
        version=ran.versions[-1] if ran.versions else done.version if done else None,
        already_committed=done is not None and not ran.versions,
        num_commits=len(ran.versions),
        files_removed=ran.total("numRemovedFiles"),
        files_added=ran.total("numAddedFiles"),
        bytes_removed=ran.total("numRemovedBytes"),
        bytes_added=ran.total("numAddedBytes"),
        files_left_to_others=ran.files_left,
        expected=expected,
    )


def _begin(log: DeltaLog, request: RewriteRequest) -> tuple[Transaction, Snapshot]:
    transaction = begin(log, clock=request.clock, on_event=request.on_event)
    if transaction.snapshot is None:
        raise TableNotFoundError(log.uri)
    return transaction, transaction.snapshot


def _rewrite_part(
    request: RewriteRequest,
    rewriting: Rewriting,
    plan: OptimizePlan,
    loose: Sequence[AddFile],
    plan_again: PlanAgain | None,
) -> CommitResult | None:
    """Rewrite and commit one part of a plan; None if nothing was gained."""
    begun_ms = request.clock()
    transaction = rewriting.transaction
    try:
        if plan_again is None:
            rewriting.run_once(plan)
        else:
            rewriting.run(loose, plan, plan_again)
        if not rewriting.rewrites:
            return None
        while True:
            try:
                return _commit(transaction, rewriting, request, plan, begun_ms)
            except CommitConflictError as conflict:
                # Live files are loaded at the version of the next attempt, which detects later
                # removals.
                transaction = begin(transaction.log, clock=request.clock, on_event=request.on_event)
                latest = transaction.snapshot
                if conflict.kind != "delete delete" or not (
                    latest and rewriting.drop_changed_groups(latest)
                ):
                    raise
    finally:
        if not transaction.may_be_committed:
            rewriting.undo()


def _commit(
    transaction: Transaction,
    rewriting: Rewriting,
    request: RewriteRequest,
    plan: OptimizePlan,
    begun_ms: int,
) -> CommitResult:
    txn = maintenance_txn("optimize", rewriting.snapshot, request.identity)
    transaction.set_transaction(txn)
    for each in rewriting.rewrites:
        transaction.stage(each.staged)
        transaction.remove(each.inputs, data_change=False)
    return transaction.commit(
        operation=request.operation,
        parameters=request.parameters(rewriting.snapshot, plan),
        metrics={
            **_metrics(rewriting.inputs, rewriting.outputs),
            "executionTimeMs": request.clock() - begun_ms,
        },
        user_metadata=request.user_metadata,
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


class Remaining:
    """The groups that are left, and the outputs of groups that are done."""

    def __init__(self, planned: Planned, snapshot: Snapshot, max_bytes: int | None) -> None:
        self.plan = planned.plan
        self.files_left = 0
        """Planned files that another writer removed from the table before their turn."""
        self.plan_again = planned.plan_again
        self._snapshot = snapshot
        self._left_bytes = max_bytes
        self._loose = _index_by_path(planned.candidates or planned.plan.files)
        self._is_first = True

    @property
    def is_done(self) -> bool:
        """Whether nothing more can be planned; call it after a part is noted."""
        return not self.plan.has_work and (self._is_first or self.plan_again is None)

    def take(self, commit_bytes: int) -> tuple[OptimizePlan, Sequence[AddFile]]:
        """The groups of the next commit, and the files that they may be combined with."""
        part, self.plan = self.plan.split(commit_bytes)
        # A part uses only its own files; later commits use the others.
        is_all = self._is_first and not self.plan.has_work
        return part, list(self._loose.values()) if is_all else part.files

    def note(self, part: OptimizePlan, loose: Iterable[AddFile]) -> None:
        """Record a part that was done or given up.

        Args:
            loose: The unused files among the files that the part might have been combined with.
        """
        for add in part.files:
            self._loose.pop(add.path, None)
        self._loose |= _index_by_path(loose)
        if self._left_bytes is not None:
            self._left_bytes -= part.size_bytes

    def update(self, snapshot: Snapshot, plan: Callable[[Snapshot], Planned]) -> None:
        """Update the remaining groups to the version after a commit.

        Args:
            snapshot: That version.
            plan: Makes a new plan, used if another writer changed more than files.
        """
        self._is_first = False
        before, self._snapshot = self._snapshot, snapshot
        if self.plan.has_work and _is_same_table(before, snapshot):
            self._take_files_of(snapshot)
        elif self.plan.has_work:
            self._take_plan(plan(snapshot))
        if not self.plan.has_work and self.plan_again is not None:
            found = _find_live(self._loose.values(), snapshot)
            again = self.plan_again(found.values())
            self.plan = again if self._left_bytes is None else again.take_within(self._left_bytes)

    def _take_files_of(self, snapshot: Snapshot) -> None:
        """Update the plan's files from the log: some may be gone or have new deletion vectors."""
        live = _find_live(self.plan.files, snapshot)
        self.files_left += self.plan.num_files - len(live)
        there = self.plan.keep_files(live, self._least)
        groups = (
            replace(group, files=tuple(live[add.path] for add in group.files))
            for group in there.groups
        )
        self.plan = replace(there, groups=tuple(groups))

    def _take_plan(self, planned: Planned) -> None:
        """Replace the plan by a new plan, restricted to the files of the old plan."""
        num_files = self.plan.num_files
        self.plan_again = planned.plan_again
        self.plan = planned.plan.keep_files({add.path for add in self.plan.files}, self._least)
        self.files_left += max(num_files - self.plan.num_files, 0)

    @property
    def _least(self) -> int:
        """The minimum number of files in a group: a single file cannot be combined."""
        return 1 if self.plan_again is None else 2


def _find_live(adds: Iterable[AddFile], snapshot: Snapshot) -> dict[str, AddFile]:
    paths = [canonical_path(add.path, snapshot.uri) for add in adds]
    found = own_files_by_path(snapshot, array_of(paths, pa.string()))
    return _index_by_path(found.values())


def _is_same_table(before: Snapshot, after: Snapshot) -> bool:
    """Whether protocol, metadata and clustering agree, so that only files may have changed."""
    return (
        before.protocol == after.protocol
        and only_moves_marks(before.metadata, after.metadata)
        and before.clustering_columns == after.clustering_columns
    )


def _index_by_path(adds: Iterable[AddFile]) -> dict[str, AddFile]:
    return {add.path: add for add in adds}

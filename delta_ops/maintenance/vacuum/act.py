"""Vacuum: deletes the files that no version within the retention needs.

1. Needed files are loaded before the listing, after it, and again before every batch of deletions:
   a file that was committed meanwhile stays, however old it is. Later commits can only add needed
   files, because the tombstones of removed files protect them. So only the commits since the last
   look are read.
2. Vacuum deletes only files that it found in the store, by the name found there, and only if they
   are older than the horizon there. So nothing outside of the table is deleted, whatever the log, a
   link or an inventory says. A file that the log names through a link within the table is needed by
   its own name too, and the target of a hidden link is hidden.
3. The horizon uses the store's clock, as the ages of files do.
4. The versions of refs stay readable. Before the first deletion, the vacuum adds an entry to the
   journal of refs, so no later ref can name an older version until it ends; see `log.refs.refs`.
   The logs of branches and sessions are read as often as the table's own.
5. A run that was killed has deleted a part of its plan; the next run finds the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import chain, islice

import pyarrow as pa

from delta_ops.arguments import validate_arguments
from delta_ops.arrays.sweep import NOTHING_SWEPT, SweepResult, sweep_chunks
from delta_ops.clock import Clock
from delta_ops.errors import CommitConflictError, DeltaOpsError
from delta_ops.events import OnEvent, Progress, ignore
from delta_ops.log import DeltaLog, Snapshot, TableOrPlace, log_of
from delta_ops.log.refs.refs import RunningDeletion, begin_deletion, end_deletion
from delta_ops.maintenance.admission import validate_format, validate_vacuumable
from delta_ops.maintenance.kept_versions import DroppedRefs, KeptVersions, drop_refs, naming_refs
from delta_ops.maintenance.vacuum.candidates import VacuumMode, find_candidates
from delta_ops.maintenance.vacuum.commits import VacuumCommits, is_logged
from delta_ops.maintenance.vacuum.facts import (
    NOTHING_LISTED,
    TableListing,
    VacuumFacts,
    facts_since,
    vacuum_facts,
)
from delta_ops.maintenance.vacuum.hidden_names import hidden_names
from delta_ops.maintenance.vacuum.kept_files import paths_of_last_versions, paths_of_versions
from delta_ops.maintenance.vacuum.lite import first_commit, last_version_before, save_info
from delta_ops.maintenance.vacuum.plan import VacuumPlan, plan_by_facts, reasons_to_stay
from delta_ops.maintenance.vacuum.reachable import paths_added_since, reachable_paths
from delta_ops.maintenance.vacuum.request import VacuumRequest
from delta_ops.maintenance.vacuum.result import VacuumResult
from delta_ops.maintenance.vacuum.side_logs import SideLogs, load_side_logs
from delta_ops.storage.packed_files import pack_files
from delta_ops.versioning.ended_refs import delete_files_of_ended_refs


def vacuum(
    log: TableOrPlace,
    *,
    retention: timedelta | None = None,
    dry_run: bool = False,
    enforce_retention: bool = True,
    mode: VacuumMode = "full",
    inventory: pa.Table | None = None,
    keep: Collection[str] = (),
    keep_versions: Collection[int] = (),
    keep_last: int = 0,
    log_commits: bool | None = None,
    batch_files: int = 10_000,
    user_metadata: str | None = None,
    clock: Clock | None = None,
    on_event: OnEvent = ignore,
) -> VacuumResult:
    """Delete files that are neither live nor recently removed, and files of failed writes.

    A full vacuum without an inventory also deletes old chunks of an array table that no file names.
    Branches and sessions that expired a day ago end first, and holds of releases that do not exist.

    Args:
        retention: How long files stay after they were removed or written;
            `delta.deletedFileRetentionDuration` if None.
        dry_run: Plan and write nothing. The horizon then uses this machine's clock, because only a
            written file shows the store's.
        enforce_retention: Reject a retention shorter than that property: it breaks readers of older
            versions, and writers that take longer.
        mode: "lite" reads from the log which files were removed, and lists no directory; except a
            disk, for links within the table, if there are files to delete.
        inventory: Replaces the listing; see `inventory` for its columns.
        keep: Files and directories that always stay, relative to the table, decoded. Read again
            before every batch of deletions, as is `keep_versions`.
        keep_versions: Versions that stay readable at any age, besides those of refs.
        keep_last: How many of the last versions stay readable, except unreadable versions.
            Versions that change no files, such as commits of vacuums, do not count.
        log_commits: Commit VACUUM START and VACUUM END around deletions; if None, the table
            property `delta_ops.vacuum.logging` decides, which is true by default.
        batch_files: How many files are deleted before the log is read again.
        user_metadata: Any text, kept in commitInfo of both commits.
        clock: The store's clock if None.

    Raises:
        InvalidRequestError: The retention is negative or too short, a property cannot be parsed,
            the log does not reach back far enough, or it continues another log.
        VersionNotFoundError: A version to keep cannot be read.
        LogCorruptError: The log, or the log of a branch or session, is damaged.
        CommitConflictError: The table's retention was raised meanwhile; run again.
        UnsupportedFeatureError: The table uses an unknown feature.

    Examples:
        >>> from datetime import timedelta
        >>> _ = da.delete("lake/orders", col("id") == 1)
        >>> vacuum("lake/orders").deleted_files  # the removed file is too young
        0
        >>> now = {"retention": timedelta(0), "enforce_retention": False}
        >>> len(vacuum("lake/orders", dry_run=True, **now).plan.files)
        1
    """
    validate_arguments(vacuum, locals())
    log = log_of(log)
    request = VacuumRequest(
        retention=retention,
        dry_run=dry_run,
        enforce_retention=enforce_retention,
        mode=mode,
        inventory=inventory,
        keep=keep,
        keep_versions=KeptVersions(log.storage, keep_versions),
        keep_last=keep_last,
        log_commits=log_commits,
        batch_files=batch_files,
        user_metadata=user_metadata,
        clock=clock,
        on_event=on_event,
    )
    with naming_refs(log.storage):
        run = begin_run(log, request)
        plan = run.plan()
        result = VacuumResult(plan=plan, dry_run=True) if dry_run else run.execute(plan)
        return replace(result, chunks=run.sweep())


@dataclass(slots=True, kw_only=True, eq=False)
class VacuumRun:
    """One vacuum of one table. `look` and `facts` are replaced each time the log is read."""

    log: DeltaLog
    request: VacuumRequest
    retention_ms: int
    now_ms: int
    """By the store's clock unless the request has one."""
    commits: VacuumCommits | None
    """None: the vacuum commits nothing."""
    listing: TableListing
    look: Look
    facts: VacuumFacts
    dropped: DroppedRefs
    """Refs that were dropped before the files were listed."""
    announced: RunningDeletion | None = None
    """This vacuum in the refs of the table, from before the first deletion on."""

    def plan(self) -> VacuumPlan:
        """Decide which files to delete."""
        self._look_again(self.facts.kept)
        return plan_by_facts(self.listing, self.facts)

    def execute(self, plan: VacuumPlan) -> VacuumResult:
        """Delete the files of the plan that are still not needed, between START and END."""
        try:
            result = self._delete(plan)
        except Exception:
            with suppress(DeltaOpsError):  # the first error is raised
                self._end(deleted=None)
            raise
        self._end(deleted=result.deleted_files)
        self._save_progress(result)
        if self.request.mode == "full" and self.request.covers_whole_table:
            validate_format(self.look.snapshot)
            delete_files_of_ended_refs(self.log.storage, self.facts.horizon_ms)
        return result

    def sweep(self) -> SweepResult:
        """Delete the chunks of an array table that no data file names any more."""
        if self.request.mode == "lite" or self.request.inventory is not None:
            return NOTHING_SWEPT
        return sweep_chunks(
            self.look.snapshot,
            self.facts.horizon_ms,
            keep=self.request.kept_paths(),
            dry_run=self.request.dry_run,
        )

    def _look_again(self, kept: frozenset[str]) -> None:
        """Load the files that are newly needed since the last look."""
        self.look = look_again(
            self.log,
            self.look,
            now_ms=self.now_ms,
            retention_ms=self.retention_ms,
            keep_versions=self.request.keep_versions,
        )
        self.facts = facts_since(self.facts, self.listing, needed=self.look.needed, keep=kept)

    def _refresh(self, plan: VacuumPlan) -> None:
        """Read the log just before a deletion. If this commits START, read the log once more."""
        validate_format(self.look.snapshot)
        clock = self.request.commit_clock
        if self.announced is None or self.announced.must_be_renewed(clock()):
            self.announced = begin_deletion(
                self.log.storage, self.look.snapshot.version, clock, renewed=self.announced
            )
        self._look_again(self.request.kept_paths())
        if self.commits is not None and self.commits.begin(self.look.snapshot, plan):
            self._look_again(self.request.kept_paths())

    def _delete(self, plan: VacuumPlan) -> VacuumResult:
        """Delete in batches the files that the latest facts still allow."""
        storage, size = self.log.storage, self.request.batch_files
        todo, num_files = chain(plan.files, plan.leftovers), len(plan.files) + len(plan.leftovers)
        deleted_files = deleted_bytes = 0
        failures: list[str] = []
        for start in range(0, num_files, size):
            self._refresh(plan)
            batch = plan_by_facts(TableListing(files=pack_files(islice(todo, size))), self.facts)
            going = [*batch.files, *batch.leftovers]
            failed = frozenset(storage.delete_many(info.path for info in going))
            deleted_files += len(going) - len(failed)
            deleted_bytes += sum(info.size for info in going if info.path not in failed)
            failures += sorted(failed)
            done = min(start + size, num_files)
            self.request.on_event(
                Progress(table=storage.uri, operation="vacuum", done=done, total=num_files)
            )
        if plan.directories and not num_files:
            self._refresh(plan)
        return VacuumResult(
            plan=plan,
            dry_run=False,
            deleted_files=deleted_files,
            deleted_bytes=deleted_bytes,
            deleted_directories=self._delete_directories(plan),
            needed_after_all=num_files - deleted_files - len(failures),
            failures=tuple(failures),
            **self.dropped.figures,
        )

    def _delete_directories(self, plan: VacuumPlan) -> int:
        """Delete the empty directories of the plan and return how many were deleted."""
        if not plan.directories:
            return 0
        reason_of = reasons_to_stay(self.facts)
        empty = [directory for directory in plan.directories if reason_of(directory) is None]
        return len(self.log.storage.delete_empty(empty, plan.horizon_ms))

    def _end(self, *, deleted: int | None) -> None:
        """End the announced deletion, and commit END if START was committed.

        Args:
            deleted: How many files were deleted; None if the vacuum failed.
        """
        try:
            if self.commits is not None and self.commits.has_begun:
                self.commits.end(
                    self.look.snapshot.refresh(),
                    deleted=deleted,
                    num_directories=self.listing.num_directories,
                )
        finally:
            if self.announced is not None:
                end_deletion(self.log.storage, self.announced, self.request.commit_clock)

    def _save_progress(self, result: VacuumResult) -> None:
        """Record the last version that the next lite vacuum can skip."""
        is_waiting = self.request.mode == "lite" and result.plan.kept.get("young", 0) > 0
        is_complete = not (result.failures or result.needed_after_all or is_waiting)
        if not (is_complete and self.request.covers_whole_table):
            return
        version = last_version_before(self.look.snapshot, self.facts.horizon_ms, self.now_ms)
        if version is None:
            return
        # Once a kept version is released, the commits from it on name the files to delete. If they
        # are gone, because an anchor keeps the version, only a full vacuum finds these files.
        first = first_commit(self.look.snapshot)
        kept = [each for each in self.look.kept_versions if each >= first]
        version = min(version, min(kept, default=version + 1) - 1)
        if version >= 0:
            save_info(self.look.snapshot, version)


def begin_run(log: DeltaLog, request: VacuumRequest) -> VacuumRun:
    """Load what the log needs, then list the files that may be deleted.

    Raises:
        DeltaOpsError: As `vacuum`.
    """
    kept = request.kept_paths()
    snapshot = log.snapshot()
    validate_vacuumable(snapshot)
    retention_ms = request.retention_ms(snapshot)
    commits = None
    if is_logged(snapshot, request.log_commits):
        commits = VacuumCommits(
            log,
            is_enforced=request.enforce_retention,
            specified_ms=None if request.retention is None else retention_ms,
            user_metadata=request.user_metadata,
            clock=request.commit_clock,
            on_event=request.on_event,
        )
    now_ms = request.now_ms(snapshot.storage)
    dropped = DroppedRefs() if request.dry_run else drop_refs(log, now_ms)
    look = first_look(
        log,
        snapshot,
        now_ms=now_ms,
        retention_ms=retention_ms,
        keep_versions=request.keep_versions,
        keep_last=request.keep_last,
        on_event=request.on_event,
    )
    facts_of = partial(
        vacuum_facts,
        hidden_names=hidden_names(snapshot.definition),
        needed=look.needed,
        now_ms=now_ms,
        retention_ms=retention_ms,
        keep=kept,
    )
    listing = find_candidates(
        log,
        snapshot,
        facts_of(NOTHING_LISTED),
        mode=request.mode,
        inventory=request.inventory,
        on_event=request.on_event,
    )
    return VacuumRun(
        log=log,
        request=request,
        retention_ms=retention_ms,
        now_ms=now_ms,
        commits=commits,
        listing=listing,
        look=look,
        facts=facts_of(listing),
        dropped=dropped,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The state of a table's log at one time of a vacuum."""

    snapshot: Snapshot
    """The latest version at that time."""
    kept_versions: frozenset[int]
    """Versions whose files are needed at any age."""
    side_logs: SideLogs
    needed: Set[str]
    """Decoded paths of the needed files. A later look has only files that the last look may lack.
    """


def first_look(
    log: DeltaLog,
    snapshot: Snapshot,
    *,
    now_ms: int,
    retention_ms: int,
    keep_versions: KeptVersions,
    keep_last: int,
    on_event: OnEvent,
) -> Look:
    """Find all needed files.

    Args:
        snapshot: The latest version.
        keep_last: How many of the last versions are kept.

    Raises:
        VersionNotFoundError: A version to keep cannot be read.
        LogCorruptError: The log of a branch lacks a commit.
        InvalidRequestError: The log was cleaned up and lacks removes within the retention.
    """
    kept = keep_versions.load_all()
    needed = reachable_paths(snapshot, now_ms=now_ms, retention_ms=retention_ms, on_event=on_event)
    needed |= paths_of_versions(log, snapshot, kept.versions)
    if keep_last:
        needed |= paths_of_last_versions(log, snapshot, keep_last)
    side_logs = load_side_logs(snapshot, kept)
    return Look(
        snapshot=snapshot,
        kept_versions=kept.versions,
        side_logs=side_logs,
        needed=needed | side_logs.paths,
    )


def look_again(
    log: DeltaLog, last: Look, *, now_ms: int, retention_ms: int, keep_versions: KeptVersions
) -> Look:
    """Find files that are newly needed since the last look.

    Raises:
        CommitConflictError: The table's retention was raised, or the table was replaced or
            repartitioned.
        UnsupportedFeatureError: The table has a feature that forbids a vacuum.
        VersionNotFoundError: A version to keep cannot be read.
        LogCorruptError: The log of a branch lacks a commit.
    """
    kept = keep_versions.load_all()
    kept_versions = last.kept_versions | kept.versions
    newer = last.snapshot.refresh()
    is_newer = newer.version != last.snapshot.version
    if is_newer:
        validate_vacuumable(newer)
        _validate_same_promise(last.snapshot, newer)
    needed = paths_of_versions(log, newer, kept_versions - last.kept_versions)
    if is_newer:
        added = paths_added_since(log, last.snapshot, newer)
        if added is None:  # a commit is gone, but a checkpoint has its actions
            added = reachable_paths(newer, now_ms=now_ms, retention_ms=retention_ms)
        needed |= added
    side_logs = load_side_logs(newer, kept, last.side_logs)
    return Look(
        snapshot=newer,
        kept_versions=kept_versions,
        side_logs=side_logs,
        needed=needed | side_logs.paths,
    )


def _validate_same_promise(old: Snapshot, new: Snapshot) -> None:
    before, after = old.properties, new.properties
    if after.deleted_file_retention_ms > before.deleted_file_retention_ms:
        reason = "keeps removed files for longer (delta.deletedFileRetentionDuration)"
    elif new.metadata.id != old.metadata.id or new.partition_columns != old.partition_columns:
        reason = "replaced the table, or changed its partitioning"
    else:
        return
    raise CommitConflictError(new.uri, new.version, reason)

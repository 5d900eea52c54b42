"""Vacuum: delete the files that no version within the retention needs.

1. What is needed is asked for before the listing, after it, and again before every batch of
   deletions: a file that was committed meanwhile stays, however old it is.
2. Only what was seen in the store is deleted, by the name under which it was seen, and only if it
   is older than the horizon there: whatever the log, a link or an inventory says, nothing outside
   of the table is touched. What the log names by way of a link within the table is needed by its
   own name too, and what a hidden link leads to is hidden.
3. The horizon is by the store's clock, as the ages of files are.
4. A run that was killed has deleted a part of what it would have; the next one finds the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import pyarrow as pa

from delta_ops.arguments import validate_arguments
from delta_ops.clock import HOUR_MS, Clock, system_clock
from delta_ops.errors import DeltaOpsError, InvalidRequestError
from delta_ops.events import OnEvent, Progress, ignore
from delta_ops.log import Snapshot, TableOrPlace, log_of
from delta_ops.maintenance.admission import validate_format, validate_vacuumable
from delta_ops.maintenance.vacuum.candidates import VacuumMode, find_candidates
from delta_ops.maintenance.vacuum.commits import commit_end, commit_start, is_logged
from delta_ops.maintenance.vacuum.facts import (
    NOTHING_LISTED,
    TableListing,
    VacuumFacts,
    facts_since,
    vacuum_facts,
)
from delta_ops.maintenance.vacuum.hidden_names import hidden_names
from delta_ops.maintenance.vacuum.inventory import validate_inventory
from delta_ops.maintenance.vacuum.lite import last_version_before, save_info
from delta_ops.maintenance.vacuum.needed_files import first_look, look_again
from delta_ops.maintenance.vacuum.plan import VacuumPlan, plan_by_facts, reasons_to_stay
from delta_ops.storage import FileInfo, Storage
from delta_ops.storage.paths import is_valid
from delta_ops.storage.store_clock import store_time_ms
from delta_ops.transaction.races.vacuum_runs import VacuumRun, is_heeded


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumResult:
    """What `vacuum` did."""

    plan: VacuumPlan
    dry_run: bool
    deleted_files: int = 0
    deleted_bytes: int = 0
    deleted_directories: int = 0
    """Empty ones; of the plan, and those above them that were left empty."""
    needed_after_all: int = 0
    """Files of the plan that stayed, because a commit or the caller came to need them meanwhile."""
    failures: tuple[str, ...] = ()
    """Files that could not be deleted."""


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
    """Delete files that are neither live nor removed recently, and leftovers of dead writers.

    Args:
        retention: How long ago a file must have been removed or written;
            `delta.deletedFileRetentionDuration` if None.
        dry_run: Say what would be deleted, and write nothing; the horizon is by this machine's
            clock then, since only a written file tells the store's.
        enforce_retention: Refuse a retention shorter than that property: it breaks readers of
            older versions, and writers that take longer.
        mode: "lite" looks at what the log says was removed, and lists nothing; but a disk, if there
            is something to delete, for links within the table.
        inventory: Where to look instead of a listing; see `inventory` for its columns.
        keep: Files and directories that stay in any case, relative to the table, decoded; looked
            into again before every batch of deletions, as is `keep_versions`.
        keep_versions: Versions that can be read afterwards, however old they are.
        keep_last: How many of the last versions can be read afterwards, as far as they can before;
            versions that change no files, as those of vacuums, are not counted.
        log_commits: Commit VACUUM START and VACUUM END around deletions; if None, as the table
            property `delta_ops.vacuum.logging` says, which is true if it is not set.
        batch_files: How many files are deleted between two looks at the log.
        user_metadata: Any text, kept in commitInfo of both.
        clock: The store's own if None.

    Raises:
        InvalidRequestError: The retention is negative or too short, the log does not remember what
            was removed so long ago, a property of the table cannot be understood, or its log goes
            on from another one.
        VersionNotFoundError: A version that is to be kept cannot be read.
        CommitConflictError: Meanwhile the table came to promise more; run again.
        UnsupportedFeatureError: The table uses a feature that we do not know.
    """
    validate_arguments(vacuum, locals())
    log = log_of(log)
    _validate_request(mode, inventory, keep_last, batch_files)
    kept = _paths_of(keep)
    snapshot = log.snapshot()
    validate_vacuumable(snapshot)
    retention_ms = _retention_ms(snapshot, retention, enforced=enforce_retention)
    logs = is_logged(snapshot, log_commits)
    now_ms = _now_ms(snapshot.storage, clock, dry_run=dry_run)
    look = first_look(
        log,
        snapshot,
        now_ms=now_ms,
        retention_ms=retention_ms,
        keep_versions=keep_versions,
        keep_last=keep_last,
        on_event=on_event,
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
        mode=mode,
        inventory=inventory,
        on_event=on_event,
    )
    facts = facts_of(listing)

    def ask_again(kept: frozenset[str]) -> None:
        """Ask what has come to be needed since."""
        nonlocal look, facts
        look = look_again(
            log, look, now_ms=now_ms, retention_ms=retention_ms, keep_versions=keep_versions
        )
        facts = facts_since(facts, listing, needed=look.needed, keep=kept)

    ask_again(kept)
    plan = plan_by_facts(listing, facts)
    if dry_run:
        return VacuumResult(plan=plan, dry_run=True)

    commit_clock = clock or system_clock
    run: VacuumRun | None = None

    def begin_run() -> None:
        """Commit START, unless that was done and will be heeded until the next look."""
        nonlocal run
        if not logs or (run is not None and is_heeded(look.snapshot, run, now_ms=commit_clock())):
            return
        run = commit_start(
            log,
            look.snapshot,
            plan,
            before=run,
            is_enforced=enforce_retention,
            specified_ms=None if retention is None else retention_ms,
            user_metadata=user_metadata,
            clock=commit_clock,
            on_event=on_event,
        )
        ask_again(_paths_of(keep))

    def present_facts() -> VacuumFacts:
        """The facts just before files go, of a run that is heeded."""
        validate_format(look.snapshot)
        ask_again(_paths_of(keep))
        begin_run()
        return facts

    def end_run(deleted: int | None) -> None:
        if run is not None:
            commit_end(
                log,
                look.snapshot.refresh(),
                run,
                deleted=deleted,
                num_directories=listing.num_directories,
                user_metadata=user_metadata,
                clock=commit_clock,
                on_event=on_event,
            )

    try:
        result = _delete(snapshot.storage, plan, batch_files, present_facts, on_event)
    except Exception:
        with suppress(DeltaOpsError):  # of what is told, the first error
            end_run(None)
        raise
    end_run(result.deleted_files)
    is_all = inventory is None and not (keep or keep_versions or keep_last)
    if is_all and _is_complete(result, mode):
        version = last_version_before(look.snapshot, facts.horizon_ms, now_ms)
        if version is not None:
            save_info(look.snapshot, version)
    return result


def _validate_request(
    mode: str, inventory: pa.Table | None, keep_last: int, batch_files: int
) -> None:
    if mode not in ("full", "lite"):
        raise InvalidRequestError(f'there is no vacuum of mode {mode!r}; it is "full" or "lite"')
    if inventory is not None:
        if mode == "lite":
            raise InvalidRequestError(
                "a lite vacuum looks at the log and takes no inventory; leave one of them out"
            )
        validate_inventory(inventory)
    if keep_last < 0 or batch_files < 1:
        raise InvalidRequestError(
            f"keep_last is {keep_last} and batch_files is {batch_files}; the first must be 0 at "
            "least, and the second 1"
        )


def _paths_of(keep: Collection[str]) -> frozenset[str]:
    """The paths to keep at this moment; what names no file of a table would keep nothing."""
    paths = frozenset(keep)
    for path in paths:
        if not isinstance(path, str) or not is_valid(path):
            raise InvalidRequestError(
                f"{path!r} cannot be kept, since it is no path within the table; give paths "
                "relative to the table, decoded, such as p=1/part-0.parquet or p=1"
            )
    return paths


def _now_ms(storage: Storage, clock: Clock | None, *, dry_run: bool) -> int:
    if clock is not None:
        return clock()
    return system_clock() if dry_run else store_time_ms(storage)


def _retention_ms(snapshot: Snapshot, retention: timedelta | None, *, enforced: bool) -> int:
    least_ms = snapshot.properties.deleted_file_retention_ms
    if retention is None:
        return least_ms
    retention_ms = retention // timedelta(milliseconds=1)
    if retention_ms < 0:
        raise InvalidRequestError(f"the retention of a vacuum cannot be negative ({retention})")
    if enforced and retention_ms < least_ms:
        raise InvalidRequestError(
            f"{snapshot.uri}: a retention of {_hours(retention_ms)} hours is less than the table's "
            f"delta.deletedFileRetentionDuration, {_hours(least_ms)} hours, on which readers of "
            "older versions and slow writers rely; keep files for longer, change the property, or "
            "turn the check off (enforce_retention)"
        )
    return retention_ms


def _hours(ms: int) -> str:
    return f"{ms / HOUR_MS:g}"


def _delete(
    storage: Storage,
    plan: VacuumPlan,
    batch_files: int,
    present_facts: Callable[[], VacuumFacts],
    on_event: OnEvent,
) -> VacuumResult:
    """Delete batch by batch, each time what the plan would still have go by the facts then."""
    todo = plan.files + plan.leftovers
    deleted: list[FileInfo] = []
    failures: list[str] = []
    for start in range(0, len(todo), batch_files):
        facts = present_facts()
        batch = TableListing(files=todo[start : start + batch_files])
        still = plan_by_facts(batch, facts)
        going = still.files + still.leftovers
        failed = frozenset(storage.delete_many(info.path for info in going))
        deleted += [info for info in going if info.path not in failed]
        failures += sorted(failed)
        done = min(start + batch_files, len(todo))
        on_event(Progress(table=storage.uri, operation="vacuum", done=done, total=len(todo)))
    gone: list[str] = []
    if plan.directories:
        reason_of = reasons_to_stay(facts if todo else present_facts())
        empty = [directory for directory in plan.directories if reason_of(directory) is None]
        gone = storage.delete_empty(empty, plan.horizon_ms)
    return VacuumResult(
        plan=plan,
        dry_run=False,
        deleted_files=len(deleted),
        deleted_bytes=sum(info.size for info in deleted),
        deleted_directories=len(gone),
        needed_after_all=len(todo) - len(deleted) - len(failures),
        failures=tuple(failures),
    )


def _is_complete(result: VacuumResult, mode: VacuumMode) -> bool:
    """Whether no file was left that a lite vacuum would have to look at again."""
    is_waiting = mode == "lite" and result.plan.kept.get("young", 0) > 0
    return not (result.failures or result.needed_after_all or is_waiting)

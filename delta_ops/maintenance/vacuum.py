"""Vacuum: delete the files that no version within the retention needs.

The log is read again before every batch of deletions, so that a file which was committed while the
listing or the deletion went on stays, however old it is.

Deletes nothing outside the table and follows no links: it deletes only what a listing of the root
shows. Empty directories stay. The horizon is by the caller's clock, the age of a file by the
store's; with a retention of days their difference does not matter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Set
from dataclasses import dataclass
from datetime import timedelta

from delta_ops.clock import HOUR_MS, Clock, system_clock
from delta_ops.errors import InvalidRequestError
from delta_ops.events import OnEvent, Progress, ignore
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.maintenance.admission import validate_deletable
from delta_ops.maintenance.reachable import reachable_paths
from delta_ops.maintenance.vacuum_plan import VacuumPlan, plan_vacuum
from delta_ops.storage import FileInfo, Storage

_LISTED_AT_A_TIME = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumResult:
    """What `vacuum` did."""

    plan: VacuumPlan
    dry_run: bool
    deleted_files: int = 0
    deleted_bytes: int = 0
    needed_after_all: int = 0
    """Files of the plan that stayed, because a commit or the caller came to need them meanwhile."""
    failures: tuple[str, ...] = ()
    """Files that could not be deleted."""


def vacuum(
    log: DeltaLog,
    *,
    retention: timedelta | None = None,
    dry_run: bool = False,
    enforce_retention: bool = True,
    keep: Collection[str] = (),
    batch_files: int = 1000,
    clock: Clock = system_clock,
    on_event: OnEvent = ignore,
) -> VacuumResult:
    """Delete files that are neither live nor removed recently, and leftovers of dead writers.

    Args:
        retention: How long ago a file must have been removed or written;
            `delta.deletedFileRetentionDuration` if None.
        enforce_retention: Refuse a retention shorter than that property: it breaks readers of
            older versions, and writers that take longer.
        keep: Paths relative to the table, decoded, that stay in any case; looked into again before
            every batch of deletions.
        batch_files: How many files are deleted between two looks at the log.

    Raises:
        InvalidRequestError: The retention is negative or too short, the log does not remember what
            was removed so long ago, or a property of the table cannot be understood.
        UnsupportedFeatureError: The table uses what we cannot write.
    """
    snapshot = _admitted(log.snapshot())
    _retention_ms(snapshot, retention, enforced=enforce_retention)
    listed = list(_listing(snapshot.storage, on_event))
    # A file that was committed while the listing ran is in the listing and not in the old snapshot.
    snapshot = _refreshed(snapshot)
    retention_ms = _retention_ms(snapshot, retention, enforced=enforce_retention)
    now_ms = clock()
    plan = plan_vacuum(
        listed,
        reachable_paths(snapshot, now_ms=now_ms, retention_ms=retention_ms),
        now_ms=now_ms,
        retention_ms=retention_ms,
        partition_columns=snapshot.partition_columns,
        keep=keep,
    )
    if dry_run:
        return VacuumResult(plan=plan, dry_run=True)
    needed: Set[str] = frozenset()
    deleted: list[FileInfo] = []
    failures: list[str] = []
    todo = plan.files + plan.leftovers
    for start in range(0, len(todo), batch_files):
        newer = _refreshed(snapshot)
        if newer.version != snapshot.version:
            snapshot = newer
            needed = reachable_paths(snapshot, now_ms=now_ms, retention_ms=retention_ms)
        protected = {*keep, *needed}
        batch = [info for info in todo[start : start + batch_files] if info.path not in protected]
        failed = frozenset(snapshot.storage.delete_many(info.path for info in batch))
        deleted += [info for info in batch if info.path not in failed]
        failures += sorted(failed)
        on_event(_progress(log.uri, "vacuum", min(start + batch_files, len(todo)), len(todo)))
    return VacuumResult(
        plan=plan,
        dry_run=False,
        deleted_files=len(deleted),
        deleted_bytes=sum(info.size for info in deleted),
        needed_after_all=len(todo) - len(deleted) - len(failures),
        failures=tuple(failures),
    )


def _admitted(snapshot: Snapshot) -> Snapshot:
    validate_deletable(snapshot)
    return snapshot


def _refreshed(snapshot: Snapshot) -> Snapshot:
    """The latest version; a commit may have made it a table that we must not touch."""
    newer = snapshot.refresh()
    return newer if newer.version == snapshot.version else _admitted(newer)


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


def _listing(storage: Storage, on_event: OnEvent) -> Iterator[FileInfo]:
    for number, info in enumerate(storage.list_tree(""), 1):
        if number % _LISTED_AT_A_TIME == 0:
            on_event(_progress(storage.uri, "list files", number, None))
        yield info


def _progress(table: str, operation: str, done: int, total: int | None) -> Progress:
    return Progress(table=table, operation=operation, done=done, total=total)

"""Scan cache on request: order the live files for plans that need a part of them.

The cache is of the latest version. Its checkpoint is written first, if it is missing: readers open
both by one file. Cache files that nobody uses any more are deleted a day after they were written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import InvalidRequestError
from delta_ops.events import OnEvent, ignore
from delta_ops.log import Snapshot, TableOrPlace, log_of
from delta_ops.log.checkpoint_write.write import write_checkpoint
from delta_ops.log.scan_cache.file import UnusableCacheError, verify_groups
from delta_ops.log.scan_cache_write.state import delete_unused, state_of_cache, unused_files
from delta_ops.log.scan_cache_write.write import WrittenCache, write_scan_cache
from delta_ops.maintenance.scan_cache.plan import ScanCachePlan
from delta_ops.maintenance.thresholds import ScanCacheFacts
from delta_ops.protocol.properties.known import SCAN_CACHE, SCAN_CACHE_INTERVAL
from delta_ops.protocol.table_definition import validate
from delta_ops.storage.store_clock import store_time_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanCacheResult:
    """The result of `create_scan_cache`."""

    plan: ScanCachePlan
    dry_run: bool
    written: WrittenCache | None
    """None if nothing was written: in a dry run, or because the version has a scan cache."""
    deleted_files: int = 0
    """Number of deleted cache files."""
    failures: tuple[str, ...] = ()
    """Files that could not be deleted."""


def create_scan_cache(
    log: TableOrPlace,
    *,
    clock: Clock | None = None,
    dry_run: bool = False,
    on_event: OnEvent = ignore,
) -> ScanCacheResult:
    """Write the scan cache of the latest version, if it does not exist.

    A plan with a condition then reads only the part of the live files that may match. Holds the
    live files in memory, about 0.5 KB for each.

    Args:
        clock: Decides which tombstones and transactions of the checkpoint have expired, and which
            files are old. By default this machine's clock, and the store's clock for files.
        on_event: Receives how many live files were written to the checkpoint.

    Raises:
        InvalidRequestError: A property of the table cannot be understood, or forbids the cache.
        LogPathError: A partition value of a file does not fit its column's type.
        UnsupportedFeatureError: The table uses a feature that is unknown here.

    Examples:
        >>> create_scan_cache("lake/orders").written.num_files
        1
        >>> create_scan_cache("lake/orders").written is None  # the scan cache exists
        True
    """
    validate_arguments(create_scan_cache, locals())
    log = log_of(log).main
    snapshot = log.snapshot()
    validate(snapshot.definition, "checkpoint", table=snapshot.uri)
    if SCAN_CACHE.value_in(snapshot.metadata.configuration) is False:
        raise InvalidRequestError(
            f"{snapshot.uri}: the table property {SCAN_CACHE.name} is false, so no read would use "
            "a scan cache; unset it first"
        )
    now_ms = (clock or system_clock)()
    plan = _plan(snapshot, now_ms)
    if dry_run or not plan.has_work:
        return ScanCacheResult(plan=plan, dry_run=dry_run, written=None)
    written = None
    if plan.is_missing:
        if plan.needs_checkpoint:
            write_checkpoint(snapshot, now_ms=now_ms, on_event=on_event)
            snapshot = log.snapshot(snapshot.version)
        written = write_scan_cache(snapshot)
    store_ms = now_ms if clock is not None else store_time_ms(log.storage)
    gone = delete_unused(log.storage, unused_files(log.storage, log.log_directory, store_ms))
    return ScanCacheResult(
        plan=plan,
        dry_run=False,
        written=written,
        deleted_files=len(gone.files),
        failures=gone.failures,
    )


def load_scan_cache_facts(snapshot: Snapshot) -> ScanCacheFacts:
    """The facts about a table's scan cache; the row groups of the cache stay unread.

    Raises:
        InvalidRequestError: A property of the table cannot be understood.
        StorageError: The store failed.
    """
    configuration = snapshot.metadata.configuration
    checksum = snapshot.state_checksum.checksum
    counted = None if checksum is None else checksum.num_files
    state = state_of_cache(snapshot)
    return ScanCacheFacts(
        num_files=snapshot.num_files if counted is None else counted,
        interval=SCAN_CACHE_INTERVAL.value_in(configuration),
        is_wanted=SCAN_CACHE.value_in(configuration),
        exists=state.exists,
        age=None if state.version is None else snapshot.version - state.version,
        problem=state.problem,
    )


def _plan(snapshot: Snapshot, now_ms: int) -> ScanCachePlan:
    state = state_of_cache(snapshot)
    cached_version, problem = state.version, state.problem
    if state.file is not None and cached_version == snapshot.version:
        try:
            verify_groups(snapshot.storage, state.file)
        except UnusableCacheError as error:
            cached_version, problem = None, str(error)
    plan = ScanCachePlan(
        version=snapshot.version,
        cached_version=cached_version,
        problem=problem,
        unused=unused_files(snapshot.storage, snapshot.log_directory, now_ms),
    )
    has_checkpoint = snapshot.checkpoint is not None and not snapshot.commits_since_checkpoint
    return replace(plan, needs_checkpoint=plan.is_missing and not has_checkpoint)

"""Checkpoints on request: write the state of the latest version for readers to start from.

Source: PROTOCOL.md, "Checkpoints". The table's properties decide the kind. A checkpoint leaves out
tombstones whose retention is over, so the log forgets them: vacuum runs first, see `registry`.
Files of unfinished checkpoints are deleted afterwards, see `log.checkpoint.incomplete`.
"""

from __future__ import annotations

from dataclasses import dataclass

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.events import OnEvent, ignore
from delta_ops.log import TableOrPlace, log_of
from delta_ops.log.checkpoint.incomplete import delete_stale, stale_files
from delta_ops.log.checkpoint_write.write import (
    WrittenCheckpoint,
    write_checkpoint,
)
from delta_ops.log.segment import list_log
from delta_ops.maintenance.checkpoint.plan import CheckpointPlan, plan_checkpoint
from delta_ops.protocol.file_names import version_prefix
from delta_ops.protocol.table_definition import validate
from delta_ops.storage.store_clock import store_time_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointResult:
    """The result of `create_checkpoint`."""

    plan: CheckpointPlan
    dry_run: bool
    written: WrittenCheckpoint | None
    """None if nothing was written: in a dry run, or because the version has a checkpoint."""
    deleted_files: int = 0
    """Number of deleted files of unfinished checkpoints."""
    failures: tuple[str, ...] = ()
    """Files that could not be deleted."""


def create_checkpoint(
    log: TableOrPlace,
    *,
    part_rows: int | None = None,
    clock: Clock | None = None,
    dry_run: bool = False,
    on_event: OnEvent = ignore,
) -> CheckpointResult:
    """Write the checkpoint of the latest version, if it does not exist.

    Then delete files of unfinished checkpoints that are older than a day.

    Args:
        part_rows: Write a multi-part checkpoint with about this many live files per part, if there
            are more, for readers that load a whole file into memory. A single-file checkpoint is
            written first and deleted when all parts exist. Needs as much space again in the
            system's temporary folder. Rejected if the table has the feature v2Checkpoint.
        clock: Decides which tombstones and transactions have expired, and which files are old. By
            default this machine's clock, and the store's clock for files.
        on_event: Receives how many live files were written.

    Raises:
        InvalidRequestError: As `plan_checkpoint`.
        UnsupportedFeatureError: The table uses a feature that is unknown here.

    Examples:
        >>> create_checkpoint("lake/orders").written.num_add_files
        1
        >>> create_checkpoint("lake/orders").written is None  # the checkpoint exists
        True
    """
    validate_arguments(create_checkpoint, locals())
    log = log_of(log)
    snapshot = log.snapshot()
    validate(snapshot.definition, "checkpoint", table=snapshot.uri)
    now_ms = (clock or system_clock)()
    stale = stale_files(list_log(log.storage, log.log_directory), now_ms)
    if snapshot.commits_since_checkpoint:
        # They cannot mislead readers beside the version's own checkpoint, which is about to be
        # written.
        of_version = f"{log.log_directory}/{version_prefix(snapshot.version)}"
        stale = tuple(info for info in stale if not info.path.startswith(of_version))
    plan = plan_checkpoint(snapshot, part_rows=part_rows, stale=stale)
    if dry_run or not plan.has_work:
        return CheckpointResult(plan=plan, dry_run=dry_run, written=None)
    written = None
    if plan.is_missing:
        written = write_checkpoint(snapshot, now_ms=now_ms, part_rows=part_rows, on_event=on_event)
    if stale and clock is None:
        now_ms = store_time_ms(log.storage)
    gone = delete_stale(log.storage, log.log_directory, stale, now_ms)
    return CheckpointResult(
        plan=plan,
        dry_run=False,
        written=written,
        deleted_files=len(gone.files),
        failures=gone.failures,
    )

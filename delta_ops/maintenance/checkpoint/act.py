"""Checkpoints on request: the state of the latest version, so that readers start there.

Source: PROTOCOL.md, "Checkpoints". The table's properties say of which kind. Tombstones whose
retention is over are left out of the checkpoint, and with that the log forgets them: vacuum runs
first, see `operations`. What is left of checkpoints that nobody finished is deleted after it, see
`log.incomplete_checkpoints`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.events import OnEvent, ignore
from delta_ops.log import Snapshot, Source, TableOrPlace, log_of, snapshot_of
from delta_ops.log.checkpoint.incomplete import delete_stale, stale_files
from delta_ops.log.checkpoint_write.write import (
    CheckpointKind,
    WrittenCheckpoint,
    checkpoint_kind,
    write_checkpoint,
)
from delta_ops.log.segment import list_log
from delta_ops.maintenance.operation import OperationEntry, Request
from delta_ops.maintenance.thresholds import Facts, Finding, HealthThresholds, Verdict, due_finding
from delta_ops.protocol.file_names import version_prefix
from delta_ops.protocol.table_definition import validate
from delta_ops.storage import FileInfo
from delta_ops.storage.store_clock import store_time_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPlan:
    """Whether a version wants a checkpoint."""

    version: int
    kind: CheckpointKind
    """By `delta.checkpointPolicy`; of many parts only where that was asked for."""
    commits_since_checkpoint: int
    interval: int
    """`delta.checkpointInterval`: commits from one checkpoint to the next."""
    stale: tuple[FileInfo, ...] = ()
    """Files of checkpoints that nobody finished, to be deleted."""

    @property
    def is_missing(self) -> bool:
        """Whether the version has no checkpoint yet."""
        return self.commits_since_checkpoint > 0

    @property
    def has_work(self) -> bool:
        """Whether there is anything to write or to delete."""
        return self.is_missing or bool(self.stale)

    @property
    def is_due(self) -> bool:
        """Whether so many commits came since the last one that readers pay for it, or another
        engine might take what nobody finished for a checkpoint."""
        return self.commits_since_checkpoint >= self.interval or bool(self.stale)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointResult:
    """What `create_checkpoint` did."""

    plan: CheckpointPlan
    dry_run: bool
    written: WrittenCheckpoint | None
    """None if nothing was written: in a dry run, or because the version has its checkpoint."""
    deleted_files: int = 0
    """Files of checkpoints that nobody finished."""
    failures: tuple[str, ...] = ()
    """Files that could not be deleted."""


def plan_checkpoint(
    snapshot: Snapshot, *, part_rows: int | None = None, stale: Collection[FileInfo] = ()
) -> CheckpointPlan:
    """Whether the snapshot's version wants a checkpoint, and of which kind.

    Args:
        part_rows: As for `create_checkpoint`.
        stale: Files of checkpoints that nobody finished, for whoever has listed the log.

    Raises:
        InvalidRequestError: A property of the table cannot be understood, `part_rows` is not
            positive, or the table must not have checkpoints of many parts.
    """
    validate_arguments(plan_checkpoint, locals())
    return CheckpointPlan(
        version=snapshot.version,
        kind=checkpoint_kind(snapshot, part_rows),
        commits_since_checkpoint=snapshot.commits_since_checkpoint,
        interval=snapshot.properties.checkpoint_interval,
        stale=tuple(stale),
    )


def checkpoint_due(source: Source) -> bool:
    """Whether `delta.checkpointInterval` commits or more came since the last checkpoint."""
    validate_arguments(checkpoint_due, locals())
    return plan_checkpoint(snapshot_of(source)).is_due


def create_checkpoint(
    log: TableOrPlace,
    *,
    part_rows: int | None = None,
    clock: Clock | None = None,
    dry_run: bool = False,
    on_event: OnEvent = ignore,
) -> CheckpointResult:
    """Write the checkpoint of the latest version unless it is there.

    Then delete what is left of checkpoints that nobody finished, if it is older than a day.

    Args:
        part_rows: Write several files of about so many live files each, where there are more: for
            readers that take one file whole into memory. A whole file stands in for them until all
            are there. Of no use where the table has the feature v2Checkpoint, and refused there.
            The system's temporary folder takes the files' size.
        clock: By it tombstones and transactions expire, and files are old. If None this machine's,
            and the store's for files.
        on_event: Is told of the live files that are in the file that is being written.

    Raises:
        InvalidRequestError: As `plan_checkpoint`.
        UnsupportedFeatureError: The table uses a feature that is unknown here.
    """
    validate_arguments(create_checkpoint, locals())
    log = log_of(log)
    snapshot = log.snapshot()
    validate(snapshot.definition, "checkpoint", table=snapshot.uri)
    now_ms = (clock or system_clock)()
    stale = stale_files(list_log(log.storage, log.log_directory), now_ms)
    if snapshot.commits_since_checkpoint:
        # Beside the version's own checkpoint, which it is about to get, they mislead nobody.
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


def _arguments(asked: Request) -> dict[str, Any]:
    return {"clock": asked.own_clock, "on_event": asked.on_event}


def _findings(facts: Facts, limits: HealthThresholds) -> Sequence[Finding]:
    interval = limits.commits_since_checkpoint
    cure = "checkpoint: readers replay every commit since the last one"
    return [
        due_finding(
            "commits_since_checkpoint",
            facts.commits_since_checkpoint,
            facts.checkpoint_interval if interval is None else interval,
            "commits",
            operation="checkpoint",
            cure=cure,
        ),
        due_finding(
            "commit_bytes_since_checkpoint",
            facts.commit_bytes_since_checkpoint,
            limits.commit_bytes_since_checkpoint,
            "bytes",
            operation="checkpoint",
            cure=cure,
        ),
        _incomplete(facts),
    ]


def _incomplete(facts: Facts) -> Finding:
    danger = (
        "checkpoint files of which others are missing are taken for a whole checkpoint by "
        "deltalake's clean-up, which then deletes the commits that the table still needs"
    )
    verdict: Verdict = "ok"
    advice = ""
    if facts.stale_checkpoint_files:
        verdict = "due"
        advice = f"checkpoint, which deletes them: {danger}"
    elif facts.incomplete_checkpoint_files:
        verdict = "look"
        advice = (
            "let deltalake not clean up the log until they are gone or whole: checkpoint deletes "
            f"them once they are a day old, if nobody finishes them; {danger}"
        )
    return Finding(
        measure="incomplete_checkpoints",
        value=facts.incomplete_checkpoint_files,
        threshold=1,
        unit="files",
        verdict=verdict,
        operation="checkpoint",
        advice=advice,
    )


def _planned_figures(result: CheckpointResult) -> dict[str, int]:
    return {
        "checkpoints_planned": int(result.plan.is_missing),
        "incomplete_checkpoint_files_planned": len(result.plan.stale),
    }


def _figures(result: CheckpointResult) -> dict[str, int]:
    written = result.written
    return {
        "checkpoints_written": int(written is not None),
        "expired_tombstones_dropped": written.expired_tombstones if written else 0,
        "incomplete_checkpoint_files_deleted": result.deleted_files,
        "checkpoint_failures": len(result.failures),
    }


def _json(result: CheckpointResult) -> dict[str, Any]:
    plan, written = result.plan, result.written
    return {
        "version": plan.version,
        "has_work": plan.has_work,
        "written": written is not None,
        "kind": written.kind if written else plan.kind,
        "num_files": written.num_files if written else None,
        "num_reused": written.num_reused if written else None,
        "num_actions": written.num_actions if written else None,
        "size_bytes": written.size_bytes if written else None,
        "expired_tombstones": written.expired_tombstones if written else None,
        "planned_files": len(plan.stale),
        "deleted_files": result.deleted_files,
        "failures": result.failures,
    }


CHECKPOINT = OperationEntry(
    name="checkpoint",
    needs="checkpoint",
    act=create_checkpoint,
    arguments=_arguments,
    planned=_planned_figures,
    figures=_figures,
    json=_json,
    findings=_findings,
)

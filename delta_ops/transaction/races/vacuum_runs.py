"""Vacuum runs: whether the history records a vacuum that has begun and not ended.

A vacuum reads the log and then deletes files; nothing can stop it in between. It therefore commits
VACUUM START, reads the log again, deletes, and commits VACUUM END. A writer can put removed files
back safely under two conditions: no run is open at the version that the writer read, and no run
begins before the writer's commit. A run that begins later sees that commit. A vacuum that commits
nothing (`delta_ops.vacuum.logging`) cannot be detected.

Our own runs are recorded as txns. Each run takes a free slot, which is a pair of application ids,
and ends only its own slot. The end of one vacuum therefore never hides another open vacuum.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from delta_ops.clock import DAY_MS
from delta_ops.errors import CommitConflictError
from delta_ops.log import Snapshot
from delta_ops.log.history.history import load_history
from delta_ops.option_words import option
from delta_ops.protocol.actions import SetTransaction
from delta_ops.transaction.idempotency import MAINTENANCE_PREFIX

START, END = "VACUUM START", "VACUUM END"
"""Operations of commitInfo, as the reference names them."""

_DEAD_AFTER_MS = DAY_MS
"""Older runs count as killed; a run that takes longer begins a new run before this age."""
_LOOKED_AT = 20
"""Newest commits that are searched for vacuums of engines that record no txn."""


class LoggedVacuum(NamedTuple):
    """One of our vacuum runs, as the table's txns record it."""

    slot: int
    version: int
    """The version that it was planned on; different for all runs of a slot."""


def run_app_id(snapshot: Snapshot, phase: str, slot: int = 0) -> str:
    """The application id of the "start" or "end" of one of our vacuum runs.

    The table id is a part of it: a clone may have the txns of its source, and its versions begin
    at 0 again.
    """
    return f"{MAINTENANCE_PREFIX}vacuum:{snapshot.metadata.id}:{slot}:{phase}"


def next_run(snapshot: Snapshot, *, now_ms: int) -> LoggedVacuum:
    """The run for a vacuum planned on this version, in the first free slot."""
    taken = {run.slot for run in open_runs(snapshot, now_ms=now_ms)}
    return LoggedVacuum(next(slot for slot in count() if slot not in taken), snapshot.version)


def open_runs(snapshot: Snapshot, *, now_ms: int) -> list[LoggedVacuum]:
    """Our runs that have begun and not ended, without runs so old that they count as killed."""
    return [
        LoggedVacuum(slot, begun.version)
        for slot, begun in _unended_runs(snapshot)
        if now_ms - _begun_ms(begun, now_ms) < _DEAD_AFTER_MS
    ]


def is_visible_to_writers(snapshot: Snapshot, run: LoggedVacuum, *, now_ms: int) -> bool:
    """Whether other writers see the run as open, and will for another half day."""
    return any(
        (slot, begun.version) == run and now_ms - _begun_ms(begun, now_ms) < _DEAD_AFTER_MS // 2
        for slot, begun in _unended_runs(snapshot)
    )


def is_vacuum_open(snapshot: Snapshot, *, now_ms: int) -> bool:
    """Whether a vacuum of any engine may be deleting files.

    Args:
        snapshot: The latest version.
        now_ms: Milliseconds since the Unix epoch.
    """
    if open_runs(snapshot, now_ms=now_ms):
        return True
    ends = 0
    for entry in load_history(
        snapshot.storage, snapshot.log_directory, _LOOKED_AT, base=snapshot.base
    ):
        if entry.operation == END:
            ends += 1
        elif entry.operation == START and ends:
            ends -= 1
        elif entry.operation == START:
            return now_ms - entry.timestamp_ms < _DEAD_AFTER_MS
    return False


def validate_no_vacuum(snapshot: Snapshot, *, now_ms: int) -> None:
    """Reject putting files back while a vacuum may be deleting them.

    Raises:
        CommitConflictError: A vacuum has begun and not ended.
    """
    if is_vacuum_open(snapshot, now_ms=now_ms):
        raise CommitConflictError(
            snapshot.uri,
            snapshot.version,
            "records the start of a vacuum without its end: it may delete files that this "
            "operation restores. Wait until it has ended, or pass "
            f"{option('vacuum_was_killed')} if its process was killed",
            "vacuum",
        )


def _unended_runs(snapshot: Snapshot) -> Iterator[tuple[int, SetTransaction]]:
    """Each slot whose run has not ended, with the txn of its start."""
    txns = snapshot.transactions()
    for slot in count():
        begun = txns.get(run_app_id(snapshot, "start", slot))
        if begun is None:
            return
        ended = txns.get(run_app_id(snapshot, "end", slot))
        if ended is None or ended.version < begun.version:
            yield slot, begun


def _begun_ms(begun: SetTransaction, now_ms: int) -> int:
    return now_ms if begun.last_updated is None else begun.last_updated

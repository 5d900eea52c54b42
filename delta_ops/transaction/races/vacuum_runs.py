"""Vacuum runs: whether the history tells of a vacuum that has begun and not ended.

A vacuum looks at the log, then deletes; between the two nobody can stop it. It commits VACUUM START
before its first deletion and VACUUM END after its last one, and looks at the log again in between.
So whoever brings back files that were removed is safe from it in any order of the two, if no run is
open at the version that they looked at, and none begins before their own commit: a run that begins
later sees that commit. Vacuums that commit nothing (`delta_ops.vacuum.logging`) give no such sign.

Runs of ours are told by txns. Each run takes a slot, a pair of application ids, that no open run
has, and ends no slot but its own: the end of one vacuum says nothing of another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from delta_ops.clock import DAY_MS
from delta_ops.log import Snapshot
from delta_ops.log.history.history import load_history
from delta_ops.protocol.actions import SetTransaction
from delta_ops.transaction.idempotency import MAINTENANCE_PREFIX

START, END = "VACUUM START", "VACUUM END"
"""Operations of commitInfo, as the reference names them."""

_DEAD_AFTER_MS = DAY_MS
"""A run that was killed never ends; one that goes on for longer has begun another meanwhile."""
_LOOKED_AT = 20
"""Newest commits, for engines whose vacuum leaves no txn."""


class LoggedVacuum(NamedTuple):
    """A vacuum of ours, as the table's history reports it."""

    slot: int
    version: int
    """The version that it was planned on; no two runs of a slot have the same."""


def run_app_id(snapshot: Snapshot, phase: str, slot: int = 0) -> str:
    """The application id under which a vacuum of ours begins ("start") or ends ("end") a run.

    A clone starts its versions anew and may have taken over the txns: it has another id.
    """
    return f"{MAINTENANCE_PREFIX}vacuum:{snapshot.metadata.id}:{slot}:{phase}"


def next_run(snapshot: Snapshot, *, now_ms: int) -> LoggedVacuum:
    """The run that a vacuum planned on this version begins: in the first slot that is free."""
    taken = {run.slot for run in open_runs(snapshot, now_ms=now_ms)}
    return LoggedVacuum(next(slot for slot in count() if slot not in taken), snapshot.version)


def open_runs(snapshot: Snapshot, *, now_ms: int) -> list[LoggedVacuum]:
    """The runs of ours that have begun and not ended, and are not old enough to be dead."""
    return [
        LoggedVacuum(slot, begun.version)
        for slot, begun in _unended_runs(snapshot)
        if now_ms - _begun_ms(begun, now_ms) < _DEAD_AFTER_MS
    ]


def is_heeded(snapshot: Snapshot, run: LoggedVacuum, *, now_ms: int) -> bool:
    """Whether others see that the run is open, and will for half a day more."""
    return any(
        (slot, begun.version) == run and now_ms - _begun_ms(begun, now_ms) < _DEAD_AFTER_MS // 2
        for slot, begun in _unended_runs(snapshot)
    )


def is_vacuum_open(snapshot: Snapshot, *, now_ms: int) -> bool:
    """Whether a vacuum, of whatever engine, may be deleting files at this moment.

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


def _unended_runs(snapshot: Snapshot) -> Iterator[tuple[int, SetTransaction]]:
    """Each slot that was begun and not ended, with its beginning."""
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

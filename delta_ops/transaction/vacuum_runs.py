"""Vacuum runs: whether the history tells of a vacuum that has begun and not ended.

A vacuum looks at the log, then deletes; between the two nobody can stop it. It commits VACUUM START
before its first deletion and VACUUM END after its last one, and looks at the log again in between.
So whoever brings back files that were removed is safe from it in any order of the two, if no run is
open at the version that they looked at, and none begins before their own commit: a run that begins
later sees that commit. Vacuums that commit nothing (`delta_ops.vacuum.logging`) give no such sign.
"""

from __future__ import annotations

from delta_ops.clock import DAY_MS
from delta_ops.log import Snapshot
from delta_ops.log.history import load_history
from delta_ops.transaction.idempotency import MAINTENANCE_PREFIX

START, END = "VACUUM START", "VACUUM END"
"""Operations of commitInfo, as the reference names them."""

_DEAD_AFTER_MS = DAY_MS
"""A run that was killed never ends; one that goes on for longer has looked at the log since."""
_LOOKED_AT = 20
"""Newest commits, for engines whose vacuum leaves no txn."""


def run_app_id(snapshot: Snapshot, phase: str) -> str:
    """The application id under which a vacuum of ours begins ("start") or ends ("end") a run.

    A clone starts its versions anew and may have taken over the txns: it has another id.
    """
    return f"{MAINTENANCE_PREFIX}vacuum:{snapshot.metadata.id}:{phase}"


def unfinished_run(snapshot: Snapshot) -> int | None:
    """The version that a vacuum of ours was planned on which began and has not ended."""
    txns = snapshot.transactions()
    begun, ended = (txns.get(run_app_id(snapshot, phase)) for phase in ("start", "end"))
    if begun is None or (ended is not None and ended.version >= begun.version):
        return None
    return begun.version


def is_vacuum_open(snapshot: Snapshot, *, now_ms: int) -> bool:
    """Whether a vacuum, of whatever engine, may be deleting files at this moment.

    Args:
        snapshot: The latest version.
        now_ms: Milliseconds since the Unix epoch.
    """
    if unfinished_run(snapshot) is not None:
        begun = snapshot.transactions()[run_app_id(snapshot, "start")]
        begun_ms = now_ms if begun.last_updated is None else begun.last_updated
    else:
        history = load_history(
            snapshot.storage, snapshot.log_directory, _LOOKED_AT, base=snapshot.base
        )
        newest = next((e for e in history if e.operation in (START, END)), None)
        if newest is None or newest.operation == END:
            return False
        begun_ms = newest.timestamp_ms
    return now_ms - begun_ms < _DEAD_AFTER_MS

"""Conflicts: whether a commit that came first invalidates ours. No I/O.

Source: PROTOCOL.md, "Delta Log Entries". The order of the checks is the reference's: protocol,
metadata, domain, txn, adds against reads, removes against reads, removes against removes.

The checks depend on the isolation level of our commit:

1. `Serializable`: the result is as if the commits ran one after the other, in the order of their
   versions.
2. `WriteSerializable`: the same, in some order. A concurrent blind append depends on nothing, so
   its rows may count as added after ours. If a third commit read these rows before ours, such an
   order may not exist, but the log does not record reads. The reference has the same gap.
3. `SnapshotIsolation`, for a rearrangement (`dataChange` false in all file actions): concurrently
   added or removed rows do not matter; each replaced file must still be live. A `txn` in a
   rearrangement does not change this, because txns have their own check.

At every level, no file action of a winner invalidates a blind append, because a blind append reads
nothing. A winner that only rearranges rows conflicts only with a commit that replaces the same
files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.errors import CommitConflictError
from delta_ops.log.commit_file import Commit
from delta_ops.log.snapshot import Snapshot
from delta_ops.log.version import pruning
from delta_ops.protocol.arrow_schemas import CANONICAL_PATH
from delta_ops.protocol.arrow_values import TRUE_SCALAR
from delta_ops.protocol.columns.identity import only_moves_marks
from delta_ops.protocol.file_paths import canonical_paths
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.properties.values import IsolationLevel
from delta_ops.transaction.races.vacuum_runs import START as VACUUM_START

ConflictKind = Literal[
    "protocol",
    "metadata",
    "domain",
    "txn",
    "concurrent append",
    "delete read",
    "delete delete",
    "vacuum",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Why a winning commit invalidates ours."""

    kind: ConflictKind
    version: int
    """The winner's version."""
    reason: str
    """The action of the winner, to follow "version N was committed first and"."""
    evidence: tuple[str, ...] = ()
    """Some of the files, application ids or domains concerned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """The rows and files that our commit has read and changes."""

    reads: tuple[Predicate, ...]
    """Our commit has read each row that matches one of these predicates."""
    removed_paths: frozenset[str]
    """Canonical paths of the files that we remove and have read."""
    app_ids: frozenset[str]
    domains: frozenset[str]
    changes_metadata: bool
    isolation: IsolationLevel | Literal["SnapshotIsolation"]
    changes_all_it_reads: bool = False
    """Whether our commit deletes or replaces every row that matches `reads`."""
    puts_back: bool = False
    """Whether we add files that were removed earlier, which a vacuum may delete."""
    partition_time_zone: str = "UTC"
    """Time zone for partition timestamps without one."""
    named_again: frozenset[str] = frozenset()
    """Canonical paths of the files that we add and that the log already knows. A winner with an
    action for such a file may have removed it or replaced its deletion vector."""


def conflict_error(conflict: Conflict, table: str) -> CommitConflictError:
    """The error for a conflict."""
    return CommitConflictError(
        table, conflict.version, conflict.reason, conflict.kind, conflict.evidence
    )


def find_conflict(
    winner: Commit, ours: Footprint, snapshot: Snapshot, earlier: Sequence[Commit] = ()
) -> Conflict | None:
    """Find the first reason why `winner` invalidates our commit; None without a conflict.

    Args:
        winner: A commit after the snapshot.
        ours: The rows and files that our commit reads and changes.
        snapshot: The snapshot that our commit was prepared on.
        earlier: The commits between snapshot and winner, already judged as no conflict.
    """
    return (
        _protocol(winner)
        or _metadata(winner, ours, snapshot)
        or _domain(winner, ours)
        or _txn(winner, ours)
        or _append_conflict(winner, ours, snapshot)
        or _read_conflict(winner, ours, snapshot, earlier)
        or _delete_conflict(winner, ours, snapshot)
        or _name_conflict(winner, ours, snapshot)
        or _vacuum_conflict(winner, ours)
    )


def _protocol(winner: Commit) -> Conflict | None:
    if winner.protocol is None:
        return None
    return Conflict(
        kind="protocol", version=winner.version, reason="changed the protocol of the table"
    )


def _metadata(winner: Commit, ours: Footprint, snapshot: Snapshot) -> Conflict | None:
    if winner.metadata is None:
        return None
    if not ours.changes_metadata and only_moves_marks(snapshot.metadata, winner.metadata):
        return None  # new identity marks matter only to a commit that changes the metadata
    return Conflict(
        kind="metadata",
        version=winner.version,
        reason="changed the schema, partitioning or properties of the table",
    )


def _domain(winner: Commit, ours: Footprint) -> Conflict | None:
    both = sorted(ours.domains & {domain.domain for domain in winner.domains})
    if not both:
        return None
    return Conflict(
        kind="domain",
        version=winner.version,
        reason=f"changed the domain {both[0]} too",
        evidence=tuple(both),
    )


def _txn(winner: Commit, ours: Footprint) -> Conflict | None:
    both = sorted(ours.app_ids & {txn.app_id for txn in winner.transactions})
    if not both:
        return None
    return Conflict(
        kind="txn",
        version=winner.version,
        reason=f"has a txn of the same application {both[0]}",
        evidence=tuple(both),
    )


def _append_conflict(winner: Commit, ours: Footprint, snapshot: Snapshot) -> Conflict | None:
    if ours.isolation == "SnapshotIsolation" or not ours.reads or not len(winner.adds):
        return None
    if (
        ours.isolation == "WriteSerializable"
        and not ours.changes_metadata
        and _is_blind_append(winner)
    ):
        return None
    for predicate in ours.reads:
        added = winner.adds.filter(_changes_data(winner.adds))
        matching = _matching(added, predicate, ours, snapshot)
        if len(matching):
            return Conflict(
                kind="concurrent append",
                version=winner.version,
                reason="added rows to what this operation has read",
                evidence=tuple(matching["path"].slice(0, 3).to_pylist()),
            )
    return None


def _matching(
    files: pa.Table, predicate: Predicate, ours: Footprint, snapshot: Snapshot
) -> pa.Table:
    zone = ours.partition_time_zone
    return pruning.match_files(files, predicate, snapshot.definition, snapshot.uri, zone)


def _read_conflict(
    winner: Commit, ours: Footprint, snapshot: Snapshot, earlier: Sequence[Commit]
) -> Conflict | None:
    # Removes of a rearrangement do not count: their rows are in other files.
    removes = winner.removes.filter(_changes_data(winner.removes))
    if ours.isolation == "SnapshotIsolation" or not ours.reads or not len(removes):
        return None
    removed = _paths(removes, snapshot)
    live = snapshot.stream_live(["path", CANONICAL_PATH, "partitionValues", "stats"])
    for files in chain(live, _rearranged_files(earlier, snapshot)):
        candidates = files.filter(pc.is_in(files[CANONICAL_PATH], value_set=removed))
        for predicate in ours.reads if len(candidates) else ():
            matching = _matching(candidates, predicate, ours, snapshot)
            if len(matching):
                return Conflict(
                    kind="delete read",
                    version=winner.version,
                    reason="removed files that this operation has read",
                    evidence=tuple(matching["path"].slice(0, 3).to_pylist()),
                )
    return None


def _rearranged_files(earlier: Sequence[Commit], snapshot: Snapshot) -> Iterator[pa.Table]:
    """New files of compactions among the earlier winners.

    Our commit may have read their rows in older files, so removing them conflicts with our commit.
    """
    for commit in earlier:
        if not len(commit.removes):
            continue
        adds = commit.adds.filter(pc.invert(_changes_data(commit.adds)))
        yield adds.append_column(CANONICAL_PATH, [_paths(adds, snapshot)])


def _delete_conflict(winner: Commit, ours: Footprint, snapshot: Snapshot) -> Conflict | None:
    if not len(winner.removes) or not ours.removed_paths:
        return None
    gone = sorted(ours.removed_paths & set(_paths(winner.removes, snapshot).to_pylist()))
    if not gone:
        return None
    return Conflict(
        kind="delete delete",
        version=winner.version,
        reason=f"removed {len(gone)} of the files that this operation replaces",
        evidence=tuple(gone[:3]),
    )


def _name_conflict(winner: Commit, ours: Footprint, snapshot: Snapshot) -> Conflict | None:
    if not ours.named_again:
        return None
    named = {
        path
        for files in (winner.adds, winner.removes)
        for path in _paths(files, snapshot).to_pylist()
    }
    both = sorted(ours.named_again & named)
    if not both:
        return None
    return Conflict(
        kind="delete delete",
        version=winner.version,
        reason=f"changed {len(both)} of the files that this operation restores or updates",
        evidence=tuple(both[:3]),
    )


def _vacuum_conflict(winner: Commit, ours: Footprint) -> Conflict | None:
    operation = winner.info.values.get("operation") if winner.info else None
    if not ours.puts_back or operation != VACUUM_START:
        return None
    return Conflict(
        kind="vacuum",
        version=winner.version,
        reason="began to vacuum files that this operation may bring back",
    )


def _is_blind_append(winner: Commit) -> bool:
    """Whether commitInfo declares a blind append and the commit removes no file."""
    info = winner.info.values if winner.info else {}
    return info.get("isBlindAppend") is True and not len(winner.removes)


def _changes_data(actions: pa.Table) -> pa.ChunkedArray:
    """Whether each action changes data; an action without `dataChange` counts as a change."""
    return pc.fill_null(actions["dataChange"], TRUE_SCALAR)


def _paths(actions: pa.Table, snapshot: Snapshot) -> pa.Array:
    """Canonical paths of the actions, files with a replaced deletion vector included."""
    return canonical_paths(actions["path"].combine_chunks(), snapshot.uri)

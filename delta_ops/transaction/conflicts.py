"""Conflicts: what a commit that came first means for ours. Pure.

Source: PROTOCOL.md, "Delta Log Entries"; the order is the reference's: protocol, metadata, domain,
txn, adds against what was read, deletes against what was read, delete against delete.

A blind append read nothing, so no file action of a winner can invalidate it. A rearrangement
(`dataChange` false throughout) leaves the rows as they were, so rows added meanwhile do not matter
to it; a file that it replaces must still be there. The `txn` of a rearrangement does not change
that: it has a check of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.log import pruning
from delta_ops.log.commit_file import Commit
from delta_ops.log.snapshot import Snapshot
from delta_ops.protocol.arrow_schemas import CANONICAL_PATH
from delta_ops.protocol.file_paths import canonical_paths
from delta_ops.protocol.predicate import Predicate

ConflictKind = Literal[
    "protocol", "metadata", "domain", "txn", "concurrent append", "delete read", "delete delete"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Why a winning commit invalidates ours."""

    kind: ConflictKind
    version: int
    """The winner's."""
    reason: str
    """What the winner did, to follow "version N was committed first and"."""
    evidence: tuple[str, ...] = ()
    """Some of the files, application ids or domains concerned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """What our commit read and changes."""

    reads: tuple[Predicate, ...]
    """Rows for which one of them is true were read."""
    removed_paths: frozenset[str]
    """Canonical paths of the files that we remove; all of them were read."""
    app_ids: frozenset[str]
    domains: frozenset[str]
    changes_protocol: bool
    only_rearranges: bool


def find_conflict(winner: Commit, ours: Footprint, snapshot: Snapshot) -> Conflict | None:
    """The first reason why `winner` invalidates our commit; None if it does not.

    Args:
        winner: A commit after the snapshot that ours was prepared on.
        ours: What ours reads and changes.
        snapshot: The table that ours was prepared on.
    """
    return (
        _protocol(winner)
        or _metadata(winner)
        or _domain(winner, ours)
        or _txn(winner, ours)
        or _appended(winner, ours, snapshot)
        or _deleted_read(winner, ours, snapshot)
        or _deleted(winner, ours, snapshot)
    )


def _protocol(winner: Commit) -> Conflict | None:
    if winner.protocol is None:
        return None
    return Conflict(
        kind="protocol", version=winner.version, reason="changed the protocol of the table"
    )


def _metadata(winner: Commit) -> Conflict | None:
    if winner.metadata is None:
        return None
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
        reason=f"carries a txn of the same application {both[0]}",
        evidence=tuple(both),
    )


def _appended(winner: Commit, ours: Footprint, snapshot: Snapshot) -> Conflict | None:
    if ours.only_rearranges or not ours.reads or not len(winner.adds):
        return None
    for predicate in ours.reads:
        # A rearrangement of the winner adds no rows; its removes are what can hurt us. A writer
        # that does not say whether it changes data may have done so.
        added = winner.adds.filter(pc.fill_null(winner.adds["dataChange"], True))
        matching = pruning.matching(added, predicate, snapshot)
        if len(matching):
            return Conflict(
                kind="concurrent append",
                version=winner.version,
                reason="added rows to what this operation has read",
                evidence=tuple(matching["path"].slice(0, 3).to_pylist()),
            )
    return None


def _deleted_read(winner: Commit, ours: Footprint, snapshot: Snapshot) -> Conflict | None:
    if ours.only_rearranges or not ours.reads or not len(winner.removes):
        return None
    removed = _removed_paths(winner, snapshot)
    for files in snapshot.stream_live(["path", CANONICAL_PATH, "partitionValues", "stats"]):
        candidates = files.filter(pc.is_in(files[CANONICAL_PATH], value_set=removed))
        for predicate in ours.reads if len(candidates) else ():
            matching = pruning.matching(candidates, predicate, snapshot)
            if len(matching):
                return Conflict(
                    kind="delete read",
                    version=winner.version,
                    reason="removed files that this operation has read",
                    evidence=tuple(matching["path"].slice(0, 3).to_pylist()),
                )
    return None


def _deleted(winner: Commit, ours: Footprint, snapshot: Snapshot) -> Conflict | None:
    if not len(winner.removes) or not ours.removed_paths:
        return None
    gone = sorted(ours.removed_paths & set(_removed_paths(winner, snapshot).to_pylist()))
    if not gone:
        return None
    return Conflict(
        kind="delete delete",
        version=winner.version,
        reason=f"removed {len(gone)} of the files that this operation replaces",
        evidence=tuple(gone[:3]),
    )


def _removed_paths(winner: Commit, snapshot: Snapshot) -> pa.Array:
    """Canonical paths; a file of which a deletion vector is replaced is among them."""
    return canonical_paths(winner.removes["path"].combine_chunks(), snapshot.uri)

"""Proposals: a commit that is complete except for its version.

Source: PROTOCOL.md, "Commit Provenance Information", "Writer Requirements for Row Tracking",
"Writer Requirements for In-Commit Timestamps". No I/O.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from delta_ops.log import Snapshot
from delta_ops.protocol.actions import Action, Metadata, Protocol
from delta_ops.protocol.properties.known import IN_COMMIT_TIMESTAMPS
from delta_ops.protocol.row_tracking import counts_rows, high_water_mark
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.transaction.changes import Draft
from delta_ops.transaction.commit.info import commit_info
from delta_ops.transaction.idempotency import Txn
from delta_ops.transaction.races.conflicts import Footprint


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The operation, as `commitInfo` records it."""

    operation: str
    parameters: Mapping[str, Any]
    metrics: Mapping[str, int]
    user_metadata: str | None
    texts: Mapping[str, str] = field(default_factory=dict)
    """More fields of `commitInfo`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A commit that is complete except for its version."""

    actions: tuple[Action, ...]
    """All actions except commitInfo, in the order of the commit file."""
    info: Mapping[str, Any]
    """commitInfo without `timestamp` and `readVersion`."""
    txn_id: str
    """`commitInfo.txnId`: identifies our own commit."""
    footprint: Footprint
    txns: tuple[Txn, ...]
    begun_ms: int
    """When the snapshot was loaded, in milliseconds since the Unix epoch."""
    log_retention_ms: int
    """Commits younger than this are not cleaned up."""
    in_commit_timestamps: bool = False
    """Whether each commit of the table records its time, which must increase."""
    begins_timestamps: bool = False
    """Whether this is the first commit with a time, of a table with earlier commits."""
    row_id_mark: int | None = None
    """The greatest row id in the table; None: the table assigns no row ids."""


def propose(
    draft: Draft,
    definition: TableDefinition,
    snapshot: Snapshot | None,
    description: Description,
    footprint: Footprint,
    *,
    table: str,
    begun_ms: int,
    now_ms: int,
) -> Proposal:
    """The commit of a draft.

    Args:
        definition: The table after the commit.
        snapshot: The table that the draft was prepared on.
        table: For messages.

    Raises:
        InvalidRequestError: The domain with the greatest row id cannot be read.
    """
    return Proposal(
        actions=draft.actions(now_ms),
        info=commit_info(
            description.operation,
            description.parameters,
            description.metrics,
            footprint,
            description.user_metadata,
            definition,
            description.texts,
        ),
        txn_id=draft.txn_id or str(uuid.uuid4()),
        footprint=footprint,
        txns=tuple(draft.txns.values()),
        begun_ms=begun_ms,
        log_retention_ms=definition.properties.log_retention_ms,
        in_commit_timestamps=definition.properties.in_commit_timestamps,
        begins_timestamps=_begins_timestamps(definition, snapshot),
        row_id_mark=_row_id_mark(definition, snapshot, table),
    )


def propose_for_existing(proposal: Proposal, created: Snapshot) -> Proposal:
    """The proposal without its definition, for a table that another writer created first."""
    definition = created.definition
    return replace(
        proposal,
        actions=tuple(a for a in proposal.actions if not isinstance(a, Protocol | Metadata)),
        in_commit_timestamps=definition.properties.in_commit_timestamps,
        row_id_mark=_row_id_mark(definition, created, created.uri),
    )


def _begins_timestamps(definition: TableDefinition, snapshot: Snapshot | None) -> bool:
    if snapshot is None or not definition.properties.in_commit_timestamps:
        return False
    # Parse only this property: the commit may repair a malformed value of another property.
    return not IN_COMMIT_TIMESTAMPS.value_in(snapshot.metadata.configuration)


def _row_id_mark(definition: TableDefinition, snapshot: Snapshot | None, table: str) -> int | None:
    if not counts_rows(definition):
        return None
    known = snapshot.domain_metadata() if snapshot else {}
    return high_water_mark(known, table)

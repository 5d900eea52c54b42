"""Plans the commit of a restore from two versions of a table. Writes nothing.

Source: PROTOCOL.md, "Action Reconciliation", "Transaction Identifiers", "Requirements for Writers";
the rules of Delta Lake where the protocol is silent.

1. A file is identified by its path and its deletion vector. A file that only the older version has
   is added as in that version. A file that only the latest version has is removed. A file that both
   have stays as in the latest version.
2. The metadata comes from the older version. The protocol stays the latest: a lower protocol would
   make versions in between unreadable. In-commit timestamps continue once enabled. Domains belong
   to their writers and stay; only the clustering domain comes from the older version.
3. Each application gets its txn version of the older version back, so that a rerun writes the
   undone rows again; Delta Lake keeps the txn, so its rerun does not. An application without a txn
   in the older version gets -1, which is below every batch number, because a txn cannot be removed.
   Txns of maintenance stay: they contain table versions, which only grow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.log.version.reconciliation import file_rows
from delta_ops.maintenance.set_back import transactions_to_set_back
from delta_ops.protocol.actions import AddFile, Metadata
from delta_ops.protocol.arrow_schemas import ADD, add_files
from delta_ops.protocol.features import lacking_features
from delta_ops.protocol.schema import ColumnPath

_KEPT_PROPERTIES = (
    "delta.requireCheckpointProtectionBeforeVersion",
    "delta.enableInCommitTimestamps",
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """The changes from the latest version to the older one."""

    version: int | None
    """The version to restore.

    None if an earlier run restored it, and the version at the requested time was cleaned up since.
    """
    latest_version: int
    """The latest version that the plan is based on."""
    adds: tuple[AddFile, ...] = ()
    """Files of the older version, as that version describes them."""
    removes: tuple[AddFile, ...] = ()
    """Files of the latest version, as that version describes them."""
    metadata: Metadata | None = None
    """None: the metadata is the same."""
    clustered_by: tuple[ColumnPath, ...] | None = None
    """Clustering columns of the older version, by physical names; None: unchanged."""
    transactions: Mapping[str, int] = field(default_factory=dict)
    """Txn versions to restore, by application id."""

    @property
    def has_work(self) -> bool:
        """Whether the two versions differ."""
        is_other = self.metadata is not None or self.clustered_by is not None
        return bool(self.adds or self.removes or is_other or self.transactions)


def plan_restore(latest: Snapshot, wanted: Snapshot) -> RestorePlan:
    """Plan the changes from the latest version to the wanted one.

    Raises:
        InvalidRequestError: The wanted version needs a feature that was dropped since.
        LogCorruptError: The log is damaged.

    Examples:
        >>> _ = da.delete("lake/orders")
        >>> log = DeltaLog("lake/orders")
        >>> plan = plan_restore(log.snapshot(), log.snapshot(version=0))
        >>> len(plan.adds), len(plan.removes)
        (1, 0)
    """
    validate_arguments(plan_restore, locals())
    if lost := lacking_features(latest.protocol, than=wanted.protocol):
        raise InvalidRequestError(
            f"{latest.uri}: version {wanted.version} has the feature {lost[0]}, which was dropped "
            "later; add it again, then restore"
        )
    metadata, clustered_by = _metadata(latest.metadata, wanted.metadata), _clustering_of(wanted)
    return RestorePlan(
        version=wanted.version,
        latest_version=latest.version,
        adds=_files_not_in(wanted, latest),
        removes=_files_not_in(latest, wanted),
        metadata=None if metadata == latest.metadata else metadata,
        clustered_by=None if clustered_by == _clustering_of(latest) else clustered_by,
        transactions=transactions_to_set_back(latest.transactions(), wanted.transactions()),
    )


def _metadata(latest: Metadata, wanted: Metadata) -> Metadata:
    kept = {
        name: latest.configuration[name]
        for name in _KEPT_PROPERTIES
        if name in latest.configuration
    }
    others = {n: v for n, v in wanted.configuration.items() if n not in _KEPT_PROPERTIES}
    return replace(wanted, configuration={**others, **kept})


def _clustering_of(snapshot: Snapshot) -> tuple[ColumnPath, ...] | None:
    """The clustering columns; None if they are unknown."""
    try:
        return snapshot.clustering_columns
    except InvalidRequestError:
        return None


def _files_not_in(snapshot: Snapshot, other: Snapshot) -> tuple[AddFile, ...]:
    """The files of a version that another lacks or has with another deletion vector."""
    keys = [
        chunk
        for table in other.stream_live(["path", "deletionVector"])
        for chunk in file_rows(table, other.uri).keys.chunks
    ]
    known = pa.chunked_array(keys, pa.string())
    found: list[AddFile] = []
    for table in snapshot.stream_live(ADD.names):
        rows = file_rows(table, snapshot.uri)
        found += add_files(rows.filter(pc.invert(pc.is_in(rows.keys, value_set=known))).rows)
    return tuple(found)

"""Clustering: sets the columns that order the rows of a table's files.

Source: PROTOCOL.md, "Clustered Table".

No file is rewritten; `optimize` does that. New files get statistics of these columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from delta_ops.arguments import validate_arguments
from delta_ops.ddl.alter import Alteration, alter
from delta_ops.log import TableOrPlace
from delta_ops.protocol.columns.clustering import find_clustering
from delta_ops.protocol.schema import leaves
from delta_ops.protocol.schema.column_names import name_of_path
from delta_ops.transaction import CommitResult, Transaction, Txn


def cluster_by(
    target: TableOrPlace,
    columns: Sequence[str],
    *,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> CommitResult:
    """Set the clustering columns of the table; without columns the table is not clustered.

    Args:
        columns: Up to four columns, or fields of structs; the most frequent filter comes first.
        txn: Application id and version; a change with a txn that is in the table is not repeated.
        user_metadata: Any text, kept in commitInfo.

    Raises:
        InvalidRequestError: A column does not exist, has no order, or is named twice; more than
            four columns are given; or the table is partitioned.

    Examples:
        >>> cluster_by("lake/orders", ["country"]).version
        1
        >>> DeltaLog("lake/orders").snapshot().clustering_columns
        (('country',),)
    """
    validate_arguments(cluster_by, locals())

    def change(transaction: Transaction) -> Alteration | None:
        definition, before = transaction.definition, transaction.clustering_columns
        wanted = find_clustering(
            columns, definition.schema, definition.partition_columns, transaction.log.uri
        )
        if wanted == before:
            return None
        transaction.set_clustering(wanted)
        names = zip(leaves(definition.physical_schema), leaves(definition.schema), strict=True)
        logical = {stored: name_of_path(path) for (stored, _), (path, _) in names}
        old, new = ([logical[path] for path in each] for each in (before, wanted))
        return Alteration(
            operation="CLUSTER BY",
            parameters={
                "oldClusteringColumns": ",".join(old),
                "newClusteringColumns": ",".join(new),
            },
        )

    return alter(target, change, txn, user_metadata, storage_options, dry_run)

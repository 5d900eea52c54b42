"""Cluster by: the columns by which the files of a table are to be laid out.

Source: PROTOCOL.md, "Clustered Table".

No file is touched: who clusters comes later. New files get statistics of these columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from delta_ops.arguments import validate_arguments
from delta_ops.errors import InvalidRequestError
from delta_ops.log import TableOrPlace
from delta_ops.protocol.columns.mapping import physical_path
from delta_ops.protocol.schema import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ColumnPath,
    DecimalType,
    leaves,
)
from delta_ops.protocol.schema.column_names import name_of_path
from delta_ops.transaction.alter_table import Alteration, alter
from delta_ops.transaction.column_changes import find_column
from delta_ops.transaction.idempotency import Txn
from delta_ops.transaction.result import CommitResult
from delta_ops.transaction.transaction import Transaction

_MAX_COLUMNS = 4
_ORDERED = (BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE, DATE, TIMESTAMP, TIMESTAMP_NTZ, STRING)


def cluster_by(
    target: TableOrPlace,
    columns: Sequence[str],
    *,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> CommitResult:
    """Say by which columns, or fields of structs, the table is clustered; by none if none is given.

    Args:
        columns: Up to four, the one that most reads choose by first.
        txn: Application id and version: a change that the table holds already is not made again.
        user_metadata: Any text, kept in commitInfo.

    Raises:
        InvalidRequestError: There is no such column, it has no order, it is named twice, there are
            more than four, or the table is partitioned.
    """
    validate_arguments(cluster_by, locals())

    def change(transaction: Transaction) -> Alteration | None:
        definition, before = transaction.definition, transaction.clustering_columns
        wanted = find_clustering(transaction, columns)
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


def find_clustering(transaction: Transaction, columns: Sequence[str]) -> tuple[ColumnPath, ...]:
    """The columns by physical names, if the table can be clustered by them.

    Raises:
        InvalidRequestError: As `cluster_by`.
    """
    paths = [find_column(transaction, each)[0] for each in columns]
    if paths:
        _validate(paths, transaction)
    return tuple(physical_path(path, transaction.schema) for path in paths)


def _validate(paths: Sequence[ColumnPath], transaction: Transaction) -> None:
    table, types = transaction.log.uri, dict(leaves(transaction.schema))
    if transaction.definition.partition_columns:
        raise InvalidRequestError(
            f"{table} is partitioned, and a table is either partitioned or clustered; write it "
            "anew without partitions (overwrite_schema=True, partition_by=[])"
        )
    if len(paths) > _MAX_COLUMNS or len(set(paths)) < len(paths):
        raise InvalidRequestError(
            f"{table}: a table is clustered by up to {_MAX_COLUMNS} columns, each named once"
        )
    for path in paths:
        data_type = types.get(path)
        if not (isinstance(data_type, DecimalType) or data_type in _ORDERED):
            raise InvalidRequestError(
                f"{table}: column {name_of_path(path)} cannot be clustered by: its type has no "
                "statistics of smallest and largest values"
            )

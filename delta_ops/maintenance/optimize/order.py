"""Resolves the order to lay a table out by: `zorder_by` or the clustering columns."""

from __future__ import annotations

from collections.abc import Sequence

from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.option_words import option
from delta_ops.protocol.columns.mapping import physical_path
from delta_ops.protocol.properties.known import SORT_KEY
from delta_ops.protocol.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER_RANGES,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ColumnPath,
    DecimalType,
    drop_hidden,
    leaves,
)
from delta_ops.protocol.schema.changes import find_by_path
from delta_ops.protocol.schema.column_names import name_of_path, path_of_name
from delta_ops.protocol.sort_key import sort_columns
from delta_ops.protocol.stats.indexed_columns import indexed_data_leaves
from delta_ops.transaction.rewrite_group import MAX_ORDER_COLUMNS, Curve, CurveOrder

_ORDERED = (*INTEGER_RANGES, FLOAT, DOUBLE, DATE, TIMESTAMP, TIMESTAMP_NTZ, STRING, BINARY, BOOLEAN)
_WITHOUT_BOUNDS = (BINARY, BOOLEAN)
"""These types help to skip row groups, but not files."""


def zorder(snapshot: Snapshot, names: Sequence[str], curve: Curve) -> CurveOrder:
    """The order by the named columns.

    Raises:
        InvalidRequestError: A column does not exist, has no order or no statistics, is named twice
            or is a partition column; there are too many columns; or the table is clustered.
    """
    table, schema = snapshot.uri, snapshot.schema
    if snapshot.clustering_columns:
        raise InvalidRequestError(
            f"{table} is clustered, so optimize orders it by its clustering columns; leave out "
            f"{option('zorder_by')}, or cluster the table by other columns "
            f"({option('ddl.cluster_by')})",
            "DELTA_CLUSTERING_WITH_ZORDER_BY",
        )
    paths = tuple(find_by_path(schema, path_of_name(name, schema))[0] for name in names)
    key = tuple(each.name for each in sort_columns(snapshot.definition))
    if key and paths != (key[:1],):
        raise InvalidRequestError(
            f"{table} has the sort key {', '.join(key)}, by which writers sort "
            f"each file; give {option('zorder_by')} only its first column, or remove the property "
            f"{SORT_KEY.name}"
        )
    if not paths or len(paths) > MAX_ORDER_COLUMNS or len(set(paths)) < len(paths):
        raise InvalidRequestError(
            f"{table}: rows are ordered by one to {MAX_ORDER_COLUMNS} columns, each named once, "
            f"not by {', '.join(names) or 'none'}"
        )
    for path in paths:
        validate_axis(path, snapshot)
    return CurveOrder(columns=paths, curve=curve)


def clustering_order(snapshot: Snapshot) -> CurveOrder | None:
    """The order by the table's clustering columns; None if it has none."""
    clustered_by = snapshot.clustering_columns
    if not clustered_by:
        return None
    definition = snapshot.definition
    names = zip(leaves(definition.physical_schema), leaves(definition.schema), strict=True)
    logical = {stored: path for (stored, _), (path, _) in names}
    missing = next((path for path in clustered_by if path not in logical), None)
    if missing is not None:
        raise InvalidRequestError(
            f"{snapshot.uri} is clustered by the missing column {name_of_path(missing)}; cluster "
            f"it again ({option('ddl.cluster_by')})"
        )
    return CurveOrder(columns=tuple(logical[path] for path in clustered_by), curve="hilbert")


def validate_axis(path: ColumnPath, snapshot: Snapshot) -> None:
    """Reject a column that cannot order rows, or that no read would benefit from.

    Raises:
        InvalidRequestError: It is a partition column, or has no order or no statistics.
    """
    table, name, definition = snapshot.uri, name_of_path(path), snapshot.definition
    if path[0] in definition.partition_columns:
        raise InvalidRequestError(
            f"{table}: column {name} is a partition column, so each file has one value of it; "
            "leave it out",
            "DELTA_ZORDERING_ON_PARTITION_COLUMN",
        )
    data_type = dict(leaves(snapshot.schema)).get(path)
    if not (isinstance(data_type, DecimalType) or data_type in _ORDERED):
        raise InvalidRequestError(
            f"{table}: column {name} has no order, so rows cannot be ordered by it; choose a "
            "column of numbers, strings, dates or times"
        )
    indexed = indexed_data_leaves(
        drop_hidden(definition.physical_schema),
        tuple(definition.partition_names.values()),
        definition.stats_settings,
    )
    if physical_path(path, snapshot.schema) in (known for known, _ in indexed):
        return
    if data_type not in _WITHOUT_BOUNDS:
        raise InvalidRequestError(
            f"{table}: files have no statistics of column {name}, so no read would benefit from "
            "the order; add it to delta.dataSkippingStatsColumns, or raise "
            "delta.dataSkippingNumIndexedCols",
            "DELTA_ZORDERING_ON_COLUMN_WITHOUT_STATS",
        )

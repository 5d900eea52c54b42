"""Clustering columns: the columns that determine a table's layout; they need statistics.

Source: PROTOCOL.md, "Clustered Table", "Writer Requirements for Clustered Table".

Writers may put rows into any file. A later clustering operation uses the statistics to decide what
to rewrite.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from delta_ops.errors import InvalidRequestError
from delta_ops.option_words import option
from delta_ops.protocol.actions import DomainMetadata
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
    StructType,
    leaves,
)
from delta_ops.protocol.schema.changes import find_by_path
from delta_ops.protocol.schema.column_names import name_of_path, path_of_name

CLUSTERING = "delta.clustering"
"""The domain that holds the clustering columns, by their physical names."""
_MAX_COLUMNS = 4
_ORDERED = (BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE, DATE, TIMESTAMP, TIMESTAMP_NTZ, STRING)


def clustering_columns(domains: Mapping[str, DomainMetadata], table: str) -> tuple[ColumnPath, ...]:
    """The clustering columns, by physical names.

    Raises:
        InvalidRequestError: The domain cannot be read.
    """
    domain = domains.get(CLUSTERING)
    if domain is None or domain.removed:
        return ()
    try:
        columns = json.loads(domain.configuration)["clusteringColumns"]
        paths = tuple((each,) if isinstance(each, str) else tuple(each) for each in columns)
        if all(isinstance(name, str) for path in paths for name in path):
            return paths
    except (ValueError, KeyError, TypeError):
        pass
    raise InvalidRequestError(
        f"{table}: the domain {CLUSTERING} does not name the clustering columns "
        f"({domain.configuration[:200]!r}); cluster the table again "
        f"({option('ddl.cluster_by')})"
    )


def find_clustering(
    names: Sequence[str], schema: StructType, partition_columns: Sequence[str], table: str
) -> tuple[ColumnPath, ...]:
    """Find the columns with these names; returns physical names.

    Raises:
        InvalidRequestError: A column does not exist, has no order, or is named twice; more than
            four columns are given; or the table is partitioned.
    """
    paths = [find_by_path(schema, path_of_name(each, schema))[0] for each in names]
    if paths and partition_columns:
        raise InvalidRequestError(
            f"{table} is partitioned, and a table is either partitioned or clustered; overwrite "
            f"it without partitions ({option('overwrite_schema', True)}, "
            f"{option('partition_by', [])})",
            "DELTA_ALTER_TABLE_CLUSTER_BY_ON_PARTITIONED_TABLE_NOT_ALLOWED",
        )
    if len(paths) > _MAX_COLUMNS or len(set(paths)) < len(paths):
        raise InvalidRequestError(
            f"{table}: a table is clustered by up to {_MAX_COLUMNS} columns, each named once"
        )
    types = dict(leaves(schema))
    for path in paths:
        data_type = types.get(path)
        if not (isinstance(data_type, DecimalType) or data_type in _ORDERED):
            raise InvalidRequestError(
                f"{table}: column {name_of_path(path)} cannot be clustered by: its type has no "
                "statistics of smallest and largest values",
                "DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED",
            )
    return tuple(physical_path(path, schema) for path in paths)


def clustering_domain(columns: Iterable[ColumnPath]) -> DomainMetadata:
    """The domain for these columns, given by physical names."""
    value = {"clusteringColumns": [list(path) for path in columns], "domainName": CLUSTERING}
    configuration = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return DomainMetadata(domain=CLUSTERING, configuration=configuration, removed=False)


def validate_clustering(
    columns: tuple[ColumnPath, ...],
    physical_schema: StructType,
    table: str,
    before: StructType | None = None,
) -> None:
    """Reject a schema that lacks a clustering column.

    Args:
        before: The table's current schema, which has the logical names of dropped columns.

    Raises:
        InvalidRequestError: The message names the column.
    """
    known = {path for path, _ in leaves(physical_schema)}
    for path in columns:
        if path not in known:
            name = ".".join(_name_of(path, before))
            raise InvalidRequestError(
                f"{table}: column {name} is a clustering column and would be removed; keep it, or "
                f"cluster the table by other columns first ({option('ddl.cluster_by')})"
            )


def _name_of(path: ColumnPath, schema: StructType | None) -> ColumnPath:
    """The logical path, if the schema has the column; otherwise the path unchanged."""
    if schema is None:
        return path
    paths = (each for each, _ in leaves(schema))
    return next((each for each in paths if physical_path(each, schema) == path), path)

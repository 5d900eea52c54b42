"""Clustering columns: the columns by which a table is laid out, which its statistics must tell of.

Source: PROTOCOL.md, "Clustered Table", "Writer Requirements for Clustered Table".

Any file may lie anywhere: who clusters comes later, and finds by the statistics what to do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.actions import DomainMetadata
from delta_ops.protocol.columns.mapping import physical_path
from delta_ops.protocol.schema import ColumnPath, StructType, leaves

CLUSTERING = "delta.clustering"
"""The domain that holds the clustering columns, by their physical names."""


def clustering_columns(domains: Mapping[str, DomainMetadata], table: str) -> tuple[ColumnPath, ...]:
    """The columns, by physical names.

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
        f"{table}: the domain {CLUSTERING} does not tell the clustering columns "
        f"({domain.configuration[:200]!r}); cluster the table anew (ddl.cluster_by)"
    )


def clustering_domain(columns: Iterable[ColumnPath]) -> DomainMetadata:
    """The domain that tells the columns, by physical names."""
    said = {"clusteringColumns": [list(path) for path in columns], "domainName": CLUSTERING}
    configuration = json.dumps(said, ensure_ascii=False, separators=(",", ":"))
    return DomainMetadata(domain=CLUSTERING, configuration=configuration, removed=False)


def validate_clustering(
    columns: tuple[ColumnPath, ...],
    physical_schema: StructType,
    table: str,
    before: StructType | None = None,
) -> None:
    """Refuse a schema without one of the columns.

    Args:
        before: The schema that the table had until now, which has names for those that are gone.

    Raises:
        InvalidRequestError: With the column.
    """
    known = {path for path, _ in leaves(physical_schema)}
    for path in columns:
        if path not in known:
            name = ".".join(_name_of(path, before))
            raise InvalidRequestError(
                f"{table}: column {name} would be gone, by which the table is clustered; keep it, "
                "or cluster the table by other columns first (ddl.cluster_by)"
            )


def _name_of(path: ColumnPath, schema: StructType | None) -> ColumnPath:
    """The path by the names that users see, if the schema has it; else as it is."""
    if schema is None:
        return path
    paths = (each for each, _ in leaves(schema))
    return next((each for each in paths if physical_path(each, schema) == path), path)

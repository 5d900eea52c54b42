"""Named tables: creates a Delta table together with its name in the session's catalog.

The table comes first and its name last. If two sessions create the same name, the first commit in
the log decides. A name never hides a table: a new managed table needs an empty directory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from delta_ops.errors import InvalidRequestError, TableExistsError, TableNotFoundError
from delta_ops.log import DeltaLog, Snapshot
from delta_ops.protocol.columns.mapping import logical_path
from delta_ops.protocol.schema.column_names import name_of_path
from delta_ops.spark.delta_format.catalog_entries import Place, add_entry, copy_columns
from delta_ops.spark.delta_format.sql_statements import refusal_of_name
from delta_ops.spark.read.read import read

CreateMode = Literal["create", "create if not exists", "replace", "create or replace"]
_Step = Literal["nothing", "name", "create", "replace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """The clauses of a statement. An existing table that gets the name must match them."""

    columns: StructType | None = None
    partition_by: Sequence[str] = ()
    cluster_by: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    has_rows: bool = False
    """Whether the statement also has the rows of the table."""


def create_named(
    spark: SparkSession,
    place: Place,
    log: DeltaLog,
    mode: CreateMode,
    claims: Claims,
    create: Callable[[], object],
) -> bool:
    """Create or replace a table, and add its name to the catalog.

    Args:
        log: The table at the place.
        create: Creates the table, or replaces it in the modes that replace.

    Returns:
        False if the statement has nothing to do, because the name exists.

    Raises:
        InvalidRequestError: The location has files of something else, or the existing table there
            is not the table of the statement.
        TableExistsError: The catalog has the name.
        TableNotFoundError: The catalog does not have the name, and the mode only replaces.
    """
    step = _step(place, log, mode, claims)
    if step == "nothing":
        return False
    if step == "name":
        _validate_claims(spark, place, log, claims)
    else:
        create()
    columns = read(spark, log).schema
    if place.is_known:
        copy_columns(spark, place, columns)
    else:
        add_entry(spark, place, columns)
    return True


def _step(place: Place, log: DeltaLog, mode: CreateMode, claims: Claims) -> _Step:
    if place.is_known and mode == "create if not exists":
        return "nothing"
    if place.is_known and mode == "create":
        raise TableExistsError(place.name, is_named=True)
    if not place.is_known and mode == "replace":
        raise TableNotFoundError(
            place.name, "Create the table first, or write CREATE OR REPLACE TABLE."
        )
    if not log.exists():
        if not place.is_known:
            _require_empty(place, log)
        return "create"
    if mode in ("replace", "create or replace"):
        return "replace"
    if place.is_managed or claims.has_rows:
        raise InvalidRequestError(
            f"{place.name}: there is already a Delta table at {log.uri}; name that table with "
            f"CREATE TABLE {place.name} USING delta LOCATION '...', or choose another name or "
            "location"
        )
    return "name"


def _require_empty(place: Place, log: DeltaLog) -> None:
    found = next(iter(log.storage.list_tree("")), None)
    if found is not None:
        raise InvalidRequestError(
            f"{place.name}: the location {log.uri} is not empty (it has the file {found.path}) "
            "and is not a Delta table; choose another location, convert the files with CONVERT TO "
            "DELTA, or remove them"
        )


def _validate_claims(spark: SparkSession, place: Place, log: DeltaLog, claims: Claims) -> None:
    """Reject a statement that says something else than the existing table."""
    snapshot = log.snapshot()
    if claims.columns is not None:
        columns = read(spark, log).schema
        reason = refusal_of_name(place.path, claims.columns, columns, snapshot)
        if reason is not None:
            raise InvalidRequestError(reason)
    for clause, given, found in _compare_claims(claims, snapshot):
        if given and given != found:
            raise InvalidRequestError(
                f"{place.name}: the Delta table at {log.uri} has {clause} {found or 'nothing'}, "
                f"and the statement says {given}; leave {clause} out, because the table defines it"
            )


def _compare_claims(claims: Claims, snapshot: Snapshot) -> list[tuple[str, object, object]]:
    """Clauses with the value of the statement and the value of the table."""
    known = {_property(name): value for name, value in snapshot.metadata.configuration.items()}
    clusters = [
        name_of_path(logical_path(each, snapshot.schema)) for each in snapshot.clustering_columns
    ]
    return [
        ("PARTITIONED BY", _lower(claims.partition_by), _lower(snapshot.partition_columns)),
        ("CLUSTER BY", _lower(claims.cluster_by), _lower(clusters)),
        ("COMMENT", claims.comment, snapshot.metadata.description),
        *(
            (f"TBLPROPERTIES of {name!r}", value, known.get(_property(name)))
            for name, value in claims.properties.items()
        ),
    ]


def _property(name: str) -> str:
    """Convert the names of Delta's own properties, which ignore case, to lower case."""
    return name.lower() if name.lower().startswith("delta.") else name


def _lower(names: Sequence[str]) -> list[str]:
    return [each.lower() for each in names]

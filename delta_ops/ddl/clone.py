"""Shallow clone: a new table that uses the files of another table without copying them.

Source: PROTOCOL.md, "Add File and Remove File" (a path may be absolute), "Deletion Vectors"; the
operation is the reference's CLONE.

The clone has the columns, properties, domains and features of the source version. It has its own
id, a new history and no txns. The tables are independent afterwards: a vacuum of the source may
delete files that only the clone still uses.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import Any

from delta_ops.arguments import validate_arguments
from delta_ops.clock import Clock, system_clock
from delta_ops.errors import InvalidRequestError, TableExistsError, UnsupportedFeatureError
from delta_ops.log import Snapshot, Source, TableOrPlace, log_of, snapshot_of
from delta_ops.protocol.actions import AddFile, DeletionVector, Metadata
from delta_ops.protocol.columns.clustering import CLUSTERING, clustering_columns
from delta_ops.protocol.columns.identity import remove_marks
from delta_ops.protocol.file_paths import canonical_path, encode_path, is_absolute
from delta_ops.protocol.properties.known import (
    IN_COMMIT_TIMESTAMP_TIME,
    IN_COMMIT_TIMESTAMP_VERSION,
    ROW_TRACKING,
)
from delta_ops.protocol.row_tracking import ROW_TRACKING_DOMAIN
from delta_ops.transaction import CommitResult, Transaction, Txn, begin
from delta_ops.transaction.changes import PutBack
from delta_ops.transaction.races.missing_files import vector_path
from delta_ops.transaction.table_change import SetDefinition

_KNOWN_DOMAINS = (CLUSTERING, ROW_TRACKING_DOMAIN)
"""Protocol domains that a clone supports; the high-water mark of row ids follows from its files."""


def shallow_clone(
    source: Source,
    target: TableOrPlace,
    *,
    version: int | None = None,
    timestamp: str | date | None = None,
    properties: Mapping[str, str] | None = None,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    clock: Clock = system_clock,
) -> CommitResult:
    """Create a table from the files of another table, without copying files.

    Args:
        source: The table or a snapshot of it.
        target: The location of the clone.
        version: The version of the source to clone; by default the latest.
        timestamp: Clone the version at this time instead.
        properties: Table properties of the clone, in addition to the source's properties.
        storage_options: Options for the store of the target, and for files outside the target.

    Raises:
        InvalidRequestError: The clone cannot have a property.
        TableExistsError: There is a table at the target.
        UnsupportedFeatureError: The source uses a feature that we cannot clone.

    Examples:
        >>> shallow_clone("lake/orders", "lake/orders_to_try").version
        0
        >>> _ = da.delete("lake/orders_to_try")
        >>> da.count_rows("lake/orders_to_try"), da.count_rows("lake/orders")
        (0, 3)
    """
    validate_arguments(shallow_clone, locals())
    snapshot = snapshot_of(source, version, timestamp)
    log = log_of(target, storage_options)
    transaction = begin(log, operation="restore", clock=clock)
    if txn is not None:
        transaction.set_transaction(txn)
        if done := transaction.done_before():
            return done
    if transaction.snapshot is not None:
        raise TableExistsError(log.uri)
    domains = snapshot.domain_metadata()
    of_protocol = [name for name in domains if name.startswith("delta.")]
    if unknown := tuple(f"domain {each}" for each in of_protocol if each not in _KNOWN_DOMAINS):
        raise UnsupportedFeatureError(snapshot.uri, unknown, "cloned")
    transaction.require_new_table()
    transaction.change_table(
        SetDefinition(metadata=_own_metadata(snapshot, clock()), protocol=snapshot.protocol)
    )
    for name, domain in domains.items():
        if name not in of_protocol:
            transaction.set_domain_metadata(domain)
    if clustered_by := clustering_columns(domains, snapshot.uri):
        transaction.set_clustering(clustered_by)
    adds = [_name_absolutely(add, snapshot) for add in snapshot.add_files()]
    transaction.apply(PutBack(files=tuple(adds)))
    if properties:
        _set_properties(transaction, properties)  # after the files, like an ALTER TABLE
    size_bytes = sum(add.size for add in adds)
    return transaction.commit(
        operation="CLONE",
        parameters={"source": snapshot.uri, "sourceVersion": snapshot.version},
        metrics={
            "sourceTableSize": size_bytes,
            "sourceNumOfFiles": len(adds),
            "numRemovedFiles": 0,
            "numCopiedFiles": 0,
            "removedFilesSize": 0,
            "copiedFilesSize": 0,
        },
        counts_files=False,
        user_metadata=user_metadata,
    )


def create_like(
    source: Snapshot,
    target: TableOrPlace,
    *,
    properties: Mapping[str, str] | None = None,
    user_metadata: str | None = None,
    clock: Clock = system_clock,
) -> CommitResult:
    """Create an empty table with the columns, partitioning, properties and features of a table.

    Raises:
        InvalidRequestError: The table cannot have a property.
        TableExistsError: There is a table at the target.
    """
    transaction = begin(log_of(target), operation="restore", clock=clock)
    if transaction.snapshot is not None:
        raise TableExistsError(transaction.log.uri)
    transaction.require_new_table()
    metadata = remove_marks(_own_metadata(source, clock()))
    transaction.change_table(SetDefinition(metadata=metadata, protocol=source.protocol))
    if clustered_by := source.clustering_columns:
        transaction.set_clustering(clustered_by)
    if properties:
        transaction.set_properties(properties)
    return transaction.commit(
        operation="CREATE TABLE",
        parameters={
            "partitionBy": list(source.partition_columns),
            "description": metadata.description,
            "isManaged": "false",
            "properties": dict(transaction.metadata.configuration),
        },
        counts_files=False,
        user_metadata=user_metadata,
    )


def _own_metadata(snapshot: Snapshot, now_ms: int) -> Metadata:
    # The properties are omitted if all commits have timestamps, as all commits of a clone do.
    since = (IN_COMMIT_TIMESTAMP_VERSION.name, IN_COMMIT_TIMESTAMP_TIME.name)
    found = snapshot.metadata.configuration.items()
    return replace(
        snapshot.metadata,
        id=str(uuid.uuid4()),
        created_time=now_ms,
        configuration={name: value for name, value in found if name not in since},
    )


def _set_properties(transaction: Transaction, properties: Mapping[str, str]) -> None:
    was_tracked = ROW_TRACKING.value_in(transaction.metadata.configuration)
    transaction.set_properties(properties)
    if ROW_TRACKING.value_in(transaction.metadata.configuration) and not was_tracked:
        raise InvalidRequestError(
            f"{transaction.log.uri}: {ROW_TRACKING.name} cannot be set by the clone, because its "
            "rows may have no ids; set it on the source, or on the clone afterwards"
        )


def _name_absolutely(add: AddFile, snapshot: Snapshot) -> AddFile:
    vector = add.deletion_vector
    return replace(
        add,
        path=_absolute_path(add.path, snapshot),
        data_change=True,
        deletion_vector=vector and _absolute_vector(vector, vector_path(add, snapshot), snapshot),
    )


def _absolute_vector(
    vector: DeletionVector, path: str | None, snapshot: Snapshot
) -> DeletionVector:
    if path is None or vector.storage_type == "p":  # inline, or already an absolute path
        return vector
    place = _absolute_path(encode_path(path), snapshot)
    return replace(vector, storage_type="p", path_or_inline_dv=place)


def _absolute_path(log_path: str, snapshot: Snapshot) -> str:
    """Convert a path of the source's log to an absolute path, valid in any log."""
    if is_absolute(log_path):
        return log_path
    path = canonical_path(log_path, snapshot.uri)
    place = path if is_absolute(path) else snapshot.storage.locate(path)
    return f"file:{encode_path(place)}" if place.startswith("/") else encode_path(place)

"""Table features: add features by name or by protocol version, or drop an unused feature.

Source: PROTOCOL.md, "Table Features", and the sections of each feature.

A drop conflicts with any concurrent commit, because that commit may use the feature.

The traces of a feature are the parts of a table that still use it and prevent its drop. The
reference removes some traces by itself. Here each trace is an error, so that nothing is lost by
accident; only the mapping of columns is removed with the feature. A reader feature also leaves
traces in the log: a reader without the feature would replay the commits before the drop and misread
them. Such commits must be cleaned up first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from delta_ops.arguments import validate_arguments
from delta_ops.arrow.engine import ARROW
from delta_ops.ddl.alter import Alteration, alter
from delta_ops.ddl.mapping_removal import rename_clustering, rewrite_unmapped, unmapped_schema
from delta_ops.ddl.properties import set_properties
from delta_ops.errors import InvalidRequestError, naming_table
from delta_ops.log import DeltaLog, Snapshot, TableOrPlace, log_of
from delta_ops.log.checkpoint.parquet_files import reading
from delta_ops.log.segment import list_log
from delta_ops.maintenance import clean_up_log, create_checkpoint
from delta_ops.maintenance.optimize.rewriting import Rewriting
from delta_ops.maintenance.purge.act import OutdatedReasons, find_outdated_files
from delta_ops.option_words import option
from delta_ops.protocol.arrow_schemas import deletion_vectors
from delta_ops.protocol.features import (
    FEATURES,
    feature_of,
)
from delta_ops.protocol.properties.known import (
    COLUMN_MAPPING_MODE,
    IN_COMMIT_TIMESTAMP_TIME,
    IN_COMMIT_TIMESTAMP_VERSION,
    IN_COMMIT_TIMESTAMPS,
    MAX_COLUMN_ID,
)
from delta_ops.protocol.properties.table_properties import FEATURE
from delta_ops.protocol.protocol_upgrade import (
    add_features,
    features_of_versions,
    remove_feature,
)
from delta_ops.protocol.row_rules import Check
from delta_ops.protocol.schema import StructType, schema_to_json
from delta_ops.protocol.schema.widening import drop_type_changes, has_type_changes
from delta_ops.transaction import CommitResult, Transaction, Txn
from delta_ops.transaction.engine import Engine, RewriteFiles
from delta_ops.transaction.table_change import SetDefinition


def add_feature(
    target: TableOrPlace,
    name: str,
    *,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> CommitResult:
    """Add a feature to the table's protocol, together with its required features.

    Args:
        txn: Application id and version; a change with a txn that is in the table is not repeated.
        user_metadata: Any text, stored in commitInfo.

    Raises:
        InvalidRequestError: The feature does not exist.
        UnsupportedFeatureError: We cannot write a table with the feature.

    Examples:
        >>> add_feature("lake/orders", "domainMetadata").version
        1
    """
    validate_arguments(add_feature, locals())
    return set_properties(
        target,
        {f"{FEATURE}{name}": "supported"},
        txn=txn,
        user_metadata=user_metadata,
        storage_options=storage_options,
        dry_run=dry_run,
    )


def upgrade_protocol(
    target: TableOrPlace,
    reader_version: int,
    writer_version: int,
    *,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> CommitResult:
    """Add the features of protocol versions; existing features stay.

    Reader version 3 and writer version 7 list their features and add none by themselves.

    Args:
        txn: Application id and version; a change with a txn that is in the table is not repeated.
        user_metadata: Any text, stored in commitInfo.

    Raises:
        InvalidRequestError: A version does not exist, or the two versions do not fit together.
        UnsupportedFeatureError: We cannot write a table with these features.

    Examples:
        >>> upgrade_protocol("lake/orders", 1, 3).version
        1
        >>> protocol = DeltaLog("lake/orders").snapshot().protocol
        >>> protocol.min_reader_version, protocol.min_writer_version
        (1, 3)
    """
    validate_arguments(upgrade_protocol, locals())
    log = log_of(target, storage_options)
    with naming_table(log.uri):
        wanted = features_of_versions(reader_version, writer_version)

    def change(transaction: Transaction) -> Alteration | None:
        protocol = add_features(transaction.definition.protocol, wanted)
        if protocol == transaction.definition.protocol:
            return None
        transaction.change_table(SetDefinition(metadata=transaction.metadata, protocol=protocol))
        new_protocol = {
            "minReaderVersion": protocol.min_reader_version,
            "minWriterVersion": protocol.min_writer_version,
        }
        return Alteration(operation="UPGRADE PROTOCOL", parameters={"newProtocol": new_protocol})

    return alter(log, change, txn, user_metadata, None, dry_run)


def drop_feature(
    target: TableOrPlace,
    name: str,
    truncate_history: bool = False,
    *,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    engine: Engine | RewriteFiles | None = None,
) -> CommitResult:
    """Remove a feature from the table's protocol, so that engines without it can use the table.

    `columnMapping` rewrites the data files that have other names for columns. Readers of the change
    data feed and streams then cannot read across this version.

    Args:
        truncate_history: First write a checkpoint and clean up the log, as far as
            `delta.logRetentionDuration` allows. This removes traces of the feature from the log.
        txn: Application id and version; a change with a txn that is in the table is not repeated.
        user_metadata: Any text, stored in commitInfo.
        engine: Rewrites data files; None for the Arrow engine.

    Raises:
        InvalidRequestError: The feature cannot be dropped, or the table still uses it; the error
            names the use and the cure.
        CommitConflictError: Another writer committed first.
        DataFileError: A file to rewrite is gone or unreadable.

    Examples:
        >>> _ = add_feature("lake/orders", "domainMetadata")
        >>> drop_feature("lake/orders", "domainMetadata").version
        2
    """
    validate_arguments(drop_feature, locals())
    log = log_of(target, storage_options)
    feature = _named_feature(name)
    if feature not in DROPPABLE:
        raise InvalidRequestError(
            f"{log.uri}: the feature {feature} cannot be dropped by delta_ops; it can drop "
            f"{', '.join(DROPPABLE)}",
            "DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE",
        )
    if truncate_history and not feature_of(feature).for_readers:
        raise InvalidRequestError(
            f"{feature} is a writer feature and leaves no traces in the history; leave "
            f"{option('truncate_history')} out",
            "DELTA_FEATURE_DROP_HISTORY_TRUNCATION_NOT_ALLOWED",
        )

    def change(transaction: Transaction) -> Alteration | None:
        if not transaction.definition.has(feature):
            return None
        _refuse_traces_in_table(transaction, feature)
        if truncate_history and not dry_run:
            create_checkpoint(log)
            clean_up_log(log)
        if not (truncate_history and dry_run):  # a dry run cannot know the result of a clean-up
            _refuse_traces_in_log(log, feature, is_truncated=truncate_history)
        _remove_from_definition(transaction, feature)
        if feature == COLUMN_MAPPING:
            assert transaction.snapshot
            rename_clustering(transaction, transaction.snapshot)
            if not dry_run:
                definition = transaction.definition
                rewritten.append(
                    rewrite_unmapped(transaction, transaction.snapshot, definition, engine or ARROW)
                )
        return Alteration(
            operation="DROP FEATURE",
            parameters={"featureName": feature, "truncateHistory": truncate_history},
            is_alone=True,
        )

    rewritten: list[Rewriting] = []
    try:
        return alter(log, change, txn, user_metadata, None, dry_run, begin_as="restore")
    finally:
        for each in rewritten:
            if not each.transaction.may_be_committed:
                each.undo()


def _remove_from_definition(transaction: Transaction, feature: str) -> None:
    gone = DROPPABLE[feature].properties
    metadata = transaction.metadata
    kept = {key: value for key, value in metadata.configuration.items() if key not in gone}
    schema = DROPPABLE[feature].clean_schema(transaction.schema)
    if schema != transaction.schema:
        metadata = replace(metadata, schema_string=schema_to_json(schema))
    definition = SetDefinition(
        metadata=replace(metadata, configuration=kept),
        protocol=remove_feature(transaction.definition.protocol, feature),
    )
    transaction.change_table(definition)


def _named_feature(name: str) -> str:
    found = [each.name for each in FEATURES if each.name.lower() == name.lower()]
    if not found:
        raise InvalidRequestError(
            f"There is no table feature {name}.", "DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE"
        )
    return found[0]


def _refuse_traces_in_table(transaction: Transaction, feature: str) -> None:
    snapshot, table = transaction.snapshot, transaction.log.uri
    assert snapshot
    for other in sorted(snapshot.definition.features):
        if feature in feature_of(other).requires:
            raise InvalidRequestError(
                f"{table}: the feature {feature} cannot be dropped: {other} requires it",
                "DELTA_FEATURE_DROP_DEPENDENT_FEATURE",
            )
    for trace in DROPPABLE[feature].in_table(snapshot):
        raise InvalidRequestError(
            f"{table}: the feature {feature} cannot be dropped: {trace} depends on it"
        )


def _refuse_traces_in_log(log: DeltaLog, feature: str, *, is_truncated: bool) -> None:
    for trace in DROPPABLE[feature].in_log(log):
        cure = (
            "run this again after delta.logRetentionDuration, when the log no longer has it"
            if is_truncated
            else "after delta.logRetentionDuration, drop it with "
            f"{option('truncate_history', True)}"
        )
        end = "HISTORICAL_VERSIONS_EXIST" if is_truncated else "WAIT_FOR_RETENTION_PERIOD"
        raise InvalidRequestError(
            f"{log.uri}: the feature {feature} cannot be dropped yet: the log has {trace}, which "
            f"engines without the feature would misread; {cure}",
            f"DELTA_FEATURE_DROP_{end}",
        )


COLUMN_MAPPING = "columnMapping"
_ENABLE_VECTORS = "delta.enableDeletionVectors"
_ENABLE_WIDENING = "delta.enableTypeWidening"


def _find_nothing(_: object) -> Iterator[str]:
    return iter(())


def _keep_schema(schema: StructType) -> StructType:
    return schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Droppable:
    """A feature that can be dropped, with the searches for its traces."""

    in_table: Callable[[Snapshot], Iterator[str]] = _find_nothing
    """Finds traces in the latest version, each with its cure."""
    in_log: Callable[[DeltaLog], Iterator[str]] = _find_nothing
    """Finds traces of a reader feature in the log."""
    properties: tuple[str, ...] = ()
    """Properties that are removed with the feature."""
    clean_schema: Callable[[StructType], StructType] = _keep_schema
    """Removes the feature's metadata from the schema."""


def _constraints(snapshot: Snapshot) -> Iterator[str]:
    for rule in snapshot.definition.row_rules:
        if isinstance(rule, Check):
            yield f"{rule} ({rule.expression}); drop the constraint first"


def _domains(snapshot: Snapshot) -> Iterator[str]:
    for name in snapshot.domain_metadata():
        yield f"the domain {name}; remove the domain first"


def _v2_policy(snapshot: Snapshot) -> Iterator[str]:
    if snapshot.properties.checkpoint_policy == "v2":
        yield "delta.checkpointPolicy = v2; set it to classic first"


def _v2_checkpoints(log: DeltaLog) -> Iterator[str]:
    listing = list_log(log.storage, log.log_directory)
    for version in sorted(listing.v2_checkpoints):
        yield f"the V2 checkpoint of version {version}"
    for checkpoint in listing.checkpoints:
        # A V2 checkpoint may have a classic name; only a V2 checkpoint has this column.
        top = checkpoint.parts[0]
        if checkpoint.version in listing.v2_checkpoints or not top.path.endswith(".parquet"):
            continue
        with reading(log.storage, top), log.storage.open_input(top.path) as file:
            names = pq.read_schema(file).names
        if "checkpointMetadata" in names:
            yield f"the V2 checkpoint of version {checkpoint.version}"


def _vectors(snapshot: Snapshot) -> Iterator[str]:
    configuration = snapshot.metadata.configuration
    if configuration.get(_ENABLE_VECTORS, "").strip().lower() == "true":
        yield f"{_ENABLE_VECTORS} = true; unset it first"
    for files in snapshot.stream_live(["path", "deletionVector"]):
        if count := _num_vectors(files):
            yield (
                f"the deletion vectors of at least {count} live files; purge them first "
                "(delta-ops optimize TABLE --purge)"
            )
            return


def _vectors_in_log(log: DeltaLog) -> Iterator[str]:
    listing = list_log(log.storage, log.log_directory)
    # Without the first commit, readers begin at a checkpoint.
    is_whole = 0 in listing.commits or not listing.checkpoints
    first = 0 if is_whole else listing.checkpoints[0].version + 1
    for commit in log.commits(first):
        if _num_vectors(commit.adds) or _num_vectors(commit.removes):
            yield f"deletion vectors in the commit of version {commit.version}"
    if not listing.checkpoints:
        return
    # All later checkpoints follow from the oldest checkpoint and the commits after it.
    oldest = log.snapshot(listing.checkpoints[0].version)
    live = (_num_vectors(files) for files in oldest.stream_live(["path", "deletionVector"]))
    if any(live) or _num_vectors(oldest.tombstones(("path", "deletionVector"))):
        yield f"deletion vectors in the checkpoint of version {oldest.version}"


def _old_types(snapshot: Snapshot) -> Iterator[str]:
    configuration = snapshot.metadata.configuration
    if configuration.get(_ENABLE_WIDENING, "").strip().lower() == "true":
        yield f"{_ENABLE_WIDENING} = true; unset it first"
    if not has_type_changes(snapshot.schema):
        return
    files = list(snapshot.add_files())
    if found := find_outdated_files(snapshot, files, OutdatedReasons(old_types=True)):
        yield (
            f"the former types of {len(found)} live files; rewrite them first "
            "(delta-ops optimize TABLE --purge --old-schema)"
        )


def _num_vectors(files: pa.Table) -> int:
    column = files["deletionVector"]
    if column.null_count == len(column):
        return 0
    return sum(vector is not None for vector in deletion_vectors(column))


_TYPE_WIDENING = Droppable(
    in_table=_old_types, properties=(_ENABLE_WIDENING,), clean_schema=drop_type_changes
)
"""It leaves no traces in the log: the versions before the drop have the feature in their protocol,
and the version after it reads neither their files nor their schema."""
DROPPABLE: Mapping[str, Droppable] = {
    "checkConstraints": Droppable(in_table=_constraints),
    "domainMetadata": Droppable(in_table=_domains),
    "inCommitTimestamp": Droppable(
        properties=(
            IN_COMMIT_TIMESTAMPS.name,
            IN_COMMIT_TIMESTAMP_VERSION.name,
            IN_COMMIT_TIMESTAMP_TIME.name,
        )
    ),
    "vacuumProtocolCheck": Droppable(),
    "v2Checkpoint": Droppable(in_table=_v2_policy, in_log=_v2_checkpoints),
    "deletionVectors": Droppable(in_table=_vectors, in_log=_vectors_in_log),
    COLUMN_MAPPING: Droppable(
        properties=(COLUMN_MAPPING_MODE.name, MAX_COLUMN_ID.name), clean_schema=unmapped_schema
    ),
    "typeWidening": _TYPE_WIDENING,
    "typeWidening-preview": _TYPE_WIDENING,
}
"""Droppable features by name; delta_ops can drop no other feature."""

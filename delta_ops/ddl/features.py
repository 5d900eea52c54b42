"""Table features: add features by name or by protocol version, or drop an unused feature.

Source: PROTOCOL.md, "Table Features".

A drop conflicts with any concurrent commit, because that commit may use the feature.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from delta_ops.arguments import validate_arguments
from delta_ops.ddl.alter import Alteration, alter
from delta_ops.ddl.feature_traces import DROPPABLE
from delta_ops.ddl.properties import set_properties
from delta_ops.errors import InvalidRequestError
from delta_ops.log import DeltaLog, TableOrPlace, log_of
from delta_ops.maintenance import clean_up_log, create_checkpoint
from delta_ops.protocol.actions import Protocol
from delta_ops.protocol.features import (
    FEATURES,
    FEATURES_READER_VERSION,
    FEATURES_WRITER_VERSION,
    feature_of,
    features_of_readers,
    features_of_writers,
)
from delta_ops.protocol.properties.table_properties import FEATURE
from delta_ops.protocol.protocol_upgrade import add_features, remove_feature
from delta_ops.transaction import CommitResult, Transaction, Txn
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
    requested = _protocol_of_versions(reader_version, writer_version, log.uri)

    def change(transaction: Transaction) -> Alteration | None:
        wanted = (*features_of_writers(requested), *features_of_readers(requested))
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


def _protocol_of_versions(reader: int, writer: int, table: str) -> Protocol:
    """The protocol with these versions and empty feature lists."""
    if not (1 <= reader <= FEATURES_READER_VERSION and 1 <= writer <= FEATURES_WRITER_VERSION):
        raise InvalidRequestError(
            f"{table}: there is no protocol of reader version {reader} and writer version "
            f"{writer}; readers have 1 to {FEATURES_READER_VERSION}, writers 1 to "
            f"{FEATURES_WRITER_VERSION}"
        )
    lists_of_readers = () if reader == FEATURES_READER_VERSION else None
    lists_of_writers = () if writer == FEATURES_WRITER_VERSION else None
    requested = Protocol(
        min_reader_version=reader,
        min_writer_version=writer,
        reader_features=lists_of_readers,
        writer_features=lists_of_writers,
    )
    of_writers, of_readers = features_of_writers(requested), features_of_readers(requested)
    if reader < FEATURES_READER_VERSION and writer < FEATURES_WRITER_VERSION:
        reader_features = {
            each for each in (*of_writers, *of_readers) if feature_of(each).for_readers
        }
        if any((each in of_writers) != (each in of_readers) for each in reader_features):
            raise InvalidRequestError(
                f"{table}: reader version {reader} does not go with writer version {writer}: "
                f"{', '.join(sorted(reader_features))} exists in only one of them; give 1 with 2 "
                "to 4, or 2 with 5 or 6, or add features by their names"
            )
    return requested


def drop_feature(
    target: TableOrPlace,
    name: str,
    truncate_history: bool = False,
    *,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
) -> CommitResult:
    """Remove a feature from the table's protocol, so that engines without it can use the table.

    Args:
        truncate_history: First write a checkpoint and clean up the log, as far as
            `delta.logRetentionDuration` allows. This removes traces of the feature from the log.

    Raises:
        InvalidRequestError: The feature cannot be dropped, or the table still uses it; the error
            names the use and the cure.
        CommitConflictError: Another writer committed first.

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
            f"{', '.join(DROPPABLE)}"
        )
    if truncate_history and not feature_of(feature).for_readers:
        raise InvalidRequestError(
            f"{feature} is a writer feature and leaves no traces in the history; leave "
            "truncate_history out"
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
        gone = DROPPABLE[feature].properties
        metadata = transaction.metadata
        kept = {key: value for key, value in metadata.configuration.items() if key not in gone}
        definition = SetDefinition(
            metadata=replace(metadata, configuration=kept),
            protocol=remove_feature(transaction.definition.protocol, feature),
        )
        transaction.change_table(definition)
        return Alteration(
            operation="DROP FEATURE",
            parameters={"featureName": feature, "truncateHistory": truncate_history},
            is_alone=True,
        )

    return alter(log, change, txn, user_metadata, None, dry_run, begin_as="restore")


def _named_feature(name: str) -> str:
    found = [each.name for each in FEATURES if each.name.lower() == name.lower()]
    if not found:
        raise InvalidRequestError(f"There is no table feature {name}.")
    return found[0]


def _refuse_traces_in_table(transaction: Transaction, feature: str) -> None:
    snapshot, table = transaction.snapshot, transaction.log.uri
    assert snapshot
    for other in sorted(snapshot.definition.features):
        if feature in feature_of(other).requires:
            raise InvalidRequestError(
                f"{table}: the feature {feature} cannot be dropped: {other} requires it"
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
            else "after delta.logRetentionDuration, drop it with truncate_history=True"
        )
        raise InvalidRequestError(
            f"{log.uri}: the feature {feature} cannot be dropped yet: the log has {trace}, which "
            f"engines without the feature would misread; {cure}"
        )

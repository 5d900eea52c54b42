"""Features: what a table requires of readers and writers, and what delta_ops supports.

Source: PROTOCOL.md, "Table Features", "Reader Version Requirements", "Writer Version Requirements"
and "Valid Feature Names in Table Features".

Each feature is one row. A feature is supported only as far as its row says: an unknown feature is
rejected by name. A legacy protocol version, which has no list of features, implies all features
that it introduced. `table_definition` checks the requirements of a table as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from delta_ops.protocol.actions import Protocol
from delta_ops.protocol.row_rules import Check, Generated, Identity
from delta_ops.protocol.schema import CURRENT_DEFAULT, TIMESTAMP_NTZ, VARIANT, DataType

FEATURES_READER_VERSION = 3
FEATURES_WRITER_VERSION = 7

Engine = Literal["arrow", "spark"]
Operation = Literal[
    "open", "read", "write", "restore", "vacuum", "checkpoint", "clean up", "compact"
]
"""Kinds of operations on a table.

open: interpret its log, to show its history, files and figures.
read, write: read or write rows, by an engine.
restore: commit files that the log knows, with all their recorded fields; no new rows.
vacuum: find all files in the log that the table needs.
checkpoint: know all fields of the actions, so that a checkpoint keeps them.
clean up, compact: know the log's files, and that the table has no state outside of them.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Feature:
    """A feature of the protocol, and how far delta_ops supports it. Compared by identity."""

    name: str
    for_readers: bool = False
    """True: readers must support it too, and it is in both lists of a protocol."""
    legacy_reader_version: int | None = None
    """The legacy reader version (below 3) that may use the feature."""
    legacy_writer_version: int | None = None
    """The first legacy writer version (below 7) that may use the feature."""
    enabled_by: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    """Table properties that require the feature, with their enabling values in lower case."""
    requires: tuple[str, ...] = ()
    """Features that commits also require in the protocol."""
    types: tuple[DataType, ...] = ()
    """Column types that require the feature."""
    rules: tuple[type, ...] = ()
    """Kinds of `row_rules.RowRule` that require the feature."""
    field_keys: tuple[str, ...] = ()
    """Keys of column metadata that have a meaning only with the feature."""
    operations: frozenset[Operation] = frozenset()
    """Operations that support the feature; for `read` and `write`, see the engines."""
    read_by: frozenset[Engine] = frozenset()
    """Empty for a writer feature, which readers need not support."""
    written_by: frozenset[Engine] = frozenset()

    def supports(self, operation: Operation, engine: Engine) -> bool:
        """Whether an operation supports tables with the feature.

        Args:
            engine: Matters for `read` and `write` only.
        """
        match operation:
            case "read":
                return engine in self.read_by
            case "write":
                return engine in self.written_by
        return operation in self.operations


_BOTH: frozenset[Engine] = frozenset({"arrow", "spark"})
_LOG: frozenset[Operation] = frozenset({"checkpoint", "clean up", "compact"})
_FILES: frozenset[Operation] = _LOG | {"vacuum"}
_OPEN: frozenset[Operation] = _FILES | {"open"}


FEATURES: tuple[Feature, ...] = (
    Feature(
        name="appendOnly",
        legacy_writer_version=2,
        operations=_FILES | {"restore"},
        written_by=_BOTH,
    ),
    Feature(
        name="invariants",
        legacy_writer_version=2,
        operations=_FILES | {"restore"},
        written_by=_BOTH,
    ),
    Feature(
        name="checkConstraints",
        legacy_writer_version=3,
        rules=(Check,),
        operations=_FILES | {"restore"},
        written_by=_BOTH,
    ),
    Feature(
        name="changeDataFeed",
        legacy_writer_version=4,
        enabled_by={"delta.enableChangeDataFeed": "true", "delta.enableChangeDataCapture": "true"},
        operations=_FILES | {"restore"},
        written_by=_BOTH,
    ),
    Feature(
        name="generatedColumns",
        legacy_writer_version=4,
        rules=(Generated,),
        operations=_FILES | {"restore"},
        written_by=_BOTH,
    ),
    Feature(
        name="columnMapping",
        for_readers=True,
        legacy_reader_version=2,
        legacy_writer_version=5,
        enabled_by={"delta.columnMapping.mode": ("name", "id")},
        operations=_OPEN | {"restore"},
        read_by=_BOTH,
        written_by=_BOTH,
    ),
    Feature(
        name="identityColumns",
        legacy_writer_version=6,
        rules=(Identity,),
        operations=_FILES | {"restore"},
        written_by=_BOTH,
    ),
    Feature(
        name="timestampNtz",
        for_readers=True,
        types=(TIMESTAMP_NTZ,),
        operations=_OPEN | {"restore"},
        read_by=_BOTH,
        written_by=_BOTH,
    ),
    Feature(
        name="vacuumProtocolCheck",
        for_readers=True,
        operations=_OPEN | {"restore"},
        read_by=_BOTH,
        written_by=_BOTH,
    ),
    Feature(
        name="deletionVectors",
        for_readers=True,
        enabled_by={"delta.enableDeletionVectors": "true"},
        operations=_OPEN | {"restore"},
        read_by=_BOTH,
        written_by=_BOTH,
    ),
    Feature(
        name="v2Checkpoint",
        for_readers=True,
        enabled_by={"delta.checkpointPolicy": "v2"},
        operations=_OPEN | {"restore"},
        read_by=_BOTH,
        written_by=_BOTH,
    ),
    Feature(
        name="typeWidening",
        for_readers=True,
        enabled_by={"delta.enableTypeWidening": "true"},
        operations=_OPEN | {"restore"},
        read_by=_BOTH,
        written_by=_BOTH,
    ),
    Feature(
        name="typeWidening-preview",
        for_readers=True,
        operations=_OPEN | {"restore"},
        read_by=_BOTH,
        written_by=_BOTH,
    ),
    Feature(
        name="variantType",
        for_readers=True,
        types=(VARIANT,),
        operations=_OPEN | {"restore"},
        read_by=_BOTH,
        written_by=_BOTH,
    ),
    Feature(
        name="variantType-preview",
        for_readers=True,
        operations=_OPEN,
        read_by=_BOTH,
    ),
    Feature(
        name="variantShredding",
        for_readers=True,
        enabled_by={"delta.enableVariantShredding": "true"},
        requires=("variantType",),
        operations=_OPEN | {"restore"},
        read_by=_BOTH,
        written_by=_BOTH,
    ),
    Feature(
        name="variantShredding-preview",
        for_readers=True,
        operations=_OPEN,
        read_by=_BOTH,
    ),
    Feature(
        name="catalogManaged",
        for_readers=True,
    ),
    Feature(
        name="catalogOwned-preview",
        for_readers=True,
    ),
    Feature(
        name="redirectReaderWriter-preview",
        for_readers=True,
    ),
    Feature(
        name="geospatial",
        for_readers=True,
        operations=_LOG,
    ),
    Feature(
        name="allowColumnDefaults",
        field_keys=(CURRENT_DEFAULT,),
        operations=_FILES | {"restore"},
        written_by=_BOTH,
    ),
    Feature(
        name="checkpointProtection",
        operations=_FILES | {"restore"},
        written_by=_BOTH,
    ),
    Feature(
        name="clustering",
        requires=("domainMetadata",),
        operations=_FILES | {"restore"},
        written_by=_BOTH,
    ),
    Feature(
        name="coordinatedCommits-preview",
    ),
    Feature(
        name="domainMetadata",
        operations=_FILES | {"restore"},
        written_by=_BOTH,
    ),
    Feature(
        name="icebergCompatV1",
        enabled_by={"delta.enableIcebergCompatV1": "true"},
        requires=("columnMapping",),
        operations=_FILES,
    ),
    Feature(
        name="icebergCompatV2",
        enabled_by={"delta.enableIcebergCompatV2": "true"},
        requires=("columnMapping",),
        operations=_FILES,
    ),
    Feature(
        name="icebergCompatV3",
        enabled_by={"delta.enableIcebergCompatV3": "true"},
        requires=(
            "columnMapping",
            "rowTracking",
        ),
        operations=_FILES,
    ),
    Feature(
        name="inCommitTimestamp",
        enabled_by={"delta.enableInCommitTimestamps": "true"},
        operations=_FILES | {"restore"},
        written_by=_BOTH,
    ),
    Feature(
        name="inCommitTimestamp-preview",
        operations=_FILES,
    ),
    Feature(
        name="materializePartitionColumns",
        operations=_FILES | {"restore"},
        written_by=_BOTH,
    ),
    Feature(
        name="redirectWriterOnly-preview",
    ),
    Feature(
        name="rowTracking",
        enabled_by={"delta.enableRowTracking": "true"},
        requires=("domainMetadata",),
        operations=_FILES | {"restore"},
        written_by=_BOTH,
    ),
)


def feature_of(name: str) -> Feature:
    """The row of a feature; an unknown feature supports nothing."""
    return _rows_by_name(FEATURES).get(name) or Feature(name=name)


def features_of_readers(protocol: Protocol) -> tuple[str, ...]:
    """The features that readers of the table must support."""
    if protocol.min_reader_version >= FEATURES_READER_VERSION:
        return protocol.reader_features or ()
    legacy = _names_of_legacy_readers(FEATURES, protocol.min_reader_version)
    # Respect a feature list even if the protocol version does not allow one.
    return (*legacy, *(protocol.reader_features or ()))


def features_of_writers(protocol: Protocol) -> tuple[str, ...]:
    """The features that writers of the table must support."""
    if protocol.min_writer_version >= FEATURES_WRITER_VERSION:
        return protocol.writer_features or ()
    legacy = _names_of_legacy_writers(FEATURES, protocol.min_writer_version)
    return (*legacy, *(protocol.writer_features or ()))


def features_of_properties(configuration: Mapping[str, str]) -> dict[str, str]:
    """The features that table properties require, each with its property."""
    return {
        feature.name: name
        for feature in FEATURES
        for name, value in feature.enabled_by.items()
        if configuration.get(name, "").strip().lower() in _values(value)
    }


def _values(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value


def unsupported_features(protocol: Protocol, operation: Operation, engine: Engine) -> Iterator[str]:
    """Yield the parts of a protocol that an operation does not support.

    These are features and future versions. An operation that commits rows or files also requires
    the dependencies of each feature.
    """
    if protocol.min_reader_version > FEATURES_READER_VERSION:
        yield f"reader version {protocol.min_reader_version}"
    names = dict.fromkeys(features_of_readers(protocol))
    if operation not in ("open", "read"):
        if protocol.min_writer_version > FEATURES_WRITER_VERSION:
            yield f"writer version {protocol.min_writer_version}"
        names |= dict.fromkeys(features_of_writers(protocol))
    for name in names:
        feature = feature_of(name)
        if not feature.supports(operation, engine):
            yield name
        elif operation in ("write", "restore"):
            # Such a table can be read; a commit would lack a feature that it depends on.
            yield from (f"{name} without {each}" for each in feature.requires if each not in names)


def lacking_features(protocol: Protocol, *, than: Protocol) -> list[str]:
    """Features of `than` that `protocol` lacks, listed or implied by version."""
    here, there = (
        {*features_of_readers(each), *features_of_writers(each)} for each in (protocol, than)
    )
    return sorted(there - here)


def contradictions(protocol: Protocol) -> Iterator[str]:
    """Yield the reasons why a protocol contradicts itself.

    Source: PROTOCOL.md, "Protocol Evolution" and "Supported Features".
    """
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    if reader > FEATURES_READER_VERSION or writer > FEATURES_WRITER_VERSION:
        return  # the rules of future versions are unknown; the version check rejects them
    read, written = protocol.reader_features, protocol.writer_features
    if reader == FEATURES_READER_VERSION and read is None:
        yield f"reader version {reader} has no readerFeatures"
    if writer == FEATURES_WRITER_VERSION and written is None:
        yield f"writer version {writer} has no writerFeatures"
    if reader == FEATURES_READER_VERSION and writer < FEATURES_WRITER_VERSION:
        yield f"reader version {reader} needs writer version {FEATURES_WRITER_VERSION}"
    if read and reader < FEATURES_READER_VERSION:
        yield f"reader version {reader} cannot have readerFeatures ({', '.join(read)})"
    if written and writer < FEATURES_WRITER_VERSION:
        yield f"writer version {writer} cannot have writerFeatures ({', '.join(written)})"
    if one_sided := [name for name in read or () if name not in (written or ())]:
        yield f"readerFeatures that are not writerFeatures: {', '.join(one_sided)}"
    if hidden := [name for name in written or () if _is_hidden_from_readers(name, protocol)]:
        yield f"writerFeatures that must also be readerFeatures: {', '.join(hidden)}"


def _is_hidden_from_readers(name: str, protocol: Protocol) -> bool:
    feature = feature_of(name)
    if not feature.for_readers or name in (protocol.reader_features or ()):
        return False
    return feature.legacy_reader_version != protocol.min_reader_version


@cache
def _rows_by_name(features: tuple[Feature, ...]) -> Mapping[str, Feature]:
    return {each.name: each for each in features}


@cache
def _names_of_legacy_readers(features: tuple[Feature, ...], version: int) -> tuple[str, ...]:
    return tuple(each.name for each in features if each.legacy_reader_version == version)


@cache
def _names_of_legacy_writers(features: tuple[Feature, ...], version: int) -> tuple[str, ...]:
    return tuple(
        each.name
        for each in features
        if each.legacy_writer_version is not None and each.legacy_writer_version <= version
    )

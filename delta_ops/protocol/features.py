"""Features: what a table asks of its readers and writers, and whether we do it.

Source: PROTOCOL.md, "Table Features", "Reader Version Requirements", "Writer Version Requirements"
and "Valid Feature Names in Table Features".

What is not known to be supported is refused by name, before anything is opened, read or written: a
feature that nobody has heard of just as a version from before features, which stands for all
features that it brought. To support one more, change its row in `FEATURES`. A table whose rows
cannot be read may still be opened: its history, files and figures can be looked at.
Rules that every row has to keep are refused for writing one by one, by rule and column.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Literal, NamedTuple

from delta_ops.errors import InvalidRequestError, LogCorruptError, UnsupportedFeatureError
from delta_ops.protocol.actions import Metadata, Protocol
from delta_ops.protocol.literals import is_comparable
from delta_ops.protocol.schema import (
    TIMESTAMP_NTZ,
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    find_field,
    schema_from_json,
    walk,
)

FEATURES_READER_VERSION = 3
FEATURES_WRITER_VERSION = 7


class Feature(NamedTuple):
    """A feature of the protocol and how far we support it."""

    name: str
    for_readers: bool = False
    """True: readers must know it too, and it is in both lists of a protocol."""
    legacy_reader_version: int | None = None
    """Tables of this reader version, from before features, may use it."""
    legacy_writer_version: int | None = None
    """Tables from this writer version on, from before features, may use it."""
    is_opened: bool = False
    """Whether we understand its log: which files there are, and what is known of them."""
    is_read: bool = False
    """Whether the Arrow engine understands its data files too."""
    is_read_by_spark: bool = False
    """Whether the Spark engine does."""
    is_written: bool = False
    is_kept: bool = False
    """Whether a commit keeps its rules that writes no rows and only names files again, or no more,
    with all that the log knows of them; see `validate_kept`."""


FEATURES = (
    Feature("appendOnly", legacy_writer_version=2, is_written=True),
    Feature("invariants", legacy_writer_version=2, is_written=True),
    Feature("checkConstraints", legacy_writer_version=3, is_kept=True),
    Feature("changeDataFeed", legacy_writer_version=4, is_kept=True),
    Feature("generatedColumns", legacy_writer_version=4, is_kept=True),
    Feature(
        "columnMapping",
        True,
        legacy_reader_version=2,
        legacy_writer_version=5,
        is_opened=True,
        is_read=True,
    ),
    Feature("identityColumns", legacy_writer_version=6),
    Feature(
        "timestampNtz", True, is_opened=True, is_read=True, is_read_by_spark=True, is_written=True
    ),
    Feature(
        "vacuumProtocolCheck",
        True,
        is_opened=True,
        is_read=True,
        is_read_by_spark=True,
        is_kept=True,
    ),
    Feature("deletionVectors", True, is_opened=True, is_read=True, is_kept=True),
    Feature(
        "v2Checkpoint", True, is_opened=True, is_read=True, is_read_by_spark=True, is_written=True
    ),
    Feature("typeWidening", True, is_opened=True, is_read=True),
    Feature("typeWidening-preview", True, is_opened=True, is_read=True),
    Feature("variantType", True, is_opened=True, is_read=True),
    Feature("variantType-preview", True, is_opened=True, is_read=True),
    Feature("variantShredding", True, is_opened=True, is_read=True),
    Feature("variantShredding-preview", True, is_opened=True, is_read=True),
    Feature("catalogManaged", True),
    Feature("catalogOwned-preview", True),
    Feature("redirectReaderWriter-preview", True),
    Feature("geospatial", True),
    Feature("allowColumnDefaults"),
    Feature("checkpointProtection"),
    Feature("clustering"),
    Feature("coordinatedCommits-preview"),
    Feature("domainMetadata", is_written=True),
    Feature("icebergCompatV1"),
    Feature("icebergCompatV2"),
    Feature("icebergCompatV3"),
    Feature("inCommitTimestamp", is_written=True),
    Feature("inCommitTimestamp-preview"),
    Feature("materializePartitionColumns"),
    Feature("redirectWriterOnly-preview"),
    Feature("rowTracking"),
)
Engine = Literal["arrow", "spark"]
_READ: Mapping[Engine, str] = {"arrow": "read", "spark": "read by Spark"}
_READ_BY_ARROW = (VARIANT, VOID)
"""Types beside those of which values can be compared."""
_BY_NAME = {feature.name: feature for feature in FEATURES}
_FEATURE_OF_PROPERTY = {
    ("delta.enableChangeDataFeed", "true"): "changeDataFeed",
    ("delta.enableChangeDataCapture", "true"): "changeDataFeed",
    ("delta.enableDeletionVectors", "true"): "deletionVectors",
    ("delta.enableRowTracking", "true"): "rowTracking",
    ("delta.enableTypeWidening", "true"): "typeWidening",
    ("delta.enableInCommitTimestamps", "true"): "inCommitTimestamp",
    ("delta.enableVariantShredding", "true"): "variantShredding-preview",
    ("delta.enableIcebergCompatV1", "true"): "icebergCompatV1",
    ("delta.enableIcebergCompatV2", "true"): "icebergCompatV2",
    ("delta.enableIcebergCompatV3", "true"): "icebergCompatV3",
    ("delta.checkpointPolicy", "v2"): "v2Checkpoint",
}
"""What a property asks for needs the feature in the protocol."""


def validate_openable(protocol: Protocol, metadata: Metadata, *, table: str) -> None:
    """Refuse a table whose log we cannot understand.

    Raises:
        UnsupportedFeatureError: With all that is not supported.
        LogCorruptError: The protocol contradicts itself, or the schema is malformed or lacks a
            partition column.
    """
    _validate_protocol(protocol, table)
    unsupported = (*_unopened_features(protocol), *_unread_format(metadata))
    if unsupported:
        raise UnsupportedFeatureError(table, tuple(dict.fromkeys(unsupported)), "opened")
    _schema(metadata, table)  # what a feature that is not known makes of it is not known either


def validate_readable(
    protocol: Protocol, metadata: Metadata, *, table: str, engine: Engine = "arrow"
) -> None:
    """Refuse a table whose rows an engine of ours cannot read.

    Raises:
        UnsupportedFeatureError: With all that is not supported.
        LogCorruptError: The protocol contradicts itself, or the schema is malformed or lacks a
            partition column.
    """
    _validate_protocol(protocol, table)
    unsupported = _unread(protocol, metadata, _schema(metadata, table), engine)
    if unsupported:
        raise UnsupportedFeatureError(table, tuple(dict.fromkeys(unsupported)), _READ[engine])


def validate_writable(protocol: Protocol, metadata: Metadata, *, table: str) -> None:
    """Refuse a table that we cannot write; one that we cannot read is such a table.

    Raises:
        UnsupportedFeatureError: With all that is not supported.
        LogCorruptError: The protocol contradicts itself, or the schema is malformed or lacks a
            partition column.
    """
    _validate_protocol(protocol, table)
    schema = _schema(metadata, table)
    unsupported = (
        *_unread(protocol, metadata, schema, "spark"),
        *_unwritten_features(protocol),
        *_rules(metadata, schema),
        *_undeclared_types(protocol, schema),
    )
    if unsupported:
        raise UnsupportedFeatureError(table, tuple(dict.fromkeys(unsupported)), "written")


def validate_kept(protocol: Protocol, metadata: Metadata, *, table: str) -> None:
    """Refuse a table of which not even files that the log knows can be named again by us.

    Rows that were in the table have kept its rules already, so that rules of rows do not matter;
    what says how far identity columns have counted would be lost with an older schema.

    Raises:
        UnsupportedFeatureError: With all that is not supported.
        LogCorruptError: The protocol contradicts itself, or the schema is malformed or lacks a
            partition column.
    """
    _validate_protocol(protocol, table)
    schema = _schema(metadata, table)
    kept = {feature.name for feature in FEATURES if feature.is_kept}
    unsupported = (
        *_unread(protocol, metadata, schema, "arrow"),
        *(name for name in _unwritten_features(protocol) if name not in kept),
        *_column_mapping(metadata),
        *(rule for rule in _rules(metadata, schema) if rule.startswith("identity column ")),
        *_undeclared_types(protocol, schema),
    )
    if unsupported:
        raise UnsupportedFeatureError(table, tuple(dict.fromkeys(unsupported)), "written")


def validate_properties(protocol: Protocol, metadata: Metadata, *, table: str) -> None:
    """Refuse properties that ask for a feature which the protocol does not have.

    Raises:
        InvalidRequestError: With the property and the feature.
    """
    for (name, value), feature in _FEATURE_OF_PROPERTY.items():
        is_asked = metadata.configuration.get(name, "").strip().lower() == value
        if is_asked and not _has_feature(protocol, _BY_NAME[feature]):
            raise InvalidRequestError(
                f"{table}: {name} = {value} needs the feature {feature}, which the table's "
                "protocol does not have; leave the property out, or add the feature first with an "
                "engine that supports it"
            )


def lacking_features(protocol: Protocol, *, than: Protocol) -> list[str]:
    """The features that another protocol has, by name or by its version, and this one has not."""
    known = {feature.name: feature for feature in FEATURES}
    names = {*known, *(than.writer_features or ()), *(than.reader_features or ())}
    features = [known.get(name, Feature(name)) for name in sorted(names)]
    return [f.name for f in features if _has_feature(than, f) and not _has_feature(protocol, f)]


def has_v2_checkpoints(protocol: Protocol) -> bool:
    """Whether checkpoints may be of the V2 kind, and must not have many parts."""
    return _has_feature(protocol, _BY_NAME["v2Checkpoint"])


def _has_feature(protocol: Protocol, feature: Feature) -> bool:
    if protocol.min_writer_version >= FEATURES_WRITER_VERSION:
        return feature.name in (protocol.writer_features or ())
    since = feature.legacy_writer_version
    return since is not None and since <= protocol.min_writer_version


def _schema(metadata: Metadata, table: str) -> StructType:
    try:
        schema = schema_from_json(metadata.schema_string)
        spelt = {name: find_field(schema, name).name for name in metadata.partition_columns}
    except InvalidRequestError as error:
        raise LogCorruptError(table, "metaData", error.message.rstrip(".")) from error
    for name, other in spelt.items():
        if name != other:  # by either name, half of the code would find no values
            raise LogCorruptError(
                table, "metaData", f"the partition column {name} is called {other} in the schema"
            )
    return schema


def _validate_protocol(protocol: Protocol, table: str) -> None:
    """Source: PROTOCOL.md, "Protocol Evolution" and "Supported Features"."""
    if (
        protocol.min_reader_version > FEATURES_READER_VERSION
        or protocol.min_writer_version > FEATURES_WRITER_VERSION
    ):
        return  # what belongs together in versions to come is not known; they are refused by number
    for reason in _contradictions(protocol):
        raise LogCorruptError(table, "protocol", reason)


def _contradictions(protocol: Protocol) -> Iterator[str]:
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
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
        yield f"readerFeatures that are no writerFeatures: {', '.join(one_sided)}"
    if hidden := [name for name in written or () if _is_hidden_from_readers(name, protocol)]:
        yield f"writerFeatures that readers must know, but are not told of: {', '.join(hidden)}"


def _is_hidden_from_readers(name: str, protocol: Protocol) -> bool:
    feature = _BY_NAME.get(name)
    if feature is None or not feature.for_readers or name in (protocol.reader_features or ()):
        return False
    return feature.legacy_reader_version != protocol.min_reader_version


def _unread(
    protocol: Protocol, metadata: Metadata, schema: StructType, engine: Engine
) -> list[str]:
    if engine == "arrow":
        read = {feature.name for feature in FEATURES if feature.is_read}
        return [
            *_features_of_readers(protocol, read),
            *_unread_format(metadata),
            *([] if _is_told_of_mapping(protocol) else _column_mapping(metadata)),
            *_unread_types(schema, _READ_BY_ARROW),
        ]
    return [
        *_features_of_readers(protocol, {f.name for f in FEATURES if f.is_read_by_spark}),
        *_unread_format(metadata),
        *_column_mapping(metadata),
        *_unread_types(schema, ()),
    ]


def _is_told_of_mapping(protocol: Protocol) -> bool:
    mapping = _BY_NAME["columnMapping"]
    is_legacy = protocol.min_reader_version == mapping.legacy_reader_version
    return is_legacy or mapping.name in (protocol.reader_features or ())


def _unopened_features(protocol: Protocol) -> Iterator[str]:
    return _features_of_readers(protocol, {f.name for f in FEATURES if f.is_opened})


def _features_of_readers(protocol: Protocol, supported: Collection[str]) -> Iterator[str]:
    """What the protocol asks of readers and is not supported."""
    version = protocol.min_reader_version
    if version > FEATURES_READER_VERSION:
        yield f"reader version {version}"
    yield from (name for name in protocol.reader_features or () if name not in supported)
    if version < FEATURES_READER_VERSION:
        yield from (
            feature.name
            for feature in FEATURES
            if feature.legacy_reader_version == version and feature.name not in supported
        )


def _unwritten_features(protocol: Protocol) -> Iterator[str]:
    version = protocol.min_writer_version
    if version > FEATURES_WRITER_VERSION:
        yield f"writer version {version}"
    writable = {feature.name for feature in FEATURES if feature.is_written}
    yield from (name for name in protocol.writer_features or () if name not in writable)
    if version < FEATURES_WRITER_VERSION:
        for feature in FEATURES:
            since = feature.legacy_writer_version
            if since is not None and since <= version and not feature.is_written:
                yield feature.name


def _unread_format(metadata: Metadata) -> Iterator[str]:
    if metadata.format.provider.lower() != "parquet":
        yield f"format provider {metadata.format.provider}"
    for option in metadata.format.options:
        yield f"format option {option}"


def _column_mapping(metadata: Metadata) -> Iterator[str]:
    # A protocol without the feature leaves the mode without effect, yet its files may be mapped.
    if metadata.configuration.get("delta.columnMapping.mode", "none").lower() != "none":
        yield "columnMapping"


def _unread_types(schema: StructType, known: Collection[DataType]) -> Iterator[str]:
    for path, data_type in walk(schema):
        is_nested = isinstance(data_type, StructType | ArrayType | MapType)
        if not is_nested and data_type not in known and not is_comparable(data_type):
            yield f"type {data_type.name} of column {'.'.join(path)}"


def _undeclared_types(protocol: Protocol, schema: StructType) -> Iterator[str]:
    if "timestampNtz" in (protocol.writer_features or ()):
        return
    for path, data_type in walk(schema):
        if data_type == TIMESTAMP_NTZ:
            yield f"type timestamp_ntz of column {'.'.join(path)} without feature timestampNtz"


def _rules(metadata: Metadata, schema: StructType) -> Iterator[str]:
    """Source: PROTOCOL.md, "Column Invariants", "CHECK Constraints", "Generated Columns"."""
    for key in metadata.configuration:
        if key.lower().startswith("delta.constraints."):
            yield f"CHECK constraint {key[len('delta.constraints.') :]}"
    for path, field in _fields(schema):
        column = ".".join(path)
        if "delta.invariants" in field.metadata:
            yield f"the invariant of column {column}"
        if "delta.generationExpression" in field.metadata:
            yield f"generated column {column}"
        if any(key.startswith("delta.identity.") for key in field.metadata):
            yield f"identity column {column}"


def _fields(schema: StructType) -> Iterator[tuple[tuple[str, ...], StructField]]:
    """Every field at every depth with its path."""
    root: tuple[tuple[str, ...], DataType] = ((), schema)
    for path, data_type in (root, *walk(schema)):
        if isinstance(data_type, StructType):
            for field in data_type.fields:
                yield (*path, field.name), field

"""Table properties: the settings in `metaData.configuration` for writers and maintenance.

Source: PROTOCOL.md, "Table Properties".

A property with an invalid value is an error, never the default: a wrong retention would delete
files that are still needed. An unknown property is kept if a table has it, but cannot be set.
Reading rows needs no properties. Session settings do not change their meaning.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

from delta_ops.error_texts import whole_text
from delta_ops.errors import InvalidRequestError
from delta_ops.option_words import option
from delta_ops.protocol.features import FEATURES
from delta_ops.protocol.properties.known import (
    APPEND_ONLY,
    BLOOM_FILTERS,
    CHECKPOINT_INTERVAL,
    CHECKPOINT_POLICY,
    CHECKPOINT_PROTECTION_VERSION,
    COMPRESSION_CODEC,
    DELETED_FILE_RETENTION,
    DELETION_VECTORS,
    EXPIRED_LOG_CLEANUP,
    IN_COMMIT_TIMESTAMPS,
    ISOLATION_LEVEL,
    LOG_RETENTION,
    NUM_INDEXED_COLUMNS,
    PROPERTIES,
    SET_TRANSACTION_RETENTION,
    SORT_KEY,
    STATS_COLUMNS,
    STRING_PREFIX_LENGTH,
    TARGET_FILE_SIZE,
    WRITE_STATS_AS_JSON,
    WRITE_STATS_AS_STRUCT,
)
from delta_ops.protocol.properties.property import Property
from delta_ops.protocol.properties.values import (
    CheckpointPolicy,
    CompressionCodec,
    IsolationLevel,
)
from delta_ops.protocol.protocol_upgrade import features_of_versions
from delta_ops.protocol.row_rules import CONSTRAINTS
from delta_ops.protocol.schema import ColumnPath
from delta_ops.protocol.stats.indexed_columns import StatsSettings

DELTA = "delta."
_OURS = "delta_ops."
"""Prefix of properties that the protocol and its engines define."""
FEATURE = "delta.feature."
"""Prefix of names that are no properties, but add a feature to the protocol."""
DEFAULT_CODEC: CompressionCodec = "zstd"
_FILE_BYTES = 128 * 1024 * 1024
_READER_VERSION, _WRITER_VERSION = "delta.minreaderversion", "delta.minwriterversion"
_VERSIONS = {_READER_VERSION: "delta.minReaderVersion", _WRITER_VERSION: "delta.minWriterVersion"}
"""Names that are no properties, but add the features of a protocol version; in lower case."""
_LEAST_WRITERS = {1: 1, 2: 5, 3: 7}
"""The first writer version of each reader version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProperties:
    """The properties of a table that delta_ops uses, with defaults for unset properties."""

    append_only: bool
    checkpoint_interval: int
    checkpoint_policy: CheckpointPolicy
    write_stats_as_json: bool
    write_stats_as_struct: bool
    log_retention_ms: int
    enable_expired_log_cleanup: bool
    deleted_file_retention_ms: int
    set_transaction_retention_ms: int | None
    checkpoint_protection_version: int
    """Takes effect only with the feature checkpointProtection."""
    isolation_level: IsolationLevel
    in_commit_timestamps: bool
    deletion_vectors: bool
    stats: StatsSettings
    """Columns with statistics in data files."""
    sort_key: tuple[ColumnPath, ...]
    """Columns by which writers sort the rows of each file."""
    bloom_filters: tuple[ColumnPath, ...]
    """Columns with Bloom filters in data files."""
    target_file_size_bytes: int | None
    """None: the writer chooses."""
    compression_codec: CompressionCodec
    """In lower case; `none` becomes `uncompressed`. Default: the codec of large files."""

    @property
    def new_file_bytes(self) -> int:
        """The target size of new files: `delta.targetFileSize`, or 128 MiB."""
        return self.target_file_size_bytes or _FILE_BYTES


def table_properties_from_configuration(configuration: Mapping[str, str]) -> TableProperties:
    """Parse the properties of a table.

    Raises:
        InvalidRequestError: A property is invalid; the message names it, its value and the allowed
            values.
    """
    for name, value in configuration.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise _text_error(name, value)
    return _parse(tuple(sorted(configuration.items())))


@lru_cache(maxsize=64)
def _parse(items: tuple[tuple[str, str], ...]) -> TableProperties:
    configuration = dict(items)
    return TableProperties(
        append_only=APPEND_ONLY.value_in(configuration),
        checkpoint_interval=CHECKPOINT_INTERVAL.value_in(configuration),
        checkpoint_policy=CHECKPOINT_POLICY.value_in(configuration),
        write_stats_as_json=WRITE_STATS_AS_JSON.value_in(configuration),
        write_stats_as_struct=WRITE_STATS_AS_STRUCT.value_in(configuration),
        log_retention_ms=LOG_RETENTION.value_in(configuration),
        enable_expired_log_cleanup=EXPIRED_LOG_CLEANUP.value_in(configuration),
        deleted_file_retention_ms=DELETED_FILE_RETENTION.value_in(configuration),
        set_transaction_retention_ms=SET_TRANSACTION_RETENTION.value_in(configuration),
        checkpoint_protection_version=CHECKPOINT_PROTECTION_VERSION.value_in(configuration),
        isolation_level=ISOLATION_LEVEL.value_in(configuration),
        in_commit_timestamps=IN_COMMIT_TIMESTAMPS.value_in(configuration),
        deletion_vectors=DELETION_VECTORS.value_in(configuration),
        stats=StatsSettings(
            num_indexed_columns=NUM_INDEXED_COLUMNS.value_in(configuration),
            columns=STATS_COLUMNS.value_in(configuration),
            string_prefix_length=STRING_PREFIX_LENGTH.value_in(configuration),
        ),
        sort_key=SORT_KEY.value_in(configuration) or (),
        bloom_filters=BLOOM_FILTERS.value_in(configuration) or (),
        target_file_size_bytes=TARGET_FILE_SIZE.value_in(configuration),
        compression_codec=COMPRESSION_CODEC.value_in(configuration) or DEFAULT_CODEC,
    )


class RequestedChanges(NamedTuple):
    """The table properties and the features that a user's table properties change."""

    properties: dict[str, str | None]
    """New values by property name, spelled as in tables; None removes the property."""
    features: tuple[str, ...]
    """Names of protocol features."""


def _text_error(name: object, value: object) -> InvalidRequestError:
    return InvalidRequestError(
        f"Table property {whole_text(name)} is {whole_text(value)}: name and value must be texts, "
        "such as 'true' or '5'."
    )


def requested_properties(changes: Mapping[str, str | None]) -> RequestedChanges:
    """Validate table properties that a user sets or removes.

    Args:
        changes: Values by name, ignoring case. `delta.feature.<name>` = supported adds a feature.
            `delta.minReaderVersion` and `delta.minWriterVersion` add the features of a version.

    Raises:
        InvalidRequestError: A property is unknown, must not be set by users, or has an invalid
            value.
    """
    properties: dict[str, str | None] = {}
    features: list[str] = []
    versions: dict[str, int] = {}
    for name, value in changes.items():
        if not isinstance(name, str) or not isinstance(value, str | None):
            raise _text_error(name, value)
        if name.lower().startswith(FEATURE):
            features.append(_requested_feature(name, value))
            continue
        if name.lower() in _VERSIONS:
            versions[name.lower()] = _requested_version(name, value)
            continue
        row = _rows_by_lower_name().get(name.lower())
        if row is not None and not row.is_for_users:
            raise InvalidRequestError(
                f"Table property {row.name} is maintained by engines; leave it out."
            )
        if row is None and value is not None and _is_unknown(name):
            raise _unknown_error(name)
        if row is not None and value is not None:
            row.value_in({row.name: value})
        exact_name = name if row is None else _spelling(row, name)
        if exact_name in properties:
            raise InvalidRequestError(
                f"Table property {exact_name} is set twice (case does not count); set it once."
            )
        properties[exact_name] = value
    return RequestedChanges(properties, (*features, *_features_of(versions)))


def validate_removals(changes: Mapping[str, str | None], known: Mapping[str, str]) -> None:
    """Reject the removal of a property that the table lacks and that does not exist.

    Args:
        changes: Values by name; None removes the property.
        known: The properties of the table.

    Raises:
        InvalidRequestError: A name is misspelt.
    """
    of_table = {name.lower() for name in known}
    for name, value in changes.items():
        lower = name.lower()
        exists = lower in _rows_by_lower_name() or lower in of_table or lower in _VERSIONS
        if value is None and not exists and not lower.startswith(FEATURE) and _is_unknown(name):
            raise _unknown_error(name)


def _unknown_error(name: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"There is no table property {name}{_advice(name)}.", "DELTA_UNKNOWN_CONFIGURATION"
    )


def ignored_properties(
    known: Mapping[str, str], features: Collection[str], given: Mapping[str, str]
) -> Iterator[str]:
    """Say which properties a write leaves out, because the table exists and has other values.

    A write gives its properties and features only to a new table.

    Args:
        known: The properties of the table.
        features: The features of the table.
        given: The properties of the write.

    Raises:
        InvalidRequestError: As for `requested_properties`.
    """
    values = {name.lower(): text for name, text in known.items()}
    requested = requested_properties(given)
    for feature in requested.features:
        if feature not in features:
            yield (
                f"the feature {feature} is for a new table, and this table does not have it; add "
                f"it with {option('ddl.add_feature')}, or leave it out"
            )
    for name, text in requested.properties.items():
        found = values.get(name.lower())
        if found != text:
            has = "does not have it" if found is None else f"has {found!r}"
            yield (
                f"the property {name} = {text!r} is for a new table, and this table {has}; change "
                f"it with {option('ddl.set_properties')}, or leave it out"
            )


def _requested_feature(name: str, value: str | None) -> str:
    wanted = name[len(FEATURE) :]
    if value is None or value.strip().lower() not in ("supported", "enabled"):
        raise InvalidRequestError(
            f"{name} is {value!r}: to add a feature, set the value supported. A property cannot "
            "remove a feature.",
            "DELTA_UNSUPPORTED_FEATURE_STATUS",
        )
    by_lower = {each.name.lower(): each.name for each in FEATURES}
    if wanted.lower() not in by_lower:
        close = difflib.get_close_matches(wanted.lower(), by_lower, n=1)
        advice = f"; the closest name is {by_lower[close[0]]}" if close else ""
        raise InvalidRequestError(
            f"There is no table feature {wanted}{advice}.", "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG"
        )
    return by_lower[wanted.lower()]


def _requested_version(name: str, value: str | None) -> int:
    if value is None or not value.strip().isdecimal():
        raise InvalidRequestError(
            f"{_VERSIONS[name.lower()]} is {value!r}: to add the features of a protocol version, "
            "set its number. A property cannot remove a feature."
        )
    return int(value)


def _features_of(versions: Mapping[str, int]) -> tuple[str, ...]:
    """The features of protocol versions; a missing version is the lowest that fits the other."""
    if not versions:
        return ()
    writer = versions.get(_WRITER_VERSION)
    if writer is None:
        reader = versions[_READER_VERSION]
        return features_of_versions(reader, _LEAST_WRITERS.get(reader, 1))
    fitting = max(each for each, least in _LEAST_WRITERS.items() if least <= max(writer, 1))
    return features_of_versions(versions.get(_READER_VERSION, fitting), writer)


def _spelling(row: Property[Any], name: str) -> str:
    is_older = row.older_name is not None and name.lower() == row.older_name.lower()
    return row.older_name if is_older and row.older_name else row.name


def _is_unknown(name: str) -> bool:
    lower = name.lower()
    return lower.startswith((DELTA, _OURS)) and not lower.startswith(CONSTRAINTS)


def _advice(name: str) -> str:
    rows = _rows_by_lower_name()
    found = difflib.get_close_matches(name.lower(), rows, n=1)
    known = "; names without the prefix delta. or delta_ops. are free for your own properties"
    return f"; the closest name is {rows[found[0]].name}" if found else known


@cache
def _rows_by_lower_name() -> Mapping[str, Property[Any]]:
    older = {each.older_name.lower(): each for each in PROPERTIES if each.older_name}
    return {**older, **{each.name.lower(): each for each in PROPERTIES}}

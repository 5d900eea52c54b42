"""Version checksums read: the state of version n as its writer recorded it in `n.crc`.

Source: PROTOCOL.md, "Version Checksum File".

Checksums are optional and often incomplete. A missing, malformed or empty file is ignored, and so
is each such field. A checksum is not used if it names another transaction than the commit of its
version, see `lost_commits`. Values taken from a checksum instead of a checkpoint are compared as
soon as that checkpoint is opened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from delta_ops.errors import DeltaOpsError, LogCorruptError
from delta_ops.log.table_state import TableState
from delta_ops.protocol.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from delta_ops.protocol.file_names import checksum_name
from delta_ops.protocol.json.codec import (
    domain_metadata_from_json,
    metadata_from_json,
    protocol_from_json,
    set_transaction_from_json,
)
from delta_ops.protocol.stats.file_size_histogram import FileSizeHistogram, histogram_from_json
from delta_ops.protocol.table_definition import TableDefinition, validate
from delta_ops.storage import Storage

T = TypeVar("T")

_TXN_ID_FIRST = re.compile(rb'\{"txnId":"([0-9A-Za-z-]+)"')
"""Format of most writers. Parsing the rest of the file would take longer than reading it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChecksum:
    """The content of a checksum file; None for fields that are missing or malformed."""

    path: str
    version: int
    num_files: int | None
    table_size_bytes: int | None
    protocol: Protocol | None
    metadata: Metadata | None
    txn_id: str | None = None
    """`commitInfo.txnId` of the version's commit."""
    in_commit_timestamp: int | None = None
    """Milliseconds since the Unix epoch."""
    transactions: tuple[SetTransaction, ...] | None = None
    """All transaction identifiers of the version."""
    domains: tuple[DomainMetadata, ...] | None = None
    """All domains of the version, without removed domains."""
    histogram: FileSizeHistogram | None = None


def load_checksum(storage: Storage, directory: str, version: int) -> VersionChecksum | None:
    """Load the checksum of a version; None if there is none or it cannot be read."""
    content = _content(storage, f"{directory}/{checksum_name(version)}")
    return checksum_from_bytes(content, directory, version)


def checksum_from_bytes(content: bytes, directory: str, version: int) -> VersionChecksum | None:
    """Parse the checksum of a version; None if it is malformed."""
    path = f"{directory}/{checksum_name(version)}"
    stored = _parse_object(content)
    if stored is None:
        return None
    # The reference used another name before the protocol defined the histogram.
    histogram_name = "fileSizeHistogram" if "fileSizeHistogram" in stored else "histogramOpt"
    return VersionChecksum(
        path=path,
        version=version,
        num_files=_count(stored, "numFiles"),
        table_size_bytes=_count(stored, "tableSizeBytes"),
        protocol=_decode(stored, "protocol", protocol_from_json),
        metadata=_decode(stored, "metadata", metadata_from_json),
        txn_id=_txn_id(stored),
        in_commit_timestamp=_count(stored, "inCommitTimestampOpt"),
        transactions=_decode(stored, "setTransactions", _decode_each(set_transaction_from_json)),
        domains=_decode(stored, "domainMetadata", _decode_each(domain_metadata_from_json)),
        histogram=_decode(stored, histogram_name, histogram_from_json),
    )


def load_checksum_txn_id(storage: Storage, directory: str, version: int) -> str | None:
    """Load the transaction that a checksum names; None without a checksum or a transaction."""
    content = _content(storage, f"{directory}/{checksum_name(version)}")
    if named := _TXN_ID_FIRST.match(content):
        return named[1].decode()
    stored = _parse_object(content)
    return None if stored is None else _txn_id(stored)


def has_readable_state(checksum: VersionChecksum, table: str) -> bool:
    """Whether a checksum holds protocol and metadata that delta_ops can open."""
    if checksum.protocol is None or checksum.metadata is None:
        return False
    try:
        definition = TableDefinition(protocol=checksum.protocol, metadata=checksum.metadata)
        validate(definition, "open", table=table)
    except DeltaOpsError:  # if the checksum is right, opening the checkpoint fails the same way
        return False
    return True


def validate_checkpoint(
    checksum: VersionChecksum, of_checkpoint: TableState, of_commits: TableState, table: str
) -> None:
    """Compare values taken from a checksum with the checkpoint.

    The checksum belongs to the checkpoint's version or to a later version. If no commit since the
    checkpoint has a protocol, the checkpoint's protocol holds for all these versions. The same is
    true of the metadata.

    Raises:
        LogCorruptError: They disagree.
    """
    taken = replace(
        checksum,
        protocol=None if of_commits.protocol else checksum.protocol,
        metadata=None if of_commits.metadata else checksum.metadata,
    )
    protocol = of_commits.protocol or of_checkpoint.protocol
    metadata = of_commits.metadata or of_checkpoint.metadata
    if protocol is None or metadata is None:
        missing = "metaData" if protocol else "protocol"
        raise LogCorruptError(
            table, checksum.path, f"the checkpoint of its version has no {missing}"
        )
    for what, value, found in differences(taken, protocol, metadata):
        raise LogCorruptError(
            table,
            checksum.path,
            f"its {what} is {value}, but the checkpoint's is {found}; one of them is damaged: "
            "compare with a backup, and delete this file if the checkpoint is right",
        )


def differences(
    checksum: VersionChecksum, protocol: Protocol, metadata: Metadata
) -> Iterator[tuple[str, Any, Any]]:
    """Differing fields of protocol and metadata: name, value in the checksum, actual value."""
    pairs: list[tuple[str, Any, Any]] = []
    if checksum.protocol is not None:
        pairs += _pairs("protocol", _protocol_fields(checksum.protocol), _protocol_fields(protocol))
    if checksum.metadata is not None:
        pairs += _pairs("metadata", _metadata_fields(checksum.metadata), _metadata_fields(metadata))
    return (pair for pair in pairs if pair[1] != pair[2])


def _pairs(
    what: str, recorded: Mapping[str, Any], found: Mapping[str, Any]
) -> list[tuple[str, Any, Any]]:
    return [(f"{what}.{name}", value, found[name]) for name, value in recorded.items()]


def _protocol_fields(protocol: Protocol) -> dict[str, Any]:
    return {
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "readerFeatures": sorted(protocol.reader_features or ()),
        "writerFeatures": sorted(protocol.writer_features or ()),
    }


def _metadata_fields(metadata: Metadata) -> dict[str, Any]:
    return {
        "id": metadata.id,
        "schemaString": metadata.schema_string,
        "partitionColumns": list(metadata.partition_columns),
        "configuration": dict(metadata.configuration),
    }


def _content(storage: Storage, path: str) -> bytes:
    """The bytes of a checksum file; empty if it cannot be read."""
    try:
        return storage.read(path)
    except (FileNotFoundError, DeltaOpsError):
        return b""


def _parse_object(content: bytes) -> Mapping[str, Any] | None:
    try:
        stored = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return stored if isinstance(stored, dict) else None


def _txn_id(stored: Mapping[str, Any]) -> str | None:
    value = stored.get("txnId")
    return value if isinstance(value, str) else None


def _count(stored: Mapping[str, Any], name: str) -> int | None:
    value = stored.get(name)
    return value if type(value) is int else None


def _decode_each(decode: Callable[[Mapping[str, Any]], T]) -> Callable[[Any], tuple[T, ...]]:
    return lambda bodies: tuple(decode(body) for body in bodies)


def _decode(stored: Mapping[str, Any], name: str, decode: Callable[[Any], T]) -> T | None:
    try:
        return decode(stored[name])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None

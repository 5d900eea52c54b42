"""Version checksums: in `n.crc` a writer says what it found the table to be at version n.

Source: PROTOCOL.md, "Version Checksum File". Optional, and often incomplete: what is missing, or
malformed, says nothing. What is there has to agree with the log.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from delta_ops.errors import DeltaOpsError, LogCorruptError
from delta_ops.log.snapshot import Snapshot
from delta_ops.protocol.file_names import checksum_name
from delta_ops.protocol.json_codec import metadata_from_json, protocol_from_json


def validate_checksum(snapshot: Snapshot) -> bool:
    """Compare the snapshot with its checksum; whether there is one.

    Raises:
        LogCorruptError: They disagree.
    """
    path = f"{snapshot.log_directory}/{checksum_name(snapshot.version)}"
    try:
        stored = json.loads(snapshot.storage.read(path))
    except (FileNotFoundError, DeltaOpsError, ValueError, RecursionError):
        return False
    if not isinstance(stored, dict):
        return False
    for what, said, found in _compared(stored, snapshot):
        if said != found:
            raise LogCorruptError(
                snapshot.uri,
                path,
                f"it says that {what} is {said}, and by the log it is {found}; one of them is "
                "damaged: compare with a backup before anything is deleted",
            )
    return True


def _compared(stored: Mapping[str, Any], snapshot: Snapshot) -> Iterator[tuple[str, Any, Any]]:
    for name, value in (
        ("numFiles", snapshot.num_files),
        ("tableSizeBytes", snapshot.size_bytes),
    ):
        if type(stored.get(name)) is int:
            yield name, stored[name], value
    try:
        protocol = protocol_from_json(stored["protocol"])
        metadata = metadata_from_json(stored["metadata"])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return
    ours = snapshot.protocol
    yield "protocol.minReaderVersion", protocol.min_reader_version, ours.min_reader_version
    yield "protocol.minWriterVersion", protocol.min_writer_version, ours.min_writer_version
    yield (
        "protocol.writerFeatures",
        sorted(protocol.writer_features or ()),
        sorted(ours.writer_features or ()),
    )
    yield "metadata.id", metadata.id, snapshot.metadata.id
    yield "metadata.schemaString", metadata.schema_string, snapshot.metadata.schema_string

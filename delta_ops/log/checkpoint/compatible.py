"""Compatible checkpoints: a copy of a V2 checkpoint under the name of a classic checkpoint.

Source: PROTOCOL.md, "Checkpoints" (Backward compatibility while using UUID-named checkpoints).

A reader without V2 support ignores V2 checkpoint names. While commit 0 exists, the reader learns
from the commits that the table has an unsupported feature. After a clean-up of the log, the reader
would find neither commit 0 nor a checkpoint, and report a damaged table. In this copy it finds the
protocol. The copy is itself a V2 checkpoint with the same sidecars.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from delta_ops.errors import LogCorruptError
from delta_ops.log.checkpoint.parquet_files import reading
from delta_ops.log.checkpoint.sidecar_references import named_sidecars
from delta_ops.log.checkpoint.sidecars import list_sidecars
from delta_ops.protocol.arrow_schemas import (
    ADD,
    DOMAIN_METADATA,
    METADATA,
    PROTOCOL,
    REMOVE,
    STRING_MAP,
    TXN,
)
from delta_ops.protocol.file_names import (
    V2CheckpointName,
    checkpoint_name,
    log_file_name,
    version_prefix,
)
from delta_ops.storage import FileInfo, Storage
from delta_ops.storage.own_files import create_own

_SIDECAR = pa.struct(
    [
        ("path", pa.string()),
        ("sizeInBytes", pa.int64()),
        ("modificationTime", pa.int64()),
        ("tags", STRING_MAP),
    ]
)
_SCHEMA = pa.schema(
    [
        ("txn", TXN),
        ("add", pa.struct(list(ADD))),
        ("remove", pa.struct(list(REMOVE))),
        ("metaData", METADATA),
        ("protocol", PROTOCOL),
        ("domainMetadata", DOMAIN_METADATA),
        ("checkpointMetadata", pa.struct([("version", pa.int64()), ("tags", STRING_MAP)])),
        ("sidecar", _SIDECAR),
    ]
)


def write_compatible_checkpoint(storage: Storage, directory: str, version: int) -> bool:
    """Copy the version's V2 checkpoint to the name of a classic one.

    Returns:
        False if another checkpoint already has that name.

    Raises:
        LogCorruptError: The checkpoint is gone, lacks a sidecar, or cannot be read.
    """
    path = f"{directory}/{checkpoint_name(version)}"
    top = _top_level_file(storage, directory, version)
    with reading(storage, top):
        data = storage.read(top.path)
        content = _encode_parquet(data) if top.path.endswith(".json") else data
    try:
        if storage.stat(path).size == 0:  # a writer died before it wrote the first byte
            storage.delete(path)
    except FileNotFoundError:
        pass
    return create_own(storage, path, content)


def _top_level_file(storage: Storage, directory: str, version: int) -> FileInfo:
    """Find the top-level file of a complete checkpoint; readers prefer the copy to other files."""
    sidecars = {info.path for info in list_sidecars(storage, directory)}
    lacking = None
    for info in storage.list_from(directory, version_prefix(version)):
        match log_file_name(info.path.rpartition("/")[2]):
            case V2CheckpointName(version=found) if found == version and info.size:
                lacking = min(named_sidecars(storage, info) - sidecars, default=None)
                if lacking is None:
                    return info
    if lacking is not None:
        raise LogCorruptError(
            storage.uri,
            lacking,
            f"the V2 checkpoint of version {version} needs this file, which is missing; restore "
            "it from a backup, or delete the checkpoint if the commits that it covers still exist",
        )
    raise LogCorruptError(
        storage.uri,
        f"{directory}/{checkpoint_name(version)}",
        f"the V2 checkpoint of version {version} was deleted after it was listed; run this again",
    )


def _encode_parquet(lines: bytes) -> bytes:
    rows = [_pair_maps(json.loads(line)) for line in lines.splitlines() if line.strip()]
    sink = BytesIO()
    table = pa.Table.from_pylist(rows, schema=_SCHEMA)
    pq.write_table(table, sink, compression="snappy", write_page_checksum=True)
    return sink.getvalue()


def _pair_maps(row: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The row with each map as a list of pairs, as Arrow requires; unknown actions are dropped."""
    return {
        name: dict(_pair_fields(body, _SCHEMA.field(name).type))
        for name, body in row.items()
        if name in _SCHEMA.names
    }


def _pair_fields(body: Mapping[str, Any], struct: pa.StructType) -> Iterator[tuple[str, Any]]:
    for field in struct:
        value = body.get(field.name)
        if value is None:
            continue
        if pa.types.is_map(field.type):
            yield field.name, list(value.items())
        elif pa.types.is_struct(field.type):
            yield field.name, dict(_pair_fields(value, field.type))
        else:
            yield field.name, value

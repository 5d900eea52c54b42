"""Test double: tables with data files from another writer, in any form."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from delta_ops import DeltaLog
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.actions import (
    Action,
    AddFile,
    CommitInfo,
    DeletionVector,
    Metadata,
    Protocol,
)
from delta_ops.protocol.schema import StructType, schema_to_json

READER_FEATURES = (
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "typeWidening",
    "variantType",
)
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_UUID = "00000000000000000000"


def create(
    root: Path,
    schema: StructType,
    adds: Iterable[AddFile] = (),
    configuration: dict[str, str] | None = None,
    partition_by: tuple[str, ...] = (),
    features: tuple[str, ...] = READER_FEATURES,
) -> DeltaLog:
    """A table with every reader feature, unless a test passes its own features."""
    log = DeltaLog(root)
    protocol = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=features,
        writer_features=(*features, "changeDataFeed"),
    )
    metadata = Metadata(
        id="0" * 36,
        schema_string=schema_to_json(schema),
        partition_columns=partition_by,
        configuration=configuration or {},
        created_time=0,
    )
    commit(log, 0, [protocol, metadata, *adds])
    return log


def commit(log: DeltaLog, version: int, actions: Iterable[Action], operation: str = "TEST") -> None:
    info = CommitInfo(values={"timestamp": version, "operation": operation})
    create_commit(log.storage, log.log_directory, version, [info, *actions])


def data_file(root: Path, name: str, rows: pa.Table, **changes: Any) -> AddFile:
    """Write a data file; `options` go to `pyarrow.parquet.write_table`."""
    place = root / name
    place.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, place, **changes.pop("options", {}))
    values: dict[str, Any] = {"partition_values": {}, "modification_time": 0, **changes}
    return AddFile(path=name, size=place.stat().st_size, **values)


def inline_vector(rows: Iterable[int]) -> DeletionVector:
    bitmap = BitMap64(rows)
    data = _data(bitmap)
    text = base64.b85encode(data + bytes(-len(data) % 4)).decode()
    return DeletionVector(
        storage_type="i",
        path_or_inline_dv=text.translate(str.maketrans(_B85, _Z85)),
        size_in_bytes=len(data),
        cardinality=len(bitmap),
    )


def stored_vector(root: Path, rows: Iterable[int], prefix: str = "") -> DeletionVector:
    """Append a deletion vector to the shared vector file."""
    bitmap = BitMap64(rows)
    data = _data(bitmap)
    place = vector_file(root, prefix)
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("ab") as file:
        if not file.tell():
            file.write(b"\1")
        offset = file.tell()
        file.write(len(data).to_bytes(4, "big") + data + zlib.crc32(data).to_bytes(4, "big"))
    return DeletionVector(
        storage_type="u",
        path_or_inline_dv=prefix + _UUID,
        offset=offset,
        size_in_bytes=len(data),
        cardinality=len(bitmap),
    )


def vector_file(root: Path, prefix: str = "") -> Path:
    return root / prefix / "deletion_vector_00000000-0000-0000-0000-000000000000.bin"


def stats(**values: Any) -> str:
    return json.dumps(values)


def _data(bitmap: BitMap64) -> bytes:
    return (1681511377).to_bytes(4, "little") + bitmap.serialize()

"""Checkpoints written: the classic single file.

Source: PROTOCOL.md, "Checkpoints" (Requirements for Writers) and "Checkpoint Schema".

The rows are the snapshot's, streamed: actions that are not about files, tombstones that have not
expired, then live files. A checkpoint is created, never replaced: two writers of one version write
the same state, so whoever comes second has nothing to do. An empty file is no checkpoint, and is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delta_ops.log.checkpoint_parts import load_footers
from delta_ops.log.last_checkpoint import LastCheckpoint, write_hint
from delta_ops.log.snapshot import Snapshot
from delta_ops.protocol.actions import SetTransaction
from delta_ops.protocol.arrow_schemas import (
    ADD,
    DOMAIN_METADATA,
    METADATA,
    PROTOCOL,
    REMOVE,
    TXN,
)
from delta_ops.protocol.file_names import checkpoint_name
from delta_ops.protocol.json_codec import json_body
from delta_ops.storage import Storage

# The reference leaves these out of a tombstone's row: nothing reads them once the file is gone.
_TOMBSTONE = pa.schema([field for field in REMOVE if field.name not in ("tags", "stats")])
_SCHEMA = pa.schema(
    [
        ("txn", TXN),
        ("add", pa.struct(list(ADD))),
        ("remove", pa.struct(list(_TOMBSTONE))),
        ("metaData", METADATA),
        ("protocol", PROTOCOL),
        ("domainMetadata", DOMAIN_METADATA),
    ]
)
_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCheckpoint:
    """What a checkpoint came to."""

    version: int
    num_actions: int
    num_add_files: int
    size_bytes: int
    expired_tombstones: int
    """Left out because their retention is over."""


def write_checkpoint(snapshot: Snapshot, *, now_ms: int) -> WrittenCheckpoint | None:
    """Write the classic checkpoint of a snapshot's version and point the hint at it.

    Returns:
        None if the version has its checkpoint already.

    Raises:
        LogCorruptError: What stands in its place cannot be read.
    """
    storage, directory = snapshot.storage, snapshot.log_directory
    tombstones = snapshot.tombstones()
    kept = tombstones.filter(unexpired(tombstones, now_ms, snapshot))
    counts = {"actions": 0, "adds": 0}

    def write(sink: IO[bytes]) -> None:
        with pq.ParquetWriter(
            sink, _SCHEMA, compression="snappy", write_page_checksum=True
        ) as writer:
            for batch in _rows(snapshot, kept, now_ms):
                writer.write_table(batch)
                counts["actions"] += len(batch)
                counts["adds"] += len(batch) - batch["add"].null_count

    path = f"{directory}/{checkpoint_name(snapshot.version)}"
    _delete_if_empty(storage, path)
    try:
        info = storage.create_from_stream(path, write)
    except FileExistsError:
        _point_at_existing(storage, directory, snapshot.version)
        return None
    written = WrittenCheckpoint(
        version=snapshot.version,
        num_actions=counts["actions"],
        num_add_files=counts["adds"],
        size_bytes=info.size,
        expired_tombstones=len(tombstones) - len(kept),
    )
    write_hint(
        storage,
        directory,
        LastCheckpoint(
            version=written.version,
            size=written.num_actions,
            size_in_bytes=written.size_bytes,
            num_of_add_files=written.num_add_files,
        ),
    )
    return written


def _point_at_existing(storage: Storage, directory: str, version: int) -> None:
    """Point the hint at a checkpoint that was there, whose writer may have died before it did."""
    info = storage.stat(f"{directory}/{checkpoint_name(version)}")
    size = load_footers(storage, [info])[info.path].metadata.num_rows
    write_hint(
        storage, directory, LastCheckpoint(version=version, size=size, size_in_bytes=info.size)
    )


def _delete_if_empty(storage: Storage, path: str) -> None:
    """Make room where a writer died before its first byte; readers pass such a file over."""
    try:
        if storage.stat(path).size == 0:
            storage.delete(path)
    except FileNotFoundError:
        pass


def unexpired(tombstones: pa.Table, now_ms: int, snapshot: Snapshot) -> pa.ChunkedArray:
    """Which tombstones must stay: those whose retention is not over.

    Source: PROTOCOL.md, "Action Reconciliation". One without a deletion timestamp has expired.
    """
    horizon_ms = now_ms - snapshot.properties.deleted_file_retention_ms
    return pc.fill_null(pc.greater(tombstones["deletionTimestamp"], horizon_ms), False)


def live_transactions(snapshot: Snapshot, now_ms: int) -> list[SetTransaction]:
    """Transaction identifiers that have not expired.

    They expire only where the user has set `delta.setTransactionRetentionDuration`; one without
    `lastUpdated` never does, since its age is not known.
    """
    retention_ms = snapshot.properties.set_transaction_retention_ms
    return [
        txn
        for txn in snapshot.transactions().values()
        if retention_ms is None
        or txn.last_updated is None
        or txn.last_updated > now_ms - retention_ms
    ]


def _rows(snapshot: Snapshot, tombstones: pa.Table, now_ms: int) -> Iterator[pa.Table]:
    singles = [
        {"protocol": json_body(snapshot.protocol)},
        {"metaData": json_body(snapshot.metadata)},
        *({"txn": json_body(txn)} for txn in live_transactions(snapshot, now_ms)),
        *({"domainMetadata": json_body(domain)} for domain in snapshot.domain_metadata().values()),
    ]
    yield pa.Table.from_pylist([_with_pairs(row) for row in singles], schema=_SCHEMA)
    yield from _wrapped("remove", [tombstones.select(_TOMBSTONE.names)])
    yield from _wrapped("add", snapshot.stream_live(ADD.names))


def _wrapped(action: str, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    struct = _SCHEMA.field(action).type
    for table in tables:
        for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
            columns = [_conformed(batch, field) for field in struct]
            rows = pa.StructArray.from_arrays(columns, fields=list(struct))
            yield pa.table(
                [
                    rows if field.name == action else pa.nulls(len(rows), field.type)
                    for field in _SCHEMA
                ],
                schema=_SCHEMA,
            )


def _conformed(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    if field.name == "dataChange":
        # A checkpoint changes no data: the reference writes false for every file.
        return pa.array([False]).take(pa.array([0] * len(batch), pa.int8()))
    return batch.column(field.name)


def _with_pairs(row: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    """Maps as pairs, as Arrow takes them."""
    ((name, body),) = row.items()
    if name != "metaData":
        return row
    stored = dict(body)
    stored["configuration"] = _pairs(stored["configuration"])
    stored["format"] = {
        **_dict(stored["format"]),
        "options": _pairs(_dict(stored["format"])["options"]),
    }
    return {name: stored}


def _dict(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return value


def _pairs(value: object) -> list[tuple[str, object]]:
    return list(_dict(value).items())

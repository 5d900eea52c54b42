"""Checkpoints read: the reconciled state of a version, column by column.

Source: PROTOCOL.md, "Checkpoints" and "Checkpoint Schema". Only the columns that are asked for are
read, and file actions are streamed: a checkpoint may hold millions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delta_ops.errors import LogCorruptError
from delta_ops.log.segment import Checkpoint
from delta_ops.protocol.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from delta_ops.protocol.arrow_schemas import ADD, REMOVE, conform
from delta_ops.protocol.json_codec import (
    domain_metadata_from_json,
    metadata_from_json,
    protocol_from_json,
    set_transaction_from_json,
)
from delta_ops.storage import FileInfo, Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """Everything a version holds but its files."""

    protocol: Protocol | None
    metadata: Metadata | None
    transactions: Mapping[str, SetTransaction]
    """By application id."""
    domains: Mapping[str, DomainMetadata]
    """By domain; removed ones included until a checkpoint drops them."""


EMPTY_STATE = TableState(protocol=None, metadata=None, transactions={}, domains={})


def read_state(storage: Storage, checkpoint: Checkpoint) -> TableState:
    """The actions of a checkpoint that are not about files."""
    rows: list[Mapping[str, Any]] = []
    for part in checkpoint.parts:
        with _open(storage, part) as file:
            present = [name for name in _STATE_COLUMNS if name in file.schema_arrow.names]
            if present:
                rows.extend(_state_rows(file, present))
    return TableState(
        protocol=_last(protocol_from_json(row["protocol"]) for row in rows if row.get("protocol")),
        metadata=_last(metadata_from_json(row["metaData"]) for row in rows if row.get("metaData")),
        transactions={
            txn.app_id: txn
            for txn in (set_transaction_from_json(row["txn"]) for row in rows if row.get("txn"))
        },
        domains={
            domain.domain: domain
            for domain in (
                domain_metadata_from_json(row["domainMetadata"])
                for row in rows
                if row.get("domainMetadata")
            )
        },
    )


def stream_adds(
    storage: Storage, checkpoint: Checkpoint, columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Add rows of a checkpoint with these `ADD` columns, in batches."""
    return _stream(storage, checkpoint, "add", pa.schema([ADD.field(name) for name in columns]))


def stream_removes(storage: Storage, checkpoint: Checkpoint) -> Iterator[pa.Table]:
    """Remove rows of a checkpoint, in batches of schema `REMOVE`."""
    return _stream(storage, checkpoint, "remove", REMOVE)


_STATE_COLUMNS = ("protocol", "metaData", "txn", "domainMetadata")


def _state_rows(file: pq.ParquetFile, columns: list[str]) -> Iterator[dict[str, Any]]:
    for batch in file.iter_batches(columns=columns):
        present = pc.is_valid(batch.column(0))
        for column in batch.columns[1:]:
            present = pc.or_(present, pc.is_valid(column))
        yield from batch.filter(present).to_pylist(maps_as_pydicts="strict")


def _stream(
    storage: Storage, checkpoint: Checkpoint, action: str, schema: pa.Schema
) -> Iterator[pa.Table]:
    for part in checkpoint.parts:
        with _open(storage, part) as file:
            if action not in file.schema_arrow.names:
                continue
            stored = file.schema_arrow.field(action).type
            names = {stored.field(i).name for i in range(stored.num_fields)}
            if "path" not in names:
                raise LogCorruptError(storage.uri, part.path, f"its {action} has no path")
            wanted = {name for name in schema.names if name in names} | {"path"}
            if "stats" in schema.names and "stats_parsed" in names:
                wanted.add("stats_parsed")
            try:
                for batch in file.iter_batches(columns=[f"{action}.{name}" for name in wanted]):
                    rows = pc.struct_field(batch.column(0), "path").is_valid()
                    yield conform(_with_stats(batch.column(0).filter(rows)), schema)
            except pa.ArrowException as error:
                raise _unreadable(storage, part, error) from error


def _with_stats(adds: pa.StructArray) -> pa.StructArray:
    """Adds whose statistics are only there as a struct, with the same statistics as JSON."""
    names = [adds.type.field(i).name for i in range(adds.type.num_fields)]
    if "stats_parsed" not in names:
        return adds
    parsed = pc.struct_field(adds, "stats_parsed")
    texts = pc.struct_field(adds, "stats").to_pylist() if "stats" in names else [None] * len(adds)
    stats = pa.array(
        [
            text if text is not None or row is None else _stats_json(row)
            for text, row in zip(texts, parsed.to_pylist(), strict=True)
        ],
        pa.string(),
    )
    kept = [name for name in names if name not in ("stats", "stats_parsed")]
    arrays = [pc.struct_field(adds, name) for name in kept]
    return pa.StructArray.from_arrays([*arrays, stats], names=[*kept, "stats"])


def _stats_json(row: Mapping[str, Any]) -> str | None:
    try:
        return json.dumps(_without_nulls(row), separators=(",", ":"), default=_json_value)
    except (TypeError, ValueError):
        return None


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(v) for name, v in value.items() if v is not None}
    return value


def _json_value(value: Any) -> Any:
    """Dates and timestamps as statistics have them; other types carry no bounds."""
    if hasattr(value, "isoformat"):
        text: str = value.isoformat()
        return text.replace("+00:00", "Z")
    raise TypeError(type(value))


def _open(storage: Storage, part: FileInfo) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(storage.open_input(part.path), pre_buffer=True)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise _unreadable(storage, part, error) from error


def _unreadable(storage: Storage, part: FileInfo, error: Exception) -> LogCorruptError:
    reason = str(error).splitlines()[0].rstrip(".")
    return LogCorruptError(
        storage.uri,
        part.path,
        f"the checkpoint cannot be read ({reason}); delete it if the commits it covers are still "
        "there, else restore it from a backup",
    )


def _last(values: Iterable[Any]) -> Any:
    found = None
    for value in values:
        found = value
    return found

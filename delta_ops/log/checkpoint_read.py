"""Checkpoints read: the reconciled state of a version, column by column.

Source: PROTOCOL.md, "Checkpoints" and "Checkpoint Schema". Only the columns that are asked for are
read, and file actions are streamed: a checkpoint may hold millions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.errors import LogCorruptError
from delta_ops.log.checkpoint_parts import (
    CURE,
    Columns,
    Piece,
    iter_pieces,
    load_footers,
    reading,
)
from delta_ops.log.parsed_stats import with_json_stats
from delta_ops.log.segment import Checkpoint
from delta_ops.protocol.actions import (
    DomainMetadata,
    Metadata,
    Protocol,
    SetTransaction,
    Sidecar,
)
from delta_ops.protocol.arrow_schemas import ADD, REMOVE, TXN, conform
from delta_ops.protocol.json_codec import (
    LineError,
    decode_commits,
    domain_metadata_from_json,
    metadata_from_json,
    protocol_from_json,
    sidecar_from_json,
)
from delta_ops.storage import FileInfo, Storage
from delta_ops.storage.parquet_ranges import Footer


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """Everything a version holds but its files."""

    protocol: Protocol | None
    metadata: Metadata | None
    transactions: Mapping[str, SetTransaction]
    """By application id."""
    domains: Mapping[str, DomainMetadata]
    """By domain; removed ones included until a checkpoint drops them."""


SIDECARS = "_sidecars"
EMPTY_STATE = TableState(protocol=None, metadata=None, transactions={}, domains={})


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCheckpoint:
    """A checkpoint of any kind: its state, and where its file actions are."""

    state: TableState
    files: tuple[FileInfo, ...]
    """Parquet files."""
    adds: pa.Table = field(default_factory=ADD.empty_table)
    """Those that stand in a top-level file of JSON."""
    removes: pa.Table = field(default_factory=REMOVE.empty_table)
    footers: Mapping[str, Footer] = field(default_factory=dict)
    """By path, of the Parquet files that were read to open it."""


def open_checkpoint(storage: Storage, checkpoint: Checkpoint) -> OpenCheckpoint:
    """Read the actions of a checkpoint that are not about files.

    Raises:
        FileNotFoundError: A part is gone.
        LogCorruptError: A part cannot be read.
    """
    if checkpoint.parts[0].path.endswith(".json"):
        return _open_json(storage, checkpoint.parts[0])
    rows: list[Mapping[str, Any]] = []
    transactions: dict[str, SetTransaction] = {}
    footers = load_footers(storage, checkpoint.parts)
    for piece in iter_pieces(storage, checkpoint.parts, footers, _columns_of_state):
        with reading(storage, piece.part):
            names = piece.file.schema_arrow.names
            rows.extend(_state_rows(piece, [name for name in _STATE_COLUMNS if name in names]))
            if "txn" in names:
                transactions.update((txn.app_id, txn) for txn in _transactions(piece))
    with reading(storage, checkpoint.parts[-1]):
        domains = [domain_metadata_from_json(body) for body in _bodies(rows, "domainMetadata")]
        state = TableState(
            protocol=_last(protocol_from_json(body) for body in _bodies(rows, "protocol")),
            metadata=_last(metadata_from_json(body) for body in _bodies(rows, "metaData")),
            transactions=transactions,
            domains={domain.domain: domain for domain in domains},
        )
        sidecars = [sidecar_from_json(body) for body in _bodies(rows, "sidecar")]
    return OpenCheckpoint(
        state=state,
        files=(*checkpoint.parts, *(_located(each, checkpoint.parts[0]) for each in sidecars)),
        footers=footers,
    )


def _open_json(storage: Storage, part: FileInfo) -> OpenCheckpoint:
    try:
        (actions,) = decode_commits([storage.read(part.path)])
    except LineError as error:
        raise LogCorruptError(
            storage.uri, f"{part.path}, line {error.line}", f"{error.reason}; {CURE}"
        ) from error
    others = actions.others
    return OpenCheckpoint(
        state=TableState(
            protocol=_last(each for each in others if isinstance(each, Protocol)),
            metadata=_last(each for each in others if isinstance(each, Metadata)),
            transactions={e.app_id: e for e in others if isinstance(e, SetTransaction)},
            domains={each.domain: each for each in others if isinstance(each, DomainMetadata)},
        ),
        files=tuple(_located(each, part) for each in others if isinstance(each, Sidecar)),
        adds=actions.adds.select(ADD.names),
        removes=actions.removes.select(REMOVE.names),
    )


def _located(sidecar: Sidecar, top: FileInfo) -> FileInfo:
    """Sidecars lie in a directory of their own; whatever place is named, only the name counts."""
    directory, name = top.path.rpartition("/")[0], unquote(sidecar.path).rpartition("/")[2]
    path = f"{directory}/{SIDECARS}/{name}"
    return FileInfo(path, sidecar.size_in_bytes, sidecar.modification_time)


def stream_adds(
    storage: Storage, checkpoint: OpenCheckpoint, columns: Sequence[str]
) -> Iterator[pa.Table]:
    """The live files in row groups' batches, with these `arrow_schemas.ADD` columns."""
    schema = pa.schema([ADD.field(name) for name in columns])
    if len(checkpoint.adds):
        yield checkpoint.adds.select(list(columns))
    yield from _stream(storage, checkpoint, "add", schema)


def stream_removes(storage: Storage, checkpoint: OpenCheckpoint) -> Iterator[pa.Table]:
    """The tombstones, with all `arrow_schemas.REMOVE` columns."""
    if len(checkpoint.removes):
        yield checkpoint.removes
    yield from _stream(storage, checkpoint, "remove", REMOVE)


_TXN = pa.schema(list(TXN))
# The field that every action of the kind has: writers that lose the absence of a struct leave rows
# of nothing but nulls.
_STATE_COLUMNS = {
    "protocol": "minReaderVersion",
    "metaData": "id",
    "domainMetadata": "domain",
    "sidecar": "path",
}


def _columns_of_state(_part: FileInfo, schema: pa.Schema) -> Columns | None:
    names = [name for name in ("txn", *_STATE_COLUMNS) if name in schema.names]
    keys = [f"{name}.{_STATE_COLUMNS.get(name, 'appId')}" for name in names]
    return Columns(names, keys) if names else None


def _state_rows(piece: Piece, columns: list[str]) -> Iterator[dict[str, Any]]:
    if not columns:
        return
    for batch in piece.file.iter_batches(columns=columns, row_groups=piece.row_groups):
        present = pa.array([False]).take(pa.array([0] * len(batch), pa.int8()))
        for name in columns:
            key = pc.struct_field(batch.column(name), _STATE_COLUMNS[name])
            present = pc.or_(present, pc.is_valid(key))
        yield from batch.filter(present).to_pylist(maps_as_pydicts="strict")


def _bodies(rows: Iterable[Mapping[str, Any]], name: str) -> Iterator[Mapping[str, Any]]:
    for row in rows:
        body = row.get(name)
        if body is not None and body[_STATE_COLUMNS[name]] is not None:
            yield body


def _transactions(piece: Piece) -> Iterator[SetTransaction]:
    """By columns: a table may hold one identifier for each of very many sources."""
    for batch in piece.file.iter_batches(columns=["txn"], row_groups=piece.row_groups):
        stored = batch.column("txn")
        rows = conform(stored.filter(pc.struct_field(stored, "appId").is_valid()), _TXN)
        for app_id, version, last_updated in zip(
            *(column.to_pylist() for column in rows.columns), strict=True
        ):
            yield SetTransaction(app_id=app_id, version=version, last_updated=last_updated)


def _stream(
    storage: Storage, checkpoint: OpenCheckpoint, action: str, schema: pa.Schema
) -> Iterator[pa.Table]:
    def columns_of_action(part: FileInfo, stored: pa.Schema) -> Columns | None:
        if action not in stored.names:
            return None
        struct = stored.field(action).type
        names = {struct.field(i).name for i in range(struct.num_fields)}
        if "path" not in names:
            raise LogCorruptError(storage.uri, part.path, f"its {action} has no path")
        wanted = {name for name in schema.names if name in names} | {"path"}
        if "stats" in schema.names and "stats_parsed" in names:
            wanted.add("stats_parsed")
        return Columns([f"{action}.{name}" for name in sorted(wanted)], [f"{action}.path"])

    try:
        for piece in iter_pieces(storage, checkpoint.files, checkpoint.footers, columns_of_action):
            with reading(storage, piece.part):
                for batch in piece.file.iter_batches(
                    columns=piece.columns, row_groups=piece.row_groups
                ):
                    rows = pc.struct_field(batch.column(0), "path").is_valid()
                    yield conform(with_json_stats(batch.column(0).filter(rows)), schema)
    except FileNotFoundError as error:
        raise LogCorruptError(
            storage.uri,
            error.filename,
            "this file of the checkpoint is gone; if a clean-up has deleted it since the table was "
            "opened, open the table again, else restore it from a backup",
        ) from error


def _last(values: Iterable[Any]) -> Any:
    found = None
    for value in values:
        found = value
    return found

"""Checkpoints read: the reconciled state of a version, column by column.

Source: PROTOCOL.md, "Checkpoints" and "Checkpoint Schema". Only the columns that are asked for are
read, and file actions are streamed: a checkpoint may hold millions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from delta_ops.errors import InvalidRequestError, LogCorruptError, StorageError
from delta_ops.log.parsed_stats import with_json_stats
from delta_ops.log.segment import Checkpoint
from delta_ops.protocol.actions import (
    CheckpointMetadata,
    DomainMetadata,
    Metadata,
    Protocol,
    SetTransaction,
    Sidecar,
)
from delta_ops.protocol.arrow_schemas import ADD, REMOVE, TXN, conform
from delta_ops.protocol.checkpoint_rows import (
    ACTIONS,
    column_names,
    present_rows,
    the_one,
    validate_names,
    validate_version,
)
from delta_ops.protocol.json_codec import (
    CommitActions,
    LineError,
    checkpoint_metadata_from_json,
    decode_commits,
    domain_metadata_from_json,
    metadata_from_json,
    protocol_from_json,
    sidecar_from_json,
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


SIDECARS = "_sidecars"
_CURE = "delete it if the commits it covers are still there, else restore it from a backup"
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


def open_checkpoint(storage: Storage, checkpoint: Checkpoint) -> OpenCheckpoint:
    """Read the actions of a checkpoint that are not about files.

    Raises:
        FileNotFoundError: A part is gone.
        LogCorruptError: A part cannot be read.
    """
    top = checkpoint.parts[0]
    if top.path.endswith(".json"):
        actions = _decoded_json(storage, top)
        others, adds, removes = actions.others, actions.adds, actions.removes
        files: tuple[FileInfo, ...] = ()
    else:
        others = _state_actions(storage, checkpoint.parts)
        adds, removes, files = ADD.empty_table(), REMOVE.empty_table(), checkpoint.parts
    with reading(storage, top):
        state = _state(others, checkpoint.version)
    sidecars = tuple(_located(each, top) for each in others if isinstance(each, Sidecar))
    return OpenCheckpoint(state=state, files=files + sidecars, adds=adds, removes=removes)


def _decoded_json(storage: Storage, part: FileInfo) -> CommitActions:
    try:
        (actions,) = decode_commits([storage.read(part.path)])
    except LineError as error:
        raise LogCorruptError(
            storage.uri, f"{part.path}, line {error.line}", f"{error.reason}; {_CURE}"
        ) from error
    return actions


def _state_actions(storage: Storage, parts: Sequence[FileInfo]) -> tuple[Any, ...]:
    actions: list[Any] = []
    for part in parts:
        with open_part(storage, part) as file, reading(storage, part):
            names = [name for name in _DECODERS if name in file.schema_arrow.names]
            actions.extend(_decoded_rows(file, names))
            if "txn" in file.schema_arrow.names:
                actions.extend(_transactions(file))
    return tuple(actions)


def _state(actions: Sequence[Any], version: int) -> TableState:
    """What the actions of a checkpoint come to that are not about files.

    Raises:
        ValueError: They contradict each other, or the version that the file's name says.
    """
    validate_version([a.version for a in actions if isinstance(a, CheckpointMetadata)], version)
    return TableState(
        protocol=the_one([a for a in actions if isinstance(a, Protocol)], "protocol"),
        metadata=the_one([a for a in actions if isinstance(a, Metadata)], "metaData"),
        transactions={a.app_id: a for a in actions if isinstance(a, SetTransaction)},
        domains={a.domain: a for a in actions if isinstance(a, DomainMetadata)},
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
_DECODERS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "protocol": protocol_from_json,
    "metaData": metadata_from_json,
    "domainMetadata": domain_metadata_from_json,
    "sidecar": sidecar_from_json,
    "checkpointMetadata": checkpoint_metadata_from_json,
}


def _decoded_rows(file: pq.ParquetFile, names: Sequence[str]) -> Iterator[Any]:
    for name in names:
        column_names(file.schema_arrow, name)
    for batch in file.iter_batches(columns=names) if names else ():
        for name in names:
            for body in present_rows(batch.column(name), name).to_pylist(maps_as_pydicts="strict"):
                yield _DECODERS[name](body)


def _transactions(file: pq.ParquetFile) -> Iterator[SetTransaction]:
    """By columns: a table may hold one identifier for each of very many sources."""
    column_names(file.schema_arrow, "txn")
    for batch in file.iter_batches(columns=["txn"]):
        rows = conform(present_rows(batch.column("txn"), "txn"), _TXN)
        for app_id, version, last_updated in zip(
            *(column.to_pylist() for column in rows.columns), strict=True
        ):
            yield SetTransaction(app_id=app_id, version=version, last_updated=last_updated)


def _stream(
    storage: Storage, checkpoint: OpenCheckpoint, action: str, schema: pa.Schema
) -> Iterator[pa.Table]:
    for part in checkpoint.files:
        with _open_listed(storage, part) as file, reading(storage, part):
            if action not in file.schema_arrow.names:
                continue
            names = column_names(file.schema_arrow, action)
            wanted = names & {*schema.names, ACTIONS[action].key, ACTIONS[action].witness}
            if "stats" in schema.names and "stats_parsed" in names:
                wanted.add("stats_parsed")
            for batch in file.iter_batches(columns=[f"{action}.{name}" for name in wanted]):
                rows = present_rows(batch.column(0), action)
                yield conform(with_json_stats(rows), schema)


def open_part(storage: Storage, part: FileInfo) -> pq.ParquetFile:
    """A checkpoint's file; the caller closes it.

    Raises:
        FileNotFoundError: It is gone.
        LogCorruptError: It is no Parquet file.
    """
    with reading(storage, part):
        file = pq.ParquetFile(
            storage.open_input(part.path),
            pre_buffer=True,
            coerce_int96_timestamp_unit="us",
            page_checksum_verification=True,
        )
        validate_names(file.schema_arrow)
        return file


def _open_listed(storage: Storage, part: FileInfo) -> pq.ParquetFile:
    try:
        return open_part(storage, part)
    except InvalidRequestError as error:
        raise LogCorruptError(
            storage.uri, part.path, f"the checkpoint names it, and it is no file's name; {_CURE}"
        ) from error
    except FileNotFoundError as error:
        raise LogCorruptError(
            storage.uri,
            part.path,
            "this file of the checkpoint is gone; if a clean-up has deleted it since the table was "
            "opened, open the table again, else restore it from a backup",
        ) from error


@contextmanager
def reading(storage: Storage, part: FileInfo) -> Iterator[None]:
    """Errors of Arrow and of the store, in our own words."""
    try:
        yield
    except (pa.ArrowException, ValueError, KeyError, TypeError) as error:
        raise _unreadable(storage, part, error) from error
    except FileNotFoundError:
        raise
    except OSError as error:
        # Arrow reports damaged pages as an OSError of no number; the store's failures have one, or
        # a type of their own, and say nothing of the file.
        if error.errno is None and type(error) is OSError:
            raise _unreadable(storage, part, error) from error
        raise StorageError(storage.locate(part.path), "read", str(error)) from error


def _unreadable(storage: Storage, part: FileInfo, error: Exception) -> LogCorruptError:
    reason = (str(error).splitlines() or [repr(error)])[0].rstrip(".")
    return LogCorruptError(
        storage.uri,
        part.path,
        f"the checkpoint cannot be read ({reason}); {_CURE}",
    )

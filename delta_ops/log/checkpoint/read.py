"""Checkpoints read: the reconciled state of a version, column by column.

Source: PROTOCOL.md, "Checkpoints" and "Checkpoint Schema". Only requested columns are read, and
file actions are streamed, because a checkpoint may hold millions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa

from delta_ops.errors import LogCorruptError
from delta_ops.log.checkpoint.parquet_files import (
    CURE,
    SmallPart,
    iter_pieces,
    load_footers,
    open_small,
    reading,
)
from delta_ops.log.checkpoint.sidecars import file_of_sidecar
from delta_ops.log.segment import Checkpoint
from delta_ops.log.table_state import TableState
from delta_ops.protocol.actions import (
    CheckpointMetadata,
    DomainMetadata,
    Metadata,
    Protocol,
    SetTransaction,
    Sidecar,
)
from delta_ops.protocol.arrow_schemas import ADD, REMOVE, TXN, conform
from delta_ops.protocol.arrow_values import empty_table
from delta_ops.protocol.checkpoint_rows import (
    ACTIONS,
    Fields,
    present_rows,
    the_one,
    validate_fields,
    validate_version,
)
from delta_ops.protocol.json.codec import (
    CommitActions,
    LineError,
    checkpoint_metadata_from_json,
    decode_commits,
    domain_metadata_from_json,
    metadata_from_json,
    protocol_from_json,
    sidecar_from_json,
)
from delta_ops.protocol.parsed_stats import add_json_stats
from delta_ops.storage import FileInfo, Storage
from delta_ops.storage.parquet_ranges import Footer
from delta_ops.storage.unchanging import forget_unchanging, read_unchanging_whole

# Making an empty table takes as long as reading a small column.
_NO_ADDS, _NO_REMOVES = empty_table(ADD), empty_table(REMOVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCheckpoint:
    """A checkpoint of any kind: its state, and where its file actions are."""

    state: TableState
    files: tuple[FileInfo, ...]
    """Parquet files that hold file actions."""
    adds: pa.Table = field(default_factory=ADD.empty_table)
    """Adds of a top-level JSON file."""
    removes: pa.Table = field(default_factory=REMOVE.empty_table)
    footers: Mapping[str, Footer] = field(default_factory=dict)
    """Footers of the Parquet files that were read to open the checkpoint, by path."""
    ahead: Mapping[str, pa.Table] = field(default_factory=dict)
    """File actions that were read together with the first of `files`, by action."""


def open_checkpoint(
    storage: Storage, checkpoint: Checkpoint, ahead: Mapping[str, Sequence[str]] | None = None
) -> OpenCheckpoint:
    """Read the non-file actions of a checkpoint.

    Args:
        ahead: Columns of `ADD` and `REMOVE`, by action, that the caller will need later. A small
            checkpoint is read once, with these columns.

    Raises:
        FileNotFoundError: A part is gone.
        LogCorruptError: A part cannot be read.
    """
    top = checkpoint.parts[0]
    files: tuple[FileInfo, ...] = ()
    footers: Mapping[str, Footer] = {}
    known: Mapping[str, pa.Table] = {}
    if top.path.endswith(".json"):
        actions = _decoded_json(storage, top)
        others = actions.others
        adds, removes = actions.adds.select(ADD.names), actions.removes.select(REMOVE.names)
    else:
        files = checkpoint.parts
        small = open_small(storage, top) if len(files) == 1 else None
        if small is not None:
            footers = {top.path: small.footer}
            with reading(storage, top):
                others, known = _read_at_once(small, ahead or {})
        else:
            footers = load_footers(storage, files)
            others = _state_actions(storage, files, footers)
        adds, removes = _NO_ADDS, _NO_REMOVES
    with reading(storage, top):
        state = _state(others, checkpoint.version)
    located = (file_of_sidecar(each, top) for each in others if isinstance(each, Sidecar))
    sidecars = tuple({each.path: each for each in located}.values())  # drop repeated names
    return OpenCheckpoint(
        state=state,
        files=files + sidecars,
        footers=footers,
        adds=adds,
        removes=removes,
        ahead=known,
    )


def _decoded_json(storage: Storage, part: FileInfo) -> CommitActions:
    try:
        (actions,) = decode_commits([read_unchanging_whole(storage, part)])
    except LineError as error:
        forget_unchanging(storage, part)
        raise LogCorruptError(
            storage.uri, f"{part.path}, line {error.line}", f"{error.reason}; {CURE}"
        ) from error
    return actions


def _read_at_once(
    part: SmallPart, ahead: Mapping[str, Sequence[str]]
) -> tuple[tuple[Any, ...], Mapping[str, pa.Table]]:
    """Read the non-file actions, and the file actions with the columns of `ahead`."""
    names = list(_columns_of_state(part.fields))
    of_files = {action: _columns_of(part.fields, action, cols) for action, cols in ahead.items()}
    wanted = [*names, *chain.from_iterable(of_files.values())]
    batches = part.read(wanted) if wanted else []
    actions: list[Any] = []
    for batch in batches:
        actions.extend(_decoded_rows(batch))
        if "txn" in names:
            actions.extend(_transactions(batch))
    return tuple(actions), {
        action: _rows_of(action, [b.column(action) for b in batches if columns], ahead[action])
        for action, columns in of_files.items()
    }


def _rows_of(action: str, columns: Sequence[pa.StructArray], names: Sequence[str]) -> pa.Table:
    present = [rows for rows in (present_rows(each, action) for each in columns) if len(rows)]
    if not present:
        return (_NO_ADDS if action == "add" else _NO_REMOVES).select(list(names))
    schema = pa.schema([_SCHEMAS[action].field(name) for name in names])
    return pa.concat_tables([conform(add_json_stats(rows), schema) for rows in present])


def _state_actions(
    storage: Storage, parts: Sequence[FileInfo], footers: Mapping[str, Footer]
) -> tuple[Any, ...]:
    actions: list[Any] = []
    for piece in iter_pieces(storage, parts, footers, _columns_of_state):
        with reading(storage, piece.part):
            for batch in piece.file.iter_batches(
                columns=piece.columns, row_groups=piece.row_groups
            ):
                actions.extend(_decoded_rows(batch))
                if "txn" in piece.columns:
                    actions.extend(_transactions(batch))
    return tuple(actions)


def _state(actions: Sequence[Any], version: int) -> TableState:
    """Combine the non-file actions of a checkpoint.

    Raises:
        ValueError: The actions contradict each other or the version in the file's name.
    """
    validate_version([a.version for a in actions if isinstance(a, CheckpointMetadata)], version)
    return TableState(
        protocol=the_one([a for a in actions if isinstance(a, Protocol)], "protocol"),
        metadata=the_one([a for a in actions if isinstance(a, Metadata)], "metaData"),
        transactions={a.app_id: a for a in actions if isinstance(a, SetTransaction)},
        domains={a.domain: a for a in actions if isinstance(a, DomainMetadata)},
    )


def stream_adds(
    storage: Storage, checkpoint: OpenCheckpoint, columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Yield the live files in batches, with these columns of `arrow_schemas.ADD`."""
    schema = pa.schema([ADD.field(name) for name in columns])
    if len(checkpoint.adds):
        yield checkpoint.adds.select(list(columns))
    yield from _stream(storage, checkpoint, "add", schema)


def stream_removes(
    storage: Storage, checkpoint: OpenCheckpoint, columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Yield the tombstones in batches, with these columns of `arrow_schemas.REMOVE`."""
    schema = pa.schema([REMOVE.field(name) for name in columns])
    if len(checkpoint.removes):
        yield checkpoint.removes.select(list(columns))
    yield from _stream(storage, checkpoint, "remove", schema)


_SCHEMAS = {"add": ADD, "remove": REMOVE}
_TXN = pa.schema(list(TXN))
_DECODERS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "protocol": protocol_from_json,
    "metaData": metadata_from_json,
    "domainMetadata": domain_metadata_from_json,
    "sidecar": sidecar_from_json,
    "checkpointMetadata": checkpoint_metadata_from_json,
}


def _columns_of_state(stored: Fields) -> Sequence[str]:
    names = [name for name in ("txn", *_DECODERS) if name in stored]
    for name in names:
        validate_fields(stored, name)
    return names


def _decoded_rows(batch: pa.RecordBatch) -> Iterator[Any]:
    for name in (name for name in batch.schema.names if name in _DECODERS):
        for body in present_rows(batch.column(name), name).to_pylist(maps_as_pydicts="strict"):
            yield _DECODERS[name](body)


def _transactions(batch: pa.RecordBatch) -> Iterator[SetTransaction]:
    """Read txns by column, because a table may have very many application ids."""
    present = present_rows(batch.column("txn"), "txn")
    if not len(present):
        return
    rows = conform(present, _TXN)
    for app_id, version, last_updated in zip(
        *(column.to_pylist() for column in rows.columns), strict=True
    ):
        yield SetTransaction(app_id=app_id, version=version, last_updated=last_updated)


def _columns_of(stored: Fields, action: str, wanted: Collection[str]) -> Sequence[str]:
    """The columns to read from a part to get these columns of its file actions."""
    if action not in stored:
        return ()
    validate_fields(stored, action)
    chosen = {*wanted, ACTIONS[action].key, ACTIONS[action].witness}.intersection(stored[action])
    if "stats" in wanted and "stats_parsed" in stored[action]:
        chosen.add("stats_parsed")
    return [f"{action}.{name}" for name in sorted(chosen)]


def _stream(
    storage: Storage, checkpoint: OpenCheckpoint, action: str, schema: pa.Schema
) -> Iterator[pa.Table]:
    known = checkpoint.ahead.get(action)
    files = checkpoint.files
    if known is not None and set(schema.names) <= set(known.column_names):
        files = files[1:]
        if len(known):
            yield known.select(schema.names)
    if not files:
        return
    choose = partial(_columns_of, action=action, wanted=schema.names)
    try:
        for piece in iter_pieces(storage, files, checkpoint.footers, choose):
            with reading(storage, piece.part):
                for batch in piece.file.iter_batches(
                    columns=piece.columns, row_groups=piece.row_groups
                ):
                    rows = present_rows(batch.column(0), action)
                    if len(rows):
                        yield conform(add_json_stats(rows), schema)
    except FileNotFoundError as error:
        raise LogCorruptError(
            storage.uri,
            str(error.filename),
            "this checkpoint file is missing; if a log cleanup deleted it after the table was "
            "opened, open the table again, else restore it from a backup",
        ) from error

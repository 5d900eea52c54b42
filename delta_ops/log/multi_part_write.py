"""Multi-part checkpoints written: rows by a hash of their path, each part in one order.

Source: PROTOCOL.md, "Checkpoints" (Requirements for Writers): parts must be the same in every
attempt. Which part a row is in follows from its path and from how many parts there are; how many,
from the live files alone. So attempts at different times differ in expired tombstones only, and one
that finishes what another began leaves a checkpoint of the version.

A part that is there and does not hold these files is another writer's, who clusters otherwise: with
ours it would make a checkpoint of too many files and too few. Then the version gets one part more.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delta_ops.errors import LogCorruptError
from delta_ops.log.checkpoint_content import BATCH_ROWS, REMOVE_ROW, Content
from delta_ops.log.checkpoint_parts import delete_if_empty, iter_pieces, load_footers
from delta_ops.protocol.arrow_schemas import CHECKPOINT_PARQUET
from delta_ops.protocol.checkpoint_rows import ACTIONS, Fields, present_rows
from delta_ops.protocol.file_names import checkpoint_part_name
from delta_ops.storage import FileInfo, Storage
from delta_ops.storage.parquet_ranges import Footer

_MAX_PARTS = 1_000
"""Files that are open at once while the rows are told apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenParts:
    """What a multi-part checkpoint came to."""

    parts: int
    num_actions: int
    num_add_files: int
    size_bytes: int


def write_parts(content: Content, parts: int, on_rows: Callable[[int], None]) -> WrittenParts:
    """Write a checkpoint of so many parts, or of more where another writer has begun as many.

    Args:
        on_rows: Is told how many live files are in parts that are there.
    """
    parts = min(parts, _MAX_PARTS)
    while (written := _attempt(content, parts, on_rows)) is None:
        parts += 1
    return written


def part_of(paths: pa.Array, parts: int) -> pa.Array:
    """Which part, from 0 on, each file is in; the same wherever and whenever it is asked."""
    hashes = map(zlib.crc32, paths.cast(pa.binary()).to_pylist())
    return pa.array((value % parts for value in hashes), pa.int32())


def _attempt(content: Content, parts: int, on_rows: Callable[[int], None]) -> WrittenParts | None:
    """None if a part of this number is another writer's."""
    snapshot = content.snapshot
    infos: list[FileInfo] = []
    num_actions = num_adds = 0
    with ExitStack() as stack:
        adds = _told_apart(content.adds(), content.add_type, parts, stack)
        removes = _told_apart(content.removes(), REMOVE_ROW, parts, stack)
        for number in range(parts):
            name = checkpoint_part_name(snapshot.version, number + 1, parts)
            live = _in_order(adds[number])
            rows = [
                *([content.state_rows()] if number == 0 else []),
                content.rows("remove", _in_order(removes[number])),
                content.rows("add", live),
            ]
            path = f"{snapshot.log_directory}/{name}"
            info = _create(snapshot.storage, path, rows, number, parts)
            if info is None:
                return None
            infos.append(info)
            num_actions += sum(map(len, rows))
            num_adds += len(live)
            on_rows(num_adds)
    return WrittenParts(
        parts=parts,
        num_actions=num_actions,
        num_add_files=num_adds,
        size_bytes=sum(info.size for info in infos),
    )


def _told_apart(
    batches: Iterable[pa.StructArray], data_type: pa.StructType, parts: int, stack: ExitStack
) -> list[IO[bytes]]:
    """The rows of each part, in a file that is gone when the stack is left."""
    schema = pa.schema([("row", data_type)])
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    opened = (TemporaryFile() for _ in range(parts))  # noqa: SIM115 the stack closes them
    files: list[IO[bytes]] = [stack.enter_context(file) for file in opened]
    writers = [pa.ipc.new_stream(file, schema, options=options) for file in files]
    for structs in batches:
        numbers = part_of(pc.struct_field(structs, "path"), parts)
        for number, writer in enumerate(writers):
            rows = structs.filter(pc.equal(numbers, number))
            writer.write_batch(pa.record_batch([rows], schema=schema))
    for writer, file in zip(writers, files, strict=True):
        writer.close()
        file.seek(0)
    return files


def _in_order(file: IO[bytes]) -> pa.StructArray:
    """The rows of a part by path and deletion vector, in whatever order they came."""
    rows = pa.ipc.open_stream(file).read_all()["row"].combine_chunks()
    vectors = pc.struct_field(rows, "deletionVector")
    keys = pa.table(
        {
            "path": pc.struct_field(rows, "path"),
            "place": pc.struct_field(vectors, "pathOrInlineDv"),
            "offset": pc.struct_field(vectors, "offset"),
        }
    )
    return rows.take(pc.sort_indices(keys, [(name, "ascending") for name in keys.column_names]))


def _create(
    storage: Storage, path: str, rows: Sequence[pa.Table], number: int, parts: int
) -> FileInfo | None:
    """Create the part unless it is there; None if another stands in its place."""

    def write(sink: IO[bytes]) -> None:
        with pq.ParquetWriter(sink, rows[0].schema, **CHECKPOINT_PARQUET) as writer:
            writer.write_table(pa.concat_tables(rows), row_group_size=BATCH_ROWS)

    delete_if_empty(storage, path)
    try:
        return storage.create_from_stream(path, write)
    except FileExistsError:
        info = storage.stat(path)
    try:
        return info if _is_of_an_attempt(storage, info, rows, number, parts) else None
    except LogCorruptError:
        return None


def _is_of_an_attempt(
    storage: Storage, part: FileInfo, rows: Sequence[pa.Table], number: int, parts: int
) -> bool:
    """Whether another attempt wrote the part: of its tombstones more may have been unexpired."""
    *state, removes, adds = rows
    footers = load_footers(storage, [part])
    stored_adds, stored_removes = (_paths(storage, part, footers, a) for a in ("add", "remove"))
    num_others = footers[part.path].metadata.num_rows - len(stored_adds) - len(stored_removes)
    ours = pc.struct_field(removes["remove"].combine_chunks(), "path")
    return (
        stored_adds == pc.struct_field(adds["add"].combine_chunks(), "path")
        and num_others == sum(map(len, state))
        and {*ours.to_pylist()} <= {*stored_removes.to_pylist()}
        and {*part_of(stored_removes, parts).to_pylist()} <= {number}
    )


def _paths(
    storage: Storage, part: FileInfo, footers: Mapping[str, Footer], action: str
) -> pa.Array:
    """Of the files of a part that an action names, in its order."""
    key, witness, *_ = ACTIONS[action]

    def choose(stored: Fields) -> list[str]:
        return [f"{action}.{name}" for name in (key, witness) if name in stored.get(action, ())]

    chunks = [
        pc.struct_field(present_rows(batch.column(0), action), "path")
        for piece in iter_pieces(storage, [part], footers, choose)
        for batch in piece.file.iter_batches(columns=piece.columns, row_groups=piece.row_groups)
    ]
    return pa.chunked_array(chunks, pa.string()).combine_chunks()

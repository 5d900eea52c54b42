"""Multi-part checkpoints written: rows are distributed by path hash and sorted in each part.

Source: PROTOCOL.md, "Checkpoints" (Requirements for Writers): parts must be the same in every
attempt. A row's part depends only on its path and the number of parts. The number of parts depends
only on the live files.

Existing parts are never replaced, whoever wrote them. Another writer may distribute rows
differently; its parts and ours together would hold some files twice and miss others. If a
writer has begun a checkpoint with this number of parts, a higher number is used.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delta_ops.log.checkpoint_write.content import BATCH_ROWS, REMOVE_ROW, Content
from delta_ops.log.snapshot import Snapshot
from delta_ops.protocol.arrow_schemas import CHECKPOINT_PARQUET
from delta_ops.protocol.arrow_values import array_of, scalar
from delta_ops.protocol.file_names import (
    CheckpointName,
    checkpoint_part_name,
    log_file_name,
    version_prefix,
)
from delta_ops.storage import FileInfo, Storage

_MAX_PARTS = 1_000
"""Limit of parts, because one temporary file per part is open while rows are distributed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenParts:
    """Counts and sizes of a multi-part checkpoint that was written."""

    parts: int
    num_actions: int
    num_add_files: int
    size_bytes: int


def write_parts(
    content: Content, parts: int, on_rows: Callable[[int], None]
) -> WrittenParts | None:
    """Write a checkpoint of `parts` parts, or of more if a checkpoint of so many parts exists.

    Args:
        on_rows: Called with the number of live files written so far.

    Returns:
        None if some parts are missing or differ at the end, because another writer interfered.
    """
    snapshot = content.snapshot
    begun = {name.parts for name in _checkpoint_names(snapshot)}
    parts = min(parts, _MAX_PARTS)
    while parts in begun:
        parts += 1
    try:
        written, infos = _write_all(content, parts, on_rows)
    except FileExistsError:
        return None
    listed = {info.path: info.size for info in _list_from_version(snapshot)}
    is_whole = all(listed.get(info.path) == info.size for info in infos)
    return written if is_whole else None


def part_of(paths: pa.Array, parts: int) -> pa.Array:
    """Assign each file to a part; the same path always gets the same part.

    Returns:
        For each path, the number of its part, from 0.
    """
    hashes = map(zlib.crc32, paths.cast(pa.binary()).to_pylist())
    return array_of((value % parts for value in hashes), pa.int32())


def _list_from_version(snapshot: Snapshot) -> Iterator[FileInfo]:
    """Log files, starting at the snapshot's version."""
    return snapshot.storage.list_from(snapshot.log_directory, version_prefix(snapshot.version))


def _checkpoint_names(snapshot: Snapshot) -> Iterator[CheckpointName]:
    """Names of all checkpoint files of the snapshot's version, whole files and parts."""
    for info in _list_from_version(snapshot):
        name = log_file_name(info.path.rpartition("/")[2])
        if isinstance(name, CheckpointName) and name.version == snapshot.version:
            yield name


def _write_all(
    content: Content, parts: int, on_rows: Callable[[int], None]
) -> tuple[WrittenParts, list[FileInfo]]:
    snapshot = content.snapshot
    infos: list[FileInfo] = []
    num_actions = num_adds = 0
    with ExitStack() as stack:
        adds = _split_rows(content.adds(), content.add_type, parts, stack)
        removes = _split_rows(content.removes(), REMOVE_ROW, parts, stack)
        for number in range(parts):
            name = checkpoint_part_name(snapshot.version, number + 1, parts)
            live = _sort_rows(adds[number])
            rows = [
                *([content.state_rows()] if number == 0 else []),
                content.rows("remove", _sort_rows(removes[number])),
                content.rows("add", live),
            ]
            infos.append(_create(snapshot.storage, f"{snapshot.log_directory}/{name}", rows))
            num_actions += sum(map(len, rows))
            num_adds += len(live)
            on_rows(num_adds)
    written = WrittenParts(
        parts=parts,
        num_actions=num_actions,
        num_add_files=num_adds,
        size_bytes=sum(info.size for info in infos),
    )
    return written, infos


def _split_rows(
    batches: Iterable[pa.StructArray], data_type: pa.StructType, parts: int, stack: ExitStack
) -> list[IO[bytes]]:
    """Write the rows of each part to a temporary file, which the stack closes and deletes."""
    schema = pa.schema([("row", data_type)])
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    opened = (TemporaryFile() for _ in range(parts))  # noqa: SIM115 the stack closes them
    files: list[IO[bytes]] = [stack.enter_context(file) for file in opened]
    writers = [pa.ipc.new_stream(file, schema, options=options) for file in files]
    for structs in batches:
        numbers = part_of(pc.struct_field(structs, "path"), parts)
        for number, writer in enumerate(writers):
            rows = structs.filter(pc.equal(numbers, scalar(number)))
            writer.write_batch(pa.record_batch([rows], schema=schema))
    for writer, file in zip(writers, files, strict=True):
        writer.close()
        file.seek(0)
    return files


def _sort_rows(file: IO[bytes]) -> pa.StructArray:
    """The rows of a part, sorted by path and deletion vector."""
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


def _create(storage: Storage, path: str, rows: Sequence[pa.Table]) -> FileInfo:
    def write(sink: IO[bytes]) -> None:
        with pq.ParquetWriter(sink, rows[0].schema, **CHECKPOINT_PARQUET) as writer:
            writer.write_table(pa.concat_tables(rows), row_group_size=BATCH_ROWS)

    return storage.create_from_stream(path, write)

"""Checkpoints written: the kind that the table requires, and the hint that points at it.

Source: PROTOCOL.md, "Checkpoints" (Requirements for Writers) and "Checkpoint Schema".

A checkpoint is created, never replaced: two writers of one version write the same state, so the
second writer has nothing to do. An empty file is no checkpoint and is replaced. Readers see a
checkpoint as soon as its last file exists; the hint is written after that.

A multi-part checkpoint is written beside a whole file, which is deleted once all parts exist.
deltalake's clean-up looks at names only: it takes one part for a whole checkpoint and deletes the
commits below it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from delta_ops.errors import InvalidRequestError, LogCorruptError
from delta_ops.events import OnEvent, Progress, ignore
from delta_ops.log.checkpoint.parquet_files import delete_if_empty, load_footers
from delta_ops.log.checkpoint_write.content import Content, join_small
from delta_ops.log.checkpoint_write.multi_part import write_parts
from delta_ops.log.checkpoint_write.v2 import write_top_and_sidecars
from delta_ops.log.last_checkpoint import LastCheckpoint, load_named_version, write_hint
from delta_ops.log.same_table import validate_same_table, withdrawing_if_replaced
from delta_ops.log.snapshot import Snapshot
from delta_ops.option_words import option
from delta_ops.protocol.arrow_schemas import CHECKPOINT_PARQUET
from delta_ops.protocol.file_names import (
    LAST_CHECKPOINT,
    CheckpointName,
    V2CheckpointName,
    checkpoint_name,
    log_file_name,
    version_prefix,
)
from delta_ops.protocol.schema.arrow_types import schema_from_arrow

CheckpointKind = Literal["classic", "multi-part", "v2"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCheckpoint:
    """Counts and sizes of a checkpoint that was written."""

    version: int
    kind: CheckpointKind
    num_files: int
    """Number of its files, sidecars included."""
    num_reused: int
    """Number of sidecars reused from the previous checkpoint."""
    num_actions: int
    num_add_files: int
    size_bytes: int
    """Size of all its files."""
    expired_tombstones: int
    """Number of tombstones left out because their retention has ended."""


def checkpoint_kind(snapshot: Snapshot, part_rows: int | None = None) -> CheckpointKind:
    """The kind of checkpoint that the table requires.

    Args:
        part_rows: As for `write_checkpoint`.

    Raises:
        InvalidRequestError: A property cannot be parsed, `part_rows` is not positive, or the
            table must not have multi-part checkpoints.
    """
    is_v2 = snapshot.definition.has("v2Checkpoint")
    if part_rows is not None:
        if part_rows < 1:
            raise InvalidRequestError(
                f"{option('part_rows')} is {part_rows}; give a number from 1 on, or None"
            )
        if is_v2:
            raise InvalidRequestError(
                f"{snapshot.uri}: a table with the feature v2Checkpoint must not have multi-part "
                f"checkpoints; leave {option('part_rows')} out"
            )
        return "multi-part"
    # Without the feature, readers need not support V2 checkpoints, whatever the property says.
    return "v2" if is_v2 and snapshot.properties.checkpoint_policy == "v2" else "classic"


def write_checkpoint(
    snapshot: Snapshot,
    *,
    now_ms: int,
    part_rows: int | None = None,
    on_event: OnEvent = ignore,
) -> WrittenCheckpoint | None:
    """Write the checkpoint of a snapshot's version and point the hint at it.

    Args:
        now_ms: Milliseconds since the Unix epoch; tombstones and transactions expire by it.
        part_rows: The approximate number of live files per part, for tables with more live files. A
            single-file checkpoint is written first, and deleted when all parts exist. The parts
            are assembled in the system's temporary folder.

    Returns:
        None if the version already has a checkpoint.

    Raises:
        InvalidRequestError: As `checkpoint_kind`.
        LogCorruptError: The existing checkpoint of the version cannot be read.
        TableReplacedError: The table was deleted or replaced by another table.
    """
    try:
        return _write(snapshot, now_ms, part_rows, on_event)
    except LogCorruptError as error:
        readable = snapshot.equivalent(error)
    return _write(readable, now_ms, part_rows, on_event)


def _write(
    snapshot: Snapshot, now_ms: int, part_rows: int | None, on_event: OnEvent
) -> WrittenCheckpoint | None:
    kind = checkpoint_kind(snapshot, part_rows)
    content = Content(snapshot=snapshot, now_ms=now_ms)
    # A damaged file would keep the name, or readers would choose it over the new checkpoint.
    snapshot.storage.delete_many(
        path
        for damaged in snapshot.damaged_checkpoints
        if damaged.version == snapshot.version
        for path in damaged.paths
    )
    has_one = snapshot.checkpoint is not None and not snapshot.commits_since_checkpoint
    if has_one and kind != "classic":
        return None  # a second checkpoint would succeed, because its files get other names
    with withdrawing_if_replaced(snapshot, lambda: _files_to_withdraw(snapshot)):
        if kind == "v2":
            return _write_v2(content, on_event)
        if part_rows is not None and snapshot.num_files > part_rows:
            return _write_parts(content, -(-snapshot.num_files // part_rows), on_event)
        return _write_classic(content, on_event)


def _write_classic(content: Content, on_event: OnEvent) -> WrittenCheckpoint | None:
    written = _create_whole(content, _classic_path(content.snapshot), on_event)
    if written is None:
        snapshot = content.snapshot
        _point_at_existing(snapshot)
        return None
    _point_at(content.snapshot, written, schema=content.schema)
    return written


def _classic_path(snapshot: Snapshot) -> str:
    return f"{snapshot.log_directory}/{checkpoint_name(snapshot.version)}"


def write_copy(snapshot: Snapshot, path: str, *, now_ms: int) -> None:
    """Write the classic checkpoint of a snapshot's version to another path, unless it exists.

    Args:
        path: Relative to the table's root.
        now_ms: As for `write_checkpoint`.

    Raises:
        LogCorruptError: The version cannot be read in full.
        TableReplacedError: The table was deleted or replaced by another table.
        StorageError: The store failed.
    """
    _create_whole(Content(snapshot=snapshot, now_ms=now_ms), path, ignore)


def replace_by_copy(snapshot: Snapshot, path: str, *, now_ms: int) -> None:
    """Write the classic checkpoint of a snapshot over an existing file; raises as `write_copy`.

    The checkpoint is held in memory.
    """
    sink = pa.BufferOutputStream()
    _write_whole(Content(snapshot=snapshot, now_ms=now_ms), sink, ignore)
    snapshot.storage.replace(path, sink.getvalue().to_pybytes())


def _write_whole(
    content: Content, sink: IO[bytes] | pa.NativeFile, on_event: OnEvent
) -> dict[str, int]:
    """Write the classic checkpoint into a stream; returns the number of adds and of all rows."""
    counts = {"adds": 0, "rows": 0}
    with pq.ParquetWriter(sink, content.schema, **CHECKPOINT_PARQUET) as writer:
        for rows in join_small(content.all_rows()):
            writer.write_table(rows)
            counts["rows"] += len(rows)
            counts["adds"] += len(rows) - rows["add"].null_count
            on_event(progress(content.snapshot, counts["adds"]))
    validate_same_table(content.snapshot)  # the file is visible only after this function returns
    return counts


def _create_whole(content: Content, path: str, on_event: OnEvent) -> WrittenCheckpoint | None:
    """Write the classic checkpoint, without a hint; None if one exists."""
    snapshot = content.snapshot
    counts: dict[str, int] = {}

    def write(sink: IO[bytes]) -> None:
        counts.update(_write_whole(content, sink, on_event))

    delete_if_empty(snapshot.storage, path)
    try:
        info = snapshot.storage.create_from_stream(path, write)
    except FileExistsError:
        return None
    return WrittenCheckpoint(
        version=snapshot.version,
        kind="classic",
        num_files=1,
        num_reused=0,
        num_actions=counts["rows"],
        num_add_files=counts["adds"],
        size_bytes=info.size,
        expired_tombstones=content.num_expired,
    )


def _write_parts(content: Content, parts: int, on_event: OnEvent) -> WrittenCheckpoint | None:
    whole = _create_whole(content, _classic_path(content.snapshot), on_event)
    if whole is None:
        return None  # no hint: the other writer may be about to delete its whole file
    snapshot = content.snapshot
    storage, directory = snapshot.storage, snapshot.log_directory
    found = write_parts(content, parts, lambda done: on_event(progress(snapshot, done)))
    if found is None:
        _point_at(snapshot, whole, schema=content.schema)
        return whole
    if load_named_version(storage, directory) == snapshot.version:
        storage.delete(f"{directory}/{LAST_CHECKPOINT}")  # it names the whole file as one part
    storage.delete(f"{directory}/{checkpoint_name(snapshot.version)}")
    written = WrittenCheckpoint(
        version=snapshot.version,
        kind="multi-part",
        num_files=found.parts,
        num_reused=0,
        num_actions=found.num_actions,
        num_add_files=found.num_add_files,
        size_bytes=found.size_bytes,
        expired_tombstones=content.num_expired,
    )
    _point_at(snapshot, written, parts=found.parts, schema=content.schema)
    return written


def _write_v2(content: Content, on_event: OnEvent) -> WrittenCheckpoint:
    snapshot = content.snapshot
    found = write_top_and_sidecars(content, lambda done: on_event(progress(snapshot, done)))
    written = WrittenCheckpoint(
        version=snapshot.version,
        kind="v2",
        num_files=1 + found.num_sidecars,
        num_reused=found.num_reused,
        num_actions=found.num_actions,
        num_add_files=found.num_add_files,
        size_bytes=found.size_bytes,
        expired_tombstones=found.num_expired,
    )
    _point_at(snapshot, written)
    return written


def progress(snapshot: Snapshot, done: int) -> Progress:
    """Number of live files in the checkpoint so far; the total is known only at the end."""
    return Progress(table=snapshot.uri, operation="checkpoint", done=done, total=None)


def _point_at(
    snapshot: Snapshot,
    written: WrittenCheckpoint,
    *,
    parts: int | None = None,
    schema: pa.Schema | None = None,
) -> None:
    hint = LastCheckpoint(
        version=written.version,
        size=written.num_actions,
        size_in_bytes=written.size_bytes,
        parts=parts,
        num_of_add_files=written.num_add_files,
        checkpoint_schema=None if schema is None else schema_from_arrow(schema),
    )
    write_hint(snapshot.storage, snapshot.log_directory, hint)


def _point_at_existing(snapshot: Snapshot) -> None:
    """Point the hint at an existing checkpoint; its writer may have died before it wrote one."""
    storage, version = snapshot.storage, snapshot.version
    try:
        info = storage.stat(f"{snapshot.log_directory}/{checkpoint_name(version)}")
        size = load_footers(storage, [info])[info.path].metadata.num_rows
    except FileNotFoundError:
        return  # parts replaced the whole file, and their writer points the hint at them
    hint = LastCheckpoint(version=version, size=size, size_in_bytes=info.size)
    write_hint(storage, snapshot.log_directory, hint)


def _files_to_withdraw(snapshot: Snapshot) -> Iterator[str]:
    """The version's checkpoints, by any writer, and the hint if it names the version."""
    storage, directory = snapshot.storage, snapshot.log_directory
    if load_named_version(storage, directory) == snapshot.version:
        yield f"{directory}/{LAST_CHECKPOINT}"
    for info in storage.list_from(directory, version_prefix(snapshot.version)):
        match log_file_name(info.path.rpartition("/")[2]):
            case CheckpointName(version=v) | V2CheckpointName(version=v) if v == snapshot.version:
                yield info.path

"""V2 checkpoints written: a top-level file and sidecars, most of them reused.

Source: PROTOCOL.md, "V2 Spec", "Sidecar Files". See docs/decisions/016-checkpoints.md.

1. A sidecar holds live files or tombstones, at most `SIDECAR_ROWS` of them, and never changes.
2. A new checkpoint reuses each sidecar of the previous checkpoint without a removed, replaced or
   expired row. All other rows, and the new rows, go to new sidecars. The cost follows the change,
   because only one column of a reused sidecar is read: the hashes of its files.
3. Small sidecars are merged into new sidecars that are at least as large. Each row is therefore
   rewritten only a few times, and the number of sidecars grows only with the table.
4. Only sidecars that delta_ops wrote in the current layout are reused; their footer records it.
5. The sidecars get unique names (see `checkpoint.sidecars`), and are written before the top-level
   file that names them.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from itertools import chain
from typing import IO, Literal, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delta_ops.errors import LogCorruptError
from delta_ops.log.checkpoint.parquet_files import iter_pieces, load_footers, reading
from delta_ops.log.checkpoint.read import OpenCheckpoint
from delta_ops.log.checkpoint.sidecars import is_sidecar, new_sidecar_path, sidecar_of_file
from delta_ops.log.checkpoint_write.content import Content
from delta_ops.log.lost_commits import NO_CHECKSUM
from delta_ops.log.same_table import validate_same_table
from delta_ops.log.version.reconciliation import file_rows
from delta_ops.protocol.actions import CheckpointMetadata
from delta_ops.protocol.arrow_schemas import CHECKPOINT_PARQUET
from delta_ops.protocol.file_names import v2_checkpoint_name
from delta_ops.protocol.file_paths import depend_on_root
from delta_ops.protocol.json.codec import encode_commit
from delta_ops.storage import FileInfo, Storage
from delta_ops.storage.concurrency import run_ahead, run_parallel
from delta_ops.storage.own_files import create_unique
from delta_ops.storage.parquet_ranges import Footer

SIDECAR_ROWS = 50_000
"""As in the reference."""
_AT_ONCE = 4
"""Sidecars written at the same time: a store answers slowly, and compression needs a processor."""
_AHEAD_BYTES = 64 << 20
"""Bytes in memory of the rows being written."""
KEY_HASH = "deltaOpsKeyHash"
"""Extra column of our sidecars, beside `add` and `remove`; other readers ignore it. It holds a hash
of each row's file key. The hash stays the same if the table is moved."""
_ABOUT = b"deltaOps.sidecar"
"""Key in a sidecar's footer; its value is JSON that describes the content."""

FileKind = Literal["add", "remove"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenSidecars:
    """Counts and sizes of a V2 checkpoint that was written."""

    num_sidecars: int
    num_reused: int
    num_actions: int
    num_add_files: int
    size_bytes: int
    num_expired: int
    """Expired tombstones that were left out. Reused sidecars are not counted."""


class KnownSidecar(NamedTuple):
    """A sidecar that delta_ops wrote."""

    info: FileInfo
    kind: FileKind
    num_rows: int
    oldest_ms: int | None
    """The earliest deletion time of its tombstones; None for a sidecar of live files."""


def write_top_and_sidecars(content: Content, on_rows: Callable[[int], None]) -> WrittenSidecars:
    """Write a V2 checkpoint.

    Args:
        on_rows: Called with the number of live files in sidecars that exist so far.

    Raises:
        LogCorruptError: A sidecar of the previous checkpoint is gone or malformed.
        TableReplacedError: The table was deleted or replaced by another table.
    """
    snapshot = content.snapshot
    storage, directory = snapshot.storage, snapshot.log_directory
    before = snapshot.opened_checkpoint
    kept: list[KnownSidecar] = []
    rest = content
    if before is not None:
        footers = load_footers(storage, before.files)
        kept = _kept_sidecars(content, before, footers)
        names = {sidecar.info.path for sidecar in kept}
        files = tuple(file for file in before.files if file.path not in names)
        opened = replace(before, files=files, footers={**before.footers, **footers})
        # The same version without the rows of reused sidecars.
        rest = Content(
            snapshot=replace(snapshot, read_checkpoint=opened, state_checksum=NO_CHECKSUM),
            now_ms=content.now_ms,
        )
    written: list[KnownSidecar] = []
    num_adds = sum(sidecar.num_rows for sidecar in kept if sidecar.kind == "add")
    for sidecar in _write_rest(rest):
        written.append(sidecar)
        if sidecar.kind == "add":
            num_adds += sidecar.num_rows
            on_rows(num_adds)
    top = f"{directory}/{v2_checkpoint_name(snapshot.version, uuid4())}"
    sidecars = [*kept, *written]
    actions = [
        CheckpointMetadata(version=snapshot.version),
        *content.state,
        *(sidecar_of_file(sidecar.info) for sidecar in sidecars),
    ]
    data = encode_commit(actions)
    validate_same_table(snapshot)
    create_unique(storage, top, data)
    _validate_kept(storage, kept, top)
    return WrittenSidecars(
        num_sidecars=len(sidecars),
        num_reused=len(kept),
        num_actions=len(actions) + sum(sidecar.num_rows for sidecar in sidecars),
        num_add_files=num_adds,
        size_bytes=len(data) + sum(sidecar.info.size for sidecar in sidecars),
        num_expired=rest.num_expired,
    )


def fold(sidecars: Sequence[KnownSidecar], num_new: int) -> list[KnownSidecar]:
    """Choose the sidecars that are reused beside `num_new` new rows.

    Sidecars are rewritten together with the new rows if they are less than half full and not larger
    than the rows that are written anyway.
    """
    stay = []
    for sidecar in sorted(sidecars, key=lambda each: each.num_rows):
        if num_new and sidecar.num_rows < SIDECAR_ROWS // 2 and sidecar.num_rows <= num_new:
            num_new += sidecar.num_rows
        else:
            stay.append(sidecar)
    return stay


def _kept_sidecars(
    content: Content, before: OpenCheckpoint, footers: dict[str, Footer]
) -> list[KnownSidecar]:
    """The sidecars that are reused unchanged."""
    snapshot = content.snapshot
    layout = _layout(content)
    known = [
        sidecar
        for info in before.files
        if is_sidecar(info.path)
        and (sidecar := _known_sidecar(info, footers[info.path], layout)) is not None
    ]
    if not known:
        return []
    horizon_ms = content.now_ms - snapshot.properties.deleted_file_retention_ms
    unexpired = [s for s in known if s.oldest_ms is None or s.oldest_ms > horizon_ms]
    tail = snapshot.tail
    changed = pc.unique(
        pa.chunked_array([*_hashes(tail.adds.keys), *_hashes(tail.removes.keys)], pa.int64())
    )
    touched = _find_touched(snapshot.storage, unexpired, footers, changed)
    stay = [sidecar for sidecar in unexpired if sidecar.info.path not in touched]
    rewritten = {info.path for info in before.files} - {sidecar.info.path for sidecar in stay}
    # Rows of unknown sidecars count as live files: other writers' sidecars are rewritten only once.
    num_removes = sum(s.num_rows for s in known if s.kind == "remove" and s.info.path in rewritten)
    num_rows = sum(footers[path].metadata.num_rows for path in rewritten)
    return [
        *fold([s for s in stay if s.kind == "add"], num_rows - num_removes + len(tail.adds)),
        *fold([s for s in stay if s.kind == "remove"], num_removes + len(tail.removes)),
    ]


def _known_sidecar(info: FileInfo, footer: Footer, layout: str) -> KnownSidecar | None:
    """Describe a sidecar from its footer; None if it is not ours or has another layout."""
    try:
        about = json.loads((footer.metadata.metadata or {})[_ABOUT])
        if about["layout"] != layout or about["kind"] not in ("add", "remove"):
            return None
        oldest_ms = about["oldestMs"]
    except (KeyError, ValueError, TypeError):
        return None
    if KEY_HASH not in footer.metadata.schema.names:
        return None
    return KnownSidecar(info, about["kind"], footer.metadata.num_rows, oldest_ms)


def _find_touched(
    storage: Storage,
    sidecars: Sequence[KnownSidecar],
    footers: dict[str, Footer],
    hashes: pa.Array,
) -> set[str]:
    """Paths of the sidecars that contain a row with one of these hashes."""
    found = set()
    infos = [sidecar.info for sidecar in sidecars] if len(hashes) else []
    for piece in iter_pieces(storage, infos, footers, lambda _: [KEY_HASH]):
        with reading(storage, piece.part):
            for batch in piece.file.iter_batches(columns=[KEY_HASH], row_groups=piece.row_groups):
                if pc.any(pc.is_in(batch.column(0), value_set=hashes)).as_py():
                    found.add(piece.part.path)
    return found


def _write_rest(content: Content) -> Iterator[KnownSidecar]:
    """Write the rows that no reused sidecar holds."""
    before = content.snapshot.opened_checkpoint
    stored = before.files if before is not None else ()
    footers = before.footers if before is not None else {}
    num_rows = len(content.snapshot.tail.adds) + sum(
        footers[info.path].metadata.num_rows for info in stored
    )
    removes = _writes(content, "remove", content.removes(SIDECAR_ROWS))
    adds = _writes(content, "add", content.adds(_even_size(num_rows)))
    with closing(run_ahead(chain(removes, adds), _AHEAD_BYTES, _AT_ONCE)) as written:
        yield from written


def _even_size(num_rows: int) -> int:
    """Rows per sidecar for the smallest number of sidecars of equal size."""
    count = max(1, -(-num_rows // SIDECAR_ROWS))
    return max(1, -(-num_rows // count))


def _writes(
    content: Content, kind: FileKind, batches: Iterable[pa.StructArray]
) -> Iterator[tuple[int, Callable[[], KnownSidecar]]]:
    """Yield, for each sidecar, the bytes of its rows and the function that writes it."""
    for structs in batches:
        yield structs.nbytes, partial(_write_sidecar, content, kind, structs)


def _write_sidecar(content: Content, kind: FileKind, structs: pa.StructArray) -> KnownSidecar:
    snapshot = content.snapshot
    paths = pc.struct_field(structs, "path")
    vectors = pc.struct_field(structs, "deletionVector")
    keys = file_rows(pa.table({"path": paths, "deletionVector": vectors}), snapshot.uri).keys
    rows = content.rows(kind, structs).select(["add", "remove"])
    oldest_ms = None
    if kind == "remove":
        oldest_ms = pc.min(pc.struct_field(structs, "deletionTimestamp")).as_py()
    about = {
        # In a moved table these paths mean other files, so this sidecar must not be reused.
        "layout": None if depend_on_root(paths) else _layout(content),
        "kind": kind,
        "oldestMs": oldest_ms,
    }
    table = rows.append_column(KEY_HASH, pa.chunked_array(_hashes(keys), pa.int64()))
    schema = table.schema.with_metadata({_ABOUT: json.dumps(about).encode()})

    def write(sink: IO[bytes]) -> None:
        with pq.ParquetWriter(sink, schema, **CHECKPOINT_PARQUET) as writer:
            writer.write_table(table.cast(schema))

    path = new_sidecar_path(snapshot.log_directory)
    info = snapshot.storage.create_from_stream(path, write)
    return KnownSidecar(info, kind, len(structs), oldest_ms)


def _layout(content: Content) -> str:
    """Name of the sidecar columns; it changes with the table properties that determine them."""
    text = f"{content.add_type}{content.schema.field('remove').type}"
    return f"1-{zlib.crc32(text.encode()):08x}"


def _hashes(keys: pa.ChunkedArray) -> list[pa.Array]:
    return [_hash_keys(chunk) for chunk in keys.chunks]


def _hash_keys(keys: pa.Array) -> pa.Array:
    digests = [blake2b(key, digest_size=8).digest() for key in keys.cast(pa.binary()).to_pylist()]
    return pa.Array.from_buffers(pa.int64(), len(digests), [None, pa.py_buffer(b"".join(digests))])


def _validate_kept(storage: Storage, kept: Sequence[KnownSidecar], top: str) -> None:
    """Validate that all reused sidecars exist; if one is gone, delete the new top-level file.

    A log cleanup deletes sidecars that no checkpoint names. If it ran before the top-level file was
    written, it may have deleted a sidecar that only this checkpoint names.

    Raises:
        LogCorruptError: A reused sidecar is gone.
    """

    def is_there(sidecar: KnownSidecar) -> bool:
        try:
            return storage.stat(sidecar.info.path).size == sidecar.info.size
        except FileNotFoundError:
            return False

    there = run_parallel(is_there, kept)
    gone = [s.info.path for s, is_kept in zip(kept, there, strict=True) if not is_kept]
    if gone:
        storage.delete(top)
        raise LogCorruptError(
            storage.uri,
            gone[0],
            "this checkpoint file is missing; if a log cleanup deleted it after the table was "
            "opened, run the operation again, else restore it from a backup",
        )

"""Reconciliation: computes the live and the removed files from the actions of a log.

Source: PROTOCOL.md, "Action Reconciliation".

Actions are read newest first: the first action for a key decides, and older actions for the same
key are skipped.
The checkpoint comes last and is already reconciled, so its rows are filtered but not recorded.
Memory therefore grows with the commits since the checkpoint, not with the table.
Within one commit, an add takes precedence over a remove of the same key. The protocol forbids this
pair, but some writers produce it. A file too many can be noticed and removed later; a missing file
is lost data.
Expired tombstones stay in the result; checkpoints leave them out by `is_unexpired`.
No I/O: the caller supplies the actions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.log.commit_file import Commit
from delta_ops.protocol.arrow_schemas import (
    ADD,
    PATH_HASH,
    REMOVE,
    add_path_hash,
    merge_chunks,
)
from delta_ops.protocol.arrow_values import FALSE_SCALAR, TRUE_SCALAR, array_of, empty_table, scalar
from delta_ops.protocol.file_paths import canonical_paths
from delta_ops.storage.concurrency import run_parallel


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRows:
    """File actions with the keys that identify their files.

    In most logs the stored paths are already canonical; then they are kept once.
    """

    rows: pa.Table
    """`path` and `deletionVector`, as in the log, and any other columns."""
    canonical: pa.ChunkedArray | None = None
    """Canonical paths; None if the paths in `rows` are canonical."""
    identified: pa.ChunkedArray | None = None
    """Paths with the id of the deletion vector; None if there are no deletion vectors."""

    def __len__(self) -> int:
        return len(self.rows)

    def __reduce__(self) -> tuple[Any, ...]:
        """Drop the hashes, which are valid in this process only."""
        has_hashes = PATH_HASH in self.rows.column_names
        rows = self.rows.drop_columns([PATH_HASH]) if has_hashes else self.rows
        return _unpickle, (rows, self.canonical, self.identified, has_hashes)

    @property
    def paths(self) -> pa.ChunkedArray:
        """Canonical paths."""
        return self.rows["path"] if self.canonical is None else self.canonical

    @property
    def keys(self) -> pa.ChunkedArray:
        """Key of each file: its canonical path, plus the id of its deletion vector if any."""
        return self.paths if self.identified is None else self.identified

    def filter(self, mask: pa.Array) -> FileRows:
        """The rows where the mask is true."""
        return FileRows(
            rows=self.rows.filter(mask),
            canonical=None if self.canonical is None else self.canonical.filter(mask),
            identified=None if self.identified is None else self.identified.filter(mask),
        )


def _unpickle(
    rows: pa.Table,
    canonical: pa.ChunkedArray | None,
    identified: pa.ChunkedArray | None,
    has_hashes: bool,
) -> FileRows:
    if has_hashes:
        hashes = array_of(map(hash, rows["path"].to_pylist()), pa.int64())
        rows = rows.append_column(PATH_HASH, hashes)
    return FileRows(rows=rows, canonical=canonical, identified=identified)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The reconciled file actions of the commits after the checkpoint."""

    adds: FileRows
    """Live files; schema `ADD` plus `PATH_HASH`."""
    removes: FileRows
    """Tombstones, including expired tombstones; schema `REMOVE` plus `PATH_HASH`."""

    def __len__(self) -> int:
        return len(self.adds) + len(self.removes)


EMPTY_TAIL = Tail(
    adds=FileRows(rows=empty_table(add_path_hash(ADD))),
    removes=FileRows(rows=empty_table(add_path_hash(REMOVE))),
)
# Arrow's default pool returns memory and requests it again at once, which doubles the time.
_POOL = pa.system_memory_pool()


def file_rows(rows: pa.Table, table_uri: str) -> FileRows:
    """Rows with the keys that identify their files.

    Args:
        rows: Columns `path` and `deletionVector`, as in the log, among others.
    """
    if not len(rows):
        return FileRows(rows=rows)
    rows = merge_chunks(rows)
    stored = rows["path"].chunks
    paths = run_parallel(partial(canonical_paths, table_uri=table_uri), stored)
    is_canonical = all(path is chunk for path, chunk in zip(paths, stored, strict=True))
    found = FileRows(
        rows=rows, canonical=None if is_canonical else pa.chunked_array(paths, pa.string())
    )
    if rows["deletionVector"].null_count == len(rows):
        return found
    return replace(found, identified=_identify(found.paths, rows["deletionVector"]))


def extend_tail(tail: Tail, commits: Sequence[Commit], table_uri: str) -> Tail:
    """The tail after further commits, in ascending order."""
    return merge(reconcile(commits, table_uri), tail)


def reconcile(commits: Sequence[Commit], table_uri: str) -> Tail:
    """The tail of commits in ascending order, without any earlier state."""
    if not commits:
        return EMPTY_TAIL
    newest_first = list(reversed(commits))
    adds = file_rows(_stack([c.adds for c in newest_first]), table_uri)
    removes = file_rows(_stack([c.removes for c in newest_first]), table_uri)
    if _all_differ(adds, removes):
        return Tail(adds=adds, removes=removes)
    keys, is_add = _order_keys(adds.keys, removes.keys, newest_first)
    decides = mark_first(keys)
    return Tail(
        adds=adds.filter(decides.filter(is_add)),
        removes=removes.filter(decides.filter(pc.invert(is_add))),
    )


def merge(newer: Tail, older: Tail) -> Tail:
    """Merge two consecutive tails; for each file the newer tail decides."""
    if not len(newer) or not len(older):
        return newer if len(newer) else older
    adds, removes = (_files_not_in(newer, files) for files in (older.adds, older.removes))
    return Tail(adds=_concatenate(newer.adds, adds), removes=_concatenate(newer.removes, removes))


def unseen_rows(batches: Iterable[pa.Table], tail: Tail, table_uri: str) -> Iterator[FileRows]:
    """Yield the checkpoint's rows for files without an action in the tail."""
    known = _join_keys(tail.adds.keys, tail.removes.keys)
    # Arrow hashes all known keys again for each table, so tables are as large as the known keys.
    for batch in regroup_tables(batches, len(known)):
        rows = file_rows(batch, table_uri)
        yield _unseen_files(rows, known) if len(known) else rows


def _files_not_in(newer: Tail, files: FileRows) -> FileRows:
    """The files without an action in the newer tail.

    Compares only keys that share a path hash with one of `files`: a hash table of all keys of the
    newer tail would take more memory than the older files.
    """
    if any(each.canonical is not None for each in (newer.adds, newer.removes, files)):
        return _unseen_files(files, _join_keys(newer.adds.keys, newer.removes.keys))
    hashes = files.rows[PATH_HASH]
    alike = [
        each.keys.filter(pc.is_in(each.rows[PATH_HASH], value_set=hashes, memory_pool=_POOL))
        for each in (newer.adds, newer.removes)
    ]
    known = _join_keys(*alike)
    return _unseen_files(files, known) if len(known) else files


def _unseen_files(files: FileRows, known: pa.ChunkedArray) -> FileRows:
    is_known = pc.is_in(files.keys, value_set=known)
    return files.filter(pc.invert(is_known)) if pc.any(is_known).as_py() else files


def is_unexpired(tombstones: pa.Table, *, now_ms: int, retention_ms: int) -> pa.ChunkedArray:
    """For each tombstone, whether its retention is still running.

    A tombstone without a deletion timestamp has expired.

    Args:
        tombstones: Rows of `arrow_schemas.REMOVE`.
        now_ms: Milliseconds since the Unix epoch.
        retention_ms: The table's `delta.deletedFileRetentionDuration`.
    """
    is_young = pc.greater(tombstones["deletionTimestamp"], scalar(now_ms - retention_ms))
    return pc.fill_null(is_young, FALSE_SCALAR)


def regroup_tables(batches: Iterable[pa.Table], num_rows: int) -> Iterator[pa.Table]:
    """Concatenate tables until each has at least `num_rows` rows; the last may have fewer."""
    pending: list[pa.Table] = []
    num_pending = 0
    for batch in batches:
        pending.append(batch)
        num_pending += len(batch)
        if num_pending >= num_rows:
            yield pa.concat_tables(pending)
            pending, num_pending = [], 0
    if pending:
        yield pa.concat_tables(pending)


def mark_first(keys: pa.ChunkedArray) -> pa.Array:
    """For each key, whether this is its first occurrence."""
    encoded = pc.dictionary_encode(keys, memory_pool=_POOL)
    # Codes follow the order of appearance: a new code is greater than all earlier codes.
    codes = pa.concat_arrays([chunk.indices for chunk in encoded.chunks])
    greatest = pc.cumulative_max(codes)
    before = pa.concat_arrays([array_of([-1], greatest.type), greatest.slice(0, len(greatest) - 1)])
    return pc.greater(greatest, before)


def _order_keys(
    add_keys: pa.ChunkedArray, remove_keys: pa.ChunkedArray, newest_first: Sequence[Commit]
) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """All keys, newest commit first and adds before removes, and a mask of the adds."""
    chunks: list[pa.Array] = []
    is_add: list[pa.Array] = []
    add = remove = 0
    for commit in newest_first:
        adds, removes = len(commit.adds), len(commit.removes)
        chunks += add_keys.slice(add, adds).chunks
        chunks += remove_keys.slice(remove, removes).chunks
        is_add += [pa.repeat(TRUE_SCALAR, adds), pa.repeat(FALSE_SCALAR, removes)]
        add, remove = add + adds, remove + removes
    return pa.chunked_array(chunks, pa.string()), pa.chunked_array(is_add, pa.bool_())


def _all_differ(*files: FileRows) -> bool:
    """True only if no file occurs twice; compares integer hashes, which is faster than paths."""
    if any(each.canonical is not None for each in files):
        return False
    hashes = _join_keys(*(each.rows[PATH_HASH] for each in files))
    return len(pc.unique(hashes, memory_pool=_POOL)) == len(hashes)


def _identify(paths: pa.ChunkedArray, vectors: pa.ChunkedArray) -> pa.ChunkedArray:
    place = pc.binary_join_element_wise(
        pc.struct_field(vectors, "storageType"),
        pc.struct_field(vectors, "pathOrInlineDv"),
        scalar(""),
    )
    offset = pc.struct_field(vectors, "offset").cast(pa.string())
    at_offset = pc.if_else(
        pc.is_valid(offset), pc.binary_join_element_wise(place, offset, scalar("@")), place
    )
    with_vector = pc.binary_join_element_wise(paths, at_offset, scalar("\0"))
    return pc.if_else(pc.is_valid(place), with_vector, paths)


def _concatenate(newer: FileRows, older: FileRows) -> FileRows:
    # Empty chunks would pile up, a few for each group of commits.
    if not len(newer) or not len(older):
        return newer if len(newer) else older
    both = (newer, older)
    return FileRows(
        rows=pa.concat_tables([each.rows for each in both]),
        canonical=None
        if all(each.canonical is None for each in both)
        else _join_keys(*(each.paths for each in both)),
        identified=None
        if all(each.identified is None for each in both)
        else _join_keys(*(each.keys for each in both)),
    )


def _stack(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate the tables that have rows; the result is empty if none has."""
    return pa.concat_tables([table for table in tables if len(table)] or tables[:1])


def _join_keys(*arrays: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array(chain.from_iterable(each.chunks for each in arrays), arrays[0].type)

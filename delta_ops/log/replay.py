"""Replay: reduce file actions to the files of the table at one version.

Source: PROTOCOL.md, "Action Reconciliation".

Newest first: the first action seen for a key decides and everything older is skipped.
The checkpoint comes last and is already reconciled, so its rows are filtered, never recorded:
memory grows with the commits since the checkpoint, not with the table.
Within one commit an add comes before a remove of the same key, which the protocol forbids but
writers have produced: a file too many is found out, a file too few is lost data.
No I/O: the caller supplies the actions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.log.commit_file import Commit
from delta_ops.protocol.arrow_schemas import ADD, REMOVE
from delta_ops.protocol.file_paths import canonical_paths


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The reconciled file actions of the commits after the checkpoint."""

    adds: pa.Table
    """Schema `ADD`; live files."""
    removes: pa.Table
    """Schema `REMOVE`; tombstones, expired ones included."""
    add_keys: pa.ChunkedArray
    """The `file_keys` of `adds`."""
    remove_keys: pa.ChunkedArray
    """The `file_keys` of `removes`."""

    @property
    def keys(self) -> pa.ChunkedArray:
        """Keys of both: what the checkpoint says of them is out of date."""
        return pa.chunked_array([*self.add_keys.chunks, *self.remove_keys.chunks], pa.string())


_SMALL_CHUNK = 4096
"""Rows; chunk by chunk, smaller ones take longer than copying them into one."""
_NO_KEYS = pa.chunked_array([], pa.string())
EMPTY_TAIL = Tail(
    adds=ADD.empty_table(),
    removes=REMOVE.empty_table(),
    add_keys=_NO_KEYS,
    remove_keys=_NO_KEYS,
)


def file_keys(files: pa.Table, table_uri: str) -> pa.ChunkedArray:
    """What identifies each file: its canonical path, with the deletion vector's id if it has one.

    Args:
        files: Columns `path` and `deletionVector`, as in the log.
    """
    identifying = files.select(["path", "deletionVector"])
    if identifying["path"].num_chunks * _SMALL_CHUNK > len(files):
        identifying = identifying.combine_chunks()
    keys = [_keys(batch, table_uri) for batch in identifying.to_batches()]
    return pa.chunked_array(keys, pa.string())


def extend_tail(tail: Tail, commits: Sequence[Commit], table_uri: str) -> Tail:
    """The tail after further commits, given in ascending order."""
    return merge(reconcile(commits, table_uri), tail)


def reconcile(commits: Sequence[Commit], table_uri: str) -> Tail:
    """The tail of commits, given in ascending order, as if nothing were before them."""
    if not commits:
        return EMPTY_TAIL
    newest_first = list(reversed(commits))
    adds = pa.concat_tables([c.adds for c in newest_first])
    removes = pa.concat_tables([c.removes for c in newest_first])
    add_keys, remove_keys = file_keys(adds, table_uri), file_keys(removes, table_uri)
    order, is_add = _in_order_of_decision(add_keys, remove_keys, newest_first)
    decides = _is_first(order)
    if decides is None:
        return Tail(adds=adds, removes=removes, add_keys=add_keys, remove_keys=remove_keys)
    of_adds, of_removes = decides.filter(is_add), decides.filter(pc.invert(is_add))
    return Tail(
        adds=adds.filter(of_adds),
        removes=removes.filter(of_removes),
        add_keys=add_keys.filter(of_adds),
        remove_keys=remove_keys.filter(of_removes),
    )


def merge(newer: Tail, older: Tail) -> Tail:
    """One tail of two that follow each other: what the newer one says of a file counts."""
    if not len(newer.add_keys) + len(newer.remove_keys):
        return older
    decides = _is_first(_joined(newer.keys, older.add_keys, older.remove_keys))
    if decides is None:
        return Tail(
            adds=pa.concat_tables([newer.adds, older.adds]),
            removes=pa.concat_tables([newer.removes, older.removes]),
            add_keys=_joined(newer.add_keys, older.add_keys),
            remove_keys=_joined(newer.remove_keys, older.remove_keys),
        )
    of_older = decides.slice(len(newer.add_keys) + len(newer.remove_keys))
    of_adds = of_older.slice(0, len(older.add_keys))
    of_removes = of_older.slice(len(older.add_keys))
    return Tail(
        adds=pa.concat_tables([newer.adds, older.adds.filter(of_adds)]),
        removes=pa.concat_tables([newer.removes, older.removes.filter(of_removes)]),
        add_keys=_joined(newer.add_keys, older.add_keys.filter(of_adds)),
        remove_keys=_joined(newer.remove_keys, older.remove_keys.filter(of_removes)),
    )


def unseen(batches: Iterable[pa.Table], tail: Tail, table_uri: str) -> Iterator[pa.Table]:
    """The rows of a checkpoint that no later commit speaks of."""
    keys = tail.keys
    for batch in batches:
        if not len(keys):
            yield batch
            continue
        seen = pc.is_in(file_keys(batch, table_uri), value_set=keys)
        yield batch.filter(pc.invert(seen))


def _in_order_of_decision(
    add_keys: pa.ChunkedArray, remove_keys: pa.ChunkedArray, newest_first: Sequence[Commit]
) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """The keys, of each commit adds before removes, and which of them are those of adds."""
    chunks: list[pa.Array] = []
    is_add: list[pa.Array] = []
    add = remove = 0
    for commit in newest_first:
        adds, removes = len(commit.adds), len(commit.removes)
        chunks += add_keys.slice(add, adds).chunks
        chunks += remove_keys.slice(remove, removes).chunks
        is_add += [pa.repeat(pa.scalar(True), adds), pa.repeat(pa.scalar(False), removes)]
        add, remove = add + adds, remove + removes
    return pa.chunked_array(chunks, pa.string()), pa.chunked_array(is_add, pa.bool_())


def _is_first(keys: pa.ChunkedArray) -> pa.Array | None:
    """Whether each key is the first of its kind; None if all are."""
    # Arrow's own default pool takes three times as long here.
    encoded = pc.dictionary_encode(keys, memory_pool=pa.system_memory_pool())
    if not len(keys) or len(encoded.chunk(0).dictionary) == len(keys):
        return None
    # Codes are given in the order of appearance: a new one is greater than all before it.
    codes = pa.concat_arrays([chunk.indices for chunk in encoded.chunks])
    greatest = pc.cumulative_max(codes)
    before = pa.concat_arrays([pa.array([-1], greatest.type), greatest.slice(0, len(greatest) - 1)])
    return pc.greater(greatest, before)


def _keys(files: pa.RecordBatch, table_uri: str) -> pa.Array:
    paths = canonical_paths(files.column("path"), table_uri)
    vectors = files.column("deletionVector")
    if vectors.null_count == len(vectors):
        return paths
    place = pc.binary_join_element_wise(
        pc.struct_field(vectors, "storageType"), pc.struct_field(vectors, "pathOrInlineDv"), ""
    )
    offset = pc.struct_field(vectors, "offset").cast(pa.string())
    at_offset = pc.if_else(
        pc.is_valid(offset), pc.binary_join_element_wise(place, offset, "@"), place
    )
    with_vector = pc.binary_join_element_wise(paths, at_offset, "\0")
    return pc.if_else(pc.is_valid(place), with_vector, paths)


def _joined(*arrays: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for each in arrays for chunk in each.chunks], pa.string())

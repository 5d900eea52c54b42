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
    keys: pa.Array
    """Keys of both: what the checkpoint says of them is out of date."""


EMPTY_TAIL = Tail(
    adds=ADD.empty_table(), removes=REMOVE.empty_table(), keys=pa.array([], pa.string())
)


def file_keys(files: pa.Table, table_uri: str) -> pa.Array:
    """What identifies each file: its canonical path, with the deletion vector's id if it has one.

    Args:
        files: Columns `path` and `deletionVector`, as in the log.
    """
    paths = canonical_paths(_combined(files["path"]), table_uri)
    vectors = _combined(files["deletionVector"])
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


def extend_tail(tail: Tail, commits: Sequence[Commit], table_uri: str) -> Tail:
    """The tail after further commits, given in ascending order."""
    if not commits:
        return tail
    newest_first = list(reversed(commits))
    adds = pa.concat_tables([*(c.adds for c in newest_first), tail.adds])
    removes = pa.concat_tables([*(c.removes for c in newest_first), tail.removes])
    # Ranks put all of one commit's adds before its removes, and newer commits before older ones.
    add_ranks = _ranks([len(c.adds) for c in newest_first] + [len(tail.adds)], first=0)
    remove_ranks = _ranks([len(c.removes) for c in newest_first] + [len(tail.removes)], first=1)
    keys = pa.concat_arrays([file_keys(adds, table_uri), file_keys(removes, table_uri)])
    decided = pa.table(
        {
            "key": keys,
            "rank": pa.concat_arrays([add_ranks, remove_ranks]),
            "row": pa.array(range(len(keys)), pa.int64()),
        }
    ).sort_by("rank")
    first = decided.group_by("key", use_threads=False).aggregate([("row", "first")])
    rows = pc.sort_indices(first["row_first"])
    chosen = first["row_first"].take(rows)
    is_add = pc.less(chosen, len(adds))
    return Tail(
        adds=adds.take(chosen.filter(is_add)),
        removes=removes.take(pc.subtract(chosen.filter(pc.invert(is_add)), len(adds))),
        keys=_combined(first["key"]),
    )


def unseen(batches: Iterable[pa.Table], tail: Tail, table_uri: str) -> Iterator[pa.Table]:
    """The rows of a checkpoint that no later commit speaks of."""
    for batch in batches:
        if not len(tail.keys):
            yield batch
            continue
        seen = pc.is_in(file_keys(batch, table_uri), value_set=tail.keys)
        yield batch.filter(pc.invert(seen))


def _ranks(lengths: list[int], *, first: int) -> pa.Array:
    ranks = (2 * i + first for i, length in enumerate(lengths) for _ in range(length))
    return pa.array(ranks, pa.int64())


def _combined(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        return combined.chunk(0) if combined.num_chunks else pa.array([], combined.type)
    return combined

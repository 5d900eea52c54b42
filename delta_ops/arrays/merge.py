"""Merge: writes the blocks that the staged changes of a session touch.

The merge is a fork of the session. It removes the staged files and the files of the touched blocks,
and adds one file for each touched block. It depends on these blocks, on the metadata of the nodes
and on the staged blocks, so a concurrent commit to any of them is a conflict.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from delta_ops.arrays.blocks import Blocks, Partition
from delta_ops.arrays.chunks import ChunkWriter, digest_of, have_same_bytes
from delta_ops.arrays.conflicts import remade_nodes
from delta_ops.arrays.keys import (
    METADATA_BLOCK,
    OTHER_BLOCK,
    ROOT,
    block_of,
    block_shape,
    chunk_node,
    place_of,
)
from delta_ops.arrays.node_metadata import chunk_grid
from delta_ops.arrays.rows import Value, rows_of
from delta_ops.arrays.staged import STAGED_BLOCKS, Change, Staged
from delta_ops.arrow.arrow_data import ArrowData
from delta_ops.arrow.engine import ARROW
from delta_ops.arrow.write.data_file import discard
from delta_ops.log import DeltaLog
from delta_ops.protocol.predicate import col
from delta_ops.transaction import Transaction, begin

BLOCK_INLINE_BYTES = 4 * 1024 * 1024
"""Most bytes of chunks that the rows of a block hold themselves, so a commit rewrites no more."""


class MergedBlock(NamedTuple):
    """A block with the changes of a session."""

    partition: Partition
    rows: Mapping[str, Value]


def plan_blocks(base: Blocks, changes: Mapping[str, Change]) -> dict[Partition, dict[str, Change]]:
    """The block of each change.

    A key stays in the block that has it. A new chunk gets a block of the shape that the node has,
    or else of a shape that fits its chunk grid.

    Args:
        base: The version that the changes follow.
        changes: By key.
    """
    shapes: dict[str, list[tuple[int, ...]]] = {}
    plan: defaultdict[Partition, dict[str, Change]] = defaultdict(dict)
    for key, change in changes.items():
        place = place_of(key)
        if place.node not in shapes:
            shapes[place.node] = base.shapes(place.node) or _new_shapes(base, changes, place.node)
        partition = next(
            (each for each in base.partitions_of(key) if key in base.load(each)),
            (place.node, block_of(place, shapes[place.node])),
        )
        plan[partition][key] = change
    return plan


def _new_shapes(base: Blocks, changes: Mapping[str, Change], node: str) -> list[tuple[int, ...]]:
    """The block shape of a node without blocks of chunks; empty if its chunk grid is unknown."""
    for name in ("zarr.json", ".zarray"):
        change = changes.get(f"{node}/{name}".lstrip("/"))
        document = base.document(node, name) if change is None else None
        if isinstance(change, Value):
            document = change.data
        grid = chunk_grid(document)
        if grid is not None:
            return [block_shape(grid)]
    return []


def apply_changes(rows: Mapping[str, Value], changes: Mapping[str, Change]) -> dict[str, Value]:
    """Rows of a block with changes; sorted by key."""
    merged = dict(rows)
    for key, change in changes.items():
        if isinstance(change, Value):
            if not have_same_bytes(rows.get(key), change):
                merged[key] = change
        else:
            merged.pop(key, None)
    return dict(sorted(merged.items()))


@dataclass(slots=True, kw_only=True)
class Merge:
    """The merge of the staged changes that a fork sees.

    Args:
        fork: A fork of the session, made for the merge.
        base: The base version of the session.
        staged: The changes that the fork sees.
        chunks: Writes chunks that are too many for their block.
    """

    fork: DeltaLog
    base: Blocks
    staged: Staged
    chunks: ChunkWriter
    _blocks: list[MergedBlock] = field(default_factory=list)

    def run(self) -> list[str]:
        """Commit the merge to the fork.

        Returns:
            Paths of the chunks that the changes name, relative to the table.

        Raises:
            CommitConflictError, SessionEndedError: As for every writer of a session.
            StorageError: The store failed.
        """
        plan = plan_blocks(self.base, self.staged.changes)
        transaction = begin(self.fork)
        self._depend_on_blocks(transaction, plan)
        transaction.remove(self.staged.files)
        for partition, changes in plan.items():
            rows = self.base.load(partition)
            merged = apply_changes(rows, changes)
            if merged != rows:
                transaction.remove(self.base.files.get(partition, ()))
                self._blocks.append(MergedBlock(partition, self._spill(partition, merged)))
        self.chunks.persist()
        self._write(transaction)
        return [
            change.location
            for change in self.staged.changes.values()
            if isinstance(change, Value) and change.location and change.sha256
        ]

    def _write(self, transaction: Transaction) -> None:
        tables = [rows_of(*each.partition, each.rows.items()) for each in self._blocks if each.rows]
        staged = None
        if tables:
            rows = pa.concat_tables(tables)
            staged = ARROW.write_rows(ArrowData(rows), transaction.target)
        try:
            if staged is not None:
                transaction.stage(staged)
            transaction.commit(operation="MERGE ARRAY CHANGES", hooks=())
        except BaseException:
            if staged is not None and not transaction.may_be_committed:
                discard(self.fork.storage, staged.adds)
            raise

    def _depend_on_blocks(self, transaction: Transaction, plan: Iterable[Partition]) -> None:
        needed: defaultdict[str, set[str]] = defaultdict(set)
        for node, block in plan:
            needed[node].add(block)
        for node in {each for key in self.staged.changes for each in self.base.nodes_above(key)}:
            needed[node].add(METADATA_BLOCK)
        needed[ROOT].update(STAGED_BLOCKS)
        for node, blocks in needed.items():
            rows = (col("node") == node) & col("block").isin(sorted(blocks))
            transaction.read(rows, is_serial=True)
        for top in remade_nodes(self.base, self.staged.changes):
            above = "" if top == ROOT else top
            below = (col("node") >= f"{above}/") & (col("node") < f"{above}0")  # 0 follows /
            within = (col("node") == top) | below
            if (holder := chunk_node(top)) != top:
                no_chunks = col("block").isin([METADATA_BLOCK, OTHER_BLOCK])
                within |= (col("node") == holder) & ~no_chunks
            transaction.read(within, is_serial=True)

    def _spill(self, partition: Partition, rows: dict[str, Value]) -> dict[str, Value]:
        """Write the longest chunks of a block as files, if its rows hold too many bytes."""
        if partition[1] == METADATA_BLOCK:
            return rows
        held = {key: len(each.data) for key, each in rows.items() if each.data is not None}
        excess = sum(held.values()) - BLOCK_INLINE_BYTES
        for key in sorted(held, key=lambda each: (-held[each], each)):
            if excess <= 0:
                break
            data = rows[key].data
            assert data is not None
            rows[key] = self.chunks.write(data, digest_of(data))
            excess -= held[key]
        return rows

"""Blocks: the rows of one version of an array table, read block by block.

A block is a partition, and mostly one file. Other engines may add files to it or compact it. A key
has one row in a version: a second row is an error, because nobody knows which of them counts.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from delta_ops.arrays.keys import (
    METADATA_BLOCK,
    ROOT,
    ancestors,
    block_of,
    numbered_nodes,
    place_of,
    shape_of_block,
)
from delta_ops.arrays.rows import PARTITION_COLUMNS, VALUE_COLUMNS, BlockRows, Value, values_of
from delta_ops.arrow.read.scan import read_files
from delta_ops.errors import InvalidRequestError
from delta_ops.lazy import lazy
from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.columns.mapping import physical_name

_HELD_BLOCKS = 32
"""Blocks of a version that stay in memory after they were read."""

Partition = tuple[str, str]
"""A node and the name of one of its blocks."""


@dataclass(eq=False)
class Blocks:
    """The rows of a version; used by several threads.

    Args:
        snapshot: A version of an array table.

    Raises:
        InvalidRequestError: A file has no node or no block.
    """

    snapshot: Snapshot
    files: Mapping[Partition, tuple[AddFile, ...]] = field(init=False)
    """The live files of each block."""
    _read: OrderedDict[Partition, BlockRows] = field(default_factory=OrderedDict)
    _reading: dict[Partition, threading.Lock] = field(default_factory=dict)
    """One thread reads a block, and the others that need it wait."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        # At once: threads that list the files at the same moment would each read the checkpoint.
        found: defaultdict[Partition, list[AddFile]] = defaultdict(list)
        for add in self.snapshot.add_files():
            node, block = partition_values(self.snapshot, add)
            if node is None or block is None or not node.startswith(ROOT):
                raise InvalidRequestError(
                    f"{self.snapshot.uri}: file {add.path} has the node {node!r} and the block "
                    f"{block!r}; a node begins with / and a block has a name. Delete these rows, "
                    "and write them again"
                )
            found[node, block].append(add)
        self.files = {partition: tuple(adds) for partition, adds in found.items()}

    @lazy
    def blocks_by_node(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the blocks of each node, sorted."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for node, block in sorted(self.files):
            found[node].append(block)
        return {node: tuple(blocks) for node, blocks in found.items()}

    def shapes(self, node: str) -> list[tuple[int, ...]]:
        """The shapes of the blocks of a node, without repetition."""
        shapes = map(shape_of_block, self.blocks_by_node.get(node, ()))
        return list(dict.fromkeys(each for each in shapes if each is not None))

    def partitions_of(self, key: str) -> list[Partition]:
        """The blocks with files that a key may be in; mostly one, or none."""
        place = place_of(key)
        shapes = self.shapes(place.node) if place.kind == "chunk" else []
        names = dict.fromkeys([*(block_of(place, [each]) for each in shapes), block_of(place, [])])
        return [(place.node, name) for name in names if (place.node, name) in self.files]

    def nodes_above(self, key: str) -> list[str]:
        """The nodes whose metadata a key may depend on: its node, and all nodes above."""
        numbered = [each for each in numbered_nodes(key) if (each, METADATA_BLOCK) in self.files]
        return [*reversed(numbered), *ancestors(place_of(key).node)]

    def find(self, key: str) -> Value | None:
        """The value of a key; None if the version does not have it.

        Raises:
            ArrayKeyError: The block has an invalid row.
            DataFileError, StorageError: The block cannot be read.
        """
        for partition in self.partitions_of(key):
            value = self._open_rows(partition).find(key)
            if value is not None:
                return value
        return None

    def load(self, partition: Partition) -> Mapping[str, Value]:
        """All keys of a block; empty for a block without files. Raises as `find`."""
        return self._open_rows(partition).all() if partition in self.files else {}

    def _open_rows(self, partition: Partition) -> BlockRows:
        with self._lock:
            reading = self._reading.setdefault(partition, threading.Lock())
        with reading:
            known = self._known_rows(partition)
            return self._hold(partition, self._read_rows(partition)) if known is None else known

    def _known_rows(self, partition: Partition) -> BlockRows | None:
        with self._lock:
            known = self._read.get(partition)
            if known is not None:
                self._read.move_to_end(partition)
            return known

    def _hold(self, partition: Partition, rows: BlockRows) -> BlockRows:
        with self._lock:
            self._read[partition] = rows
            while len(self._read) > _HELD_BLOCKS:
                self._read.popitem(last=False)
        return rows

    def _read_rows(self, partition: Partition) -> BlockRows:
        node, block = partition
        return BlockRows(
            table=self.snapshot.uri,
            version=self.snapshot.version,
            node=node,
            block=block,
            batches=tuple(_read_batches(self.snapshot, self.files[partition])),
        )

    def file_ids(self, partition: Partition) -> frozenset[tuple[str, str | None]]:
        """Identities of the files of a block; equal identities mean equal rows."""
        return frozenset(
            (add.path, add.deletion_vector.unique_id if add.deletion_vector else None)
            for add in self.files.get(partition, ())
        )

    def keys(self, partitions: Iterable[Partition]) -> Iterator[str]:
        """The keys of blocks, one block after the other."""
        for partition in partitions:
            yield from self.load(partition)

    def document(self, node: str, name: str = "zarr.json") -> bytes | None:
        """The bytes of a metadata document of a node; None without it."""
        key = f"{node}/{name}".lstrip(ROOT)
        partition = (node, METADATA_BLOCK)
        value = self._open_rows(partition).find(key) if partition in self.files else None
        return None if value is None else value.data


def partition_values(snapshot: Snapshot, add: AddFile) -> tuple[str | None, str | None]:
    """The node and the block of a file; None for null."""
    names = {each.name: physical_name(each) for each in snapshot.schema.fields}
    node, block = (add.partition_values.get(names[each]) for each in PARTITION_COLUMNS)
    return node, block


def read_values(snapshot: Snapshot, files: Iterable[AddFile]) -> Iterator[tuple[str, Value]]:
    """Key and value of each row of files, in the order of the files.

    Raises:
        DataFileError, StorageError: A file cannot be read.
    """
    return values_of(_read_batches(snapshot, tuple(files)))


def _read_batches(snapshot: Snapshot, files: Sequence[AddFile]) -> Iterable[pa.RecordBatch]:
    return read_files(snapshot, files, VALUE_COLUMNS) if files else ()

"""Conflicts of keys: whether the changes of a session can follow other commits. No writes.

Two versions are compared: the base version of the session, and the version that the session is to
follow. Only blocks with other files are read.

1. A key that both have changed is a conflict, even if both have set equal bytes: each may have been
   computed from the bytes before.
2. A change depends on the metadata of its node and of all nodes above, except their attributes and
   dimension names. Another shape, chunk grid, data type or codec, or a deletion, is a conflict. A
   key with numbers may belong to several nodes, see `numbered_nodes`, and depends on all of them.
3. A session that changes these parts of a node's metadata depends on all keys of the node and of
   the nodes below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from delta_ops.arrays.blocks import Blocks, Partition
from delta_ops.arrays.chunks import have_same_bytes
from delta_ops.arrays.keys import (
    METADATA_BLOCK,
    OTHER_BLOCK,
    chunk_node,
    is_key_within,
    is_within,
    place_of,
)
from delta_ops.arrays.node_metadata import DOCUMENTS, essential_part
from delta_ops.arrays.rows import Value
from delta_ops.arrays.staged import Change


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyConflict:
    """A change of the session that contradicts other commits."""

    key: str
    """The changed key of the session."""
    other: str
    """The key that the other commits have changed; the same, or metadata, or a key of the node."""

    @property
    def is_about_metadata(self) -> bool:
        """Whether the conflict concerns the metadata of a node, so the bytes may not fit."""
        return self.key != self.other or place_of(self.key).kind == "metadata"


@dataclass(slots=True, kw_only=True)
class Comparison:
    """Two versions of a table, and the changes of a session.

    Args:
        before: The base version of the session.
        after: A later version.
        changes: The changes of the session, by key.
    """

    before: Blocks
    after: Blocks
    changes: Mapping[str, Change]
    _same: dict[Partition, bool] = field(default_factory=dict)
    _documents: dict[tuple[str, str], bool] = field(default_factory=dict)

    def touches_changed_blocks(self) -> bool:
        """Whether other commits have changed files of a block that the session needs."""
        nodes: set[str] = set()
        for key in self.changes:
            if not all(map(self._is_same, self._partitions(key))):
                return True
            nodes.update(self.before.nodes_above(key))
        if not all(self._is_same((node, METADATA_BLOCK)) for node in nodes):
            return True
        remade = remade_nodes(self.before, self.changes)
        return any(True for top in remade for _ in self._changed_partitions(top))

    def conflicts(self) -> list[KeyConflict]:
        """All conflicts, in the order of the changes; at most one for each key."""
        found: dict[str, KeyConflict] = {}
        for key in self.changes:
            other = self._changed_key(key)
            if other is not None:
                found[key] = KeyConflict(key=key, other=other)
        for top, key in remade_nodes(self.before, self.changes).items():
            other = next(self._changed_keys(top), None)
            if other is not None:
                found.setdefault(key, KeyConflict(key=key, other=other))
        return list(found.values())

    def _changed_key(self, key: str) -> str | None:
        """The key that other commits have changed and that a change depends on."""
        above = self.before.nodes_above(key)
        for node in above[1:] if place_of(key).kind == "metadata" else above:
            for name in DOCUMENTS:
                if self._document_differs(node, name):
                    return f"{node}/{name}".lstrip("/")
        if not all(map(self._is_same, self._partitions(key))) and self._differs(key):
            return key
        return None

    def _changed_partitions(self, top: str) -> Iterator[Partition]:
        for partition in sorted({*self.before.files, *self.after.files}):
            node, block = partition
            may_hold = is_within(node, top) or (
                node == chunk_node(top) and block not in (METADATA_BLOCK, OTHER_BLOCK)
            )
            if may_hold and not self._is_same(partition):
                yield partition

    def _changed_keys(self, top: str) -> Iterator[str]:
        """Keys of a node, and of the nodes below it, that other commits have changed."""
        for partition in self._changed_partitions(top):
            before, after = self.before.load(partition), self.after.load(partition)
            for key in sorted({*before, *after}):
                if is_key_within(key, top) and self._differs(key):
                    yield key

    def _partitions(self, key: str) -> set[Partition]:
        return {*self.before.partitions_of(key), *self.after.partitions_of(key)}

    def _is_same(self, partition: Partition) -> bool:
        known = self._same.get(partition)
        if known is None:
            known = self.before.file_ids(partition) == self.after.file_ids(partition)
            self._same[partition] = known
        return known

    def _differs(self, key: str) -> bool:
        return not have_same_bytes(self.before.find(key), self.after.find(key))

    def _document_differs(self, node: str, name: str) -> bool:
        known = self._documents.get((node, name))
        if known is None:
            known = not self._is_same((node, METADATA_BLOCK)) and (
                essential_part(self.before.document(node, name))
                != essential_part(self.after.document(node, name))
            )
            self._documents[node, name] = known
        return known


def remade_nodes(base: Blocks, changes: Mapping[str, Change]) -> dict[str, str]:
    """Nodes whose metadata are changed in parts that chunks depend on, each with the changed key.

    Args:
        base: The version that the changes follow.
        changes: By key.
    """
    found: dict[str, str] = {}
    for key, change in changes.items():
        place, name = place_of(key), key.rpartition("/")[2]
        if place.kind != "metadata" or name not in DOCUMENTS:
            continue
        ours = change.data if isinstance(change, Value) else None
        if essential_part(ours) != essential_part(base.document(place.node, name)):
            found[place.node] = key
    return found

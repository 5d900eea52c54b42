"""Deletion vectors written: a file that holds the vectors of several data files.

Source: PROTOCOL.md, "Deletion Vectors".
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from pyroaring import BitMap64

from delta_ops.protocol.actions import DeletionVector
from delta_ops.protocol.deletion_vector_file import pack_vectors
from delta_ops.protocol.deletion_vectors import stored_path
from delta_ops.storage import Storage
from delta_ops.storage.own_files import create_unique

_FILE_ROWS = 1 << 20
"""Deleted rows in one file, about: 2 MB where they lie far apart."""


def write_deletion_vectors(
    storage: Storage, vectors: Sequence[BitMap64]
) -> tuple[DeletionVector, ...]:
    """Write vectors, durably, to as few new files as hold them.

    Args:
        storage: The table's.
        vectors: Numbers of deleted rows, from 0 in the order of each file; none of them empty.

    Returns:
        What the log says of each, in their order.

    Raises:
        StorageError: The store failed. What was written by then no version names, and vacuum
            deletes it.
    """
    described: list[DeletionVector] = []
    for group in _groups(vectors):
        packed = pack_vectors(group, uuid.uuid4())
        create_unique(storage, packed.path, packed.content)
        described += packed.vectors
    return tuple(described)


def discard_vectors(storage: Storage, vectors: Sequence[DeletionVector]) -> None:
    """Delete the files of vectors that no version names or can come to name."""
    paths = {stored_path(each, storage.uri) for each in vectors}
    storage.delete_many(sorted(filter(None, paths)))


def _groups(vectors: Sequence[BitMap64]) -> list[list[BitMap64]]:
    groups: list[list[BitMap64]] = []
    num_rows = _FILE_ROWS
    for rows in vectors:
        if num_rows >= _FILE_ROWS:
            groups.append([])
            num_rows = 0
        groups[-1].append(rows)
        num_rows += len(rows)
    return groups

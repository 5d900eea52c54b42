"""Vectors: rows of live files that are marked as deleted, in place of writing the files again.

Source: PROTOCOL.md, "Deletion Vectors" ("Writer Requirements for Deletion Vectors").

A table has them where `delta.enableDeletionVectors` is true. The vectors of a commit are in one
file; each holds what the one before it held, and the statistics of its file are no longer tight.
"""

from __future__ import annotations

from collections.abc import Sequence

from delta_ops.arrow.matching import TouchedFile, deleted_rows
from delta_ops.arrow.row_changes import Changed
from delta_ops.log import Snapshot
from delta_ops.log.deletion_vector_write import write_deletion_vectors


def mark_deleted(changed: Changed, snapshot: Snapshot, files: Sequence[TouchedFile]) -> None:
    """Give files vectors with the rows that match, beside those that are deleted already.

    Args:
        changed: The change that the vectors are part of.
        snapshot: The table that the files are live in.
        files: Files with the numbers of some of their rows.

    Raises:
        DataFileError: A vector is gone, or contradicts its descriptor.
        StorageError: The store failed.
    """
    rows = [deleted_rows(snapshot, each.file) | each.rows for each in files if each.rows]
    vectors = write_deletion_vectors(snapshot.storage, rows)
    changed.vectors += vectors
    for each, vector in zip(files, vectors, strict=True):
        changed.transaction.replace_vector(each.file, vector)


def vector_metrics(changed: Changed, files: Sequence[TouchedFile]) -> dict[str, int]:
    """The `operationMetrics` of vectors, as the reference counts them."""
    updated = sum(each.file.deletion_vector is not None for each in files)
    removed = changed.num_vectors_removed + updated
    return {
        "numDeletionVectorsAdded": len(files),
        "numDeletionVectorsRemoved": removed,
        "numDeletionVectorsUpdated": updated,
    }

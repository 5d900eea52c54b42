"""Vectors: rows of live files that are marked as deleted, in place of writing the files again.

Source: PROTOCOL.md, "Deletion Vectors" ("Writer Requirements for Deletion Vectors").

A table has them where `delta.enableDeletionVectors` is true. The vectors of a commit are in one
file; each holds what the one before it held, and the statistics of its file are no longer tight.
"""

from __future__ import annotations

from collections.abc import Sequence

from delta_ops.arrow.matching import TouchedFile
from delta_ops.arrow.row_changes import Changed
from delta_ops.log.deletion_vector_write import write_deletion_vectors


def mark_deleted(changed: Changed, files: Sequence[TouchedFile]) -> None:
    """Give files vectors with the rows that match, beside those that are deleted already.

    Args:
        changed: The change that the vectors are part of.
        files: Live files, as `find_rows` found them.

    Raises:
        StorageError: The store failed.
    """
    rows = [each.gone for each in files if each.gone]
    vectors = write_deletion_vectors(changed.transaction.log.storage, rows)
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

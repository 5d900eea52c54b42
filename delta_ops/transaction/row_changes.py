"""Row changes: the files that a delete, update or merge touches, removes and adds.

Copy-on-write: a file with a changed row is removed, and all of its rows are written again. A table
with deletion vectors marks the changed rows as deleted instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pyroaring import BitMap64

from delta_ops.errors import DataFileError
from delta_ops.log import Snapshot
from delta_ops.log.deletion_vectors import load_deletion_vector, write_deletion_vectors
from delta_ops.protocol.actions import AddCdcFile, AddFile, DeletionVector
from delta_ops.protocol.columns.identity import Counted
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.protocol.row_rules import RowRule, counted_rules, not_null_rules
from delta_ops.protocol.stats.file_stats import count_records, num_records
from delta_ops.storage import FileInfo
from delta_ops.storage.concurrency import run_parallel
from delta_ops.storage.parquet_ranges import read_footer
from delta_ops.transaction.changes import AddChangeFiles
from delta_ops.transaction.staging import Staged, WriteTarget
from delta_ops.transaction.transaction import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class TouchedFile:
    """A live file with matching rows."""

    file: AddFile
    num_rows: int
    """The rows that match."""
    is_whole: bool
    """Whether all rows match."""
    gone: BitMap64 | None = None
    """Positions of matching and already deleted rows, from 0 in file order; None: not computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """The live files that hold matching rows."""

    matched: Sequence[AddFile]
    """Files whose rows all match."""
    mixed: Sequence[TouchedFile]
    """Files with matching and other rows."""
    num_rows: int | None
    """Number of matching rows; None if an unopened file has no row count in its statistics."""

    @property
    def files(self) -> list[AddFile]:
        """All files with matching rows."""
        return [*self.matched, *(each.file for each in self.mixed)]


@dataclass(slots=True, kw_only=True)
class Changed:
    """Collects the files that a change removes and adds."""

    transaction: Transaction
    snapshot: Snapshot
    """The table before the change."""
    written: list[AddFile] = field(default_factory=list)
    """New data files; deleted again if nothing is committed."""
    vectors: list[DeletionVector] = field(default_factory=list)
    """New vectors; their files are deleted again if nothing is committed."""
    change_files: list[AddCdcFile] = field(default_factory=list)
    """New files of the change data feed; deleted again if nothing is committed."""
    num_removed: int = 0
    num_vectors_removed: int = 0
    """Number of removed files with a deletion vector."""
    removed_bytes: int = 0

    @property
    def target(self) -> WriteTarget:
        """The table after the commit."""
        return self.transaction.target

    def remove(self, files: Sequence[AddFile]) -> None:
        """Remove files."""
        self.transaction.remove(files)
        self.num_removed += len(files)
        self.num_vectors_removed += sum(each.deletion_vector is not None for each in files)
        self.removed_bytes += sum(each.size for each in files)

    def record(self, files: Iterable[AddCdcFile]) -> None:
        """Add written files of the change data feed to the commit."""
        recorded = tuple(files)
        self.change_files += recorded
        self.transaction.apply(AddChangeFiles(files=recorded))

    def mark_deleted(self, files: Sequence[TouchedFile]) -> None:
        """Mark the matching rows of files as deleted by deletion vectors.

        A new vector also holds the rows of the vector that it replaces. The vectors of a commit
        share files.

        Args:
            files: Live files with `gone`.

        Raises:
            DataFileError: A file is missing or cannot be read.
            StorageError: The store failed.
        """
        rows = [each.gone for each in files if each.gone]
        vectors = write_deletion_vectors(self.transaction.log.storage, rows)
        self.vectors += vectors
        counted = run_parallel(partial(_fill_count, self.snapshot), files)
        for file, vector in zip(counted, vectors, strict=True):
            self.transaction.replace_vector(file, vector)

    def add(
        self,
        adds: Sequence[AddFile],
        checked: Iterable[RowRule],
        counted: tuple[Counted, ...] = (),
    ) -> None:
        """Add files.

        Args:
            adds: Files whose rows meet the NOT NULL rules. The rows keep their values in identity
                columns, or have new values from `counted`.
            checked: Other rules, checked on every new or changed row. Unchanged rows were checked
                before.
            counted: The new values of identity columns.
        """
        self.written += adds
        definition = self.transaction.definition
        staged = Staged(
            adds=tuple(adds),
            schema=definition.schema,
            partition_columns=definition.partition_columns,
            num_rows=0,
            row_rules=counted_rules(definition.row_rules).union(
                not_null_rules(definition.schema), checked
            ),
            counted=counted,
        )
        self.transaction.stage(staged)

    @property
    def added_bytes(self) -> int:
        """Bytes of the added files."""
        return sum(each.size for each in self.written)


def _fill_count(snapshot: Snapshot, touched: TouchedFile) -> AddFile:
    """Add the row count to a file's statistics, as a file with a deletion vector requires."""
    add = touched.file
    if num_records(add.stats) is not None:
        return add
    path = canonical_path(add.path, snapshot.uri)
    try:
        storage, place = snapshot.table_files.find(path)
        footer = read_footer(storage, FileInfo(place, add.size, add.modification_time))
    except (FileNotFoundError, ValueError) as error:
        reason = f"cannot be read ({error}); restore it from a backup"
        raise DataFileError(snapshot.uri, snapshot.version, path, reason) from error
    return replace(add, stats=count_records(add.stats, footer.metadata.num_rows))


def num_live_rows(add: AddFile) -> int | None:
    """The number of live rows of a file; None without a row count in its statistics."""
    stored = num_records(add.stats)
    if stored is None:
        return None
    return stored - (add.deletion_vector.cardinality if add.deletion_vector else 0)


def deleted_rows(snapshot: Snapshot, file: AddFile) -> BitMap64:
    """The positions of the rows in a live file's deletion vector.

    Raises:
        DataFileError: The vector is missing or cannot be read.
    """
    if file.deletion_vector is None:
        return BitMap64()
    path = canonical_path(file.path, snapshot.uri)
    return load_deletion_vector(snapshot.table_files, snapshot.version, path, file.deletion_vector)


def delete_metrics(
    changed: Changed, num_rows: int | None, num_copied: int, marked: Sequence[TouchedFile]
) -> dict[str, int]:
    """`operationMetrics` of a DELETE, with the reference's names.

    Args:
        num_rows: Number of deleted rows; None if a whole file without statistics was removed.
        num_copied: Number of rows that were rewritten unchanged.
        marked: Files with new vectors.
    """
    return {
        **_file_metrics(changed),
        "numCopiedRows": num_copied,
        **({} if num_rows is None else {"numDeletedRows": num_rows}),
        **vector_metrics(changed, marked),
    }


def update_metrics(
    changed: Changed, num_updated: int, num_copied: int, marked: Sequence[TouchedFile] | None
) -> dict[str, int]:
    """`operationMetrics` of an UPDATE, with the reference's names.

    Args:
        num_updated: Number of updated rows.
        num_copied: Number of rows that were rewritten unchanged.
        marked: Files with new vectors; None omits their counts, for a table without vectors.
    """
    return {
        **_file_metrics(changed),
        "numUpdatedRows": num_updated,
        "numCopiedRows": num_copied,
        **({} if marked is None else vector_metrics(changed, marked)),
    }


def vector_metrics(changed: Changed, marked: Sequence[TouchedFile]) -> dict[str, int]:
    """The `operationMetrics` about vectors, counted as in the reference."""
    updated = sum(each.file.deletion_vector is not None for each in marked)
    return {
        "numDeletionVectorsAdded": len(marked),
        "numDeletionVectorsRemoved": changed.num_vectors_removed + updated,
        "numDeletionVectorsUpdated": updated,
    }


def _file_metrics(changed: Changed) -> dict[str, int]:
    return {
        "numRemovedFiles": changed.num_removed,
        "numRemovedBytes": changed.removed_bytes,
        "numAddedFiles": len(changed.written),
        "numAddedBytes": changed.added_bytes,
        "numAddedChangeFiles": len(changed.change_files),
    }

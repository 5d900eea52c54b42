"""Row changes: the files that a delete, update or merge touches, removes and adds.

Copy-on-write: a file with a changed row is removed, and all of its rows are written again. A table
with deletion vectors marks the changed rows as deleted instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pyroaring import BitMap64

from delta_ops.errors import (
    DataFileError,
)
from delta_ops.log import Snapshot
from delta_ops.log.deletion_vectors import load_deletion_vector, write_deletion_vectors
from delta_ops.protocol.actions import AddCdcFile, AddFile, DeletionVector
from delta_ops.protocol.columns.identity import Counted
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.protocol.row_rules import RowRule, counted_rules, not_null_rules
from delta_ops.protocol.stats.file_stats import count_records, num_records, parse_stats
from delta_ops.storage import FileInfo
from delta_ops.storage.concurrency import run_parallel
from delta_ops.storage.parquet_ranges import read_footer
from delta_ops.transaction.changes import AddChangeFiles
from delta_ops.transaction.staging import Staged
from delta_ops.transaction.transaction import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class TouchedFile:
    """A live file with matching rows."""

    file: AddFile
    num_rows: int
    """The rows that match."""
    is_whole: bool
    """Whether all rows do."""
    gone: BitMap64 | None = None
    """Numbers of these rows and of those that are deleted already, from 0 in the order of the file;
    None where nobody asked for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """The live files that hold matching rows."""

    matched: Sequence[AddFile]
    """Every row matches."""
    mixed: Sequence[TouchedFile]
    """Some rows match."""
    num_rows: int | None
    """The rows that match; None where a file that was not opened does not tell."""

    @property
    def files(self) -> list[AddFile]:
        """All of them."""
        return [*self.matched, *(each.file for each in self.mixed)]


@dataclass(slots=True, kw_only=True)
class Changed:
    """The files that a change removes and adds, as they come about."""

    transaction: Transaction
    snapshot: Snapshot
    """The table before."""
    written: list[AddFile] = field(default_factory=list)
    """Files that are deleted again if nothing is committed."""
    vectors: list[DeletionVector] = field(default_factory=list)
    """Vectors whose files are deleted again if nothing is committed."""
    change_files: list[AddCdcFile] = field(default_factory=list)
    """Files of the change data feed; they too."""
    num_removed: int = 0
    num_vectors_removed: int = 0
    """Vectors of the files that are removed."""
    removed_bytes: int = 0

    def remove(self, files: Sequence[AddFile]) -> None:
        """Remove files."""
        self.transaction.remove(files)
        self.num_removed += len(files)
        self.num_vectors_removed += sum(each.deletion_vector is not None for each in files)
        self.removed_bytes += sum(each.size for each in files)

    def tell(self, files: Iterable[AddCdcFile]) -> None:
        """Tell readers of the change data feed of rows, by files that are written."""
        told = tuple(files)
        self.change_files += told
        self.transaction.apply(AddChangeFiles(files=told))

    def mark_deleted(self, files: Sequence[TouchedFile]) -> None:
        """Give files vectors with the rows that match, beside those that are deleted already.

        The vectors of a commit share files; each holds what the one before it held.

        Args:
            files: Live ones, with the numbers of their rows that are gone.

        Raises:
            DataFileError: A file is gone, or cannot be read.
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
            adds: Their rows have no null where none may be, and keep their values in identity
                columns, or have counted ones.
            checked: Other rules that every new or changed row was held against; rows that were
                there before have kept them.
            counted: The values that the rows have taken of identity columns.
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
        """Bytes of the files that are added."""
        return sum(each.size for each in self.written)


def _fill_count(snapshot: Snapshot, touched: TouchedFile) -> AddFile:
    """A file that is to get a vector, with statistics that tell how many rows it has."""
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
    """The rows of a file by its statistics; None where they do not tell."""
    stats = parse_stats(add.stats)
    if stats is None or stats.num_records is None:
        return None
    return stats.num_records - (add.deletion_vector.cardinality if add.deletion_vector else 0)


def deleted_rows(snapshot: Snapshot, file: AddFile) -> BitMap64:
    """The numbers of the rows that a live file's deletion vector names.

    Raises:
        DataFileError: The vector is gone or cannot be read.
    """
    if file.deletion_vector is None:
        return BitMap64()
    path = canonical_path(file.path, snapshot.uri)
    return load_deletion_vector(snapshot.table_files, snapshot.version, path, file.deletion_vector)


def delete_metrics(
    changed: Changed, num_rows: int | None, num_copied: int, marked: Sequence[TouchedFile]
) -> dict[str, int]:
    """`operationMetrics` of a DELETE, as the reference names them.

    Args:
        num_rows: The rows deleted; not told where a file without statistics goes as a whole.
        num_copied: Rows that were written again as they are.
        marked: Files that got vectors.
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
    """`operationMetrics` of an UPDATE, as the reference names them.

    Args:
        marked: Files that got vectors; None: the table has none, and nothing is told of them.
    """
    return {
        **_file_metrics(changed),
        "numUpdatedRows": num_updated,
        "numCopiedRows": num_copied,
        **({} if marked is None else vector_metrics(changed, marked)),
    }


def vector_metrics(changed: Changed, marked: Sequence[TouchedFile]) -> dict[str, int]:
    """The `operationMetrics` of vectors, as the reference counts them."""
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

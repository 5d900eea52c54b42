"""Touched files: find files with rows that match a condition, and count the rows.

Only the columns of the condition are read, and only from files whose partition values and
statistics allow a match.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from delta_ops.arrow.dictionary_columns import decode_columns
from delta_ops.arrow.dml.cached_rows import CachedRows
from delta_ops.arrow.expressions.conditions import Condition
from delta_ops.arrow.read.reading import go_through
from delta_ops.arrow.read.scan import plan_reading
from delta_ops.log import Snapshot
from delta_ops.planning.touched_files import plan_touched_files
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_values import array_of, numpy_of
from delta_ops.transaction.row_changes import (
    Touched,
    TouchedFile,
    deleted_rows,
    num_live_rows,
)


class TouchedFiles:
    """Counts the rows of files that match a condition.

    Args:
        cached: Receives the rows of small files with matching rows.
    """

    def __init__(self, snapshot: Snapshot, condition: Condition, cached: CachedRows) -> None:
        self._condition, self._cached = condition, cached
        columns, selection = _columns_of(snapshot, condition), condition.selection
        self._predicate = selection.implied if selection.is_implied else None
        self._read = plan_reading(snapshot, columns)
        self._read_matching = plan_reading(snapshot, columns, self._predicate)

    def look(self, files: Sequence[AddFile]) -> list[TouchedFile]:
        """Count the matching rows of each file.

        Raises:
            DataFileError: A file is missing or unreadable.
        """
        loaded = [self._cached.load(each) for each in files]
        counts = iter(
            _count_matching([each for each in loaded if each is not None], self._condition)
        )
        return [
            self._count(file) if batches is None else self._keep(file, batches, next(counts))
            for file, batches in zip(files, loaded, strict=True)
        ]

    def _count(self, file: AddFile) -> TouchedFile:
        batches = self._read_matching([file])
        if self._predicate is None:
            mask = self._condition.mask
            num_rows = sum(pc.sum(mask(batch)).as_py() or 0 for batch in batches)
        else:
            num_rows = sum(map(len, batches))
        # Statistics may be wrong: rows that they hide would be lost for good.
        is_whole = num_rows == num_live_rows(file) and num_rows == sum(map(len, self._read([file])))
        return TouchedFile(file=file, num_rows=num_rows, is_whole=is_whole)

    def _keep(self, file: AddFile, batches: list[pa.RecordBatch], num_rows: int) -> TouchedFile:
        self._cached.keep(file, batches, is_changed=num_rows > 0)
        is_whole = num_rows == sum(map(len, batches))
        return TouchedFile(file=file, num_rows=num_rows, is_whole=is_whole)


def find_rows(snapshot: Snapshot, condition: Condition) -> Touched:
    """Find the files with matching rows, with the row numbers if only some rows match.

    Raises:
        DataFileError: A file or its deletion vector is missing or unreadable.
    """
    read = plan_reading(snapshot, _columns_of(snapshot, condition))

    def number(file: AddFile) -> TouchedFile:
        # Row numbers count all rows of a file, including deleted rows; deleted rows are not
        # evaluated.
        whole, deleted = replace(file, deletion_vector=None), deleted_rows(snapshot, file)
        gone = np.frombuffer(array("Q", deleted), dtype=np.uint64).astype(np.int64)
        rows, first = BitMap64(), 0
        for batch in read([whole]):
            after = first + len(batch)
            here = gone[slice(*np.searchsorted(gone, (first, after)))]
            live = np.delete(np.arange(first, after), here - first) if len(here) else None
            rows_of_batch = batch if live is None else batch.take(array_of(live - first))
            found = numpy_of(pc.indices_nonzero(condition.mask(rows_of_batch)))
            numbers = found + first if live is None else live[found]
            rows |= BitMap64(array("Q", numbers.astype(np.uint64).tobytes()))
            first = after
        is_whole = len(rows) == first - len(deleted)
        return TouchedFile(file=file, num_rows=len(rows), is_whole=is_whole, gone=rows | deleted)

    files, storage = plan_touched_files(snapshot, condition.selection), snapshot.storage
    # The columns of a condition are small, and are read in batches.
    numbered = go_through(storage, ((1, partial(number, each)) for each in files.to_open))
    return files.list_touched([each for each in numbered if each.num_rows])


def _columns_of(snapshot: Snapshot, condition: Condition) -> Sequence[str]:
    """Return the columns to read for a condition; one column if the condition uses none."""
    return condition.columns or [field.name for field in snapshot.schema.fields[:1]]


def _count_matching(files: Sequence[Sequence[pa.RecordBatch]], condition: Condition) -> list[int]:
    """Count the matching rows of each file.

    A condition takes as long for a few rows as for some thousand rows.
    """
    batches = [batch for each in files for batch in each if len(batch)]
    if not batches:
        return [0] * len(files)
    names = condition.columns or batches[0].schema.names[:1]
    # A condition without columns gets a column that only some of the files have as a dictionary.
    decoded = [decode_columns(batch.select(names)) for batch in batches]
    mask = condition.mask(pa.concat_batches(decoded))
    counts, first = [], 0
    for each in files:
        num_rows = sum(map(len, each))
        counts.append(pc.sum(mask.slice(first, num_rows)).as_py() or 0)
        first += num_rows
    return counts


def number_rows(snapshot: Snapshot, file: AddFile, rows: pa.Int64Array, num_rows: int) -> BitMap64:
    """Return the numbers of rows in a file, together with the rows already deleted.

    Args:
        snapshot: The table.
        file: A live file of the table.
        rows: Row numbers from 0 that count only live rows, in file order.
        num_rows: The number of live rows.

    Raises:
        DataFileError: The deletion vector is missing or unreadable.
    """
    deleted = deleted_rows(snapshot, file)
    numbers = numpy_of(rows)
    if deleted:
        is_live = np.ones(num_rows + len(deleted), dtype=bool)
        is_live[np.frombuffer(array("Q", deleted), dtype=np.uint64)] = False
        numbers = np.flatnonzero(is_live)[numbers]
    return BitMap64(array("Q", numbers.astype(np.uint64).tobytes())) | deleted

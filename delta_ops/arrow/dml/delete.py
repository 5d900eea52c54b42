"""Delete: replaces files that have matching rows by files without these rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arrow.dictionary_columns import encode_alike
from delta_ops.arrow.dml.cached_rows import CachedRows
from delta_ops.arrow.dml.changed_rows import record_row_changes, search_and_write
from delta_ops.arrow.dml.touched_files import TouchedFiles, find_rows
from delta_ops.arrow.expressions.conditions import Condition, condition_of
from delta_ops.arrow.memory_pools import sparing_memory
from delta_ops.arrow.read.reading import gather
from delta_ops.arrow.read.scan import plan_reading_kept, read_files
from delta_ops.arrow.write.change_files import mark_rows
from delta_ops.log import Snapshot
from delta_ops.planning.touched_files import plan_touched_files
from delta_ops.protocol.actions import AddFile
from delta_ops.transaction import Transaction
from delta_ops.transaction.requests import DeleteRequest
from delta_ops.transaction.row_changes import (
    Changed,
    Touched,
    TouchedFile,
    delete_metrics,
    num_live_rows,
)


@dataclass(frozen=True, slots=True)
class PlannedDelete:
    """See `PlannedChange`."""

    condition: Condition

    @property
    def text(self) -> str:
        """See `PlannedChange`."""
        return self.condition.selection.text

    @sparing_memory()
    def change_rows(self, changed: Changed) -> dict[str, int]:
        """See `PlannedChange`."""
        changed.transaction.read(self.condition.selection.implied, changes_rows=True)
        if changed.transaction.definition.properties.deletion_vectors:
            return _delete_by_vectors(changed.snapshot, self.condition, changed)
        return _delete_by_copies(changed.snapshot, self.condition, changed)


def plan_delete(request: DeleteRequest, transaction: Transaction) -> PlannedDelete:
    """See `Engine.plan_change`."""
    return PlannedDelete(condition_of(request.predicate, transaction.schema, transaction.clock()))


class _Survivors:
    """Finds the files with matching rows, and yields the other rows of these files."""

    def __init__(self, snapshot: Snapshot, condition: Condition) -> None:
        others = set(snapshot.arrow_schema.names) - set(condition.columns)
        self._condition = condition
        self._cached = CachedRows(plan_reading_kept(snapshot, encoded=others))
        self.look = TouchedFiles(snapshot, condition, self._cached).look

    def bytes_to_write(self, file: AddFile, found: TouchedFile, /) -> int | None:
        """See `Search`."""
        if not found.num_rows or found.is_whole:
            return None
        num_rows = num_live_rows(file)
        if not num_rows:  # unknown
            return file.size
        return file.size * max(0, num_rows - found.num_rows) // num_rows

    def rows(
        self, files: Sequence[AddFile], _found: Sequence[TouchedFile], /
    ) -> Iterator[pa.RecordBatch]:
        """See `Search`."""
        for batch in gather(encode_alike(self._cached.read(files))):
            yield batch.filter(pc.invert(self._condition.mask(batch)))


def _delete_by_copies(snapshot: Snapshot, condition: Condition, changed: Changed) -> dict[str, int]:
    target = changed.target
    concerned = plan_touched_files(snapshot, condition.selection)
    survivors = _Survivors(snapshot, condition)
    adds, found = search_and_write(target, concerned.to_open, survivors)
    touched = concerned.list_touched([each for each in found if each.num_rows])
    changed.add(adds, target.definition.row_rules)
    changed.remove([*touched.matched, *(each.file for each in touched.mixed)])
    _record_changes(snapshot, condition, touched, changed)
    num_copied = sum(num_live_rows(add) or 0 for add in adds)
    return delete_metrics(changed, touched.num_rows, num_copied, ())


def _delete_by_vectors(
    snapshot: Snapshot, condition: Condition, changed: Changed
) -> dict[str, int]:
    touched = find_rows(snapshot, condition)
    changed.mark_deleted(touched.mixed)
    changed.remove(touched.matched)
    _record_changes(snapshot, condition, touched, changed)
    return delete_metrics(changed, touched.num_rows, 0, touched.mixed)


def _record_changes(
    snapshot: Snapshot, condition: Condition, touched: Touched, changed: Changed
) -> None:
    """Record deleted rows for the change data feed; not needed if only whole files are removed."""
    if not touched.mixed:
        return

    def deleted_rows(files: Sequence[AddFile]) -> Iterator[pa.RecordBatch]:
        for batch in gather(read_files(snapshot, files, snapshot.arrow_schema.names)):
            yield mark_rows(batch.filter(condition.mask(batch)), "delete")

    record_row_changes(changed, touched.files, deleted_rows)

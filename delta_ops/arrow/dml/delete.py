"""Delete: files without the matching rows replace the files that have them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arrow.dml.changed_rows import FileReplacer, record_row_changes, write_again
from delta_ops.arrow.dml.touched_files import find_rows, find_touched
from delta_ops.arrow.expressions.conditions import Condition, condition_of
from delta_ops.arrow.memory_pools import sparing_memory
from delta_ops.arrow.read.scan import plan_reading_kept, read_files
from delta_ops.arrow.write.change_files import mark_rows
from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddFile
from delta_ops.transaction import Transaction
from delta_ops.transaction.requests import DeleteRequest
from delta_ops.transaction.row_changes import Changed, Touched, delete_metrics, num_live_rows


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


def _delete_by_copies(snapshot: Snapshot, condition: Condition, changed: Changed) -> dict[str, int]:
    target = changed.target
    touched = find_touched(snapshot, condition)
    mixed = [each.file for each in touched.mixed]
    others = set(snapshot.arrow_schema.names) - set(condition.columns)
    read = plan_reading_kept(snapshot, coded=others)

    def write(file: AddFile, replacer: FileReplacer) -> None:
        survivors = (batch.filter(pc.invert(condition.mask(batch))) for batch in read([file]))
        replacer.write(file, survivors, moves=False)

    adds, _ = write_again(target, [(each, partial(write, each)) for each in mixed])
    changed.add(adds, target.definition.row_rules)
    changed.remove([*touched.matched, *mixed])
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
    if touched.mixed:
        rows = ((each, _deleted_rows(snapshot, condition, each)) for each in touched.files)
        record_row_changes(changed, rows)


def _deleted_rows(
    snapshot: Snapshot, condition: Condition, file: AddFile
) -> Iterator[pa.RecordBatch]:
    for batch in read_files(snapshot, [file], snapshot.arrow_schema.names):
        yield mark_rows(batch.filter(condition.mask(batch)), "delete")

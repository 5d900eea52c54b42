"""Update: files with the new values replace the files with the old values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arrow.assignments import Assignments, nodes_of, plan_assignments, replace_values
from delta_ops.arrow.dictionary_columns import decode_columns, encode_alike
from delta_ops.arrow.dml.cached_rows import CachedRows, key_of
from delta_ops.arrow.dml.changed_rows import record_row_changes, search_and_write
from delta_ops.arrow.dml.touched_files import TouchedFiles, find_rows
from delta_ops.arrow.expressions.conditions import Condition, condition_of
from delta_ops.arrow.expressions.evaluation import rows_of_batch
from delta_ops.arrow.generated_columns import GeneratedColumns
from delta_ops.arrow.memory_pools import sparing_memory
from delta_ops.arrow.read.reading import gather
from delta_ops.arrow.read.scan import plan_reading_kept, read_files, read_numbered
from delta_ops.arrow.row_checks import Checks, plan_checks
from delta_ops.arrow.write.change_files import mark_rows
from delta_ops.arrow.write.data_files import write_rows
from delta_ops.log import Snapshot
from delta_ops.planning.assigned_columns import values_by_path
from delta_ops.planning.touched_files import plan_touched_files
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_values import TRUE_SCALAR, scalar
from delta_ops.protocol.expression.resolution import finder_of
from delta_ops.protocol.row_tracking import version_column
from delta_ops.transaction import Transaction
from delta_ops.transaction.mutability import validate_assigned
from delta_ops.transaction.requests import UpdateRequest
from delta_ops.transaction.row_changes import Changed, Touched, num_live_rows, update_metrics


@dataclass(frozen=True, slots=True)
class PlannedUpdate:
    """See `PlannedChange`."""

    condition: Condition
    assignments: Assignments
    generated: GeneratedColumns
    recomputed: Sequence[str]
    """Generated columns without an assignment: they are computed from the new values."""
    checks: Checks
    version_column: str | None
    """Column with the version that last changed a row, if the table stores it; null means the
    version of this commit."""

    @property
    def text(self) -> str:
        """See `PlannedChange`."""
        return self.condition.selection.text

    @property
    def changed_columns(self) -> Sequence[str]:
        """The columns whose values may change."""
        return (*self.assignments.names, *self.recomputed)

    @sparing_memory()
    def change_rows(self, changed: Changed) -> dict[str, int]:
        """See `PlannedChange`."""
        changed.transaction.read(self.condition.selection.implied, changes_rows=True)
        if changed.transaction.definition.properties.deletion_vectors:
            return _update_by_vectors(changed.snapshot, self, changed)
        return _update_by_copies(changed.snapshot, self, changed)


def plan_update(request: UpdateRequest, transaction: Transaction) -> PlannedUpdate:
    """See `Engine.plan_change`."""
    definition, table, now_ms = transaction.definition, transaction.log.uri, transaction.clock()
    schema = definition.schema
    condition = condition_of(request.predicate, schema, now_ms)
    values = values_by_path(request.assignments, request.target_alias, schema)
    nodes = nodes_of(values, schema, table, now_ms)
    validate_assigned(nodes, schema, table)
    generated = GeneratedColumns(definition, table)
    partitions = definition.partition_columns
    return PlannedUpdate(
        condition,
        plan_assignments(nodes, finder_of(schema), schema, table, partitions, is_update=True),
        generated,
        generated.left_out(nodes),
        plan_checks(definition, table),
        version_column(definition, table),
    )


class _UpdatedRows:
    """Finds the files with matching rows, and yields all rows of these files with new values.

    Args:
        matched: Files whose rows are known to match; they are not searched.
    """

    def __init__(
        self, snapshot: Snapshot, planned: PlannedUpdate, matched: Sequence[AddFile]
    ) -> None:
        self._planned, self._matched = planned, {*map(key_of, matched)}
        read_columns = {*planned.changed_columns, *planned.condition.columns}
        others = set(snapshot.arrow_schema.names) - read_columns
        self._cached = CachedRows(plan_reading_kept(snapshot, encoded=others))
        self._touched = TouchedFiles(snapshot, planned.condition, self._cached)
        self._num_updated: list[int] = []  # per batch; threads append to it

    @property
    def num_updated(self) -> int:
        """Number of rows with new values."""
        return sum(self._num_updated)

    def look(self, files: Sequence[AddFile]) -> list[bool]:
        """Return whether each file has matching rows."""
        to_open = [each for each in files if key_of(each) not in self._matched]
        touched = self._touched.look(to_open)
        found = {key_of(each.file): each.num_rows > 0 for each in touched}
        return [found.get(key_of(each), True) for each in files]

    def bytes_to_write(self, file: AddFile, found: bool) -> int | None:
        """See `Search`."""
        return file.size if found else None

    def rows(self, files: Sequence[AddFile], _found: Sequence[bool], /) -> Iterator[pa.RecordBatch]:
        """See `Search`."""
        batches = gather(encode_alike(self._cached.read(files)))
        return _changed_rows(batches, self._planned, self._num_updated)


def _update_by_copies(
    snapshot: Snapshot, planned: PlannedUpdate, changed: Changed
) -> dict[str, int]:
    concerned = plan_touched_files(snapshot, planned.condition.selection)
    files = [*concerned.matched, *concerned.to_open]
    updated = _UpdatedRows(snapshot, planned, concerned.matched)
    moves = _moves(snapshot, planned)
    adds, found = search_and_write(changed.target, files, updated, moves=moves)
    touched = [file for file, is_touched in zip(files, found, strict=True) if is_touched]
    changed.add(adds, planned.checks)
    changed.remove(touched)
    _record_changes(snapshot, planned, touched, changed)
    num_written = sum(num_live_rows(add) or 0 for add in adds)
    num_updated = updated.num_updated
    return update_metrics(changed, num_updated, num_written - num_updated, None)


def _update_by_vectors(
    snapshot: Snapshot, planned: PlannedUpdate, changed: Changed
) -> dict[str, int]:
    touched = find_rows(snapshot, planned.condition)
    adds = write_rows(changed.target, _new_rows(snapshot, planned, touched), "kept")
    changed.add(adds, planned.checks)
    changed.mark_deleted(touched.mixed)
    changed.remove(touched.matched)
    _record_changes(snapshot, planned, touched.files, changed)
    num_updated = sum(num_live_rows(add) or 0 for add in adds)
    return update_metrics(changed, num_updated, 0, touched.mixed)


def _moves(snapshot: Snapshot, planned: PlannedUpdate) -> bool:
    """Return whether rows may move to other partitions."""
    return not set(snapshot.definition.partition_columns).isdisjoint(planned.changed_columns)


def _record_changes(
    snapshot: Snapshot, planned: PlannedUpdate, files: Sequence[AddFile], changed: Changed
) -> None:
    """Record the matching rows before and after the change for the change data feed."""

    def images(some: Sequence[AddFile]) -> Iterator[pa.RecordBatch]:
        for batch in gather(read_files(snapshot, some, snapshot.arrow_schema.names)):
            before = batch.filter(planned.condition.mask(batch))
            if len(before):
                yield mark_rows(before, "update_preimage")
                after = _update_batch(planned, before, pa.repeat(TRUE_SCALAR, len(before)))
                yield mark_rows(after, "update_postimage")

    record_row_changes(changed, files, images, moves=_moves(snapshot, planned))


def _new_rows(
    snapshot: Snapshot, planned: PlannedUpdate, touched: Touched
) -> Iterator[pa.RecordBatch]:
    """Yield the matching rows with their new values."""
    whole = ((file, None) for file in touched.matched)
    # The reader skips rows that were deleted before.
    some = ((each.file, each.gone) for each in touched.mixed)
    for batch in gather(read_numbered(snapshot, chain(whole, some))):
        yield _update_batch(planned, batch, pa.repeat(TRUE_SCALAR, len(batch)))


def _changed_rows(
    batches: Iterable[pa.RecordBatch], planned: PlannedUpdate, updated: list[int]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        mask = planned.condition.mask(batch)
        if not pc.any(mask, min_count=0).as_py():
            yield batch
            continue
        updated.append(pc.sum(mask).as_py())
        yield _update_batch(planned, batch, mask)


def _update_batch(
    planned: PlannedUpdate, batch: pa.RecordBatch, mask: pa.BooleanArray
) -> pa.RecordBatch:
    """Return the rows, with new values where the mask is true."""
    rows = rows_of_batch(batch).narrow(mask)
    columns = {name: batch.column(name) for name in batch.schema.names}
    new = dict(zip(planned.assignments.names, planned.assignments.evaluate(rows), strict=True))
    for name, values in new.items():
        columns[name] = replace_values(columns[name], mask, values)
    version = planned.version_column
    if version in columns:  # rows of the change data feed lack this column
        columns[version] = pc.if_else(mask, scalar(None, pa.int64()), columns[version])
    assigned = pa.RecordBatch.from_arrays(list(columns.values()), schema=batch.schema)
    written = planned.generated.fill(assigned, planned.recomputed, mask)
    if planned.checks:
        changed = decode_columns(written.filter(mask))
        for validate in planned.checks.values():
            validate(changed)
    return written

"""Update rows from this process: files with the new values take the place of those before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arguments import validate_arguments
from delta_ops.arrow.assignments import Assignments, nodes_of, plan_assignments, replace_values
from delta_ops.arrow.coded_texts import decode_columns
from delta_ops.arrow.dml.changed_files import Rewriter, tell_rows, write_again
from delta_ops.arrow.dml.conditions import Condition, condition_of
from delta_ops.arrow.dml.matching import find_rows, find_touched
from delta_ops.arrow.expressions.evaluation import rows_of_batch
from delta_ops.arrow.generated_columns import GeneratedColumns
from delta_ops.arrow.memory_pools import sparing_memory
from delta_ops.arrow.read.reading import gather
from delta_ops.arrow.read.scan import plan_reading_kept, read_files, read_numbered
from delta_ops.arrow.row_checks import Checks, plan_checks
from delta_ops.arrow.write.change_files import mark_rows
from delta_ops.arrow.write.data_file import discard
from delta_ops.arrow.write.new_files import write_rows
from delta_ops.errors import naming_table
from delta_ops.events import OnEvent, ignore
from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.expression import Expression
from delta_ops.protocol.expression.resolution import finder_of
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.row_tracking import version_column
from delta_ops.transaction import DEFAULT_HOOKS, CommitResult, Hook, Txn
from delta_ops.transaction.changeable import validate_assigned
from delta_ops.transaction.merge import values_by_path
from delta_ops.transaction.row_changes import (
    Changed,
    RowChange,
    Touched,
    commit_change,
    num_live_rows,
    open_for_change,
    update_metrics,
)
from delta_ops.transaction.write import Target


class _Update(NamedTuple):
    condition: Condition
    assignments: Assignments
    generated: GeneratedColumns
    recomputed: Sequence[str]
    """Generated columns that are given no value: they follow from the new ones."""
    checks: Checks
    version_column: str | None
    """Holds the version that changed a row last, where the table keeps it; null: this one."""

    @property
    def changed_columns(self) -> Sequence[str]:
        """The columns that may have other values."""
        return (*self.assignments.names, *self.recomputed)


def update(
    target: Target,
    assignments: Mapping[str, Any],
    predicate: Predicate | Expression | str | None = None,
    *,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    hooks: Sequence[Hook] = DEFAULT_HOOKS,
    on_event: OnEvent = ignore,
) -> CommitResult:
    """Give columns new values in the rows for which the predicate is true, and commit.

    Where no row matches, nothing is committed, and the result's version is None.

    Args:
        target: Where the table is, or a transaction to add to and commit.
        assignments: By column an expression of SQL over the row's old values, such as
            `"price * 2"`, or a Python value of another kind, taken as it is; `lit("text")` is a
            text, None is null.
        predicate: As `col` or `parse_predicate` make it, an expression, or a text of SQL, which is
            taken as `parse_expression` takes it; None: all rows.
        txn: Application id and version: an update that the table holds already is not done again.
        user_metadata: Any text, kept in the commit.
        hooks: What to do after the commit; by default a checksum, and a checkpoint when one is due.

    Raises:
        InvalidRequestError: An argument does not fit the table, a value overflows, a row would
            break a rule of the table, or the table is append-only.
        CommitConflictError: A concurrent commit invalidates this one; the files are deleted again.
        CommitStateUnknownError: The store did not tell; the files are kept.
        StorageError: The store failed; what was written is deleted again.
        TableNotFoundError: There is no table.
        UnsupportedFeatureError: The table uses what this engine cannot write.
    """
    validate_arguments(update, locals())
    transaction, snapshot = open_for_change(target, storage_options, on_event, "updated", "arrow")
    schema, table = snapshot.schema, snapshot.uri
    now_ms = transaction.clock()
    with naming_table(table):
        condition = condition_of(predicate, schema, now_ms)
        nodes = nodes_of(values_by_path(assignments, None, schema), schema, table, now_ms)
        validate_assigned(nodes, schema, table)
        generated = GeneratedColumns(snapshot.definition, table)
        planned = _Update(
            condition,
            plan_assignments(
                nodes, finder_of(schema), schema, table, snapshot.partition_columns, is_update=True
            ),
            generated,
            generated.left_out(nodes),
            plan_checks(snapshot.definition, table),
            version_column(snapshot.definition, table),
        )
    change = RowChange(
        operation="UPDATE",
        parameters={"predicate": [] if predicate is None else [condition.text]},
        txn=txn,
        user_metadata=user_metadata,
        hooks=hooks,
    )
    return commit_change(transaction, change, partial(_update, planned), discard)


@sparing_memory()
def _update(planned: _Update, changed: Changed) -> dict[str, int]:
    transaction, snapshot = changed.transaction, changed.snapshot
    transaction.read_to_change(planned.condition.implied)
    if transaction.properties.deletion_vectors:
        return _update_by_vectors(snapshot, planned, changed)
    files = find_touched(snapshot, planned.condition).files
    moves = _moves(snapshot, planned)
    updated: list[int] = []  # by batch; threads append to it
    changed_or_asked = {*planned.changed_columns, *planned.condition.columns}
    others = set(snapshot.arrow_schema.names) - changed_or_asked
    read = plan_reading_kept(snapshot, coded=others)

    def write(file: AddFile, rewriter: Rewriter) -> None:
        rewriter.write(file, _changed_rows(read([file]), planned, updated), moves=moves)

    adds, _ = write_again(transaction, [(each, partial(write, each)) for each in files])
    changed.add(adds, planned.checks)
    changed.remove(files)
    images = ((each, _images(snapshot, planned, each)) for each in files)
    tell_rows(changed, images, moves=moves)
    num_written = sum(num_live_rows(add) or 0 for add in adds)
    return update_metrics(changed, sum(updated), num_written - sum(updated), None)


def _update_by_vectors(snapshot: Snapshot, planned: _Update, changed: Changed) -> dict[str, int]:
    transaction = changed.transaction
    touched = find_rows(snapshot, planned.condition)
    files = touched.files
    adds = write_rows(transaction, _new_rows(snapshot, planned, touched), "kept")
    changed.add(adds, planned.checks)
    changed.mark_deleted(touched.mixed)
    changed.remove(touched.matched)
    images = ((each, _images(snapshot, planned, each)) for each in files)
    tell_rows(changed, images, moves=_moves(snapshot, planned))
    num_updated = sum(num_live_rows(add) or 0 for add in adds)
    return update_metrics(changed, num_updated, 0, touched.mixed)


def _moves(snapshot: Snapshot, planned: _Update) -> bool:
    """Whether rows may come to other partitions."""
    return not set(snapshot.definition.partition_columns).isdisjoint(planned.changed_columns)


def _images(snapshot: Snapshot, planned: _Update, file: AddFile) -> Iterator[pa.RecordBatch]:
    """The rows that match, as they were and as they are, for the change data feed."""
    for batch in read_files(snapshot, [file], snapshot.arrow_schema.names):
        before = batch.filter(planned.condition.mask(batch))
        if len(before):
            yield mark_rows(before, "update_preimage")
            after = _update_batch(planned, before, pa.repeat(True, len(before)))
            yield mark_rows(after, "update_postimage")


def _new_rows(snapshot: Snapshot, planned: _Update, touched: Touched) -> Iterator[pa.RecordBatch]:
    """The rows that match, with their new values."""
    whole = ((file, None) for file in touched.matched)
    # Deleted rows among those that are gone are left out by who reads.
    some = ((each.file, each.gone) for each in touched.mixed)
    for batch in gather(read_numbered(snapshot, chain(whole, some))):
        yield _update_batch(planned, batch, pa.repeat(True, len(batch)))


def _changed_rows(
    batches: Iterable[pa.RecordBatch], planned: _Update, updated: list[int]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        mask = planned.condition.mask(batch)
        if not pc.any(mask, min_count=0).as_py():
            yield batch
            continue
        updated.append(pc.sum(mask).as_py())
        yield _update_batch(planned, batch, mask)


def _update_batch(planned: _Update, batch: pa.RecordBatch, mask: pa.BooleanArray) -> pa.RecordBatch:
    """The rows, with new values where the mask is true."""
    rows = rows_of_batch(batch).narrow(mask)
    columns = {name: batch.column(name) for name in batch.schema.names}
    new = dict(zip(planned.assignments.names, planned.assignments.evaluate(rows), strict=True))
    for name, values in new.items():
        columns[name] = replace_values(columns[name], mask, values)
    version = planned.version_column
    if version in columns:  # which those of the change data feed are not
        columns[version] = pc.if_else(mask, pa.scalar(None, pa.int64()), columns[version])
    assigned = pa.RecordBatch.from_arrays(list(columns.values()), schema=batch.schema)
    written = planned.generated.fill(assigned, planned.recomputed, mask)
    if planned.checks:
        changed = decode_columns(written.filter(mask))
        for validate in planned.checks.values():
            validate(changed)
    return written

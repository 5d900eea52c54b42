"""Delete rows from this process: files without them take the place of those that had them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arguments import validate_arguments
from delta_ops.arrow.dml.changed_files import Rewriter, tell_rows, write_again
from delta_ops.arrow.dml.conditions import Condition, condition_of
from delta_ops.arrow.dml.matching import find_rows, find_touched
from delta_ops.arrow.memory_pools import sparing_memory
from delta_ops.arrow.read.scan import plan_reading_kept, read_files
from delta_ops.arrow.write.change_files import mark_rows
from delta_ops.arrow.write.data_file import discard
from delta_ops.errors import naming_table
from delta_ops.events import OnEvent, ignore
from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.expression import Expression
from delta_ops.protocol.predicate import Predicate
from delta_ops.transaction import DEFAULT_HOOKS, CommitResult, Hook, Txn
from delta_ops.transaction.row_changes import (
    Changed,
    RowChange,
    Touched,
    commit_change,
    delete_metrics,
    num_live_rows,
    open_for_change,
)
from delta_ops.transaction.write import Target


def delete(
    target: Target,
    predicate: Predicate | Expression | str | None = None,
    *,
    txn: Txn | tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    hooks: Sequence[Hook] = DEFAULT_HOOKS,
    on_event: OnEvent = ignore,
) -> CommitResult:
    """Delete the rows for which the predicate is true, and commit.

    Files of which every row matches a predicate by partition values or statistics are not opened;
    by an expression or a text they are. Where no row matches, nothing is committed, and the
    result's version is None.

    Args:
        target: Where the table is, or a transaction to add to and commit.
        predicate: As `col` or `parse_predicate` make it, an expression, or a text of SQL, which is
            taken as `parse_expression` takes it; None: all rows.
        txn: Application id and version: a delete that the table holds already is not done again.
        user_metadata: Any text, kept in the commit.
        hooks: What to do after the commit; by default a checksum, and a checkpoint when one is due.

    Raises:
        InvalidRequestError: The predicate does not fit the table, or the table is append-only.
        CommitConflictError: A concurrent commit invalidates this one; the files are deleted again.
        CommitStateUnknownError: The store did not tell; the files are kept.
        StorageError: The store failed; what was written is deleted again.
        TableNotFoundError: There is no table.
        UnsupportedFeatureError: The table uses what this engine cannot write.
    """
    validate_arguments(delete, locals())
    transaction, snapshot = open_for_change(target, storage_options, on_event, "deleted", "arrow")
    with naming_table(snapshot.uri):
        condition = condition_of(predicate, snapshot.schema, transaction.clock())
    change = RowChange(
        operation="DELETE",
        parameters={"predicate": [] if predicate is None else [condition.text]},
        txn=txn,
        user_metadata=user_metadata,
        hooks=hooks,
    )
    return commit_change(transaction, change, partial(_delete, condition), discard)


@sparing_memory()
def _delete(condition: Condition, changed: Changed) -> dict[str, int]:
    transaction, snapshot = changed.transaction, changed.snapshot
    transaction.read_to_change(condition.implied)
    if transaction.properties.deletion_vectors:
        return _delete_by_vectors(snapshot, condition, changed)
    touched = find_touched(snapshot, condition)
    mixed = [each.file for each in touched.mixed]
    others = set(snapshot.arrow_schema.names) - set(condition.columns)
    read = plan_reading_kept(snapshot, coded=others)

    def write(file: AddFile, rewriter: Rewriter) -> None:
        survivors = (batch.filter(pc.invert(condition.mask(batch))) for batch in read([file]))
        rewriter.write(file, survivors, moves=False)

    adds, _ = write_again(transaction, [(each, partial(write, each)) for each in mixed])
    changed.add(adds, transaction.definition.row_rules)
    changed.remove([*touched.matched, *mixed])
    _tell(snapshot, condition, touched, changed)
    num_copied = sum(num_live_rows(add) or 0 for add in adds)
    return delete_metrics(changed, touched.num_rows, num_copied, ())


def _delete_by_vectors(
    snapshot: Snapshot, condition: Condition, changed: Changed
) -> dict[str, int]:
    touched = find_rows(snapshot, condition)
    changed.mark_deleted(touched.mixed)
    changed.remove(touched.matched)
    _tell(snapshot, condition, touched, changed)
    return delete_metrics(changed, touched.num_rows, 0, touched.mixed)


def _tell(snapshot: Snapshot, condition: Condition, touched: Touched, changed: Changed) -> None:
    """Tell of the deleted rows; where only whole files go, their actions tell it."""
    if touched.mixed:
        rows = ((each, _deleted_rows(snapshot, condition, each)) for each in touched.files)
        tell_rows(changed, rows)


def _deleted_rows(
    snapshot: Snapshot, condition: Condition, file: AddFile
) -> Iterator[pa.RecordBatch]:
    for batch in read_files(snapshot, [file], snapshot.arrow_schema.names):
        yield mark_rows(batch.filter(condition.mask(batch)), "delete")

"""Existing rows: validate a table's rows against new rules before the rules take effect.

Source: PROTOCOL.md, "CHECK Constraints" and "Column Invariants" (every row satisfies them).

A file is opened only if its statistics do not prove that all its rows keep the rule. Only the
columns of the rule are read. A few batches are in memory at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from delta_ops.arguments import validate_arguments
from delta_ops.arrow.read.scan import read_files
from delta_ops.arrow.row_checks import describe_row, plan_check, validate_rows
from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot, plan_scan
from delta_ops.protocol.predicate import Column, Predicate, parse_predicate, resolve
from delta_ops.protocol.predicate.nodes import In, IsNull, Not, Or, leaves_of
from delta_ops.protocol.row_rules import Check, NotNull, not_null_rules
from delta_ops.protocol.schema import StructField, StructType
from delta_ops.protocol.table_definition import TableDefinition

_Validate = Callable[[pa.RecordBatch], None]


def check_rows(
    snapshot: Snapshot, definition: TableDefinition, rules: Sequence[Check | NotNull]
) -> None:
    """Reject rules that a row of a snapshot breaks; used by `add_constraint` in the Arrow engine.

    Args:
        snapshot: The rows.
        definition: The table's definition including the new rules.
        rules: The new rules.

    Raises:
        InvalidRequestError: A row breaks a rule (the message shows both), or this engine cannot
            evaluate a condition.
        DataFileError: A data file or a deletion vector is missing or unreadable.

    Examples:
        >>> from delta_ops import ddl
        >>> ddl.add_constraint("lake/orders", "cheap", "price < 15", engine=da.check_rows)
        Traceback (most recent call last):
        ...
        delta_ops.errors.InvalidRequestError: ...
    """
    validate_arguments(check_rows, locals())
    for rule in rules:
        if isinstance(rule, Check):
            _hold_check(rule, snapshot, definition)
        else:
            _hold_not_null(rule, snapshot, definition)


def _hold_check(rule: Check, snapshot: Snapshot, definition: TableDefinition) -> None:
    validate = plan_check(rule, definition, snapshot.uri)
    broken = _rows_that_may_break(rule.expression, snapshot.schema)
    columns = None if broken is None else _columns_of(broken, snapshot.schema)
    row = _find_broken_row(snapshot, columns, broken, validate)
    if row is not None:
        raise InvalidRequestError(
            f"{snapshot.uri}: {rule} ({rule.expression}) is not true for all existing rows, such "
            f"as {row}; correct or delete these rows first. Nothing was changed"
        )


def _hold_not_null(rule: NotNull, snapshot: Snapshot, definition: TableDefinition) -> None:
    field = next(f for f in definition.schema.fields if rule in not_null_rules(StructType((f,))))

    def validate(batch: pa.RecordBatch) -> None:
        validate_rows(pa.Table.from_batches([batch]), StructType((field,)), snapshot.uri)

    broken = None if _is_nested(field) else Column((field.name,)).is_null()
    row = _find_broken_row(snapshot, [field.name], broken, validate)
    if row is not None:
        raise InvalidRequestError(
            f"{snapshot.uri}: column {rule.column} is null in existing rows, such as {row}; fill "
            "in a value or delete these rows first. Nothing was changed"
        )


def _rows_that_may_break(expression: str, schema: StructType) -> Predicate | None:
    """Return a predicate for all rows where a condition may be false or null; None if unknown.

    A condition is null only if one of its columns is null, or if it lists a null.
    """
    try:
        predicate = resolve(parse_predicate(expression), schema)
    except InvalidRequestError:
        return None
    leaves = list(leaves_of(predicate))
    if any(isinstance(leaf, In) and None in leaf.values for leaf in leaves):
        return None
    return Or((Not(predicate), *(IsNull(leaf.column) for leaf in leaves)))


def _columns_of(predicate: Predicate, schema: StructType) -> list[str]:
    names = sorted({leaf.column[0] for leaf in leaves_of(predicate)})
    return names or [each.name for each in schema.fields[:1]]


def _find_broken_row(
    snapshot: Snapshot,
    columns: Sequence[str] | None,
    broken: Predicate | None,
    validate: _Validate,
) -> str | None:
    """Return the first row that breaks a rule as text, with all its columns."""
    everything = [field.name for field in snapshot.schema.fields]
    if next(_find_broken(snapshot, columns or everything, broken, validate), None) is None:
        return None
    return describe_row(next(_find_broken(snapshot, everything, broken, validate)))


def _find_broken(
    snapshot: Snapshot, columns: Sequence[str], broken: Predicate | None, validate: _Validate
) -> Iterator[pa.RecordBatch]:
    """Yield a row that breaks the rule from each batch that has such a row."""
    files = plan_scan(snapshot, broken)
    for batch in read_files(snapshot, files, columns, broken):
        if len(batch) and _is_broken(batch, validate):
            yield _first_broken(batch, validate)


def _first_broken(batch: pa.RecordBatch, validate: _Validate) -> pa.RecordBatch:
    while len(batch) > 1:
        half = batch.slice(0, len(batch) // 2)
        batch = half if _is_broken(half, validate) else batch.slice(len(half))
    return batch


def _is_broken(batch: pa.RecordBatch, validate: _Validate) -> bool:
    try:
        validate(batch)
    except InvalidRequestError:
        return True
    return False


def _is_nested(field: StructField) -> bool:
    return hasattr(field.data_type, "fields") or field.data_type.name.startswith(("array", "map"))

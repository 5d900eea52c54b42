"""Staging: write rows to data files that no version names yet.

`data_files` writes the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delta_ops.arrow.acero import evaluate
from delta_ops.arrow.arrow_data import ArrowData
from delta_ops.arrow.casting import plan_fit
from delta_ops.arrow.generated_columns import GeneratedColumns
from delta_ops.arrow.nesting import fill_types
from delta_ops.arrow.partitioning import fill_empty
from delta_ops.arrow.read.reading import CountedRows
from delta_ops.arrow.read.scan import read_files, read_kept
from delta_ops.arrow.row_checks import Checks, plan_checks, validate_values
from delta_ops.arrow.unsigned import signed_fields
from delta_ops.arrow.write.change_files import mark_files, mark_rows
from delta_ops.arrow.write.data_files import Rows, definition_of_rows, write_rows
from delta_ops.arrow.write.missing_columns import MissingColumns
from delta_ops.errors import InvalidRequestError
from delta_ops.protocol.actions import AddCdcFile, AddFile
from delta_ops.protocol.arrow_values import FALSE_SCALAR
from delta_ops.protocol.change_data import change_files
from delta_ops.protocol.predicate import resolve, to_arrow
from delta_ops.protocol.row_rules import counted_rules, not_null_rules
from delta_ops.protocol.row_tracking import tracked_definition
from delta_ops.protocol.schema import VOID, StructType
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema, columns_from_arrow
from delta_ops.protocol.table_definition import TableDefinition
from delta_ops.transaction import Staged
from delta_ops.transaction.replacement import ReplacedRows
from delta_ops.transaction.source_rules import SourceRule
from delta_ops.transaction.staging import WriteTarget


def schema_of(data: ArrowData, known: StructType) -> StructType:
    """See `Engine.schema_of`."""
    kept = {each.name.lower() for each in known.fields if each.data_type != VOID}
    fields = (f for f in data.reader.schema if f.name.lower() not in kept or _may_change(f))
    signed = pa.schema(signed_fields(fields, data.data))
    return columns_from_arrow(fill_types(signed, arrow_schema_from_schema(known)))


def stage_rows(data: ArrowData, target: WriteTarget, rules: Sequence[SourceRule]) -> Staged:
    """See `Engine.write_rows`."""
    missing = MissingColumns(target.definition, target.now_ms, target.table)
    rows = _fit_batches(data, missing, target.definition, target.table, rules)
    return replace(_stage_batches(target, rows), counted=missing.counted_values())


def stage_survivors(replaced: ReplacedRows, target: WriteTarget) -> Staged:
    """See `Engine.write_survivors`."""
    rows = _surviving_rows(replaced, definition_of_rows(target, "kept"))
    return _stage_batches(target, rows, "kept")


def write_replacement(
    replaced: ReplacedRows, added: Sequence[AddFile], target: WriteTarget
) -> tuple[AddCdcFile, ...]:
    """See `Engine.write_replacement`."""
    definition, snapshot = target.definition, replaced.snapshot
    names = snapshot.arrow_schema.names
    # As in `_surviving_rows`, the commit may add columns.
    fit = plan_fit(snapshot.arrow_schema, definition.arrow_schema, snapshot.uri)
    gone = read_files(snapshot, replaced.files, names, replaced.predicate)
    rows = chain(
        (mark_rows(batch, "delete") for batch in chain.from_iterable(map(fit, gone))),
        mark_files(snapshot, added, "insert", definition),
    )
    return change_files(write_rows(target, rows, "changes"))


def _stage_batches(
    target: WriteTarget, batches: Iterable[pa.RecordBatch], rows: Rows = "new"
) -> Staged:
    definition = target.definition
    checks = plan_checks(definition, target.table)
    counted = CountedRows(_checked_rows(batches, checks))
    adds = write_rows(target, counted, rows)
    return Staged(
        adds=adds,
        schema=definition.schema,
        partition_columns=definition.partition_columns,
        num_rows=counted.num_rows,
        row_rules=frozenset(
            (*not_null_rules(definition.schema), *checks, *counted_rules(definition.row_rules))
        ),
    )


def _checked_rows(batches: Iterable[pa.RecordBatch], checks: Checks) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for check in checks.values():
            check(batch)
        yield batch


def _surviving_rows(replaced: ReplacedRows, wanted: TableDefinition) -> Iterator[pa.RecordBatch]:
    snapshot = replaced.snapshot
    matches = to_arrow(resolve(replaced.predicate, snapshot.schema), snapshot.schema)
    # A row where the predicate is null does not match, and survives; a filter would drop a null.
    survives = ~pc.if_else(pc.is_null(matches), FALSE_SCALAR, matches)
    # The table may have gained columns, which are null in existing rows.
    stored = tracked_definition(snapshot.definition, snapshot.uri)
    fit = plan_fit(stored.arrow_schema, wanted.arrow_schema, snapshot.uri)
    for batch in read_kept(snapshot, replaced.files):
        survivors = batch.filter(evaluate(survives, batch))
        if len(survivors):
            yield from fit(survivors)


def _may_change(field: pa.Field) -> bool:
    """Return whether the data may add fields to an existing column, or widen its type."""
    is_wide = pt.is_signed_integer(field.type) or field.type in (pa.float32(), pa.float64())
    return bool(is_wide or pt.is_decimal128(field.type) or pt.is_nested(field.type))


def _fit_batches(
    data: ArrowData,
    missing: MissingColumns,
    definition: TableDefinition,
    table: str,
    rules: Sequence[SourceRule],
) -> Iterator[pa.RecordBatch]:
    """Yield batches with the table's columns and types, in its order."""
    given = data.reader.schema
    if not given.names:  # such as an empty frame, which is likely a mistake
        raise InvalidRequestError(
            f"{table}: the data have no columns; to write no rows, give data with the table's "
            "columns"
        )
    schema = definition.schema
    completion = missing.plan(given.names)
    generated = GeneratedColumns(definition, table)
    left_out = generated.left_out(given.names)
    completed = completion.complete_schema(given)
    fit = plan_fit(completed, definition.arrow_schema, table)
    conditions = [(to_arrow(resolve(each.predicate, schema), schema), each) for each in rules]
    for batch in data.batches():
        for rows in fit(completion.complete(batch)):
            fitted = generated.fill(_stored_rows(rows, definition), left_out)
            validate_values(fitted, table)
            for condition, rule in conditions:
                if evaluate(condition, fitted).true_count < len(fitted):
                    raise InvalidRequestError(f"{table}: {rule.message}")
            yield fitted


def _stored_rows(rows: pa.RecordBatch, definition: TableDefinition) -> pa.RecordBatch:
    """Return the rows as readers see them: an empty partition value is null."""
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    for each in definition.partition_fields:
        columns[each.name] = fill_empty(columns[each.name], each)
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=rows.schema)

"""Merge rows: the rows of a file as a merge leaves them, and those that it inserts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arrow.assignments import Assignments, replace_values
from delta_ops.arrow.casting import plan_fit
from delta_ops.arrow.expressions import Rows, field_of
from delta_ops.arrow.merge_clauses import PlannedClause, choose_clauses
from delta_ops.arrow.merge_columns import SOURCE
from delta_ops.arrow.merge_matching import FileMatches
from delta_ops.arrow.merge_source import Source, join_chunks, rows_of_source
from delta_ops.arrow.row_checks import Checks
from delta_ops.arrow.scan import read_files
from delta_ops.log import Snapshot
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.stats import ColumnPath
from delta_ops.protocol.table_definition import TableDefinition

_INSERTED_ROWS = 1 << 17


class MergedRows:
    """Makes the rows of a table as a merge leaves them.

    Args:
        definition: The table as the commit will leave it, which may have more columns.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        definition: TableDefinition,
        source: Source,
        clauses: Sequence[PlannedClause],
        checks: Checks,
    ) -> None:
        self._snapshot, self._schema = snapshot, definition.arrow_schema
        self._source, self._clauses, self._checks = source, clauses, checks
        self._fit = plan_fit(snapshot.arrow_schema, self._schema, snapshot.uri)

    def changed_rows(self, file: AddFile, matches: FileMatches) -> Iterator[pa.RecordBatch]:
        """The rows of a file, those that stay as they are among them."""
        first = done = 0
        for batch in read_files(self._snapshot, [file], self._snapshot.arrow_schema.names):
            end = bisect_left(matches.rows, first + len(batch), done, key=_number)
            if end == done:
                yield from self._fit(batch)
            else:
                count = end - done
                rows = pc.subtract(matches.rows.slice(done, count), first)
                source_rows = matches.source_rows.slice(done, count)
                clauses = matches.clauses.slice(done, count)
                yield self._change(batch, rows, source_rows, clauses)
            first, done = first + len(batch), end

    def inserted_rows(
        self, clauses: Sequence[PlannedClause], numbers: pa.Int64Array
    ) -> Iterator[pa.RecordBatch]:
        """The rows that clauses make of rows of the source, by the numbers of these."""
        for start in range(0, len(numbers), _INSERTED_ROWS):
            part = numbers.slice(start, _INSERTED_ROWS)
            chosen = choose_clauses(clauses, rows_of_source(self._source, part, SOURCE))
            for number, clause in enumerate(clauses):
                taken = part.filter(pc.fill_null(pc.equal(chosen, number), False))
                if len(taken):
                    assert clause.assignments
                    yield self._insert(clause.assignments, taken)

    def _insert(self, assignments: Assignments, numbers: pa.Int64Array) -> pa.RecordBatch:
        values = assignments.evaluate(rows_of_source(self._source, numbers, SOURCE))
        columns = dict(zip(assignments.names, values, strict=True))
        arrays = [
            columns[f.name] if f.name in columns else pa.nulls(len(numbers), f.type)
            for f in self._schema
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self._validate(batch)
        return batch

    def _change(
        self,
        batch: pa.RecordBatch,
        rows: pa.Int64Array,
        source_rows: pa.Int64Array,
        clauses: pa.Int8Array,
    ) -> pa.RecordBatch:
        numbers = pa.arange(0, len(batch))
        fitted = pa.Table.from_batches(self._fit(batch), self._schema)
        columns = {name: join_chunks(fitted[name]) for name in self._schema.names}
        stays = None
        for number in pc.unique(clauses).to_pylist():
            clause, is_chosen = self._clauses[number], pc.equal(clauses, number)
            chosen = rows.filter(is_chosen)
            mask = pc.is_in(numbers, value_set=chosen)
            if clause.assignments is None:
                kept = pc.invert(mask)
                stays = kept if stays is None else pc.and_(stays, kept)
                continue
            column = partial(self._column, batch, chosen, source_rows.filter(is_chosen))
            values = clause.assignments.evaluate(Rows(column, len(chosen)))
            for name, new in zip(clause.assignments.names, values, strict=True):
                columns[name] = replace_values(columns[name], mask, new)
            if self._checks:
                changed = pa.RecordBatch.from_arrays(list(columns.values()), schema=self._schema)
                self._validate(changed.filter(mask))
        merged = pa.RecordBatch.from_arrays(list(columns.values()), schema=self._schema)
        return merged if stays is None else merged.filter(stays)

    def _column(
        self,
        batch: pa.RecordBatch,
        rows: pa.Int64Array,
        source_rows: pa.Int64Array,
        path: ColumnPath,
    ) -> pa.Array:
        if path[0] == SOURCE:
            return self._source.take(path[1:], source_rows)
        return field_of(batch.column(path[1]).take(rows), path[2:])

    def _validate(self, rows: pa.RecordBatch) -> None:
        for validate in self._checks.values():
            validate(rows)


def _number(scalar: Any) -> int:
    number: int = scalar.as_py()
    return number

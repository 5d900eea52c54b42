"""Merge rows: compute a file's rows after a merge, and the rows that the merge inserts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arrow.assignments import Assignments, replace_values
from delta_ops.arrow.casting import Fit, plan_fit
from delta_ops.arrow.dictionary_columns import batch_of, decode, decode_columns
from delta_ops.arrow.dml.merge_clauses import PlannedClause, choose_clauses
from delta_ops.arrow.dml.merge_matching import FileMatches
from delta_ops.arrow.dml.merge_planning import MergePlan
from delta_ops.arrow.dml.merge_source import Source, join_chunks, rows_at_once, rows_of_source
from delta_ops.arrow.expressions.evaluation import Rows, field_of
from delta_ops.arrow.generated_columns import GeneratedColumns
from delta_ops.arrow.read.reading import ReadFiles, gather
from delta_ops.arrow.read.scan import plan_reading_kept
from delta_ops.arrow.write.change_files import mark_rows
from delta_ops.arrow.write.missing_columns import Completion, MissingColumns
from delta_ops.lazy import lazy
from delta_ops.log import Snapshot
from delta_ops.planning.merge_columns import SOURCE, TARGET, names_of
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_values import FALSE_SCALAR, array_of, numpy_of, scalar
from delta_ops.protocol.columns.identity import Counted
from delta_ops.protocol.row_tracking import tracked_definition, version_column
from delta_ops.protocol.schema import ColumnPath


class MergedRows:
    """Computes the rows of a table after a merge.

    Args:
        plan: The merge; it may add columns to the table.
        snapshot: The table before the merge.
        source: The rows of the source.
        deciding: Columns of the table that are read to find the rows that change.
    """

    def __init__(
        self,
        plan: MergePlan,
        snapshot: Snapshot,
        source: Source,
        deciding: Sequence[str],
    ) -> None:
        self._snapshot, table, definition = snapshot, snapshot.uri, plan.definition
        self._schema = tracked_definition(definition, table).arrow_schema
        self._version_column = version_column(definition, table)
        self._stored = tracked_definition(snapshot.definition, table).arrow_schema
        self._source, self._checks = source, plan.checks
        self._most_rows = rows_at_once(len(source), source.rows.nbytes)
        self._clauses: Sequence[PlannedClause] = (*plan.matched, *plan.others)
        self._has_same_columns = self._stored == self._schema
        self._fit = plan_fit(self._stored, self._schema, table)
        self._generated = GeneratedColumns(definition, table)
        self._missing = MissingColumns(definition, plan.now_ms, table)
        self._inserts, self._deciding = plan.inserts, deciding
        self._completions = [
            self._missing.plan(each.assignments.names) for each in plan.inserts if each.assignments
        ]

    @property
    def counted_values(self) -> tuple[Counted, ...]:
        """The identity column values that inserted rows use."""
        return self._missing.counted_values()

    def changed_rows(
        self, rows: Iterable[pa.RecordBatch], matches: FileMatches
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows of some files after the merge, including unchanged rows.

        Args:
            rows: All rows of the files before the merge.
            matches: The changes to these rows.
        """
        for batch, part in self._split_matches(rows, matches):
            yield from self._fit_kept_rows(batch) if part is None else [self._change(batch, part)]

    def images(self, files: Sequence[AddFile], matches: FileMatches) -> Iterator[pa.RecordBatch]:
        """Yield changed rows before and after the change, for the change data feed."""
        for batch, part in self._split_matches(gather(self._read_all(files)), matches):
            if part is not None:
                yield from self._images(batch, part)

    def select_deciding(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns that decide, decoded."""
        return decode_columns(rows.select(list(self._deciding)))

    def read_rows(self, file: AddFile, known: pa.Table | None) -> Iterator[pa.RecordBatch]:
        """Yield all rows of a file before the merge, with all columns.

        Args:
            known: The deciding columns, which are then not read again; None if unknown.
        """
        has_more = len(self._deciding) < len(self._stored)
        if known is None or not has_more:
            return self.read_whole([file])
        return _add_columns(self._read_others([file]), known, self._stored)

    def updated_rows(self, file: AddFile, matches: FileMatches) -> Iterator[pa.RecordBatch]:
        """Yield a file's updated rows with their new values, without deleted rows.

        Only columns that keep a value, or that a new value depends on, are read.
        """
        if not self._kept_columns:
            for start in range(0, len(matches.rows), self._most_rows):
                end = min(start + self._most_rows, len(matches.rows))
                yield from self._update_rows(None, matches.part(0, start, end))
            return
        for batch, part in self._split_matches(self._read_kept([file]), matches):
            if part is not None:
                yield from self._update_rows(batch, part)

    def _update_rows(
        self, batch: pa.RecordBatch | None, matches: FileMatches
    ) -> Iterator[pa.RecordBatch]:
        """Yield the updated rows of a batch; None means that rows keep no old values."""
        for clause, chosen, source_rows in self._split_by_clause(matches):
            if clause.assignments is None:
                continue
            if batch is None:
                before = {each.name: pa.nulls(len(chosen), each.type) for each in self._schema}
            else:
                before = self._columns_of(self._fit_kept(batch.take(chosen)))
            values = self._values(clause.assignments, batch, chosen, source_rows)
            after = self._recompute({**before, **values}, clause.assignments)
            self._validate(after)
            yield after

    @lazy
    def _kept_columns(self) -> list[str]:
        """Table columns that updated rows keep, or that new values depend on."""
        updates = [each.assignments for each in self._clauses if each.assignments]
        names = self._stored.names
        # An updated row gets the version of this commit.
        made = {*self._generated.names, self._version_column}
        kept = {name for each in updates for name in set(names) - {*each.names} - made}
        used = {name for each in updates for name in names_of(each.columns, TARGET)}
        return [name for name in names if name in kept | used]

    @lazy
    def _fit_kept(self) -> Fit:
        kept = pa.schema([self._stored.field(name) for name in self._kept_columns])
        return plan_fit(kept, self._schema, self._snapshot.uri)

    @lazy
    def _read_all(self) -> ReadFiles:
        return plan_reading_kept(self._snapshot)

    @lazy
    def read_whole(self) -> ReadFiles:
        """Reads all columns of files."""
        return plan_reading_kept(self._snapshot, encoded=self._encoded_names)

    @lazy
    def _read_others(self) -> ReadFiles:
        names = [name for name in self._stored.names if name not in self._deciding]
        return plan_reading_kept(self._snapshot, names, encoded=self._encoded_names)

    @lazy
    def _encoded_names(self) -> list[str]:
        """Columns that stay dictionary-encoded, as in their files."""
        names = self._stored.names if self._has_same_columns else []
        return list(filter(self._can_stay_encoded, names))

    def _can_stay_encoded(self, name: str) -> bool:
        """Return whether a string column can stay encoded: it gets few distinct new strings."""
        if self._stored.field(name).type not in (pa.string(), pa.binary()):
            return False
        updates = [each.assignments.nodes for each in self._clauses if each.assignments]
        nodes = [each[name] for each in updates if name in each]
        return name not in self._generated.names and all(map(self._source.has_few_texts, nodes))

    @lazy
    def _read_kept(self) -> ReadFiles:
        return plan_reading_kept(self._snapshot, self._kept_columns)

    def inserted_rows(self, numbers: pa.Int64Array) -> Iterator[pa.RecordBatch]:
        """Yield the rows that insert clauses build from the source rows with these numbers."""
        for start in range(0, len(numbers), self._most_rows):
            part = numbers.slice(start, self._most_rows)
            chosen = choose_clauses(self._inserts, rows_of_source(self._source, part, SOURCE))
            for number, clause in enumerate(self._inserts):
                taken = part.filter(pc.fill_null(pc.equal(chosen, scalar(number)), FALSE_SCALAR))
                if len(taken):
                    assert clause.assignments
                    yield self._insert(clause.assignments, self._completions[number], taken)

    def _insert(
        self, assignments: Assignments, completion: Completion, numbers: pa.Int64Array
    ) -> pa.RecordBatch:
        values = assignments.evaluate(rows_of_source(self._source, numbers, SOURCE))
        completed = completion.complete(
            pa.RecordBatch.from_arrays(values, names=list(assignments.names))
        )
        names = completed.schema.names
        columns = {
            f.name: completed[f.name] if f.name in names else pa.nulls(len(numbers), f.type)
            for f in self._schema
        }
        batch = self._recompute(columns, assignments)
        self._validate(batch)
        return batch

    def _change(self, batch: pa.RecordBatch, matches: FileMatches) -> pa.RecordBatch:
        columns = self._fit_columns(batch)
        stays = None
        for clause, chosen, source_rows in self._split_by_clause(matches):
            mask = _mask_of(chosen, len(batch))
            if clause.assignments is None:
                kept = pc.invert(mask)
                stays = kept if stays is None else pc.and_(stays, kept)
                continue
            values = self._values(clause.assignments, batch, chosen, source_rows)
            for name, new in values.items():
                columns[name] = replace_values(columns[name], mask, new)
            if version := self._version_column:
                columns[version] = pc.if_else(mask, scalar(None, pa.int64()), columns[version])
            if self._generated.names:
                changed = self._recompute(columns, clause.assignments, mask)
                columns = dict(zip(self._schema.names, changed.columns, strict=True))
            if self._checks:
                self._validate(decode_columns(self._batch(columns).filter(mask)))
        merged = self._batch(columns)
        return merged if stays is None else merged.filter(stays)

    def _images(self, batch: pa.RecordBatch, matches: FileMatches) -> Iterator[pa.RecordBatch]:
        whole = self._batch(self._fit_columns(batch))
        for clause, chosen, source_rows in self._split_by_clause(matches):
            before = whole.take(chosen)
            if clause.assignments is None:
                yield mark_rows(before, "delete")
                continue
            yield mark_rows(before, "update_preimage")
            columns = dict(zip(self._schema.names, before.columns, strict=True))
            columns |= self._values(clause.assignments, batch, chosen, source_rows)
            after = self._recompute(columns, clause.assignments)
            yield mark_rows(after, "update_postimage")

    def _split_matches(
        self, batches: Iterable[pa.RecordBatch], matches: FileMatches
    ) -> Iterator[tuple[pa.RecordBatch, FileMatches | None]]:
        """Yield the rows of a file in batches, each with its changes numbered from its first row.

        A batch has at most the number of source rows that are taken at once.
        """
        first = done = 0
        for whole in batches:
            for start in range(0, max(len(whole), 1), self._most_rows):
                batch = whole.slice(start, self._most_rows)
                end = bisect_left(matches.rows, first + len(batch), done, key=_number)
                yield batch, None if end == done else matches.part(first, done, end)
                first, done = first + len(batch), end

    def _split_by_clause(
        self, matches: FileMatches
    ) -> Iterator[tuple[PlannedClause, pa.Int64Array, pa.Int64Array]]:
        """Yield each clause that applies, with its rows and the source rows that they match."""
        for number in pc.unique(matches.clauses).to_pylist():
            is_chosen = pc.equal(matches.clauses, scalar(number))
            rows, source_rows = (
                each.filter(is_chosen) for each in (matches.rows, matches.source_rows)
            )
            yield self._clauses[number], rows, source_rows

    def _fit_columns(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """Return the columns of existing rows in the table's current schema."""
        return self._columns_of(self._fit_kept_rows(batch))

    def _fit_kept_rows(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        return iter([batch]) if self._has_same_columns else self._fit(batch)

    def _columns_of(self, batches: Iterator[pa.RecordBatch]) -> dict[str, pa.Array]:
        whole = pa.Table.from_batches(batches)
        return {name: join_chunks(whole[name]) for name in self._schema.names}

    def _values(
        self,
        assignments: Assignments,
        batch: pa.RecordBatch | None,
        rows: pa.Int64Array,
        source_rows: pa.Int64Array,
    ) -> dict[str, pa.Array]:
        column = partial(self._column, batch, rows, source_rows)
        values = assignments.evaluate(Rows(column, len(rows)))
        return dict(zip(assignments.names, values, strict=True))

    def _recompute(
        self,
        columns: Mapping[str, pa.Array],
        assignments: Assignments,
        mask: pa.BooleanArray | None = None,
    ) -> pa.RecordBatch:
        """Compute generated columns that depend on the assigned values."""
        left_out = self._generated.left_out(assignments.names)
        return self._generated.fill(self._batch(columns), left_out, mask)

    def _batch(self, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
        return batch_of(self._schema, list(columns.values()))

    def _column(
        self,
        batch: pa.RecordBatch | None,
        rows: pa.Int64Array,
        source_rows: pa.Int64Array,
        path: ColumnPath,
    ) -> pa.Array:
        if path[0] == SOURCE:
            return self._source.take(path[1:], source_rows)
        assert batch is not None
        return field_of(decode(batch.column(path[1]).take(rows)), path[2:])

    def _validate(self, rows: pa.RecordBatch) -> None:
        for validate in self._checks.values():
            validate(rows)


def _add_columns(
    batches: Iterable[pa.RecordBatch], known: pa.Table, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Add known columns to the batches."""
    first = 0
    for batch in batches:
        rows = known.slice(first, len(batch))
        columns = [
            batch.column(name) if name in batch.schema.names else join_chunks(rows[name])
            for name in schema.names
        ]
        yield batch_of(schema, columns)
        first += len(batch)


def _number(scalar: Any) -> int:
    number: int = scalar.as_py()
    return number


def _mask_of(numbers: pa.Int64Array, num_rows: int) -> pa.BooleanArray:
    """Return a mask that is true at these row numbers."""
    mask = np.zeros(num_rows, dtype=bool)
    mask[numpy_of(numbers)] = True
    return array_of(mask)

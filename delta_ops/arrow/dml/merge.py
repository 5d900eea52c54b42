"""Merge execution: match source rows with table rows, and write the changed files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arrow.dictionary_columns import encode_alike
from delta_ops.arrow.dml.cached_rows import Cache, CachedRows, key_of
from delta_ops.arrow.dml.changed_rows import record_row_changes, search_and_write
from delta_ops.arrow.dml.merge_clauses import PlannedClause
from delta_ops.arrow.dml.merge_keys import load_keys
from delta_ops.arrow.dml.merge_matching import (
    FileMatches,
    Matching,
    join_matches,
    match_file,
    split_matches,
)
from delta_ops.arrow.dml.merge_planning import MergePlan, plan_merge
from delta_ops.arrow.dml.merge_rows import MergedRows
from delta_ops.arrow.dml.merge_source import Source, SourceRows, validate_source
from delta_ops.arrow.dml.touched_files import number_rows
from delta_ops.arrow.memory_pools import sparing_memory
from delta_ops.arrow.read.reading import DECODED, gather, go_through
from delta_ops.arrow.read.scan import plan_reading
from delta_ops.arrow.write.change_files import mark_files
from delta_ops.arrow.write.data_files import write_rows
from delta_ops.log import Snapshot, plan_scan
from delta_ops.planning.merge_columns import TARGET, names_of, rows_to_read
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.arrow_values import array_of, numpy_of
from delta_ops.protocol.predicate import Predicate
from delta_ops.transaction.merge import merge_metrics
from delta_ops.transaction.requests import MergeRequest
from delta_ops.transaction.row_changes import Changed, TouchedFile, num_live_rows

_Matched = Sequence[tuple[AddFile, FileMatches]]
"""Files that can hold rows that match the source, with the changes to their rows."""


class PlannedMerge:
    """See `PlannedChange`."""

    def __init__(self, request: MergeRequest) -> None:
        self._request, self._source = request, SourceRows(request.source)

    @property
    def text(self) -> str:
        """See `PlannedChange`."""
        return str(self._request.predicate.text)

    @sparing_memory()
    def change_rows(self, changed: Changed) -> Mapping[str, int]:
        """See `PlannedChange`."""
        transaction, snapshot, table = changed.transaction, changed.snapshot, changed.snapshot.uri
        plan = plan_merge(self._request, self._source.schema, snapshot, transaction)
        source = self._source.load(plan.used_columns, table)
        validate_source(source, self._request.source_rules, table)
        run = _begin_run(plan, source, snapshot)
        transaction.read(run.read)
        # Clauses for rows without a match need rows of any key.
        sought = () if plan.others else run.matching.keys.sought
        files = list(plan_scan(snapshot, run.read, keys=sought))
        has_vectors = transaction.definition.properties.deletion_vectors
        change = _change_by_vectors if has_vectors else _change_files
        found, num_copied, marked = change(run, files, snapshot, changed)
        touched = _list_touched(found)
        _record_changes(run, touched, changed)
        unmet = _unmet_rows(len(source), found)
        num_inserted = 0
        if plan.inserts:
            num_inserted = _insert(run, unmet, changed, is_recorded=bool(touched))
        counts = _count_clauses(run.matching.clauses, found)
        return merge_metrics(changed, len(source), counts, num_inserted, num_copied, marked)


@dataclass(frozen=True, slots=True, kw_only=True)
class _MergeRun:
    """A planned merge that is ready to run."""

    plan: MergePlan
    matching: Matching
    rows: MergedRows
    read: Predicate
    """The table rows that the result depends on."""


def _begin_run(plan: MergePlan, source: Source, snapshot: Snapshot) -> _MergeRun:
    """Evaluate the keys of the source.

    Raises:
        InvalidRequestError: A key cannot be compared with the table's column.
    """
    keys = load_keys(plan.condition, plan.columns, source, snapshot.uri)
    names = {path[0] for path in keys.paths} | names_of(plan.condition_columns, TARGET)
    deciding = [name for name in snapshot.arrow_schema.names if name in names]
    matching = Matching(
        source=source,
        keys=keys,
        residual=plan.residual,
        matched=plan.matched,
        not_matched_by_source=plan.others,
        read=plan_reading(snapshot, deciding),
    )
    rows = MergedRows(plan, snapshot, source, deciding)
    others = [each.parsed_condition for each in plan.others]
    read = rows_to_read(keys.covering, others, plan.columns)
    return _MergeRun(plan=plan, matching=matching, rows=rows, read=read)


def _insert(run: _MergeRun, unmet: pa.Int64Array, changed: Changed, *, is_recorded: bool) -> int:
    """Write the new rows, and return their number.

    Args:
        is_recorded: Whether change data files must record the new rows; otherwise the new data
            files record them.
    """
    inserted = write_rows(changed.target, run.rows.inserted_rows(unmet))
    changed.add(inserted, run.plan.checks, run.rows.counted_values)
    if is_recorded:
        definition, snapshot = run.plan.definition, changed.snapshot

        def new_rows(files: Sequence[AddFile]) -> Iterator[pa.RecordBatch]:
            return mark_files(snapshot, files, "insert", definition)

        record_row_changes(changed, inserted, new_rows)
    return sum(num_live_rows(add) or 0 for add in inserted)


class _MergedFiles:
    """Finds the files with rows that the merge changes, and yields the rows of these files."""

    def __init__(self, run: _MergeRun, table: str) -> None:
        self._run, self._table = run, table
        self._cached = CachedRows(run.rows.read_whole)
        self._deciding: Cache[pa.Table] = Cache()

    def look(self, files: Sequence[AddFile]) -> list[FileMatches]:
        """Match the rows of each file."""
        loaded = [self._cached.load(each) for each in files]
        rows = [each for each in loaded if each is not None]
        # Matching takes as long for a few rows as for some thousand rows.
        deciding = map(self._run.rows.select_deciding, chain.from_iterable(rows))
        together, _ = match_file(self._run.matching, self._table, deciding)
        of_loaded = split_matches(together, [sum(map(len, each)) for each in rows])
        return [
            self._match(file) if batches is None else self._keep(file, batches, next(of_loaded))
            for file, batches in zip(files, loaded, strict=True)
        ]

    def _match(self, file: AddFile) -> FileMatches:
        matching = self._run.matching
        matches, deciding = match_file(matching, self._table, matching.read([file]))
        if deciding is not None and len(matches.rows):
            self._deciding.put(file, deciding, deciding.nbytes)
        return matches

    def _keep(
        self, file: AddFile, batches: list[pa.RecordBatch], matches: FileMatches
    ) -> FileMatches:
        self._cached.keep(file, batches, is_changed=len(matches.rows) > 0)
        return matches

    def bytes_to_write(self, file: AddFile, found: FileMatches, /) -> int | None:
        """See `Search`."""
        return file.size if len(found.rows) else None

    def rows(
        self, files: Sequence[AddFile], found: Sequence[FileMatches], /
    ) -> Iterator[pa.RecordBatch]:
        """See `Search`."""
        stored = chain.from_iterable(map(self._read, files))
        return self._run.rows.changed_rows(gather(encode_alike(stored)), join_matches(found))

    def _read(self, file: AddFile) -> Iterator[pa.RecordBatch]:
        if file in self._cached:
            return self._cached.read([file])
        return self._run.rows.read_rows(file, self._deciding.take(file))


def _change_files(
    run: _MergeRun, files: Sequence[AddFile], snapshot: Snapshot, changed: Changed
) -> tuple[_Matched, int, Sequence[TouchedFile] | None]:
    """Rewrite files that have a changed row; also returns the number of copied unchanged rows."""
    merged = _MergedFiles(run, snapshot.uri)
    adds, found = search_and_write(changed.target, files, merged, moves=run.plan.moves)
    matched = list(zip(files, found, strict=True))
    touched = _list_touched(matched)
    changed.add(adds, run.plan.checks)
    changed.remove([file for file, _ in touched])
    num_copied = sum(matches.num_rows - len(matches.rows) for _, matches in touched)
    return matched, num_copied, None


def _list_touched(matched: _Matched) -> _Matched:
    return [(file, matches) for file, matches in matched if len(matches.rows)]


def _record_changes(run: _MergeRun, touched: _Matched, changed: Changed) -> None:
    by_key = {key_of(file): matches for file, matches in touched}

    def images(some: Sequence[AddFile]) -> Iterator[pa.RecordBatch]:
        return run.rows.images(some, join_matches([by_key[key_of(each)] for each in some]))

    record_row_changes(changed, [file for file, _ in touched], images, moves=run.plan.moves)


def _change_by_vectors(
    run: _MergeRun, files: Sequence[AddFile], snapshot: Snapshot, changed: Changed
) -> tuple[_Matched, int, Sequence[TouchedFile] | None]:
    """Mark changed rows as deleted, and write their new versions to new files."""

    def match(file: AddFile) -> FileMatches:
        matches, _ = match_file(run.matching, snapshot.uri, run.matching.read([file]))
        return matches

    calls = ((each.size * DECODED, partial(match, each)) for each in files)
    found = go_through(snapshot.storage, calls)
    matched = list(zip(files, found, strict=True))
    touched = _list_touched(matched)
    rows = chain.from_iterable(run.rows.updated_rows(*each) for each in touched)
    changed.add(write_rows(changed.target, rows, "kept"), run.plan.checks)
    whole = [file for file, matches in touched if len(matches.rows) == matches.num_rows]
    mixed = [
        TouchedFile(
            file=file,
            num_rows=len(matches.rows),
            is_whole=False,
            gone=number_rows(snapshot, file, matches.rows, matches.num_rows),
        )
        for file, matches in touched
        if len(matches.rows) < matches.num_rows
    ]
    changed.mark_deleted(mixed)
    changed.remove(whole)
    return matched, 0, mixed


def _unmet_rows(num_rows: int, found: _Matched) -> pa.Int64Array:
    """Return the source rows that match no row of the table."""
    is_unmet = np.ones(num_rows, dtype=bool)
    for _, matches in found:
        is_unmet[numpy_of(matches.met)] = False
    return array_of(np.flatnonzero(is_unmet))


def _count_clauses(clauses: Sequence[PlannedClause], found: _Matched) -> dict[tuple[str, str], int]:
    """Count the changed rows by kind of clause and action."""
    counts: dict[tuple[str, str], int] = {}
    for _, matches in found:
        for counted in pc.value_counts(matches.clauses).to_pylist():
            clause = clauses[counted["values"]]
            key = clause.kind, clause.action
            counts[key] = counts.get(key, 0) + counted["counts"]
    return counts

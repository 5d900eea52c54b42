"""Merge execution: match source rows with table rows, and write the changed files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arrow.dml.changed_rows import FileReplacer, record_row_changes, write_again
from delta_ops.arrow.dml.merge_clauses import PlannedClause
from delta_ops.arrow.dml.merge_keys import load_keys
from delta_ops.arrow.dml.merge_matching import FileMatches, Matching, match_file
from delta_ops.arrow.dml.merge_planning import MergePlan, plan_merge
from delta_ops.arrow.dml.merge_rows import MergedRows
from delta_ops.arrow.dml.merge_source import Source, SourceRows, validate_source
from delta_ops.arrow.dml.touched_files import number_rows
from delta_ops.arrow.memory_pools import sparing_memory
from delta_ops.arrow.read.reading import DECODED, go_through
from delta_ops.arrow.read.scan import plan_reading
from delta_ops.arrow.write.change_files import mark_files
from delta_ops.arrow.write.data_files import write_rows
from delta_ops.log import Snapshot
from delta_ops.planning.merge_columns import TARGET, names_of, rows_to_read
from delta_ops.planning.scan import plan_scan
from delta_ops.protocol.actions import AddFile
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
        files = plan_scan(snapshot, run.read)
        has_vectors = transaction.definition.properties.deletion_vectors
        change = _change_by_vectors if has_vectors else _change_files
        found, num_copied, marked = change(run, files, snapshot, changed)
        touched = [(file, matches) for file, matches in found if len(matches.rows)]
        images = ((file, run.rows.images(file, matches)) for file, matches in touched)
        record_row_changes(changed, images, moves=plan.moves)
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
    names = {path[0] for path in keys.paths} | names_of(plan.looked_at, TARGET)
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
        new = ((each, mark_files(snapshot, [each], "insert", definition)) for each in inserted)
        record_row_changes(changed, new)
    return sum(num_live_rows(add) or 0 for add in inserted)


def _change_files(
    run: _MergeRun, files: Sequence[AddFile], snapshot: Snapshot, changed: Changed
) -> tuple[_Matched, int, Sequence[TouchedFile] | None]:
    """Rewrite files that have a changed row; also returns the number of copied unchanged rows."""

    def write(file: AddFile, replacer: FileReplacer) -> FileMatches:
        matches, columns = match_file(run.matching, snapshot, file)
        if len(matches.rows):
            rows = run.rows.changed_rows(file, matches, columns)
            replacer.write(file, rows, moves=run.plan.moves)
        return matches

    writes = [(each, partial(write, each)) for each in files]
    adds, found = write_again(changed.target, writes)
    changed.add(adds, run.plan.checks)
    matched = list(zip(files, found, strict=True))
    touched = [(file, matches) for file, matches in matched if len(matches.rows)]
    changed.remove([file for file, _ in touched])
    num_copied = sum(matches.num_rows - len(matches.rows) for _, matches in touched)
    return matched, num_copied, None


def _change_by_vectors(
    run: _MergeRun, files: Sequence[AddFile], snapshot: Snapshot, changed: Changed
) -> tuple[_Matched, int, Sequence[TouchedFile] | None]:
    """Mark changed rows as deleted, and write their new versions to new files."""

    def match(file: AddFile) -> FileMatches:
        matches, _ = match_file(run.matching, snapshot, file)
        return matches

    calls = ((each.size * DECODED, partial(match, each)) for each in files)
    found = go_through(snapshot.storage, calls)
    matched = list(zip(files, found, strict=True))
    touched = [(file, matches) for file, matches in matched if len(matches.rows)]
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
        is_unmet[matches.met.to_numpy()] = False
    return pa.array(np.flatnonzero(is_unmet))


def _count_clauses(clauses: Sequence[PlannedClause], found: _Matched) -> dict[tuple[str, str], int]:
    """Count the changed rows by occasion and action."""
    counts: dict[tuple[str, str], int] = {}
    for _, matches in found:
        for counted in pc.value_counts(matches.clauses).to_pylist():
            clause = clauses[counted["values"]]
            key = clause.occasion, clause.action
            counts[key] = counts.get(key, 0) + counted["counts"]
    return counts

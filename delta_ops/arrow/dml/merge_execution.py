"""Merge execution: the rows of a source meet those of a table, and files are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arrow.dml.changed_files import Rewriter, tell_rows, write_again
from delta_ops.arrow.dml.matching import number_rows
from delta_ops.arrow.dml.merge_clauses import PlannedClause
from delta_ops.arrow.dml.merge_matching import FileMatches, match_file
from delta_ops.arrow.dml.merge_planning import MergePlan, plan_merge
from delta_ops.arrow.memory_pools import sparing_memory
from delta_ops.arrow.read.reading import DECODED, go_through
from delta_ops.arrow.write.change_files import mark_files
from delta_ops.arrow.write.data_file import discard
from delta_ops.arrow.write.new_files import write_rows
from delta_ops.errors import InvalidRequestError
from delta_ops.log import Snapshot
from delta_ops.planning.scan import plan_scan
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.expression import Expression, parse_expression
from delta_ops.protocol.features import Engine
from delta_ops.transaction.merge import Clause, Condition, MergeRequest, merge_metrics
from delta_ops.transaction.row_changes import Changed, Discard, TouchedFile, num_live_rows

_Matched = Sequence[tuple[AddFile, FileMatches]]
"""Files that can hold rows which meet some of the source, with what becomes of their rows."""


class ArrowMerge:
    """How this engine merges rows; see `MergeEngine`."""

    name: Engine = "arrow"

    def parse(self, condition: Condition) -> Expression:
        """See `MergeEngine`."""
        if isinstance(condition, str):
            return parse_expression(condition)
        if isinstance(condition, Expression):
            return condition
        raise InvalidRequestError(
            f"a condition of a merge is of type {type(condition).__name__}; give a text of SQL, "
            "such as 'target.id = source.id', or an expression"
        )

    def parse_own(self, text: str) -> Expression:
        """See `MergeEngine`."""
        return parse_expression(text)

    def join(self, conditions: Sequence[Expression]) -> Expression:
        """See `MergeEngine`."""
        return parse_expression(" AND ".join(each.text for each in conditions))

    @property
    def discard(self) -> Discard:
        """See `MergeEngine`."""
        return discard

    @sparing_memory()
    def execute(
        self,
        request: MergeRequest,
        clauses: Sequence[Clause],
        snapshot: Snapshot,
        changed: Changed,
    ) -> Mapping[str, int]:
        """See `MergeEngine`."""
        transaction = changed.transaction
        plan = plan_merge(request, clauses, snapshot, transaction)
        transaction.read(plan.read)
        files = plan_scan(snapshot, plan.read)
        has_vectors = transaction.properties.deletion_vectors
        change = _change_by_vectors if has_vectors else _change_files
        found, num_copied, marked = change(plan, files, snapshot, changed)
        touched = [(file, matches) for file, matches in found if len(matches.rows)]
        images = ((file, plan.rows.images(file, matches)) for file, matches in touched)
        tell_rows(changed, images, moves=plan.moves)
        num_inserted = 0
        if plan.inserts:
            unmet = _unmet_rows(len(plan.matching.source), found)
            inserted = write_rows(transaction, plan.rows.inserted_rows(unmet))
            changed.add(inserted, plan.checks, plan.rows.counted_values)
            num_inserted = sum(num_live_rows(add) or 0 for add in inserted)
            if touched:  # else the files that are added tell it
                new = (
                    (each, mark_files(snapshot, [each], "insert", plan.definition))
                    for each in inserted
                )
                tell_rows(changed, new)
        counts = _count_clauses(plan.matching.clauses, found)
        num_rows = len(plan.matching.source)
        return merge_metrics(changed, num_rows, counts, num_inserted, num_copied, marked)


def _change_files(
    plan: MergePlan, files: Sequence[AddFile], snapshot: Snapshot, changed: Changed
) -> tuple[_Matched, int, Sequence[TouchedFile] | None]:
    """Write files again of which a row changes; with the number of rows that stayed as they are."""

    def write(file: AddFile, rewriter: Rewriter) -> FileMatches:
        matches, columns = match_file(plan.matching, snapshot, file)
        if len(matches.rows):
            rows = plan.rows.changed_rows(file, matches, columns)
            rewriter.write(file, rows, moves=plan.moves)
        return matches

    writes = [(each, partial(write, each)) for each in files]
    adds, found = write_again(changed.transaction, writes)
    changed.add(adds, plan.checks)
    matched = list(zip(files, found, strict=True))
    touched = [(file, matches) for file, matches in matched if len(matches.rows)]
    changed.remove([file for file, _ in touched])
    num_copied = sum(matches.num_rows - len(matches.rows) for _, matches in touched)
    return matched, num_copied, None


def _change_by_vectors(
    plan: MergePlan, files: Sequence[AddFile], snapshot: Snapshot, changed: Changed
) -> tuple[_Matched, int, Sequence[TouchedFile] | None]:
    """Mark rows that change as deleted, and write those that stay to new files."""

    def match(file: AddFile) -> FileMatches:
        matches, _ = match_file(plan.matching, snapshot, file)
        return matches

    calls = ((each.size * DECODED, partial(match, each)) for each in files)
    found = go_through(snapshot.storage, calls)
    matched = list(zip(files, found, strict=True))
    touched = [(file, matches) for file, matches in matched if len(matches.rows)]
    rows = chain.from_iterable(plan.rows.updated_rows(*each) for each in touched)
    changed.add(write_rows(changed.transaction, rows, "kept"), plan.checks)
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
    """The rows of the source that meet no row of the table."""
    is_unmet = np.ones(num_rows, dtype=bool)
    for _, matches in found:
        is_unmet[matches.met.to_numpy()] = False
    return pa.array(np.flatnonzero(is_unmet))


def _count_clauses(clauses: Sequence[PlannedClause], found: _Matched) -> dict[tuple[str, str], int]:
    """The rows by occasion and action."""
    counts: dict[tuple[str, str], int] = {}
    for _, matches in found:
        for counted in pc.value_counts(matches.clauses).to_pylist():
            clause = clauses[counted["values"]]
            key = clause.occasion, clause.action
            counts[key] = counts.get(key, 0) + counted["counts"]
    return counts

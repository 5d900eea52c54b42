"""Merge execution: the rows of a source meet those of a table, and files are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from delta_ops.arrow.change_files import mark_files
from delta_ops.arrow.matching import TouchedFile, number_rows
from delta_ops.arrow.merge_clauses import Clause, PlannedClause
from delta_ops.arrow.merge_matching import FileMatches, match_file
from delta_ops.arrow.merge_planning import MergePlan, MergeRequest, plan_merge
from delta_ops.arrow.row_changes import (
    Changed,
    Rewriter,
    go_through,
    num_live_rows,
    write_again,
)
from delta_ops.arrow.vectors import mark_deleted, vector_metrics
from delta_ops.arrow.write import write_rows
from delta_ops.log import Snapshot
from delta_ops.planning.scan import plan_scan
from delta_ops.protocol.actions import AddFile

_Matched = Sequence[tuple[AddFile, FileMatches]]
"""Files that can hold rows which meet some of the source, with what becomes of their rows."""


def execute_merge(
    request: MergeRequest, clauses: Sequence[Clause], snapshot: Snapshot, changed: Changed
) -> dict[str, int]:
    """Write the files of a merge, and return its `operationMetrics`.

    Args:
        request: What is asked for.
        clauses: In the order in which they decide.
        snapshot: The table before.
        changed: Collects the files.

    Raises:
        InvalidRequestError: A name, type or value does not fit, or a row breaks a rule.
    """
    transaction = changed.transaction
    plan = plan_merge(request, clauses, snapshot, transaction)
    transaction.read(plan.read)
    files = plan_scan(snapshot, plan.read)
    has_vectors = transaction.properties.deletion_vectors
    change = _change_by_vectors if has_vectors else _change_files
    found, num_copied, metrics = change(plan, files, snapshot, changed)
    touched = [(file, matches) for file, matches in found if len(matches.rows)]
    images = ((file, plan.rows.images(file, matches)) for file, matches in touched)
    changed.tell(images, moves=plan.moves)
    num_inserted = 0
    if plan.inserts:
        unmet = _unmet_rows(len(plan.matching.source), found)
        inserted = write_rows(transaction, plan.rows.inserted_rows(unmet))
        changed.add(inserted, plan.checks, plan.rows.counted_values)
        num_inserted = sum(num_live_rows(add) or 0 for add in inserted)
        if touched:  # else the files that are added tell it
            changed.tell(
                (each, mark_files(snapshot, [each], "insert", plan.definition)) for each in inserted
            )
    return {**_metrics(plan, changed, num_inserted, num_copied, found), **metrics}


def _change_files(
    plan: MergePlan, files: Sequence[AddFile], snapshot: Snapshot, changed: Changed
) -> tuple[_Matched, int, Mapping[str, int]]:
    """Write files again of which a row changes; with the rows that stayed as they are."""

    def write(file: AddFile, rewriter: Rewriter) -> FileMatches:
        matches = match_file(plan.matching, snapshot, file)
        if len(matches.rows):
            rewriter.write(file, plan.rows.changed_rows(file, matches), moves=plan.moves)
        return matches

    writes = [(each, partial(write, each)) for each in files]
    adds, found = write_again(changed.transaction, writes)
    changed.add(adds, plan.checks)
    matched = list(zip(files, found, strict=True))
    touched = [(file, matches) for file, matches in matched if len(matches.rows)]
    changed.remove([file for file, _ in touched])
    num_copied = sum(matches.num_rows - len(matches.rows) for _, matches in touched)
    return matched, num_copied, {}


def _change_by_vectors(
    plan: MergePlan, files: Sequence[AddFile], snapshot: Snapshot, changed: Changed
) -> tuple[_Matched, int, Mapping[str, int]]:
    """Mark rows that change as deleted, and write those that stay to new files."""
    calls = [(each, partial(match_file, plan.matching, snapshot, each)) for each in files]
    found = go_through(changed.transaction, calls)
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
    mark_deleted(changed, mixed)
    changed.remove(whole)
    told = vector_metrics(changed, mixed)
    metrics = {name.replace("num", "numTarget", 1): value for name, value in told.items()}
    return matched, 0, metrics


def _unmet_rows(num_rows: int, found: _Matched) -> pa.Int64Array:
    """The rows of the source that meet no row of the table."""
    numbers = pa.arange(0, num_rows)
    if not found:
        return numbers
    met = pa.concat_arrays([matches.met for _, matches in found])
    return numbers.filter(pc.invert(pc.is_in(numbers, value_set=met)))


def _count_clauses(clauses: Sequence[PlannedClause], found: _Matched) -> dict[tuple[str, str], int]:
    """The rows by occasion and action."""
    counts: dict[tuple[str, str], int] = {}
    for _, matches in found:
        for counted in pc.value_counts(matches.clauses).to_pylist():
            clause = clauses[counted["values"]]
            key = clause.occasion, clause.action
            counts[key] = counts.get(key, 0) + counted["counts"]
    return counts


def _metrics(
    plan: MergePlan, changed: Changed, num_inserted: int, num_copied: int, found: _Matched
) -> dict[str, int]:
    """`operationMetrics` of a MERGE, as the reference names them."""
    counts = _count_clauses(plan.matching.clauses, found)
    updated, deleted = counts.get(("matched", "update"), 0), counts.get(("matched", "delete"), 0)
    others_updated = counts.get(("not matched by source", "update"), 0)
    others_deleted = counts.get(("not matched by source", "delete"), 0)
    return {
        "numSourceRows": len(plan.matching.source),
        "numTargetRowsInserted": num_inserted,
        "numTargetRowsUpdated": updated + others_updated,
        "numTargetRowsDeleted": deleted + others_deleted,
        "numTargetRowsMatchedUpdated": updated,
        "numTargetRowsMatchedDeleted": deleted,
        "numTargetRowsNotMatchedBySourceUpdated": others_updated,
        "numTargetRowsNotMatchedBySourceDeleted": others_deleted,
        "numTargetRowsCopied": num_copied,
        "numOutputRows": num_copied + updated + others_updated + num_inserted,
        "numTargetFilesAdded": len(changed.written),
        "numTargetFilesRemoved": changed.num_removed,
        "numTargetBytesAdded": changed.added_bytes,
        "numTargetBytesRemoved": changed.removed_bytes,
        "numTargetChangeFilesAdded": len(changed.change_files),
        "numTargetChangeFileBytes": sum(each.size for each in changed.change_files),
        "numTargetDeletionVectorsAdded": 0,
        "numTargetDeletionVectorsRemoved": 0,
        "numTargetDeletionVectorsUpdated": 0,
    }

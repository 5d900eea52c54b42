"""Merge: the rows of a source change the rows of a table.

Files are written in one pass if that needs no pairs of rows (`merge_in_one_pass`). Otherwise the
pairs are found first (`merge_pairs`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from delta_ops.lazy import lazy
from delta_ops.log import plan_scan
from delta_ops.spark.casting import FitValue
from delta_ops.spark.dml.changed_rows import (
    CHANGED,
    figure_of,
    misfit_checks,
    pin,
    record_row_changes,
    write_changed,
)
from delta_ops.spark.dml.merge_clauses import CLAUSE, flags_of_misfits
from delta_ops.spark.dml.merge_in_one_pass import merge_in_one_pass
from delta_ops.spark.dml.merge_pairs import Pairs, RowCounts, TouchedRows, find_pairs
from delta_ops.spark.dml.merge_planning import MergePlan, find_read, plan_merge
from delta_ops.spark.dml.merge_rows import NewRows, assign_updates, insert, make_new_rows
from delta_ops.spark.dml.merge_source import (
    SOURCE_ROW,
    count_rows,
    number_source,
    validate_source,
)
from delta_ops.spark.expressions.columns import named_column
from delta_ops.spark.row_checks import RowCheck
from delta_ops.spark.session import jobs
from delta_ops.spark.session.call_sites import omitting_call_sites
from delta_ops.spark.session.failures import translating_failures
from delta_ops.spark.versions import is_connect
from delta_ops.transaction.merge import merge_metrics
from delta_ops.transaction.requests import MergeRequest
from delta_ops.transaction.row_changes import Changed, TouchedFile, num_live_rows

_COPIED = "copied"


class PlannedMerge:
    """See `PlannedChange`."""

    def __init__(self, request: MergeRequest, fit_value: FitValue) -> None:
        self._request, self._fit_value = request, fit_value

    @property
    def text(self) -> str:
        """See `PlannedChange`."""
        return str(self._request.predicate.text)

    @lazy
    def _source(self) -> DataFrame:
        """The numbered rows of the source. A retry of the merge uses the same rows."""
        return number_source(self._request.source)

    @omitting_call_sites()
    def change_rows(self, changed: Changed) -> Mapping[str, int]:
        """See `PlannedChange`."""
        transaction, snapshot = changed.transaction, changed.snapshot
        plan = plan_merge(self._request, self._source, snapshot, transaction, self._fit_value)
        with translating_failures(snapshot.uri, snapshot.uri):
            rules, schema = self._request.source_rules, plan.sides.source_schema
            validate_source(plan.source, rules, schema, snapshot.uri, plan.on_tasks)
            covered = find_read(plan, transaction.clock())
            transaction.read(covered.predicate)
            zone = transaction.partition_time_zone
            # Clauses for rows without a match need rows of any key.
            sought = () if plan.changes_unmatched_rows else covered.sought
            planned = plan_scan(snapshot, covered.predicate, keys=sought, partition_time_zone=zone)
            files = list(planned)
            in_one_pass = merge_in_one_pass(plan, files, covered, changed)
            if in_one_pass is not None:
                return in_one_pass
            with find_pairs(plan, files, covered) as pairs:
                return _PairedMerge(pairs, changed).merge()


class _PairedMerge:
    """A merge that finds the pairs of rows first."""

    def __init__(self, pairs: Pairs, changed: Changed) -> None:
        self._pairs, self._plan, self._changed = pairs, pairs.plan, changed
        self._by_vectors = changed.transaction.definition.properties.deletion_vectors
        self._now_ms = changed.transaction.clock()
        self._is_few = False
        """Whether the pairs are sent whole to every task."""
        self._rows = TouchedRows(pairs, pairs.files, range(len(pairs.files)), is_few=True)
        self._new: NewRows | None = None

    def merge(self) -> Mapping[str, int]:
        """Write and remove files; return the metrics."""
        pairs, plan, changed = self._pairs, self._plan, self._changed
        by_file = self._count_rows() if plan.clauses else {}
        on_event = changed.transaction.on_event
        touched = pairs.list_touched(by_file, on_event, names_rows=self._by_vectors)
        counts = _count_actions(plan, by_file)
        if plan.inserts and (self._new is None or not self._is_few):
            self._new = self._make_new(pairs.matched_rows().distinct())  # a source row may repeat
        copied, inserted = self._change(touched, counts) if touched else (0, None)
        if inserted is None:
            is_recorded = bool(touched)
            new = self._new
            inserted = 0 if new is None else insert(plan, new, changed, is_recorded=is_recorded)
        num_source = pairs.covered.num_rows
        if num_source is None:
            num_source = count_rows(plan.source, plan.on_tasks)
        marked = [each for each in touched if not each.is_whole] if self._by_vectors else None
        return merge_metrics(changed, num_source, counts, inserted, copied, marked)

    def _count_rows(self) -> RowCounts:
        """Count the rows of each clause; meanwhile plan the next jobs, assuming few pairs."""
        spark = self._plan.spark
        may_be_few = not (self._pairs.may_repeat or is_connect(spark))
        # This thread only waits. An interrupt would break its connection to the JVM.
        with (
            jobs.background_call(spark, self._build_ahead)
            if may_be_few
            else nullcontext(lambda: None)
        ) as built_ahead:
            by_file = self._pairs.count_rows()
            self._new = built_ahead()
        self._is_few = may_be_few and jobs.is_sent_whole(self._pairs.frame)
        return by_file

    def _build_ahead(self) -> NewRows | None:
        """Build the new and the remaining rows, assuming few pairs.

        The remaining rows also assume that all files are touched.
        """
        if not self._by_vectors:
            _ = self._rows.staying
        if not self._plan.inserts:
            return None
        return self._make_new(sf.broadcast(self._pairs.matched_rows()))

    def _make_new(self, matched: DataFrame) -> NewRows:
        unmatched = self._plan.source.join(matched, SOURCE_ROW, "left_anti")
        return make_new_rows(self._plan, unmatched, self._now_ms)

    def _rows_of(self, touched: Sequence[TouchedFile]) -> TouchedRows:
        files = self._pairs.files
        if self._is_few and len(touched) == len(files):
            return self._rows
        number_by_path = {each.path: number for number, each in enumerate(files)}
        numbers = [number_by_path[each.file.path] for each in touched]
        return TouchedRows(
            self._pairs, [each.file for each in touched], numbers, is_few=self._is_few
        )

    def _change(
        self, touched: Sequence[TouchedFile], counts: Mapping[tuple[str, str], int]
    ) -> tuple[int, int | None]:
        """Change the rows of touched files.

        Args:
            counts: Number of rows that the clauses change, from `_count_actions`.

        Returns:
            The number of copied rows, and the number of new rows; None if the new rows are still to
            be written.
        """
        rows, changed, by_vectors = self._rows_of(touched), self._changed, self._by_vectors
        has_feed = self._plan.definition.has_change_feed
        # The change data feed must get exactly the values that are written.
        updated = None
        if has_feed and not self._plan.has_stable_values:
            updated = pin(rows.make_updates())
        written = _Written(0, None)
        if self._plan.updates or not by_vectors:
            written = self._write(rows, updated, touched, counts)
        if by_vectors:
            changed.mark_deleted([each for each in touched if not each.is_whole])
        changed.remove([each.file for each in touched if each.is_whole or not by_vectors])
        if has_feed:
            record_row_changes(changed, rows.changes(updated))
        return written

    def _write(
        self,
        rows: TouchedRows,
        updated: DataFrame | None,
        touched: Sequence[TouchedFile],
        counts: Mapping[tuple[str, str], int],
    ) -> _Written:
        """Write the remaining rows of touched files.

        With deletion vectors, only the updated rows are written.
        """
        new, has_feed = self._new, self._plan.definition.has_change_feed
        # Identity values are generated over the new rows only, and the feed needs the new rows
        # separately.
        along = None if new is None or has_feed or new.completed.counted else new
        # Statistics may be wrong. They affect only the metrics here, never the rows.
        live = [] if self._by_vectors else [num_live_rows(each.file) for each in touched]
        counts_copied = None in live
        staying, checks = self._staying(rows, updated, along)
        figures = {_COPIED: sf.count_if(~named_column(CHANGED))} if counts_copied else {}
        among = named_column(CHANGED)
        written = write_changed(self._changed, staying, checks, figures, among=among)
        copied = 0
        if counts_copied:
            copied = figure_of(written, _COPIED)
        elif not self._by_vectors:  # deletion vectors need no copies
            copied = sum(each or 0 for each in live) - sum(counts.values())
        if along is None:
            return _Written(copied, None)
        num_updated = sum(n for (_, action), n in counts.items() if action == "update")
        return _Written(copied, written.num_rows - copied - num_updated)

    def _staying(
        self, rows: TouchedRows, updated: DataFrame | None, new: NewRows | None
    ) -> tuple[DataFrame, list[RowCheck]]:
        """The rows to write, and their checks.

        Args:
            updated: The updated rows; None: compute them here.
            new: New rows to write in the same job.
        """
        checks = misfit_checks(flags_of_misfits(self._plan.updates))
        if self._by_vectors:
            staying = (
                assign_updates(self._plan, rows.select_updated()) if updated is None else updated
            )
        elif updated is None:
            staying = rows.staying
        else:
            others = rows.join("left").filter(named_column(CLAUSE).isNull())
            staying = assign_updates(self._plan, others).unionAll(updated)
        if new is None:
            return staying, checks
        # Row tracking: rows without the id columns are new rows.
        together = staying.unionByName(new.completed.frame, allowMissingColumns=True)
        return together, [*checks, *new.checks]


class _Written(NamedTuple):
    """Numbers of written rows."""

    copied: int
    inserted: int | None
    """None: new rows were not part of this write."""


def _count_actions(plan: MergePlan, by_file: RowCounts) -> dict[tuple[str, str], int]:
    """Number of rows that the clauses change, such as `("matched", "update"): 2`."""
    counts: dict[tuple[str, str], int] = {}
    for (_, number), count in by_file.items():
        clause = plan.clauses[number]
        key = clause.kind, clause.action
        counts[key] = counts.get(key, 0) + count
    return counts

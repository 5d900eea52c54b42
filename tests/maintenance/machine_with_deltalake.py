"""The state machine of maintenance with deltalake, which also writes and maintains.

The machine avoids the known faults of deltalake, and only those:

- its clean-up of the log treats a part of a checkpoint as a whole checkpoint and leaves an
  unreadable log (`_cleans_up`); its vacuum and optimize clean up even if that is switched off;
- it judges each commit by its own age, so versions within the log retention are lost
  (`others_may_have_cleaned_up`);
- its vacuum uses any removal time of a file, so it may delete a file that was restored and removed
  again (`deltalake_may_have_vacuumed`);
- its log compaction loses removes, so the machine never runs it;
- it deletes live deletion vectors, so it only reads tables with vectors.
"""

from __future__ import annotations

from dataclasses import replace

from deltalake import DeltaTable, PostCommitHookProperties, write_deltalake
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from delta_ops.maintenance import repair
from tests.maintenance.maintenance_machine import (
    MaintenanceMachine,
    Rows,
    any_version,
    least_ids,
    merge_rows,
    some_rows,
)
from tests.transaction.row_changes import Row, table_of


class MachineWithDeltalake(MaintenanceMachine):
    """Ours and deltalake's."""

    def _hooks(self) -> PostCommitHookProperties:
        return PostCommitHookProperties(cleanup_expired_logs=self._cleans_up())

    def _cleans_up(self) -> bool:
        return not self.table.has_incomplete_checkpoint()

    def _deltalake_did(self, rows: list[Row] | Rows) -> None:
        self.becomes(rows)
        self.table.others_may_have_cleaned_up()

    @precondition(lambda self: not self.has_vectors)
    @rule(rows=some_rows)
    def deltalake_appends(self, rows: Rows) -> None:
        with self.table.step():
            write_deltalake(
                str(self.table.root),
                table_of(rows),
                mode="append",
                post_commithook_properties=self._hooks(),
            )
            self._deltalake_did([*self.rows, *rows])

    @precondition(lambda self: not self.has_vectors)
    @rule(least=least_ids, by_update=st.booleans())
    def deltalake_changes_rows(self, least: int, by_update: bool) -> None:
        table, hooks = DeltaTable(self.table.root), self._hooks()
        matches = f"id >= {least}"
        with self.table.step():
            if by_update:
                table.update({"id": "id - 1"}, predicate=matches, post_commithook_properties=hooks)
                self._deltalake_did([(i - 1 if i >= least else i, p) for i, p in self.rows])
            else:
                table.delete(matches, post_commithook_properties=hooks)
                self._deltalake_did([row for row in self.rows if row[0] < least])

    @precondition(lambda self: not self.has_vectors)
    @rule(rows=some_rows)
    def deltalake_merges(self, rows: Rows) -> None:
        """Delete the rows that exist, insert the others."""
        with self.table.step():
            (
                DeltaTable(self.table.root)
                .merge(
                    table_of(rows),
                    "t.id = s.id and t.p = s.p",
                    source_alias="s",
                    target_alias="t",
                    post_commithook_properties=self._hooks(),
                )
                .when_matched_delete()
                .when_not_matched_insert_all()
                .execute()
            )
            self._deltalake_did(merge_rows(self.rows, rows))

    @precondition(lambda self: not self.has_vectors)
    @rule(by=st.sampled_from(["compact", "z order", "repair", "checkpoint", "clean up log"]))
    def deltalake_maintains(self, by: str) -> None:
        table, hooks = DeltaTable(self.table.root), self._hooks()
        if by not in ("repair", "checkpoint") and not self._cleans_up():
            return
        with self.table.step():
            match by:
                case "compact":
                    table.optimize.compact(post_commithook_properties=hooks)
                case "z order":
                    table.optimize.z_order(["id"], post_commithook_properties=hooks)
                case "repair":
                    table.repair(post_commithook_properties=hooks)
                case "checkpoint":
                    table.create_checkpoint()
                case "clean up log":
                    table.cleanup_metadata()
            self._deltalake_did(self.rows)

    @precondition(lambda self: not self.has_vectors)
    @rule(is_full=st.booleans(), is_all=st.booleans(), keep=any_version)
    def deltalake_vacuums(self, is_full: bool, is_all: bool, keep: int) -> None:
        if not self._cleans_up():
            return
        kept = self.chosen(keep)
        with self.table.step():
            DeltaTable(self.table.root).vacuum(
                retention_hours=0 if is_all else None,
                dry_run=False,
                enforce_retention_duration=False,
                full=is_full,
                keep_versions=[kept],
                post_commithook_properties=self._hooks(),
            )
            self._deltalake_did(self.rows)
            retention_ms = 0 if is_all else self.table.state.retention_ms
            self.table.deltalake_may_have_vacuumed(retention_ms, keep=[kept])

    @precondition(lambda self: not self.has_vectors)
    @rule(version=any_version)
    def deltalake_restores(self, version: int) -> None:
        chosen = self.chosen(version)
        if chosen == self.table.latest:  # it refuses
            return
        then = self.table.states[chosen]
        with self.table.step():
            DeltaTable(self.table.root).restore(chosen, post_commithook_properties=self._hooks())
            self.table.becomes(replace(then, txns=self.table.state.txns))
            self.table.others_may_have_cleaned_up()

    @precondition(lambda self: not self.has_vectors)
    @rule(number=any_version, is_foreign=st.booleans())
    def lose_a_file_and_repair(self, number: int, is_foreign: bool) -> None:
        adds = sorted(self.table.log.snapshot().add_files(), key=lambda add: add.path)
        if len(adds) < 2:
            return
        lost = adds[number % len(adds)]
        left = self.table.rows_without(lost)
        with self.table.step():
            self.table.loses_file(lost)
            if is_foreign:
                DeltaTable(self.table.root).repair(post_commithook_properties=self._hooks())
                self._deltalake_did(left)
            else:
                repair(self.table.log, remove_missing=True)
                self.becomes(left)

"""The state machine of maintenance with delta-spark in it: it writes, maintains and reads as well.

After each step the latest version and an older one are read by it too, and what it replays is
compared with the checksum. Tables with deletion vectors and change data are its own: we read them,
and maintain of them what needs no writing of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from delta_ops.clock import HOUR_MS, system_clock
from tests.maintenance.machine_with_deltalake import MachineWithDeltalake
from tests.maintenance.maintenance_machine import (
    RETENTIONS,
    Rows,
    any_version,
    apps,
    least_ids,
    many_histories,
    merge_rows,
    partitions,
    some_rows,
)
from tests.peers.delta_spark import DeltaSpark, DeltaSparkError
from tests.transaction.row_changes import table_of

pytestmark = pytest.mark.long

EXAMPLES, STEPS = 5, 14
SETTINGS = {
    # Otherwise a retention other than 0 becomes the table's property, ...
    "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",
    # ... and an older version is rejected, even if its files exist.
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
}
REWRITES = ("OPTIMIZE {}", "OPTIMIZE {} ZORDER BY (id)", "REORG TABLE {} APPLY (PURGE)")
NOT_ENOUGH_LOG = "DELTA_CANNOT_VACUUM_LITE"


@pytest.fixture
def peer(delta_spark: DeltaSpark) -> Iterator[DeltaSpark]:
    for name, value in SETTINGS.items():
        delta_spark.sql(f"SET {name}={value}")
    yield delta_spark
    for name in SETTINGS:
        delta_spark.sql(f"RESET {name}")


class MachineWithDeltaSpark(MachineWithDeltalake):
    peer: ClassVar[DeltaSpark]
    """Set before a run, because Hypothesis creates the instances."""

    def __init__(self) -> None:
        super().__init__()
        self.num_steps = 0

    @property
    def is_ours(self) -> bool:
        return not self.has_vectors

    @property
    def name(self) -> str:
        return f"delta.`{self.table.root}`"

    def create_empty(self, properties: dict[str, str]) -> None:
        if self.is_ours:
            super().create_empty(properties)
            return
        listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        self.peer.sql(
            f"CREATE TABLE {self.name} (id bigint, p string) USING delta PARTITIONED BY (p) "
            f"TBLPROPERTIES ({listed})"
        )

    def write(self, rows: Rows) -> None:
        if self.is_ours:
            super().write(rows)
        else:
            self.peer.write(self.table.root, table_of(rows))

    def did(self, rows: Rows | list[tuple[int, str]], **txns: int) -> None:
        """A commit, then its hooks: a checkpoint, and a clean-up with it."""
        self.becomes(rows, **txns)
        self.table.others_may_have_cleaned_up()

    @rule(rows=some_rows, app=apps, is_new=st.booleans())
    def spark_appends(self, rows: Rows, app: str, is_new: bool) -> None:
        self.last_txn += is_new
        is_done = self.table.state.txns.get(app, -1) >= self.last_txn
        options = {"txnAppId": app, "txnVersion": str(self.last_txn)}
        with self.table.step():
            self.peer.write(self.table.root, table_of(rows), **options)
            if not is_done:
                self.did([*self.rows, *rows], **{app: self.last_txn})

    @rule(least=least_ids)
    def spark_deletes(self, least: int) -> None:
        with self.table.step():
            self.peer.sql(f"DELETE FROM {self.name} WHERE id >= {least}")
            self.did([row for row in self.rows if row[0] < least])

    @rule(partition=partitions)
    def spark_updates(self, partition: str) -> None:
        with self.table.step():
            self.peer.sql(f"UPDATE {self.name} SET id = id + 1 WHERE p = '{partition}' AND id < 5")
            changed = [(i + (p == partition and i < 5), p) for i, p in self.rows]
            self.did(changed)

    @rule(rows=some_rows)
    def spark_merges(self, rows: Rows) -> None:
        values = ", ".join(f"({number}L, '{p}')" for number, p in rows)
        with self.table.step():
            self.peer.sql(
                f"MERGE INTO {self.name} t USING (SELECT * FROM VALUES {values} AS s(id, p)) s "
                "ON t.id = s.id AND t.p = s.p "
                "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
            )
            self.did(merge_rows(self.rows, rows))

    @rule(statement=st.sampled_from(REWRITES))
    def spark_rewrites(self, statement: str) -> None:
        with self.table.step():
            self.peer.sql(statement.format(self.name))
            self.did(self.rows)

    @rule()
    def spark_checkpoints(self) -> None:
        """And cleans up the log."""
        with self.table.step():
            self.peer.checkpoint(self.table.root)
            self.did(self.rows)

    @rule(is_lite=st.booleans(), is_all=st.booleans())
    def spark_vacuums(self, is_lite: bool, is_all: bool) -> None:
        with self.table.step():
            self._vacuum(is_lite, "RETAIN 0 HOURS" if is_all else "")
            retention_ms = 0 if is_all else self.table.state.retention_ms
            self.table.may_have_vacuumed(retention_ms)

    @rule(back_to=any_version, is_lite=st.booleans())
    def spark_vacuums_back_to(self, back_to: int, is_lite: bool) -> None:
        """With about the shortest retention that keeps a version whole; it rounds to hours."""
        slack_ms = 3000
        horizon_ms = self.table.removed_ms(self.chosen(back_to))
        hours = -(-(system_clock() - horizon_ms + slack_ms) // HOUR_MS)
        with self.table.step():
            self._vacuum(is_lite, f"RETAIN {hours} HOURS")
            self.table.may_have_vacuumed(hours * HOUR_MS)

    def _vacuum(self, is_lite: bool, retain: str) -> None:
        try:
            self.peer.sql(f"VACUUM {self.name} {'LITE' if is_lite else ''} {retain}")
        except DeltaSparkError as error:
            if not is_lite or NOT_ENOUGH_LOG not in str(error):
                raise
        self.did(self.rows)

    @rule(version=any_version)
    def spark_restores(self, version: int) -> None:
        chosen = self.chosen(version)
        then = self.table.states[chosen]
        with self.table.step():
            self.peer.sql(f"RESTORE TABLE {self.name} TO VERSION AS OF {chosen}")
            self.table.becomes(replace(then, txns=self.table.state.txns))
            self.table.others_may_have_cleaned_up()

    @precondition(lambda self: not self.is_ours)
    @rule(retention=st.sampled_from(sorted(RETENTIONS)))
    def spark_promises(self, retention: str) -> None:
        with self.table.step():
            self.peer.sql(
                f"ALTER TABLE {self.name} SET TBLPROPERTIES "
                f"('delta.deletedFileRetentionDuration' = '{retention}')"
            )
            self.table.becomes(replace(self.table.state, retention_ms=RETENTIONS[retention]))
            self.table.others_may_have_cleaned_up()

    def check(self) -> None:
        super().check()
        self.num_steps += 1
        older = self.chosen(self.num_steps)
        for version in {self.table.latest, older}:
            found = self.peer.sql(f"SELECT id, p FROM {self.name} VERSION AS OF {version}")
            seen = tuple(sorted((row["id"], row["p"]) for row in found))
            assert seen == self.table.states[version].rows, f"version {version} by delta-spark"
        assert self.peer.validate(self.table.root)["version"] == self.table.latest


def test_with_delta_spark_every_promised_version_is_what_it_was(peer: DeltaSpark) -> None:
    MachineWithDeltaSpark.peer = peer
    run_state_machine_as_test(
        MachineWithDeltaSpark,
        settings=many_histories(EXAMPLES, STEPS),
    )

"""A state machine of our writers and our maintenance on one table, against a model of it.

After each step, we and deltalake read every version that is still promised. Maintenance may be
killed at any of its storage calls.

A table depends on how long its history took, but drawn values must not, or no history could be
replayed. So a rule draws numbers, and maps them to versions and files when it runs; if the table
does not suit a rule, the rule returns. (`assume` would end the history there.)
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Literal

import pyarrow as pa
from hypothesis import HealthCheck, Phase, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import delta_ops.arrow as da
from delta_ops import DeltaLog, begin, col
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.ddl import set_properties
from delta_ops.errors import CommitConflictError, InvalidRequestError
from delta_ops.maintenance import (
    auto_compact,
    clean_up_log,
    compact_log,
    create_checkpoint,
    maintain,
    optimize,
    purge,
    repair,
    restore,
    revert,
    vacuum,
)
from delta_ops.transaction import DEFAULT_HOOKS
from tests.maintenance.maintained_table import MaintainedTable, State
from tests.support.counting_storage import CountingStorage
from tests.support.faulty_storage import Killed, MortalStorage
from tests.transaction.row_changes import Row, table_of

Kind = Literal["classic", "v2", "vectors", "vectors and v2"]
Rows = tuple[Row, ...]

PARTITIONS = ("a", "b c")
RETENTIONS = {"interval 1 second": 1000, "interval 7 days": 7 * DAY_MS}
OF_KIND: Mapping[Kind, Mapping[str, str]] = {
    "classic": {},
    "v2": {"delta.checkpointPolicy": "v2"},
    "vectors": {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"},
    "vectors and v2": {"delta.enableDeletionVectors": "true", "delta.checkpointPolicy": "v2"},
}
OURS: Mapping[str, Callable[[DeltaLog], object]] = {
    "checkpoint": create_checkpoint,
    "checkpoint of parts": lambda log: create_checkpoint(log, part_rows=1),
    "clean up log": clean_up_log,
    "compact log": compact_log,
    "maintain": maintain,
    "optimize": lambda log: optimize(log, target_size=1 << 20),
    "lay out": lambda log: optimize(log, zorder_by=["id"]),
    "lay out all, in commits": lambda log: optimize(
        log, zorder_by=["id"], full=True, commit_bytes=1
    ),
    "purge": purge,
    "repair": repair,
    "vacuum": lambda log: vacuum(log, batch_files=1),
    "vacuum lite": lambda log: _unless_refused(vacuum, log, mode="lite"),
    "vacuum by inventory": lambda log: vacuum(log, inventory=_inventory(Path(log.storage.uri))),
}

partitions = st.sampled_from(PARTITIONS)
ids = st.integers(0, 9)
some_rows = st.lists(st.tuples(ids, partitions), min_size=1, max_size=4, unique=True).map(tuple)
least_ids = st.sampled_from([0, 3, 7])
apps = st.sampled_from(["writer 0", "writer 1"])
any_version = st.integers(0, 99)
"""A promised version: its index from the oldest, modulo their number."""
kills = st.none() | st.integers(1, 40)
"""The storage call that kills a process."""


class MaintenanceMachine(RuleBasedStateMachine):
    """A rule for tables that we create, or for any table."""

    kinds: tuple[Kind, ...] = ("classic", "v2", "vectors", "vectors and v2")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.table = MaintainedTable(self.folder / "t")
        self.kind: Kind = "classic"
        self.last_txn = 0
        self.seen_files: set[str] = set()
        self.was_vacuum_killed = False

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @initialize(data=st.data(), rows=some_rows, interval=st.sampled_from(["2", "5", "100"]))
    def create(self, data: st.DataObject, rows: Rows, interval: str) -> None:
        self.kind = data.draw(st.sampled_from(self.kinds))
        retention = data.draw(st.sampled_from(sorted(RETENTIONS)))
        properties = {
            **OF_KIND[self.kind],
            "delta.autoOptimize.autoCompact": "true",
            "delta.checkpointInterval": interval,
            "delta.deletedFileRetentionDuration": retention,
        }
        with self.table.step():
            self.create_empty(properties)
            self.table.becomes(State(rows=(), retention_ms=RETENTIONS[retention]))
            self.write(rows)
            self.becomes(rows)

    def create_empty(self, properties: dict[str, str]) -> None:
        da.write(self.table.log, table_of([]), partition_by=["p"], configuration=properties)

    def write(self, rows: Rows) -> None:
        da.write(self.table.log, table_of(rows))

    @property
    def rows(self) -> Rows:
        return self.table.state.rows

    @property
    def is_ours(self) -> bool:
        """Whether we created it."""
        return True

    @property
    def has_vectors(self) -> bool:
        return self.kind not in ("classic", "v2")

    def becomes(self, rows: list[Row] | Rows, **txns: int) -> None:
        state = self.table.state
        new = replace(state, rows=tuple(sorted(rows)), txns={**state.txns, **txns})
        self.table.becomes(new)

    def chosen(self, number: int) -> int:
        return self.table.promised[number % len(self.table.promised)]

    @rule(days=st.sampled_from([1, 8, 40]))
    def age(self, days: int) -> None:
        self.table.ages(days)

    @rule(path=st.sampled_from(["x.parquet", "p=a/y z.parquet", "other/deletion_vector.bin"]))
    def orphan(self, path: str) -> None:
        self.table.put_orphan(path)

    @rule(rows=some_rows, app=apps, is_new=st.booleans())
    def append(self, rows: Rows, app: str, is_new: bool) -> None:
        """Write with a txn that may have been written before, and may have been undone since."""
        self.last_txn += is_new
        is_done = self.table.state.txns.get(app, -1) >= self.last_txn
        with self.table.step():
            da.write(self.table.log, table_of(rows), txn=(app, self.last_txn))
            if not is_done:
                self.becomes([*self.rows, *rows], **{app: self.last_txn})

    @rule(rows=some_rows, kill=kills)
    def append_and_compact(self, rows: Rows, kill: int | None) -> None:
        hooks = (*DEFAULT_HOOKS, auto_compact(min_files=2))
        self.changes_rows(
            lambda log: da.write(log, table_of(rows), hooks=hooks), [*self.rows, *rows], kill
        )

    @rule(partition=partitions, rows=some_rows)
    def replace_partition(self, partition: str, rows: Rows) -> None:
        new = tuple({(number, partition) for number, _ in rows})
        predicate = col("p") == partition
        with self.table.step():
            da.write(self.table.log, table_of(new), "overwrite", replace_where=predicate)
            self.becomes([*(row for row in self.rows if row[1] != partition), *new])

    @rule(least=least_ids, kill=kills)
    def delete(self, least: int, kill: int | None) -> None:
        left = [row for row in self.rows if row[0] < least]
        self.changes_rows(lambda log: da.delete(log, col("id") >= least), left, kill)

    @rule(partition=partitions, kill=kills)
    def update(self, partition: str, kill: int | None) -> None:
        chosen = (col("p") == partition) & (col("id") < 5)
        new = [(n + 1, p) if p == partition and n < 5 else (n, p) for n, p in self.rows]
        self.changes_rows(lambda log: da.update(log, {"id": "id + 1"}, chosen), new, kill)

    @rule(source=some_rows, kill=kills)
    def merge(self, source: Rows, kill: int | None) -> None:
        def run(log: DeltaLog) -> object:
            on = "target.id = source.id AND target.p = source.p"
            merge = da.merge(log, table_of(source), on).when_matched_delete()
            return merge.when_not_matched_insert_all().execute()

        self.changes_rows(run, merge_rows(self.rows, source), kill)

    def changes_rows(
        self, run: Callable[[DeltaLog], object], after: list[Row], kill: int | None
    ) -> None:
        """A change of rows. It may leave no commit if it changes no row or is killed."""
        before = self.table.num_committed()
        with self.table.step():
            self.killed_at(kill, run)
            if self.table.num_committed() > before:
                self.becomes(after)

    @precondition(lambda self: self.is_ours)
    @rule(owner=st.sampled_from(["me", "you"]), kill=kills)
    def alter(self, owner: str, kill: int | None) -> None:
        """A change of the table's definition that keeps its rows."""
        self.changes_rows(lambda log: set_properties(log, {"owner": owner}), [*self.rows], kill)

    @precondition(lambda self: self.is_ours)
    @rule(retention=st.sampled_from(sorted(RETENTIONS)))
    def promise(self, retention: str) -> None:
        with self.table.step():
            transaction = begin(self.table.log)
            transaction.set_properties({"delta.deletedFileRetentionDuration": retention})
            transaction.commit(operation="SET TBLPROPERTIES")
            self.table.becomes(replace(self.table.state, retention_ms=RETENTIONS[retention]))

    @rule(name=st.sampled_from(sorted(OURS)), kill=kills)
    def maintain(self, name: str, kill: int | None) -> None:
        assume(name != "checkpoint of parts" or self.kind == "classic")
        with self.table.step():
            was_killed = self.killed_at(kill, OURS[name])
            self.becomes(self.rows)
            if name.startswith(("vacuum", "maintain")):
                self.was_vacuum_killed |= was_killed
                self.table.may_have_vacuumed(self.table.state.retention_ms)
            if name in ("clean up log", "maintain"):
                self.table.may_have_cleaned_up()

    @rule(
        back_to=any_version,
        keep=any_version,
        keep_last=st.integers(0, 4),
        is_lite=st.booleans(),
        kill=kills,
    )
    def vacuum_back_to(
        self, back_to: int, keep: int, keep_last: int, is_lite: bool, kill: int | None
    ) -> None:
        """Vacuum with the shortest retention that keeps a version whole."""
        kept = self.chosen(keep)
        last = range(self.table.latest - keep_last + 1, self.table.latest + 1)
        horizon_ms = self.table.removed_ms(self.chosen(back_to))
        now_ms = max(system_clock(), horizon_ms)

        def run(log: DeltaLog) -> object:
            return _unless_refused(
                vacuum,
                log,
                retention=timedelta(milliseconds=now_ms - horizon_ms),
                enforce_retention=False,
                keep_versions=[kept],
                keep_last=keep_last,
                mode="lite" if is_lite else "full",
                clock=lambda: now_ms,
            )

        with self.table.step():
            self.was_vacuum_killed |= self.killed_at(kill, run)
            self.becomes(self.rows)
            keeps = {kept, *last}
            self.table.may_have_vacuumed(now_ms - horizon_ms, now_ms=now_ms, keep=keeps)

    @precondition(lambda self: self.kind == "classic")
    @rule()
    def leave_a_part_of_a_checkpoint(self) -> None:
        """Leave an incomplete multi-part checkpoint, as a killed engine does."""
        parts: list[str] = []

        def die(_number: int, method: str, path: str, when: str) -> None:
            if (method, when) == ("create_from_stream", "after") and ".checkpoint.0" in path:
                parts.append(path)
                raise Killed

        log = DeltaLog("", storage=CountingStorage(self.table.log.storage, die))
        with self.table.step():
            try:
                create_checkpoint(log, part_rows=1)
            except Killed:
                (part,) = parts
                whole = part.partition(".checkpoint.")[0] + ".checkpoint.parquet"
                (self.table.root / whole).unlink()

    @rule(version=any_version, kill=kills)
    def restore(self, version: int, kill: int | None) -> None:
        chosen = self.chosen(version)
        then, now = self.table.states[chosen], self.table.state
        before = self.table.num_committed()
        with self.table.step():
            self.bring_back(kill, partial(restore, version=chosen))
            if kill is None or self.table.num_committed() > before:
                txns = {app: then.txns.get(app, -1) for app in now.txns}
                self.table.becomes(replace(then, txns=txns))

    @rule(kill=kills)
    def revert(self, kill: int | None) -> None:
        """The last commit, if nobody may have deleted the files before it."""
        if self.table.promised[-2:] != [self.table.latest - 1, self.table.latest]:
            return
        before, now = self.table.states[-2:]
        number = self.table.num_committed()
        with self.table.step():
            try:
                self.bring_back(kill, partial(revert, version=self.table.latest))
            except InvalidRequestError as error:
                if "it changed the schema, partitioning or properties" not in str(error):
                    raise
                return
            if self.table.num_committed() > number or kill is None:
                txns = {app: before.txns.get(app, -1) for app in now.txns}
                self.table.becomes(replace(now, rows=before.rows, txns=txns))

    def bring_back(self, kill: int | None, run: Callable[..., object]) -> None:
        """Do not mention the killed vacuum unless the operation requires it."""
        try:
            self.killed_at(kill, run)
        except CommitConflictError as error:
            if not (self.was_vacuum_killed and "vacuum_was_killed" in str(error)):
                raise
            self.killed_at(kill, partial(run, vacuum_was_killed=True))

    def killed_at(self, call: int | None, run: Callable[[DeltaLog], object]) -> bool:
        """Run an operation on the table; return whether it was killed before its end."""
        if call is None:
            run(self.table.log)
            return False
        try:
            run(DeltaLog("", storage=MortalStorage(self.table.log.storage, call, "before")))
        except Killed:
            return True
        return False

    @invariant()
    def every_promised_version_is_what_it_was(self) -> None:
        files = self.table.files()
        if files != self.seen_files:  # otherwise every file would look the same
            self.check()
        self.seen_files = files

    def check(self) -> None:
        self.table.check()


def many_histories(number: int, steps: int) -> settings:
    """A setting for long runs: do not shrink the history of a failure.

    Shrinking would take an hour, and a shorter history has other times, so it is another history.
    """
    return settings(
        max_examples=number,
        stateful_step_count=steps,
        deadline=None,
        phases=(Phase.explicit, Phase.reuse, Phase.generate),
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )


def merge_rows(rows: Rows, source: Rows) -> list[Row]:
    """Rows of `source` are deleted if they exist, and inserted otherwise."""
    left = [row for row in rows if row not in source]
    return [*left, *(row for row in source if row not in rows)]


def _inventory(root: Path) -> pa.Table:
    found = [place for place in sorted(root.rglob("*")) if place.is_file()]
    return pa.table(
        {
            "path": [str(place) for place in found],
            "length": pa.array([place.stat().st_size for place in found], pa.int64()),
            "isDir": pa.array([False] * len(found)),
            "modificationTime": pa.array(
                [place.stat().st_mtime_ns // 1_000_000 for place in found], pa.int64()
            ),
        }
    )


def _unless_refused(run: Callable[..., object], log: DeltaLog, **options: object) -> object:
    """Run a vacuum by the log, which may be rejected if the log is incomplete."""
    try:
        return run(log, **options)
    except InvalidRequestError as error:
        if not ("run a full vacuum" in str(error) or "cannot be kept" in str(error)):
            raise
        return None

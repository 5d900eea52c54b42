"""Optimize on real tables."""

from __future__ import annotations

import errno
import importlib
import json
import random
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import delta_ops.arrow as da
from delta_ops import DeltaLog, Snapshot, begin, col
from delta_ops.arrow.engine import ArrowEngine
from delta_ops.arrow.read.scan import read_files
from delta_ops.ddl import set_properties
from delta_ops.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    DataFileError,
    InvalidRequestError,
    StorageError,
    TableNotFoundError,
)
from delta_ops.events import Committed, Event, Progress
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import OptimizeResult, optimize
from delta_ops.protocol.actions import AddFile
from delta_ops.protocol.file_paths import canonical_path
from delta_ops.transaction import RewriteGroup, Staged
from tests.maintenance.aged_tables import Table, fragmented, reopened
from tests.support.built_once import built_once
from tests.support.counting_storage import CountingStorage
from tests.support.tables import live_paths, rows, rows_by_deltalake, rows_by_polars

SMALL = 10_000
VECTORS = {"delta.enableDeletionVectors": "true"}


def actions(table: Table, version: int) -> list[dict[str, Any]]:
    text = (table.root / "_delta_log" / f"{version:020d}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_the_rows_stay_and_the_files_become_fewer(tmp_path: Path) -> None:
    table = fragmented(tmp_path / "t")
    before = table.rows()
    result = optimize(table.log, target_size=SMALL)
    assert (result.version, result.files_removed, result.files_added) == (6, 6, 2)
    assert result.bytes_removed > result.bytes_added > 0
    assert table.log.snapshot().num_files == 2
    assert table.rows() == before == rows_by_deltalake(table.root) == rows_by_polars(table.root)


def test_statistics_stay(tmp_path: Path) -> None:
    table = fragmented(tmp_path / "t")
    optimize(table.log, target_size=SMALL)
    files = table.log.snapshot().files(["num_records"])
    assert sorted(files["num_records"].to_pylist()) == [6, 6]
    assert len(table.log.snapshot().add_files(col("id") > 200)) == 0


def test_with_nothing_to_do_there_is_no_commit(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    table.write([1])
    result = optimize(table.log)
    assert (result.plan.has_work, result.version) == (False, None)
    assert table.log.snapshot().version == 0


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    table = fragmented(tmp_path / "t")
    before = table.files()
    result = optimize(table.log, target_size=SMALL, dry_run=True)
    assert (result.plan.num_files, len(result.plan.groups), table.files()) == (6, 2, before)


@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 3000), st.sampled_from("ab")), min_size=1, max_size=6),
    target=st.integers(500, 20_000),
)
def test_a_second_run_has_nothing_to_do(
    tmp_path: Path, sizes: list[tuple[int, str]], target: int
) -> None:
    shutil.rmtree(tmp_path / "t", ignore_errors=True)
    table = Table(tmp_path / "t")
    for size, partition in sizes:
        table.write(range(size), partition, partition_by=["p"])
    before = table.rows()
    first = optimize(table.log, target_size=target)
    assert table.rows() == before
    assert table.data_files() >= live_paths(table.log)
    assert len(table.data_files()) == len(sizes) + first.files_added
    second = optimize(table.log, target_size=target)
    assert not second.plan.has_work


def shrinking(snapshot: Snapshot, group: RewriteGroup) -> Staged:
    """Writes small files as one file, smaller than their sum."""
    assert sum(file.size for file in group.files) <= group.target_size_bytes
    batches = read_files(snapshot, group.files, snapshot.arrow_schema.names)
    rows = pa.Table.from_batches(batches).combine_chunks()
    return da.stage_write(DeltaLog(snapshot.uri), rows)


def test_outputs_that_fit_together_again_are_put_together_at_once(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    for number in range(9):
        table.write([number])
    before = table.rows()
    size = table.log.snapshot().size_bytes // 9
    result = optimize(table.log, target_size=size * 3 + size // 2, engine=shrinking)
    assert len(result.plan.groups) == 3
    assert (result.files_removed, result.files_added) == (9, 1)
    assert len(table.data_files()) == 10
    assert table.rows() == before


@pytest.mark.parametrize(
    ("num_files", "share"),
    [
        pytest.param(40, 0.6, id="a sample shows how much they shrink"),
        pytest.param(8, 0.85, id="files too few for a sample are taken to shrink"),
        pytest.param(8, 0.95, id="only one file does not fit with the others before they shrink"),
    ],
)
def test_files_that_shrink_are_rewritten_about_once(
    tmp_path: Path, num_files: int, share: float
) -> None:
    place, rewritten = tmp_path / "t", list[int]()
    codec = {"delta.parquet.compression.codec": "uncompressed"}
    for n in range(num_files):
        values = [f"{(n * 1000 + i) * 7919 % 1_000_003:07d}" for i in range(1000)]
        da.write(place, pa.table({"text": values}), configuration=codec if n == 0 else None)
    set_properties(place, {"delta.parquet.compression.codec": None})
    before = rows(da.to_table(place))
    live = list(DeltaLog(place).snapshot().add_files())
    total = sum(add.size for add in live)

    def engine(snapshot: Snapshot, group: RewriteGroup) -> Staged:
        rewritten.append(group.size_bytes)
        return da.rewrite(snapshot, group)

    result = optimize(place, target_size=int(total * share), engine=engine)
    assert (result.files_removed, result.files_added) == (num_files, 1)
    assert sum(rewritten) < total * 1.1
    assert len(list(place.glob("*.parquet"))) == num_files + 1
    assert rows(da.to_table(place)) == before


def test_only_the_selected_partitions(tmp_path: Path) -> None:
    table = fragmented(tmp_path / "t")
    result = optimize(table.log, target_size=SMALL, predicate=col("p") == "a")
    assert (result.files_removed, result.files_added) == (3, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"predicate": col("id") == 1}, "id is not a partition column", id="of rows"),
        pytest.param({"predicate": col("x") == 1}, "x", id="of a column that is not there"),
        pytest.param({"target_size": 0}, "must be positive", id="no size"),
        pytest.param({"min_files": 1}, "at least 2", id="groups of one"),
    ],
)
def test_arguments_that_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    table = fragmented(tmp_path / "t")
    with pytest.raises(InvalidRequestError, match=message):
        optimize(table.log, **options)


def test_without_a_table_there_is_nothing_to_optimize(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        optimize(DeltaLog(tmp_path / "t"))


@pytest.mark.parametrize(
    ("properties", "files"),
    [
        pytest.param({"delta.targetFileSize": "1b"}, 6, id="the property says how large"),
        pytest.param({}, 2, id="128 MiB without one"),
        pytest.param({"delta.targetFileSize": "99999999tb"}, 2, id="more than Arrow counts"),
    ],
)
def test_the_target_size_of_the_table(
    tmp_path: Path, properties: dict[str, str], files: int
) -> None:
    table = Table(tmp_path / "t")
    for number in range(6):
        table.write([number], "ab"[number % 2], partition_by=["p"], configuration=properties)
    optimize(table.log)
    assert table.log.snapshot().num_files == files


def while_rewriting(do: Callable[[], object]) -> Callable[[Snapshot, RewriteGroup], Staged]:
    """The engine of this process, with an action during its work."""

    def engine(snapshot: Snapshot, group: RewriteGroup) -> Staged:
        staged = da.rewrite(snapshot, group)
        do()
        return staged

    return engine


class PairingEngine(ArrowEngine):
    """Rewrites a group only while it rewrites another group."""

    def __init__(self) -> None:
        self.both = Barrier(2)

    def num_rewrites_at_once(self) -> int:
        return 2

    def rewrite(self, snapshot: Snapshot, group: RewriteGroup) -> Staged:
        self.both.wait(timeout=30)
        return super().rewrite(snapshot, group)


def test_an_engine_rewrites_as_many_groups_at_once_as_it_says(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    for number in range(4):
        table.write([number], "ab"[number % 2], partition_by=["p"])
    assert optimize(table.log, engine=PairingEngine()).files_added == 2


def test_a_value_that_is_no_engine_is_refused(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    with pytest.raises(InvalidRequestError, match="give an Engine, a function, or None"):
        optimize(table.log, engine="spark")  # type: ignore[arg-type]


def test_rows_appended_meanwhile_do_not_matter(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    for number in range(3):
        table.write([number])
    result = optimize(table.log, engine=while_rewriting(lambda: table.write([99])))
    assert result.version == 4
    assert [row["id"] for row in table.rows()] == [0, 1, 2, 99]


def test_rows_deleted_meanwhile_stay_deleted(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    for number in range(3):
        table.write([number])
    delete = while_rewriting(lambda: table.write([99], mode="overwrite"))
    with pytest.raises(CommitConflictError):
        optimize(table.log, engine=delete)
    assert [row["id"] for row in table.rows()] == [99]
    assert len(table.data_files()) == 4


def once(act: Callable[[], object]) -> Callable[[], object]:
    todo = [act]
    return lambda: todo.pop()() if todo else None


def test_groups_that_nobody_touched_are_committed(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    for number in range(6):
        table.write([number], "abc"[number % 3], partition_by=["p"])
    replace_a = once(
        lambda: table.write([99], "a", mode="overwrite", replace_where=col("p") == "a")
    )
    result = optimize(table.log, engine=while_rewriting(replace_a))
    assert (result.version, result.files_removed, result.files_added) == (7, 4, 2)
    assert (result.plan.num_files, result.files_left_to_others) == (6, 2)
    assert [row["id"] for row in table.rows()] == [1, 2, 4, 5, 99]
    live = live_paths(table.log)
    assert len(live) == 3
    # The lost group's output is deleted; its replaced files stay until vacuum.
    assert len(table.data_files()) == 6 + 1 + 2


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("order", [{}, {"zorder_by": ["id"]}])
@pytest.mark.parametrize("had_vector", [False, True])
def test_rows_deleted_by_vectors_while_another_group_is_lost_stay_deleted(
    tmp_path: Path, order: dict[str, Any], had_vector: bool
) -> None:
    table = Table(tmp_path / "t")
    for number in range(6):
        ids = [number, number + 10, number + 20]
        table.write(ids, "abc"[number % 3], partition_by=["p"], configuration=VECTORS)
    if had_vector:
        da.delete(table.log, col("id") == 14)

    def change() -> None:
        da.delete(table.log, col("id") == 4)
        table.write([99], "a", mode="overwrite", replace_where=col("p") == "a")

    result = optimize(table.log, engine=while_rewriting(once(change)), **order)
    assert (result.files_removed, result.files_added) == (2, 1)
    expected = [1, 2, 5, 11, 12, 14, 15, 21, 22, 24, 25, 99]
    if had_vector:
        expected.remove(14)
    assert sorted(row["id"] for row in table.rows()) == expected
    # The lost groups' outputs are deleted; their replaced files stay until vacuum.
    assert len(table.data_files()) == 6 + 1 + 1


def test_rows_removed_before_the_next_attempt_stay_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(tmp_path / "t")
    for number in range(6):
        table.write([number], "abc"[number % 3], partition_by=["p"])

    def replace(partition: str, value: int) -> Callable[[], object]:
        return lambda: table.write(
            [value], partition, mode="overwrite", replace_where=col("p") == partition
        )

    begins = iter([lambda: None, replace("b", 98)])

    def begin_late(log: DeltaLog, **options: Any) -> Any:
        next(begins)()
        return begin(log, **options)

    module = importlib.import_module("delta_ops.maintenance.optimize.run")
    monkeypatch.setattr(module, "begin", begin_late)
    optimize(table.log, engine=while_rewriting(once(replace("a", 99))))
    assert [row["id"] for row in table.rows()] == [2, 5, 98, 99]


def test_a_table_that_was_changed_meanwhile_is_left_as_it_is(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    for number in range(4):
        table.write([number], "ab"[number % 2], partition_by=["p"])

    def delete_and_change() -> None:
        table.write([99], "a", mode="overwrite", replace_where=col("p") == "a")
        txn = begin(table.log)
        txn.set_properties({"owner": "a team"})
        txn.commit(operation="SET TBLPROPERTIES")

    with pytest.raises(CommitConflictError):
        optimize(table.log, engine=while_rewriting(once(delete_and_change)))
    assert [row["id"] for row in table.rows()] == [1, 3, 99]
    assert len(table.data_files()) == 5


def test_the_second_of_two_concurrent_runs_finds_its_work_done(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    for number in range(3):
        table.write([number])
    inner: list[OptimizeResult] = []
    other = while_rewriting(lambda: inner.append(optimize(table.log)))
    outer = optimize(table.log, engine=other)
    assert (inner[0].version, outer.version, outer.already_committed) == (3, 3, True)
    assert (outer.files_removed, outer.files_added) == (0, 0)
    assert len(table.data_files()) == 4
    assert table.log.snapshot().version == 3


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"max_bytes": 3}, id="within a budget"),
        pytest.param({"min_files": 3}, id="larger groups only"),
    ],
)
def test_a_run_that_did_less_has_not_done_the_work_of_another(
    tmp_path: Path, options: dict[str, int]
) -> None:
    table = Table(tmp_path / "t")
    for number in range(5):
        table.write([number], "aabbb"[number], partition_by=["p"])
    size = table.log.snapshot().size_bytes // 5 + 100
    options = {name: n * size if name == "max_bytes" else n for name, n in options.items()}
    inner: list[OptimizeResult] = []
    other = once(lambda: inner.append(optimize(table.log, **options)))  # type: ignore[arg-type]
    outer = optimize(table.log, engine=while_rewriting(other))
    assert (len(inner[0].plan.groups), outer.already_committed) == (1, False)
    assert table.log.snapshot().num_files == 2


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize(
    "fail_at",
    [
        pytest.param(1, id="on the first group"),
        pytest.param(2, id="on the second group"),
    ],
)
def test_an_engine_that_fails_leaves_nothing_behind(
    tmp_path: Path, fail_at: int, error: type[BaseException]
) -> None:
    table = fragmented(tmp_path / "t")
    before = table.files()
    calls = 0

    def engine(snapshot: Snapshot, group: RewriteGroup) -> Staged:
        nonlocal calls
        calls += 1
        if calls == fail_at:
            raise error
        return da.rewrite(snapshot, group)

    with pytest.raises(error):
        optimize(table.log, target_size=SMALL, engine=engine)
    assert table.files() == before


@built_once(reopened)
def in_four_partitions(root: Path) -> Table:
    """Two files in each."""
    table = Table(root)
    for part in range(8):
        table.write([part], str(part % 4), partition_by=["p"])
    return table


@pytest.mark.parametrize("number", range(4))
def test_no_concurrent_group_stays_if_one_fails(tmp_path: Path, number: int) -> None:
    table = in_four_partitions(tmp_path / "t")
    (lost, *_) = table.log.snapshot().add_files(col("p") == str(number))
    (table.root / lost.path).unlink()
    before = table.files()
    with pytest.raises(DataFileError, match="is missing"):
        optimize(table.log)
    assert table.files() == before


@pytest.mark.parametrize("number", range(1, 5))
def test_an_interrupt_while_groups_are_written_beside_each_other(
    tmp_path: Path, number: int
) -> None:
    table = in_four_partitions(tmp_path / "t")
    before = table.files()
    done: list[int] = []

    def listen(event: Event) -> None:
        if isinstance(event, Progress):
            done.append(event.done)
            if event.done == number:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        optimize(table.log, on_event=listen)
    assert done == list(range(1, number + 1))
    # The thread that finishes a file late deletes it.
    end = time.monotonic() + 60
    while table.files() != before and time.monotonic() < end:
        time.sleep(0.01)
    assert table.files() == before


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_an_interrupt_between_groups_and_rounds_leaves_nothing_behind(
    tmp_path: Path, number: int
) -> None:
    table = Table(tmp_path / "t")
    for each in range(9):
        table.write([each])
    before = table.files()
    # Without a sample, groups are a quarter larger: three groups, and a round on their outputs.
    target = table.log.snapshot().size_bytes // 9 * 14 // 5
    events: list[Event] = []

    def listen(event: Event) -> None:
        events.append(event)
        if len(events) == number:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        optimize(table.log, target_size=target, engine=shrinking, on_event=listen)
    assert all(isinstance(event, Progress) for event in events)
    assert table.files() == before


def changed_rows(change: int) -> Callable[[Snapshot, RewriteGroup], Staged]:
    def engine(snapshot: Snapshot, group: RewriteGroup) -> Staged:
        staged = da.rewrite(snapshot, group)
        return replace(staged, num_rows=staged.num_rows + change)

    return engine


def without_row(snapshot: Snapshot, group: RewriteGroup) -> Staged:
    """Silently loses a file's rows."""
    return da.rewrite(snapshot, replace(group, files=group.files[1:]))


def without_counting(snapshot: Snapshot, group: RewriteGroup) -> Staged:
    """Loses a file's rows and reports them as written."""
    whole, staged = da.rewrite(snapshot, group), without_row(snapshot, group)
    snapshot.storage.delete_many(canonical_path(a.path, snapshot.uri) for a in whole.adds)
    return replace(staged, num_rows=whole.num_rows)


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param(changed_rows(-1), id="it counts too few"),
        pytest.param(changed_rows(1), id="it counts too many"),
        pytest.param(without_row, id="it loses rows"),
        pytest.param(without_counting, id="it loses rows and does not know"),
    ],
)
def test_an_engine_that_does_not_keep_the_rows_is_found_out(
    tmp_path: Path, engine: Callable[[Snapshot, RewriteGroup], Staged]
) -> None:
    table = fragmented(tmp_path / "t")
    before = table.files()
    with pytest.raises(DataFileError, match="their statistics count"):
        optimize(table.log, target_size=SMALL, engine=engine)
    assert table.files() == before


def one_each(snapshot: Snapshot, group: RewriteGroup) -> Staged:
    """Writes one output file per input file."""
    return da.rewrite(snapshot, replace(group, target_size_bytes=1))


def test_an_engine_that_makes_no_fewer_files_changes_nothing(tmp_path: Path) -> None:
    table = fragmented(tmp_path / "t")
    before = table.files()
    result = optimize(table.log, target_size=SMALL, engine=one_each)
    assert (result.version, table.files()) == (None, before)


def pairs(snapshot: Snapshot, group: RewriteGroup) -> Staged:
    """Writes one output file for two input files."""
    target = group.files[0].size * 2 + 100
    return da.rewrite(snapshot, replace(group, target_size_bytes=target))


def test_an_engine_that_makes_several_files_of_a_group_is_taken_at_its_word(
    tmp_path: Path,
) -> None:
    table = Table(tmp_path / "t")
    for number in range(6):
        table.write([number])
    before = table.rows()
    result = optimize(table.log, engine=pairs)
    assert (result.files_removed, result.files_added) == (6, 3)
    assert table.rows() == before


class LostAnswer:
    """A storage whose first commit appears late and is invisible until then."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.in_flight: tuple[str, bytes] | None = None

    def create(self, path: str, data: bytes, **_: Any) -> None:
        self.in_flight = path, data
        raise StorageError(path, "created", "the connection was reset")

    def read(self, path: str) -> bytes:
        if self.in_flight and path == self.in_flight[0]:
            raise StorageError(path, "read", "the connection was reset")
        read: bytes = self._inner.read(path)
        return read

    def land(self) -> None:
        assert self.in_flight
        self._inner.create(*self.in_flight)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.mark.full  # it waits for the retries of the commit
def test_when_nobody_knows_whether_it_was_committed_no_file_is_deleted(tmp_path: Path) -> None:
    table = fragmented(tmp_path / "t")
    before = table.rows()
    storage = LostAnswer(table.log.storage)
    with pytest.raises(CommitStateUnknownError):
        optimize(DeltaLog("", storage=storage), target_size=SMALL)
    storage.land()
    assert table.log.snapshot().num_files == 2
    assert table.rows() == before


def test_a_listener_that_fails_after_the_commit_costs_no_file(tmp_path: Path) -> None:
    table = fragmented(tmp_path / "t")
    before = table.rows()

    def listen(event: Event) -> None:
        if isinstance(event, Committed):
            raise RuntimeError("the bar is broken")

    with pytest.raises(RuntimeError):
        optimize(table.log, target_size=SMALL, on_event=listen)
    assert table.log.snapshot().version == 6
    assert table.rows() == before


def storage_of_sixth_commit(table: Table, moment: str, fail: Callable[[], None]) -> CountingStorage:
    def on_call(_number: int, method: str, path: str, now: str) -> None:
        if path.endswith("00000000000000000006.json") and method != "read" and now == moment:
            fail()

    return CountingStorage(table.log.storage, on_call)


def test_an_interrupt_after_the_commit_costs_no_file(tmp_path: Path) -> None:
    table = fragmented(tmp_path / "t")
    before = table.rows()

    def interrupt() -> None:
        raise KeyboardInterrupt

    storage = storage_of_sixth_commit(table, "after", interrupt)
    with pytest.raises(KeyboardInterrupt):
        optimize(DeltaLog("", storage=storage), target_size=SMALL)
    assert table.log.snapshot().num_files == 2
    assert table.rows() == before


def test_a_commit_without_space_leaves_nothing_behind(tmp_path: Path) -> None:
    table = fragmented(tmp_path / "t")
    before = table.files()

    def fill() -> None:
        raise StorageError("6.json", "created", "no space is left") from OSError(errno.ENOSPC, "")

    storage = storage_of_sixth_commit(table, "before", fill)
    with pytest.raises(StorageError, match="no space is left"):
        optimize(DeltaLog("", storage=storage), target_size=SMALL)
    assert table.files() == before


def test_progress_is_reported(tmp_path: Path) -> None:
    table = fragmented(tmp_path / "t")
    events: list[Event] = []
    optimize(table.log, target_size=SMALL, on_event=events.append)
    done = [(event.done, event.total) for event in events if isinstance(event, Progress)]
    assert done == [(1, 2), (2, 2)]


def test_files_of_others_are_left_to_them(tmp_path: Path) -> None:
    theirs = Table(tmp_path / "theirs")
    theirs.write([1])
    (path,) = theirs.data_files()
    table = Table(tmp_path / "t")
    table.write([2])
    shallow: Sequence[AddFile] = [
        replace(each, path=f"file:{theirs.root / path}")
        for each in theirs.log.snapshot().add_files()
    ]
    create_commit(table.log.storage, table.log.log_directory, 1, shallow)
    assert not optimize(table.log).plan.has_work


def test_types_and_nulls_survive(tmp_path: Path) -> None:
    data = pa.table(
        {
            "t": pa.array([None, 0, 1], pa.timestamp("us", "UTC")),
            "d": pa.array([None, "1.50", "-2.25"]).cast(pa.decimal128(10, 2)),
            "l": pa.array([[1, None], None, []], pa.list_(pa.int32())),
            "m": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
            "s": pa.array([{"x": 1}, None, {"x": None}]),
            "p": pa.array([None, "", "ü/ %"]),
        }
    )
    for _ in range(2):
        da.write(tmp_path / "t", data, partition_by=["p"])
    before = rows(da.to_table(DeltaLog(tmp_path / "t")))
    assert optimize(DeltaLog(tmp_path / "t")).version == 2
    assert rows(da.to_table(DeltaLog(tmp_path / "t"))) == before


def test_too_large_files_are_split_and_small_files_joined(tmp_path: Path) -> None:
    noise = random.Random(1).sample(range(2**60), 30_000)
    da.write(tmp_path, pa.table({"id": noise}))
    for number in range(2):
        da.write(tmp_path, pa.table({"id": [number]}))
    (large, *_) = sorted(add.size for add in DeltaLog(tmp_path).snapshot().add_files())[::-1]
    result = optimize(tmp_path, target_size=large // 5, max_size=large // 2)
    assert (result.files_removed, result.files_added) == (3, 6)
    sizes = sorted(add.size for add in DeltaLog(tmp_path).snapshot().add_files())
    assert sizes[-1] < large // 2
    assert da.to_table(tmp_path)["id"].to_pylist().count(0) == 1
    assert sorted(da.to_table(tmp_path)["id"].to_pylist()) == sorted([*noise, 0, 1])
    again = optimize(tmp_path, target_size=large // 5, max_size=large // 2)
    assert (again.plan.has_work, again.version) == (False, None)


def test_files_that_are_cut_keep_the_order_of_their_rows(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": range(300_000)}))
    (add,) = DeltaLog(tmp_path).snapshot().add_files()
    assert optimize(tmp_path, target_size=add.size // 4, max_size=add.size // 2).files_added == 4
    assert len(DeltaLog(tmp_path).snapshot().add_files(col("id") == 77)) == 1


def test_pieces_of_split_files_are_not_split_again(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1]}))
    with pytest.raises(InvalidRequestError, match="at least twice the target size"):
        optimize(tmp_path, target_size=100, max_size=199)


def test_a_largest_size_does_not_go_with_an_order(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1]}))
    with pytest.raises(InvalidRequestError, match="leave out max_size"):
        optimize(tmp_path, zorder_by=["id"], max_size=1 << 40)

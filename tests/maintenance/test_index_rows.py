"""Rows of a scan with indexes are the rows of a scan without, whatever happens to the table."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

import delta_ops.arrow as da
from delta_ops import DeltaLog, Snapshot, col
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import (
    create_checkpoint,
    create_index,
    drop_index,
    list_indexes,
    optimize,
    refresh_index,
    restore,
)
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema.arrow_types import arrow_schema_from_schema
from delta_ops.storage import open_storage
from tests.protocol.test_predicate_properties import SCHEMA, TYPES, evaluate, predicates
from tests.protocol.typed_values import FEW
from tests.support.counting_storage import CountingStorage
from tests.support.tiers import seeded

PROPERTIES = {
    "delta.enableDeletionVectors": "true",
    "delta.dataSkippingNumIndexedCols": "0",  # statistics leave the work to the indexes
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A version of a table, and all of its rows; Hypothesis would print the rows."""

    snapshot: Snapshot
    rows: list[Any] = field(repr=False)


@pytest.fixture(scope="module")
def every_type(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """Files of random rows, an index on each column, deleted rows, and files without an index."""
    root, random = tmp_path_factory.mktemp("every_type"), seeded(0)
    choices = {path: [None, *FEW[data_type]] for path, data_type in TYPES.items()}
    choices[("p",)], choices[("q",)] = ["a"], [None, -0.0]

    def row() -> dict[str, Any]:
        values = {path: random.choice(choice) for path, choice in choices.items()}
        struct = {"x": values.pop(("st", "x")), "y": values.pop(("st", "y"))}
        place = random.choice([None, struct, struct])
        return {name: value for (name,), value in values.items()} | {"st": place}

    for number in range(10):
        rows = pa.Table.from_pylist([row() for _ in range(2)], arrow_schema_from_schema(SCHEMA))
        da.write(root, rows, partition_by=["p", "q"], configuration=None if number else PROPERTIES)
        if number == 4:
            da.delete(root, col("i") == FEW[TYPES[("i",)]][0])
            create_checkpoint(DeltaLog(root))
        if number == 8:
            for path in TYPES:
                create_index(root, "-".join(path), ".".join(path))
    snapshot = DeltaLog(root).snapshot()
    return Found(snapshot=snapshot, rows=da.to_table(snapshot).to_pylist())


def validate_rows(found: Found, predicate: Predicate) -> None:
    snapshot, full = found.snapshot, found.rows
    plan = da.explain_scan(snapshot, predicate)
    assert plan.problems == ()
    pruned = da.to_table(snapshot, predicate=predicate).to_pylist()
    expected = [each for each in full if evaluate(predicate, each)]
    assert sorted(map(repr, pruned)) == sorted(map(repr, expected))


@settings(max_examples=15, deadline=None)
@given(predicate=predicates())
def test_rows_of_each_type_and_condition(every_type: Found, predicate: Predicate) -> None:
    validate_rows(every_type, predicate)


@pytest.mark.long
@settings(max_examples=1500, deadline=None)
@given(predicate=predicates())
def test_rows_of_each_type_and_many_conditions(every_type: Found, predicate: Predicate) -> None:
    validate_rows(every_type, predicate)


def test_some_of_these_conditions_use_an_index(every_type: Found) -> None:
    snapshot = every_type.snapshot
    names = set()
    for path in TYPES:
        plan = da.explain_scan(snapshot, col(*path) == FEW[TYPES[path]][0])
        names |= {step.name for step in plan.steps}
    assert {f"index {'-'.join(path)}" for path in TYPES} - names <= {"index p", "index q"}


class _Table:
    """A table with an index, and changes to its rows."""

    def __init__(self, root: Path, has_vectors: bool) -> None:
        self.root, self.next = root, 0
        properties = {"delta.enableDeletionVectors": "true"} if has_vectors else {}
        self.properties = {**properties, "delta.deletedFileRetentionDuration": "interval 0 hours"}
        for _ in range(9):
            self.append(0)
        create_index(root, "ids", "id")

    def rows(self) -> pa.Table:
        self.next += 1
        ids = [0, *(self.next * 3 % 20 + each for each in range(3)), None, 100]
        return pa.table({"id": pa.array(ids, pa.int64()), "number": [self.next] * len(ids)})

    def append(self, _: int) -> None:
        da.write(self.root, self.rows(), configuration=self.properties)

    def append_by_another_writer(self, _: int) -> None:
        if "delta.enableDeletionVectors" in self.properties:
            self.append(0)
        else:
            write_deltalake(self.root, self.rows(), mode="append")

    def delete(self, value: int) -> None:
        da.delete(self.root, col("id") == value)

    def update(self, value: int) -> None:
        da.update(self.root, {"id": f"{value + 1}"}, col("id") == value)

    def compact(self, _: int) -> None:
        optimize(self.root)

    def refresh(self, _: int) -> None:
        refresh_index(self.root, "ids")

    def refresh_a_part(self, value: int) -> None:
        refresh_index(self.root, "ids", max_bytes=value * 200)

    def go_back(self, value: int) -> None:
        restore(self.root, version=value % (self.version + 1))

    def recreate(self, _: int) -> None:
        drop_index(self.root, "ids")
        create_index(self.root, "ids", "id", max_bytes=5000)

    @property
    def version(self) -> int:
        return DeltaLog(self.root).snapshot().version

    def validate(self, value: int) -> None:
        """Compare rows at the latest version and at another version."""
        for version in (None, value % (self.version + 1)):
            everything = da.to_table(self.root, version=version)
            for predicate, wanted in (
                (col("id") == value, lambda each: each == value),
                (col("id").isin([value, 3, 100]), lambda each: each in (value, 3, 100)),
                (col("id").is_null(), lambda each: each is None),
                (
                    (col("id") > value) & (col("id") <= value + 2),
                    lambda each: each is not None and value < each <= value + 2,
                ),
            ):
                found = da.to_table(self.root, predicate=predicate, version=version).to_pylist()
                expected = [each for each in everything.to_pylist() if wanted(each["id"])]
                assert sorted(map(repr, found)) == sorted(map(repr, expected)), predicate
        assert all(not each.problems for each in list_indexes(self.root))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                _Table.append,
                _Table.append,
                _Table.append_by_another_writer,
                _Table.delete,
                _Table.update,
                _Table.compact,
                _Table.refresh,
                _Table.refresh,
                _Table.refresh_a_part,
                _Table.go_back,
                _Table.recreate,
            ]
        ),
        st.integers(0, 25),
    ),
    min_size=3,
    max_size=8,
)


def run_steps(root: Path, steps: list[tuple[Callable[[_Table, int], None], int]]) -> None:
    table = _Table(root, has_vectors=sum(value for _, value in steps) % 2 == 1)
    for step, value in steps:
        step(table, value)
        table.validate(value)


@pytest.mark.full
@settings(max_examples=3, deadline=None)
@given(steps=STEPS)
def test_rows_after_random_changes(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, int]]
) -> None:
    run_steps(tmp_path_factory.mktemp("steps"), steps)


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(steps=STEPS)
def test_rows_after_many_random_changes(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, int]]
) -> None:
    run_steps(tmp_path_factory.mktemp("steps"), steps)


@pytest.mark.full
@pytest.mark.parametrize(
    "step",
    [pytest.param(150, id="some bytes"), pytest.param(7, id="bytes", marks=pytest.mark.long)],
)
def test_rows_with_an_index_that_is_damaged_anywhere(tmp_path: Path, step: int) -> None:
    root = prepared(tmp_path)
    refresh_index(root, "ids")
    everything = da.to_table(root)["id"].to_pylist()
    random = seeded(0)
    places = [each for each in (root / "_delta_ops" / "indexes").rglob("*") if each.is_file()]
    assert len(places) >= 7
    for place in places:
        whole = place.read_bytes()
        for position in range(random.randrange(step), len(whole), step):
            damaged = bytearray(whole)
            damaged[position] ^= 1 << random.randrange(8)
            place.write_bytes(damaged)
            for value in (5, 7, 50):
                found = da.to_table(root, predicate=col("id") == value)["id"].to_pylist()
                assert found == [each for each in everything if each == value], (place, position)
        place.write_bytes(whole[: len(whole) // 2])
        assert da.to_table(root, predicate=col("id") == 5)["id"].to_pylist() == [5, 5]
        place.write_bytes(whole)
    assert len(da.explain_scan(root, col("id") == 5)) == 2


class _Killed(BaseException):
    """Stands for the end of a process."""


def kill_at(number: int, moment: Literal["before", "after"]) -> Callable[..., None]:
    def on_call(current: int, method: str, path: str, when: str) -> None:
        if current >= number and when == moment:
            raise _Killed

    return on_call


def prepared(root: Path) -> Path:
    for number in range(9):
        da.write(root, pa.table({"id": [0, number + 1, 100]}))
    create_index(root, "ids", "id")
    da.write(root, pa.table({"id": [0, 5, 100]}))
    return root


def crash_points(root: Path) -> Iterator[int]:
    """Numbers of the calls of a refresh."""
    calls: list[int] = []
    storage = CountingStorage(open_storage(root), lambda number, *_: calls.append(number))
    refresh_index(DeltaLog(root, storage=storage), "ids", dry_run=False)
    yield from range(1, max(calls) + 1)


@pytest.mark.parametrize(
    ("moment", "step"),
    [
        pytest.param("before", 7, id="some calls"),
        pytest.param("before", 1, id="before any call", marks=pytest.mark.full),
        pytest.param("after", 1, id="after any call", marks=pytest.mark.full),
    ],
)
def test_a_refresh_can_be_killed_at_any_call(
    tmp_path: Path, moment: Literal["before", "after"], step: int
) -> None:
    origin = prepared(tmp_path / "origin")
    shutil.copytree(origin, tmp_path / "counted")
    for number in list(crash_points(tmp_path / "counted"))[::step]:
        root = tmp_path / f"killed {number}"
        shutil.copytree(origin, root)
        storage = CountingStorage(open_storage(root), kill_at(number, moment))
        with suppress(_Killed):
            refresh_index(DeltaLog(root, storage=storage), "ids")
        assert da.to_table(root, predicate=col("id") == 5).num_rows == 2
        refresh_index(root, "ids")
        (info,) = list_indexes(root)
        assert (info.coverage, info.num_entries, info.problems) == (1, 30, ())
        assert len(da.explain_scan(root, col("id") == 5)) == 2
        shutil.rmtree(root)


def test_two_refreshes_at_once_index_each_file_once(tmp_path: Path) -> None:
    root = prepared(tmp_path)
    barrier = threading.Barrier(2, timeout=60)
    results: list[Any] = []

    def wait(_: int, method: str, path: str, moment: str) -> None:
        # Both have planned the same work before one of them commits.
        if method == "create_from_stream" and moment == "after" and path.endswith(".parquet"):
            barrier.wait()

    def refresh() -> None:
        storage = CountingStorage(open_storage(root), wait)
        results.append(refresh_index(DeltaLog(root, storage=storage), "ids"))

    threads = [threading.Thread(target=refresh) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(each.indexed_files for each in results) == [0, 1]
    (info,) = list_indexes(root)
    assert (info.coverage, info.num_runs, info.num_entries) == (1, 2, 30)
    runs = list((root / "_delta_ops" / "indexes" / "ids").glob("*.parquet"))
    assert len(runs) == 2


@pytest.mark.parametrize("removed", ["everything", "the log"])
def test_a_refresh_of_an_index_that_is_dropped_meanwhile_says_so(
    tmp_path: Path, removed: str
) -> None:
    root = prepared(tmp_path)
    everything = da.to_table(root).num_rows

    def drop(_: int, method: str, path: str, moment: str) -> None:
        if method == "create_from_stream" and moment == "after" and path.endswith(".parquet"):
            if removed == "everything":
                drop_index(root, "ids")
            else:  # a drop that has not come to the definition
                shutil.rmtree(root / "_delta_ops" / "indexes" / "ids" / "_delta_log")

    log = DeltaLog(root, storage=CountingStorage(open_storage(root), drop))
    with pytest.raises(InvalidRequestError, match="index ids was dropped while it was refreshed"):
        refresh_index(log, "ids")
    if removed == "the log":
        drop_index(root, "ids")
    assert da.to_table(root).num_rows == everything
    create_index(root, "ids", "id")
    (info,) = list_indexes(root)
    assert (info.coverage, info.problems) == (1, ())


@pytest.mark.full
def test_two_creations_at_once_make_one_index(tmp_path: Path) -> None:
    for number in range(9):
        da.write(tmp_path, pa.table({"id": [0, number + 1, 100]}))
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        results = list(pool.map(create_index, [tmp_path] * 2, ["ids"] * 2, ["id"] * 2))
    assert sum(each.indexed_files for each in results) == 9
    (info,) = list_indexes(tmp_path)
    assert (info.coverage, info.num_runs) == (1, 1)
    assert len(DeltaTable(tmp_path / "_delta_ops" / "indexes" / "ids").file_uris()) == 1

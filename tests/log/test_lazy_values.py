"""Lazy values: one thread never waits for another value's computation."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.lazy import lazy
from delta_ops.log.checkpoint_write.content import Content
from delta_ops.log.snapshot import Snapshot
from delta_ops.maintenance import create_checkpoint
from tests.support.counting_storage import CountingStorage
from tests.support.forked import call_in_child, needs_fork
from tests.support.gate import PATIENCE_S, Gate, Gated, call_in_thread

CALLERS = 8
VALUES = [
    pytest.param(owner, name, id=f"{owner.__name__}.{name}")
    for owner in (Snapshot, Content)
    for name, value in vars(owner).items()
    if isinstance(value, lazy)
]
each_value = pytest.mark.parametrize(("owner", "name"), VALUES)


@pytest.fixture
def gate() -> Gate:
    return Gate()


def table(folder: Path) -> DeltaLog:
    """With a checkpoint and a tombstone."""
    log = DeltaLog(folder)
    for mode in ("append", "overwrite"):
        da.write(log, pa.table({"id": [1, 2], "p": ["a", "b"]}), mode=mode, partition_by=["p"])
    create_checkpoint(log)
    return log


def opened(folder: Path, gate: Gate, owner: type) -> Any:
    """A snapshot or content without computed values, with the gate before all its sources."""
    snapshot = DeltaLog(folder).snapshot()
    gated = replace(
        snapshot,
        storage=CountingStorage(snapshot.storage, gate.on_call),
        definition=replace(
            snapshot.definition,
            metadata=Gated(snapshot.metadata, gate),  # type: ignore[arg-type]
        ),
        read_checkpoint=None,
    )
    return gated if owner is Snapshot else Content(snapshot=gated, now_ms=0)


def access_to(holder: object, name: str) -> Callable[[], Any]:
    return lambda: getattr(holder, name)


@pytest.mark.some_cases(4)
@each_value
def test_a_value_of_a_slow_table_holds_up_no_other_table(
    tmp_path: Path, gate: Gate, owner: type, name: str
) -> None:
    table(tmp_path / "slow")
    table(tmp_path / "other")
    slow = opened(tmp_path / "slow", gate, owner)
    other = opened(tmp_path / "other", Gate(), owner)
    with gate.holding([access_to(slow, name)]):
        value = call_in_thread(access_to(other, name)).result(PATIENCE_S / 2)
    assert value is getattr(other, name)


@pytest.mark.some_cases(2)
@needs_fork
@each_value
def test_a_child_forked_while_a_value_is_computed_computes_it(
    tmp_path: Path, gate: Gate, owner: type, name: str
) -> None:
    table(tmp_path)
    slow = opened(tmp_path, gate, owner)
    expected = getattr(opened(tmp_path, Gate(), owner), name)
    with gate.holding([access_to(slow, name)]):
        assert call_in_child(lambda: getattr(slow, name) == expected)
    assert getattr(slow, name) == expected


@pytest.mark.some_cases(4)
@each_value
def test_threads_that_compute_a_value_at_once_all_get_the_same_one(
    tmp_path: Path, gate: Gate, owner: type, name: str
) -> None:
    table(tmp_path)
    holder = opened(tmp_path, gate, owner)
    values: list[Any] = []
    calls = [lambda: values.append(getattr(holder, name))] * CALLERS
    with gate.holding(calls, until=lambda held: len(held) == CALLERS):
        pass
    assert len(values) == CALLERS
    assert all(value is getattr(holder, name) for value in values)


def test_a_snapshot_pickles_with_what_was_computed(tmp_path: Path) -> None:
    snapshot = table(tmp_path).snapshot()
    for value in VALUES:
        owner, name = value.values
        if owner is Snapshot:
            getattr(snapshot, str(name))
    copy: Snapshot = pickle.loads(pickle.dumps(snapshot))
    assert vars(copy).keys() == vars(snapshot).keys()
    assert copy.files().equals(snapshot.files())

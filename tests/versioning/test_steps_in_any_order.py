"""Steps of a session in random orders, and the checkout of any commit."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import reduce
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.errors import SessionConflictError
from delta_ops.maintenance import clean_up_log, vacuum
from delta_ops.versioning import begin_session, create_tag
from tests.support.tiers import seeded

pytestmark = pytest.mark.full


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids_of(source: Any) -> list[int]:
    return sorted(da.to_table(source)["id"].to_pylist())


def table_of(root: Path, *ids: int, **configuration: str) -> DeltaLog:
    """A table with a file for each row."""
    for number in ids:
        da.write(root, rows_of(number), configuration=configuration or None)
    return DeltaLog(root)


class Step(NamedTuple):
    """A change, and its effect on rows."""

    run: Callable[[DeltaLog], object]
    effect: Callable[[frozenset[int]], frozenset[int]]


STEPS = {
    "append": Step(lambda log: da.write(log, rows_of(7, 8)), lambda ids: ids | {7, 8}),
    "append more": Step(lambda log: da.write(log, rows_of(9)), lambda ids: ids | {9}),
    "delete": Step(lambda log: da.delete(log, "id < 2"), lambda ids: ids - {0, 1}),
    "delete new": Step(lambda log: da.delete(log, "id > 6"), lambda ids: ids & frozenset(range(7))),
    "update": Step(
        lambda log: da.update(log, {"id": "id + 3"}, "id = 2"),
        lambda ids: ids - {2} | {5} if 2 in ids else ids,
    ),
    "overwrite": Step(
        lambda log: da.write(log, rows_of(0, 4), mode="overwrite"), lambda _ids: frozenset({0, 4})
    ),
}


@pytest.mark.parametrize("case", range(12))
def test_forked_steps_equal_some_serial_order(case: int, tmp_path: Path) -> None:
    chance = seeded(case)
    log, names = table_of(tmp_path / "t", 1, 2, 3), chance.sample(list(STEPS), 4)
    session = begin_session(log)
    forks = {name: session.fork(name) for name in names}
    for name, fork in forks.items():
        try:
            STEPS[name].run(fork)
        except SessionConflictError:
            STEPS[name].run(session.fork(name))
    while True:
        try:
            session.commit()
            break
        except SessionConflictError as error:
            for name in error.steps:
                STEPS[name].run(session.fork(name))
    orders = [
        reduce(lambda ids, name: STEPS[name].effect(ids), order, frozenset({1, 2, 3}))
        for order in permutations(names)
    ]
    assert frozenset(ids_of(log)) in orders, names


def test_checkout_of_any_commit(tmp_path: Path) -> None:
    log = table_of(tmp_path / "t", 1, 2, **{"delta.checkpointInterval": "3"})
    seen = []
    for number, name in enumerate([*STEPS, *STEPS]):
        STEPS[name].run(log)
        create_tag(log, f"commit {number}".replace(" ", "-"))
        seen.append((log.snapshot().version, ids_of(log)))
    assert [ids_of(log.snapshot(version)) for version, _ in seen] == [ids for _, ids in seen]
    late = system_clock() + 60 * DAY_MS
    vacuum(log, retention=timedelta(0), enforce_retention=False, clock=lambda: late)
    clean_up_log(log, clock=lambda: late)
    refs = [f"tag:commit-{number}" for number in range(len(seen))]
    assert [ids_of(log.snapshot(ref=ref)) for ref in refs] == [ids for _, ids in seen]

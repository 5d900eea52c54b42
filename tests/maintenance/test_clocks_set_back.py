"""A clock that was set back by a month and corrected: files removed meanwhile are kept as long.

The removal times come from the writer. On a disk the store has the machine's clock, so files
written in that time are a month old as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest

from delta_ops.clock import DAY_MS
from delta_ops.maintenance import clean_up_log, create_checkpoint, vacuum
from delta_ops.maintenance.vacuum.candidates import VacuumMode
from tests.maintenance.aged_tables import Table

BACK_DAYS = 30
BEFORE = [{"id": 0, "p": "a"}, {"id": 1, "p": "a"}]


@contextmanager
def clock_set_back(table: Table, *, of_store: bool) -> Iterator[None]:
    """Applies to files written inside; on a disk the store has the machine's clock."""
    clock = table.clock
    table.clock = lambda: clock() - BACK_DAYS * DAY_MS  # type: ignore[method-assign]
    if of_store:
        table.pass_time(days=-BACK_DAYS)
        table.clock = clock  # type: ignore[method-assign]
    yield
    table.clock = clock  # type: ignore[method-assign]
    if of_store:
        table.pass_time(days=BACK_DAYS)


def removed_by_a_clock_set_back(
    root: Path, *, of_store: bool, log_retention: str = "interval 30 days"
) -> Table:
    """Its two files were removed a minute ago, by a writer whose clock says a month ago."""
    table = Table(root)
    table.write([1], configuration={"delta.logRetentionDuration": log_retention})
    table.pass_time(days=25)
    table.write([0])  # otherwise the clock change would be undetectable
    table.pass_time(days=20)
    with clock_set_back(table, of_store=of_store):
        table.write([2], mode="overwrite")
    table.pass_time(ms=60_000)
    return table


def checkpoint(table: Table) -> None:
    create_checkpoint(table.log, clock=table.clock)
    table.date()


stores = pytest.mark.parametrize(
    "of_store",
    [
        pytest.param(False, id="of the writer alone"),
        pytest.param(True, id="of the disk too"),
    ],
)


PAIRS = [
    ("full", False, False, False),
    ("full", True, True, True),
    ("lite", False, True, False),
    ("lite", True, False, True),
    ("lite", False, True, True),
    ("full", True, False, False),
]
"""Cases that cover all pairs of mode, store, checkpoint and later write."""


@pytest.mark.some_cases(4)
@pytest.mark.parametrize(
    ("mode", "of_store", "with_checkpoint", "then_writes"),
    [
        pytest.param(*case, marks=[] if case in PAIRS else [pytest.mark.full])
        for case in product(["full", "lite"], *[[False, True]] * 3)
    ],
)
def test_removed_files_stay_for_the_retention_and_are_then_deleted(
    tmp_path: Path, mode: VacuumMode, of_store: bool, with_checkpoint: bool, then_writes: bool
) -> None:
    table = removed_by_a_clock_set_back(tmp_path / "t", of_store=of_store)
    if then_writes:
        table.write([3])
    if with_checkpoint:
        checkpoint(table)
    vacuum(table.log, mode=mode, clock=table.clock)
    table.date()
    assert table.rows(1) == BEFORE
    table.pass_time(days=6)
    vacuum(table.log, mode=mode, clock=table.clock)
    table.date()
    assert table.rows(1) == BEFORE
    table.write([4])
    table.pass_time(days=8)
    assert vacuum(table.log, mode=mode, clock=table.clock).deleted_files == 2


@stores
@pytest.mark.parametrize("then_writes", [False, True])
def test_a_clean_up_keeps_the_version_that_was_the_latest_a_minute_ago(
    tmp_path: Path, of_store: bool, then_writes: bool
) -> None:
    table = removed_by_a_clock_set_back(
        tmp_path / "t", of_store=of_store, log_retention="interval 10 days"
    )
    checkpoint(table)
    if then_writes:
        table.write([3])
    clean_up_log(table.log, clock=table.clock)
    assert table.rows(1) == BEFORE
    table.write([4])
    table.pass_time(days=12)
    assert clean_up_log(table.log, clock=table.clock).plan.boundary_version == 2

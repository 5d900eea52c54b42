"""A vacuum killed around each of its storage calls: read, rerun, and read by others."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from delta_ops import DeltaLog
from delta_ops.maintenance import vacuum
from delta_ops.storage import Storage
from tests.maintenance.aged_tables import Table, overwritten
from tests.maintenance.test_vacuum_sources import inventory_of
from tests.support.crash_states import crash_states
from tests.support.tables import rows_by_deltalake

Options = Callable[[Table], dict[str, Any]]


def with_all_there_is(root: Path) -> Table:
    """A table with removed files, an orphan, a leftover, and an empty directory."""
    table = overwritten(root)
    table.put("orphan.parquet")
    table.put(f".staged-{'a' * 32}")
    (root / "empty").mkdir()
    os.utime(root / "empty", (0, 0))
    table.pass_time(days=8)
    return table


def reported(table: Table) -> list[str]:
    return [e.operation or "" for e in table.log.history() if (e.operation or "") != "WRITE"]


@pytest.mark.some_cases(1)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param(lambda _: {}, id="full"),
        pytest.param(lambda _: {"mode": "lite"}, marks=pytest.mark.full, id="lite"),
        pytest.param(
            lambda t: {"inventory": inventory_of(t)},
            marks=pytest.mark.full,
            id="from an inventory",
        ),
        pytest.param(
            lambda _: {"keep_last": 1, "log_commits": False},
            marks=pytest.mark.full,
            id="without commits",
        ),
    ],
)
def test_killed_at_any_storage_call_it_is_ended_by_the_next_run(
    tmp_path: Path, options: Options
) -> None:
    template = with_all_there_is(tmp_path / "template")
    rows = template.rows()
    whole = template.copy(tmp_path / "whole")
    vacuum(whole.log, clock=whole.clock, batch_files=1, **options(whole))
    run_as_a_whole = reported(whole)
    start = run_as_a_whole[1:]
    # The killed run's START stays, beside the next run's commits if that run found work.
    may_report = (run_as_a_whole, run_as_a_whole + start, start)
    tables: list[Table] = []

    def fresh() -> Storage:
        tables.append(template.copy(tmp_path / str(len(tables))))
        return tables[-1].log.storage

    def run(storage: Storage) -> None:
        table = tables[-1]
        log = DeltaLog("", storage=storage)
        vacuum(log, clock=table.clock, batch_files=1, **options(table))

    number = 0
    for number, (where, _) in zip(count(1), crash_states(fresh, run), strict=False):
        table = tables[-1]
        assert table.rows() == rows, where
        if number % 5 == 0:
            assert rows_by_deltalake(table.root) == rows, where
        vacuum(table.log, clock=table.clock, **options(table))
        assert table.data_files() == whole.data_files(), where
        assert (table.root / "empty").exists() == (whole.root / "empty").exists(), where
        assert reported(table) in may_report, where
        again = vacuum(table.log, clock=table.clock, dry_run=True, **options(table))
        assert not again.plan.has_work, where
        assert table.rows() == rows, where
        if number % 5 == 0:
            assert rows_by_deltalake(table.root) == rows, where
    assert number >= 5


def test_a_vacuum_that_died_within_a_batch_is_finished_by_the_next(tmp_path: Path) -> None:
    table = with_all_there_is(tmp_path / "t")
    storage = table.log.storage
    half = storage.delete_many

    class Dying(type(storage)):  # type: ignore[misc]
        def delete_many(self, paths: Iterable[str]) -> list[str]:
            chosen = list(paths)
            half(chosen[: len(chosen) // 2])
            raise SystemExit

    with pytest.raises(SystemExit):
        vacuum(DeltaLog("", storage=Dying(table.root)), clock=table.clock)
    result = vacuum(table.log, clock=table.clock)
    assert result.deleted_files == 2
    assert reported(table) == ["VACUUM END", "VACUUM START", "VACUUM START"]

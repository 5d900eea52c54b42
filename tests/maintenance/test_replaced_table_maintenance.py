"""Maintenance of a table that is deleted and created again meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import DeltaOpsError, TableReplacedError
from delta_ops.maintenance import clean_up_log, compact_log, create_checkpoint, vacuum
from tests.maintenance.aged_tables import Table, reopened
from tests.support.built_once import built_once
from tests.support.counting_storage import CountingStorage
from tests.support.tables import rows, rows_by_deltalake

OTHER = pa.table({"name": ["a", "b"]})
_IRREVOCABLE = ("delete_many",)
"""Between the last check of the log and the deletion of its files, no check is possible."""

Act = Callable[[DeltaLog, Table], object]


def _clean_up(log: DeltaLog, table: Table) -> object:
    return clean_up_log(log, clock=table.clock)


def _vacuum(log: DeltaLog, table: Table) -> object:
    return vacuum(log, clock=table.clock, retention=timedelta(days=7), log_commits=False)


def _compact(log: DeltaLog, table: Table) -> object:
    return compact_log(log)


def _checkpoint(log: DeltaLog, table: Table) -> object:
    return create_checkpoint(log, clock=table.clock)


@built_once(reopened)
def _aged(root: Path) -> Table:
    """A table of 13 versions with a checkpoint, most of them past their retention."""
    table = Table(root)
    for number in range(12):
        table.write([number], mode="overwrite")
    table.pass_time(days=50)
    table.write([100])
    return table


@built_once(lambda _, root: DeltaLog(root))
def _other(root: Path) -> DeltaLog:
    """Another table of two versions."""
    da.write(root, OTHER)
    da.write(root, OTHER)
    return DeltaLog(root)


@pytest.mark.some_cases(1)
@pytest.mark.parametrize(
    "act",
    [
        _clean_up,
        _vacuum,
        pytest.param(_compact, marks=pytest.mark.full),
        pytest.param(_checkpoint, marks=pytest.mark.full),
    ],
)
def test_maintenance_leaves_a_table_alone_that_took_the_place_of_its_own(
    act: Act, tmp_path: Path
) -> None:
    reported = calls = 0
    while True:
        calls += 1
        table = _aged(tmp_path / f"{calls}")
        replaced: list[str] = []

        def on_call(
            number: int,
            method: str,
            path: str,
            when: Literal["before", "after"],
            root: Path = table.root,
            wanted: int = calls,
            replaced: list[str] = replaced,
        ) -> None:
            if number == wanted and when == "before":
                replaced.append(method)
                shutil.rmtree(root)
                _other(root)

        log = DeltaLog(table.root, storage=CountingStorage(table.log.storage, on_call))
        try:
            act(log, table)
        except TableReplacedError:
            reported += 1
        except DeltaOpsError:
            pass
        if not replaced:
            break
        if replaced[0] not in _IRREVOCABLE:
            expected = rows(pa.concat_tables([OTHER, OTHER]))
            assert rows_by_deltalake(table.root) == expected, f"{replaced[0]}, call {calls}"
            assert rows(da.to_table(DeltaLog(table.root))) == expected, f"call {calls}"
    assert reported

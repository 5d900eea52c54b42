"""Every operation killed after each of its storage calls, then run again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Literal

import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.maintenance import clean_up_log, create_checkpoint, optimize, purge, vacuum
from tests.maintenance.aged_tables import Table, fragmented, overwritten
from tests.support.counting_storage import CountingStorage
from tests.support.crash_states import files_left

Operation = Callable[..., Any]

CUT: dict[str, Any] = {"target_size": 6_000, "max_size": 12_000}
"""Bytes of files."""


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


def with_orphan(root: Path) -> Table:
    table = overwritten(root)
    table.put("orphan.parquet")
    table.pass_time(days=8)
    return table


def with_old_log(root: Path) -> Table:
    """Ten old commits, three checkpoints, and an outdated hint."""
    table = Table(root)
    for number in range(10):
        table.write([number], configuration={"delta.checkpointInterval": "3"})
    (root / "_delta_log" / "_last_checkpoint").write_text('{"version":3,"size":1}')
    table.date()
    table.pass_time(days=100)
    return table


def with_vectors(root: Path) -> Table:
    """Three files; two of them have deleted rows."""
    table = Table(root)
    for first in (0, 10, 20):
        ids = range(first, first + 5)
        table.write(ids, configuration={"delta.enableDeletionVectors": "true"})
    da.delete(table.log, col("id").isin([1, 11]))
    table.date()
    return table


def with_large_files(root: Path) -> Table:
    """Two files of some 24 kB."""
    table, chance = Table(root), Random(1)
    for _ in range(2):
        table.write([chance.getrandbits(63) for _ in range(3000)])
    return table


def with_overlaps(root: Path) -> Table:
    """Four files that hold the same keys, in each of two partitions."""
    table = Table(root)
    for number in range(8):
        ids, settings = [number, number + 100], {"delta_ops.sortKey": "id"}
        table.write(ids, "ab"[number % 2], partition_by=["p"], configuration=settings)
    return table


def shape(table: Table) -> list[str]:
    """Commits and checkpoints, and the number of live files, because file names differ.

    Hint and checksums are excluded: a process that dies before its checksum leaves none.
    """
    names = sorted(
        path
        for path in table.files()
        if path.startswith("_delta_log/0") and not path.endswith(".crc")
    )
    return [*names, str(len(table.log.snapshot().files(["path"])))]


def killed_after(table: Table, call: int) -> DeltaLog:
    """The table, for a process that ends after this many storage calls."""

    def kill(number: int, _name: str, _path: str, when: Literal["before", "after"]) -> None:
        if (number, when) == (call, "after"):
            raise Killed

    return DeltaLog("", storage=CountingStorage(table.log.storage, kill))


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("build", "operation"),
    [
        pytest.param(with_orphan, vacuum, id="vacuum"),
        pytest.param(fragmented, optimize, id="optimize"),
        pytest.param(
            fragmented,
            partial(optimize, zorder_by=["id"], commit_bytes=1),
            id="a layout in several commits",
        ),
        pytest.param(
            fragmented,
            partial(optimize, zorder_by=["id"], full=True),
            marks=pytest.mark.full,
            id="a layout of all",
        ),
        pytest.param(
            with_vectors,
            partial(purge, commit_bytes=1),
            marks=pytest.mark.full,
            id="purge in several commits",
        ),
        pytest.param(
            with_large_files,
            partial(optimize, **CUT),
            marks=pytest.mark.full,
            id="large files are cut",
        ),
        pytest.param(
            with_overlaps,
            partial(optimize, commit_bytes=1),
            marks=pytest.mark.full,
            id="merges of sorted runs in several commits",
        ),
        pytest.param(fragmented, create_checkpoint, marks=pytest.mark.full, id="checkpoint"),
        pytest.param(with_old_log, clean_up_log, id="log clean-up"),
    ],
)
def test_killed_at_any_storage_call_and_run_again_it_leaves_the_same(
    tmp_path: Path, build: Callable[[Path], Table], operation: Operation
) -> None:
    template = build(tmp_path / "template")
    rows = template.rows()
    whole = template.copy(tmp_path / "whole")
    counting = CountingStorage(whole.log.storage, lambda *_: None)
    operation(DeltaLog("", storage=counting), clock=template.clock)
    assert counting.num_calls >= 6
    assert whole.files() != template.files()
    seen: set[object] = set()
    for call in range(1, counting.num_calls + 1):
        table = template.copy(tmp_path / str(call))
        with pytest.raises(Killed):
            operation(killed_after(table, call), clock=table.clock)
        if (left := files_left(table.log.storage)) in seen:
            continue
        seen.add(left)
        assert table.rows() == rows, call
        operation(table.log, clock=table.clock)
        if operation is vacuum:  # its killed run left a START, which stays
            assert table.data_files() == whole.data_files(), call
        else:
            assert shape(table) == shape(whole), call
        assert not operation(table.log, clock=table.clock, dry_run=True).plan.has_work, call
        assert table.rows() == rows, call

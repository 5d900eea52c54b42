"""A writing process killed at random moments, started again, with a foreign writer in between."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.clock import DAY_MS, system_clock
from delta_ops.maintenance import vacuum
from tests.long.mortal_writer import APP_ID, main, rows_of
from tests.support.tables import rows, rows_by_deltalake
from tests.support.tiers import seeded

pytestmark = pytest.mark.long

PROJECT = Path(__file__).resolve().parents[2]
ROUNDS = 40
LONGEST_LIFE_S = 0.4
SEED = 7


def run_until_killed(table: Path, life_s: float) -> list[int]:
    """The commits that the process saw acknowledged before it was killed."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.long.mortal_writer", str(table), "1000000"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "started\n"
        time.sleep(life_s)
        process.kill()
        return [int(line) for line in process.stdout.read().split("\n") if line]


def test_a_writer_killed_at_random_moments_loses_and_doubles_nothing(tmp_path: Path) -> None:
    table = tmp_path / "t"
    chance = seeded(SEED)
    foreign: list[tuple[str, str]] = []
    acknowledged = -1
    for number in range(ROUNDS):
        reported = run_until_killed(table, chance.uniform(0, LONGEST_LIFE_S))
        acknowledged = max([acknowledged, *reported])
        if not DeltaLog(table).exists():
            continue
        stored = DeltaLog(table).snapshot().transactions()[APP_ID].version
        assert stored in (acknowledged, acknowledged + 1)
        acknowledged = stored
        check(table, stored, foreign)
        row = (f"foreign {number}", "all")
        write_deltalake(table, pa.table({"id": [row[0]], "p": [row[1]]}), mode="append")
        foreign.append(row)
    last = acknowledged + 5
    main(str(table), last + 1)
    check(table, last, foreign)
    assert acknowledged > ROUNDS // 4, "the process hardly lived"
    vacuum(DeltaLog(table), clock=lambda: system_clock() + 10 * DAY_MS)
    files = {p.relative_to(table).as_posix() for p in table.rglob("*") if p.is_file()}
    data_files = {path for path in files if not path.startswith(("_delta_log/", "_delta_ops/"))}
    assert data_files == set(DeltaLog(table).snapshot().files(["path"])["path"].to_pylist())
    assert not [path for path in files if ".staged-" in path]


def check(table: Path, stored: int, foreign: list[tuple[str, str]]) -> None:
    """Every commit up to the stored one once, as an overwrite or an append leaves its rows."""
    written = [row for number in range(stored + 1) for row in rows_of(number)]
    replaced = [row for row in written if row[1] == "last"][:-1]
    expected = sorted([row for row in written if row not in replaced] + foreign)
    found = rows(da.to_table(DeltaLog(table)))
    assert sorted((row["id"], row["p"]) for row in found) == expected
    assert rows_by_deltalake(table) == found
    versions = sorted(int(p.stem) for p in (table / "_delta_log").glob("*.json"))
    assert versions == list(range(len(versions)))

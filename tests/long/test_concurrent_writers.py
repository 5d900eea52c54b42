"""Processes that append, overwrite, compact and clean up one table at once, and a foreign one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from tests.support.tables import rows, rows_by_deltalake, rows_by_polars

pytestmark = pytest.mark.long

PROJECT = Path(__file__).resolve().parents[2]
ROLES = [
    ("append", 1, 60),
    ("append", 2, 60),
    ("append", 3, 60),
    ("overwrite", 4, 60),
    ("overwrite", 5, 60),
    ("foreign", 6, 60),
    ("maintain", 0, 40),
]


@pytest.mark.parametrize("round_number", range(2))
def test_every_acknowledged_row_is_there_once_whatever_runs_beside(
    tmp_path: Path, round_number: int
) -> None:
    table = tmp_path / f"t{round_number}"
    da.write(
        table,
        pa.table({"id": ["first"], "writer": [0]}),
        partition_by=["writer"],
        configuration={"delta.checkpointInterval": "7"},
    )
    script = str(PROJECT / "tests" / "long" / "writer_process.py")
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    processes = [
        subprocess.Popen(
            [sys.executable, script, str(table), role, str(number), str(commits)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for role, number, commits in ROLES
    ]
    outputs = [process.communicate() for process in processes]
    assert [p.returncode for p in processes] == [0] * len(ROLES), [err for _, err in outputs]
    acknowledged = sorted(
        ["first", *(line for out, _ in outputs for line in out.split("\n") if line)]
    )
    found = rows(da.to_table(DeltaLog(table)))
    assert sorted(row["id"] for row in found) == acknowledged
    assert found == rows_by_deltalake(table)
    assert found == rows_by_polars(table)
    versions = sorted(int(p.stem) for p in (table / "_delta_log").glob("*.json"))
    assert versions == list(range(versions[0], versions[-1] + 1))

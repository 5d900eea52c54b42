"""A write killed before and after each of its storage calls, then run again."""

from __future__ import annotations

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from tests.tables import by_deltalake, rows

PROJECT = Path(__file__).resolve().parents[2]
KILLED = -9
FIRST = pa.table({"id": [1, 2], "p": ["a", "b"]})


def run(table: Path, mode: str, call: int, moment: str) -> subprocess.CompletedProcess[str]:
    script = str(PROJECT / "tests" / "arrow" / "crash_script.py")
    return subprocess.run(
        [sys.executable, script, str(table), mode, str(call), moment],
        capture_output=True,
        text=True,
        cwd=PROJECT,
        env={"PYTHONPATH": str(PROJECT), "PATH": ""},
        check=False,
    )


def prepared(path: Path, *, commits: int) -> Path:
    """A table whose next version is due for a checkpoint, so that hooks are crash points too."""
    for _ in range(commits):
        da.write(path, FIRST, partition_by=["p"], configuration={"delta.checkpointInterval": "3"})
    return path


@pytest.mark.parametrize(
    ("mode", "commits"),
    [
        pytest.param("append", 0, id="the first write, which creates the table"),
        pytest.param("append", 3, id="an append that makes a checkpoint due"),
        pytest.param("overwrite", 3, id="an overwrite of a partition"),
    ],
)
def test_killed_at_any_storage_call_and_run_again_a_write_leaves_the_same_rows(
    tmp_path: Path, mode: str, commits: int
) -> None:
    template = prepared(tmp_path / "template", commits=commits)

    def fresh(name: str) -> Path:
        if commits:
            shutil.copytree(template, tmp_path / name)
        return tmp_path / name

    whole = fresh("whole")
    counted = run(whole, mode, 0, "")
    assert counted.returncode == 0, counted.stderr
    expected = rows(da.to_table(DeltaLog(whole)))
    versions = DeltaLog(whole).snapshot().version
    points = [(n, m) for n in range(1, int(counted.stdout) + 1) for m in ("before", "after")]
    assert len(points) >= 10

    def crash_and_rerun(point: tuple[int, str]) -> None:
        call, moment = point
        table = fresh(f"{call}-{moment}")
        assert run(table, mode, call, moment).returncode == KILLED
        if DeltaLog(table).exists():
            between = rows(da.to_table(DeltaLog(table)))
            assert between in (expected, rows(da.to_table(DeltaLog(template))) if commits else [])
        again = run(table, mode, 0, "")
        assert again.returncode == 0, again.stderr
        log = DeltaLog(table)
        assert rows(da.to_table(log)) == expected, point
        assert by_deltalake(table) == expected, point
        assert log.snapshot().version == versions, point

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(crash_and_rerun, points))

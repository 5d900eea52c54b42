"""A write to a full disk: one clear error, and the table is unchanged."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from tests.support.tables import rows_by_deltalake

PROJECT = Path(__file__).resolve().parents[2]

# A limit on file sizes makes writes fail half-way, as a full disk does.
WRITE = """
    import resource, signal, sys
    import pyarrow as pa
    import delta_ops.arrow as da
    from delta_ops.errors import StorageError

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    table, limit, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    data = pa.table({"x": pa.array(range(rows), pa.int64())})
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        da.write(table, data, user_metadata="n" * 1500)
    except StorageError as error:
        sys.exit(str(error))
"""


@pytest.mark.parametrize(
    ("exists", "limit", "rows"),
    [
        pytest.param(False, 10_000, 100_000, id="no table yet, no room for the data"),
        pytest.param(True, 1_000, 1, id="a table, room for the data and none for the commit"),
    ],
)
def test_without_room_nothing_is_half_written(
    tmp_path: Path, exists: bool, limit: int, rows: int
) -> None:
    table = tmp_path / "t"
    if exists:
        da.write(table, pa.table({"x": [1]}))
    before = sorted(path for path in table.rglob("*") if path.is_file())
    shown = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(WRITE), str(table), str(limit), str(rows)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    assert shown.returncode == 1
    assert len(shown.stderr.strip().splitlines()) == 1
    assert str(table) in shown.stderr
    assert sorted(path for path in table.rglob("*") if path.is_file()) == before
    if exists:
        assert rows_by_deltalake(table) == [{"x": 1}]

"""Row buckets that keep their rows in a file."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from delta_ops.arrow.rewrite.row_buckets import RowBuckets


def test_rows_wait_in_a_file_that_a_kill_leaves_nothing_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    written = set[Path]()
    rows = pa.record_batch({"x": range(100)})
    buckets = RowBuckets(rows.schema, 2, max_bytes=1)
    for _ in range(3):
        buckets.add(rows, [10, 90])
        written |= set(tmp_path.iterdir())
    buckets.finish()
    assert written == set()
    assert buckets.num_rows == [30, 270]
    for number, values in enumerate([range(10), range(10, 100)]):
        found = [x for batch in buckets.read(number) for x in batch["x"].to_pylist()]
        assert found == [*values] * 3

"""Readers, which yield their rows once, passed to a second operation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops.errors import CommitConflictError, InvalidRequestError
from delta_ops.events import CommitAttempted

ROWS = pa.table({"id": [1, 2, 3], "v": [5, 5, 5]})
TAKEN = "another operation has already used this RecordBatchReader"


def test_a_merge_that_is_run_again_does_not_delete_by_a_source_without_rows(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"id": [1, 2, 3], "v": [1, 1, 1]}))
    others = [pa.table({"id": [3], "v": [9]})]

    def write_first(event: Any) -> None:
        if isinstance(event, CommitAttempted) and others:
            da.write(tmp_path, others.pop())

    merge = (
        da.merge(tmp_path, ROWS.to_reader(), "target.id = source.id", on_event=write_first)
        .when_matched_update_all()
        .when_not_matched_by_source_delete()
    )
    with pytest.raises(CommitConflictError):
        merge.execute()
    with pytest.raises(InvalidRequestError, match=TAKEN):
        merge.execute()
    assert da.count_rows(tmp_path) == 4


@pytest.mark.parametrize(
    "write",
    [
        lambda path, rows: da.write(path, rows, mode="overwrite"),
        lambda path, rows: (
            da.merge(path, rows, "target.id = source.id")
            .when_not_matched_by_source_delete()
            .execute()
        ),
    ],
    ids=["overwrite", "merge"],
)
def test_a_reader_is_taken_once(
    tmp_path: Path, write: Callable[[Path, pa.RecordBatchReader], object]
) -> None:
    reader = ROWS.to_reader()
    da.write(tmp_path, reader)
    with pytest.raises(InvalidRequestError, match=TAKEN):
        write(tmp_path, reader)
    assert da.to_table(tmp_path) == ROWS
    write(tmp_path, ROWS.to_reader())
    assert da.to_table(tmp_path) == ROWS

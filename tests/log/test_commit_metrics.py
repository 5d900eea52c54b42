"""Row and file counts of commits, from their writers' metrics."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.log.commit_metrics import files_text, rows_text
from delta_ops.maintenance import optimize

ROWS, MORE = pa.table({"id": [1, 2, 3]}), pa.table({"id": [3, 4]})


def by_delta_ops(place: str) -> None:
    da.write(place, ROWS)
    da.delete(place, col("id") == 1)
    merge = da.merge(place, MORE, "target.id = source.id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    da.write(place, ROWS)
    optimize(place)


def by_deltalake(place: str) -> None:
    write_deltalake(place, ROWS)
    DeltaTable(place).delete("id = 1")
    merge = DeltaTable(place).merge(
        MORE, "target.id = source.id", source_alias="source", target_alias="target"
    )
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    write_deltalake(place, ROWS, mode="append")
    DeltaTable(place).optimize.compact()


@pytest.mark.parametrize("writer", [by_delta_ops, by_deltalake])
def test_a_commit_reports_added_and_removed_rows(tmp_path: Path, writer: object) -> None:
    assert callable(writer)
    place = str(tmp_path / "t")
    writer(place)
    entries = sorted(DeltaLog(place).history(), key=lambda entry: entry.version)
    reported = [rows_text(entry.operation, entry.operation_metrics) for entry in entries]
    assert reported == ["+3", "-1", "+1", "+3", ""]
    assert all(files_text(entry.operation_metrics).startswith("+") for entry in entries[:4])

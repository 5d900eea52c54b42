"""Every function that accepts a time accepts a date, as its midnight in UTC."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.ddl import shallow_clone
from delta_ops.errors import InvalidRequestError
from delta_ops.maintenance import restore
from delta_ops.orchestration import DeltaLogResource

DAY_S = 86_400
DAY = date(1970, 1, 2)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A row of the first day, and one of the third."""
    root = tmp_path / "orders"
    da.write(root, pa.table({"n": [1]}), configuration={"delta.enableChangeDataFeed": "true"})
    da.write(root, pa.table({"n": [2]}), mode="append")
    for version, days in enumerate((0, 2)):
        time = days * DAY_S
        os.utime(root / "_delta_log" / f"{version:020d}.json", (time, time))
    return root


def numbers(root: Path) -> list[int]:
    found: list[int] = da.to_table(root)["n"].to_pylist()
    return found


def test_rows_are_read_as_they_were_at_a_date(table: Path) -> None:
    assert da.to_table(table, timestamp=DAY)["n"].to_pylist() == [1]
    assert DeltaLogResource(root=str(table.parent)).snapshot("orders", timestamp=DAY).version == 0


def test_changes_are_read_from_a_date_on(table: Path) -> None:
    changes = da.read_changes(table, start_timestamp=DAY, end_timestamp=date(1970, 1, 3))
    assert changes.read_all()["n"].to_pylist() == [2]


def test_a_clone_is_of_a_date(table: Path, tmp_path: Path) -> None:
    shallow_clone(table, tmp_path / "clone", timestamp=DAY)
    assert numbers(tmp_path / "clone") == [1]


def test_a_table_is_restored_to_a_date_and_its_history_says_so(table: Path) -> None:
    restore(table, timestamp=DAY)
    assert numbers(table) == [1]
    (entry,) = DeltaLog(table).history(1)
    assert entry.operation_parameters["timestamp"] == "1970-01-02"


def test_values_that_are_neither_date_nor_text_are_rejected(table: Path) -> None:
    with pytest.raises(InvalidRequestError, match="give a string, a date or datetime, or None"):
        da.to_table(table, timestamp=0)  # type: ignore[arg-type]

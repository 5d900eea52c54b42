"""Files that a read opens: all files with a matching row, and the same in both forms."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from delta_ops import DeltaLog, col
from delta_ops.arrow import write
from delta_ops.errors import InvalidRequestError
from delta_ops.planning.scan import plan_columnar_scan, plan_scan
from delta_ops.protocol.predicate import Predicate
from delta_ops.protocol.schema import LONG, TIMESTAMP, StructField, StructType
from tests.arrow.foreign_table import create, data_file

MIDNIGHT = datetime(2024, 1, 1, tzinfo=UTC)
DAYS = [date(2026, 1, 1), date(2026, 1, 2)]


@pytest.mark.parametrize(
    ("predicate", "chosen"),
    [
        pytest.param(None, 4, id="every file"),
        pytest.param(col("day") == DAYS[0], 2, id="by partition"),
        pytest.param(col("id") >= 30, 2, id="by statistics"),
        pytest.param((col("day") == DAYS[1]) & (col("id") < 30), 1, id="by both"),
        pytest.param(col("id") == 99, 0, id="none"),
    ],
)
def test_both_forms_of_a_scan_choose_alike(
    tmp_path: Path, predicate: Predicate | None, chosen: int
) -> None:
    for each in (10, 30):
        write(tmp_path, pa.table({"id": [each, each], "day": DAYS}), partition_by=["day"])
    snapshot = DeltaLog(tmp_path).snapshot()
    adds = plan_scan(snapshot, predicate)
    rows = plan_columnar_scan(snapshot, ["path", "size"], predicate).to_pylist()
    assert len(adds) == chosen
    assert sorted((row["path"], row["size"]) for row in rows) == sorted(
        (add.path, add.size) for add in adds
    )


@pytest.mark.parametrize(
    ("zone", "moment"),
    [("UTC", MIDNIGHT), ("America/New_York", MIDNIGHT + timedelta(hours=5))],
)
def test_times_use_the_zone_of_the_read(tmp_path: Path, zone: str, moment: datetime) -> None:
    schema = StructType((StructField("id", LONG), StructField("t", TIMESTAMP)))
    values = {"t": "2024-01-01 00:00:00"}
    add = data_file(tmp_path, "x", pa.table({"id": [1]}), partition_values=values)
    snapshot = create(tmp_path, schema, [add], partition_by=("t",)).snapshot()
    for predicate, chosen in ((col("t") == moment, ["x"]), (col("t") > moment, [])):
        adds = plan_scan(snapshot, predicate, partition_time_zone=zone)
        rows = plan_columnar_scan(snapshot, ["path"], predicate, partition_time_zone=zone)
        assert [each.path for each in adds] == rows["path"].to_pylist() == chosen


def test_a_predicate_that_does_not_fit_the_table_is_refused(tmp_path: Path) -> None:
    write(tmp_path, pa.table({"id": [1]}))
    snapshot = DeltaLog(tmp_path).snapshot()
    with pytest.raises(InvalidRequestError, match="nowhere"):
        plan_scan(snapshot, col("nowhere") == 1)
    with pytest.raises(InvalidRequestError, match="nowhere"):
        plan_columnar_scan(snapshot, ["path"], col("nowhere") == 1)

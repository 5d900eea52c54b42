"""The files of an overwrite by predicate, for partition values without a time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from delta_ops import col
from delta_ops.protocol.schema import LONG, TIMESTAMP, StructField, StructType
from delta_ops.transaction.replacement import plan_replacement
from tests.arrow.foreign_table import create, data_file

MIDNIGHT = datetime(2024, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "moment"),
    [("UTC", MIDNIGHT), ("America/New_York", MIDNIGHT + timedelta(hours=5))],
)
def test_times_use_the_zone_of_the_read(tmp_path: Path, zone: str, moment: datetime) -> None:
    schema = StructType((StructField("id", LONG), StructField("t", TIMESTAMP)))
    values = {"t": "2024-01-01 00:00:00"}
    add = data_file(tmp_path, "x", pa.table({"id": [1]}), partition_values=values)
    snapshot = create(tmp_path, schema, [add], partition_by=("t",)).snapshot()
    at_it = plan_replacement(snapshot, col("t") == moment, partition_time_zone=zone)
    after = plan_replacement(snapshot, col("t") > moment, partition_time_zone=zone)
    assert at_it.matched["path"].to_pylist() == ["x"]
    assert not at_it.mixed
    assert not len(after.matched)
    assert not after.mixed

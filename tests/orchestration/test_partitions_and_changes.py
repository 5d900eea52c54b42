"""Dagster's partitions as predicates, and what changed in a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pyarrow as pa

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.orchestration import changed_values
from delta_ops.orchestration.partitions import partition_predicate
from delta_ops.protocol.arrow_types import schema_from_arrow
from delta_ops.protocol.predicate import to_arrow

AT = pa.schema([("at", pa.timestamp("us", "UTC"))])


def rows_of(
    partitions: dg.PartitionsDefinition[str], keys: Sequence[str], rows: pa.Table
) -> pa.Table:
    schema = schema_from_arrow(rows.schema)
    predicate = partition_predicate(rows.schema.names[0], schema, partitions, keys)
    return rows.filter(to_arrow(predicate, schema))


def test_windows_on_both_sides_of_an_autumn_hour_leave_it_out() -> None:
    hours = dg.HourlyPartitionsDefinition(
        start_date="2026-11-01-00:00", timezone="America/New_York"
    )
    keys = hours.get_partition_keys(datetime(2026, 11, 1, 9, tzinfo=UTC))
    times = [datetime(2026, 11, 1, 4 + i, 30, tzinfo=UTC) for i in range(5)]
    rows = pa.table({"at": times}, schema=AT)
    assert len(rows_of(hours, keys[:5], rows)) == 5
    gap = [keys[0], keys[2]]
    assert rows_of(hours, gap, rows)["at"].to_pylist() == [times[0], times[2]]


def test_no_partitions_are_no_rows() -> None:
    days = dg.DailyPartitionsDefinition(start_date="2026-01-01")
    rows = pa.table({"at": [datetime(2026, 1, 1, tzinfo=UTC)]}, schema=AT)
    assert len(rows_of(days, [], rows)) == 0


def written(root: Path, count: int) -> DeltaLog:
    for i in range(count):
        da.write(root, pa.table({"day": [i]}))
    return DeltaLog(root)


def test_changed_values_are_those_of_files_since_a_version(tmp_path: Path) -> None:
    log = written(tmp_path, 5)
    assert changed_values(log, "day", None).values == (0, 1, 2, 3, 4)
    since = changed_values(log, "day", 2)
    assert (since.values, since.version) == ((3, 4), 4)
    assert changed_values(log, "day", 4).values == ()


def test_where_commits_were_cleaned_up_everything_counts_as_changed(tmp_path: Path) -> None:
    log = written(tmp_path, 12)
    for version in range(5):
        (tmp_path / "_delta_log" / f"{version:020d}.json").unlink()
    assert changed_values(log, "day", 2).values == tuple(range(12))

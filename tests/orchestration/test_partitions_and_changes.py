"""Dagster's partitions as predicates, and changed values of a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import delta_ops.arrow as da
from delta_ops import DeltaLog
from delta_ops.errors import InvalidRequestError
from delta_ops.orchestration import changed_values
from delta_ops.orchestration.io_manager.partitions import partition_predicate
from delta_ops.protocol.predicate import resolve, to_arrow
from delta_ops.protocol.schema.arrow_types import schema_from_arrow

AT = pa.schema([("at", pa.timestamp("us", "UTC"))])


def rows_of(
    partitions: dg.PartitionsDefinition[str], keys: Sequence[str], rows: pa.Table
) -> pa.Table:
    schema = schema_from_arrow(rows.schema)
    predicate = partition_predicate(rows.schema.names[0], schema, partitions, keys)
    return rows.filter(to_arrow(resolve(predicate, schema), schema))


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


def at(*times: str) -> list[datetime]:
    return [datetime.fromisoformat(time).replace(tzinfo=UTC) for time in times]


MOMENTS = at("2025-12-31T23:59:59.999999", "2026-01-01T00:00", "2026-01-07T23:59", "2026-01-08")
WEEKS = dg.WeeklyPartitionsDefinition(start_date="2026-01-01", day_offset=4)


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        pytest.param("at", pa.array(MOMENTS), id="a timestamp"),
        pytest.param("`at`", pa.array(MOMENTS), id="in backquotes"),
        pytest.param("at", pa.array(MOMENTS).cast("timestamp[us]"), id="a local time"),
        pytest.param("at", pa.array(t.date() for t in MOMENTS), id="a date"),
        pytest.param("at", pa.array(t.date().isoformat() for t in MOMENTS), id="a text"),
        pytest.param("at", pa.array(t.isoformat() for t in MOMENTS), id="a longer text"),
        pytest.param("date(at)", pa.array(MOMENTS), id="the date of a timestamp"),
        pytest.param("CAST( at AS DATE )", pa.array(MOMENTS), id="a cast"),
        pytest.param("to_date(at)", pa.array(t.isoformat() for t in MOMENTS), id="of a text"),
        pytest.param("date_trunc('HOUR', at)", pa.array(MOMENTS), id="the hour of a timestamp"),
        pytest.param("date_trunc('day', at)", pa.array(t.date() for t in MOMENTS), id="of a date"),
        pytest.param(
            "timestamp_seconds(at)", pa.array(int(t.timestamp()) for t in MOMENTS), id="seconds"
        ),
        pytest.param(
            "timestamp_millis(at)",
            pa.array(int(t.timestamp() * 1000) for t in MOMENTS),
            id="milliseconds",
        ),
        pytest.param(
            "place.at", pa.StructArray.from_arrays([pa.array(MOMENTS)], ["at"]), id="a field"
        ),
    ],
)
def test_a_window_is_a_half_open_range(expression: str, values: pa.Array) -> None:
    rows = pa.table({expression.partition(".")[0] if "." in expression else "at": values})
    schema = schema_from_arrow(rows.schema)
    predicate = partition_predicate(expression, schema, WEEKS, ["2026-01-01"])
    found = rows.filter(to_arrow(resolve(predicate, schema), schema))
    assert found.equals(rows.slice(1, 2))


def test_a_window_of_numbers_is_a_half_open_range() -> None:
    weeks = dg.WeeklyPartitionsDefinition(start_date="20260101", day_offset=4, fmt="%Y%m%d")
    rows = pa.table({"day": [20251231, 20260101, 20260107, 20260108]})
    assert rows_of(weeks, ["20260101"], rows)["day"].to_pylist() == [20260101, 20260107]


def test_a_year_of_a_date_is_a_range() -> None:
    years = dg.StaticPartitionsDefinition(["2025", "2026"])
    rows = pa.table({"at": MOMENTS})
    schema = schema_from_arrow(rows.schema)
    predicate = partition_predicate("year(at)", schema, years, ["2026"])
    assert len(rows.filter(to_arrow(resolve(predicate, schema), schema))) == 3


def test_a_text_whose_format_does_not_sort_is_the_key() -> None:
    days = dg.DailyPartitionsDefinition(start_date="01.01.2026", fmt="%d.%m.%Y")
    rows = pa.table({"day": ["01.01.2026", "01.02.2026", "02.01.2026"]})
    assert rows_of(days, ["01.01.2026"], rows)["day"].to_pylist() == ["01.01.2026"]


def test_hours_that_a_clock_shows_twice_have_different_keys() -> None:
    hours = dg.HourlyPartitionsDefinition(
        start_date="2026-11-01-00:00", timezone="America/New_York"
    )
    keys = hours.get_partition_keys(datetime(2026, 11, 1, 9, tzinfo=UTC))
    rows = pa.table({"hour": keys})
    for key in keys:
        assert rows_of(hours, [key], rows)["hour"].to_pylist() == [key]


MULTI = dg.MultiPartitionsDefinition(
    {"region": dg.StaticPartitionsDefinition(["be", "nl"]), "week": WEEKS}
)
TWO_COLUMNS = {"week": "date(at)", "region": "country"}


def test_partitions_of_several_dimensions_are_the_rows_of_all() -> None:
    rows = pa.table(
        {"at": [t for t in MOMENTS for _ in range(2)], "country": ["be", "nl"] * len(MOMENTS)}
    )
    schema = schema_from_arrow(rows.schema)

    def found(*keys: tuple[str, str]) -> list[int]:
        names = [dg.MultiPartitionKey({"region": r, "week": w}) for r, w in keys]
        predicate = partition_predicate(TWO_COLUMNS, schema, MULTI, names)
        numbered = rows.append_column("n", [list(range(len(rows)))])
        kept = numbered.filter(to_arrow(resolve(predicate, schema), schema))
        return [int(number) for number in kept["n"].to_pylist()]

    first, second = "2026-01-01", "2026-01-08"
    assert found(("nl", first)) == [3, 5]
    assert found(("nl", first), ("be", second)) == [3, 5, 6]
    assert found(("nl", first), ("nl", second), ("be", first), ("be", second)) == [*range(2, 8)]
    assert found() == []


@pytest.mark.parametrize(
    ("expression", "partitions", "message"),
    [
        ("concat(at, 'x')", WEEKS, "is not supported"),
        ("at", MULTI, "give {'region': ..., 'week': ...}"),
        ({"week": "at"}, MULTI, "give {'region': ..., 'week': ...}"),
        (TWO_COLUMNS, WEEKS, "is a mapping, and the partitions have one dimension"),
        ("year(country)", WEEKS, "is not a whole number"),
        ("timestamp_seconds(at)", WEEKS, "cannot be used on a column of type timestamp"),
        ("date_trunc('week', at)", WEEKS, "cannot be used on a column of type timestamp"),
        ("att", WEEKS, "There is no column att"),
        ("ok", WEEKS, "cannot hold windows"),
    ],
)
def test_an_expression_that_cannot_describe_the_partitions_is_refused(
    expression: Any, partitions: dg.PartitionsDefinition[str], message: str
) -> None:
    rows = pa.table({"at": MOMENTS[:1], "country": ["be"], "ok": [True]})
    keys = ["nl|2026-01-01"] if partitions is MULTI else ["2026-01-01"]
    with pytest.raises(InvalidRequestError) as refused:
        partition_predicate(expression, schema_from_arrow(rows.schema), partitions, keys)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("expression", "key", "message"),
    [
        pytest.param("date(at)", "9999-12-31", "select the value 9999-12-31", id="the last day"),
        pytest.param("year(at)", "20260101", "select the value 20260101", id="a day as a year"),
        pytest.param("year(at)", "0", "outside of the years 1 to 9999", id="the year zero"),
        pytest.param("year(at)", "2026-01-01", "fmt='%Y')", id="a day with hyphens"),
    ],
)
def test_a_partition_outside_of_the_times_of_its_expression_is_refused(
    expression: str, key: str, message: str
) -> None:
    schema, static = schema_from_arrow(AT), dg.StaticPartitionsDefinition([key])
    with pytest.raises(InvalidRequestError) as refused:
        partition_predicate(expression, schema, static, [key])
    assert message in str(refused.value)


def test_no_partitions_are_no_rows() -> None:
    days = dg.DailyPartitionsDefinition(start_date="2026-01-01")
    rows = pa.table({"at": [datetime(2026, 1, 1, tzinfo=UTC)]}, schema=AT)
    assert len(rows_of(days, [], rows)) == 0


def written(root: Path, count: int) -> DeltaLog:
    for i in range(count):
        da.write(root, pa.table({"day": [i]}))
    return DeltaLog(root)


def test_changed_values_come_from_files_since_a_version(tmp_path: Path) -> None:
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


def test_values_of_a_nested_column_are_refused(tmp_path: Path) -> None:
    da.write(tmp_path, pa.table({"place": [{"day": 1}]}))
    with pytest.raises(InvalidRequestError, match="'place' are nested; give a column of single"):
        changed_values(tmp_path, "place", None)

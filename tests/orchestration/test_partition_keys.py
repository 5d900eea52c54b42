"""From values back to partition keys: every row in a partition's predicate gets its key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from delta_ops.orchestration.commits.partition_keys import Dimension, dimension_of, keys_of_values
from delta_ops.protocol.schema.arrow_types import schema_from_arrow

INSTANT, CLOCK = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
NEW_YORK = "America/New_York"
DAILY = dg.DailyPartitionsDefinition("2026-01-01", timezone=NEW_YORK)
UTC_DAYS = dg.DailyPartitionsDefinition("2026-01-01")
HOURLY = dg.HourlyPartitionsDefinition("2026-01-01-00:00", timezone=NEW_YORK)
WEEKLY = dg.WeeklyPartitionsDefinition("2026-01-01", timezone="Asia/Kolkata")
MONTHLY = dg.MonthlyPartitionsDefinition("2026-01-01")
COMPACT = dg.DailyPartitionsDefinition("20260101", fmt="%Y%m%d")
GERMAN = dg.DailyPartitionsDefinition("31.01.2026", fmt="%d.%m.%Y")
YEARLY = dg.TimeWindowPartitionsDefinition(start="2020", cron_schedule="0 0 1 1 *", fmt="%Y")
TICK = timedelta(microseconds=1)


def keys(
    instance: dg.DagsterInstance | None,
    partitions: dg.PartitionsDefinition[Any],
    expression: str,
    values: Sequence[Any],
    data_type: pa.DataType,
) -> list[str | None]:
    dimension = (
        dimension_of(partitions, expression, instance)
        if instance is not None
        else Dimension(partitions=partitions, expression=expression, known=())
    )
    schema = schema_from_arrow(pa.schema([("c", data_type)]))
    return keys_of_values(pa.array(values, data_type), dimension, schema)


def bounds(partitions: dg.TimeWindowPartitionsDefinition, key: str) -> tuple[datetime, datetime]:
    window = partitions.time_window_for_partition_key(key)
    return window.start, window.end


def ends_of_windows() -> Iterator[Any]:
    for name, partitions, some in [
        ("days of a zone", DAILY, ["2026-03-07", "2026-03-08", "2026-11-01", "2026-07-01"]),
        ("days of UTC", UTC_DAYS, ["2026-01-01", "2026-12-31"]),
        ("weeks", WEEKLY, ["2026-01-04", "2026-10-25"]),
        ("months", MONTHLY, ["2026-02-01", "2026-12-01"]),
        ("years", YEARLY, ["2020", "2024"]),
        ("hours", HOURLY, ["2026-03-08-01:00", "2026-03-08-03:00", "2026-07-01-23:00"]),
    ]:
        yield pytest.param(partitions, some, id=name)


@pytest.mark.parametrize(("partitions", "some"), list(ends_of_windows()))
def test_the_first_and_the_last_instant_of_a_window_have_its_key(
    partitions: dg.TimeWindowPartitionsDefinition, some: list[str]
) -> None:
    for key in some:
        start, end = (bound.astimezone(UTC) for bound in bounds(partitions, key))
        found = keys(None, partitions, "c", [start, end - TICK, start - TICK, end], INSTANT)
        assert found[:2] == [key, key]
        assert key not in found[2:]
        clock = [b.replace(tzinfo=None) for b in bounds(partitions, key)]
        assert keys(None, partitions, "c", [clock[0], clock[1] - TICK], CLOCK) == [key, key]


def test_an_hour_that_a_clock_shows_twice_has_two_keys() -> None:
    twice = [datetime(2026, 11, 1, hour, 30, tzinfo=UTC) for hour in (5, 6)]
    first, second = keys(None, HOURLY, "c", twice, INSTANT)
    assert first != second
    assert str(first).startswith("2026-11-01-01:00")
    assert str(second).startswith("2026-11-01-01:00")


@pytest.mark.parametrize(
    ("partitions", "expression", "value", "data_type", "key"),
    [
        pytest.param(DAILY, "c", date(2026, 3, 8), pa.date32(), "2026-03-08", id="a date"),
        pytest.param(DAILY, "c", "2026-03-08", pa.string(), "2026-03-08", id="a text"),
        pytest.param(DAILY, "c", "2026-03-08T12", pa.string(), "2026-03-08", id="a longer text"),
        pytest.param(COMPACT, "c", 20260308, pa.int32(), "20260308", id="a whole number"),
        pytest.param(GERMAN, "c", "08.03.2026", pa.string(), "08.03.2026", id="days first"),
        pytest.param(
            DAILY,
            "date(c)",
            datetime(2026, 3, 8, 1, tzinfo=UTC),
            INSTANT,
            "2026-03-08",
            id="the date in UTC of an instant",
        ),
        pytest.param(
            MONTHLY,
            "date_trunc('day', c)",
            datetime(2026, 3, 31, 23, 59, tzinfo=UTC),
            INSTANT,
            "2026-03-01",
            id="a truncated time",
        ),
        pytest.param(YEARLY, "year(c)", date(2026, 3, 31), pa.date32(), "2026", id="a year"),
        pytest.param(
            HOURLY, "timestamp_millis(c)", 1772946000000, pa.int64(), "2026-03-08-00:00", id="ms"
        ),
        pytest.param(DAILY, "c", "yesterday", pa.string(), None, id="a text that is no date"),
        pytest.param(UTC_DAYS, "c", None, INSTANT, None, id="null"),
    ],
)
def test_values_of_other_types_have_keys(
    partitions: dg.PartitionsDefinition[Any],
    expression: str,
    value: Any,
    data_type: pa.DataType,
    key: str | None,
) -> None:
    assert keys(None, partitions, expression, [value], data_type) == [key]


def test_static_and_dynamic_keys_are_the_existing_keys(instance: dg.DagsterInstance) -> None:
    static = dg.StaticPartitionsDefinition(["1", "02", "x"])
    assert keys(instance, static, "c", [1, 2, 3], pa.int64()) == ["1", "02", None]
    days = dg.StaticPartitionsDefinition(["2026-01-01"])
    instants = [datetime(2026, 1, 1, 23, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)]
    assert keys(instance, days, "date(c)", instants, INSTANT) == ["2026-01-01", None]
    instance.add_dynamic_partitions("regions", ["nl"])
    regions = dg.DynamicPartitionsDefinition(name="regions")
    assert keys(instance, regions, "c", ["nl", "be"], pa.string()) == ["nl", None]
    instance.add_dynamic_partitions("regions", ["be"])
    assert keys(instance, regions, "c", ["nl", "be"], pa.string()) == ["nl", "be"]


@pytest.mark.parametrize(
    ("partitions", "key"),
    [
        pytest.param(dg.StaticPartitionsDefinition(["de", "fr"]), "fr", id="static"),
        pytest.param(
            dg.StaticPartitionsDefinition([f"k{n}" for n in range(1_001)]), "k7", id="many keys"
        ),
        pytest.param(UTC_DAYS, "2026-01-05", id="days"),
    ],
)
def test_a_value_has_its_key_however_many_others_have_none(
    instance: dg.DagsterInstance, partitions: dg.PartitionsDefinition[Any], key: str
) -> None:
    others = [f"other {n}" for n in range(150)]
    found = keys(instance, partitions, "c", [*others, key, *others, key], pa.string())
    assert found == [*[None] * 150, key, *[None] * 150, key]


def test_a_window_is_there_once_it_has_ended() -> None:
    today = datetime.now(UTC).date()
    days = dg.DailyPartitionsDefinition("2026-01-01", end_date="2100-01-01")
    dimension = Dimension(partitions=days, expression="c", known=())
    found = [
        (dimension.has(key), dimension.will_have(key))
        for key in (
            "2025-12-31",
            "2026-01-01",
            today.isoformat(),
            (today + timedelta(days=9)).isoformat(),
            "2100-01-01",
        )
    ]
    no = (False, False)
    assert found == [no, (True, False), (False, True), (False, True), no]

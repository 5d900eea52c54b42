"""Comparison of a date with a time: uses the date's midnight, as Spark does."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import delta_ops.arrow as da
from delta_ops import DeltaLog, col, parse_predicate
from delta_ops.protocol.predicate import Comparison, might_match, must_match, resolve, to_arrow
from delta_ops.protocol.schema import DATE, StructField, StructType

SCHEMA = StructType((StructField("day", DATE),))
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
DAY = date(2026, 1, 31)
DAYS = [DAY + timedelta(days=n) for n in (-1, 0, 1)]
TIMES = [
    datetime(2026, 1, 31),
    datetime(2026, 1, 31, tzinfo=UTC),
    datetime(2026, 1, 31, 0, 0, 0, 1),
    datetime(2026, 1, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(2026, 1, 31, tzinfo=timezone(timedelta(hours=1))),
    datetime(2026, 1, 30, 23, tzinfo=timezone(timedelta(hours=-1))),
]
times, operators = st.sampled_from(TIMES), st.sampled_from(sorted(OPERATORS))


def in_utc(time: datetime) -> datetime:
    return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)


def is_true(day: date, op: str, time: datetime) -> bool:
    return OPERATORS[op](datetime(day.year, day.month, day.day), in_utc(time))


def values_of(predicate: Any) -> list[bool | None]:
    """The predicate's result for each of `DAYS` and for null."""
    rows = pa.table({"day": pa.array([*DAYS, None], pa.date32())})
    found = [
        rows.filter(to_arrow(each, SCHEMA))["day"].to_pylist() for each in (predicate, ~predicate)
    ]
    assert None not in found[0] + found[1]
    assert sorted(found[0] + found[1]) == DAYS
    return [day in found[0] for day in DAYS]


@given(operators, times)
def test_rows_are_compared_by_their_midnight(op: Any, time: datetime) -> None:
    found = values_of(Comparison(("day",), op, time))
    assert found == [is_true(day, op, time) for day in DAYS]


@given(st.lists(times, min_size=1), st.lists(st.sampled_from(DAYS)))
def test_rows_are_looked_up_by_their_midnight(listed: list[datetime], days: list[date]) -> None:
    found = values_of(col("day").isin([*listed, *days]))
    assert found == [day in days or any(is_true(day, "==", t) for t in listed) for day in DAYS]


@given(operators, times, st.sampled_from(DAYS), st.sampled_from(DAYS), st.booleans())
def test_no_file_with_a_matching_row_is_left_out(
    op: Any, time: datetime, one: date, other: date, is_negated: bool
) -> None:
    low, high = sorted([one, other])
    bounds = {"minValues": {"day": str(low)}, "maxValues": {"day": str(high)}}
    stats = pa.array([json.dumps({"numRecords": 2, **bounds, "nullCount": {"day": 0}})])
    predicate = resolve(Comparison(("day",), op, time), SCHEMA)
    predicate = ~predicate if is_negated else predicate
    matches = [is_true(day, op, time) is not is_negated for day in (low, high)]
    assert might_match(predicate, {}, stats).to_pylist() == [True] or not any(matches)
    assert must_match(predicate, {}, stats).to_pylist() == [False] or all(matches)


def test_a_range_of_times_leaves_out_files(tmp_path: Path) -> None:
    for day in DAYS:
        da.write(tmp_path, pa.table({"day": [day], "p": [day]}), mode="append", partition_by=["p"])
    log = DeltaLog(tmp_path)
    for text in (
        "day > TIMESTAMP '2026-01-30 12:00:00' AND day <= TIMESTAMP_NTZ '2026-01-31'",
        "p > TIMESTAMP '2026-01-30 12:00:00' AND p <= TIMESTAMP_NTZ '2026-01-31'",
    ):
        predicate = parse_predicate(text)
        assert da.to_table(log, predicate=predicate)["day"].to_pylist() == [DAY]
        assert len(log.snapshot().files(["path"], predicate)) == 1


def test_resolved_nodes_stay_unchanged() -> None:
    for op in OPERATORS:
        once = resolve(Comparison(("day",), op, TIMES[2]), SCHEMA)  # type: ignore[arg-type]
        assert resolve(once, SCHEMA) == once

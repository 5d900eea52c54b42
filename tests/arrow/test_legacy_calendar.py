"""Files of Spark's legacy calendar: old days are read as the written dates, or rejected."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import delta_ops.arrow as da
from delta_ops import DeltaLog, col
from delta_ops.arrow.read.legacy_days import plan_rebase
from delta_ops.errors import DataFileError
from delta_ops.log.commit_file import create_commit
from delta_ops.maintenance import repair
from delta_ops.protocol.schema import (
    DATE,
    LONG,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    StructField,
    StructType,
    schema_to_json,
)
from delta_ops.protocol.values.legacy_calendar import legacy_calendar
from tests.arrow.foreign_table import create, data_file
from tests.support.tables import PROTOCOL, metadata

VERSION = "org.apache.spark.version"
SPARK_3 = {VERSION: "3.5.0", "org.apache.spark.timeZone": "UTC"}
LEGACY = {**SPARK_3, "org.apache.spark.legacyDateTime": ""}
LEGACY_96 = {**SPARK_3, "org.apache.spark.legacyINT96": ""}
SPARK_2 = {VERSION: "2.4.8"}
EPOCH = date(1970, 1, 1)


def julian_day(year: int, month: int, day: int) -> int:
    """Days since the Unix epoch, by the textbook's formula."""
    before_march = (14 - month) // 12
    years, months = year + 4800 - before_march, month + 12 * before_march - 3
    number = day + (153 * months + 2) // 5 + 365 * years + years // 4 - 32_083
    return number - 2_440_588


OLD, OLD_JULIAN = date(1200, 1, 1), julian_day(1200, 1, 1)
"""The date, and its day number in the Julian calendar."""


@given(st.dates(date(1, 1, 1), date(1582, 10, 4)))
def test_a_date_keeps_its_year_month_and_day(written: date) -> None:
    stored = julian_day(written.year, written.month, written.day)
    rebase = plan_rebase(pa.date32(), legacy_calendar({b"org.apache.spark.version": b"2"}), "d")
    assert rebase is not None
    array = pa.array([stored, None, 0], pa.int32()).cast(pa.date32())
    assert rebase(array).to_pylist() == [written, None, EPOCH]


@given(st.datetimes(datetime(1, 1, 1), datetime(1582, 10, 4)))
def test_a_timestamp_keeps_its_date_and_time_of_day(written: datetime) -> None:
    since = written - datetime(written.year, written.month, written.day)
    days = julian_day(written.year, written.month, written.day)
    stored = days * 86_400_000_000 + since // timedelta(microseconds=1)
    marks = {b"org.apache.spark.version": b"2", b"org.apache.spark.timeZone": b"UTC"}
    rebase = plan_rebase(pa.timestamp("us", "UTC"), legacy_calendar(marks), "t")
    assert rebase is not None
    array = pa.array([stored, None, -1], pa.int64()).cast(pa.timestamp("us", "UTC"))
    new = datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)
    assert rebase(array).to_pylist() == [written.replace(tzinfo=UTC), None, new]


def table(
    root: Path, marks: dict[str, str], rows: pa.Table, *types: Any, **options: Any
) -> DeltaLog:
    fields = (StructField(n, t) for n, t in zip(rows.column_names, types, strict=True))
    marked = rows.replace_schema_metadata(marks)
    return create(root, StructType(tuple(fields)), [data_file(root, "x", marked, options=options)])


def days(*numbers: int) -> pa.Array:
    return pa.array(numbers, pa.int32()).cast(pa.date32())


def times(*numbers: int, zone: str | None = "UTC") -> pa.Array:
    numbers = tuple(n * 86_400_000_000 for n in numbers)
    return pa.array(numbers, pa.int64()).cast(pa.timestamp("us", zone))


OLD_TIME = datetime(1200, 1, 1, tzinfo=UTC)
SHIFTED = EPOCH + timedelta(days=OLD_JULIAN)


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        pytest.param(LEGACY, OLD, id="marked as legacy"),
        pytest.param(SPARK_2, OLD, id="of Spark 2"),
        pytest.param(LEGACY_96, SHIFTED, id="legacy for INT96 only"),
        pytest.param(SPARK_3, SHIFTED, id="of Spark 3"),
        pytest.param({"writer": "other"}, SHIFTED, id="of another writer"),
    ],
)
def test_which_dates_are_of_the_legacy_calendar(
    tmp_path: Path, marks: dict[str, str], expected: date
) -> None:
    log = table(tmp_path, marks, pa.table({"d": days(OLD_JULIAN, 0)}), DATE)
    assert da.to_table(log)["d"].to_pylist() == [expected, EPOCH]


def test_old_values_are_found_at_every_depth_and_whatever_they_were_widened_to(
    tmp_path: Path,
) -> None:
    inner = StructType((StructField("d", DATE),))
    old = days(OLD_JULIAN)
    rows = pa.table(
        {
            "s": pa.StructArray.from_arrays([old], ["d"]),
            "l": pa.ListArray.from_arrays([0, 1], old),
            "n": old,
            "t": times(OLD_JULIAN),
            "ntz": times(OLD_JULIAN, zone=None),
        }
    )
    log = table(
        tmp_path,
        LEGACY,
        rows,
        inner,
        ArrayType(DATE, True),
        TIMESTAMP_NTZ,
        TIMESTAMP,
        TIMESTAMP_NTZ,
    )
    (row,) = da.to_table(log).to_pylist()
    shifted = datetime(SHIFTED.year, SHIFTED.month, SHIFTED.day)
    assert row == {
        "s": {"d": OLD},
        "l": [OLD],
        "n": OLD_TIME.replace(tzinfo=None),
        "t": OLD_TIME,
        "ntz": shifted,  # local times never used that calendar
    }


@pytest.mark.parametrize(
    ("marks", "expected"),
    [pytest.param(LEGACY_96, OLD, id="marked"), pytest.param(LEGACY, SHIFTED, id="not so")],
)
def test_timestamps_of_int96_have_a_mark_of_their_own(
    tmp_path: Path, marks: dict[str, str], expected: date
) -> None:
    rows = pa.table({"t": times(OLD_JULIAN)})
    log = table(tmp_path, marks, rows, TIMESTAMP, use_deprecated_int96_timestamps=True)
    (found,) = da.to_table(log)["t"].to_pylist()
    assert found == datetime(expected.year, expected.month, expected.day, tzinfo=UTC)


@pytest.mark.parametrize(
    ("marks", "rows", "data_type"),
    [
        pytest.param(LEGACY, days(-719_165), DATE, id="a date before year 1"),
        pytest.param(
            {**LEGACY, "org.apache.spark.timeZone": "Europe/Amsterdam"},
            times(-30_000),
            TIMESTAMP,
            id="a timestamp of another zone",
        ),
        pytest.param(SPARK_2, times(-30_000), TIMESTAMP, id="a timestamp of an unknown zone"),
    ],
)
def test_ambiguous_old_dates_are_refused_only_where_they_are_read(
    tmp_path: Path, marks: dict[str, str], rows: pa.Array, data_type: Any
) -> None:
    log = table(tmp_path / "old", marks, pa.table({"x": rows, "i": [1]}), data_type, LONG)
    with pytest.raises(DataFileError, match=r"column x has .* of Spark's legacy calendar"):
        da.to_table(log)
    assert da.to_table(log, ["i"])["i"].to_pylist() == [1]
    new = pa.table({"x": days(-20_000) if data_type == DATE else times(-20_000), "i": [1]})
    assert len(da.to_table(table(tmp_path / "new", marks, new, data_type, LONG))) == 1


def test_no_row_is_missed_by_the_numbers_of_the_footer(tmp_path: Path) -> None:
    rows = pa.table({"d": days(OLD_JULIAN, OLD_JULIAN - 1), "i": [1, 2]})
    schema = StructType((StructField("d", DATE), StructField("i", LONG)))
    add = data_file(
        tmp_path, "x", rows.replace_schema_metadata(LEGACY), options={"row_group_size": 1}
    )
    described = metadata(schema_string=schema_to_json(schema))
    log = DeltaLog(tmp_path)
    create_commit(log.storage, log.log_directory, 0, [PROTOCOL, described, add])
    for described_files in (1, 0):  # the second time with statistics from a repair
        assert da.to_table(log, predicate=col("d") == OLD)["i"].to_pylist() == [1]
        assert da.to_table(log, predicate=col("d") < OLD)["i"].to_pylist() == [2]
        assert repair(log).described_files == described_files

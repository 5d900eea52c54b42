"""Legacy days: convert old dates and timestamps from the legacy calendar to the Gregorian one.

Source: Spark's `RebaseDateTime`. A date keeps its year, month and day; a timestamp also keeps its
time of day.

See `protocol.values.legacy_calendar`. Values without an exact conversion are rejected: days before
year 1, and timestamps before 1900 written in a zone other than UTC, because the two calendars use
different historical offsets. Newer values stay unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from delta_ops.arrow.nesting import Convert
from delta_ops.protocol.arrow_values import scalar
from delta_ops.protocol.values.legacy_calendar import LegacyCalendar

_GREGORIAN_SINCE = -141_427
"""15 October 1582, in days since the Unix epoch."""
_FIRST_DAY = -719_164
"""1 January of year 1 of the Julian calendar."""
_DAYS_BEFORE_MARCH = 31 + 29
_DAY_US = 86_400_000_000
_ZONES_AGREE_SINCE_US = -2_208_988_800_000_000
"""1 January 1900."""
_UTC = frozenset({"UTC", "Etc/UTC", "GMT", "Z"})


class LegacyCalendarError(ValueError):
    """An old value has no exact conversion."""


def plan_rebase(source: pa.DataType, calendar: LegacyCalendar, path: str) -> Convert | None:
    """Plan how to rebase a column of a file; None if its values need no rebase.

    Args:
        source: The column's type in the file. An INT96 timestamp has no zone.
        calendar: The calendar of the file.
        path: The column, for messages.
    """
    if pt.is_date(source) and calendar.dates:
        return lambda array: _rebased_dates(array, path)
    if pt.is_timestamp(source) and (calendar.dates if source.tz else calendar.int96):
        return lambda array: _rebased_times(array, calendar.zone, path)
    return None


def _rebased_dates(array: pa.Array, path: str) -> pa.Array:
    days = array.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    return _rebased_days(days, path).cast(pa.int32()).cast(pa.date32())


def _rebased_times(array: pa.Array, zone: str | None, path: str) -> pa.Array:
    times = array.cast(pa.timestamp("us", array.type.tz), safe=False).cast(pa.int64())
    if zone not in _UTC and _is_before(times, _ZONES_AGREE_SINCE_US):
        of_zone = "an unknown time zone" if zone is None else zone
        raise LegacyCalendarError(
            f"column {path} has timestamps before 1900 of Spark's legacy calendar, in {of_zone}"
        )
    if not _is_before(times, _GREGORIAN_SINCE * _DAY_US):
        return array
    # Round down to whole days; Arrow's division rounds towards zero.
    of_day = pc.subtract(times, pc.multiply(_FIRST_DAY * 2, _DAY_US))
    days = pc.add(pc.divide(of_day, _DAY_US), _FIRST_DAY * 2)
    rest = pc.subtract(times, pc.multiply(days, _DAY_US))
    rebased = pc.add(pc.multiply(_rebased_days(days, path), _DAY_US), rest)
    return rebased.cast(pa.timestamp("us", array.type.tz)).cast(array.type)


def _is_before(numbers: pa.Array, limit: int) -> bool:
    lowest = pc.min(numbers).as_py()
    return lowest is not None and lowest < limit


def _rebased_days(days: pa.Array, path: str) -> pa.Array:
    if _is_before(days, _FIRST_DAY):
        raise LegacyCalendarError(
            f"column {path} has days before year 1 of Spark's legacy calendar"
        )
    if not _is_before(days, _GREGORIAN_SINCE):
        return days
    is_old = pc.less(days, _GREGORIAN_SINCE)
    old = days.filter(is_old)
    shift = pa.repeat(scalar(2, pa.int64()), len(old))
    for since, by in _shifts():
        shift = pc.if_else(pc.greater_equal(old, since), by, shift)
    return pc.replace_with_mask(days, is_old, pc.add(old, shift))


def _shifts() -> Iterator[tuple[int, int]]:
    """Yield pairs of a day and the difference of the calendars in days from then on, ascending.

    The difference changes by one day after each February that has 29 days only in the Julian
    calendar.
    """
    shift = 2
    yield _FIRST_DAY, shift
    for year in range(100, 1600, 100):
        if year % 400:
            shift -= 1
            yield _FIRST_DAY + (year - 1) * 365 + (year - 1) // 4 + _DAYS_BEFORE_MARCH, shift

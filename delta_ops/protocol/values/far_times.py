"""Far times: dates and times that Python's own types cannot hold, as text.

Source: ISO 8601, "expanded representations", with the signs that Java and Spark print.

Python knows the years 1 to 9999. Delta has dates of 32 bits and timestamps of 64, and a log may say
any number of milliseconds. A year past 9999 has a plus sign, one before 0000 a minus; the year 0000
is 1 BC. The calendar repeats itself every 400 years: a far day is a near one of another year.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

_US_PER_DAY = 86_400_000_000
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400
_EPOCH = date(1970, 1, 1)


def date_text(days: int) -> str:
    """Days since the Unix epoch, as ISO 8601 has them."""
    cycles, rest = divmod(days, _CYCLE_DAYS)
    return _replace_year((_EPOCH + timedelta(rest)).isoformat(), cycles)


def timestamp_text(us: int, *, is_utc: bool) -> str:
    """Microseconds since the Unix epoch, as ISO 8601 has them; without a zone if it is none."""
    cycles, rest = divmod(us, _CYCLE_DAYS * _US_PER_DAY)
    near = datetime(1970, 1, 1, tzinfo=UTC if is_utc else None) + timedelta(microseconds=rest)
    return _replace_year(time_text(near), cycles)


def utc_text(ms: int) -> str:
    """Milliseconds since the Unix epoch, as ISO 8601 has them, in UTC."""
    return timestamp_text(ms * 1000, is_utc=True)


def time_text(value: datetime) -> str:
    """The text of a time, with milliseconds, or microseconds where it has any."""
    return value.isoformat(timespec="microseconds" if value.microsecond % 1000 else "milliseconds")


def _replace_year(near: str, cycles: int) -> str:
    year = int(near[:4]) + cycles * _CYCLE_YEARS
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}{near[4:]}"

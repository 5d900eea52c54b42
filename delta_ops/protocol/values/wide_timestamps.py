"""Far times: text of dates and times that Python's types cannot hold.

Source: ISO 8601, "expanded representations", with the signs that Java and Spark print.

Python supports the years 1 to 9999. Delta has 32-bit dates and 64-bit timestamps, and a log may
contain any number of milliseconds. A year above 9999 has a plus sign, a year below 0000 a minus
sign; the year 0000 is 1 BC. The calendar repeats every 400 years, so a far date is computed as a
near date with another year.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

_US_PER_DAY = 86_400_000_000
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400
_EPOCH = date(1970, 1, 1)


def date_text(days: int) -> str:
    """Format days since the Unix epoch as an ISO 8601 date."""
    cycles, rest = divmod(days, _CYCLE_DAYS)
    return _replace_year((_EPOCH + timedelta(rest)).isoformat(), cycles)


def timestamp_text(us: int, *, is_utc: bool) -> str:
    """Format microseconds since the Unix epoch as ISO 8601, with a zone only if in UTC."""
    cycles, rest = divmod(us, _CYCLE_DAYS * _US_PER_DAY)
    near = datetime(1970, 1, 1, tzinfo=UTC if is_utc else None) + timedelta(microseconds=rest)
    return _replace_year(time_text(near), cycles)


def utc_text(ms: int) -> str:
    """Format milliseconds since the Unix epoch as ISO 8601 in UTC."""
    return timestamp_text(ms * 1000, is_utc=True)


def time_text(value: datetime) -> str:
    """Format a time with milliseconds, or with microseconds if necessary."""
    return value.isoformat(timespec="microseconds" if value.microsecond % 1000 else "milliseconds")


def _replace_year(near: str, cycles: int) -> str:
    year = int(near[:4]) + cycles * _CYCLE_YEARS
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}{near[4:]}"

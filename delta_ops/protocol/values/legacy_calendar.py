"""Legacy calendar: which data files count old days by the calendar of Spark before 3.0.

Source: Spark's `DataSourceUtils` (what is said in the key-value metadata of a Parquet file).

Before 15 October 1582 that calendar is the Julian one, by which the same number means another date
than by the proleptic Gregorian calendar that Delta has. A file that names no version of Spark is
taken for one of the Gregorian calendar.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

_VERSION = b"org.apache.spark.version"
_ZONE = b"org.apache.spark.timeZone"
_OF_DATES = (b"3.0.0", b"org.apache.spark.legacyDateTime")
_OF_INT96 = (b"3.1.0", b"org.apache.spark.legacyINT96")


class LegacyCalendar(NamedTuple):
    """What of a file is of the legacy calendar."""

    dates: bool
    """Dates, and timestamps of type INT64."""
    int96: bool
    """Timestamps of type INT96."""
    zone: str | None
    """The time zone of its writer; None where it is not known."""

    @property
    def is_used(self) -> bool:
        """Whether anything is."""
        return self.dates or self.int96


GREGORIAN = LegacyCalendar(dates=False, int96=False, zone=None)


def legacy_calendar(metadata: Mapping[bytes, bytes] | None) -> LegacyCalendar:
    """What the key-value metadata of a Parquet file says of it."""
    version = (metadata or {}).get(_VERSION)
    if metadata is None or version is None:
        return GREGORIAN
    # As texts, as Spark compares them.
    dates, int96 = (version < first or key in metadata for first, key in (_OF_DATES, _OF_INT96))
    zone = metadata.get(_ZONE)
    return LegacyCalendar(
        dates=dates, int96=int96, zone=None if zone is None else zone.decode(errors="replace")
    )

"""Legacy calendar: detects data files with the calendar of Spark before 3.0.

Source: Spark's `DataSourceUtils` (key-value metadata of Parquet files).

The legacy calendar is Julian before 15 October 1582, so a number means a different date than in
Delta's proleptic Gregorian calendar. A file without a Spark version is assumed to be Gregorian.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

_VERSION = b"org.apache.spark.version"
_ZONE = b"org.apache.spark.timeZone"
_OF_DATES = (b"3.0.0", b"org.apache.spark.legacyDateTime")
_OF_INT96 = (b"3.1.0", b"org.apache.spark.legacyINT96")


class LegacyCalendar(NamedTuple):
    """Columns of a file that use the legacy calendar."""

    dates: bool
    """Dates, and timestamps of type INT64."""
    int96: bool
    """Timestamps of type INT96."""
    zone: str | None
    """The writer's time zone; None if unknown."""

    @property
    def is_used(self) -> bool:
        """Whether any column uses the legacy calendar."""
        return self.dates or self.int96


GREGORIAN = LegacyCalendar(dates=False, int96=False, zone=None)


def legacy_calendar(metadata: Mapping[bytes, bytes] | None) -> LegacyCalendar:
    """Detect the calendar from the key-value metadata of a Parquet file."""
    version = (metadata or {}).get(_VERSION)
    if metadata is None or version is None:
        return GREGORIAN
    # Versions are compared as texts, as in Spark.
    dates, int96 = (version < first or key in metadata for first, key in (_OF_DATES, _OF_INT96))
    zone = metadata.get(_ZONE)
    return LegacyCalendar(
        dates=dates, int96=int96, zone=None if zone is None else zone.decode(errors="replace")
    )

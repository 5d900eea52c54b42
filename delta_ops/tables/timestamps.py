"""Timestamps as texts, which mean what Spark makes of them in the session's time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from delta_ops.errors import InvalidRequestError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_timestamp(spark: SparkSession, text: str) -> datetime:
    """The time that a text says.

    Raises:
        InvalidRequestError: It says none.
    """
    time = sf.unix_micros(sf.lit(text).try_cast("timestamp"))
    (row,) = spark.range(1).select(time.alias("micros")).collect()
    if row["micros"] is None:
        raise InvalidRequestError(
            f"The provided timestamp ('{text}') cannot be converted to a valid timestamp; write it "
            "as 2026-01-31 or 2026-01-31 12:00:00"
        )
    return _EPOCH + timedelta(microseconds=row["micros"])

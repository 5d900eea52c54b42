"""Input and output locations of the pipeline, from the environment.

FLIGHTS     a file of flight records, or a folder of daily files; if unset, generated files
FIRST_DAY   of the pipeline, as 2001-01-01: its partitions begin there, and records of earlier
            flights are out of range; if unset, the first day of the generated files, and for a
            given input 1987-10-01, when such records began
LAKE        the folder of the tables, or its address in an object store, such as s3://bucket/lake,
            with credentials from the environment; if unset, a folder under `.lake/` for each input
"""

import hashlib
import os
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Literal

import dagster as dg
from pyspark.sql import DataFrame, SparkSession

from delta_ops.spark import packages
from examples.flights.generate import first_day_of, generate_month
from examples.flights.sources import InputError, InputFile, airports_path, list_inputs

_STORES: Mapping[str, Literal["s3", "gcs", "azure"]] = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "abfs": "azure",
    "abfss": "azure",
    "az": "azure",
}
_EARLIEST_DAY = date(1987, 10, 1)
PROJECT = Path(__file__).resolve().parents[2]
GENERATED_INPUT = PROJECT / ".lake" / "generated-input"


class FlightsInput(dg.ConfigurableResource[None]):
    """The input files and the airports."""

    path: str
    """A file or folder; the folder of generated files is created on first use."""
    generated: bool

    def files(self) -> list[InputFile]:
        """The current files."""
        if self.generated:
            generate_month(Path(self.path), generated_first_day())
        return list_inputs(Path(self.path))

    def airports(self, spark: SparkSession) -> DataFrame:
        """One row per airport code."""
        airports = spark.read.csv(str(airports_path(Path(self.path))), header=True)
        return airports.dropDuplicates(["iata"])


def flights_path() -> tuple[Path, bool]:
    """The input, and whether it is generated."""
    value = os.environ.get("FLIGHTS", "")
    if value:
        return Path(value).expanduser().resolve(), False
    return GENERATED_INPUT, True


def first_day() -> date:
    """The pipeline's first partition day.

    Raises:
        InputError: FIRST_DAY is no date.
    """
    value = os.environ.get("FIRST_DAY", "")
    if not value:
        return generated_first_day() if flights_path()[1] else _EARLIEST_DAY
    try:
        return date.fromisoformat(value)
    except ValueError as error:
        raise InputError("FIRST_DAY", f"is {value!r}", "give a date such as 2001-01-01") from error


def generated_first_day() -> date:
    """The day of the first generated file."""
    return first_day_of(GENERATED_INPUT, datetime.now(UTC).date())


def lake_address() -> str:
    """The folder of the tables, or its address in a store."""
    lake = os.environ.get("LAKE", "")
    if "://" in lake:
        return lake.rstrip("/")
    if lake:
        return str(Path(lake).expanduser().resolve())
    path, generated = flights_path()
    if generated:
        return str(PROJECT / ".lake" / "generated")
    return str(PROJECT / ".lake" / f"{path.stem}-{_short_hash(str(path))}")


def connectors(lake: str) -> Mapping[str, str]:
    """Spark settings that install the connector for the tables' store."""
    scheme = lake.partition("://")[0] if "://" in lake else ""
    store = _STORES.get(scheme)
    return {} if store is None else packages(store)


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
